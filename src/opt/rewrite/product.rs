//! Products of matrices, however they are written: `R.matmul(a, b)` or `onnx.Gemm(a, b, c, …)`.

use irc_syntax::Expr;

use super::Site;
use crate::check::prim::Prim;

/// alpha · a · b + beta · c, with a and b transposed first where it says so.
#[derive(Clone, Debug)]
pub struct Product {
    /// The left matrix.
    pub a: Expr,
    /// The right matrix.
    pub b: Expr,
    /// What is added, if anything is.
    pub c: Option<Expr>,
    /// The factor of the product.
    pub alpha: f64,
    /// The factor of the sum.
    pub beta: f64,
    /// Whether `a` is transposed.
    pub trans_a: bool,
    /// Whether `b` is transposed.
    pub trans_b: bool,
}

impl Product {
    /// Reads one of two matrices of floats.
    pub fn read(site: &Site, value: &Expr) -> Option<Self> {
        let op = site.operator(value)?;
        if op.is("onnx.Gemm") {
            return Some(Self {
                a: op.get("a")?.clone(),
                b: op.get("b")?.clone(),
                c: op.get("c").cloned(),
                alpha: op.float("alpha")?,
                beta: op.float("beta")?,
                trans_a: op.int("transA")? != 0,
                trans_b: op.int("transB")? != 0,
            });
        }
        let call = site.prim(value).filter(|call| call.prim == Prim::Matmul)?;
        let (a, b) = (call.operand("a")?, call.operand("b")?);
        let is_matrix = |side: &Expr| site.shape(side).is_some_and(|dims| dims.len() == 2);
        let dtype = site.dtype(a).filter(|dtype| dtype.is_float())?;
        let same = call
            .opt_dtype("out_dtype")
            .is_none_or(|wanted| wanted == dtype);
        (is_matrix(a) && is_matrix(b) && same).then(|| Self {
            a: a.clone(),
            b: b.clone(),
            c: None,
            alpha: 1.0,
            beta: 1.0,
            trans_a: false,
            trans_b: false,
        })
    }

    /// Writes it: as `R` does where it is nothing but a product, as ONNX does otherwise.
    pub fn write(&self, site: &Site) -> Expr {
        let (a, b) = (self.a.clone(), self.b.clone());
        let plain = self.alpha == 1.0 && !self.trans_a && !self.trans_b;
        let call = match &self.c {
            None if plain => return Expr::call("R.matmul", [a, b]),
            None => Expr::call("onnx.Gemm", [a, b]),
            Some(c) => Expr::call("onnx.Gemm", [a, b, c.clone()]),
        };
        call.with("alpha", Expr::float(self.alpha))
            .with("beta", Expr::float(self.beta))
            .with("transA", Expr::int(i128::from(self.trans_a)))
            .with("transB", Expr::int(i128::from(self.trans_b)))
            .with("since", Expr::int(site.since("onnx.Gemm")))
    }

    /// The factors of `b`'s elements when each column of the result has one of `factors`.
    pub fn scale_columns(&self, elements: &mut [f64], factors: &[f64]) {
        let n = factors.len().max(1);
        let rows = (elements.len() / n).max(1);
        for (at, element) in elements.iter_mut().enumerate() {
            *element *= factors[if self.trans_b { at / rows } else { at % n }];
        }
    }
}

/// The numbers of a constant, one a column of `n`: it has one row and these, or is one number for all.
pub fn by_column(site: &Site, constant: &Expr, n: usize) -> Option<Vec<f64>> {
    let dims = site.shape(constant)?;
    let (last, others) = match dims.split_last() {
        Some((last, others)) => (last.as_int()?, others),
        None => (1, &[][..]),
    };
    if !others.iter().all(|dim| dim.as_int() == Some(1)) {
        return None;
    }
    // What is as wide as the result is read; others cannot be anything but one number.
    if last != 1 && usize::try_from(last).ok() != Some(n) {
        return None;
    }
    match site.numbers(constant)?.as_slice() {
        [one] => Some(vec![*one; n]),
        many => Some(many.to_vec()),
    }
}

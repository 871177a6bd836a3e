//! Multiplies a constant factor of a product into its weight, and into what is added to it.
//!
//!     a = R.matmul(x, w)
//!     b = R.add(a, c)
//!     y = R.multiply(b, R.const(0.125))          →      a = R.matmul(x, w · 0.125)
//!                                                       y = R.add(a, c · 0.125)
//!
//! The factor is one number, or one a column. Refused where a weight is no constant, and where weights or sums are read
//! elsewhere too.

use irc_syntax::Expr;

use super::product::{Product, by_column};
use super::{Binding, Rewrite, Site, pass, round};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_mul_into_gemm",
    "a factor of a product of matrices by column is part of its weight"
);

pub(in crate::opt) fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Binary(Binary::Multiply) {
        return None;
    }
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let (value, factor) = match site.constant_shape(b) {
        Some(_) => (a, b),
        None => (b, a),
    };
    site.constant_shape(factor)?;
    let def = site.def(value)?;
    let (product, sum) = match linear(site, def) {
        Some(product) => (product, None),
        None => {
            let add = site
                .prim(def)
                .filter(|add| add.prim == Prim::Binary(Binary::Add))?;
            let (a, b) = (add.operand("a")?, add.operand("b")?);
            let (inner, added) = match site.constant_shape(b) {
                Some(_) => (a, b),
                None => (b, a),
            };
            site.constant_shape(added)?;
            (
                linear(site, site.def(inner)?)?,
                Some((inner.clone(), added.clone())),
            )
        }
    };
    let n = usize::try_from(site.result_shape(binding)?.last()?.as_int()?).ok()?;
    let is_shared =
        site.uses(value) != 1 || sum.as_ref().is_some_and(|(inner, _)| site.uses(inner) != 1);
    if is_shared || site.uses(&product.b) != 1 {
        return site.refuse(binding, "a sum or a weight is read elsewhere too");
    }
    let Some(factors) = by_column(site, factor, n) else {
        return site.refuse(binding, "it is no factor by column");
    };
    let dtype = site.dtype(&product.b)?;
    let scaled = |constant: &Expr| -> Option<Expr> {
        let numbers = by_column(site, constant, n)?;
        let numbers: Vec<f64> = numbers
            .iter()
            .zip(&factors)
            .map(|(old, factor)| old * factor)
            .collect();
        Some(site.revise(constant, round(vec![n], &numbers, dtype)?))
    };
    let Some(mut w) = site.numbers(&product.b) else {
        return site.refuse(binding, "a weight is no constant");
    };
    product.scale_columns(&mut w, &factors);
    let c = match &product.c {
        Some(c) => Some(scaled(c)?),
        None => None,
    };
    let added = match &sum {
        Some((inner, added)) => Some((inner, scaled(added)?)),
        None => None,
    };
    let b = site.revise(
        &product.b,
        round(site.constant(&product.b)?.shape, &w, dtype)?,
    );
    let scaled = Product { b, c, ..product }.write(site);
    Some(Rewrite::Value(match added {
        None => scaled,
        Some((inner, added)) => {
            let inner = site.step(inner.as_name()?.as_str(), scaled);
            Expr::call("R.add", [inner, added])
        }
    }))
}

/// A product by a matrix, whatever the rank of what it multiplies.
fn linear(site: &Site, value: &Expr) -> Option<Product> {
    if let Some(product) = Product::read(site, value) {
        return Some(product);
    }
    let call = site.prim(value).filter(|call| call.prim == Prim::Matmul)?;
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let dtype = site.dtype(a).filter(|dtype| dtype.is_float())?;
    let same = call
        .opt_dtype("out_dtype")
        .is_none_or(|wanted| wanted == dtype);
    (same && site.shape(b)?.len() == 2).then(|| Product {
        a: a.clone(),
        b: b.clone(),
        c: None,
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: false,
    })
}

//! Multiplies a value by several weights in one product: queries, keys and values of attention.
//!
//!     q = R.matmul(x, wq)                    a = R.matmul(x, w)                    (w has the columns of all)
//!     k = R.matmul(x, wk)                    t = R.split(a, indices_or_sections=3, axis=2)
//!     v = R.matmul(x, wv)            →       q = t[0]
//!                                            k = t[1]
//!                                            v = t[2]
//!
//! For three weights and more, since two products are no more than a product and a split. Refused where a weight is read
//! elsewhere too: the columns would be there twice.

use irc_syntax::Expr;

use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::Prim;
use crate::opt::Pass;
use crate::tensor::Tensor;

/// The pass.
pub const PASS: Pass = pass!(
    "combine_parallel_matmul",
    "products of one value by several weights are one product"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let (x, w) = factors(site, binding.value)?;
    let mut weights: Vec<Expr> = Vec::new();
    for value in site.readers(&x) {
        let Some((other, weight)) = factors(site, &value) else {
            continue;
        };
        if other.as_name() == x.as_name()
            && weights
                .iter()
                .all(|known| known.as_name() != weight.as_name())
        {
            weights.push(weight);
        }
    }
    let first = site.constant_shape(&w)?;
    weights.retain(|weight| {
        site.constant_shape(weight)
            .is_some_and(|dims| dims[0] == first[0])
    });
    let at = weights
        .iter()
        .position(|weight| weight.as_name() == w.as_name())?;
    if weights.len() < LEAST {
        return None;
    }
    if weights.iter().any(|weight| site.uses(weight) > 1) {
        return site.refuse(binding, "a weight is read elsewhere too");
    }
    let widths: Option<Vec<usize>> = weights
        .iter()
        .map(|weight| Some(site.constant_shape(weight)?[1]))
        .collect();
    let widths = widths?;
    let rank = site.shape(&x)?.len();
    let hint = format!("{}_parts", x.as_name()?);
    let names: Vec<&str> = weights
        .iter()
        .filter_map(|weight| Some(weight.as_name()?.as_str()))
        .collect();
    let key = format!("{} {}", x.as_name()?, names.join(" "));
    let parts = match site.recall(&key) {
        Some(parts) => parts,
        None => {
            let w = site.keep(
                &format!("{}_all", w.as_name()?),
                side_by_side(site, &weights, first[0], &widths)?,
            );
            let product = site.step(
                &format!("{}_all", x.as_name()?),
                Expr::call("R.matmul", [x, w]),
            );
            let sections = if widths.iter().all(|&width| width == widths[0]) {
                Expr::int(widths.len() as i128)
            } else {
                let mut end = 0;
                Expr::list(widths[..widths.len() - 1].iter().map(|&width| {
                    end += width;
                    Expr::int(end as i128)
                }))
            };
            let split = Expr::call("R.split", [product])
                .with("indices_or_sections", sections)
                .with("axis", Expr::int(rank as i128 - 1));
            let parts = site.step(&hint, split);
            site.remember(key, &parts);
            parts
        }
    };
    Some(Rewrite::Value(Expr::index(parts, [Expr::int(at as i128)])))
}

/// How many weights there are at least.
const LEAST: usize = 3;

/// A value that is multiplied by a weight of two axes.
fn factors(site: &Site, value: &Expr) -> Option<(Expr, Expr)> {
    let call = site.prim(value).filter(|call| call.prim == Prim::Matmul)?;
    let (x, w) = (call.operand("a")?, call.operand("b")?);
    let dtype = site.dtype(x)?;
    let same = call
        .opt_dtype("out_dtype")
        .is_none_or(|wanted| wanted == dtype);
    let fits = same && x.as_name().is_some() && w.as_name().is_some() && site.shape(x)?.len() >= 2;
    (fits && site.constant_shape(w)?.len() == 2).then(|| (x.clone(), w.clone()))
}

/// The columns of all weights.
fn side_by_side(site: &Site, weights: &[Expr], rows: usize, widths: &[usize]) -> Option<Tensor> {
    let tensors: Option<Vec<Tensor>> = weights.iter().map(|weight| site.constant(weight)).collect();
    let tensors = tensors?;
    let dtype = tensors[0].dtype;
    let mut data = Vec::new();
    for row in 0..rows {
        for tensor in &tensors {
            let bytes = tensor.data.len() / rows.max(1);
            data.extend_from_slice(tensor.data.get(row * bytes..(row + 1) * bytes)?);
        }
    }
    let same = tensors
        .iter()
        .all(|tensor| tensor.dtype == dtype && tensor.strings.is_none());
    Tensor::new(dtype, vec![rows, widths.iter().sum()], data).filter(|_| same)
}

//! Takes columns of a product instead of columns of its weight.
//!
//!     t = R.take(w, i, axis=1)                     p = R.matmul(x, w)
//!     y = R.matmul(x, t)                  →        y = R.take(p, i, axis=1)
//!
//! Refused where the taken columns are read elsewhere too.

use irc_syntax::Expr;

use super::view::from_front;
use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::Prim;
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "reorder_take_after_matmul",
    "columns of a weight are taken after the product"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Matmul || call.opt_dtype("out_dtype").is_some() {
        return None;
    }
    let (x, taken) = (call.operand("a")?, call.operand("b")?);
    let take = site
        .prim(site.def(taken)?)
        .filter(|take| take.prim == Prim::Take)?;
    let (w, index) = (take.operand("x")?, take.operand("indices")?);
    let rank = site.shape(x)?.len();
    let fits = site.shape(w)?.len() == 2 && site.shape(index)?.len() == 1 && rank >= 2;
    if !fits || from_front(&[take.opt_int("axis")?], 2)? != [1] {
        return None;
    }
    if site.uses(taken) != 1 {
        return site.refuse(binding, "the taken columns are read elsewhere too");
    }
    let product = Expr::call("R.matmul", [x.clone(), w.clone()]);
    let product = site.step(binding.name.as_str(), product);
    let call = Expr::call("R.take", [product, index.clone()]);
    Some(Rewrite::Value(
        call.with("axis", Expr::int(rank as i128 - 1)),
    ))
}

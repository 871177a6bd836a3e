//! Multiplies by both sides of a sum of weights, as adapters of low rank want it.
//!
//!     s = R.add(w, d)                          p = R.matmul(x, w)
//!     y = R.matmul(x, s)             →         q = R.matmul(x, d)
//!                                              y = R.add(p, q)
//!
//! Refused where the sum is one of constants, which is better computed beforehand, where its sides differ in extents, and
//! where it is read elsewhere too.

use irc_syntax::Expr;

use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "expand_matmul_of_sum",
    "a product by a sum of two weights is a sum of two products"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Matmul || call.opt_dtype("out_dtype").is_some() {
        return None;
    }
    let (x, w) = (call.operand("a")?, call.operand("b")?);
    let sum = site
        .prim(site.def(w)?)
        .filter(|sum| sum.prim == Prim::Binary(Binary::Add))?;
    let (a, b) = (sum.operand("a")?, sum.operand("b")?);
    if site.constant_shape(a).is_some() && site.constant_shape(b).is_some() {
        return site.refuse(binding, "the sum is one of constants");
    }
    if site.shape(a)? != site.shape(b)? {
        return site.refuse(binding, "the sides of the sum differ in extents");
    }
    if site.uses(w) != 1 {
        return site.refuse(binding, "the sum is read elsewhere too");
    }
    let hint = binding.name.as_str();
    let product = |side: &Expr| site.step(hint, Expr::call("R.matmul", [x.clone(), side.clone()]));
    Some(Rewrite::Value(Expr::call(
        "R.add",
        [product(a), product(b)],
    )))
}

//! Keeps the axes of a reduction that are brought back after it.
//!
//!     a = R.sum(x, axis=[1])
//!     y = R.expand_dims(a, axis=[1])          →      y = R.sum(x, axis=[1], keepdims=True)
//!
//! Refused where the reduction is read elsewhere too.

use irc_syntax::Expr;

use super::view::{from_front, places, viewed};
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;
use crate::shape::Dim;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_consecutive_reduce_unsqueeze",
    "a reduction keeps the axes that are brought back after it"
);

const REDUCTIONS: [&str; 6] = ["R.sum", "R.prod", "R.max", "R.min", "R.mean", "R.logsumexp"];

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let value = viewed(binding.value)?;
    let def = site.def(value)?;
    let op = site
        .operator(def)
        .filter(|op| REDUCTIONS.contains(&op.path.as_str()))?;
    let x = op.get("x")?;
    let mut kept = site.shape(x)?;
    if op.bool("keepdims") == Some(true) {
        return None;
    }
    let axes = match op.ints("axis") {
        Some(axes) => from_front(&axes, kept.len())?,
        None => (0..kept.len()).collect(),
    };
    axes.iter().for_each(|&axis| kept[axis] = Dim::from(1i64));
    if kept != site.result_shape(binding)? {
        return None;
    }
    if site.uses(value) != 1 {
        return site.refuse(binding, "the reduction is read elsewhere too");
    }
    let call = Expr::call(&op.path, [x.clone()]).with("axis", places(&axes));
    Some(Rewrite::Value(call.with("keepdims", Expr::bool(true))))
}

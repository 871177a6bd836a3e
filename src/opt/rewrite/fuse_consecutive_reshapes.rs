//! Makes one reshape of two in a row, whatever they are said in.
//!
//!     a = R.reshape(x, R.shape([n, 44100, 1]))
//!     b = R.expand_dims(a, axis=[1])
//!     y = R.reshape(b, R.shape([n, 1, 1, 44100]))          →      y = R.reshape(x, R.shape([n, 1, 1, 44100]))
//!
//! Two that only bring axes of 1, or only drop them, are one that does. Where the first is read elsewhere too, a squeeze or
//! an unsqueeze of it stays, since a reshape has to be told its extents.

use irc_syntax::Expr;

use super::view::{from_front, places, reshape, viewed};
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_consecutive_reshapes",
    "reshapes, squeezes and unsqueezes in a row are one"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let value = viewed(binding.value)?;
    let first = site.def(value)?;
    let x = viewed(first)?;
    let to = site.result_shape(binding)?;
    if site.shape(x)? == to {
        return Some(Rewrite::Alias(x.clone()));
    }
    let both = |path: &str| first.is_call_of(path) && binding.value.is_call_of(path);
    let axes = |value: &Expr, rank: usize| from_front(&site.operator(value)?.ints("axis")?, rank);
    if both("R.expand_dims") {
        let (inner, outer) = (site.shape(value)?.len(), to.len());
        let last = axes(binding.value, outer)?;
        let kept: Vec<usize> = (0..outer).filter(|axis| !last.contains(axis)).collect();
        let first = axes(first, inner)?;
        let moved = first.iter().filter_map(|&axis| kept.get(axis).copied());
        let mut all: Vec<usize> = last.iter().copied().chain(moved).collect();
        all.sort_unstable();
        let call = Expr::call("R.expand_dims", [x.clone()]);
        return Some(Rewrite::Value(call.with("axis", places(&all))));
    }
    if both("R.squeeze") {
        let rank = site.shape(x)?.len();
        let first = axes(first, rank)?;
        let kept: Vec<usize> = (0..rank).filter(|axis| !first.contains(axis)).collect();
        let last = axes(binding.value, kept.len())?;
        let mut all = first;
        all.extend(last.iter().filter_map(|&axis| kept.get(axis).copied()));
        all.sort_unstable();
        let call = Expr::call("R.squeeze", [x.clone()]);
        return Some(Rewrite::Value(call.with("axis", places(&all))));
    }
    if !binding.value.is_call_of("R.reshape") && site.uses(value) != 1 {
        return None;
    }
    Some(Rewrite::Value(reshape(x, &to)))
}

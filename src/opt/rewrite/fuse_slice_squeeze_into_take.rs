//! Takes one index of an axis where it is sliced out and its axis is dropped.
//!
//!     a = R.strided_slice(x, axes=[0], begin=[1], end=[2], strides=[1])
//!     y = R.squeeze(a, axis=[0])                    →      y = R.take(x, R.const(1, "int64"), axis=0)
//!
//! Refused where the slice is read elsewhere too.

use irc_syntax::Expr;

use super::view::{Slice, viewed};
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_slice_squeeze_into_take",
    "a slice of one index without its axis is that index"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let value = viewed(binding.value)?;
    let slice = Slice::read(site, site.def(value)?)?;
    let [(axis, lo, hi)] = slice.cuts.as_slice() else {
        return None;
    };
    let (lo, hi) = (lo.as_int()?, hi.as_int()?);
    // -1 is the last one whatever the end beyond it.
    let is_one = lo.checked_add(1) == Some(hi) && hi != 0 || lo == -1 && hi == i64::MAX;
    let mut left = site.shape(&slice.x)?;
    left.remove(*axis);
    if !is_one || left != site.result_shape(binding)? {
        return None;
    }
    if site.uses(value) != 1 {
        return site.refuse(binding, "the slice is read elsewhere too");
    }
    let index = Expr::call("R.const", [Expr::int(lo), Expr::str("int64")]);
    let call = Expr::call("R.take", [slice.x.clone(), index]);
    Some(Rewrite::Value(call.with("axis", Expr::int(*axis as i128))))
}

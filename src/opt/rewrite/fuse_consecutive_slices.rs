//! Makes one slice of two in a row.
//!
//!     a = R.strided_slice(x, axes=[0], begin=[2], end=[9], strides=[1])
//!     y = R.strided_slice(a, axes=[0, 1], begin=[1, 0], end=[4, 3], strides=[1, 1])
//!                 →      y = R.strided_slice(x, axes=[0, 1], begin=[3, 0], end=[6, 3], strides=[1, 1])
//!
//! Refused where both cut an axis at places that are not known, or are counted from its end, or in steps, and where the
//! first is read by other operators too.

use super::view::Slice;
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;
use crate::shape::Dim;

/// The pass.
pub const PASS: Pass = pass!("fuse_consecutive_slices", "slices in a row are one");

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let last = Slice::read_any(site, binding.value)?;
    let mut first = Slice::read_any(site, site.def(&last.x)?)?;
    // All slices of it may be of what it is a slice of, and then it goes.
    let readers = site.readers(&last.x);
    let slices = readers
        .iter()
        .filter(|value| value.is_call_of("R.strided_slice"));
    if slices.count() < site.uses(&last.x) {
        return site.refuse(binding, "the first slice is read elsewhere too");
    }
    for (axis, lo, hi) in last.cuts {
        let Some(cut) = first.cuts.iter_mut().find(|cut| cut.0 == axis) else {
            first.cuts.push((axis, lo, hi));
            first
                .steps
                .extend(last.steps.get(&axis).map(|&step| (axis, step)));
            continue;
        };
        if first.steps.contains_key(&axis) || last.steps.contains_key(&axis) {
            return site.refuse(binding, "both cut one axis, and one of them in steps");
        }
        let from_front = |dim: &Dim| dim.as_int().filter(|&place| place >= 0);
        let bounds = [&cut.1, &cut.2, &lo, &hi].map(from_front);
        let [Some(begin), Some(end), Some(lo), Some(hi)] = bounds else {
            return site.refuse(binding, "both cut one axis at places that are not known");
        };
        // x[b:e][l:h] = x[b+l : min(e, b+h)]
        let place = |bound: i64| begin.saturating_add(bound).min(end);
        (cut.1, cut.2) = (Dim::from(place(lo)), Dim::from(place(hi)));
    }
    first.cuts.sort_by_key(|cut| cut.0);
    Some(Rewrite::Value(first.write()))
}

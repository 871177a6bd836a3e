//! Makes one permutation of two in a row.
//!
//!     a = R.permute_dims(x, axes=[0, 2, 1])
//!     y = R.permute_dims(a, axes=[2, 0, 1])          →      y = R.permute_dims(x, axes=[1, 0, 2])

use super::view::{permutation, permute};
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_consecutive_transposes",
    "permutations in a row are one"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let (value, last) = permutation(site, binding.value)?;
    let (x, first) = permutation(site, site.def(&value)?)?;
    let axes: Option<Vec<usize>> = last.iter().map(|&axis| first.get(axis).copied()).collect();
    let axes = axes?;
    if axes.iter().enumerate().all(|(at, &axis)| at == axis) {
        return Some(Rewrite::Alias(x));
    }
    Some(Rewrite::Value(permute(&x, &axes)))
}

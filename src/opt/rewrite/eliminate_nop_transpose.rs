//! Removes permutations that leave every axis in its place.
//!
//!     y = R.permute_dims(x, axes=[0, 1, 2])        →      (x takes the place of y)

use super::view::permutation;
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_nop_transpose",
    "a permutation that leaves every axis in its place is its operand"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let (x, axes) = permutation(site, binding.value)?;
    let stays = axes.iter().enumerate().all(|(at, &axis)| at == axis);
    stays.then_some(Rewrite::Alias(x))
}

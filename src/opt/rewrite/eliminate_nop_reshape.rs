//! Removes reshapes, flattenings, squeezes and unsqueezes that leave all extents as they are.
//!
//!     y = R.reshape(x, R.shape([n, 4]))        →      (x has the extents [n, 4], and takes the place of y)

use super::view::viewed;
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_nop_reshape",
    "a reshape to the extents that its operand has is its operand"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let x = viewed(binding.value)?;
    let same = site.shape(x)? == site.result_shape(binding)?;
    same.then(|| Rewrite::Alias(x.clone()))
}

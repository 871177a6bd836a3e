//! Removes slices that take all there is.
//!
//!     y = R.strided_slice(x, axes=[0], begin=[0], end=[9223372036854775807])        →      (x takes the place of y)

use super::view::Slice;
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_nop_slice",
    "a slice of all there is is its operand"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let slice = Slice::read(site, binding.value)?;
    let same = site.shape(&slice.x)? == site.result_shape(binding)?;
    same.then_some(Rewrite::Alias(slice.x))
}

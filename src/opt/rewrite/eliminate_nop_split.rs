//! Removes splits into one part.
//!
//!     t = R.split(x, indices_or_sections=1, axis=0)
//!     y = t[0]                                              →      (x takes the place of y)

use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_nop_split",
    "a split into one part is its operand"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let (split, at) = site.member(binding.value)?;
    let split = site.operator(split).filter(|split| split.is("R.split"))?;
    let x = split.get("x")?;
    let same = at == 0 && site.shape(x)? == site.result_shape(binding)?;
    same.then(|| Rewrite::Alias(x.clone()))
}

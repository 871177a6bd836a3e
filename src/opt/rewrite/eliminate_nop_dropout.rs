//! Removes dropout, which does nothing in a program that does not train.
//!
//!     t = R.nn.dropout(x, rate=0.5)
//!     y = t[0]                              →      (x takes the place of y)

use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_nop_dropout",
    "dropout that drops nothing is its operand"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let (dropout, at) = site.member(binding.value)?;
    let dropout = site.operator(dropout).filter(|op| op.is("R.nn.dropout"))?;
    (at == 0).then(|| Some(Rewrite::Alias(dropout.get("data")?.clone())))?
}

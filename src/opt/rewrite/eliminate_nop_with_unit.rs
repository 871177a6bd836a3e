//! Removes sums with 0, products with 1 and their like.
//!
//!     y = R.add(x, zeros)              →      (x takes the place of y)
//!     y = R.multiply(x, ones)          →      (x takes the place of y)
//!
//! The unit may be a constant or a weight, of which every element is read. Refused where it widens the result.

use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_nop_with_unit",
    "an operation with its unit is its other operand"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    let Prim::Binary(op) = call.prim else {
        return None;
    };
    // x + 0 = x - 0 = x, x · 1 = x / 1 = x ** 1 = x, x and true = x or false = x.
    let (unit, either) = match op {
        Binary::Add => (0.0, true),
        Binary::Subtract => (0.0, false),
        Binary::Multiply => (1.0, true),
        Binary::Divide | Binary::Power => (1.0, false),
        Binary::LogicalAnd => (1.0, true),
        Binary::LogicalOr => (0.0, true),
        _ => return None,
    };
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let sides = if either {
        vec![(a, b), (b, a)]
    } else {
        vec![(a, b)]
    };
    for (x, other) in sides {
        if !site.is_all(other, unit) {
            continue;
        }
        if site.shape(x)? != site.result_shape(binding)? {
            return site.refuse(binding, "the unit widens the result");
        }
        return Some(Rewrite::Alias(x.clone()));
    }
    None
}

//! Computes element by element without reshaping first and back afterwards.
//!
//!     a = R.reshape(x, R.shape([n, s, 64]))          (x is [n * s, 64])
//!     b = R.nn.relu(a)
//!     y = R.reshape(b, R.shape([n * s, 64]))                →      y = R.nn.relu(x)
//!
//! Between the two may stand any operators of elements whose other operands are reshaped so too or single numbers, as long as
//! nothing else reads them.

use irc_syntax::Expr;

use super::region::Region;
use super::view::viewed;
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_reshapes_around_elementwise",
    "reshapes before and after element-wise operators that undo each other go"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let value = viewed(binding.value)?;
    let dims = site.result_shape(binding)?;
    let moved = |operand: &Expr| {
        let x = viewed(site.def(operand)?)?;
        (site.shape(x)? == dims).then(|| x.clone())
    };
    let is_number = |operand: &Expr| {
        let shape = site.constant_shape(operand);
        shape.is_some_and(|shape| {
            shape.iter().all(|&extent| extent == 1) && shape.len() <= dims.len()
        })
    };
    let region = Region::find(site, value, &moved, &is_number)?;
    Some(Rewrite::Value(
        region.compute(&|number| Some(number.clone()))?,
    ))
}

//! Computes element by element without permuting axes first and back afterwards.
//!
//!     a = R.permute_dims(x, axes=[0, 2, 3, 1])
//!     b = R.add(a, R.const([0.5, 2.0]))
//!     y = R.permute_dims(b, axes=[0, 3, 1, 2])          →      y = R.add(x, R.const([[[0.5]], [[2.0]]]))
//!
//! Between the two may stand any operators of elements whose other operands are permuted so too or constants, as long as
//! nothing else reads them.

use irc_syntax::Expr;

use super::region::Region;
use super::view::permutation;
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_transposes_around_elementwise",
    "permutations before and after element-wise operators that undo each other go"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let (value, back) = permutation(site, binding.value)?;
    let moved = |operand: &Expr| {
        let (x, axes) = permutation(site, site.def(operand)?)?;
        let undone =
            axes.len() == back.len() && back.iter().enumerate().all(|(at, &axis)| axes[axis] == at);
        undone.then_some(x)
    };
    // With one long axis no element of a constant changes its place.
    let is_row = |operand: &Expr| {
        let shape = site.constant_shape(operand).unwrap_or_default();
        let n_long = shape.iter().filter(|&&extent| extent != 1).count();
        n_long <= 1 && shape.len() <= back.len()
    };
    let turned = |operand: &Expr| {
        let shape = site.constant_shape(operand)?;
        let missing = back.len().checked_sub(shape.len())?;
        let wide: Vec<usize> = (0..missing).map(|_| 1).chain(shape).collect();
        let turned: Vec<usize> = back.iter().map(|&axis| wide[axis]).collect();
        let Some(first) = turned.iter().position(|&extent| extent != 1) else {
            return Some(operand.clone());
        };
        let hint = operand.as_name().map_or("const", |name| name.as_str());
        let tensor = site.constant(operand)?;
        Some(site.keep(hint, tensor.reshaped(turned[first..].to_vec())?))
    };
    let region = Region::find(site, &value, &moved, &is_row)?;
    Some(Rewrite::Value(region.compute(&turned)?))
}

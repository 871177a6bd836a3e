//! Makes one constant of two that are added or multiplied one after the other.
//!
//!     a = R.multiply(x, R.const(0.5))
//!     y = R.multiply(a, R.const(3.0))          →      y = R.multiply(x, R.const(1.5))
//!
//! Computed in 64 bits and rounded once. Refused where the first step is read elsewhere too.

use irc_syntax::Expr;

use super::{Binding, Rewrite, Site, pass, round};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_consecutive_constants",
    "constants that are added or multiplied one after the other are one"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let (op, value, last, _) = step(site, binding.value)?;
    let (first_op, x, first, path) = step(site, site.def(&value)?)?;
    if op != first_op {
        return None;
    }
    if site.uses(&value) != 1 {
        return site.refuse(binding, "the first step is read elsewhere too");
    }
    let (a, b) = (site.constant(&first)?, site.constant(&last)?);
    if a.shape != b.shape && a.len() != 1 && b.len() != 1 {
        return site.refuse(binding, "the constants are of two shapes");
    }
    let (Some(a_numbers), Some(b_numbers)) = (site.numbers(&first), site.numbers(&last)) else {
        return None;
    };
    let n = a.len().max(b.len());
    let numbers: Vec<f64> = (0..n)
        .map(|at| {
            let (a, b) = (a_numbers[at % a.len()], b_numbers[at % b.len()]);
            match op {
                Binary::Add => a + b,
                _ => a * b,
            }
        })
        .collect();
    // Of two with one element the one of higher rank decides the rank of the result.
    let is_first = a.len() > b.len() || a.len() == b.len() && a.shape.len() >= b.shape.len();
    let (shape, old) = if is_first {
        (a.shape, &first)
    } else {
        (b.shape, &last)
    };
    let joined = site.revise(old, round(shape, &numbers, a.dtype)?);
    Some(Rewrite::Value(Expr::call(&path, [x, joined])))
}

/// A sum or product of a value and a constant of floats.
fn step(site: &Site, value: &Expr) -> Option<(Binary, Expr, Expr, String)> {
    let call = site.prim(value)?;
    let Prim::Binary(op @ (Binary::Add | Binary::Multiply)) = call.prim else {
        return None;
    };
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let is_constant = |side: &Expr| site.constant_shape(side).is_some();
    let (x, constant) = match (is_constant(a), is_constant(b)) {
        (false, true) => (a, b),
        (true, false) => (b, a),
        _ => return None,
    };
    let is_float = site.dtype(constant)?.is_float();
    let (path, _) = value.as_call()?;
    is_float.then(|| (op, x.clone(), constant.clone(), path))
}

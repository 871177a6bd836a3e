//! Multiplies three matrices in the order that takes fewer operations, where their extents are known.
//!
//!     t = R.matmul(a, b)                           t = R.matmul(b, v)
//!     y = R.matmul(t, v)                  →        y = R.matmul(a, t)          (v has one column)
//!
//! Refused where the first product is read elsewhere too.

use irc_syntax::Expr;

use super::factors::same;
use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::Prim;
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "adjust_matmul_order",
    "three matrices are multiplied in the order that takes fewer operations"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let (left, right) = factors(site, binding.value)?;
    let left_first = site.def(&left).and_then(|def| factors(site, def));
    let right_first = site.def(&right).and_then(|def| factors(site, def));
    let (inner, [a, b, c]) = match (left_first, right_first) {
        (Some((a, b)), _) => (left, [a, b, right]),
        (None, Some((b, c))) => (right, [left, b, c]),
        (None, None) => return None,
    };
    let is_left = site
        .def(&inner)
        .and_then(|def| factors(site, def))
        .is_some_and(|pair| same(&pair.0, &a));
    let (m, k) = extents(site, &a)?;
    let (n, p) = (extents(site, &b)?.1, extents(site, &c)?.1);
    let (by_left, by_right) = (m * k * n + m * n * p, k * n * p + m * k * p);
    let (now, then) = if is_left {
        (by_left, by_right)
    } else {
        (by_right, by_left)
    };
    if then >= now {
        return None;
    }
    if site.uses(&inner) != 1 {
        return site.refuse(binding, "the first product is read elsewhere too");
    }
    let product = |a: Expr, b: Expr| Expr::call("R.matmul", [a, b]);
    let hint = inner.as_name()?.as_str();
    Some(Rewrite::Value(match is_left {
        true => product(a, site.step(hint, product(b, c))),
        false => product(site.step(hint, product(a, b)), c),
    }))
}

/// The operands of a product of two matrices.
fn factors(site: &Site, value: &Expr) -> Option<(Expr, Expr)> {
    let call = site.prim(value).filter(|call| call.prim == Prim::Matmul)?;
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    extents(site, a)?;
    extents(site, b)?;
    call.opt_dtype("out_dtype")
        .is_none()
        .then(|| (a.clone(), b.clone()))
}

fn extents(site: &Site, value: &Expr) -> Option<(i128, i128)> {
    match site.shape(value)?.as_slice() {
        [rows, columns] => Some((rows.as_int()?.into(), columns.as_int()?.into())),
        _ => None,
    }
}

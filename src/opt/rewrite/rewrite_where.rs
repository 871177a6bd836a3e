//! Chooses the other way round instead of negating the condition.
//!
//!     n = R.logical_not(c)
//!     y = R.where(n, a, b)          →      y = R.where(c, b, a)

use irc_syntax::{DType, Expr};

use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::{Prim, Unary};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "rewrite_where",
    "a choice by a negated condition is the other choice"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Where {
        return None;
    }
    let condition = call.operand("condition")?;
    let not = site.prim(site.def(condition)?)?;
    if not.prim != Prim::Unary(Unary::LogicalNot) || site.dtype(not.operand("x")?)? != DType::Bool {
        return None;
    }
    let operands = [not.operand("x")?, call.operand("b")?, call.operand("a")?];
    Some(Rewrite::Value(Expr::call(
        "R.where",
        operands.map(Expr::clone),
    )))
}

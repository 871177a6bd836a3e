//! Reductions along axes, and the positions of extremes.

use irc_syntax::{BinaryOp, DType, Diagnostic, Expr, Name, Stmt, StmtKind};

use super::element::{element, t, zero};
use super::{Axis, Block, Lower, access, constant, index, init, operand};
use crate::check::prim::{BoundCall, Prim, Reduce};
use crate::shape::Dim;

/// The reduced axes of a call on an operand of a rank, in order.
fn reduced_axes(call: &BoundCall, rank: usize) -> Vec<usize> {
    match call.opt_ints("axis") {
        Some(axes) => {
            let mut axes: Vec<usize> = axes.iter().map(|&axis| index::axis(axis, rank)).collect();
            axes.sort_unstable();
            axes.dedup();
            axes
        }
        None => (0..rank).collect(),
    }
}

/// Block axes over the operand: `v_ax…` for kept axes, `v_k…` for reduced ones; and the index of the result.
fn split_axes(
    extents: &[Dim],
    reduced: &[usize],
    keepdims: bool,
) -> (Vec<Axis>, Vec<Dim>, Vec<Dim>) {
    let mut axes = Vec::new();
    let mut tail = Vec::new();
    let mut from = Vec::new();
    let mut to = Vec::new();
    for (position, extent) in extents.iter().enumerate() {
        if reduced.contains(&position) {
            let axis = Axis::reduce(format!("v_k{position}"), extent.clone());
            from.push(axis.dim());
            tail.push(axis);
            if keepdims {
                to.push(Dim::int(0));
            }
        } else {
            let axis = Axis::spatial(format!("v_ax{position}"), extent.clone());
            from.push(axis.dim());
            to.push(axis.dim());
            axes.push(axis);
        }
    }
    axes.extend(tail);
    (axes, from, to)
}

/// `out[i] = init; out[i] = out[i] + x[i, k]`.
pub(super) fn materialize(
    lower: &mut Lower,
    name: &Name,
    prim: Prim,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    let x = operand(call, "x");
    let (dtype, extents) = lower.operand(&x)?;
    let reduced = reduced_axes(call, extents.len());
    let (axes, from, to) = split_axes(&extents, &reduced, call.bool("keepdims"));
    let mut block = Block::default();
    let value = element(lower, &mut block, &x, &from)?;
    let place = access(name, &to);
    let Prim::Reduce(op) = prim else {
        return Ok(());
    };
    let next = match op {
        Reduce::Sum => Expr::binary(BinaryOp::Add, place.clone(), value),
        Reduce::Prod => Expr::binary(BinaryOp::Mul, place.clone(), value),
        Reduce::Max if dtype == DType::Bool => Expr::binary(BinaryOp::Or, place.clone(), value),
        Reduce::Min if dtype == DType::Bool => Expr::binary(BinaryOp::And, place.clone(), value),
        Reduce::Max => t("max", [place.clone(), value]),
        Reduce::Min => t("min", [place.clone(), value]),
    };
    let identity = match op {
        Reduce::Sum => zero(dtype),
        Reduce::Prod if dtype.is_float() => Expr::float(1.0),
        Reduce::Prod => Expr::int(1),
        Reduce::Max => lowest(dtype),
        Reduce::Min => highest(dtype),
    };
    let start = constant(dtype, identity);
    lower.push_reduction(name, &axes, (place, start, next), block.stmts);
    Ok(())
}

/// The least value of a dtype as a literal.
pub(super) fn lowest(dtype: DType) -> Expr {
    match dtype {
        DType::Bool => Expr::bool(false),
        _ if dtype.is_float() => Expr::str("-inf"),
        _ if dtype.is_signed() => Expr::int(-(1i128 << (dtype.bits() - 1))),
        _ => Expr::int(0),
    }
}

/// The greatest value of a dtype as a literal.
pub(super) fn highest(dtype: DType) -> Expr {
    match dtype {
        DType::Bool => Expr::bool(true),
        _ if dtype.is_float() => Expr::str("inf"),
        _ if dtype.is_signed() => Expr::int((1i128 << (dtype.bits() - 1)) - 1),
        _ => Expr::int((1i128 << dtype.bits()) - 1),
    }
}

/// The position of the first greatest or least element along an axis, or in the flattened operand.
pub(super) fn materialize_arg(
    lower: &mut Lower,
    name: &Name,
    prim: Prim,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    let x = operand(call, "x");
    let (dtype, extents) = lower.operand(&x)?;
    let (out_dtype, shape) = lower.tensor(name)?;
    let reduced = match call.opt_int("axis") {
        Some(axis) => vec![index::axis(axis, extents.len())],
        None => (0..extents.len()).collect(),
    };
    let (axes, from, to) = split_axes(&extents, &reduced, call.bool("keepdims"));
    let best = lower.names.fresh("best");
    lower.alloc(&best, dtype, &shape);
    let mut block = Block::default();
    let value = element(lower, &mut block, &x, &from)?;
    let value = super::element::bind(lower, &mut block, "value", dtype, value);
    let (worst, op) = match prim {
        Prim::Argmax => (lowest(dtype), BinaryOp::Gt),
        _ => (highest(dtype), BinaryOp::Lt),
    };
    let mut flat = Dim::int(0);
    for &axis in &reduced {
        flat = &(&flat * &extents[axis]) + &from[axis];
    }
    let position = t("Cast", [Expr::str(out_dtype.name()), flat.to_expr()]);
    let (best_at, out_at) = (access(&best, &to), access(name, &to));
    let mut body = block.stmts;
    body.insert(
        0,
        init(vec![
            Stmt::assign(best_at.clone(), constant(dtype, worst)),
            Stmt::assign(out_at.clone(), constant(out_dtype, zero(out_dtype))),
        ]),
    );
    body.push(Stmt::new(StmtKind::If {
        cond: Expr::binary(op, value.clone(), best_at.clone()),
        then: vec![Stmt::assign(out_at, position), Stmt::assign(best_at, value)],
        orelse: Vec::new(),
        else_trivia: irc_syntax::Trivia::default(),
    }));
    lower.push_block(name, &axes, body);
    Ok(())
}

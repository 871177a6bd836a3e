//! Operators that only move elements: the index of the operand that an index of the result reads.

use irc_syntax::{BinaryOp, DType, Diagnostic, Expr, ExprKind, Name, Stmt, StmtKind};

use super::element::{bind, element, t};
use super::{Block, Lower, constant};
use crate::check::prim::{BoundCall, Prim, slice_begin};
use crate::shape::Dim;

/// An axis counted from the front.
pub(super) fn axis(axis: i64, rank: usize) -> usize {
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(axis)
        .unwrap_or(0)
        .min(rank.saturating_sub(1))
}

/// The index of an operand with `extents` that a result of `shape` reads at `idx`: trailing axes align. An
/// extent of 1 reads 0; one that may or may not be 1 reads 0 where it is, which a run-time select decides.
pub(super) fn broadcast(extents: &[Dim], idx: &[Dim], shape: &[Dim]) -> Vec<Dim> {
    let skip = idx.len().saturating_sub(extents.len());
    extents
        .iter()
        .enumerate()
        .map(|(position, extent)| {
            let at = &idx[skip + position];
            if extent.as_int() == Some(1) {
                Dim::int(0)
            } else if Some(extent) == shape.get(skip + position) || extent.as_int().is_some() {
                at.clone()
            } else {
                // min(i, extent - 1) is i where the extents agree and 0 where this one is 1.
                Dim::min(at, &(extent - &Dim::int(1)))
            }
        })
        .collect()
}

/// The element of a moving operator; `None` for operators that compute.
// tidy: table
pub(super) fn moved(
    lower: &mut Lower,
    block: &mut Block,
    name: &Name,
    call: &BoundCall,
    args: &[Expr],
    idx: &[Dim],
    shape: &[Dim],
) -> Result<Option<Expr>, Diagnostic> {
    let value = match call.prim {
        Prim::PermuteDims => permute(lower, block, call, &args[0], idx)?,
        Prim::Reshape => reshape(lower, block, &args[0], idx, shape)?,
        Prim::StridedSlice => slice(lower, block, call, &args[0], idx)?,
        Prim::Pad => pad(lower, block, call, &args[0], idx)?,
        Prim::Take => take(lower, block, call, args, idx)?,
        Prim::GatherElements => gather_elements(lower, block, call, args, idx)?,
        Prim::GatherNd => gather_nd(lower, block, call, args, idx)?,
        Prim::Full => {
            let fill = call
                .operand("fill_value")
                .cloned()
                .unwrap_or_else(Expr::none);
            let (dtype, _) = lower.tensor(name)?;
            match literal(&fill) {
                Some(value) => constant(dtype, number(value, dtype)),
                None => element(lower, block, &fill, &[])?,
            }
        }
        _ => return Ok(None),
    };
    Ok(Some(value))
}

fn permute(
    lower: &mut Lower,
    block: &mut Block,
    call: &BoundCall,
    x: &Expr,
    idx: &[Dim],
) -> Result<Expr, Diagnostic> {
    let rank = idx.len();
    let axes: Vec<usize> = match call.opt_ints("axes") {
        Some(axes) => axes.iter().map(|&a| axis(a, rank)).collect(),
        None => (0..rank).rev().collect(),
    };
    let mut from = vec![Dim::int(0); rank];
    for (to, &axis) in axes.iter().enumerate() {
        from[axis] = idx[to].clone();
    }
    element(lower, block, x, &from)
}

fn reshape(
    lower: &mut Lower,
    block: &mut Block,
    x: &Expr,
    idx: &[Dim],
    shape: &[Dim],
) -> Result<Expr, Diagnostic> {
    let (_, extents) = lower.operand(x)?;
    let mut flat = Dim::int(0);
    for (at, extent) in idx.iter().zip(shape) {
        flat = &(&flat * extent) + at;
    }
    let mut from = vec![Dim::int(0); extents.len()];
    for (position, extent) in extents.iter().enumerate().rev() {
        if position == 0 {
            from[0] = flat.clone();
        } else {
            from[position] = flat.floor_mod(extent);
            flat = flat.floor_div(extent);
        }
    }
    element(lower, block, x, &from)
}

fn slice(
    lower: &mut Lower,
    block: &mut Block,
    call: &BoundCall,
    x: &Expr,
    idx: &[Dim],
) -> Result<Expr, Diagnostic> {
    let (_, extents) = lower.operand(x)?;
    let mut from = idx.to_vec();
    for (at, &axis_at) in call.ints("axes").iter().enumerate() {
        let axis = axis(axis_at, extents.len());
        let stride = call
            .opt_dims("strides")
            .and_then(|strides| strides.get(at)?.as_int())
            .unwrap_or(1);
        let begin = call
            .dims("begin")
            .get(at)
            .cloned()
            .unwrap_or_else(|| Dim::int(0));
        let begin = slice_begin(
            &begin,
            stride,
            &extents[axis],
            call.bool("assume_inbound"),
            &lower.info.facts,
        );
        from[axis] = &begin + &(&idx[axis] * &Dim::int(stride));
    }
    element(lower, block, x, &from)
}

fn pad(
    lower: &mut Lower,
    block: &mut Block,
    call: &BoundCall,
    x: &Expr,
    idx: &[Dim],
) -> Result<Expr, Diagnostic> {
    let (dtype, extents) = lower.operand(x)?;
    let widths = call.dims("pad_width").to_vec();
    let mut from = Vec::with_capacity(idx.len());
    let mut inside = None;
    for (position, (at, extent)) in idx.iter().zip(&extents).enumerate() {
        let before = widths
            .get(2 * position)
            .cloned()
            .unwrap_or_else(|| Dim::int(0));
        let after = widths
            .get(2 * position + 1)
            .cloned()
            .unwrap_or_else(|| Dim::int(0));
        let source = at - &before;
        if before.as_int().is_none_or(|before| before > 0) {
            inside = and(
                inside,
                Expr::binary(BinaryOp::Le, before.to_expr(), at.to_expr()),
            );
        }
        if after.as_int().is_none_or(|after| after > 0) {
            inside = and(
                inside,
                Expr::binary(BinaryOp::Lt, at.to_expr(), (extent + &before).to_expr()),
            );
        }
        from.push(source);
    }
    block.conditional += 1;
    let value = element(lower, block, x, &from);
    block.conditional -= 1;
    let value = value?;
    let Some(inside) = inside else {
        return Ok(value);
    };
    let fill = match call.operand("pad_value").cloned() {
        Some(fill) => element(lower, block, &fill, &[])?,
        None => constant(dtype, number(call.float("pad_value"), dtype)),
    };
    Ok(t("if_then_else", [inside, value, fill]))
}

/// A Python number.
fn literal(value: &Expr) -> Option<f64> {
    match &value.kind {
        ExprKind::Float(value) => Some(*value),
        ExprKind::Bool(value) => Some(f64::from(u8::from(*value))),
        _ => value.as_int().map(|value| value as f64),
    }
}

/// A number as a literal that fits a dtype.
pub(super) fn number(value: f64, dtype: DType) -> Expr {
    match dtype {
        DType::Bool => Expr::bool(value != 0.0),
        _ if dtype.is_float() => Expr::float(value),
        _ => Expr::int(value as i128),
    }
}

fn and(left: Option<Expr>, right: Expr) -> Option<Expr> {
    Some(match left {
        Some(left) => Expr::binary(BinaryOp::And, left, right),
        None => right,
    })
}

/// An index value from a tensor, as an int64 let: negative counts from the end, out of range raises.
pub(super) fn checked_index(
    lower: &mut Lower,
    block: &mut Block,
    indices: &Expr,
    at: &[Dim],
    extent: &Dim,
) -> Result<Dim, Diagnostic> {
    let raw = element(lower, block, indices, at)?;
    let wide = t("Cast", [Expr::str("int64"), raw]);
    let raw = bind(lower, block, "index", DType::I64, wide);
    let below = Expr::binary(BinaryOp::Lt, raw.clone(), Expr::int(0));
    let wrapped = Expr::binary(BinaryOp::Add, raw.clone(), extent.to_expr());
    let value = bind(
        lower,
        block,
        "index",
        DType::I64,
        t("Select", [below, wrapped, raw]),
    );
    let lo = Expr::binary(BinaryOp::Le, Expr::int(0), value.clone());
    let hi = Expr::binary(BinaryOp::Lt, value.clone(), extent.to_expr());
    let message = format!("index out of range: an axis of {extent} elements");
    block.stmts.push(Stmt::new(StmtKind::Assert {
        cond: Expr::binary(BinaryOp::And, lo, hi),
        message: Some(Expr::tuple([
            Expr::str("IndexError"),
            Expr::list([Expr::str(message)]),
        ])),
    }));
    let name = value
        .as_name()
        .cloned()
        .unwrap_or_else(|| Name::from("index"));
    Ok(Dim::sym(name))
}

fn take(
    lower: &mut Lower,
    block: &mut Block,
    call: &BoundCall,
    args: &[Expr],
    idx: &[Dim],
) -> Result<Expr, Diagnostic> {
    let (_, extents) = lower.operand(&args[0])?;
    let (_, picks) = lower.operand(&args[1])?;
    let axis = axis(call.int("axis"), extents.len());
    let at: Vec<Dim> = idx[axis..axis + picks.len()].to_vec();
    let picked = checked_index(lower, block, &args[1], &at, &extents[axis])?;
    let mut from = idx[..axis].to_vec();
    from.push(picked);
    from.extend_from_slice(&idx[axis + picks.len()..]);
    element(lower, block, &args[0], &from)
}

fn gather_elements(
    lower: &mut Lower,
    block: &mut Block,
    call: &BoundCall,
    args: &[Expr],
    idx: &[Dim],
) -> Result<Expr, Diagnostic> {
    let (_, extents) = lower.operand(&args[0])?;
    let axis = axis(call.int("axis"), extents.len());
    let mut from = idx.to_vec();
    from[axis] = checked_index(lower, block, &args[1], idx, &extents[axis])?;
    element(lower, block, &args[0], &from)
}

fn gather_nd(
    lower: &mut Lower,
    block: &mut Block,
    call: &BoundCall,
    args: &[Expr],
    idx: &[Dim],
) -> Result<Expr, Diagnostic> {
    let (_, extents) = lower.operand(&args[0])?;
    let (_, picks) = lower.operand(&args[1])?;
    let batch = usize::try_from(call.int("batch_dims")).unwrap_or(0);
    let width = picks.last().and_then(Dim::as_int).ok_or_else(|| {
        Diagnostic::error(
            "unknown-shape",
            "the last axis of the indices of `gather_nd` is not known",
        )
    })?;
    let outer = picks.len() - 1;
    let mut from = idx[..batch].to_vec();
    for part in 0..width {
        let mut at = idx[..outer].to_vec();
        at.push(Dim::int(part));
        let extent = &extents[batch + part as usize];
        from.push(checked_index(lower, block, &args[1], &at, extent)?);
    }
    from.extend_from_slice(&idx[outer..]);
    element(lower, block, &args[0], &from)
}

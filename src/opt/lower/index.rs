//! Operators that only move elements: the index of the operand that an index of the result reads.

use irc_syntax::{BinaryOp, DType, Diagnostic, Expr, ExprKind, Name, Stmt, StmtKind};

use super::element::{bind, element, guarded, t};
use super::{Block, Lower, constant, operand};
use crate::check::prim::{BoundCall, Prim, slice_begin};
use crate::shape::Dim;
use crate::tensor::parse_const;

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
pub(super) fn moved(
    lower: &mut Lower,
    block: &mut Block,
    name: &Name,
    call: &BoundCall,
    args: &[Expr],
    idx: &[Dim],
) -> Result<Option<Expr>, Diagnostic> {
    let (dtype, shape) = lower.tensor(name)?;
    let mut read = Read {
        lower,
        block,
        call,
        args,
        idx,
    };
    let from = match call.prim {
        Prim::PermuteDims => read.permute(),
        Prim::Reshape => read.reshape(&shape)?,
        Prim::StridedSlice => read.slice()?,
        Prim::Take => read.take()?,
        Prim::GatherElements => read.gather_elements()?,
        Prim::GatherNd => read.gather_nd()?,
        Prim::Pad => return read.pad().map(Some),
        Prim::Full => return read.full(dtype).map(Some),
        _ => return Ok(None),
    };
    element(read.lower, read.block, &args[0], &from).map(Some)
}

/// A read of a moving operator at `idx`. Methods give the index of its operand that is read.
struct Read<'r, 'l> {
    lower: &'r mut Lower<'l>,
    block: &'r mut Block,
    call: &'r BoundCall,
    args: &'r [Expr],
    idx: &'r [Dim],
}

impl Read<'_, '_> {
    /// The extents of an operand.
    fn extents(&self, at: usize) -> Result<Vec<Dim>, Diagnostic> {
        Ok(self.lower.operand(&self.args[at])?.1)
    }

    fn permute(&self) -> Vec<Dim> {
        let rank = self.idx.len();
        let axes: Vec<usize> = match self.call.opt_ints("axes") {
            Some(axes) => axes.iter().map(|&a| axis(a, rank)).collect(),
            None => (0..rank).rev().collect(),
        };
        let mut from = vec![Dim::int(0); rank];
        for (to, &axis) in axes.iter().enumerate() {
            from[axis] = self.idx[to].clone();
        }
        from
    }

    fn reshape(&self, shape: &[Dim]) -> Result<Vec<Dim>, Diagnostic> {
        let extents = self.extents(0)?;
        let mut flat = Dim::int(0);
        for (at, extent) in self.idx.iter().zip(shape) {
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
        Ok(from)
    }

    fn slice(&self) -> Result<Vec<Dim>, Diagnostic> {
        let extents = self.extents(0)?;
        let mut from = self.idx.to_vec();
        for (at, &axis_at) in self.call.ints("axes").iter().enumerate() {
            let axis = axis(axis_at, extents.len());
            let stride = self
                .call
                .opt_dims("strides")
                .and_then(|strides| strides.get(at)?.as_int())
                .unwrap_or(1);
            let begin = slice_begin(
                &dim_at(self.call.dims("begin"), at),
                stride,
                &extents[axis],
                self.call.bool("assume_inbound"),
                &self.lower.info.facts,
            );
            from[axis] = &begin + &(&self.idx[axis] * &Dim::int(stride));
        }
        Ok(from)
    }

    fn take(&mut self) -> Result<Vec<Dim>, Diagnostic> {
        let (extents, picks) = (self.extents(0)?, self.extents(1)?);
        let axis = axis(self.call.int("axis"), extents.len());
        let behind = axis + picks.len();
        let idx = self.idx;
        let mut from = idx[..axis].to_vec();
        let at = &idx[axis..behind];
        from.push(match self.call.str("mode") {
            mode @ ("clip" | "wrap") => self.bounded(mode, at, &extents[axis])?,
            _ => self.picked(at, &extents[axis])?,
        });
        from.extend_from_slice(&idx[behind..]);
        Ok(from)
    }

    /// The index that the second operand holds at a place, brought into range; an axis without elements has none.
    fn bounded(&mut self, mode: &str, at: &[Dim], extent: &Dim) -> Result<Dim, Diagnostic> {
        let raw = raw_index(self.lower, self.block, &self.args[1], at)?;
        let value = if mode == "clip" {
            let last = (extent - &Dim::int(1)).to_expr();
            t("max", [t("min", [raw, last]), t("int64", [Expr::int(0)])])
        } else {
            let divisor = Dim::max(extent, &Dim::int(1)).to_expr();
            t("floormod", [raw, divisor])
        };
        in_range(self.lower, self.block, value, extent)
    }

    fn gather_elements(&mut self) -> Result<Vec<Dim>, Diagnostic> {
        let extents = self.extents(0)?;
        let axis = axis(self.call.int("axis"), extents.len());
        let mut from = self.idx.to_vec();
        from[axis] = self.picked(self.idx, &extents[axis])?;
        Ok(from)
    }

    fn gather_nd(&mut self) -> Result<Vec<Dim>, Diagnostic> {
        let (extents, picks) = (self.extents(0)?, self.extents(1)?);
        let batch = usize::try_from(self.call.int("batch_dims")).unwrap_or(0);
        let (outer, rest) = self.idx.split_at(picks.len() - 1);
        let mut from = self.idx[..batch].to_vec();
        from.extend(index_vector(
            self.lower,
            self.block,
            &self.args[1],
            outer,
            &extents[batch..],
        )?);
        from.extend_from_slice(rest);
        Ok(from)
    }

    /// The index that the second operand holds at a place.
    fn picked(&mut self, at: &[Dim], extent: &Dim) -> Result<Dim, Diagnostic> {
        checked_index(self.lower, self.block, &self.args[1], at, extent)
    }

    fn pad(&mut self) -> Result<Expr, Diagnostic> {
        let (dtype, extents) = self.lower.operand(&self.args[0])?;
        let widths = self.call.dims("pad_width");
        let mut from = Vec::with_capacity(self.idx.len());
        let mut inside = Vec::new();
        for (position, (at, extent)) in self.idx.iter().zip(&extents).enumerate() {
            let before = dim_at(widths, 2 * position);
            let after = dim_at(widths, 2 * position + 1);
            if before.as_int().is_none_or(|before| before > 0) {
                let reached = Expr::binary(BinaryOp::Le, before.to_expr(), at.to_expr());
                inside.push(reached);
            }
            if after.as_int().is_none_or(|after| after > 0) {
                let end = extent + &before;
                inside.push(Expr::binary(BinaryOp::Lt, at.to_expr(), end.to_expr()));
            }
            from.push(at - &before);
        }
        self.block.conditional += 1;
        let value = element(self.lower, self.block, &self.args[0], &from);
        self.block.conditional -= 1;
        let value = value?;
        if inside.is_empty() {
            return Ok(value);
        }
        let fill = match self.call.operand("pad_value") {
            Some(fill) => element(self.lower, self.block, fill, &[])?,
            None => constant(dtype, number(self.call.float("pad_value"), dtype)),
        };
        Ok(guarded(inside, value, fill))
    }

    fn full(&mut self, dtype: DType) -> Result<Expr, Diagnostic> {
        let fill = operand(self.call, "fill_value");
        if let Some(value) = literal(&fill) {
            return Ok(constant(dtype, number(value, dtype)));
        }
        // A constant or a tensor of one element, or else a dim, such as `n` or `n + 1`.
        let tensor = match fill.as_name() {
            Some(name) => self.lower.tensor(name).ok().map(|(dtype, _)| dtype),
            None => fill
                .as_call()
                .filter(|(path, _)| path == "R.const")
                .and_then(|(_, args)| parse_const(args).ok())
                .map(|tensor| tensor.dtype),
        };
        let (found, value) = match tensor {
            None => (DType::I64, Dim::from_expr(&fill)?.to_expr()),
            Some(found) => (found, element(self.lower, self.block, &fill, &[])?),
        };
        Ok(if found == dtype {
            value
        } else {
            t("Cast", [Expr::str(dtype.name()), value])
        })
    }
}

/// An entry of a list of dims; 0 behind its end.
fn dim_at(dims: &[Dim], at: usize) -> Dim {
    dims.get(at).cloned().unwrap_or_else(|| Dim::int(0))
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

/// An index value from a tensor, as an int64 let: negative counts from the end, out of range raises.
pub(super) fn checked_index(
    lower: &mut Lower,
    block: &mut Block,
    indices: &Expr,
    at: &[Dim],
    extent: &Dim,
) -> Result<Dim, Diagnostic> {
    let raw = raw_index(lower, block, indices, at)?;
    let below = Expr::binary(BinaryOp::Lt, raw.clone(), Expr::int(0));
    let wrapped = Expr::binary(BinaryOp::Add, raw.clone(), extent.to_expr());
    in_range(lower, block, t("Select", [below, wrapped, raw]), extent)
}

/// An index value from a tensor as it stands, as an int64 let.
fn raw_index(
    lower: &mut Lower,
    block: &mut Block,
    indices: &Expr,
    at: &[Dim],
) -> Result<Expr, Diagnostic> {
    let raw = element(lower, block, indices, at)?;
    let wide = t("Cast", [Expr::str("int64"), raw]);
    Ok(bind(lower, block, "index", DType::I64, wide))
}

/// An index as an int64 let; out of range raises.
fn in_range(
    lower: &mut Lower,
    block: &mut Block,
    index: Expr,
    extent: &Dim,
) -> Result<Dim, Diagnostic> {
    let value = bind(lower, block, "index", DType::I64, index);
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

/// The indices that the last axis of a tensor holds at a place: one for each of the first `extents`, checked.
pub(super) fn index_vector(
    lower: &mut Lower,
    block: &mut Block,
    indices: &Expr,
    outer: &[Dim],
    extents: &[Dim],
) -> Result<Vec<Dim>, Diagnostic> {
    let (_, picks) = lower.operand(indices)?;
    let width = picks.last().and_then(Dim::as_int).ok_or_else(|| {
        Diagnostic::error(
            "unknown-shape",
            "the length of the last axis of the indices is not known",
        )
        .at(indices.span, "these indices")
    })?;
    (0..width)
        .zip(extents)
        .map(|(part, extent)| {
            let mut at = outer.to_vec();
            at.push(Dim::int(part));
            checked_index(lower, block, indices, &at, extent)
        })
        .collect()
}

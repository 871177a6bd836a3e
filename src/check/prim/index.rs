//! Type rules of gathers, scatters, sorts, and operators whose extents depend on data.

use irc_syntax::DType;

use super::infer::{Operand, Rule, Typed, label};
use crate::check::types::{TensorType, Type};
use crate::shape::Dim;

pub(super) fn take(rule: &mut Rule<'_>) -> Typed {
    let (x, indices) = (rule.tensor("x")?, rule.tensor("indices")?);
    rule.need_index(&indices)?;
    let Some(axis) = rule.call.opt_int("axis") else {
        let ty = TensorType {
            dtype: x.ty.dtype,
            value: None,
            ..indices.ty.clone()
        };
        return Ok(Type::Tensor(TensorType {
            value: picked(&x, &indices),
            ..ty
        }));
    };
    let Some(rank) = x.ty.ndim else {
        return Ok(Type::Tensor(TensorType {
            dtype: x.ty.dtype,
            ..TensorType::default()
        }));
    };
    let axis = rule.axis(axis, rank)?;
    let ndim = indices.ty.ndim.map(|more| rank - 1 + more);
    let shape = match (x.shape(), indices.shape()) {
        (Some(dims), Some(inner)) => {
            let mut shape = dims.to_vec();
            shape.splice(axis..=axis, inner.iter().cloned());
            Some(shape)
        }
        _ => None,
    };
    let value = if ndim.is_some_and(|rank| rank <= 1) {
        picked(&x, &indices)
    } else {
        None
    };
    Ok(Type::Tensor(TensorType {
        dtype: x.ty.dtype,
        ndim,
        shape,
        value,
    }))
}

/// Elements of a known content of rank 1 at known indices.
fn picked(x: &Operand, indices: &Operand) -> Option<Vec<Dim>> {
    let content = x.value().filter(|_| x.ty.ndim == Some(1))?;
    let length = i64::try_from(content.len()).ok()?;
    let at = |index: &Dim| {
        let index = index.as_int()?;
        let index = if index < 0 { index + length } else { index };
        content.get(usize::try_from(index).ok()?).cloned()
    };
    indices.value()?.iter().map(at).collect()
}

pub(super) fn gather_elements(rule: &mut Rule<'_>) -> Typed {
    let (x, indices) = (rule.tensor("x")?, rule.tensor("indices")?);
    rule.need_index(&indices)?;
    if let Some(rank) = x.ty.ndim {
        rule.axis(rule.call.int("axis"), rank)?;
        rule.need_rank(&indices, rank)?;
    }
    Ok(Type::Tensor(TensorType {
        dtype: x.ty.dtype,
        value: None,
        ..indices.ty
    }))
}

/// The number of axes that a row of an index tensor of `gather_nd` and `scatter_nd` selects.
fn row_length(indices: &Operand) -> Option<usize> {
    usize::try_from(indices.shape()?.last()?.as_int()?).ok()
}

pub(super) fn gather_nd(rule: &mut Rule<'_>) -> Typed {
    let (x, indices) = (rule.tensor("x")?, rule.tensor("indices")?);
    rule.need_index(&indices)?;
    let batch = usize::try_from(rule.call.int("batch_dims")).unwrap_or(0);
    let (Some(row), Some(rank)) = (row_length(&indices), x.ty.ndim) else {
        return Ok(Type::Tensor(TensorType {
            dtype: x.ty.dtype,
            ..TensorType::default()
        }));
    };
    let index_rank = indices.ty.ndim.unwrap_or(0);
    if batch + row > rank || batch >= index_rank {
        let message = format!(
            "indices of `{}` select {row} axes after {batch} batch axes, and {} has {rank}",
            rule.name(),
            x.text
        );
        return Err(rule.fault("rank-mismatch", message, label(&indices)));
    }
    if let (Some(dims), Some(inner)) = (x.shape(), indices.shape()) {
        for (mine, theirs) in dims.iter().zip(inner).take(batch) {
            rule.same_dim(&x, mine, &indices, theirs)?;
        }
    }
    let shape = match (x.shape(), indices.shape()) {
        (Some(dims), Some(inner)) => {
            let outer = inner.iter().take(index_rank - 1);
            Some(
                outer
                    .chain(dims.iter().skip(batch + row))
                    .cloned()
                    .collect(),
            )
        }
        _ => None,
    };
    let ndim = Some(index_rank - 1 + rank - batch - row);
    Ok(Type::Tensor(TensorType {
        dtype: x.ty.dtype,
        ndim,
        shape,
        value: None,
    }))
}

fn check_reduction(rule: &Rule<'_>) -> Typed<()> {
    let reduction = rule.call.str("reduction");
    if ["update", "add", "mul", "min", "max"].contains(&reduction) {
        return Ok(());
    }
    let message = format!(
        "`reduction` of `{}` is `update`, `add`, `mul`, `min` or `max`, not `{reduction}`",
        rule.name()
    );
    Err(rule.fault("bad-argument", message, "in this call"))
}

pub(super) fn scatter_elements(rule: &mut Rule<'_>) -> Typed {
    let (x, indices) = (rule.tensor("x")?, rule.tensor("indices")?);
    let updates = rule.tensor("updates")?;
    rule.need_index(&indices)?;
    rule.common_dtype(&[&x, &updates])?;
    check_reduction(rule)?;
    if let Some(rank) = x.ty.ndim {
        rule.axis(rule.call.int("axis"), rank)?;
        rule.need_rank(&indices, rank)?;
        rule.need_rank(&updates, rank)?;
    }
    if let (Some(mine), Some(theirs)) = (indices.shape(), updates.shape()) {
        for (mine, theirs) in mine.iter().zip(theirs) {
            rule.same_dim(&indices, mine, &updates, theirs)?;
        }
    }
    Ok(Type::Tensor(TensorType {
        value: None,
        ..x.ty
    }))
}

pub(super) fn scatter_nd(rule: &mut Rule<'_>) -> Typed {
    let (x, indices) = (rule.tensor("x")?, rule.tensor("indices")?);
    let updates = rule.tensor("updates")?;
    rule.need_index(&indices)?;
    rule.common_dtype(&[&x, &updates])?;
    check_reduction(rule)?;
    if let (Some(row), Some(dims), Some(inner)) = (row_length(&indices), x.shape(), indices.shape())
    {
        if row > dims.len() {
            let message = format!(
                "indices of `{}` select {row} axes of {}",
                rule.name(),
                dims.len()
            );
            return Err(rule.fault("rank-mismatch", message, label(&indices)));
        }
        let wanted: Vec<&Dim> = inner
            .iter()
            .take(inner.len() - 1)
            .chain(dims.iter().skip(row))
            .collect();
        rule.need_rank(&updates, wanted.len())?;
        for (want, have) in wanted.into_iter().zip(updates.shape().unwrap_or(&[])) {
            rule.same_dim(&indices, want, &updates, have)?;
        }
    }
    Ok(Type::Tensor(TensorType {
        value: None,
        ..x.ty
    }))
}

pub(super) fn sort(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    if let Some(rank) = x.ty.ndim {
        rule.axis(rule.call.int("axis"), rank)?;
    }
    Ok(Type::Tensor(TensorType {
        value: None,
        ..x.ty
    }))
}

pub(super) fn argsort(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    if let Some(rank) = x.ty.ndim {
        rule.axis(rule.call.int("axis"), rank)?;
    }
    Ok(Type::Tensor(TensorType {
        dtype: rule.call.opt_dtype("dtype"),
        value: None,
        ..x.ty
    }))
}

pub(super) fn keep_boxes(rule: &mut Rule<'_>) -> Typed {
    let (boxes, order) = (rule.tensor("boxes")?, rule.tensor("order")?);
    let (counts, limit) = (rule.tensor("counts")?, rule.tensor("limit")?);
    let threshold = rule.tensor("threshold")?;
    let dtype = rule.common_dtype(&[&boxes, &threshold])?;
    if dtype.is_some_and(|dtype| ![DType::F32, DType::F64].contains(&dtype)) {
        let message = format!("boxes of `{}` are float32 or float64", rule.name());
        return Err(rule.fault("dtype-mismatch", message, label(&boxes)));
    }
    for indices in [&order, &counts, &limit] {
        rule.need_index(indices)?;
    }
    let ranks = [
        (&boxes, 3),
        (&order, 3),
        (&counts, 2),
        (&limit, 0),
        (&threshold, 0),
    ];
    for (operand, rank) in ranks {
        rule.need_rank(operand, rank)?;
    }
    if let (Some([b, _, corners]), Some([batch, class, n])) = (boxes.shape(), order.shape()) {
        rule.same_dim(&boxes, b, &order, batch)?;
        rule.same_dim(&boxes, corners, &boxes, &Dim::int(4))?;
        if let Some([rows, columns]) = counts.shape() {
            rule.same_dim(&counts, rows, &order, batch)?;
            rule.same_dim(&counts, columns, &order, class)?;
        }
        let shape = vec![batch.clone(), class.clone(), n.clone()];
        return Ok(Type::Tensor(TensorType::new(DType::Bool, shape)));
    }
    Ok(Type::Tensor(TensorType {
        dtype: Some(DType::Bool),
        ndim: Some(3),
        ..TensorType::default()
    }))
}

pub(super) fn nonzero(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    let found = rule.scope.fresh("nonzero_n");
    let ty = match x.ty.ndim {
        Some(rank) => TensorType::new(DType::I64, vec![Dim::from(rank), found]),
        None => TensorType {
            dtype: Some(DType::I64),
            ndim: Some(2),
            ..TensorType::default()
        },
    };
    Ok(Type::Tensor(ty))
}

pub(super) fn unique(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    let count = rule.scope.fresh("unique_n");
    let axis = match (rule.call.opt_int("axis"), x.ty.ndim) {
        (Some(axis), Some(rank)) => Some(rule.axis(axis, rank)?),
        _ => None,
    };
    let whole: Option<Dim> = x.shape().map(|dims| dims.iter().product());
    let (values, inverse) = match (rule.call.opt_int("axis"), axis) {
        (None, _) => (
            TensorType::new(x.ty.dtype.unwrap_or(DType::F32), vec![count.clone()]),
            whole,
        ),
        (Some(_), Some(axis)) => {
            let along = x.shape().and_then(|dims| dims.get(axis).cloned());
            let mut ty = TensorType {
                value: None,
                ..x.ty.clone()
            };
            if let Some(dim) = ty.shape.as_mut().and_then(|dims| dims.get_mut(axis)) {
                *dim = count.clone();
            }
            (ty, along)
        }
        (Some(_), None) => (
            TensorType {
                value: None,
                ..x.ty.clone()
            },
            None,
        ),
    };
    let values = TensorType {
        dtype: x.ty.dtype,
        ..values
    };
    let counts = |length: Option<Dim>| {
        let shape = length.map(|dim| vec![dim]);
        Type::Tensor(TensorType {
            dtype: Some(DType::I64),
            ndim: Some(1),
            shape,
            value: None,
        })
    };
    let mut parts = vec![Type::Tensor(values)];
    if rule.call.bool("return_index") {
        parts.push(counts(Some(count.clone())));
    }
    if rule.call.bool("return_inverse") {
        parts.push(counts(inverse));
    }
    if rule.call.bool("return_counts") {
        parts.push(counts(Some(count)));
    }
    match parts.len() {
        1 => Ok(parts.remove(0)),
        _ => Ok(Type::Tuple(parts)),
    }
}

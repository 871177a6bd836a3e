//! Primitives that read at indices. A negative index counts from the end; one out of range is an error.

use super::{Done, checked_count, norm_axis, rearrange, split_at_axis, tensor};
use crate::interp::RunError;
use crate::tensor::Tensor;

/// How `take` treats an index out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::interp) enum Mode {
    /// An error.
    Check,
    /// The nearest index.
    Clip,
    /// Around the end.
    Wrap,
}

/// An index counted from the front. *Errors*: it is out of range.
pub(super) fn norm_index(index: i64, extent: usize) -> Done<usize> {
    let counted = if index < 0 {
        index.saturating_add(extent as i64)
    } else {
        index
    };
    usize::try_from(counted)
        .ok()
        .filter(|&index| index < extent)
        .ok_or_else(|| RunError::index_error(index, extent))
}

/// The elements of `x` at indices along an axis; of the flattened tensor for `None`.
pub(in crate::interp) fn take(x: &Tensor, indices: &Tensor, axis: Option<i64>, mode: Mode) -> Done {
    rearrange(x, |x| {
        let flat;
        let (x, axis) = match axis {
            Some(axis) => (x, norm_axis(axis, x.shape.len())?),
            None => {
                flat = Tensor {
                    shape: vec![x.len()],
                    ..x.clone()
                };
                (&flat, 0)
            }
        };
        let (outer, extent, inner) = split_at_axis(&x.shape, axis);
        let place = |index: i64| match mode {
            Mode::Check => norm_index(index, extent),
            _ if extent == 0 => Err(RunError::index_error(index, extent)),
            Mode::Clip => Ok(index.clamp(0, extent as i64 - 1) as usize),
            Mode::Wrap => Ok(index.rem_euclid(extent as i64) as usize),
        };
        let rows = indices
            .to_i64s()
            .into_iter()
            .map(place)
            .collect::<Done<Vec<_>>>()?;
        let mut shape = x.shape[..axis].to_vec();
        shape.extend(&indices.shape);
        shape.extend(&x.shape[axis + 1..]);
        let run = inner * x.dtype.bytes();
        let mut data = Vec::with_capacity(checked_count(&shape, x.dtype)? * x.dtype.bytes());
        for at in 0..outer {
            for &row in &rows {
                let start = (at * extent + row) * run;
                data.extend_from_slice(&x.data[start..start + run]);
            }
        }
        tensor(x.dtype, shape, data)
    })
}

/// Positions in a row-major tensor of `shape` that `indices` of the same rank name along an axis.
pub(super) fn element_positions(
    shape: &[usize],
    indices: &Tensor,
    axis: usize,
) -> Done<Vec<usize>> {
    let fits = indices.shape.len() == shape.len()
        && (0..shape.len()).all(|at| at == axis || indices.shape[at] <= shape[at]);
    if !fits {
        return Err(RunError::value_error(format!(
            "indices of shape {:?} into {shape:?}",
            indices.shape
        )));
    }
    let mut position = vec![0usize; shape.len()];
    let mut res = Vec::with_capacity(indices.len());
    for index in indices.to_i64s() {
        let row = norm_index(index, shape[axis])?;
        let at = (0..shape.len()).fold(0, |at, dim| {
            at * shape[dim] + if dim == axis { row } else { position[dim] }
        });
        res.push(at);
        advance(&mut position, &indices.shape);
    }
    Ok(res)
}

/// Moves a position on by one element in row-major order.
pub(super) fn advance(position: &mut [usize], shape: &[usize]) {
    for (at, &extent) in position.iter_mut().zip(shape).rev() {
        *at += 1;
        if *at < extent {
            return;
        }
        *at = 0;
    }
}

/// `res[i, j] = x[indices[i, j], j]` for axis 0.
pub(in crate::interp) fn gather_elements(x: &Tensor, indices: &Tensor, axis: i64) -> Done {
    let axis = norm_axis(axis, x.shape.len())?;
    let positions = element_positions(&x.shape, indices, axis)?;
    rearrange(x, |x| {
        let size = x.dtype.bytes();
        let data = positions
            .iter()
            .flat_map(|&at| &x.data[at * size..(at + 1) * size])
            .copied();
        tensor(x.dtype, indices.shape.clone(), data.collect())
    })
}

/// For each row of `indices` the first element of the slice of a tensor it selects, and the length of those slices.
pub(super) fn row_positions(
    shape: &[usize],
    indices: &Tensor,
    batch_dims: usize,
) -> Done<(Vec<usize>, usize)> {
    let fault = || {
        RunError::value_error(format!(
            "rows of indices of shape {:?} into {shape:?}",
            indices.shape
        ))
    };
    let &row = indices.shape.last().ok_or_else(fault)?;
    if batch_dims + row > shape.len() || batch_dims >= indices.shape.len() {
        return Err(fault());
    }
    if shape[..batch_dims] != indices.shape[..batch_dims] {
        return Err(fault());
    }
    let selected = &shape[batch_dims..batch_dims + row];
    let slice: usize = shape[batch_dims + row..].iter().product();
    let per_batch: usize = selected.iter().product::<usize>() * slice;
    let batches: usize = shape[..batch_dims].iter().product();
    let rows = indices.shape[..indices.shape.len() - 1]
        .iter()
        .product::<usize>();
    let values = indices.to_i64s();
    let mut res = Vec::with_capacity(rows);
    for at in 0..rows {
        let batch = at / (rows / batches.max(1)).max(1);
        let mut place = 0;
        for (index, &extent) in values[at * row..(at + 1) * row].iter().zip(selected) {
            place = place * extent + norm_index(*index, extent)?;
        }
        res.push(batch * per_batch + place * slice);
    }
    Ok((res, slice))
}

/// `res[i] = x[indices[i, 0], indices[i, 1], …]`.
pub(in crate::interp) fn gather_nd(x: &Tensor, indices: &Tensor, batch_dims: i64) -> Done {
    let batch_dims = usize::try_from(batch_dims)
        .map_err(|_| RunError::value_error("a negative number of batch axes"))?;
    let (starts, slice) = row_positions(&x.shape, indices, batch_dims)?;
    rearrange(x, |x| {
        let size = x.dtype.bytes();
        let row = indices.shape.last().copied().unwrap_or_default();
        let mut shape = indices.shape[..indices.shape.len() - 1].to_vec();
        shape.extend(&x.shape[batch_dims + row..]);
        let slices = starts
            .iter()
            .flat_map(|&at| &x.data[at * size..(at + slice) * size]);
        tensor(x.dtype, shape, slices.copied().collect())
    })
}

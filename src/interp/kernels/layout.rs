//! Primitives that move elements without looking at them.

use irc_syntax::DType;

use super::walk::{Side, copy_strided, row_major};
use super::{Done, checked_count, norm_axis, pick_strings, rearrange, tensor};
use crate::interp::RunError;
use crate::tensor::{Tensor, count};

/// Reorders axes; reverses them for `None`.
pub(in crate::interp) fn permute_dims(x: &Tensor, axes: Option<&[i64]>) -> Done {
    let rank = x.shape.len();
    let order: Vec<usize> = match axes {
        None => (0..rank).rev().collect(),
        Some(axes) => axes
            .iter()
            .map(|&axis| norm_axis(axis, rank))
            .collect::<Done<_>>()?,
    };
    let mut seen = vec![false; rank];
    order.iter().for_each(|&axis| seen[axis] = true);
    if order.len() != rank || seen.contains(&false) {
        return Err(RunError::value_error(format!(
            "{order:?} is no order of {rank} axes"
        )));
    }
    rearrange(x, |x| {
        let own = row_major(&x.shape);
        let shape: Vec<usize> = order.iter().map(|&axis| x.shape[axis]).collect();
        let strides: Vec<isize> = order.iter().map(|&axis| own[axis]).collect();
        gather_strided(x, shape, 0, &strides)
    })
}

/// A new tensor whose elements are met by a walk over another.
fn gather_strided(x: &Tensor, shape: Vec<usize>, base: isize, strides: &[isize]) -> Done {
    let size = x.dtype.bytes();
    let mut data = vec![0u8; checked_count(&shape, x.dtype)? * size];
    let to = row_major(&shape);
    let from = (&*x.data, Side { base, strides });
    copy_strided(
        &shape,
        size,
        from,
        (
            &mut data,
            Side {
                base: 0,
                strides: &to,
            },
        ),
    );
    tensor(x.dtype, shape, data)
}

/// The same elements in another shape; one extent of -1 is found from the others.
pub(in crate::interp) fn reshape(x: &Tensor, shape: &[i64]) -> Done {
    let fault = || {
        RunError::value_error(format!(
            "{} elements of shape {:?} into {shape:?}",
            x.len(),
            x.shape
        ))
    };
    let known: usize = shape
        .iter()
        .filter(|&&extent| extent != -1)
        .try_fold(1usize, |len, &extent| {
            len.checked_mul(usize::try_from(extent).ok()?)
        })
        .ok_or_else(fault)?;
    let extents = shape.iter().map(|&extent| match extent {
        -1 if known == 0 => 0,
        -1 => x.len() / known,
        extent => extent as usize,
    });
    x.reshaped(extents.collect()).ok_or_else(fault)
}

/// Which elements of one axis a slice takes: the first, and how many, `step` apart.
pub(in crate::interp) fn slice_range(
    extent: usize,
    begin: i64,
    end: i64,
    step: i64,
) -> Done<(i64, usize)> {
    let extent = extent as i64;
    if step == 0 {
        return Err(RunError::value_error("a slice with a step of 0"));
    }
    // Python's rules: negative bounds count from the end, then both are clamped.
    let (lo, hi) = if step > 0 {
        (0, extent)
    } else {
        (-1, extent - 1)
    };
    let bound = |at: i64| {
        let at = if at < 0 {
            at.saturating_add(extent)
        } else {
            at
        };
        at.clamp(lo, hi)
    };
    let (begin, end) = (bound(begin), bound(end));
    let distance = if step > 0 { end - begin } else { begin - end };
    let stride = step.unsigned_abs();
    let len = (distance.max(0) as u64).div_ceil(stride);
    Ok((begin, len as usize))
}

/// `x[begin:end:stride]` along the named axes.
pub(in crate::interp) fn strided_slice(
    x: &Tensor,
    axes: &[i64],
    begin: &[i64],
    end: &[i64],
    steps: Option<&[i64]>,
) -> Done {
    let steps_given = steps.is_none_or(|steps| steps.len() == axes.len());
    if begin.len() != axes.len() || end.len() != axes.len() || !steps_given {
        return Err(RunError::value_error(
            "a slice with bounds and axes of different number",
        ));
    }
    rearrange(x, |x| {
        let mut shape = x.shape.clone();
        let mut strides = row_major(&x.shape);
        let mut base = 0isize;
        for (at, &axis) in axes.iter().enumerate() {
            let axis = norm_axis(axis, shape.len())?;
            let step = steps.map_or(1, |steps| steps[at]);
            let (first, len) = slice_range(x.shape[axis], begin[at], end[at], step)?;
            shape[axis] = len;
            base += first as isize * strides[axis];
            // A step beyond every element is never taken.
            strides[axis] = strides[axis].saturating_mul(step as isize);
        }
        gather_strided(x, shape, base, &strides)
    })
}

/// Joins tensors along an axis.
pub(in crate::interp) fn concat(items: &[&Tensor], axis: i64) -> Done {
    let Some(first) = items.first() else {
        return Err(RunError::value_error("a concatenation of no tensors"));
    };
    let axis = norm_axis(axis, first.shape.len())?;
    let mut shape = first.shape.clone();
    shape[axis] = 0;
    for item in items {
        let fits = item.dtype == first.dtype
            && item.shape.len() == shape.len()
            && (0..shape.len()).all(|at| at == axis || item.shape[at] == shape[at]);
        if !fits {
            return Err(RunError::value_error(format!(
                "a concatenation along axis {axis} of shapes {:?} and {:?}",
                first.shape, item.shape
            )));
        }
        shape[axis] += item.shape[axis];
    }
    if first.dtype == DType::Str {
        return concat_strings(items, axis as i64);
    }
    let size = first.dtype.bytes();
    let mut data = vec![0u8; checked_count(&shape, first.dtype)? * size];
    let strides = row_major(&shape);
    let mut base = 0isize;
    for item in items {
        let own = row_major(&item.shape);
        let from = (
            &*item.data,
            Side {
                base: 0,
                strides: &own,
            },
        );
        copy_strided(
            &item.shape,
            size,
            from,
            (
                &mut data,
                Side {
                    base,
                    strides: &strides,
                },
            ),
        );
        base += item.shape[axis] as isize * strides[axis];
    }
    tensor(first.dtype, shape, data)
}

fn concat_strings(items: &[&Tensor], axis: i64) -> Done {
    let mut all: Vec<String> = Vec::new();
    let mut positions = Vec::with_capacity(items.len());
    for item in items {
        let start = all.len();
        all.extend(
            item.strings
                .iter()
                .flat_map(|strings| strings.iter().cloned()),
        );
        positions.push(Tensor::from_fn(item.shape.clone(), |at| {
            (start + at) as i64
        }));
    }
    let joined = concat(&positions.iter().collect::<Vec<_>>(), axis)?;
    pick_strings(&joined, |at| all.get(at).cloned())
}

/// Adds `value` around a tensor; `width` holds begin and end of each axis, negative ones crop.
pub(in crate::interp) fn pad(x: &Tensor, width: &[i64], value: &Tensor) -> Done {
    let rank = x.shape.len();
    if width.len() != 2 * rank || value.dtype != x.dtype || x.strings.is_some() {
        return Err(RunError::value_error(format!(
            "{} paddings of {rank} axes",
            width.len()
        )));
    }
    let size = x.dtype.bytes();
    let own = row_major(&x.shape);
    let mut shape = Vec::with_capacity(rank);
    let mut kept = Vec::with_capacity(rank);
    let (mut from, mut to_corner) = (0isize, Vec::with_capacity(rank));
    for (axis, ends) in width.chunks_exact(2).enumerate() {
        let extent = x.shape[axis] as i64;
        let padded = extent + ends[0] + ends[1];
        let padded = usize::try_from(padded)
            .map_err(|_| RunError::value_error(format!("axis {axis} cropped below nothing")))?;
        let (first, last) = ((-ends[0]).max(0), extent - (-ends[1]).max(0));
        shape.push(padded);
        kept.push((last - first).max(0) as usize);
        from += first as isize * own[axis];
        to_corner.push(ends[0].max(0) as isize);
    }
    let len = checked_count(&shape, x.dtype)?;
    let mut data = value.data.repeat(len);
    let strides = row_major(&shape);
    let to = to_corner
        .iter()
        .zip(&strides)
        .map(|(at, stride)| at * stride)
        .sum();
    if count(&kept) != Some(0) {
        let src = (
            &*x.data,
            Side {
                base: from,
                strides: &own,
            },
        );
        copy_strided(
            &kept,
            size,
            src,
            (
                &mut data,
                Side {
                    base: to,
                    strides: &strides,
                },
            ),
        );
    }
    tensor(x.dtype, shape, data)
}

//! Reductions and scans.

use irc_syntax::DType;

use super::element::pack;
use super::num::Num;
use super::walk::{row_major, walk_runs};
use super::{Done, Nums, checked_count, norm_axis, split_at_axis, tensor, with_nums};
use crate::check::prim::Reduce;
use crate::interp::RunError;
use crate::tensor::Tensor;

/// Reduces over axes, all of them for `None`. An empty sum is 0, an empty product 1, an empty maximum the least value.
pub(in crate::interp) fn reduce(
    op: Reduce,
    x: &Tensor,
    axes: Option<&[i64]>,
    keepdims: bool,
) -> Done {
    let rank = x.shape.len();
    let mut reduced = vec![axes.is_none(); rank];
    for &axis in axes.unwrap_or_default() {
        reduced[norm_axis(axis, rank)?] = true;
    }
    let nums = Nums::load(x)?;
    with_nums!(nums, values => reduce_of(op, x, &values, &reduced, keepdims))
}

fn reduce_of<T: Num>(
    op: Reduce,
    x: &Tensor,
    values: &[T],
    reduced: &[bool],
    keepdims: bool,
) -> Done {
    let kept: Vec<usize> = x
        .shape
        .iter()
        .zip(reduced)
        .map(|(&extent, &reduced)| if reduced { 1 } else { extent })
        .collect();
    let (least, greatest) = T::limits(x.dtype);
    let (start, combine): (T, fn(T, T) -> T) = match op {
        Reduce::Sum => (T::ZERO, T::add),
        Reduce::Prod => (T::ONE, T::mul),
        Reduce::Max => (least, T::larger),
        Reduce::Min => (greatest, T::smaller),
    };
    let mut res = vec![start; checked_count(&kept, x.dtype)?];
    let mut to = row_major(&kept);
    for (stride, &reduced) in to.iter_mut().zip(reduced) {
        if reduced {
            *stride = 0;
        }
    }
    // The walk is row-major over the operand, so each result meets its elements in that order.
    walk_runs(
        &x.shape,
        [&to, &row_major(&x.shape)],
        [0, 0],
        |[at, from], len, [step, _]| {
            let run = &values[from as usize..from as usize + len];
            if step == 0 {
                let place = &mut res[at as usize];
                *place = run.iter().fold(*place, |sum, &value| combine(sum, value));
            } else {
                let places = res[at as usize..].iter_mut().step_by(step as usize);
                for (place, &value) in places.zip(run) {
                    *place = combine(*place, value);
                }
            }
        },
    );
    let shape = if keepdims {
        kept
    } else {
        kept.iter()
            .zip(reduced)
            .filter(|(_, reduced)| !**reduced)
            .map(|(&extent, _)| extent)
            .collect()
    };
    pack(x.dtype, shape, &res)
}

/// Which extreme is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::interp) enum Extreme {
    Max,
    Min,
}

/// The position of the extreme along an axis, or of all elements; the lowest position wins.
pub(in crate::interp) fn arg_reduce(
    extreme: Extreme,
    x: &Tensor,
    axis: Option<i64>,
    keepdims: bool,
    dtype: DType,
) -> Done {
    let rank = x.shape.len();
    let (outer, extent, inner, shape) = match axis {
        None => (
            1,
            x.len(),
            1,
            if keepdims { vec![1; rank] } else { Vec::new() },
        ),
        Some(axis) => {
            let axis = norm_axis(axis, rank)?;
            let (outer, extent, inner) = split_at_axis(&x.shape, axis);
            let mut shape = x.shape.clone();
            if keepdims {
                shape[axis] = 1;
            } else {
                shape.remove(axis);
            }
            (outer, extent, inner, shape)
        }
    };
    if extent == 0 && outer * inner != 0 {
        return Err(RunError::value_error(
            "the position of an extreme of no elements",
        ));
    }
    let nums = Nums::load(x)?;
    let positions = with_nums!(nums, values => arg_of(extreme, &values, (outer, extent, inner)));
    Tensor::from_i64s(dtype, shape, &positions)
        .ok_or_else(|| RunError::value_error("positions do not fit their shape"))
}

fn arg_of<T: Num>(
    extreme: Extreme,
    values: &[T],
    (outer, extent, inner): (usize, usize, usize),
) -> Vec<i64> {
    let mut positions = Vec::with_capacity(outer * inner);
    for at in 0..outer {
        for column in 0..inner {
            let value = |row: usize| values[(at * extent + row) * inner + column];
            let mut best = 0;
            for row in 1..extent {
                let better = match extreme {
                    Extreme::Max => value(row) > value(best),
                    Extreme::Min => value(row) < value(best),
                };
                if better {
                    best = row;
                }
            }
            positions.push(best as i64);
        }
    }
    positions
}

/// What a scan accumulates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::interp) enum Scan {
    Sum,
    Prod,
}

/// Running sums or products along an axis, of all elements in row-major order for `None`.
pub(in crate::interp) fn scan(
    scan: Scan,
    x: &Tensor,
    axis: Option<i64>,
    dtype: DType,
    exclusive: bool,
) -> Done {
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
    let nums = Nums::load_as(x, dtype)?;
    with_nums!(nums, values => {
        let mut values = values;
        scan_of(scan, &mut values, (outer, extent, inner), exclusive);
        pack(dtype, x.shape.clone(), &values)
    })
}

fn scan_of<T: Num>(
    scan: Scan,
    values: &mut [T],
    (outer, extent, inner): (usize, usize, usize),
    exclusive: bool,
) {
    let (start, combine): (T, fn(T, T) -> T) = match scan {
        Scan::Sum => (T::ZERO, T::add),
        Scan::Prod => (T::ONE, T::mul),
    };
    for at in 0..outer {
        for column in 0..inner {
            let mut running = start;
            for row in 0..extent {
                let place = &mut values[(at * extent + row) * inner + column];
                let next = combine(running, *place);
                *place = if exclusive { running } else { next };
                running = next;
            }
        }
    }
}

/// `[rank, n]` positions of the elements that are not zero, in row-major order.
pub(in crate::interp) fn nonzero(x: &Tensor) -> Done {
    let truths: Vec<bool> = with_nums!(Nums::load(x)?, values => {
        values.iter().map(|value| value.is_true()).collect()
    });
    let found: Vec<usize> = truths
        .iter()
        .enumerate()
        .filter(|(_, truth)| **truth)
        .map(|(at, _)| at)
        .collect();
    let strides = row_major(&x.shape);
    let mut positions: Vec<i64> = Vec::with_capacity(found.len() * x.shape.len());
    for (&stride, &extent) in strides.iter().zip(&x.shape) {
        positions.extend(
            found
                .iter()
                .map(|&at| (at / stride as usize % extent) as i64),
        );
    }
    let bytes = positions
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    tensor(DType::I64, vec![x.shape.len(), found.len()], bytes)
}

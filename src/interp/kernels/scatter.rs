//! Primitives that write at indices. Updates apply in row-major order; the last of several wins.

use super::element::pack;
use super::gather::{element_positions, row_positions};
use super::num::Num;
use super::{Done, Nums, norm_axis, tensor};
use crate::interp::RunError;
use crate::tensor::Tensor;

/// How an update meets the element it is written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::interp) enum Reduction {
    Update,
    Add,
    Mul,
    Min,
    Max,
}

impl Reduction {
    /// The reduction of a name. *Errors*: there is none.
    pub(in crate::interp) fn parse(name: &str) -> Done<Self> {
        Ok(match name {
            "update" | "none" => Self::Update,
            "add" => Self::Add,
            "mul" => Self::Mul,
            "min" => Self::Min,
            "max" => Self::Max,
            _ => {
                return Err(RunError::value_error(format!(
                    "there is no reduction {name:?}"
                )));
            }
        })
    }
}

/// `res[indices[i, j], j] = updates[i, j]` for axis 0.
pub(in crate::interp) fn scatter_elements(
    x: &Tensor,
    indices: &Tensor,
    updates: &Tensor,
    axis: i64,
    reduction: Reduction,
) -> Done {
    let axis = norm_axis(axis, x.shape.len())?;
    let positions = element_positions(&x.shape, indices, axis)?;
    if updates.shape != indices.shape {
        return Err(RunError::value_error(format!(
            "updates of shape {:?} at indices of shape {:?}",
            updates.shape, indices.shape
        )));
    }
    scatter(x, &positions, 1, updates, reduction)
}

/// `res[indices[i, 0], indices[i, 1], …] = updates[i]`.
pub(in crate::interp) fn scatter_nd(
    x: &Tensor,
    indices: &Tensor,
    updates: &Tensor,
    reduction: Reduction,
) -> Done {
    let (starts, slice) = row_positions(&x.shape, indices, 0)?;
    if updates.len() != starts.len() * slice {
        return Err(RunError::value_error(format!(
            "updates of shape {:?} at indices of shape {:?}",
            updates.shape, indices.shape
        )));
    }
    scatter(x, &starts, slice, updates, reduction)
}

fn scatter(
    x: &Tensor,
    starts: &[usize],
    slice: usize,
    updates: &Tensor,
    reduction: Reduction,
) -> Done {
    if x.dtype != updates.dtype {
        return Err(RunError::type_error(format!(
            "updates of {} into {}",
            updates.dtype, x.dtype
        )));
    }
    if reduction != Reduction::Update {
        return match (Nums::load(x)?, Nums::load(updates)?) {
            (Nums::F32(old), Nums::F32(new)) => combine(x, old, starts, slice, &new, reduction),
            (Nums::F64(old), Nums::F64(new)) => combine(x, old, starts, slice, &new, reduction),
            (Nums::I64(old), Nums::I64(new)) => combine(x, old, starts, slice, &new, reduction),
            (Nums::U64(old), Nums::U64(new)) => combine(x, old, starts, slice, &new, reduction),
            _ => Err(RunError::type_error("operands of two classes")),
        };
    }
    if let (Some(old), Some(new)) = (&x.strings, &updates.strings) {
        let mut strings = old.to_vec();
        for (at, &start) in starts.iter().enumerate() {
            strings[start..start + slice].clone_from_slice(&new[at * slice..(at + 1) * slice]);
        }
        return Tensor::from_strings(x.shape.clone(), strings)
            .ok_or_else(|| RunError::value_error("strings do not fit their shape"));
    }
    let run = slice * x.dtype.bytes();
    let mut data = x.data.to_vec();
    for (at, &start) in starts.iter().enumerate() {
        let start = start * x.dtype.bytes();
        data[start..start + run].copy_from_slice(&updates.data[at * run..(at + 1) * run]);
    }
    tensor(x.dtype, x.shape.clone(), data)
}

fn combine<T: Num>(
    x: &Tensor,
    mut values: Vec<T>,
    starts: &[usize],
    slice: usize,
    updates: &[T],
    reduction: Reduction,
) -> Done {
    let meet: fn(T, T) -> T = match reduction {
        Reduction::Update => |_, new| new,
        Reduction::Add => T::add,
        Reduction::Mul => T::mul,
        Reduction::Min => T::smaller,
        Reduction::Max => T::larger,
    };
    for (at, &start) in starts.iter().enumerate() {
        let places = &mut values[start..start + slice];
        for (place, &new) in places
            .iter_mut()
            .zip(&updates[at * slice..(at + 1) * slice])
        {
            *place = meet(*place, new);
        }
    }
    pack(x.dtype, x.shape.clone(), &values)
}

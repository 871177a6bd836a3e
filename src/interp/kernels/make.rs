//! Primitives that make tensors.

use irc_syntax::DType;

use super::element::pack;
use super::num::Num;
use super::{Done, Nums, checked_count, tensor};
use crate::interp::RunError;
use crate::tensor::Tensor;

/// A tensor whose elements are all the element of a rank-0 (or one-element) tensor.
pub(in crate::interp) fn full(shape: &[usize], fill: &Tensor) -> Done {
    if fill.len() != 1 {
        return Err(RunError::value_error(format!(
            "a fill value of shape {:?}",
            fill.shape
        )));
    }
    let len = checked_count(shape, fill.dtype)?;
    if let Some(strings) = &fill.strings {
        return Tensor::from_strings(shape.to_vec(), vec![strings[0].clone(); len])
            .ok_or_else(|| RunError::value_error("strings do not fit their shape"));
    }
    tensor(fill.dtype, shape.to_vec(), fill.data.repeat(len))
}

/// `start + i * step` below (above, for a negative step) `end`; all operands are of the result's dtype.
pub(in crate::interp) fn arange(start: &Tensor, end: &Tensor, step: &Tensor, dtype: DType) -> Done {
    let ends = (
        Nums::load_as(start, dtype)?,
        Nums::load_as(end, dtype)?,
        Nums::load_as(step, dtype)?,
    );
    match ends {
        (Nums::F32(start), Nums::F32(end), Nums::F32(step)) => range(dtype, &start, &end, &step),
        (Nums::F64(start), Nums::F64(end), Nums::F64(step)) => range(dtype, &start, &end, &step),
        (Nums::I64(start), Nums::I64(end), Nums::I64(step)) => range(dtype, &start, &end, &step),
        (Nums::U64(start), Nums::U64(end), Nums::U64(step)) => range(dtype, &start, &end, &step),
        _ => Err(RunError::type_error("operands of two classes")),
    }
}

fn range<T: Num>(dtype: DType, start: &[T], end: &[T], step: &[T]) -> Done {
    let (&[start], &[end], &[step]) = (start, end, step) else {
        return Err(RunError::value_error(
            "a range with ends of more than one element",
        ));
    };
    let len = if dtype.is_int() {
        let (start, end, step) = (start.to_i128(), end.to_i128(), step.to_i128());
        match step {
            0 => -1,
            1.. => (end - start + step - 1).div_euclid(step).max(0),
            _ => (start - end - step - 1).div_euclid(-step).max(0),
        }
    } else {
        let len = ((end.to_f64() - start.to_f64()) / step.to_f64()).ceil();
        if len.is_finite() {
            (len as i128).max(0)
        } else {
            -1
        }
    };
    let len = usize::try_from(len).map_err(|_| {
        RunError::value_error("a range whose step is 0 or whose ends are not finite")
    })?;
    checked_count(&[len], dtype)?;
    let values: Vec<T> = (0..len)
        .map(|at| start.add(T::from_usize(at).mul(step)))
        .collect();
    pack(dtype, vec![len], &values)
}

//! What primitives do to tensors: plain functions of tensors and numbers, without names, types or symbols.
//!
//! Arithmetic is done in one of four classes ([`Nums`]): floats up to 32 bits in f32, f64, integers and bools in i64, uint64.
//! The result is rounded (or wrapped) to its dtype once an operator. A reduction, a contraction or a window is one operator:
//! it accumulates in its class in row-major order of the reduced axes.

pub(super) mod contract;
pub(super) mod element;
pub(super) mod gather;
pub(super) mod image;
pub(super) mod layout;
pub(super) mod make;
pub(super) mod num;
pub(super) mod order;
pub(super) mod reduce;
pub(super) mod scatter;
pub(super) mod string;
use crate::tensor::walk;
pub(super) mod window;

use irc_syntax::DType;

use super::RunError;
use crate::tensor::{Tensor, count};

/// What kernels give.
pub(super) type Done<T = Tensor> = Result<T, RunError>;

/// The numbers of a tensor in the type that arithmetic is done in.
pub(super) enum Nums {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
    U64(Vec<u64>),
}

impl Nums {
    /// Loads a tensor. *Errors*: strings and complex numbers have no arithmetic.
    pub(super) fn load(tensor: &Tensor) -> Done<Self> {
        Ok(match tensor.dtype {
            DType::F64 => Self::F64(tensor.to_f64s()),
            DType::U64 => Self::U64(
                tensor
                    .to_i64s()
                    .into_iter()
                    .map(|value| value as u64)
                    .collect(),
            ),
            DType::Str | DType::C64 | DType::C128 => {
                return Err(RunError::type_error(format!(
                    "no arithmetic on {}",
                    tensor.dtype
                )));
            }
            dtype if dtype.is_float() => Self::F32(tensor.to_f32s()),
            _ => Self::I64(tensor.to_i64s()),
        })
    }

    /// Loads a tensor in the class of another dtype.
    pub(super) fn load_as(tensor: &Tensor, dtype: DType) -> Done<Self> {
        if tensor.dtype == dtype {
            return Self::load(tensor);
        }
        // A small integer among wider ones keeps its value; so does a small float.
        Ok(match dtype {
            DType::F64 => Self::F64(tensor.to_f64s()),
            DType::U64 => Self::U64(
                tensor
                    .to_i64s()
                    .into_iter()
                    .map(|value| value as u64)
                    .collect(),
            ),
            DType::Str | DType::C64 | DType::C128 => {
                return Err(RunError::type_error(format!("no arithmetic on {dtype}")));
            }
            dtype if dtype.is_float() => Self::F32(tensor.to_f32s()),
            _ => Self::I64(tensor.to_i64s()),
        })
    }
}

/// Evaluates an expression with `$values` bound to the numbers of a tensor, whatever their class.
macro_rules! with_nums {
    ($nums:expr, $values:ident => $body:expr) => {
        match $nums {
            $crate::interp::kernels::Nums::F32($values) => $body,
            $crate::interp::kernels::Nums::F64($values) => $body,
            $crate::interp::kernels::Nums::I64($values) => $body,
            $crate::interp::kernels::Nums::U64($values) => $body,
        }
    };
}
pub(super) use with_nums;

/// The number of elements of a shape that is about to be made. *Errors*: there is no memory for it.
pub(super) fn checked_count(shape: &[usize], dtype: DType) -> Done<usize> {
    const MOST: usize = 1 << 36;
    count(shape)
        .filter(|len| {
            len.checked_mul(dtype.bytes())
                .is_some_and(|bytes| bytes <= MOST)
        })
        .ok_or_else(|| RunError::value_error(format!("a tensor of shape {shape:?} is too large")))
}

/// An axis counted from the front. *Errors*: there is no such axis.
pub(super) fn norm_axis(axis: i64, rank: usize) -> Done<usize> {
    let counted = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(counted)
        .ok()
        .filter(|&axis| axis < rank)
        .ok_or_else(|| RunError::value_error(format!("axis {axis} of a tensor of rank {rank}")))
}

/// Extents before an axis, at it, and after it, multiplied up.
pub(super) fn split_at_axis(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    (
        shape[..axis].iter().product(),
        shape[axis],
        shape[axis + 1..].iter().product(),
    )
}

/// Applies a rearrangement to a tensor of any dtype: strings are rearranged by their positions.
pub(super) fn rearrange(x: &Tensor, move_elements: impl Fn(&Tensor) -> Done) -> Done {
    let Some(strings) = &x.strings else {
        return move_elements(x);
    };
    let positions = Tensor::from_fn(x.shape.clone(), |at| at as i64);
    let moved = move_elements(&positions)?;
    pick_strings(&moved, |at| strings.get(at).cloned())
}

/// The string tensor that a tensor of positions describes.
pub(super) fn pick_strings(positions: &Tensor, string: impl Fn(usize) -> Option<String>) -> Done {
    let picked: Vec<String> = positions
        .to_i64s()
        .into_iter()
        .map(|at| string(at as usize).unwrap_or_default())
        .collect();
    Tensor::from_strings(positions.shape.clone(), picked)
        .ok_or_else(|| RunError::value_error("strings do not fit their shape"))
}

/// A tensor over bytes whose number is right by construction.
pub(super) fn tensor(dtype: DType, shape: Vec<usize>, data: Vec<u8>) -> Done {
    Tensor::new(dtype, shape, data)
        .ok_or_else(|| RunError::value_error("elements do not fit their shape"))
}

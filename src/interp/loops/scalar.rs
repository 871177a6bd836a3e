//! Scalars of every dtype as an i64 or an f64, and their bytes.
//!
//! Integers and bools are computed in i64 and wrapped to their dtype after every operation. Floats are computed in f64 and
//! rounded to their dtype after every operation, which for `+ - * /` and square roots of float32 and narrower is exact.

use half::{bf16, f16};
use irc_syntax::DType;

use crate::tensor::Tensor;

/// Rounds to a float dtype.
pub(super) fn round(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F64 => value,
        DType::F32 => f64::from(value as f32),
        DType::F16 => f16::from_f64(value).to_f64(),
        DType::BF16 => bf16::from_f64(value).to_f64(),
        _ => Tensor::from_f64s(dtype, Vec::new(), &[value])
            .and_then(|tensor| tensor.to_f64s().first().copied())
            .unwrap_or(f64::NAN),
    }
}

/// Wraps to an integer dtype; a bool keeps whether it is zero.
pub(super) fn wrap(dtype: DType, value: i64) -> i64 {
    match dtype {
        DType::Bool => i64::from(value != 0),
        DType::I64 | DType::U64 => value,
        DType::I32 => i64::from(value as i32),
        DType::U32 => i64::from(value as u32),
        _ => {
            let shift = 64 - dtype.bits();
            if dtype.is_signed() {
                (value << shift) >> shift
            } else {
                (((value as u64) << shift) >> shift) as i64
            }
        }
    }
}

/// An integer as a float: uint64 keeps its bits in an i64.
pub(super) fn int_to_float(dtype: DType, value: i64) -> f64 {
    if dtype == DType::U64 {
        value as u64 as f64
    } else {
        value as f64
    }
}

/// A float as an integer: truncated to 64 bits, then wrapped.
pub(super) fn float_to_int(dtype: DType, value: f64) -> i64 {
    match dtype {
        DType::Bool => i64::from(value != 0.0),
        DType::U64 if value >= 0.0 => value as u64 as i64,
        _ => wrap(dtype, value as i64),
    }
}

/// Reads an integer of a dtype.
pub(super) fn load_int(dtype: DType, bytes: &[u8]) -> i64 {
    let mut wide = [0u8; 8];
    let len = bytes.len().min(8);
    wide[..len].copy_from_slice(&bytes[..len]);
    wrap(dtype, i64::from_le_bytes(wide))
}

/// Writes an integer.
pub(super) fn store_int(bytes: &mut [u8], value: i64) {
    let len = bytes.len().min(8);
    bytes[..len].copy_from_slice(&value.to_le_bytes()[..len]);
}

/// Reads a float of a dtype.
pub(super) fn load_float(dtype: DType, bytes: &[u8]) -> f64 {
    match (dtype, bytes) {
        (DType::F32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
        (DType::F64, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        (DType::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f64(),
        (DType::BF16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f64(),
        _ => Tensor::new(dtype, Vec::new(), bytes)
            .and_then(|tensor| tensor.to_f64s().first().copied())
            .unwrap_or(f64::NAN),
    }
}

/// Writes a float of a dtype.
pub(super) fn store_float(dtype: DType, bytes: &mut [u8], value: f64) {
    match dtype {
        DType::F32 => bytes.copy_from_slice(&(value as f32).to_le_bytes()),
        DType::F64 => bytes.copy_from_slice(&value.to_le_bytes()),
        DType::F16 => bytes.copy_from_slice(&f16::from_f64(value).to_le_bytes()),
        DType::BF16 => bytes.copy_from_slice(&bf16::from_f64(value).to_le_bytes()),
        _ => {
            if let Some(tensor) = Tensor::from_f64s(dtype, Vec::new(), &[value]) {
                bytes.copy_from_slice(&tensor.data);
            }
        }
    }
}

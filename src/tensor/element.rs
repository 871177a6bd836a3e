//! Typed access to the bytes of a tensor: the Rust types that are elements, and iterators over any numeric dtype.

use half::{bf16, f16};
use irc_syntax::DType;

use super::{Tensor, minifloat};

/// A Rust type that is the element of a dtype.
pub trait Element: Copy {
    /// The dtype it stands for.
    const DTYPE: DType;
    /// Reads every element of little-endian bytes.
    fn decode(bytes: &[u8]) -> Vec<Self>;
    /// Writes elements as little-endian bytes.
    fn encode(values: &[Self]) -> Vec<u8>;
}

macro_rules! element {
    ($($ty:ty => $dtype:ident, $bytes:literal;)*) => {$(
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            fn decode(bytes: &[u8]) -> Vec<Self> {
                let (chunks, _) = bytes.as_chunks::<$bytes>();
                chunks.iter().map(|chunk| Self::from_le_bytes(*chunk)).collect()
            }
            fn encode(values: &[Self]) -> Vec<u8> {
                values.iter().flat_map(|value| value.to_le_bytes()).collect()
            }
        }
    )*};
}

element! {
    i8 => I8, 1;
    i16 => I16, 2;
    i32 => I32, 4;
    i64 => I64, 8;
    u8 => U8, 1;
    u16 => U16, 2;
    u32 => U32, 4;
    u64 => U64, 8;
    f16 => F16, 2;
    bf16 => BF16, 2;
    f32 => F32, 4;
    f64 => F64, 8;
}

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn decode(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|&byte| byte != 0).collect()
    }
    fn encode(values: &[Self]) -> Vec<u8> {
        values.iter().map(|&value| u8::from(value)).collect()
    }
}

/// An integer of `bits` bits kept in the low bits of a byte.
fn sub_byte(byte: u8, bits: u32, signed: bool) -> i64 {
    let shift = 8 - bits;
    if signed {
        i64::from(((byte << shift) as i8) >> shift)
    } else {
        i64::from((byte << shift) >> shift)
    }
}

impl Tensor {
    /// Every element as an f64, which is exact but for large 64-bit integers. Complex numbers give their real
    /// part; strings nothing.
    pub fn to_f64s(&self) -> Vec<f64> {
        let data = &*self.data;
        match self.dtype {
            DType::F64 => f64::decode(data),
            DType::F32 => wide(f32::decode(data)),
            DType::F16 => wide(f16::decode(data)),
            DType::BF16 => wide(bf16::decode(data)),
            DType::F4E2M1
            | DType::F8E4M3FN
            | DType::F8E4M3FNUZ
            | DType::F8E5M2
            | DType::F8E5M2FNUZ
            | DType::F8E8M0 => {
                let table = minifloat::decode_table(self.dtype);
                data.iter().map(|&byte| table[usize::from(byte)]).collect()
            }
            DType::U64 => u64::decode(data)
                .iter()
                .map(|&value| value as f64)
                .collect(),
            DType::C64 => wide(f32::decode(data)).into_iter().step_by(2).collect(),
            DType::C128 => f64::decode(data).into_iter().step_by(2).collect(),
            DType::Str => Vec::new(),
            DType::Bool
            | DType::I2
            | DType::I4
            | DType::I8
            | DType::I16
            | DType::I32
            | DType::I64
            | DType::U2
            | DType::U4
            | DType::U8
            | DType::U16
            | DType::U32 => self.to_i64s().iter().map(|&value| value as f64).collect(),
        }
    }

    /// Every element as an i64: exact for integers and bools but for uint64, which keeps its bits; floats are
    /// truncated and saturate, NaN is 0. Strings give nothing.
    pub fn to_i64s(&self) -> Vec<i64> {
        let data = &*self.data;
        match self.dtype {
            DType::Bool => data.iter().map(|&byte| i64::from(byte != 0)).collect(),
            DType::I2 | DType::I4 | DType::U2 | DType::U4 => {
                let (bits, signed) = (self.dtype.bits(), self.dtype.is_signed());
                data.iter()
                    .map(|&byte| sub_byte(byte, bits, signed))
                    .collect()
            }
            DType::I8 => wide(i8::decode(data)),
            DType::I16 => wide(i16::decode(data)),
            DType::I32 => wide(i32::decode(data)),
            DType::I64 => i64::decode(data),
            DType::U8 => wide(u8::decode(data)),
            DType::U16 => wide(u16::decode(data)),
            DType::U32 => wide(u32::decode(data)),
            DType::U64 => u64::decode(data)
                .iter()
                .map(|&value| value as i64)
                .collect(),
            DType::F4E2M1
            | DType::F8E4M3FN
            | DType::F8E4M3FNUZ
            | DType::F8E5M2
            | DType::F8E5M2FNUZ
            | DType::F8E8M0
            | DType::F16
            | DType::BF16
            | DType::F32
            | DType::F64
            | DType::C64
            | DType::C128
            | DType::Str => self.to_f64s().iter().map(|&value| value as i64).collect(),
        }
    }
}

/// Converts without loss, element by element.
fn wide<A: Copy + Into<B>, B>(values: Vec<A>) -> Vec<B> {
    values.into_iter().map(Into::into).collect()
}

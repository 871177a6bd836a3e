//! Element types: their names in text, their sizes, and their DLPack codes.

use std::fmt;

/// The element type of a tensor or the type of a scalar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    F4E2M1,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
    /// UTF-8 text. An element is a pointer and a length, which DLPack calls an opaque handle.
    Str,
}

/// name, type, bits, DLPack code
const TABLE: [(&str, DType, u32, u8); 26] = [
    ("bool", DType::Bool, 8, 6),
    ("int2", DType::I2, 2, 0),
    ("int4", DType::I4, 4, 0),
    ("int8", DType::I8, 8, 0),
    ("int16", DType::I16, 16, 0),
    ("int32", DType::I32, 32, 0),
    ("int64", DType::I64, 64, 0),
    ("uint2", DType::U2, 2, 1),
    ("uint4", DType::U4, 4, 1),
    ("uint8", DType::U8, 8, 1),
    ("uint16", DType::U16, 16, 1),
    ("uint32", DType::U32, 32, 1),
    ("uint64", DType::U64, 64, 1),
    ("float4_e2m1fn", DType::F4E2M1, 4, 17),
    ("float8_e4m3fn", DType::F8E4M3FN, 8, 10),
    ("float8_e4m3fnuz", DType::F8E4M3FNUZ, 8, 11),
    ("float8_e5m2", DType::F8E5M2, 8, 12),
    ("float8_e5m2fnuz", DType::F8E5M2FNUZ, 8, 13),
    ("float8_e8m0fnu", DType::F8E8M0, 8, 14),
    ("float16", DType::F16, 16, 2),
    ("bfloat16", DType::BF16, 16, 4),
    ("float32", DType::F32, 32, 2),
    ("float64", DType::F64, 64, 2),
    ("complex64", DType::C64, 64, 5),
    ("complex128", DType::C128, 128, 5),
    ("string", DType::Str, 128, 3),
];

impl DType {
    fn row(self) -> &'static (&'static str, DType, u32, u8) {
        TABLE
            .iter()
            .find(|row| row.1 == self)
            .expect("every dtype has a row")
    }

    /// The type of a name such as `float32`; `None` when there is no such type.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// Every type, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.1)
    }

    /// The name in text: `float32`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Bits of one element as a caller's tensor counts them.
    pub fn bits(self) -> u32 {
        self.row().2
    }

    /// Bytes of one element as irc keeps it; sub-byte types are kept one element a byte.
    pub fn bytes(self) -> usize {
        self.bits().div_ceil(8) as usize
    }

    /// DLPack's `DLDataTypeCode`.
    pub fn dlpack_code(self) -> u8 {
        self.row().3
    }

    /// The least and the greatest number of an integer dtype.
    pub fn int_range(self) -> Option<(i128, i128)> {
        let bits = self.bits();
        if self.is_signed() {
            Some((-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1))
        } else if self.is_unsigned() {
            Some((0, (1i128 << bits) - 1))
        } else {
            None
        }
    }

    /// `float4` to `float64`.
    pub fn is_float(self) -> bool {
        DType::F4E2M1 <= self && self <= DType::F64
    }

    /// `int2` to `uint64`, without `bool`.
    pub fn is_int(self) -> bool {
        DType::I2 <= self && self <= DType::U64
    }

    /// `int2` to `int64`.
    pub fn is_signed(self) -> bool {
        DType::I2 <= self && self <= DType::I64
    }

    /// `uint2` to `uint64`.
    pub fn is_unsigned(self) -> bool {
        DType::U2 <= self && self <= DType::U64
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

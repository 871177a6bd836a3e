//! Tensors of an ONNX file: from any of their storage forms to plain row-major bytes.
//!
//! In: a [`model::Tensor`](super::model::Tensor) that has been read but not looked at. Out: its dtype, shape and bytes in place, where
//! the file holds them as irc does, else a copy made once. The number of bytes is proven before anything is
//! allocated: what a tensor claims is compared with what is there.

use std::ops::Range;
use std::sync::Arc;

use irc_syntax::DType;

use super::fault::Failure;
use super::import::Source;
use super::model::{SparseTensor, Tensor};
use super::wire::{Field, Value};
use crate::tensor::{MappedFile, Weight, WeightData};

/// Gives the files that hold external data.
pub trait Files {
    /// The bytes of a file beside the model.
    ///
    /// # Errors
    /// Says why it may not be, or cannot be, read.
    fn open(&self, location: &str) -> Result<MappedFile, String>;
}

impl Files for crate::tensor::folder::ModelFolder {
    fn open(&self, location: &str) -> Result<MappedFile, String> {
        Self::open(self, location)
    }
}

/// No files: for models that come from a stream.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Files for NoFiles {
    fn open(&self, _: &str) -> Result<MappedFile, String> {
        Err("the model does not come from a folder".to_owned())
    }
}

/// Bytes where they are, or a copy.
#[derive(Clone, Debug)]
pub enum Bytes<'a> {
    /// In the model's file.
    Borrowed(&'a [u8]),
    /// In a file beside it.
    Mapped(MappedFile, Range<usize>),
    /// Decoded.
    Owned(Vec<u8>),
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Mapped(file, range) => file.get(range.clone()).unwrap_or_default(),
            Self::Owned(bytes) => bytes,
        }
    }
}

/// A tensor's value.
#[derive(Clone, Debug)]
pub struct Dense<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<usize>,
    /// Little endian, row-major, one byte an element for types below a byte.
    pub bytes: Bytes<'a>,
    /// The elements of a string tensor.
    pub strings: Vec<String>,
}

impl Dense<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The same as a weight; what lies in a mapped file stays there.
    pub fn into_weight(self, source: Source<'_>) -> Weight {
        if self.dtype == DType::Str {
            return Weight::from(self.to_tensor());
        }
        let data = match (self.bytes, source) {
            (Bytes::Mapped(file, range), _) => WeightData::Mapped(file, range),
            (Bytes::Owned(bytes), _) => WeightData::Owned(bytes.into()),
            (Bytes::Borrowed(bytes), Source::Memory(_)) => WeightData::Owned(bytes.into()),
            (Bytes::Borrowed(bytes), Source::Mapped(file)) => {
                let start = bytes.as_ptr().addr().wrapping_sub(file.as_ptr().addr());
                match start.checked_add(bytes.len()).map(|end| start..end) {
                    Some(range) if range.end <= file.len() => {
                        WeightData::Mapped(file.clone(), range)
                    }
                    Some(_) | None => WeightData::Owned(bytes.into()),
                }
            }
        };
        Weight {
            dtype: self.dtype,
            shape: self.shape,
            data,
        }
    }

    /// The same as a tensor value of its own; copies the bytes.
    pub fn to_tensor(&self) -> crate::tensor::Tensor {
        crate::tensor::Tensor {
            dtype: self.dtype,
            shape: self.shape.clone(),
            data: Arc::from(self.bytes.as_ref()),
            strings: (self.dtype == DType::Str).then(|| Arc::from(self.strings.as_slice())),
        }
    }
}

/// ONNX's numbers of the element types.
const DTYPES: [(i64, DType); 26] = [
    (1, DType::F32),
    (2, DType::U8),
    (3, DType::I8),
    (4, DType::U16),
    (5, DType::I16),
    (6, DType::I32),
    (7, DType::I64),
    (8, DType::Str),
    (9, DType::Bool),
    (10, DType::F16),
    (11, DType::F64),
    (12, DType::U32),
    (13, DType::U64),
    (14, DType::C64),
    (15, DType::C128),
    (16, DType::BF16),
    (17, DType::F8E4M3FN),
    (18, DType::F8E4M3FNUZ),
    (19, DType::F8E5M2),
    (20, DType::F8E5M2FNUZ),
    (21, DType::U4),
    (22, DType::I4),
    (23, DType::F4E2M1),
    (24, DType::F8E8M0),
    (25, DType::U2),
    (26, DType::I2),
];

/// The type of ONNX's number for it; `None` for types irc has not.
pub fn dtype_of(data_type: i64) -> Option<DType> {
    let found = DTYPES.iter().find(|(number, _)| *number == data_type);
    found.map(|(_, dtype)| *dtype)
}

/// ONNX's number of an element type.
pub fn number_of(dtype: DType) -> i64 {
    let found = DTYPES.iter().find(|(_, known)| *known == dtype);
    found.map_or(0, |(number, _)| *number)
}

/// The value of a tensor; `what` names it in errors.
///
/// # Errors
/// Where data, shape and type do not fit, or external data cannot be had.
pub fn decode<'a>(
    tensor: &Tensor<'a>,
    what: &str,
    files: &dyn Files,
) -> Result<Dense<'a>, Failure> {
    let dtype = find_dtype(tensor.data_type, what)?;
    let shape = find_shape(&tensor.dims, what)?;
    let claim = Claim {
        what,
        dtype,
        shape: &shape,
        n: count(&shape, what)?,
    };
    let mut strings = Vec::new();
    let bytes = if tensor.is_external {
        claim.external(tensor, files)?
    } else if dtype == DType::Str {
        strings = claim.strings(&tensor.typed)?;
        Bytes::Borrowed(&[])
    } else if let Some(raw) = tensor.raw {
        claim.check_bytes(raw.len())?;
        claim.unpack(Bytes::Borrowed(raw))
    } else {
        claim.typed(&tensor.typed)?
    };
    Ok(Dense {
        dtype,
        shape,
        bytes,
        strings,
    })
}

/// The dense value of a sparse tensor, zeros between its values.
///
/// # Errors
/// Where an index is out of range, or the parts do not fit each other.
pub fn decode_sparse<'a>(
    sparse: &SparseTensor<'a>,
    what: &str,
    files: &dyn Files,
) -> Result<Dense<'a>, Failure> {
    /// A sparse tensor may claim any size in a few bytes; this much is believed.
    const LIMIT: usize = 1 << 30;
    let values = decode(&sparse.values, what, files)?;
    let indices = decode(&sparse.indices, &format!("the indices of {what}"), files)?;
    let shape = find_shape(&sparse.dims, what)?;
    let n = count(&shape, what)?;
    let size = values.dtype.bytes();
    if values.dtype == DType::Str || n.checked_mul(size).is_none_or(|bytes| bytes > LIMIT) {
        return Err(Failure::unsupported(format!(
            "{what} is sparse, of shape {shape:?}: too large to make dense"
        )));
    }
    if indices.dtype != DType::I64 || values.shape.len() != 1 {
        return Err(Failure::tensor(format!(
            "{what} is sparse, and its indices are not int64 or its values not 1-d"
        )));
    }
    let per_value = match indices.shape.as_slice() {
        [len] if *len == values.len() => 1,
        [len, rank] if *len == values.len() && *rank == shape.len() => *rank,
        other => {
            return Err(Failure::tensor(format!(
                "{what} has {} values, and indices of shape {other:?}",
                values.len()
            )));
        }
    };
    let is_linear = indices.shape.len() == 1;
    let mut dense = vec![0u8; n * size];
    let (numbers, _) = indices.bytes.as_ref().as_chunks::<8>();
    let rows = numbers.chunks(per_value.max(1));
    for (row, value) in rows.zip(values.bytes.as_ref().chunks(size)) {
        let row: Vec<i64> = row.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
        let extents = if is_linear {
            std::slice::from_ref(&n)
        } else {
            shape.as_slice()
        };
        let at = row
            .iter()
            .zip(extents)
            .try_fold(0usize, |at, (&idx, &extent)| {
                let idx = usize::try_from(idx).ok().filter(|idx| *idx < extent)?;
                Some(at * extent + idx)
            });
        let place = at
            .and_then(|at| dense.get_mut(at * size..(at + 1) * size))
            .ok_or_else(|| {
                Failure::tensor(format!(
                    "{what} has a value at sparse index {row:?}, outside its shape {shape:?}"
                ))
            })?;
        place.copy_from_slice(value);
    }
    Ok(Dense {
        dtype: values.dtype,
        shape,
        bytes: Bytes::Owned(dense),
        strings: Vec::new(),
    })
}

/// The dtype of a tensor's type number.
///
/// # Errors
/// Where the number is none of ONNX's, or names a type that irc has not.
pub fn find_dtype(data_type: i64, what: &str) -> Result<DType, Failure> {
    match data_type {
        27 | 28 => Err(Failure::unsupported(format!(
            "{what} has elements of 6 bits (type {data_type})"
        ))),
        _ => dtype_of(data_type).ok_or_else(|| {
            Failure::tensor(format!(
                "{what} has element type {data_type}, which ONNX does not define"
            ))
        }),
    }
}

fn find_shape(dims: &[i64], what: &str) -> Result<Vec<usize>, Failure> {
    dims.iter()
        .map(|&dim| usize::try_from(dim).ok())
        .collect::<Option<_>>()
        .ok_or_else(|| Failure::tensor(format!("{what} has shape {dims:?}: an extent is negative")))
}

fn count(shape: &[usize], what: &str) -> Result<usize, Failure> {
    if shape.contains(&0) {
        return Ok(0);
    }
    shape
        .iter()
        .try_fold(1usize, |n, &extent| n.checked_mul(extent))
        .filter(|n| n.checked_mul(16).is_some())
        .ok_or_else(|| {
            Failure::tensor(format!(
                "{what} has shape {shape:?}: more elements than fit a memory"
            ))
        })
}

/// What a tensor says about itself.
struct Claim<'c> {
    what: &'c str,
    dtype: DType,
    shape: &'c [usize],
    n: usize,
}

impl Claim<'_> {
    /// Bytes in a file: types below a byte are packed.
    fn stored_bytes(&self) -> usize {
        (self.n * self.dtype.bits() as usize).div_ceil(8)
    }

    fn check_bytes(&self, given: usize) -> Result<(), Failure> {
        let needed = self.stored_bytes();
        if given == needed {
            return Ok(());
        }
        Err(Failure::tensor(format!(
            "{} has {given} bytes of data, and shape {:?} of {} needs {needed}",
            self.what, self.shape, self.dtype
        )))
    }

    /// One byte an element, and booleans of 0 and 1; as they are where they are so already.
    fn unpack<'a>(&self, bytes: Bytes<'a>) -> Bytes<'a> {
        let stored = bytes.as_ref();
        match self.dtype.bits() {
            bits @ (2 | 4) => {
                Bytes::Owned(unpack_bits(stored, bits, self.dtype.is_signed(), self.n))
            }
            _ if self.dtype == DType::Bool && stored.iter().any(|byte| *byte > 1) => {
                Bytes::Owned(stored.iter().map(|byte| u8::from(*byte != 0)).collect())
            }
            _ => bytes,
        }
    }

    fn external<'a>(&self, tensor: &Tensor<'a>, files: &dyn Files) -> Result<Bytes<'a>, Failure> {
        let what = self.what;
        let entry = |key: &str| {
            tensor
                .external
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| *value)
        };
        let number = |key: &str| match entry(key) {
            None => Ok(None),
            Some(text) => text.parse::<usize>().map(Some).map_err(|_| {
                Failure::external(format!(
                    "{what} has external data with {key} `{text}`, which is no size"
                ))
            }),
        };
        let location = entry("location").ok_or_else(|| {
            Failure::external(format!("{what} has external data without a location"))
        })?;
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
        if self.dtype == DType::Str {
            return Err(Failure::external(format!(
                "{what} is a tensor of strings, and these cannot be external"
            )));
        }
        let needed = self.stored_bytes();
        if let Some(length) = length {
            self.check_bytes(length)?;
        }
        let file = files.open(location).map_err(|reason| {
            Failure::external(format!(
                "{what} has its data in `{location}`, which cannot be read: {reason}"
            ))
        })?;
        let range = offset.checked_add(needed).map(|end| offset..end);
        let range = range.filter(|range| range.end <= file.len()).ok_or_else(|| {
            Failure::external(format!(
                "{what} needs {needed} bytes of `{location}` from byte {offset}, and the file has {}",
                file.len()
            ))
        })?;
        Ok(self.unpack(Bytes::Mapped(file, range)))
    }

    fn strings(&self, fields: &[Field<'_>]) -> Result<Vec<String>, Failure> {
        let texts: Vec<&[u8]> = fields
            .iter()
            .filter(|field| field.number == 6)
            .filter_map(|field| field.bytes().ok())
            .collect();
        if texts.len() != self.n {
            return Err(self.wrong_count(texts.len()));
        }
        texts
            .iter()
            .map(|text| std::str::from_utf8(text).map(str::to_owned))
            .collect::<Result<_, _>>()
            .map_err(|_| {
                Failure::unsupported(format!("{} holds a string that is not UTF-8", self.what))
            })
    }

    /// Numbers written one by one. Their count is proven first, so that a copy is of the right size at once.
    fn typed<'a>(&self, fields: &[Field<'a>]) -> Result<Bytes<'a>, Failure> {
        let (number, per_value) = self.typed_field();
        let entries = match self.dtype.bits() {
            bits @ (2 | 4) => self.n.div_ceil(8 / bits as usize),
            _ => self.n * per_value,
        };
        let cut = |_| Failure::tensor(format!("{}: a number of its data is cut off", self.what));
        let fields: Vec<&Field<'a>> = fields
            .iter()
            .filter(|field| field.number == number)
            .collect();
        let width = match number {
            4 => 4,
            10 => 8,
            _ => 0,
        };
        // Packed floats of the right width are the bytes wanted.
        if let (
            [
                Field {
                    value: Value::Bytes(bytes, _),
                    ..
                },
            ],
            true,
        ) = (fields.as_slice(), width > 0)
        {
            if bytes.len() != entries * width {
                return Err(self.wrong_count(bytes.len() / width));
            }
            return Ok(Bytes::Borrowed(bytes));
        }
        let mut given = 0usize;
        for field in &fields {
            count_numbers(field, &mut given).map_err(cut)?;
        }
        if given != entries {
            return Err(self.wrong_count(given));
        }
        let mut out = Vec::with_capacity(entries * self.dtype.bytes().max(width));
        for field in &fields {
            match number {
                4 => field
                    .floats(|value| out.extend(value.to_le_bytes()))
                    .map_err(cut)?,
                10 => push_doubles(field, &mut out),
                _ => {
                    let size = self.stored_size();
                    field
                        .ints(|value| out.extend(value.to_le_bytes().iter().take(size)))
                        .map_err(cut)?;
                }
            }
        }
        Ok(self.unpack(Bytes::Owned(out)))
    }

    /// Bytes kept of a number of `int32_data` and the like: its low ones.
    fn stored_size(&self) -> usize {
        self.dtype.bytes()
    }

    /// The field of a dtype's numbers, and how many of them make an element.
    fn typed_field(&self) -> (u32, usize) {
        match self.dtype {
            DType::F32 => (4, 1),
            DType::C64 => (4, 2),
            DType::F64 => (10, 1),
            DType::C128 => (10, 2),
            DType::I64 => (7, 1),
            DType::U32 | DType::U64 => (11, 1),
            DType::Str => (6, 1),
            DType::Bool
            | DType::I2
            | DType::I4
            | DType::I8
            | DType::I16
            | DType::I32
            | DType::U2
            | DType::U4
            | DType::U8
            | DType::U16
            | DType::F4E2M1
            | DType::F8E4M3FN
            | DType::F8E4M3FNUZ
            | DType::F8E5M2
            | DType::F8E5M2FNUZ
            | DType::F8E8M0
            | DType::F16
            | DType::BF16 => (5, 1),
        }
    }

    fn wrong_count(&self, given: usize) -> Failure {
        Failure::tensor(format!(
            "{} has {given} values, and shape {:?} of {} needs {}",
            self.what, self.shape, self.dtype, self.n
        ))
    }
}

fn count_numbers(field: &Field<'_>, given: &mut usize) -> Result<(), super::wire::WireError> {
    match (field.number, field.value) {
        (4, Value::Bytes(bytes, _)) => *given += bytes.len() / 4,
        (10, Value::Bytes(bytes, _)) => *given += bytes.len() / 8,
        (4, Value::Fixed32(_)) | (10, Value::Fixed64(_)) => *given += 1,
        _ => field.ints(|_| *given += 1)?,
    }
    Ok(())
}

fn push_doubles(field: &Field<'_>, out: &mut Vec<u8>) {
    match field.value {
        Value::Fixed64(bits) => out.extend(bits.to_le_bytes()),
        Value::Bytes(bytes, _) => out.extend(bytes.as_chunks::<8>().0.iter().flatten()),
        Value::Varint(_) | Value::Fixed32(_) => {}
    }
}

fn unpack_bits(stored: &[u8], bits: u32, is_signed: bool, n: usize) -> Vec<u8> {
    let mask = (1u8 << bits) - 1;
    let sign = 1u8 << (bits - 1);
    stored
        .iter()
        .flat_map(|byte| (0..8 / bits).map(move |idx| (byte >> (idx * bits)) & mask))
        .map(|value| {
            if is_signed && value & sign != 0 {
                value | !mask
            } else {
                value
            }
        })
        .take(n)
        .collect()
}

/// The `f64` of fewest digits that rounds to a given `f32`: 0.1, not 0.10000000149011612.
pub(super) fn short_f32(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

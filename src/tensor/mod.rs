//! Tensor values outside compiled code: constants, weights, test data.
//!
//! A [`Tensor`] is a dtype, a shape and row-major bytes, little endian; sub-byte types take a byte an element.
//! Strings are kept apart. Sums of any kind are the interpreter's; here is only storage, conversion of elements
//! and files: `element` (typed access), `cast` (between any two dtypes), `minifloat` (4 and 8 bit floats), `constant`
//! (`R.const`), `npy`, `npz`, `stats`, `weights` (safetensors), `made` (weights that a pass makes), `file` (mapping and
//! sha256), `text` and `pattern` (what is done with strings), `walk` (strided copies).

use std::fmt;
use std::sync::Arc;

use irc_syntax::DType;

mod cast;
mod constant;
mod element;
mod file;
pub mod folder;
mod inflate;
mod made;
mod metadata;
mod minifloat;
mod npy;
mod npz;
mod pattern;
mod stats;
pub mod text;
pub mod walk;
mod weights;

#[cfg(test)]
mod tests;

pub use constant::{parse_const, parse_const_buffer, parse_const_value, print_const};
pub use element::Element;
pub use file::{MappedFile, sha256_bytes, sha256_file};
pub use made::Made;
pub use metadata::inline_metadata;
pub use npy::{parse_npy, print_npy};
pub use npz::{parse_npz, print_npz};
pub use pattern::{Pattern, PatternError};
pub use stats::Stats;
pub use weights::{Weight, WeightData, Weights};

/// A dense row-major tensor. Cloning shares the bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Extents; empty for a scalar.
    pub shape: Vec<usize>,
    /// `len() * dtype.bytes()` bytes; empty for strings.
    pub data: Arc<[u8]>,
    /// The elements of a string tensor.
    pub strings: Option<Arc<[String]>>,
}

/// What is wrong with a file or a constant, in a sentence without its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorError(pub String);

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TensorError {}

/// Product of extents; `None` when it does not fit.
pub fn count(shape: &[usize]) -> Option<usize> {
    // A zero extent makes the product zero, however large the others are.
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1usize, |len, &extent| len.checked_mul(extent))
}

impl Tensor {
    /// A tensor over bytes; `None` when their number does not fit shape and dtype.
    pub fn new(dtype: DType, shape: Vec<usize>, data: impl Into<Arc<[u8]>>) -> Option<Self> {
        let data = data.into();
        (count(&shape)?.checked_mul(dtype.bytes())? == data.len()).then_some(Self {
            dtype,
            shape,
            data,
            strings: None,
        })
    }

    /// A string tensor; `None` when the number of strings does not fit the shape.
    pub fn from_strings(shape: Vec<usize>, strings: impl Into<Arc<[String]>>) -> Option<Self> {
        let strings = strings.into();
        (count(&shape)? == strings.len()).then_some(Self {
            dtype: DType::Str,
            shape,
            data: Arc::from([]),
            strings: Some(strings),
        })
    }

    /// A tensor of typed values; `None` when their number does not fit the shape.
    pub fn from_vec<T: Element>(shape: Vec<usize>, values: &[T]) -> Option<Self> {
        Self::new(T::DTYPE, shape, T::encode(values))
    }

    /// A rank-0 tensor.
    pub fn scalar<T: Element>(value: T) -> Self {
        Self {
            dtype: T::DTYPE,
            shape: Vec::new(),
            data: T::encode(&[value]).into(),
            strings: None,
        }
    }

    /// A tensor whose `i`-th element in row-major order is `value(i)`.
    ///
    /// *Panics* when the number of elements overflows.
    pub fn from_fn<T: Element>(shape: Vec<usize>, value: impl FnMut(usize) -> T) -> Self {
        let len = count(&shape).expect("the number of elements fits a usize");
        let values: Vec<T> = (0..len).map(value).collect();
        Self {
            dtype: T::DTYPE,
            shape,
            data: T::encode(&values).into(),
            strings: None,
        }
    }

    /// A tensor of zeros (`False`, empty strings); `None` when its size overflows.
    pub fn zeros(dtype: DType, shape: Vec<usize>) -> Option<Self> {
        let len = count(&shape)?;
        if dtype == DType::Str {
            return Self::from_strings(shape, vec![String::new(); len]);
        }
        let bytes = len.checked_mul(dtype.bytes())?;
        Self::new(dtype, shape, vec![0u8; bytes])
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        count(&self.shape).unwrap_or(usize::MAX)
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same elements in another shape; `None` when their number differs.
    pub fn reshaped(&self, shape: Vec<usize>) -> Option<Self> {
        (count(&shape)? == self.len()).then(|| Self {
            shape,
            ..self.clone()
        })
    }

    /// The values, where the dtype is `T`'s.
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        (self.dtype == T::DTYPE).then(|| T::decode(&self.data))
    }
}

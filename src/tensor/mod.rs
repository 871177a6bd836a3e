//! Tensor values outside compiled code: constants, weights, test data.
//!
//! A [`Tensor`] is a dtype, a shape and row-major bytes, little endian; sub-byte types take a byte an element.
//! Strings are kept apart. Sums of any kind are the interpreter's; here is only storage, conversion of elements
//! and files.

use std::sync::Arc;

use irc_syntax::DType;

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

impl Tensor {
    /// A tensor over bytes; `None` when their number does not fit shape and dtype.
    pub fn new(dtype: DType, shape: Vec<usize>, data: impl Into<Arc<[u8]>>) -> Option<Self> {
        let data = data.into();
        let len = shape.iter().try_fold(1usize, |len, &extent| len.checked_mul(extent))?;
        (len.checked_mul(dtype.bytes())? == data.len()).then_some(Self {
            dtype,
            shape,
            data,
            strings: None,
        })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

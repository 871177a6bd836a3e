//! The state of a running prim_func: scalars in slots, buffers as views of byte storage.

use irc_syntax::{DType, Span};

use crate::interp::RunError;
use crate::tensor::Tensor;

/// Why a statement does not come to its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// The run fails.
    Fault(Box<RunError>),
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// `return`
    Return,
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Self {
        Self::Fault(Box::new(error))
    }
}

/// What running code gives.
pub(super) type Ran<T = ()> = Result<T, Stop>;

/// A view of storage.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Which storage.
    pub(super) storage: usize,
    pub(super) dtype: DType,
    pub(super) dims: Vec<i64>,
    /// In elements.
    pub(super) strides: Vec<i64>,
    /// Of the first element, in elements.
    pub(super) offset: i64,
}

/// Slots and storage.
#[derive(Debug, Default)]
pub(super) struct Machine {
    /// Integers as they are, floats as the bits of an f64.
    pub(super) slots: Vec<u64>,
    /// Views by buffer number; `None` before the declaration has run.
    pub(super) views: Vec<Option<View>>,
    /// Bytes.
    pub(super) storage: Vec<Vec<u8>>,
    /// How many calls are around the function that runs.
    pub(super) depth: usize,
}

impl Machine {
    /// The view of a declared buffer.
    pub(super) fn view(&self, buffer: usize) -> Ran<&View> {
        match self.views.get(buffer) {
            Some(Some(view)) => Ok(view),
            _ => Err(RunError::runtime_error("a buffer is used before its declaration").into()),
        }
    }

    /// The bytes of one element.
    pub(super) fn element(&self, buffer: usize, index: &[i64], span: Option<Span>) -> Ran<&[u8]> {
        let view = self.view(buffer)?;
        let range = locate(view, index, span)?;
        self.storage
            .get(view.storage)
            .and_then(|bytes| bytes.get(range))
            .ok_or_else(|| outside(span))
    }

    /// The same, to write.
    pub(super) fn element_mut(
        &mut self,
        buffer: usize,
        index: &[i64],
        span: Option<Span>,
    ) -> Ran<&mut [u8]> {
        let view = self.view(buffer)?;
        let (storage, range) = (view.storage, locate(view, index, span)?);
        self.storage
            .get_mut(storage)
            .and_then(|bytes| bytes.get_mut(range))
            .ok_or_else(|| outside(span))
    }

    /// Declares a buffer over new storage. Its bytes are all ones, so that reading what was never written shows.
    pub(super) fn allocate(&mut self, buffer: usize, dtype: DType, dims: Vec<i64>) -> Ran {
        let len = element_count(&dims)?;
        let bytes = len
            .checked_mul(dtype.bytes())
            .filter(|&bytes| bytes <= 1 << 36)
            .ok_or_else(|| RunError::value_error(format!("a buffer of shape {dims:?}")))?;
        // A buffer declared in a loop body takes the storage of its last round.
        let storage = match self.views.get(buffer) {
            Some(Some(view)) => view.storage,
            _ => {
                self.storage.push(Vec::new());
                self.storage.len() - 1
            }
        };
        self.storage[storage].clear();
        self.storage[storage].resize(bytes, 0xff);
        let strides = row_major(&dims);
        self.views[buffer] = Some(View {
            storage,
            dtype,
            dims,
            strides,
            offset: 0,
        });
        Ok(())
    }

    /// Declares a buffer over the bytes of a tensor.
    pub(super) fn load(&mut self, buffer: usize, tensor: &Tensor) -> Ran {
        let dims: Vec<i64> = tensor.shape.iter().map(|&extent| extent as i64).collect();
        self.storage.push(tensor.data.to_vec());
        let strides = row_major(&dims);
        let storage = self.storage.len() - 1;
        self.views[buffer] = Some(View {
            storage,
            dtype: tensor.dtype,
            dims,
            strides,
            offset: 0,
        });
        Ok(())
    }
}

/// Row-major strides.
pub(super) fn row_major(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for at in (1..dims.len()).rev() {
        strides[at - 1] = strides[at] * dims[at].max(1);
    }
    strides
}

fn element_count(dims: &[i64]) -> Ran<usize> {
    let fault = || RunError::value_error(format!("a buffer of shape {dims:?}"));
    let mut len = 1usize;
    for &dim in dims {
        let dim = usize::try_from(dim).map_err(|_| fault())?;
        len = len.checked_mul(dim).ok_or_else(fault)?;
    }
    Ok(len)
}

fn outside(span: Option<Span>) -> Stop {
    let mut error = RunError::runtime_error("an access outside the storage of a buffer");
    error.kind = "IndexError";
    error.at(span).into()
}

fn locate(view: &View, index: &[i64], span: Option<Span>) -> Ran<std::ops::Range<usize>> {
    if index.len() != view.dims.len() {
        let message = format!("{} indices into {} axes", index.len(), view.dims.len());
        return Err(RunError::type_error(message).at(span).into());
    }
    let mut at = view.offset;
    for ((&index, &dim), &stride) in index.iter().zip(&view.dims).zip(&view.strides) {
        if index < 0 || dim <= index {
            return Err(RunError::index_error(index, dim.max(0) as usize)
                .at(span)
                .into());
        }
        at += index * stride;
    }
    let size = view.dtype.bytes();
    let at = usize::try_from(at).map_err(|_| outside(span))?;
    Ok(at * size..(at + 1) * size)
}

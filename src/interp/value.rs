//! Values that programs compute with, and what stops a run.

use std::fmt;

use irc_syntax::{DType, Span};

use crate::tensor::{Tensor, TensorError};

/// A value of a graph function.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A tensor; a scalar parameter or a dim is one of rank 0.
    Tensor(Tensor),
    /// A tuple.
    Tuple(Vec<Value>),
    /// A sequence of values of one type.
    Seq(Vec<Value>),
    /// A shape.
    Shape(Vec<i64>),
    /// A written integer, which takes the dtype of the operands beside it.
    Int(i64),
    /// A written float, likewise.
    Float(f64),
    /// A written truth value, likewise.
    Bool(bool),
    /// Text.
    Str(String),
    /// Nothing, where an optional operand is left out.
    None,
}

impl Value {
    /// The tensor, where the value is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        if let Self::Tensor(tensor) = self {
            Some(tensor)
        } else {
            None
        }
    }

    /// The members of a tuple or sequence.
    pub fn as_items(&self) -> Option<&[Value]> {
        match self {
            Self::Tuple(items) | Self::Seq(items) => Some(items),
            Self::Tensor(_)
            | Self::Shape(_)
            | Self::Int(_)
            | Self::Float(_)
            | Self::Bool(_)
            | Self::Str(_)
            | Self::None => None,
        }
    }

    /// The value as one integer: a number, or a tensor of one integer.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some(i64::from(*value)),
            Self::Tensor(tensor)
                if tensor.len() == 1 && (tensor.dtype.is_int() || tensor.dtype == DType::Bool) =>
            {
                tensor.to_i64s().first().copied()
            }
            _ => None,
        }
    }

    /// The value as a tensor; a written number as one of rank 0, of `dtype` where that is given, else of its own
    /// (`int64`, `float32`, `bool`).
    pub fn to_tensor(&self, dtype: Option<DType>) -> Result<Tensor, RunError> {
        let number = match self {
            Self::Tensor(tensor) => return Ok(tensor.clone()),
            Self::Int(value) => {
                return Ok(Tensor::scalar(*value).cast(dtype.unwrap_or(DType::I64))?);
            }
            Self::Bool(value) => {
                return Ok(Tensor::scalar(*value).cast(dtype.unwrap_or(DType::Bool))?);
            }
            Self::Float(value) => *value,
            Self::Str(text) => {
                return Tensor::from_strings(Vec::new(), vec![text.clone()])
                    .ok_or_else(|| RunError::type_error("text is no tensor"));
            }
            Self::Tuple(_) | Self::Seq(_) | Self::Shape(_) | Self::None => {
                return Err(RunError::type_error(format!(
                    "a tensor was needed, not {self}"
                )));
            }
        };
        Tensor::from_f64s(dtype.unwrap_or(DType::F32), Vec::new(), &[number])
            .ok_or_else(|| RunError::type_error("a number is no text"))
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(tensor) => write!(f, "a tensor of {:?} {}", tensor.shape, tensor.dtype),
            Self::Tuple(items) => write!(f, "a tuple of {}", items.len()),
            Self::Seq(items) => write!(f, "a sequence of {}", items.len()),
            Self::Shape(dims) => write!(f, "the shape {dims:?}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Str(text) => write!(f, "{text:?}"),
            Self::None => f.write_str("none"),
        }
    }
}

/// What stops a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunError {
    /// The kind of exception that compiled code raises for it.
    pub kind: &'static str,
    /// What happened, in lower case and without a period.
    pub message: String,
    /// The statement or call that was running.
    pub span: Option<Span>,
}

impl RunError {
    fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            span: None,
        }
    }

    /// Operands whose values do not fit.
    pub fn value_error(message: impl Into<String>) -> Self {
        Self::new("ValueError", message)
    }

    /// Operands whose types do not fit.
    pub fn type_error(message: impl Into<String>) -> Self {
        Self::new("TypeError", message)
    }

    /// An index outside an axis.
    pub fn index_error(index: i64, extent: usize) -> Self {
        Self::new(
            "IndexError",
            format!("index {index} is out of range of {extent}"),
        )
    }

    /// Anything else.
    pub fn runtime_error(message: impl Into<String>) -> Self {
        Self::new("RuntimeError", message)
    }

    /// The same with its place, where it has none yet.
    pub fn at(mut self, span: Option<Span>) -> Self {
        self.span = self.span.or(span);
        self
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl std::error::Error for RunError {}

impl From<TensorError> for RunError {
    fn from(error: TensorError) -> Self {
        Self::value_error(error.0)
    }
}

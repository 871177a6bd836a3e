//! Types of values, and the side table that the checker fills.

use std::collections::BTreeMap;

use irc_syntax::{DType, Func, Name};

use crate::shape::{Dim, Facts};

/// The type of a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Type {
    /// `R.Tensor((n, 4), dtype="float32")`
    Tensor(TensorType),
    /// `T.int64`
    Scalar(DType),
    /// `R.Shape([n, 4])`; `None` when not even the number of dims is known.
    Shape(Option<Vec<Dim>>),
    /// `R.Tuple(A, B)`
    Tuple(Vec<Type>),
    /// A sequence of values of one type, of a length known at run time.
    Seq(Box<Type>),
    /// A value or none.
    Opt(Box<Type>),
    /// `R.Callable((A,), B)`
    Func(Vec<Type>, Box<Type>),
    /// `R.str("…")`
    Str,
    /// `R.dtype("float32")`
    DTypeValue,
    /// `R.Any`
    Any,
    /// The type of a call made for its effect, `R.Tuple` with no members.
    Void,
    /// The type of what has been reported already; silences consequences.
    Error,
}

/// The type of a tensor, as far as known.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TensorType {
    /// Element type.
    pub dtype: Option<DType>,
    /// Rank; always set when `shape` is.
    pub ndim: Option<usize>,
    /// Extents.
    pub shape: Option<Vec<Dim>>,
    /// Symbolic content of an integer tensor of rank 0 or 1, up to 64 elements.
    pub value: Option<Vec<Dim>>,
}

impl TensorType {
    /// A tensor of known dtype and extents.
    pub fn new(dtype: DType, shape: Vec<Dim>) -> Self {
        Self {
            dtype: Some(dtype),
            ndim: Some(shape.len()),
            shape: Some(shape),
            value: None,
        }
    }
}

impl Type {
    /// A tensor of known dtype and extents.
    pub fn tensor(dtype: DType, shape: Vec<Dim>) -> Self {
        Self::Tensor(TensorType::new(dtype, shape))
    }

    /// The tensor type, where it is one.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        if let Self::Tensor(tensor) = self {
            Some(tensor)
        } else {
            None
        }
    }

    /// Dtype and extents, where both are known.
    pub fn as_known_tensor(&self) -> Option<(DType, &[Dim])> {
        let tensor = self.as_tensor()?;
        Some((tensor.dtype?, tensor.shape.as_deref()?))
    }
}

/// What the checker found out about a module.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// By function name.
    pub funcs: BTreeMap<Name, FuncInfo>,
}

impl Info {
    /// How many leading parameters of a function are inputs; all of them where it is not known.
    pub fn num_input(&self, func: &Func) -> usize {
        let info = self.funcs.get(&func.name);
        info.map_or(func.params.len(), |info| info.num_input)
    }
}

/// What the checker found out about a function.
#[derive(Clone, Debug, Default)]
pub struct FuncInfo {
    /// Parameters in order.
    pub params: Vec<(Name, Type)>,
    /// The type of the result; `Void` for prim_funcs.
    pub ret: Option<Type>,
    /// The type of every bound name, parameters included. For prim_funcs: buffers as tensors, scalars as scalars.
    pub vars: BTreeMap<Name, Type>,
    /// Ranges, divisibility and equalities of its symbols.
    pub facts: Facts,
    /// Extents that have to be equal and are not proved to be, by the first name that the binding concerned binds;
    /// `return` for the result.
    pub checks: BTreeMap<Name, Vec<(Dim, Dim)>>,
    /// How many leading parameters are inputs; the rest are weights. All of them without `num_input`.
    pub num_input: usize,
}

//! Values of the graph level while its function is built.

use cranelift_codegen::ir::Value;
use irc_syntax::DType;

use crate::check::Type;
use crate::codegen::arith::Val;
use crate::codegen::lower::Extent;

/// A dense row-major tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct HostTensor {
    /// The address of its first element.
    pub data: Value,
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub dims: Vec<Extent>,
}

/// What a name of the graph level stands for.
#[derive(Clone, PartialEq, Debug)]
pub enum HostValue {
    /// A tensor.
    Tensor(HostTensor),
    /// A shape.
    Shape(Vec<Extent>),
    /// A scalar.
    Scalar(Val),
    /// Several values.
    Tuple(Vec<HostValue>),
    /// A value that is described at run time: a record, a sequence, or an optional (see `runtime/object`).
    Object {
        /// Its address; null for an optional without a value.
        object: Value,
        /// A tensor of unknown rank, a sequence, or an optional.
        ty: Type,
    },
    /// Memory that tensors are placed in.
    Storage(Value),
    /// The result of a call made for its effect.
    Nothing,
}

impl HostValue {
    /// Its members, tuples opened.
    pub fn flatten(self, leaves: &mut Vec<HostValue>) {
        match self {
            Self::Tuple(items) => items.into_iter().for_each(|item| item.flatten(leaves)),
            Self::Nothing => {}
            Self::Tensor(_)
            | Self::Shape(_)
            | Self::Scalar(_)
            | Self::Object { .. }
            | Self::Storage(_) => {
                leaves.push(self);
            }
        }
    }
}

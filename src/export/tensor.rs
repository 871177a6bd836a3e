//! Tensors and types of the language as those of ONNX.

use std::borrow::Cow;

use irc_syntax::DType;

use super::proto::{Data, Extent, Tensor, Type};
use crate::check::{TensorType, Type as IrType};
use crate::onnx::number_of;
use crate::shape::Dim;
use crate::tensor::{Tensor as Value, Weight};

/// A constant of the text.
pub fn of_tensor<'w>(name: String, tensor: &Value) -> Tensor<'w> {
    let data = match &tensor.strings {
        Some(texts) => Data::Strings(texts.to_vec()),
        None => Data::Owned(packed(tensor.dtype, &tensor.data).into_owned()),
    };
    Tensor {
        name,
        data_type: number_of(tensor.dtype),
        dims: tensor.shape.iter().map(|dim| *dim as i64).collect(),
        data,
    }
}

/// A weight, whose bytes stay where they are.
pub fn of_weight<'w>(name: String, weight: &'w Weight) -> Tensor<'w> {
    if weight.dtype == DType::Str {
        return of_tensor(name, &weight.tensor());
    }
    let data = match packed(weight.dtype, weight.bytes()) {
        Cow::Borrowed(bytes) => Data::Borrowed(bytes),
        Cow::Owned(bytes) => Data::Owned(bytes),
    };
    Tensor {
        name,
        data_type: number_of(weight.dtype),
        dims: weight.shape.iter().map(|dim| *dim as i64).collect(),
        data,
    }
}

/// Elements below a byte, which irc holds in one each, as ONNX packs them: the first in the low bits.
fn packed(dtype: DType, bytes: &[u8]) -> Cow<'_, [u8]> {
    let bits = match dtype {
        DType::I4 | DType::U4 | DType::F4E2M1 => 4,
        DType::I2 | DType::U2 => 2,
        _ => return Cow::Borrowed(bytes),
    };
    let (per_byte, mask) = (8 / bits, (1u8 << bits) - 1);
    let pack = |chunk: &[u8]| {
        let shifted = chunk.iter().enumerate();
        shifted.fold(0u8, |byte, (at, element)| {
            byte | (element & mask) << (at * bits)
        })
    };
    Cow::Owned(bytes.chunks(per_byte).map(pack).collect())
}

/// The type of a value; `None` where ONNX has none, or the element type is not known.
pub fn type_of(ty: &IrType, named: &dyn Fn(&Dim) -> bool) -> Option<Type> {
    Some(match ty {
        IrType::Tensor(TensorType {
            dtype, ndim, shape, ..
        }) => {
            let known = shape.as_ref().map(|dims| {
                let dims = dims.iter().map(|dim| match dim.as_int() {
                    Some(value) => Extent::Value(value),
                    None if named(dim) => Extent::Param(dim.to_string()),
                    None => Extent::Unknown,
                });
                dims.collect()
            });
            let unknown = || ndim.map(|ndim| (0..ndim).map(|_| Extent::Unknown).collect());
            Type::Tensor(number_of((*dtype)?), known.or_else(unknown))
        }
        IrType::Scalar(dtype) => Type::Tensor(number_of(*dtype), Some(Vec::new())),
        IrType::Seq(element) => Type::Sequence(Box::new(type_of(element, named)?)),
        IrType::Opt(element) => Type::Optional(Box::new(type_of(element, named)?)),
        IrType::Shape(_)
        | IrType::Tuple(_)
        | IrType::Func(..)
        | IrType::Str
        | IrType::DTypeValue
        | IrType::Any
        | IrType::Void
        | IrType::Error => return None,
    })
}

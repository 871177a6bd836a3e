//! Test data that are no tensors: `SequenceProto` and `OptionalProto`, as ONNX's backend tests store them.

use super::fault::Failure;
use super::model::Tensor;
use super::tensor::{NoFiles, decode};
use super::wire::{Reader, WireError};

/// What an optional holds.
#[derive(Clone, PartialEq, Debug)]
pub enum Optional {
    /// Nothing.
    None,
    /// A tensor.
    Tensor(crate::tensor::Tensor),
    /// A sequence of tensors.
    Sequence(Vec<crate::tensor::Tensor>),
}

/// The tensors of a `SequenceProto`.
///
/// # Errors
/// Where the bytes are not those of one, or its elements are no tensors.
pub fn read_sequence(bytes: &[u8]) -> Result<Vec<crate::tensor::Tensor>, Failure> {
    sequence(Reader::new(bytes))
}

/// The value of an `OptionalProto`.
///
/// # Errors
/// Where the bytes are not those of one, or it holds neither a tensor nor a sequence of them.
pub fn read_optional(bytes: &[u8]) -> Result<Optional, Failure> {
    let mut reader = Reader::new(bytes);
    let mut value = Optional::None;
    while let Some(field) = reader.next_field().map_err(unreadable)? {
        match field.number {
            1 => {
                field.text().map_err(unreadable)?;
            }
            2 => {
                field.int().map_err(unreadable)?;
            }
            3 => value = Optional::Tensor(tensor(reader.message(&field).map_err(unreadable)?)?),
            5 => value = Optional::Sequence(sequence(reader.message(&field).map_err(unreadable)?)?),
            _ => {
                return Err(Failure::unreadable(
                    "not an optional of a tensor or sequence",
                ));
            }
        }
    }
    Ok(value)
}

fn sequence(mut reader: Reader<'_>) -> Result<Vec<crate::tensor::Tensor>, Failure> {
    let mut items = Vec::new();
    while let Some(field) = reader.next_field().map_err(unreadable)? {
        match field.number {
            1 => {
                field.text().map_err(unreadable)?;
            }
            2 => {
                field.int().map_err(unreadable)?;
            }
            3 => items.push(tensor(reader.message(&field).map_err(unreadable)?)?),
            _ => return Err(Failure::unreadable("not a sequence of tensors")),
        }
    }
    Ok(items)
}

fn tensor(reader: Reader<'_>) -> Result<crate::tensor::Tensor, Failure> {
    let tensor = Tensor::read(reader).map_err(unreadable)?;
    Ok(decode(&tensor, "an element", &NoFiles)?.to_tensor())
}

fn unreadable(fault: WireError) -> Failure {
    Failure::unreadable(format!("not a file of values: {fault}"))
}

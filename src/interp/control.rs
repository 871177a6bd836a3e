//! Sequences and optionals: what their primitives mean, on values.

use super::kernels::{Done, layout};
use super::{RunError, Value};
use crate::check::prim::{BoundCall, Prim};
use crate::tensor::Tensor;

/// Evaluates a primitive of sequences or optionals.
pub(super) fn eval(call: &BoundCall, operands: &[Value]) -> Result<Value, RunError> {
    match call.prim {
        Prim::Sequence => {
            let items = match operands {
                [Value::Tuple(items) | Value::Seq(items)] => items.clone(),
                [Value::None] => return Err(RunError::value_error("the optional has no value")),
                items => items.to_vec(),
            };
            Ok(Value::Seq(items))
        }
        Prim::SeqInsert => {
            let mut items = sequence(operands)?;
            let value = operands.get(1).cloned().unwrap_or(Value::None);
            let at = position(operands.get(2), items.len(), items.len())?;
            items.insert(at, value);
            Ok(Value::Seq(items))
        }
        Prim::SeqErase => {
            let mut items = sequence(operands)?;
            let at = element_position(operands.get(1), items.len())?;
            items.remove(at);
            Ok(Value::Seq(items))
        }
        Prim::SeqAt => {
            let items = sequence(operands)?;
            let at = element_position(operands.get(1), items.len())?;
            Ok(items.get(at).cloned().unwrap_or(Value::None))
        }
        Prim::SeqLen => Ok(Value::Tensor(Tensor::scalar(
            sequence(operands)?.len() as i64
        ))),
        Prim::Rank => match operands.first() {
            Some(Value::Tensor(x)) => Ok(Value::Tensor(Tensor::scalar(x.shape.len() as i64))),
            _ => Err(RunError::value_error("this is not a tensor")),
        },
        Prim::SeqConcat => {
            let items = sequence(operands)?;
            concat(&items, call.int("axis"), call.bool("new_axis")).map(Value::Tensor)
        }
        Prim::Optional => Ok(operands.first().cloned().unwrap_or(Value::None)),
        Prim::HasValue => {
            let has = !matches!(operands.first(), None | Some(Value::None));
            Ok(Value::Tensor(Tensor::scalar(has)))
        }
        Prim::GetValue => match operands.first() {
            None | Some(Value::None) => Err(RunError::value_error("the optional has no value")),
            Some(value) => Ok(value.clone()),
        },
        _ => Err(RunError::runtime_error(format!(
            "`{}` has no value by itself",
            call.prim.name()
        ))),
    }
}

fn sequence(operands: &[Value]) -> Result<Vec<Value>, RunError> {
    let items = operands.first().and_then(Value::as_items);
    items
        .map(<[Value]>::to_vec)
        .ok_or_else(|| RunError::type_error("a sequence was needed"))
}

/// A position from 0 to `last`, counted from `len` where it is negative; `last` where it is left out.
fn position(at: Option<&Value>, len: usize, last: usize) -> Result<usize, RunError> {
    let Some(at) = at else { return Ok(last) };
    let Some(at) = at.as_int() else {
        return Err(RunError::type_error(format!(
            "a position is an integer, not {at}"
        )));
    };
    let counted = if at < 0 { at + len as i64 } else { at };
    match usize::try_from(counted) {
        Ok(found) if found <= last => Ok(found),
        _ => Err(RunError::index_error(at, len)),
    }
}

fn element_position(at: Option<&Value>, len: usize) -> Result<usize, RunError> {
    match len.checked_sub(1) {
        Some(last) => position(at, len, last),
        None => Err(RunError::index_error(
            at.and_then(Value::as_int).unwrap_or(-1),
            0,
        )),
    }
}

/// The elements joined along an axis, which is a new one or theirs.
fn concat(items: &[Value], axis: i64, new_axis: bool) -> Done {
    let mut parts = Vec::with_capacity(items.len());
    for item in items {
        let mut tensor = item.to_tensor(None)?;
        if new_axis {
            let rank = tensor.shape.len() as i64 + 1;
            let at = usize::try_from(if axis < 0 { axis + rank } else { axis });
            let mut shape = tensor.shape.clone();
            match at {
                Ok(at) if at <= shape.len() => shape.insert(at, 1),
                _ => return Err(RunError::value_error(format!("there is no axis {axis}"))),
            }
            tensor = tensor
                .reshaped(shape)
                .ok_or_else(|| RunError::value_error("an extent is too large"))?;
        }
        parts.push(tensor);
    }
    if parts.is_empty() {
        return Err(RunError::value_error(
            "the elements of an empty sequence are joined",
        ));
    }
    layout::concat(&parts.iter().collect::<Vec<_>>(), axis)
}

/// Equal tensors, one an iteration, on a new leading axis.
pub(super) fn stack(parts: &[Tensor]) -> Done {
    let mut rows = Vec::with_capacity(parts.len());
    for part in parts {
        let mut shape = part.shape.clone();
        shape.insert(0, 1);
        rows.push(
            part.reshaped(shape)
                .ok_or_else(|| RunError::value_error("an extent is too large"))?,
        );
    }
    layout::concat(&rows.iter().collect::<Vec<_>>(), 0)
}

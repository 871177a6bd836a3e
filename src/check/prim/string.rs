//! Type rules of what is done with strings.

use irc_syntax::DType;

use super::Text;
use super::infer::{Operand, Rule, Typed, label};
use crate::check::types::{TensorType, Type};
use crate::tensor::Pattern;

pub(super) fn text(rule: &mut Rule<'_>, op: Text) -> Typed {
    match op {
        Text::Concat => concat(rule),
        Text::Split => split(rule),
        Text::Lower | Text::Upper => map(rule),
        Text::FullMatch => matches(rule),
        Text::Format => format(rule),
        Text::Parse => parse(rule),
    }
}

fn strings(rule: &mut Rule<'_>, slot: &str) -> Typed<Operand> {
    let x = rule.tensor(slot)?;
    match x.ty.dtype {
        Some(dtype) if dtype != DType::Str => {
            let message = format!("`{}` needs strings, and {} is {dtype}", rule.name(), x.text);
            Err(rule.fault("dtype-mismatch", message, label(&x)))
        }
        _ => Ok(x),
    }
}

fn like(x: &Operand, dtype: DType) -> Type {
    Type::Tensor(TensorType {
        dtype: Some(dtype),
        value: None,
        ..x.ty.clone()
    })
}

/// Strings behind strings of the same shape.
fn concat(rule: &mut Rule<'_>) -> Typed {
    let (a, b) = (strings(rule, "a")?, strings(rule, "b")?);
    if let (Some(left), Some(right)) = (a.ty.ndim, b.ty.ndim)
        && left != right
    {
        let message = format!("{} has {left} axes and {} has {right}", a.text, b.text);
        return Err(rule.fault("rank-mismatch", message, label(&b)));
    }
    for (left, right) in a
        .shape()
        .into_iter()
        .flatten()
        .zip(b.shape().unwrap_or(&[]))
    {
        match rule.scope.facts().prove_eq(left, right) {
            Some(true) => {}
            Some(false) => {
                let message = format!("extents {left} of {} and {right} of {}", a.text, b.text);
                return Err(rule.fault("dim-mismatch", message, label(&b)));
            }
            None => rule.scope.must_agree(left, right),
        }
    }
    Ok(like(if a.ty.shape.is_some() { &a } else { &b }, DType::Str))
}

/// Pieces along a new last axis, and how many there are.
fn split(rule: &mut Rule<'_>) -> Typed {
    let x = strings(rule, "x")?;
    let most = rule.scope.fresh("split_n");
    let pieces = TensorType {
        dtype: Some(DType::Str),
        ndim: x.ty.ndim.map(|rank| rank + 1),
        shape: x.shape().map(|dims| [dims, &[most]].concat()),
        value: None,
    };
    Ok(Type::Tuple(vec![
        Type::Tensor(pieces),
        like(&x, DType::I64),
    ]))
}

/// Other strings in their place.
fn map(rule: &mut Rule<'_>) -> Typed {
    let x = strings(rule, "x")?;
    Ok(like(&x, DType::Str))
}

/// Whether strings match a pattern. That one takes too much memory is no fault of the program.
fn matches(rule: &mut Rule<'_>) -> Typed {
    let x = strings(rule, "x")?;
    let pattern = rule.call.str("pattern");
    if let Err(why) = Pattern::check(pattern) {
        let message = format!("`{}` takes a pattern in RE2's syntax: {why}", rule.name());
        return Err(rule.fault("bad-argument", message, format!("{pattern:?}")));
    }
    Ok(like(&x, DType::Bool))
}

/// Numbers as strings.
fn format(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    match x.ty.dtype {
        Some(dtype) if !dtype.is_float() && !matches!(dtype, DType::I64 | DType::U64) => {
            let message = format!(
                "`{}` writes floats, int64 and uint64, and {} is {dtype}",
                rule.name(),
                x.text
            );
            Err(rule.fault("dtype-mismatch", message, label(&x)))
        }
        _ => Ok(like(&x, DType::Str)),
    }
}

/// Strings as numbers.
fn parse(rule: &mut Rule<'_>) -> Typed {
    let x = strings(rule, "x")?;
    match rule.call.opt_dtype("dtype") {
        Some(dtype @ (DType::F32 | DType::F64 | DType::I64 | DType::U64)) => Ok(like(&x, dtype)),
        _ => {
            let message = format!("`{}` reads float32, float64, int64 or uint64", rule.name());
            Err(rule.fault("dtype-mismatch", message, label(&x)))
        }
    }
}

//! Type rules of sequences and optionals.
//!
//! The type of an element says its dtype, its rank, and its extents where all of them are numbers: a sequence outlives
//! the symbols of the place where its elements were made. An element that is taken out gets fresh extents.

use irc_syntax::{DType, Diagnostic, Expr};

use super::infer::{Rule, Stop, Typed};
use super::{Bound, Items};
use crate::check::agree::join;
use crate::check::types::{TensorType, Type};
use crate::shape::Dim;

/// The type as that of an element: without symbols and content.
pub fn element_type(ty: &Type) -> Type {
    match ty {
        Type::Tensor(tensor) => {
            let shape = tensor.shape.clone();
            Type::Tensor(TensorType {
                shape: shape.filter(|dims| dims.iter().all(|dim| dim.as_int().is_some())),
                value: None,
                ..tensor.clone()
            })
        }
        Type::Scalar(dtype) => Type::tensor(*dtype, Vec::new()),
        Type::Seq(inner) => Type::Seq(Box::new(element_type(inner))),
        Type::Opt(inner) => Type::Opt(Box::new(element_type(inner))),
        // A tuple is a sequence of known length.
        Type::Tuple(members) => Type::Seq(Box::new(common_type(members))),
        Type::Void => Type::Seq(Box::new(Type::Any)),
        Type::Shape(_)
        | Type::Func(..)
        | Type::Str
        | Type::DTypeValue
        | Type::Any
        | Type::Error => ty.clone(),
    }
}

/// The type of an element that may be any of several.
pub fn common_type(types: &[Type]) -> Type {
    let mut types = types.iter().map(element_type);
    let first = types.next().unwrap_or(Type::Any);
    types.fold(first, |all, ty| join_elements(&all, &ty))
}

/// What holds of two types of elements; `Any`, the element of an empty sequence, yields to the other.
pub fn join_elements(a: &Type, b: &Type) -> Type {
    match (a, b) {
        (Type::Any, other) | (other, Type::Any) => other.clone(),
        (Type::Seq(a), Type::Seq(b)) => Type::Seq(Box::new(join_elements(a, b))),
        (Type::Opt(a), Type::Opt(b)) => Type::Opt(Box::new(join_elements(a, b))),
        (Type::Opt(a), b) | (b, Type::Opt(a)) => Type::Opt(Box::new(join_elements(a, b))),
        (Type::Tensor(x), Type::Tensor(y)) if x.ndim != y.ndim => Type::Tensor(TensorType {
            dtype: x.dtype.filter(|dtype| y.dtype == Some(*dtype)),
            ..TensorType::default()
        }),
        _ => element_type(&join(a, b)),
    }
}

fn wrong(rule: &Rule<'_>, expr: &Expr, wanted: &str, ty: &Type) -> Stop {
    let message = format!("`{}` takes {wanted}, not {ty}", rule.call.prim.name());
    Diagnostic::error("type-mismatch", message)
        .at(expr.span.or(rule.call.span), format!("not {wanted}"))
        .into()
}

/// The element type of the operand `sequence`.
fn operand(rule: &mut Rule<'_>) -> Typed {
    let Some(expr) = rule.call.operand("sequence") else {
        return Err(Stop::Silent);
    };
    match rule.scope.type_of(expr) {
        Type::Seq(inner) => Ok(*inner),
        Type::Tuple(members) => Ok(common_type(&members)),
        Type::Any | Type::Void => Ok(Type::Any),
        Type::Error => Err(Stop::Silent),
        ty => Err(wrong(rule, expr, "a sequence", &ty)),
    }
}

/// An integer tensor of one element, where it is given.
fn position(rule: &mut Rule<'_>) -> Typed<()> {
    let Some(at) = rule.opt_tensor("position")? else {
        return Ok(());
    };
    rule.need_index(&at)
}

/// The type that `ty=` states, as that of an element.
fn stated(rule: &mut Rule<'_>) -> Typed<Option<Type>> {
    match rule.call.get("ty") {
        Bound::Expr(expr) => Ok(Some(element_type(&rule.scope.annotation(expr)?))),
        _ => Ok(None),
    }
}

/// `I.sequence((a, b), ty=T)`; of a sequence, the sequence itself.
pub(super) fn sequence(rule: &mut Rule<'_>) -> Typed {
    let held = match rule.call.items("items") {
        Items::Listed(items) => {
            let mut types = Vec::with_capacity(items.len());
            for item in items {
                types.push(Type::Tensor(rule.operand(item)?.ty));
            }
            common_type(&types)
        }
        Items::Tuple(expr) => match rule.scope.type_of(expr) {
            Type::Seq(inner) => *inner,
            Type::Tuple(members) => common_type(&members),
            Type::Void | Type::Any => Type::Any,
            Type::Error => return Err(Stop::Silent),
            // An optional gives its value, which it has to have.
            Type::Opt(inner) if matches!(*inner, Type::Seq(_)) => match *inner {
                Type::Seq(inner) => *inner,
                other => other,
            },
            ty => return Err(wrong(rule, expr, "a tuple of tensors", &ty)),
        },
    };
    let ty = stated(rule)?.unwrap_or(held);
    Ok(Type::Seq(Box::new(ty)))
}

/// `I.seq_insert(s, x, position)`
pub(super) fn seq_insert(rule: &mut Rule<'_>) -> Typed {
    let inner = operand(rule)?;
    position(rule)?;
    let x = rule.tensor("x")?;
    if let (Type::Tensor(ty), Some(dtype)) = (&inner, x.ty.dtype)
        && ty.dtype.is_some_and(|wanted| wanted != dtype)
    {
        let message = format!("a tensor of dtype {dtype} is put into a sequence of {inner}");
        return Err(Diagnostic::error("dtype-mismatch", message)
            .at(x.span.or(rule.call.span), "another dtype")
            .into());
    }
    let x = element_type(&Type::Tensor(x.ty));
    Ok(Type::Seq(Box::new(join_elements(&inner, &x))))
}

/// `I.seq_erase(s, position)`
pub(super) fn seq_erase(rule: &mut Rule<'_>) -> Typed {
    let inner = operand(rule)?;
    position(rule)?;
    Ok(Type::Seq(Box::new(inner)))
}

/// `I.seq_at(s, position)`
pub(super) fn seq_at(rule: &mut Rule<'_>) -> Typed {
    let inner = operand(rule)?;
    position(rule)?;
    Ok(taken_out(rule, inner, "item_d"))
}

/// `I.seq_len(s)`
pub(super) fn seq_len(rule: &mut Rule<'_>) -> Typed {
    operand(rule)?;
    Ok(Type::tensor(DType::I64, Vec::new()))
}

/// `I.rank(x)`
pub(super) fn rank(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    let known = x.ty.ndim.and_then(|rank| i64::try_from(rank).ok());
    Ok(Type::Tensor(TensorType {
        value: known.map(|rank| vec![Dim::int(rank)]),
        ..TensorType::new(DType::I64, Vec::new())
    }))
}

/// `I.seq_concat(s, axis, new_axis)`
pub(super) fn seq_concat(rule: &mut Rule<'_>) -> Typed {
    let inner = operand(rule)?;
    let Type::Tensor(TensorType {
        dtype,
        ndim: Some(rank),
        shape,
        ..
    }) = inner
    else {
        let message = format!("the rank of the elements is not known: {inner}");
        return Err(Diagnostic::error("type-unknown", message)
            .at(rule.call.span, "in this call")
            .into());
    };
    let is_new = rule.call.bool("new_axis");
    let axis = rule.axis(rule.call.int("axis"), rank + usize::from(is_new))?;
    let mut dims: Vec<Option<Dim>> = match shape {
        Some(dims) => dims.into_iter().map(Some).collect(),
        None => vec![None; rank],
    };
    if is_new {
        dims.insert(axis, None);
    } else if let Some(dim) = dims.get_mut(axis) {
        *dim = None;
    }
    let dims = dims
        .into_iter()
        .map(|dim| dim.unwrap_or_else(|| rule.scope.fresh("joined_d")))
        .collect::<Vec<_>>();
    Ok(Type::Tensor(TensorType {
        dtype,
        ndim: Some(dims.len()),
        shape: Some(dims),
        value: None,
    }))
}

/// `I.optional(x)`, `I.optional(ty=T)`
pub(super) fn optional(rule: &mut Rule<'_>) -> Typed {
    let ty = match (rule.call.operand("x"), stated(rule)?) {
        (Some(expr), stated) => match (element_type(&rule.scope.type_of(expr)), stated) {
            (Type::Error, _) => return Err(Stop::Silent),
            (held, None) => held,
            (_, Some(stated)) => stated,
        },
        (None, Some(ty)) => ty,
        (None, None) => Type::Any,
    };
    match ty {
        Type::Error => Err(Stop::Silent),
        Type::Opt(_) => Ok(ty),
        ty => Ok(Type::Opt(Box::new(ty))),
    }
}

/// `I.has_value(o)`
pub(super) fn has_value(rule: &mut Rule<'_>) -> Typed {
    let Some(expr) = rule.call.operand("x") else {
        return Err(Stop::Silent);
    };
    match rule.scope.type_of(expr) {
        Type::Error => Err(Stop::Silent),
        _ => Ok(Type::tensor(DType::Bool, Vec::new())),
    }
}

/// `I.get_value(o)`
pub(super) fn get_value(rule: &mut Rule<'_>) -> Typed {
    let Some(expr) = rule.call.operand("x") else {
        return Err(Stop::Silent);
    };
    match rule.scope.type_of(expr) {
        Type::Opt(inner) => Ok(taken_out(rule, *inner, "value_d")),
        ty @ (Type::Tensor(_) | Type::Seq(_) | Type::Any) => Ok(ty),
        Type::Error => Err(Stop::Silent),
        ty => Err(wrong(rule, expr, "an optional", &ty)),
    }
}

/// The type of an element that is taken out: fresh extents where they are not known.
fn taken_out(rule: &mut Rule<'_>, inner: Type, base: &str) -> Type {
    match inner {
        Type::Tensor(TensorType {
            dtype,
            ndim: Some(rank),
            shape: None,
            ..
        }) => Type::Tensor(TensorType {
            dtype,
            ndim: Some(rank),
            shape: Some((0..rank).map(|_| rule.scope.fresh(base)).collect()),
            value: None,
        }),
        other => other,
    }
}

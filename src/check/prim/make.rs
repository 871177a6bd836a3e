//! Type rules of operators that make tensors and shapes, and of calls that state their own type.

use irc_syntax::{DType, Diagnostic, Expr, ExprKind, UnaryOp};

use super::PixelFormat;
use super::bind::Bound;
use super::infer::{Operand, Rule, Typed, label};
use super::value;
use crate::check::types::{TensorType, Type};
use crate::shape::Dim;

pub(super) fn full(rule: &mut Rule<'_>) -> Typed {
    let fill = rule.tensor("fill_value")?;
    rule.need_rank(&fill, 0)?;
    let dtype = rule.call.opt_dtype("dtype").or(fill.ty.dtype);
    let shape = rule.shape("shape")?;
    let integer = dtype.is_some_and(|dtype| dtype.is_int() || dtype == DType::Bool);
    let value = match (fill.value(), shape.as_deref()) {
        (Some([one]), Some([])) if integer => Some(vec![one.clone()]),
        (Some([one]), Some([count])) if integer => value::repeat(one, count),
        _ => None,
    };
    let ndim = shape.as_ref().map(Vec::len);
    Ok(Type::Tensor(TensorType {
        dtype,
        ndim,
        shape,
        value,
    }))
}

pub(super) fn arange(rule: &mut Rule<'_>) -> Typed {
    let (start, end) = (rule.tensor("start")?, rule.opt_tensor("end")?);
    let step = rule.tensor("step")?;
    let zero = Operand {
        ty: TensorType {
            value: Some(vec![Dim::int(0)]),
            ..TensorType::new(DType::I64, Vec::new())
        },
        weak: true,
        ..start.clone()
    };
    let (start, end) = match end {
        Some(end) => (start, end),
        None => (zero, start),
    };
    for operand in [&start, &end, &step] {
        rule.need_rank(operand, 0)?;
    }
    let dtype = match rule.call.opt_dtype("dtype") {
        Some(dtype) => Some(dtype),
        None => rule.common_dtype(&[&start, &end, &step])?,
    };
    let single = |operand: &Operand| operand.value().and_then(|dims| dims.first().cloned());
    let known = match (single(&start), single(&end), single(&step)) {
        (Some(start), Some(end), Some(step)) => {
            step.as_int().filter(|step| *step != 0).map(|step| {
                let distance = if step > 0 {
                    &end - &start
                } else {
                    &start - &end
                };
                let count = distance.ceil_div(&Dim::int(step.saturating_abs()));
                (
                    rule.scope.facts().simplify(&Dim::max(&count, &Dim::int(0))),
                    start,
                    step,
                )
            })
        }
        _ => None,
    };
    let integer = dtype.is_some_and(DType::is_int);
    let (count, value) = match known {
        Some((count, start, step)) => {
            let length = count
                .as_int()
                .filter(|count| integer && *count <= value::MAX_CONTENT as i64);
            let value = length.map(|length| (0..length).map(|at| &start + at * step).collect());
            (count, value)
        }
        None => (
            float_count(rule).unwrap_or_else(|| rule.scope.fresh("arange_n")),
            None,
        ),
    };
    Ok(Type::Tensor(TensorType {
        dtype,
        ndim: Some(1),
        shape: Some(vec![count]),
        value,
    }))
}

/// The length of an `arange` over written floats.
fn float_count(rule: &Rule<'_>) -> Option<Dim> {
    let number = |slot: &str| super::bind::float(rule.call.operand(slot)?);
    let (start, end) = match number("end") {
        Some(end) => (number("start")?, end),
        None if rule.call.operand("end").is_none() => (0.0, number("start")?),
        None => return None,
    };
    let count = ((end - start) / number("step")?).ceil().max(0.0);
    (count < 1e15).then(|| Dim::int(count as i64))
}

/// `R.const(1.5, "float32")`, `R.const([[1, 2], [3, 4]], "int64")`.
pub(super) fn constant(rule: &mut Rule<'_>) -> Typed {
    let Some(expr) = rule.call.operand("value") else {
        return Ok(Type::Error);
    };
    let mut shape = Vec::new();
    let mut at = expr;
    while let ExprKind::List(items) = &at.kind {
        shape.push(items.len());
        let Some(first) = items.first() else { break };
        at = first;
    }
    let mut leaves = Vec::new();
    if !collect(expr, &shape, &mut leaves) {
        let message = "rows of a constant have one length".to_string();
        return Err(Diagnostic::error("bad-argument", message)
            .at(expr.span, "ragged list")
            .into());
    }
    let dtype = match rule.call.opt_dtype("dtype") {
        Some(dtype) => Some(dtype),
        None => match leaves.first().map(|leaf| &leaf.kind) {
            Some(ExprKind::Bool(_)) => Some(DType::Bool),
            Some(ExprKind::Int(_)) => Some(DType::I32),
            Some(ExprKind::Str(_)) => Some(DType::Str),
            _ => Some(DType::F32),
        },
    };
    let integer = dtype.is_some_and(|dtype| dtype.is_int() || dtype == DType::Bool);
    let value = if integer && shape.len() <= 1 && leaves.len() <= value::MAX_CONTENT {
        leaves.iter().map(|leaf| whole(leaf)).collect()
    } else {
        None
    };
    let dims: Vec<Dim> = shape.into_iter().map(Dim::from).collect();
    Ok(Type::Tensor(TensorType {
        dtype,
        ndim: Some(dims.len()),
        shape: Some(dims),
        value,
    }))
}

fn whole(leaf: &Expr) -> Option<Dim> {
    match &leaf.kind {
        ExprKind::Int(value) => i64::try_from(*value).ok().map(Dim::int),
        ExprKind::Bool(value) => Some(Dim::int(i64::from(*value))),
        ExprKind::Float(value) if value.fract() == 0.0 && value.abs() < 1e15 => {
            Some(Dim::int(*value as i64))
        }
        ExprKind::Unary {
            op: UnaryOp::Neg,
            value,
        } => whole(value).map(|dim| -dim),
        _ => None,
    }
}

/// The leaves of nested lists in order; false when rows differ in length.
fn collect<'a>(expr: &'a Expr, shape: &[usize], leaves: &mut Vec<&'a Expr>) -> bool {
    match (&expr.kind, shape) {
        (ExprKind::List(items), [length, inner @ ..]) => {
            items.len() == *length && items.iter().all(|item| collect(item, inner, leaves))
        }
        (ExprKind::List(_), []) | (_, [_, ..]) => false,
        (_, []) => {
            leaves.push(expr);
            true
        }
    }
}

pub(super) fn shape_of(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    Ok(Type::Shape(x.ty.shape))
}

pub(super) fn shape_to_tensor(rule: &mut Rule<'_>) -> Typed {
    let Some(expr) = rule.call.operand("x") else {
        return Ok(Type::Error);
    };
    let dims = match super::bind::shape_dims(expr) {
        Some(dims) => Some(dims?),
        None => match rule.scope.type_of(expr) {
            Type::Shape(dims) => dims,
            Type::Any => None,
            Type::Error => return Ok(Type::Error),
            other => {
                let message = format!("`{}` takes a shape, not {other}", rule.name());
                return Err(Diagnostic::error("not-a-shape", message)
                    .at(expr.span, "not a shape")
                    .into());
            }
        },
    };
    let shape = dims.as_ref().map(|dims| vec![Dim::from(dims.len())]);
    let value = dims.filter(|dims| dims.len() <= value::MAX_CONTENT);
    Ok(Type::Tensor(TensorType {
        dtype: Some(DType::I64),
        ndim: Some(1),
        shape,
        value,
    }))
}

pub(super) fn tensor_to_shape(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    rule.need_rank(&x, 1)?;
    rule.need_index(&x)?;
    if let Some(value) = x.value() {
        return Ok(Type::Shape(Some(value.to_vec())));
    }
    let length = x.shape().and_then(|dims| dims.first()?.as_int());
    let Some(length) = length.filter(|length| *length <= value::MAX_CONTENT as i64) else {
        return Ok(Type::Shape(None));
    };
    Ok(Type::Shape(Some(
        (0..length).map(|_| rule.scope.fresh("dim")).collect(),
    )))
}

pub(super) fn match_cast(rule: &mut Rule<'_>) -> Typed {
    let Some(ty) = rule.call.operand("ty") else {
        return Ok(Type::Error);
    };
    let ty = rule.scope.annotation(ty)?;
    // What is known of the content outlives the cast.
    if let (Type::Tensor(cast), Some(expr)) = (&ty, rule.call.operand("x"))
        && let Type::Tensor(TensorType {
            value: Some(value), ..
        }) = rule.scope.type_of(expr)
    {
        return Ok(Type::Tensor(TensorType {
            value: Some(value),
            ..cast.clone()
        }));
    }
    Ok(ty)
}

/// The type that `out_ty=` or `ty_args=` states; a list of several is a tuple.
pub(super) fn declared(rule: &mut Rule<'_>, slot: &str) -> Typed {
    let expr = match rule.call.get(slot) {
        Bound::Expr(expr) => expr.clone(),
        _ => return Ok(Type::Any),
    };
    let Some(items) = expr.as_items() else {
        return Ok(rule.scope.annotation(&expr)?);
    };
    let mut types = Vec::with_capacity(items.len());
    for item in items {
        types.push(rule.scope.annotation(item)?);
    }
    // `ty_args=(T,)` and `out_ty=[T]` with one member state the type itself.
    match types.len() {
        0 => Ok(Type::Void),
        1 => Ok(types.remove(0)),
        _ => Ok(Type::Tuple(types)),
    }
}

/// The pixels of an image file: its extents are in the file.
pub(super) fn decode_image(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    if x.ty.dtype.is_some_and(|dtype| dtype != DType::U8) {
        let message = format!("`{}` reads uint8, and {} is not", rule.name(), x.text);
        return Err(rule.fault("dtype-mismatch", message, label(&x)));
    }
    rule.need_rank(&x, 1)?;
    let name = rule.call.str("pixel_format");
    let Some(format) = PixelFormat::parse(name) else {
        let message = format!("`{}` gives RGB, BGR or Grayscale", rule.name());
        return Err(rule.fault("bad-argument", message, format!("{name:?}")));
    };
    let (height, width) = (rule.scope.fresh("image_h"), rule.scope.fresh("image_w"));
    let dims = vec![height, width, Dim::int(format.channels())];
    Ok(Type::Tensor(TensorType::new(DType::U8, dims)))
}

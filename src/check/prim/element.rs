//! Type rules of element-wise operators, reductions and scans.

use irc_syntax::DType;

use super::infer::{Operand, Rule, Typed, label};
use super::{Binary, Reduce, Unary, value};
use crate::check::types::{TensorType, Type};
use crate::shape::Dim;

pub(super) fn unary(rule: &mut Rule<'_>, op: Unary) -> Typed {
    let x = rule.tensor("x")?;
    no_text(rule, &x)?;
    let dtype = match op {
        Unary::Isnan | Unary::Isinf | Unary::Isfinite | Unary::LogicalNot => Some(DType::Bool),
        Unary::Abs | Unary::Negative | Unary::Sign => x.ty.dtype,
        Unary::Real(real) if real.is_rounding() => x.ty.dtype,
        Unary::BitwiseNot => {
            need(rule, &x, "an integer or bool dtype", |dtype| {
                dtype.is_int() || dtype == DType::Bool
            })?;
            x.ty.dtype
        }
        Unary::Real(_) => {
            need(rule, &x, "a float dtype", |dtype| {
                dtype.is_float() || matches!(dtype, DType::C64 | DType::C128)
            })?;
            x.ty.dtype
        }
    };
    let value = x
        .value()
        .and_then(|dims| value::unary(op, dims, rule.scope.facts()))
        .and_then(|dims| value::unwrapped(dims, dtype));
    Ok(Type::Tensor(TensorType {
        dtype,
        value,
        ..x.ty
    }))
}

/// Strings are moved and compared; there is no arithmetic on them.
fn no_text(rule: &Rule<'_>, x: &Operand) -> Typed<()> {
    need(rule, x, "numbers", |dtype| dtype != DType::Str)
}

fn need(rule: &Rule<'_>, x: &Operand, wanted: &str, test: fn(DType) -> bool) -> Typed<()> {
    match x.ty.dtype {
        Some(dtype) if !test(dtype) && !x.weak => {
            let message = format!(
                "`{}` needs {wanted}, and {} is {dtype}",
                rule.name(),
                x.text
            );
            Err(rule.fault("dtype-mismatch", message, label(x)))
        }
        _ => Ok(()),
    }
}

pub(super) fn binary(rule: &mut Rule<'_>, op: Binary) -> Typed {
    let (a, b) = (rule.tensor("a")?, rule.tensor("b")?);
    let common = rule.common_dtype(&[&a, &b])?;
    if !op.is_comparison() {
        no_text(rule, &a)?;
    }
    let dtype = if op.is_comparison() || op.is_logical() {
        Some(DType::Bool)
    } else {
        common
    };
    let (ndim, shape) = rule.broadcast(&[&a, &b])?;
    let value = match (a.value(), b.value(), &shape) {
        (Some(a), Some(b), Some(shape)) if shape.len() <= 1 => {
            value::binary(op, a, b, rule.scope.facts())
        }
        _ => None,
    };
    let value = value.and_then(|dims| value::unwrapped(dims, dtype));
    Ok(Type::Tensor(TensorType {
        dtype,
        ndim,
        shape,
        value,
    }))
}

pub(super) fn select(rule: &mut Rule<'_>) -> Typed {
    let condition = rule.tensor("condition")?;
    let (a, b) = (rule.tensor("a")?, rule.tensor("b")?);
    need(rule, &condition, "a bool condition", |dtype| {
        dtype == DType::Bool
    })?;
    let dtype = rule.common_dtype(&[&a, &b])?;
    let (ndim, shape) = rule.broadcast(&[&condition, &a, &b])?;
    let value = match (condition.value(), a.value(), b.value(), &shape) {
        (Some(c), Some(a), Some(b), Some(shape)) if shape.len() <= 1 => value::select(c, a, b),
        _ => None,
    };
    Ok(Type::Tensor(TensorType {
        dtype,
        ndim,
        shape,
        value,
    }))
}

pub(super) fn astype(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    let dtype = rule.call.opt_dtype("dtype");
    if x.ty.dtype != dtype {
        let advice = if dtype == Some(DType::Str) {
            Some("`R.str.format(x)` writes numbers")
        } else if x.ty.dtype == Some(DType::Str) {
            Some("`R.str.parse(x, dtype)` reads numbers")
        } else {
            None
        };
        if let Some(advice) = advice {
            let message = format!("`{}` converts between numbers only: {advice}", rule.name());
            return Err(rule.fault("dtype-mismatch", message, label(&x)));
        }
    }
    let value = match (x.ty.dtype, dtype) {
        (Some(from), Some(to)) => x.value().and_then(|dims| value::astype(dims, from, to)),
        _ => None,
    };
    Ok(Type::Tensor(TensorType {
        dtype,
        value,
        ..x.ty
    }))
}

pub(super) fn reinterpret(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    let dtype = rule.call.opt_dtype("dtype");
    no_text(rule, &x)?;
    if let (Some(from), Some(to)) = (x.ty.dtype, dtype)
        && (from.bits() != to.bits() || to == DType::Str)
    {
        let message = format!(
            "`{}` keeps the bits, and {from} has {} while {to} has {}",
            rule.name(),
            from.bits(),
            to.bits()
        );
        return Err(rule.fault("dtype-mismatch", message, label(&x)));
    }
    Ok(Type::Tensor(TensorType {
        dtype,
        value: None,
        ..x.ty
    }))
}

pub(super) fn broadcast_to(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    let Some(target) = rule.shape("shape")? else {
        return Ok(Type::Tensor(TensorType {
            dtype: x.ty.dtype,
            ..TensorType::default()
        }));
    };
    if x.ty.ndim.is_some_and(|rank| rank > target.len()) {
        let message = format!("{} has more axes than the shape it is broadcast to", x.text);
        return Err(rule.fault("rank-mismatch", message, label(&x)));
    }
    if let Some(shape) = x.shape() {
        for (from, to) in shape.iter().rev().zip(target.iter().rev()) {
            let facts = rule.scope.facts();
            let fits = from.as_int() == Some(1) || facts.prove_eq(from, to) != Some(false);
            // A symbol may turn out to be one.
            let may_be_one =
                from.as_int().is_none() && facts.prove_eq(from, &Dim::int(1)) != Some(false);
            if !fits && !may_be_one {
                let message = format!("extent {from} of {} cannot be broadcast to {to}", x.text);
                return Err(rule.fault("dim-mismatch", message, label(&x)));
            }
            if from.as_int() != Some(1) && facts.prove_eq(from, to).is_none() {
                let product = &(from - to) * &(from - 1);
                if rule
                    .scope
                    .facts()
                    .prove_eq(&product, &Dim::int(0))
                    .is_none()
                {
                    rule.scope.must_agree(&product, &Dim::int(0));
                }
            }
        }
    }
    let value = match (x.value(), target.as_slice()) {
        (Some([one]), [count]) => value::repeat(one, count),
        (Some(values), [_]) if x.ty.ndim == Some(1) => Some(values.to_vec()),
        (Some(values), []) => Some(values.to_vec()),
        _ => None,
    };
    let ty = TensorType {
        dtype: x.ty.dtype,
        ndim: Some(target.len()),
        shape: Some(target),
        value,
    };
    Ok(Type::Tensor(ty))
}

/// Rank and dims after a reduction over axes, all of them for `None`.
fn reduced(
    rule: &Rule<'_>,
    x: &Operand,
    axes: Option<&[i64]>,
    keepdims: bool,
) -> Typed<TensorType> {
    let Some(rank) = x.ty.ndim else {
        let rank = if axes.is_none() && !keepdims {
            Some(0)
        } else {
            None
        };
        return Ok(TensorType {
            ndim: rank,
            shape: rank.map(|_| Vec::new()),
            ..TensorType::default()
        });
    };
    let axes = match axes {
        Some(axes) => rule.axes(axes, rank)?,
        None => (0..rank).collect(),
    };
    let ndim = Some(if keepdims { rank } else { rank - axes.len() });
    let shape = x.shape().map(|dims| {
        let kept = dims
            .iter()
            .enumerate()
            .filter_map(|(at, dim)| match axes.contains(&at) {
                false => Some(dim.clone()),
                true => keepdims.then(|| Dim::int(1)),
            });
        kept.collect()
    });
    Ok(TensorType {
        ndim,
        shape,
        ..TensorType::default()
    })
}

pub(super) fn reduce(rule: &mut Rule<'_>, op: Reduce) -> Typed {
    let x = rule.tensor("x")?;
    no_text(rule, &x)?;
    let keepdims = rule.call.bool("keepdims");
    let ty = reduced(rule, &x, rule.call.opt_ints("axis"), keepdims)?;
    let value = match (x.value(), &ty.shape) {
        (Some(dims), Some(_)) if x.ty.ndim == Some(0) => Some(dims.to_vec()),
        // `axis=[]` reduces nothing.
        (Some(dims), Some(_)) if rule.call.opt_ints("axis") != Some(&[]) => {
            let dim = value::reduce(op, dims);
            dim.and_then(|dim| value::unwrapped(vec![dim], x.ty.dtype))
        }
        _ => None,
    };
    Ok(Type::Tensor(TensorType {
        dtype: x.ty.dtype,
        value,
        ..ty
    }))
}

pub(super) fn arg_reduce(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    no_text(rule, &x)?;
    let axis = rule.call.opt_int("axis");
    let ty = reduced(
        rule,
        &x,
        axis.as_ref().map(std::slice::from_ref),
        rule.call.bool("keepdims"),
    )?;
    Ok(Type::Tensor(TensorType {
        dtype: rule.call.opt_dtype("dtype"),
        ..ty
    }))
}

pub(super) fn scan(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    no_text(rule, &x)?;
    let dtype = rule.call.opt_dtype("dtype").or(x.ty.dtype);
    match (rule.call.opt_int("axis"), x.ty.ndim) {
        (Some(axis), Some(rank)) => {
            rule.axis(axis, rank)?;
            Ok(Type::Tensor(TensorType {
                dtype,
                value: None,
                ..x.ty
            }))
        }
        (Some(_), None) => Ok(Type::Tensor(TensorType {
            dtype,
            value: None,
            ..x.ty
        })),
        (None, _) => {
            let shape = x.shape().map(|dims| vec![dims.iter().product()]);
            Ok(Type::Tensor(TensorType {
                dtype,
                ndim: Some(1),
                shape,
                value: None,
            }))
        }
    }
}

//! Type rules of operators that move elements: transpose, reshape, slice, concat, pad.

use super::infer::{Operand, Rule, Typed, label};
use super::value;
use crate::check::types::{TensorType, Type};
use crate::shape::{Dim, Facts};

pub(super) fn permute_dims(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    let Some(rank) = x.ty.ndim else {
        let ndim = rule.call.opt_ints("axes").map(<[i64]>::len);
        return Ok(Type::Tensor(TensorType {
            ndim,
            value: None,
            ..x.ty
        }));
    };
    let axes = match rule.call.opt_ints("axes") {
        Some(axes) => rule.axes(axes, rank)?,
        None => (0..rank).rev().collect(),
    };
    if axes.len() != rank {
        let message = format!("`{}` names {} axes of {rank}", rule.name(), axes.len());
        return Err(rule.fault("rank-mismatch", message, label(&x)));
    }
    let shape = x.shape().map(|dims| {
        axes.iter()
            .filter_map(|axis| dims.get(*axis).cloned())
            .collect()
    });
    Ok(Type::Tensor(TensorType { shape, ..x.ty }))
}

pub(super) fn reshape(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    let Some(mut target) = rule.shape("shape")? else {
        return Ok(Type::Tensor(TensorType {
            dtype: x.ty.dtype,
            ..TensorType::default()
        }));
    };
    let total: Option<Dim> = x.shape().map(|dims| dims.iter().product());
    if let Some(at) = target.iter().position(|dim| dim.as_int() == Some(-1)) {
        let others: Dim = target
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != at)
            .map(|(_, dim)| dim)
            .product();
        let open = match &total {
            Some(_) if others.as_int() == Some(0) => Dim::int(0),
            Some(total) => total.floor_div(&others),
            None => rule.scope.fresh("reshape"),
        };
        if let Some(place) = target.get_mut(at) {
            *place = open;
        }
    }
    if let Some(total) = &total {
        let wanted: Dim = target.iter().product();
        let equal = rule.scope.facts().prove_eq(total, &wanted);
        if equal.is_none() {
            rule.scope.must_agree(total, &wanted);
        }
        if equal == Some(false) {
            let message = format!(
                "{} has {total} elements, and the new shape {wanted}",
                x.text
            );
            return Err(rule.fault("dim-mismatch", message, label(&x)));
        }
    }
    let value = x.value().filter(|_| target.len() <= 1).map(<[Dim]>::to_vec);
    let ty = TensorType {
        dtype: x.ty.dtype,
        ndim: Some(target.len()),
        shape: Some(target),
        value,
    };
    Ok(Type::Tensor(ty))
}

pub(super) fn concat(rule: &mut Rule<'_>) -> Typed {
    let tensors = rule.tensors("tensors")?;
    let operands: Vec<&Operand> = tensors.iter().collect();
    let dtype = rule.common_dtype(&operands)?;
    let Some(first) = tensors.first() else {
        return Err(rule.fault(
            "bad-call",
            format!("`{}` of no tensors", rule.name()),
            "empty tuple",
        ));
    };
    let rank = tensors.iter().find_map(|tensor| tensor.ty.ndim);
    let Some(rank) = rank else {
        return Ok(Type::Tensor(TensorType {
            dtype,
            ..TensorType::default()
        }));
    };
    for tensor in &tensors {
        rule.need_rank(tensor, rank)?;
    }
    let axis = rule.axis(rule.call.int("axis"), rank)?;
    let Some(mut shape) = first.shape().map(<[Dim]>::to_vec) else {
        return Ok(Type::Tensor(TensorType {
            dtype,
            ndim: Some(rank),
            ..TensorType::default()
        }));
    };
    let mut known = true;
    for tensor in tensors.iter().skip(1) {
        let Some(dims) = tensor.shape() else {
            known = false;
            continue;
        };
        for (at, (mine, theirs)) in shape.iter_mut().zip(dims).enumerate() {
            *mine = if at == axis {
                &*mine + theirs
            } else {
                rule.same_dim(first, mine, tensor, theirs)?
            };
        }
    }
    let value = match rank {
        1 => {
            let parts: Option<Vec<&[Dim]>> = tensors.iter().map(Operand::value).collect();
            parts
                .map(|parts| parts.concat())
                .filter(|dims| dims.len() <= value::MAX_CONTENT)
        }
        _ => None,
    };
    let shape = known.then_some(shape);
    Ok(Type::Tensor(TensorType {
        dtype,
        ndim: Some(rank),
        shape,
        value,
    }))
}

pub(super) fn pad(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    let width = rule.call.dims("pad_width");
    let Some(rank) = x.ty.ndim else {
        return Ok(Type::Tensor(TensorType {
            value: None,
            ..x.ty
        }));
    };
    if width.len() != rank * 2 {
        let message = format!(
            "`{}` has {} entries in `pad_width` for {rank} axes and needs {}",
            rule.name(),
            width.len(),
            rank * 2
        );
        return Err(rule.fault("rank-mismatch", message, label(&x)));
    }
    let shape = x.shape().map(|dims| {
        let padded = dims
            .iter()
            .zip(width.chunks(2))
            .map(|(dim, ends)| ends.iter().fold(dim.clone(), |sum, end| sum + end));
        padded.collect::<Vec<Dim>>()
    });
    if let Some(bad) = shape
        .iter()
        .flatten()
        .find(|dim| dim.as_int().is_some_and(|dim| dim < 0))
    {
        let message = format!("`{}` crops {} to {bad} elements", rule.name(), x.text);
        return Err(rule.fault("dim-mismatch", message, label(&x)));
    }
    Ok(Type::Tensor(TensorType {
        shape,
        value: None,
        ..x.ty
    }))
}

pub(super) fn strided_slice(rule: &mut Rule<'_>) -> Typed {
    let x = rule.tensor("x")?;
    let call = rule.call;
    let axes = call.ints("axes");
    let (begin, end, strides) = (
        call.dims("begin"),
        call.dims("end"),
        call.opt_dims("strides"),
    );
    let lengths = [
        begin.len(),
        end.len(),
        strides.map_or(axes.len(), <[Dim]>::len),
    ];
    if lengths.iter().any(|length| *length != axes.len()) {
        let message = format!(
            "`{}` has {} axes, {} begins, {} ends and {} strides",
            rule.name(),
            axes.len(),
            lengths[0],
            lengths[1],
            lengths[2]
        );
        return Err(rule.fault("bad-argument", message, "in this call"));
    }
    let Some(rank) = x.ty.ndim else {
        return Ok(Type::Tensor(TensorType {
            value: None,
            ..x.ty
        }));
    };
    let axes = rule.axes(axes, rank)?;
    let one = Dim::int(1);
    let mut shape = x.shape().map(<[Dim]>::to_vec);
    let mut value = x.value().filter(|_| rank == 1).map(<[Dim]>::to_vec);
    for (at, axis) in axes.iter().enumerate() {
        let (Some(begin), Some(end)) = (begin.get(at), end.get(at)) else {
            continue;
        };
        let step = strides.and_then(|strides| strides.get(at)).unwrap_or(&one);
        let Some(step) = step.as_int().filter(|step| *step != 0) else {
            let message = format!("strides of `{}` are numbers other than 0", rule.name());
            return Err(rule.fault("bad-argument", message, "in this call"));
        };
        let Some(dims) = &mut shape else { continue };
        let Some(dim) = dims.get_mut(*axis) else {
            continue;
        };
        let slice = Slice {
            begin,
            end,
            step,
            inbound: call.bool("assume_inbound"),
        };
        value = value.and_then(|value| slice.pick(&value));
        *dim = slice.length(dim, rule.scope.facts());
    }
    Ok(Type::Tensor(TensorType {
        shape,
        value,
        ..x.ty
    }))
}

/// Bounds beyond this stand for "to the end".
const FAR: i64 = i32::MAX as i64 - 1;

/// `begin:end:step` with Python's rules.
struct Slice<'a> {
    begin: &'a Dim,
    end: &'a Dim,
    step: i64,
    /// Whether the bounds are promised to lie within the extent.
    inbound: bool,
}

/// Where a slice of an axis starts, counted from the front and clamped, as the type rule sees it.
pub fn slice_begin(begin: &Dim, step: i64, extent: &Dim, inbound: bool, facts: &Facts) -> Dim {
    let (low, high) = if step > 0 {
        (Dim::int(0), extent.clone())
    } else {
        (Dim::int(-1), extent - 1)
    };
    Slice {
        begin,
        end: begin,
        step,
        inbound,
    }
    .bound(begin, extent, &low, &high, facts)
}

impl Slice<'_> {
    /// The number of elements taken out of `extent`.
    fn length(&self, extent: &Dim, facts: &Facts) -> Dim {
        let (low, high) = if self.step > 0 {
            (Dim::int(0), extent.clone())
        } else {
            (Dim::int(-1), extent - 1)
        };
        let begin = self.bound(self.begin, extent, &low, &high, facts);
        let end = self.bound(self.end, extent, &low, &high, facts);
        let distance = if self.step > 0 {
            end - begin
        } else {
            begin - end
        };
        let count = distance.ceil_div(&Dim::int(self.step.saturating_abs()));
        facts.simplify(&Dim::max(&count, &Dim::int(0)))
    }

    /// A bound counted from the start and clamped; a negative one counts from the end.
    fn bound(&self, bound: &Dim, extent: &Dim, low: &Dim, high: &Dim, facts: &Facts) -> Dim {
        if let Some(value) = bound.as_int() {
            if value >= FAR {
                return high.clone();
            }
            if value <= -FAR {
                return low.clone();
            }
        }
        let zero = Dim::int(0);
        let counted = match facts.prove_le(&zero, bound) {
            Some(true) => bound.clone(),
            Some(false) => bound + extent,
            // One where the bound is negative, else zero, times the extent.
            None => bound + &(extent * &Dim::max(&zero, &Dim::min(&-bound, &Dim::int(1)))),
        };
        if self.inbound {
            return counted;
        }
        facts.simplify(&Dim::max(low, &Dim::min(&counted, high)))
    }

    /// The elements of a known content.
    fn pick(&self, value: &[Dim]) -> Option<Vec<Dim>> {
        let length = i64::try_from(value.len()).ok()?;
        let (low, high) = if self.step > 0 {
            (0, length)
        } else {
            (-1, length - 1)
        };
        let bound = |bound: i64| {
            let counted = if bound < 0 {
                bound.saturating_add(length)
            } else {
                bound
            };
            counted.clamp(low, high)
        };
        let (mut at, end) = (bound(self.begin.as_int()?), bound(self.end.as_int()?));
        let mut picked = Vec::new();
        while if self.step > 0 { at < end } else { at > end } {
            picked.push(value.get(usize::try_from(at).ok()?)?.clone());
            at = at.saturating_add(self.step);
        }
        Some(picked)
    }
}

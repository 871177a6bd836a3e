//! Type rules of contractions and windows: matmul, convolutions, pools.

use irc_syntax::DType;

use super::infer::{Operand, Rule, Typed, label};
use crate::check::types::{TensorType, Type};
use crate::shape::Dim;

pub(super) fn matmul(rule: &mut Rule<'_>) -> Typed {
    let (a, b) = (rule.tensor("a")?, rule.tensor("b")?);
    let dtype = product_dtype(rule, &a, &b)?;
    let (Some(left), Some(right)) = (a.ty.ndim, b.ty.ndim) else {
        return Ok(Type::Tensor(TensorType {
            dtype,
            ..TensorType::default()
        }));
    };
    for (operand, rank) in [(&a, left), (&b, right)] {
        if rank == 0 {
            let message = format!(
                "`{}` needs at least one axis, and {} has none",
                rule.name(),
                operand.text
            );
            return Err(rule.fault("rank-mismatch", message, label(operand)));
        }
    }
    let batch_rank = left.max(right).saturating_sub(2);
    let ndim = Some(batch_rank + usize::from(left > 1) + usize::from(right > 1));
    let (Some(x), Some(y)) = (a.shape(), b.shape()) else {
        return Ok(Type::Tensor(TensorType {
            dtype,
            ndim,
            ..TensorType::default()
        }));
    };
    // The contracted axis is the last of the left side and the last but one of the right.
    let inner_right = if right > 1 {
        y.get(right - 2)
    } else {
        y.first()
    };
    if let (Some(inner_left), Some(inner_right)) = (x.last(), inner_right) {
        rule.same_dim(&a, inner_left, &b, inner_right)?;
    }
    let batch = |operand: &Operand, rank: usize| Operand {
        ty: TensorType {
            ndim: Some(rank.saturating_sub(2)),
            shape: operand
                .shape()
                .map(|dims| dims.iter().take(rank.saturating_sub(2)).cloned().collect()),
            ..TensorType::default()
        },
        ..operand.clone()
    };
    let (_, outer) = rule.broadcast(&[&batch(&a, left), &batch(&b, right)])?;
    let shape = outer.map(|mut dims| {
        if left > 1 {
            dims.extend(x.get(left - 2).cloned());
        }
        if right > 1 {
            dims.extend(y.last().cloned());
        }
        dims
    });
    Ok(Type::Tensor(TensorType {
        dtype,
        ndim,
        shape,
        value: None,
    }))
}

/// The axis that a letter of a layout names.
fn axis_of(layout: &str, letter: char) -> usize {
    layout
        .chars()
        .position(|other| other == letter)
        .unwrap_or(0)
}

/// The spatial letters in order.
fn spatial(rank: usize) -> &'static str {
    match rank {
        1 => "W",
        2 => "HW",
        _ => "DHW",
    }
}

fn dim_of(operand: &Operand, layout: &str, letter: char) -> Option<Dim> {
    operand.shape()?.get(axis_of(layout, letter)).cloned()
}

/// Extents of a result in the order of its layout; `None` when one is not known.
fn arrange(
    layout: &str,
    batch: Option<Dim>,
    channels: Option<Dim>,
    sizes: &[Option<Dim>],
) -> Option<Vec<Dim>> {
    let letters = spatial(sizes.len());
    let dim = |letter: char| match letter {
        'N' => batch.clone(),
        'C' => channels.clone(),
        _ => sizes
            .get(letters.chars().position(|other| other == letter)?)?
            .clone(),
    };
    layout.chars().map(dim).collect()
}

/// One spatial axis of a window attribute.
fn entry(values: &[i64], at: usize) -> Dim {
    Dim::int(values.get(at).copied().unwrap_or(0))
}

fn check_strides(rule: &Rule<'_>) -> Typed<()> {
    for slot in ["strides", "dilation"] {
        if let Some(bad) = rule.call.ints(slot).iter().find(|value| **value < 1) {
            let message = format!("`{slot}` of `{}` is positive, not {bad}", rule.name());
            return Err(rule.fault("bad-argument", message, "in this call"));
        }
    }
    Ok(())
}

/// How many windows fit: `(size + pads - dilation * (kernel - 1) - 1) // stride + 1`.
fn windows(
    rule: &Rule<'_>,
    x: &Operand,
    size: &Dim,
    kernel: &Dim,
    at: usize,
    ceil: bool,
) -> Typed<Dim> {
    let call = rule.call;
    let padding = call.ints("padding");
    let (begin, end) = (entry(padding, at), entry(padding, at + padding.len() / 2));
    let stride = entry(call.ints("strides"), at);
    let extent = entry(call.ints("dilation"), at) * (kernel - 1) + 1;
    let room = size + &begin + &end - extent;
    let room = if ceil { room + &stride - 1 } else { room };
    let count = room.floor_div(&stride) + 1;
    if count.as_int().is_some_and(|count| count < 0) {
        let message = format!(
            "the window of `{}` is larger than extent {size} of {} with its padding",
            rule.name(),
            x.text
        );
        return Err(rule.fault("dim-mismatch", message, label(x)));
    }
    Ok(count)
}

pub(super) fn pool(rule: &mut Rule<'_>, rank: usize) -> Typed {
    let x = rule.tensor("x")?;
    rule.need_rank(&x, rank + 2)?;
    check_strides(rule)?;
    let call = rule.call;
    let layout = call.str("layout");
    let mut sizes = Vec::with_capacity(rank);
    for (at, letter) in spatial(rank).chars().enumerate() {
        let kernel = entry(call.ints("pool_size"), at);
        let size = dim_of(&x, layout, letter);
        sizes.push(
            size.map(|size| windows(rule, &x, &size, &kernel, at, call.bool("ceil_mode")))
                .transpose()?,
        );
    }
    let shape = arrange(
        call.str("out_layout"),
        dim_of(&x, layout, 'N'),
        dim_of(&x, layout, 'C'),
        &sizes,
    );
    Ok(Type::Tensor(TensorType {
        dtype: x.ty.dtype,
        ndim: Some(rank + 2),
        shape,
        value: None,
    }))
}

pub(super) fn conv(rule: &mut Rule<'_>, rank: usize) -> Typed {
    let (x, weight) = operands(rule, rank)?;
    let call = rule.call;
    let (layout, kernel) = (call.str("data_layout"), call.str("kernel_layout"));
    let groups = Dim::int(call.int("groups"));
    if let (Some(channels), Some(inner)) = (dim_of(&x, layout, 'C'), dim_of(&weight, kernel, 'I')) {
        rule.same_dim(&x, &channels, &weight, &(inner * &groups))?;
    }
    let out = dim_of(&weight, kernel, 'O');
    if let Some(out) = &out
        && rule
            .scope
            .facts()
            .prove_eq(&out.floor_mod(&groups), &Dim::int(0))
            == Some(false)
    {
        let message = format!("{out} output channels do not divide into {groups} groups");
        return Err(rule.fault("dim-mismatch", message, label(&weight)));
    }
    let mut sizes = Vec::with_capacity(rank);
    for (at, letter) in spatial(rank).chars().enumerate() {
        let size = dim_of(&x, layout, letter).zip(dim_of(&weight, kernel, letter));
        sizes.push(
            size.map(|(size, kernel)| windows(rule, &x, &size, &kernel, at, false))
                .transpose()?,
        );
    }
    finish(
        rule,
        &x,
        &weight,
        rank,
        arrange(call.str("out_layout"), dim_of(&x, layout, 'N'), out, &sizes),
    )
}

pub(super) fn conv_transpose(rule: &mut Rule<'_>, rank: usize) -> Typed {
    let (x, weight) = operands(rule, rank)?;
    let call = rule.call;
    let (layout, kernel) = (call.str("data_layout"), call.str("kernel_layout"));
    if let (Some(channels), Some(inner)) = (dim_of(&x, layout, 'C'), dim_of(&weight, kernel, 'I')) {
        rule.same_dim(&x, &channels, &weight, &inner)?;
    }
    let out = dim_of(&weight, kernel, 'O').map(|out| out * call.int("groups"));
    let padding = call.ints("padding");
    let mut sizes = Vec::with_capacity(rank);
    for (at, letter) in spatial(rank).chars().enumerate() {
        let size = dim_of(&x, layout, letter).zip(dim_of(&weight, kernel, letter));
        sizes.push(size.map(|(size, kernel)| {
            // stride (size - 1) - pads + dilation (kernel - 1) + output padding + 1
            (size - 1) * entry(call.ints("strides"), at)
                - entry(padding, at)
                - entry(padding, at + rank)
                + entry(call.ints("dilation"), at) * (kernel - 1)
                + entry(call.ints("output_padding"), at)
                + 1
        }));
    }
    if let Some(bad) = sizes
        .iter()
        .flatten()
        .find(|size| size.as_int().is_some_and(|size| size < 0))
    {
        let message = format!(
            "`{}` of {} comes to an extent of {bad}",
            rule.name(),
            x.text
        );
        return Err(rule.fault("dim-mismatch", message, label(&x)));
    }
    finish(
        rule,
        &x,
        &weight,
        rank,
        arrange(call.str("out_layout"), dim_of(&x, layout, 'N'), out, &sizes),
    )
}

fn operands(rule: &mut Rule<'_>, rank: usize) -> Typed<(Operand, Operand)> {
    let (x, weight) = (rule.tensor("x")?, rule.tensor("weight")?);
    rule.need_rank(&x, rank + 2)?;
    rule.need_rank(&weight, rank + 2)?;
    check_strides(rule)?;
    if rule.call.int("groups") < 1 {
        let message = format!("`groups` of `{}` is positive", rule.name());
        return Err(rule.fault("bad-argument", message, "in this call"));
    }
    Ok((x, weight))
}

/// The dtype of sums of products. Integers of two dtypes may be multiplied where `out_dtype` says what the sums are.
fn product_dtype(rule: &Rule<'_>, a: &Operand, b: &Operand) -> Typed<Option<DType>> {
    let out = rule.call.opt_dtype("out_dtype");
    let is_int = |operand: &Operand| operand.ty.dtype.is_some_and(|dtype| dtype.is_int());
    if out.is_some_and(|dtype| dtype.is_int()) && is_int(a) && is_int(b) {
        return Ok(out);
    }
    let common = rule.common_dtype(&[a, b])?;
    Ok(out.or(common))
}

fn finish(
    rule: &Rule<'_>,
    x: &Operand,
    weight: &Operand,
    rank: usize,
    shape: Option<Vec<Dim>>,
) -> Typed {
    let dtype = product_dtype(rule, x, weight)?;
    Ok(Type::Tensor(TensorType {
        dtype,
        ndim: Some(rank + 2),
        shape,
        value: None,
    }))
}

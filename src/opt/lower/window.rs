//! Pooling: the maximum or the average over windows.

use irc_syntax::{BinaryOp, Diagnostic, Expr, Name};

use super::element::{element, guarded, t, zero};
use super::reduce::lowest;
use super::{Axis, Block, Lower, access, constant, operand};
use crate::check::prim::{BoundCall, Prim};
use crate::shape::Dim;

/// One spatial axis of a window.
struct Window {
    axis: usize,
    size: i64,
    stride: i64,
    dilation: i64,
    before: i64,
    after: i64,
}

/// Where each axis of the operand stands in the result.
fn places(call: &BoundCall) -> Vec<usize> {
    let (data, out) = (call.str("layout"), call.str("out_layout"));
    let letters = data.chars().enumerate();
    letters
        .map(|(axis, letter)| out.find(letter).unwrap_or(axis))
        .collect()
}

fn windows(call: &BoundCall, rank: usize) -> Vec<Window> {
    let n_spatial = rank - 2;
    let layout = call.str("layout").to_owned();
    let first = if layout.ends_with('C') { 1 } else { 2 };
    let list = |key: &str, fill: i64| {
        let mut values = call
            .opt_ints(key)
            .map_or_else(|| vec![fill], <[i64]>::to_vec);
        if values.len() == 1 {
            values.resize(n_spatial, values[0]);
        }
        values
    };
    let (sizes, strides, dilation) = (
        list("pool_size", 1),
        list("strides", 1),
        list("dilation", 1),
    );
    let padding = list("padding", 0);
    (0..n_spatial)
        .map(|axis| Window {
            axis: first + axis,
            size: sizes[axis],
            stride: strides[axis],
            dilation: dilation[axis],
            before: padding[axis],
            after: padding
                .get(axis + n_spatial)
                .copied()
                .unwrap_or(padding[axis]),
        })
        .collect()
}

/// `out[n, c, y] = max over k of x[n, c, y * s + k * d - p]`, or the sum, then divided by the number of
/// elements that count.
pub(super) fn materialize(
    lower: &mut Lower,
    name: &Name,
    prim: Prim,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    let x = operand(call, "x");
    let (dtype, extents) = lower.operand(&x)?;
    let (_, shape) = lower.tensor(name)?;
    let is_max = matches!(prim, Prim::MaxPool(_));
    let windows = windows(call, shape.len());
    let mut axes = Lower::axes(&shape);
    let to: Vec<Dim> = axes.iter().map(Axis::dim).collect();
    let places = places(call);
    // The result's place in the order of the operand.
    let at_data: Vec<Dim> = places.iter().map(|&place| to[place].clone()).collect();
    let mut from = at_data.clone();
    let mut inside: Vec<Expr> = Vec::new();
    for window in &windows {
        let reduce = Axis::reduce(format!("v_k{}", window.axis), Dim::int(window.size));
        let start = &(&at_data[window.axis] * &Dim::int(window.stride)) - &Dim::int(window.before);
        let at = &start + &(&reduce.dim() * &Dim::int(window.dilation));
        if window.before > 0 {
            inside.push(Expr::binary(BinaryOp::Le, Expr::int(0), at.to_expr()));
        }
        let reach = last_read(window, &shape[places[window.axis]]);
        let never_past = (&extents[window.axis] - &reach)
            .as_int()
            .is_some_and(|room| room > 0);
        if !never_past {
            inside.push(Expr::binary(
                BinaryOp::Lt,
                at.to_expr(),
                extents[window.axis].to_expr(),
            ));
        }
        from[window.axis] = at;
        axes.push(reduce);
    }
    let start = if is_max { lowest(dtype) } else { zero(dtype) };
    let start = constant(dtype, start);
    let mut block = Block::conditional();
    let value = element(lower, &mut block, &x, &from)?;
    let value = guarded(inside, value, start.clone());
    let target = if is_max {
        name.clone()
    } else {
        lower.names.fresh("pool_sum")
    };
    if !is_max {
        lower.alloc(&target, dtype, &shape);
    }
    let place = access(&target, &to);
    let next = if is_max {
        t("max", [place.clone(), value])
    } else {
        Expr::binary(BinaryOp::Add, place.clone(), value)
    };
    lower.push_reduction(&target, &axes, (place.clone(), start, next), block.stmts);
    if !is_max {
        let counted = windows
            .iter()
            .map(|window| count(call, window, &at_data, &extents))
            .product::<Dim>();
        let counted = t("Cast", [Expr::str(dtype.name()), counted.to_expr()]);
        let average = Expr::binary(BinaryOp::Div, place, counted);
        lower.push_store(
            name,
            &Lower::axes(&shape),
            access(name, &to),
            average,
            Vec::new(),
        );
    }
    Ok(())
}

/// The last index that a window reads, where all of its result's positions are counted.
fn last_read(window: &Window, positions: &Dim) -> Dim {
    let last = &(positions - &Dim::int(1)) * &Dim::int(window.stride);
    &last + &Dim::int((window.size - 1) * window.dilation - window.before)
}

/// How many elements of a window count along an axis: those inside the operand, or inside its padding too.
fn count(call: &BoundCall, window: &Window, at_data: &[Dim], extents: &[Dim]) -> Dim {
    let extent = &extents[window.axis];
    let start = &(&at_data[window.axis] * &Dim::int(window.stride)) - &Dim::int(window.before);
    let (lo, hi) = if call.bool("count_include_pad") {
        (Dim::int(-window.before), extent + &Dim::int(window.after))
    } else {
        (Dim::int(0), extent.clone())
    };
    let dilation = Dim::int(window.dilation);
    let end = Dim::min(&Dim::int(window.size), &(&hi - &start).ceil_div(&dilation));
    let begin = Dim::max(&Dim::int(0), &(&lo - &start).ceil_div(&dilation));
    &end - &begin
}

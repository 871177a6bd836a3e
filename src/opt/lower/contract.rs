//! Matrix products, convolutions and transposed convolutions as reduction blocks.

use irc_syntax::{BinaryOp, DType, Diagnostic, Expr, Name, Stmt};

use super::element::{broadcast_element, element, t, zero};
use super::{Axis, Block, Lower, access, constant, index, init};
use crate::check::prim::BoundCall;
use crate::shape::Dim;

/// `out[…] = 0; out[…] = out[…] + a * b`, operands cast to the result's dtype where they differ.
#[allow(clippy::too_many_arguments)]
fn push_products(
    lower: &mut Lower,
    name: &Name,
    axes: &[Axis],
    to: &[Dim],
    a: (Expr, DType),
    b: (Expr, DType),
    dtype: DType,
    mut body: Vec<Stmt>,
) {
    let widen = |(value, from): (Expr, DType)| {
        if from == dtype {
            value
        } else {
            t("Cast", [Expr::str(dtype.name()), value])
        }
    };
    let place = access(name, to);
    body.insert(
        0,
        init(Stmt::assign(place.clone(), constant(dtype, zero(dtype)))),
    );
    let product = Expr::binary(BinaryOp::Mul, widen(a), widen(b));
    body.push(Stmt::assign(
        place.clone(),
        Expr::binary(BinaryOp::Add, place, product),
    ));
    lower.push_block(name, axes, body);
}

/// `out[…, m, n] += a[…, m, k] * b[…, k, n]` by NumPy's rules: rank 1 operands lose their axis, batches broadcast.
pub(super) fn materialize_matmul(
    lower: &mut Lower,
    name: &Name,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    let args: Vec<Expr> = call.operands().into_iter().cloned().collect();
    let [a, b] = args.as_slice() else {
        return Err(operands(call));
    };
    let (dtype, shape) = lower.tensor(name)?;
    let (a_dtype, a_shape) = lower.operand(a)?;
    let (b_dtype, b_shape) = lower.operand(b)?;
    let depth = a_shape.last().cloned().unwrap_or_else(|| Dim::int(1));
    let mut axes = Lower::axes(&shape);
    let to: Vec<Dim> = axes.iter().map(Axis::dim).collect();
    let reduce = Axis::reduce("v_k", depth);
    let k = reduce.dim();
    axes.push(reduce);
    let has_row = a_shape.len() > 1;
    let has_column = b_shape.len() > 1;
    let n_batch = to.len() - usize::from(has_row) - usize::from(has_column);
    let batch = &to[..n_batch];
    let batch_shape = &shape[..n_batch];
    let mut block = Block::default();
    let a_batch = a_shape.len().saturating_sub(2);
    let mut a_idx = index::broadcast(&a_shape[..a_batch], batch, batch_shape);
    if has_row {
        a_idx.push(to[n_batch].clone());
    }
    a_idx.push(k.clone());
    let b_batch = b_shape.len().saturating_sub(2);
    let mut b_idx = index::broadcast(&b_shape[..b_batch], batch, batch_shape);
    b_idx.push(k);
    if has_column {
        b_idx.push(to[to.len() - 1].clone());
    }
    let a_value = element(lower, &mut block, a, &a_idx)?;
    let b_value = element(lower, &mut block, b, &b_idx)?;
    push_products(
        lower,
        name,
        &axes,
        &to,
        (a_value, a_dtype),
        (b_value, b_dtype),
        dtype,
        block.stmts,
    );
    Ok(())
}

fn operands(call: &BoundCall) -> Diagnostic {
    Diagnostic::error("not-lowered", "a contraction has two operands").at(call.span, "here")
}

/// A convolution's geometry, read off its attributes.
struct Geometry {
    /// Where `N`, `C` and the spatial axes stand in data and result.
    data: Vec<usize>,
    /// Where `O`, `I` and the spatial axes stand in the kernel.
    kernel: Vec<usize>,
    strides: Vec<i64>,
    dilation: Vec<i64>,
    /// Before and after, for each spatial axis.
    padding: Vec<(i64, i64)>,
    groups: i64,
}

const SPATIAL: [&str; 3] = ["W", "HW", "DHW"];

fn geometry(
    call: &BoundCall,
    n_spatial: usize,
    defaults: (&str, &str),
) -> Result<Geometry, Diagnostic> {
    let letters = SPATIAL[n_spatial - 1];
    let data = call.opt_str("data_layout").unwrap_or(defaults.0);
    let kernel = call.opt_str("kernel_layout").unwrap_or(defaults.1);
    let place = |layout: &str, wanted: String| -> Result<Vec<usize>, Diagnostic> {
        wanted
            .chars()
            .map(|letter| layout.find(letter))
            .collect::<Option<_>>()
            .filter(|_| layout.len() == wanted.len())
            .ok_or_else(|| {
                Diagnostic::error(
                    "not-lowered",
                    format!("layout `{layout}` where axes {wanted} are needed"),
                )
                .at(call.span, "of this convolution")
            })
    };
    let list = |key: &str, fill: i64| {
        call.opt_ints(key)
            .map_or_else(|| vec![fill; n_spatial], <[i64]>::to_vec)
    };
    let padding = list("padding", 0);
    let padding = (0..n_spatial)
        .map(|axis| match padding.as_slice() {
            [one] => (*one, *one),
            all if all.len() == n_spatial => (all[axis], all[axis]),
            all => (all[axis], all[axis + n_spatial]),
        })
        .collect();
    let spread = |mut values: Vec<i64>| {
        if values.len() == 1 {
            values.resize(n_spatial, values[0]);
        }
        values
    };
    Ok(Geometry {
        data: place(data, format!("NC{letters}"))?,
        kernel: place(kernel, format!("OI{letters}"))?,
        strides: spread(list("strides", 1)),
        dilation: spread(list("dilation", 1)),
        padding,
        groups: call.opt_int("groups").unwrap_or(1),
    })
}

/// The operand with zeros around it, as a kept block of its own; the operand itself without padding.
fn padded(
    lower: &mut Lower,
    x: &Expr,
    spatial: &[usize],
    padding: &[(i64, i64)],
) -> Result<(Expr, Vec<Dim>), Diagnostic> {
    let (dtype, mut shape) = lower.operand(x)?;
    if padding
        .iter()
        .all(|&(before, after)| before == 0 && after == 0)
    {
        return Ok((x.clone(), shape));
    }
    let extents = shape.clone();
    for (&axis, &(before, after)) in spatial.iter().zip(padding) {
        shape[axis] = &shape[axis] + &Dim::int(before + after);
    }
    let name = lower.names.fresh("pad_temp");
    lower.alloc(&name, dtype, &shape);
    let axes = Lower::axes(&shape);
    let idx: Vec<Dim> = axes.iter().map(Axis::dim).collect();
    let mut from = idx.clone();
    let mut inside: Vec<Expr> = Vec::new();
    for (&axis, &(before, after)) in spatial.iter().zip(padding) {
        from[axis] = &idx[axis] - &Dim::int(before);
        if before > 0 {
            inside.push(Expr::binary(
                BinaryOp::Le,
                Expr::int(before),
                idx[axis].to_expr(),
            ));
        }
        if after > 0 {
            let end = &extents[axis] + &Dim::int(before);
            inside.push(Expr::binary(
                BinaryOp::Lt,
                idx[axis].to_expr(),
                end.to_expr(),
            ));
        }
    }
    let mut block = Block {
        conditional: 1,
        ..Block::default()
    };
    let mut value = element(lower, &mut block, x, &from)?;
    if let Some(cond) = inside
        .into_iter()
        .reduce(|a, b| Expr::binary(BinaryOp::And, a, b))
    {
        value = t("if_then_else", [cond, value, constant(dtype, zero(dtype))]);
    }
    let mut body = block.stmts;
    body.push(Stmt::assign(access(&name, &idx), value));
    lower.push_block(&name, &axes, body);
    lower.kept.insert(name.clone(), name.clone());
    Ok((Expr::name(name), shape))
}

/// `out[n, f, y] += pad[n, g * (C / G) + c, y * s + ky * d] * w[f, c, ky]` in any layout.
pub(super) fn materialize_conv(
    lower: &mut Lower,
    name: &Name,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    let args: Vec<Expr> = call.operands().into_iter().cloned().collect();
    let [x, w] = args.as_slice() else {
        return Err(operands(call));
    };
    let (dtype, shape) = lower.tensor(name)?;
    let n_spatial = shape.len() - 2;
    let letters = SPATIAL[n_spatial - 1];
    let at = geometry(
        call,
        n_spatial,
        (&format!("NC{letters}"), &format!("OI{letters}")),
    )?;
    let (x_dtype, _) = lower.operand(x)?;
    let (w_dtype, w_shape) = lower.operand(w)?;
    let (x, _) = padded(lower, x, &at.data[2..], &at.padding)?;
    let mut axes = Lower::axes(&shape);
    let to: Vec<Dim> = axes.iter().map(Axis::dim).collect();
    let depth = w_shape[at.kernel[1]].clone();
    let mut from = vec![Dim::int(0); shape.len()];
    let mut tap = vec![Dim::int(0); shape.len()];
    from[at.data[0]] = to[at.data[0]].clone();
    let filter = &to[at.data[1]];
    tap[at.kernel[0]] = filter.clone();
    let mut taps = Vec::new();
    for axis in 0..n_spatial {
        let letter = letters[axis..=axis].to_lowercase();
        let extent = w_shape[at.kernel[axis + 2]].clone();
        let reduce =
            (extent.as_int() != Some(1)).then(|| Axis::reduce(format!("v_k{letter}"), extent));
        let k = reduce.as_ref().map_or_else(|| Dim::int(0), Axis::dim);
        taps.extend(reduce);
        let place = &to[at.data[axis + 2]] * &Dim::int(at.strides[axis]);
        from[at.data[axis + 2]] = &place + &(&k * &Dim::int(at.dilation[axis]));
        tap[at.kernel[axis + 2]] = k;
    }
    axes.extend(taps);
    let channel = if depth.as_int() == Some(1) && at.groups > 1 {
        Dim::int(0)
    } else {
        let reduce = Axis::reduce("v_kc", depth.clone());
        let k = reduce.dim();
        axes.push(reduce);
        k
    };
    tap[at.kernel[1]] = channel.clone();
    from[at.data[1]] = if at.groups == 1 {
        channel
    } else {
        let per_group = shape[at.data[1]].floor_div(&Dim::int(at.groups));
        &(&filter.floor_div(&per_group) * &depth) + &channel
    };
    let mut block = Block::default();
    let x_value = element(lower, &mut block, &x, &from)?;
    let w_value = element(lower, &mut block, w, &tap)?;
    push_products(
        lower,
        name,
        &axes,
        &to,
        (x_value, x_dtype),
        (w_value, w_dtype),
        dtype,
        block.stmts,
    );
    Ok(())
}

/// `out[n, f, y] += x[n, g * (C / G) + c, (y + p - ky * d) / s] * w[c, f, ky]` where the division is exact and inside.
pub(super) fn materialize_conv_transpose(
    lower: &mut Lower,
    name: &Name,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    let args: Vec<Expr> = call.operands().into_iter().cloned().collect();
    let [x, w] = args.as_slice() else {
        return Err(operands(call));
    };
    let (dtype, shape) = lower.tensor(name)?;
    let n_spatial = shape.len() - 2;
    let letters = SPATIAL[n_spatial - 1];
    // The kernel's `I` is the channel of the data, its `O` the result's channel within a group.
    let at = geometry(
        call,
        n_spatial,
        (&format!("NC{letters}"), &format!("IO{letters}")),
    )?;
    let (x_dtype, x_shape) = lower.operand(x)?;
    let (w_dtype, w_shape) = lower.operand(w)?;
    let mut axes = Lower::axes(&shape);
    let to: Vec<Dim> = axes.iter().map(Axis::dim).collect();
    let mut from = vec![Dim::int(0); shape.len()];
    let mut tap = vec![Dim::int(0); shape.len()];
    from[at.data[0]] = to[at.data[0]].clone();
    let mut conds = Vec::new();
    for axis in 0..n_spatial {
        let letter = letters[axis..=axis].to_lowercase();
        let reduce = Axis::reduce(format!("v_k{letter}"), w_shape[at.kernel[axis + 2]].clone());
        let k = reduce.dim();
        axes.push(reduce);
        let reach = &k * &Dim::int(at.dilation[axis]);
        let place = &(&to[at.data[axis + 2]] + &Dim::int(at.padding[axis].0)) - &reach;
        let stride = Dim::int(at.strides[axis]);
        let source = place.floor_div(&stride);
        if at.strides[axis] != 1 {
            conds.push(Expr::binary(
                BinaryOp::Eq,
                place.floor_mod(&stride).to_expr(),
                Expr::int(0),
            ));
        }
        conds.push(Expr::binary(BinaryOp::Le, Expr::int(0), place.to_expr()));
        let extent = &x_shape[at.data[axis + 2]];
        conds.push(Expr::binary(
            BinaryOp::Lt,
            source.to_expr(),
            extent.to_expr(),
        ));
        from[at.data[axis + 2]] = source;
        tap[at.kernel[axis + 2]] = k;
    }
    let groups = Dim::int(at.groups);
    let depth = x_shape[at.data[1]].floor_div(&groups);
    let reduce = Axis::reduce("v_kc", depth.clone());
    let k = reduce.dim();
    axes.push(reduce);
    let filter = &to[at.data[1]];
    let per_group = shape[at.data[1]].floor_div(&groups);
    let group = if at.groups == 1 {
        Dim::int(0)
    } else {
        filter.floor_div(&per_group)
    };
    let channel = &(&group * &depth) + &k;
    from[at.data[1]] = channel.clone();
    tap[at.kernel[1]] = channel;
    tap[at.kernel[0]] = filter - &(&group * &per_group);
    let mut block = Block {
        conditional: 1,
        ..Block::default()
    };
    let x_value = element(lower, &mut block, x, &from)?;
    let w_value = broadcast_element(lower, &mut block, w, &tap, &w_shape)?;
    let x_value = match conds
        .into_iter()
        .reduce(|a, b| Expr::binary(BinaryOp::And, a, b))
    {
        Some(cond) => t(
            "if_then_else",
            [cond, x_value, constant(x_dtype, zero(x_dtype))],
        ),
        None => x_value,
    };
    push_products(
        lower,
        name,
        &axes,
        &to,
        (x_value, x_dtype),
        (w_value, w_dtype),
        dtype,
        block.stmts,
    );
    Ok(())
}

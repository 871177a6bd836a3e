//! Matrix products, convolutions and transposed convolutions as reduction blocks.

use irc_syntax::{BinaryOp, DType, Diagnostic, Expr, Name, Stmt};

use super::element::{broadcast_element, element, guarded, t, zero};
use super::{Axis, Block, Lower, access, constant, index};
use crate::check::prim::BoundCall;
use crate::shape::Dim;

/// A sum of products under construction: `out[…] = 0; out[…] = out[…] + a * b`.
struct Products<'n> {
    name: &'n Name,
    dtype: DType,
    shape: Vec<Dim>,
    /// The axes of the result, then those of the reduction.
    axes: Vec<Axis>,
    /// The index of the result.
    to: Vec<Dim>,
    a: Expr,
    b: Expr,
}

impl<'n> Products<'n> {
    fn new(lower: &Lower, name: &'n Name, call: &BoundCall) -> Result<Self, Diagnostic> {
        let (dtype, shape) = lower.tensor(name)?;
        let [a, b] = call.operands()[..] else {
            return Err(
                Diagnostic::error("not-lowered", "a contraction has two operands")
                    .at(call.span, "here"),
            );
        };
        let axes = Lower::axes(&shape);
        Ok(Self {
            name,
            dtype,
            to: axes.iter().map(Axis::dim).collect(),
            shape,
            axes,
            a: a.clone(),
            b: b.clone(),
        })
    }

    /// A further axis of the reduction; gives the index along it.
    fn reduce(&mut self, var: impl Into<String>, extent: Dim) -> Dim {
        let axis = Axis::reduce(var, extent);
        let at = axis.dim();
        self.axes.push(axis);
        at
    }

    /// Adds the product of two elements; operands are cast to the result's dtype where they differ.
    fn finish(
        self,
        lower: &mut Lower,
        body: Vec<Stmt>,
        (a, b): (Expr, Expr),
    ) -> Result<(), Diagnostic> {
        let dtype = self.dtype;
        let widen = |value: Expr, from: DType| {
            if from == dtype {
                value
            } else {
                t("Cast", [Expr::str(dtype.name()), value])
            }
        };
        let a = widen(a, lower.operand(&self.a)?.0);
        let b = widen(b, lower.operand(&self.b)?.0);
        let place = access(self.name, &self.to);
        let next = Expr::binary(
            BinaryOp::Add,
            place.clone(),
            Expr::binary(BinaryOp::Mul, a, b),
        );
        let start = constant(dtype, zero(dtype));
        lower.push_reduction(self.name, &self.axes, (place, start, next), body);
        Ok(())
    }
}

/// `out[…, m, n] += a[…, m, k] * b[…, k, n]` by NumPy's rules: rank 1 operands lose their axis, batches broadcast.
pub(super) fn materialize_matmul(
    lower: &mut Lower,
    name: &Name,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    let mut products = Products::new(lower, name, call)?;
    let (_, a_shape) = lower.operand(&products.a)?;
    let (_, b_shape) = lower.operand(&products.b)?;
    let depth = a_shape.last().cloned().unwrap_or_else(|| Dim::int(1));
    let k = products.reduce("v_k", depth);
    let to = &products.to;
    let has_row = a_shape.len() > 1;
    let has_column = b_shape.len() > 1;
    let n_batch = to.len() - usize::from(has_row) - usize::from(has_column);
    let batch = &to[..n_batch];
    let batch_shape = &products.shape[..n_batch];
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
    let mut block = Block::default();
    let a = element(lower, &mut block, &products.a, &a_idx)?;
    let b = element(lower, &mut block, &products.b, &b_idx)?;
    products.finish(lower, block.stmts, (a, b))
}

/// A convolution's geometry, read off its attributes.
struct Geometry {
    /// Where `N`, `C` and the spatial axes stand in the data.
    data: Vec<usize>,
    /// The same of the result.
    out: Vec<usize>,
    /// Where `O`, `I` and the spatial axes stand in the kernel.
    kernel: Vec<usize>,
    /// The variables that walk the kernel's spatial axes.
    taps: Vec<String>,
    strides: Vec<i64>,
    dilation: Vec<i64>,
    /// Before and after, for each spatial axis.
    padding: Vec<(i64, i64)>,
    groups: i64,
}

/// Weights of a convolution that stay in the cache nearest to the core.
const LIGHT: i64 = 8 * 1024;

const SPATIAL: [&str; 3] = ["W", "HW", "DHW"];

/// The geometry of a call. `channels` is how the kernel's default layout begins: `OI`, or `IO` when transposed.
fn geometry(call: &BoundCall, n_spatial: usize, channels: &str) -> Result<Geometry, Diagnostic> {
    let letters = SPATIAL[n_spatial - 1];
    let place = |key: &str, default: String, wanted: String| -> Result<Vec<usize>, Diagnostic> {
        let layout = call.opt_str(key).unwrap_or(&default);
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
        data: place(
            "data_layout",
            format!("NC{letters}"),
            format!("NC{letters}"),
        )?,
        out: place(
            "out_layout",
            call.opt_str("data_layout")
                .map_or_else(|| format!("NC{letters}"), str::to_owned),
            format!("NC{letters}"),
        )?,
        kernel: place(
            "kernel_layout",
            format!("{channels}{letters}"),
            format!("OI{letters}"),
        )?,
        taps: letters
            .chars()
            .map(|letter| format!("v_k{}", letter.to_ascii_lowercase()))
            .collect(),
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
    let mut block = Block::conditional();
    let value = element(lower, &mut block, x, &from)?;
    let value = guarded(inside, value, constant(dtype, zero(dtype)));
    lower.push_store(&name, &axes, access(&name, &idx), value, block.stmts);
    lower.kept.insert(name.clone(), name.clone());
    Ok((Expr::name(name), shape))
}

/// `out[n, f, y] += pad[n, g * (C / G) + c, y * s + ky * d] * w[f, c, ky]` in any layout.
pub(super) fn materialize_conv(
    lower: &mut Lower,
    name: &Name,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    let mut products = Products::new(lower, name, call)?;
    let rank = products.shape.len();
    let at = geometry(call, rank - 2, "OI")?;
    let (_, w_shape) = lower.operand(&products.b)?;
    // Few weights serve edges with fewer taps as well as the inside; many had better serve all rows alike.
    let is_apart = at.groups > 1 && w_shape[at.kernel[1]].as_int() == Some(1);
    let size = w_shape.iter().product::<Dim>().as_int();
    let is_light = at.out[1] == rank - 1
        && products.dtype == DType::F32
        && (is_apart || size.is_some_and(|size| size <= LIGHT));
    let (source, source_shape) = (products.a.clone(), lower.operand(&products.a)?.1);
    let (x, before) = match is_light {
        true => (source, at.padding.clone()),
        false => {
            let (x, _) = padded(lower, &source, &at.data[2..], &at.padding)?;
            (x, vec![(0, 0); rank - 2])
        }
    };
    let mut inside = Vec::new();
    let mut from = vec![Dim::int(0); rank];
    let mut tap = vec![Dim::int(0); rank];
    from[at.data[0]] = products.to[at.out[0]].clone();
    let filter = products.to[at.out[1]].clone();
    for (axis, var) in at.taps.iter().enumerate() {
        let extent = w_shape[at.kernel[axis + 2]].clone();
        let k = match extent.as_int() {
            Some(1) => Dim::int(0),
            _ => products.reduce(var, extent),
        };
        let place = &products.to[at.out[axis + 2]] * &Dim::int(at.strides[axis]);
        let (first, last) = before[axis];
        let read = &(&place + &(&k * &Dim::int(at.dilation[axis]))) - &Dim::int(first);
        if first > 0 {
            inside.push(Expr::binary(BinaryOp::Le, Expr::int(0), read.to_expr()));
        }
        if last > 0 {
            let extent = source_shape[at.data[axis + 2]].to_expr();
            inside.push(Expr::binary(BinaryOp::Lt, read.to_expr(), extent));
        }
        from[at.data[axis + 2]] = read;
        tap[at.kernel[axis + 2]] = k;
    }
    let depth = w_shape[at.kernel[1]].clone();
    let channel = if depth.as_int() == Some(1) && at.groups > 1 {
        Dim::int(0)
    } else {
        products.reduce("v_kc", depth.clone())
    };
    from[at.data[1]] = if at.groups == 1 {
        channel.clone()
    } else {
        let per_group = products.shape[at.out[1]].floor_div(&Dim::int(at.groups));
        &(&filter.floor_div(&per_group) * &depth) + &channel
    };
    tap[at.kernel[0]] = filter;
    tap[at.kernel[1]] = channel;
    let mut block = match inside.is_empty() {
        true => Block::default(),
        false => Block::conditional(),
    };
    let x = element(lower, &mut block, &x, &from)?;
    let x = guarded(inside, x, constant(products.dtype, zero(products.dtype)));
    let w = element(lower, &mut block, &products.b, &tap)?;
    products.finish(lower, block.stmts, (x, w))
}

/// `out[n, f, y] += x[n, g * (C / G) + c, (y + p - ky * d) / s] * w[c, f, ky]` where the division is exact and inside.
pub(super) fn materialize_conv_transpose(
    lower: &mut Lower,
    name: &Name,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    let mut products = Products::new(lower, name, call)?;
    let rank = products.shape.len();
    // The kernel's `I` is the channel of the data, its `O` the result's channel within a group.
    let at = geometry(call, rank - 2, "IO")?;
    let (x_dtype, x_shape) = lower.operand(&products.a)?;
    let (_, w_shape) = lower.operand(&products.b)?;
    let mut from = vec![Dim::int(0); rank];
    let mut tap = vec![Dim::int(0); rank];
    from[at.data[0]] = products.to[at.out[0]].clone();
    let filter = products.to[at.out[1]].clone();
    let mut conds = Vec::new();
    for (axis, var) in at.taps.iter().enumerate() {
        let k = products.reduce(var, w_shape[at.kernel[axis + 2]].clone());
        let reach = &k * &Dim::int(at.dilation[axis]);
        let padded = &products.to[at.out[axis + 2]] + &Dim::int(at.padding[axis].0);
        let place = &padded - &reach;
        let stride = Dim::int(at.strides[axis]);
        let source = place.floor_div(&stride);
        if at.strides[axis] != 1 {
            let rest = place.floor_mod(&stride);
            conds.push(Expr::binary(BinaryOp::Eq, rest.to_expr(), Expr::int(0)));
        }
        conds.push(Expr::binary(BinaryOp::Le, Expr::int(0), place.to_expr()));
        let extent = x_shape[at.data[axis + 2]].to_expr();
        conds.push(Expr::binary(BinaryOp::Lt, source.to_expr(), extent));
        from[at.data[axis + 2]] = source;
        tap[at.kernel[axis + 2]] = k;
    }
    let groups = Dim::int(at.groups);
    let depth = x_shape[at.data[1]].floor_div(&groups);
    let k = products.reduce("v_kc", depth.clone());
    let per_group = products.shape[at.out[1]].floor_div(&groups);
    let group = if at.groups == 1 {
        Dim::int(0)
    } else {
        filter.floor_div(&per_group)
    };
    let channel = &(&group * &depth) + &k;
    from[at.data[1]] = channel.clone();
    tap[at.kernel[1]] = channel;
    tap[at.kernel[0]] = &filter - &(&group * &per_group);
    let mut block = Block::conditional();
    let x = element(lower, &mut block, &products.a, &from)?;
    let w = broadcast_element(lower, &mut block, &products.b, &tap, &w_shape)?;
    let x = guarded(conds, x, constant(x_dtype, zero(x_dtype)));
    products.finish(lower, block.stmts, (x, w))
}

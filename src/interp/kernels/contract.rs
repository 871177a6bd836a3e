//! Contractions: matrix products and convolutions. Each result accumulates over the contracted axes in row-major order.

use irc_syntax::DType;

use super::element::pack;
use super::layout::permute_dims;
use super::num::Num;
use super::walk::{broadcast_shapes, broadcast_strides, walk_runs};
use super::{Done, Nums, checked_count};
use crate::interp::RunError;
use crate::tensor::Tensor;

/// Calls a function of two slices with the numbers of two tensors, in the class of a dtype.
macro_rules! with_pair {
    ($a:expr, $b:expr, $dtype:expr, |$x:ident, $y:ident| $body:expr) => {
        match (Nums::load_as($a, $dtype)?, Nums::load_as($b, $dtype)?) {
            (Nums::F32($x), Nums::F32($y)) => $body,
            (Nums::F64($x), Nums::F64($y)) => $body,
            (Nums::I64($x), Nums::I64($y)) => $body,
            (Nums::U64($x), Nums::U64($y)) => $body,
            _ => Err(RunError::type_error("operands of two classes")),
        }
    };
}

/// numpy's `matmul`.
pub(in crate::interp) fn matmul(a: &Tensor, b: &Tensor, dtype: DType) -> Done {
    let fault = || {
        RunError::value_error(format!(
            "a matrix product of shapes {:?} and {:?}",
            a.shape, b.shape
        ))
    };
    let (a_rank, b_rank) = (a.shape.len(), b.shape.len());
    if a_rank == 0 || b_rank == 0 {
        return Err(fault());
    }
    let (a_batch, rows, depth) = match a_rank {
        1 => (&a.shape[..0], 1, a.shape[0]),
        _ => (
            &a.shape[..a_rank - 2],
            a.shape[a_rank - 2],
            a.shape[a_rank - 1],
        ),
    };
    let (b_batch, b_depth, columns) = match b_rank {
        1 => (&b.shape[..0], b.shape[0], 1),
        _ => (
            &b.shape[..b_rank - 2],
            b.shape[b_rank - 2],
            b.shape[b_rank - 1],
        ),
    };
    let batch = broadcast_shapes(a_batch, b_batch).ok_or_else(fault)?;
    if depth != b_depth {
        return Err(fault());
    }
    let mut shape = batch.clone();
    if a_rank > 1 {
        shape.push(rows);
    }
    if b_rank > 1 {
        shape.push(columns);
    }
    let len = checked_count(&shape, dtype)?;
    let a_strides = broadcast_strides(a_batch, &batch).ok_or_else(fault)?;
    let b_strides = broadcast_strides(b_batch, &batch).ok_or_else(fault)?;
    with_pair!(a, b, dtype, |left, right| {
        let mut res = vec![Num::ZERO; len];
        let mut at = 0;
        walk_runs(
            &batch,
            [&a_strides, &b_strides],
            [0, 0],
            |[mut x, mut y], count, steps| {
                for _ in 0..count {
                    let product = &mut res[at..at + rows * columns];
                    let (x_at, y_at) = (x as usize * rows * depth, y as usize * depth * columns);
                    multiply(
                        &left[x_at..x_at + rows * depth],
                        &right[y_at..y_at + depth * columns],
                        product,
                        (rows, depth, columns),
                    );
                    at += rows * columns;
                    x += steps[0];
                    y += steps[1];
                }
            },
        );
        pack(dtype, shape, &res)
    })
}

fn multiply<T: Num>(
    a: &[T],
    b: &[T],
    product: &mut [T],
    (rows, depth, columns): (usize, usize, usize),
) {
    for row in 0..rows {
        let sums = &mut product[row * columns..(row + 1) * columns];
        for k in 0..depth {
            let factor = a[row * depth + k];
            for (sum, &value) in sums.iter_mut().zip(&b[k * columns..(k + 1) * columns]) {
                *sum = sum.add(factor.mul(value));
            }
        }
    }
}

/// The attributes of a convolution: one entry a spatial axis; `padding` has begins, then ends.
#[derive(Clone, Debug)]
pub(in crate::interp) struct Conv<'a> {
    pub(in crate::interp) strides: &'a [i64],
    pub(in crate::interp) padding: &'a [i64],
    pub(in crate::interp) dilation: &'a [i64],
    /// Only of a transposed convolution; empty otherwise.
    pub(in crate::interp) output_padding: &'a [i64],
    pub(in crate::interp) groups: i64,
    pub(in crate::interp) data_layout: &'a str,
    pub(in crate::interp) kernel_layout: &'a str,
    pub(in crate::interp) out_layout: &'a str,
    pub(in crate::interp) dtype: DType,
}

/// The tensor with its axes in another order of the same letters.
pub(super) fn to_layout(x: &Tensor, from: &str, to: &str) -> Done {
    if from == to {
        return Ok(x.clone());
    }
    let axes: Option<Vec<i64>> = to
        .chars()
        .map(|letter| from.find(letter).map(|axis| axis as i64))
        .collect();
    let axes = axes.ok_or_else(|| RunError::value_error(format!("layout {from} as {to}")))?;
    permute_dims(x, Some(&axes))
}

/// The letters of the spatial axes.
pub(super) fn spatial_letters(rank: usize) -> &'static str {
    match rank {
        1 => "W",
        2 => "HW",
        _ => "DHW",
    }
}

/// Three spatial extents (or attributes) of which the leading ones are `fill` for lower ranks.
fn three(values: &[i64], fill: i64) -> [i64; 3] {
    let mut res = [fill; 3];
    let missing = 3usize.saturating_sub(values.len());
    res[missing..].copy_from_slice(&values[values.len().saturating_sub(3)..]);
    res
}

/// Everything about a convolution in three spatial axes.
struct Geometry {
    batch: usize,
    groups: usize,
    /// Channels of a group, of the data and of the result.
    channels: usize,
    outs: usize,
    size: [i64; 3],
    kernel: [i64; 3],
    out: [i64; 3],
    stride: [i64; 3],
    dilation: [i64; 3],
    begin: [i64; 3],
}

fn volume(extents: [i64; 3]) -> usize {
    extents.iter().product::<i64>() as usize
}

fn extents(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&extent| extent as i64).collect()
}

/// A convolution of data and weights in any layout.
pub(in crate::interp) fn conv(x: &Tensor, weight: &Tensor, attrs: &Conv) -> Done {
    let rank = attrs.strides.len();
    let letters = spatial_letters(rank);
    let (data, kernel) = (format!("NC{letters}"), format!("OI{letters}"));
    let x = to_layout(x, attrs.data_layout, &data)?;
    let weight = to_layout(weight, attrs.kernel_layout, &kernel)?;
    let mut geometry = geometry(&x, &weight, attrs)?;
    let fits = weight.shape[1] == geometry.channels && weight.shape[0] % geometry.groups == 0;
    if !fits {
        return Err(weight_fault(&x, &weight));
    }
    geometry.outs = weight.shape[0] / geometry.groups;
    let end = three(&attrs.padding[rank..], 0);
    for (at, end) in end.iter().enumerate().take(3) {
        let reach = geometry.dilation[at] * (geometry.kernel[at] - 1) + 1;
        let room = geometry.size[at] + geometry.begin[at] + end - reach;
        geometry.out[at] = (room.div_euclid(geometry.stride[at]) + 1).max(0);
    }
    let shape = result_shape(&geometry, rank);
    let len = checked_count(&shape, attrs.dtype)?;
    let res = with_pair!(&x, &weight, attrs.dtype, |data, taps| {
        let mut res = vec![Num::ZERO; len];
        convolve(&geometry, &data, &taps, &mut res);
        pack(attrs.dtype, shape, &res)
    })?;
    to_layout(&res, &format!("NC{letters}"), attrs.out_layout)
}

fn weight_fault(x: &Tensor, weight: &Tensor) -> RunError {
    RunError::value_error(format!(
        "a convolution of data of shape {:?} with weights of shape {:?}",
        x.shape, weight.shape
    ))
}

fn geometry(x: &Tensor, weight: &Tensor, attrs: &Conv) -> Done<Geometry> {
    let rank = attrs.strides.len();
    let groups = usize::try_from(attrs.groups).unwrap_or_default();
    let fits = x.shape.len() == rank + 2
        && weight.shape.len() == rank + 2
        && attrs.padding.len() == 2 * rank
        && attrs.dilation.len() == rank
        && attrs
            .strides
            .iter()
            .chain(attrs.dilation)
            .all(|&value| value > 0)
        && groups > 0
        && x.shape[1].is_multiple_of(groups);
    if !fits {
        return Err(weight_fault(x, weight));
    }
    Ok(Geometry {
        batch: x.shape[0],
        groups,
        channels: x.shape[1] / groups,
        outs: 0,
        size: three(&extents(&x.shape[2..]), 1),
        kernel: three(&extents(&weight.shape[2..]), 1),
        out: [1; 3],
        stride: three(attrs.strides, 1),
        dilation: three(attrs.dilation, 1),
        begin: three(&attrs.padding[..rank], 0),
    })
}

fn result_shape(geometry: &Geometry, rank: usize) -> Vec<usize> {
    let mut shape = vec![geometry.batch, geometry.groups * geometry.outs];
    shape.extend(
        geometry.out[3 - rank..]
            .iter()
            .map(|&extent| extent as usize),
    );
    shape
}

/// The positions `at` of `0..count` for which `at * stride + offset` lies in `0..limit`.
fn valid(count: i64, stride: i64, offset: i64, limit: i64) -> std::ops::Range<i64> {
    // The first position that is not negative, and the first that is too large.
    let lo = (-offset + stride - 1).div_euclid(stride).max(0);
    let hi = (limit - offset + stride - 1)
        .div_euclid(stride)
        .clamp(0, count.max(0));
    lo.min(hi)..hi
}

fn convolve<T: Num>(g: &Geometry, data: &[T], taps: &[T], res: &mut [T]) {
    let (plane, window, out_plane) = (volume(g.size), volume(g.kernel), volume(g.out));
    for n in 0..g.batch {
        for out in 0..g.groups * g.outs {
            let group = out / g.outs.max(1);
            let image = &mut res[(n * g.groups * g.outs + out) * out_plane..][..out_plane];
            for c in 0..g.channels {
                let from =
                    &data[(n * g.groups * g.channels + group * g.channels + c) * plane..][..plane];
                let weights = &taps[(out * g.channels + c) * window..][..window];
                for_each_tap(g.kernel, |tap, [z, y, x]| {
                    add_tap(g, [z, y, x], weights[tap], from, image);
                });
            }
        }
    }
}

fn for_each_tap(kernel: [i64; 3], mut f: impl FnMut(usize, [i64; 3])) {
    let mut tap = 0;
    for z in 0..kernel[0] {
        for y in 0..kernel[1] {
            for x in 0..kernel[2] {
                f(tap, [z, y, x]);
                tap += 1;
            }
        }
    }
}

/// Adds what one tap contributes to one image of the result.
fn add_tap<T: Num>(g: &Geometry, tap: [i64; 3], weight: T, from: &[T], image: &mut [T]) {
    let offset: [i64; 3] = std::array::from_fn(|at| tap[at] * g.dilation[at] - g.begin[at]);
    let columns = valid(g.out[2], g.stride[2], offset[2], g.size[2]);
    for z in valid(g.out[0], g.stride[0], offset[0], g.size[0]) {
        for y in valid(g.out[1], g.stride[1], offset[1], g.size[1]) {
            let row = (z * g.stride[0] + offset[0]) * g.size[1] + y * g.stride[1] + offset[1];
            let sums = &mut image[((z * g.out[1] + y) * g.out[2]) as usize..][..g.out[2] as usize];
            for x in columns.clone() {
                let value = from[(row * g.size[2] + x * g.stride[2] + offset[2]) as usize];
                let sum = &mut sums[x as usize];
                *sum = sum.add(weight.mul(value));
            }
        }
    }
}

/// A transposed convolution: every element of the data adds a scaled kernel to the result.
pub(in crate::interp) fn conv_transpose(x: &Tensor, weight: &Tensor, attrs: &Conv) -> Done {
    let rank = attrs.strides.len();
    let letters = spatial_letters(rank);
    let (data, kernel) = (format!("NC{letters}"), format!("IO{letters}"));
    let x = to_layout(x, attrs.data_layout, &data)?;
    let weight = to_layout(weight, attrs.kernel_layout, &kernel)?;
    let mut geometry = geometry(&x, &weight, attrs)?;
    if weight.shape[0] != x.shape[1] {
        return Err(weight_fault(&x, &weight));
    }
    geometry.outs = weight.shape[1];
    let end = three(&attrs.padding[rank..], 0);
    let more = three(attrs.output_padding, 0);
    for at in 0..3 {
        let reach = geometry.dilation[at] * (geometry.kernel[at] - 1) + 1;
        let spread = (geometry.size[at] - 1) * geometry.stride[at] + reach;
        geometry.out[at] = (spread - geometry.begin[at] - end[at] + more[at]).max(0);
    }
    let shape = result_shape(&geometry, rank);
    let len = checked_count(&shape, attrs.dtype)?;
    let res = with_pair!(&x, &weight, attrs.dtype, |data, taps| {
        let mut res = vec![Num::ZERO; len];
        spread(&geometry, &data, &taps, &mut res);
        pack(attrs.dtype, shape, &res)
    })?;
    to_layout(&res, &format!("NC{letters}"), attrs.out_layout)
}

fn spread<T: Num>(g: &Geometry, data: &[T], taps: &[T], res: &mut [T]) {
    let (plane, window, out_plane) = (volume(g.size), volume(g.kernel), volume(g.out));
    for n in 0..g.batch {
        for out in 0..g.groups * g.outs {
            let (group, out_of_group) = (out / g.outs.max(1), out % g.outs.max(1));
            let image = &mut res[(n * g.groups * g.outs + out) * out_plane..][..out_plane];
            for c in 0..g.channels {
                let channel = group * g.channels + c;
                let from = &data[(n * g.groups * g.channels + channel) * plane..][..plane];
                let weights = &taps[(channel * g.outs + out_of_group) * window..][..window];
                for_each_tap(g.kernel, |tap, at| {
                    spread_tap(g, at, weights[tap], from, image)
                });
            }
        }
    }
}

fn spread_tap<T: Num>(g: &Geometry, tap: [i64; 3], weight: T, from: &[T], image: &mut [T]) {
    let offset: [i64; 3] = std::array::from_fn(|at| tap[at] * g.dilation[at] - g.begin[at]);
    for z in valid(g.size[0], g.stride[0], offset[0], g.out[0]) {
        for y in valid(g.size[1], g.stride[1], offset[1], g.out[1]) {
            let row = (z * g.stride[0] + offset[0]) * g.out[1] + y * g.stride[1] + offset[1];
            for x in valid(g.size[2], g.stride[2], offset[2], g.out[2]) {
                let value = from[((z * g.size[1] + y) * g.size[2] + x) as usize];
                let sum = &mut image[(row * g.out[2] + x * g.stride[2] + offset[2]) as usize];
                *sum = sum.add(weight.mul(value));
            }
        }
    }
}

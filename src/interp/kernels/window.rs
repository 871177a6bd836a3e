//! Pooling over windows.

use super::contract::{spatial_letters, to_layout};
use super::element::pack;
use super::gather::advance;
use super::num::Num;
use super::walk::row_major;
use super::{Done, Nums, checked_count, with_nums};
use crate::interp::RunError;
use crate::tensor::Tensor;

/// What a window gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::interp) enum Pooling {
    /// The largest element; the least value of the dtype for a window without one.
    Max,
    /// The mean of the elements inside the tensor.
    Mean,
    /// The mean with padding counted as zeros.
    MeanWithPadding,
}

/// How the number of windows is rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::interp) enum Rounding {
    Floor,
    Ceil,
}

/// The attributes of a pool: one entry a spatial axis; `padding` has begins, then ends.
#[derive(Clone, Debug)]
pub(in crate::interp) struct Pool<'a> {
    pub(in crate::interp) pooling: Pooling,
    pub(in crate::interp) size: &'a [i64],
    pub(in crate::interp) strides: &'a [i64],
    pub(in crate::interp) padding: &'a [i64],
    pub(in crate::interp) dilation: &'a [i64],
    pub(in crate::interp) rounding: Rounding,
    pub(in crate::interp) layout: &'a str,
    pub(in crate::interp) out_layout: &'a str,
}

/// Pools every channel of every image.
pub(in crate::interp) fn pool(x: &Tensor, attrs: &Pool) -> Done {
    let rank = attrs.size.len();
    let plain = format!("NC{}", spatial_letters(rank));
    let x = to_layout(x, attrs.layout, &plain)?;
    let fits = x.shape.len() == rank + 2
        && attrs.strides.len() == rank
        && attrs.dilation.len() == rank
        && attrs.padding.len() == 2 * rank
        && attrs
            .strides
            .iter()
            .chain(attrs.dilation)
            .all(|&value| value > 0);
    if !fits {
        return Err(RunError::value_error(format!(
            "a pool over shape {:?}",
            x.shape
        )));
    }
    let mut out = Vec::with_capacity(rank);
    for at in 0..rank {
        let reach = attrs.dilation[at] * (attrs.size[at] - 1) + 1;
        let room = x.shape[at + 2] as i64 + attrs.padding[at] + attrs.padding[at + rank] - reach;
        let room = match attrs.rounding {
            Rounding::Floor => room,
            Rounding::Ceil => room + attrs.strides[at] - 1,
        };
        out.push((room.div_euclid(attrs.strides[at]) + 1).max(0) as usize);
    }
    let mut shape = x.shape[..2].to_vec();
    shape.extend(&out);
    checked_count(&shape, x.dtype)?;
    let res = with_nums!(Nums::load(&x)?, values => {
        let res = pool_of(&x, &values, attrs, &out);
        pack(x.dtype, shape, &res)
    })?;
    to_layout(&res, &plain, attrs.out_layout)
}

fn pool_of<T: Num>(x: &Tensor, values: &[T], attrs: &Pool, out: &[usize]) -> Vec<T> {
    let size: Vec<usize> = attrs
        .size
        .iter()
        .map(|&extent| extent.max(0) as usize)
        .collect();
    let spatial = &x.shape[2..];
    let strides = row_major(spatial);
    let plane: usize = spatial.iter().product();
    let images = x.shape[0] * x.shape[1];
    let windows: usize = out.iter().product();
    let (least, _) = T::limits(x.dtype);
    let mut res = Vec::with_capacity(images * windows);
    for image in 0..images {
        let from = &values[image * plane..(image + 1) * plane];
        let mut place = vec![0usize; out.len()];
        for _ in 0..windows {
            let mut tap = vec![0usize; out.len()];
            let (mut sum, mut top, mut inside, mut padded) = (T::ZERO, least, 0, 0);
            for _ in 0..size.iter().product() {
                if let Some(at) = position(&place, &tap, attrs, spatial, &strides, &mut padded) {
                    sum = sum.add(from[at]);
                    top = top.larger(from[at]);
                    inside += 1;
                }
                advance(&mut tap, &size);
            }
            res.push(match attrs.pooling {
                Pooling::Max => top,
                Pooling::Mean => sum.div(T::from_usize(usize::max(inside, 1))),
                Pooling::MeanWithPadding => sum.div(T::from_usize(usize::max(padded, 1))),
            });
            advance(&mut place, out);
        }
    }
    res
}

/// The element that one tap of a window meets, `None` in the padding. Counts in `padded` what lies inside the padding: windows
/// that rounding up lets hang over do not count there.
fn position(
    place: &[usize],
    tap: &[usize],
    attrs: &Pool,
    spatial: &[usize],
    strides: &[isize],
    padded: &mut usize,
) -> Option<usize> {
    let rank = place.len();
    let mut at = Some(0);
    for axis in 0..rank {
        let offset = tap[axis] as i64 * attrs.dilation[axis] - attrs.padding[axis];
        let here = place[axis] as i64 * attrs.strides[axis] + offset;
        let extent = spatial[axis] as i64;
        if here >= extent + attrs.padding[axis + rank] {
            return None;
        }
        at = at
            .filter(|_| 0 <= here && here < extent)
            .map(|at| at + here as usize * strides[axis] as usize);
    }
    *padded += 1;
    at
}

//! The bytes of packed weights, panel by panel, when they are written; `packing` says how, `pack` which.

use std::sync::Arc;

use irc_syntax::DType;

use super::packing::Packing;
use super::winograd::transform::Kernels;
use crate::tensor::{Made, Weight, WeightData};

/// A weight rearranged into panels, filled up with zeros.
pub(super) fn pack(weight: &Weight, packing: &Packing) -> Option<Weight> {
    let lanes = usize::try_from(packing.lanes).ok()?;
    let (shape, made) = match packing.winograd {
        Some(m) => {
            let kernels = Kernels::new(weight, m, &packing.axes)?;
            let shape = kernels.panels(lanes);
            let panel = move |at: usize, out: &mut [u8]| kernels.transform(at * lanes, lanes, out);
            (shape.clone(), made(&shape, weight.dtype, panel))
        }
        None => {
            let shape = packed_shape(&weight.shape, packing)?;
            let panels = Panels::new(weight, packing, lanes)?;
            let panel = move |at: usize, out: &mut [u8]| panels.fill(at, out);
            (shape.clone(), made(&shape, weight.dtype, panel))
        }
    };
    Some(Weight {
        dtype: weight.dtype,
        shape,
        data: WeightData::Made(Arc::new(made)),
    })
}

fn made(
    shape: &[usize],
    dtype: DType,
    panel: impl Fn(usize, &mut [u8]) + Send + Sync + 'static,
) -> Made {
    let elements = shape.iter().skip(1).product::<usize>();
    Made::new(
        shape.first().copied().unwrap_or(1),
        elements * dtype.bytes(),
        panel,
    )
}

/// Where the elements of a panel come from.
struct Panels {
    weight: Weight,
    lanes: usize,
    /// How many columns the weight has, and how far they are apart.
    columns: usize,
    step: usize,
    /// Where each place of the reduction begins in the original, and in a panel.
    places: Vec<(usize, usize)>,
    /// How far the columns of a panel are apart.
    apart: usize,
}

impl Panels {
    fn new(weight: &Weight, packing: &Packing, lanes: usize) -> Option<Self> {
        if weight.dtype == DType::Str {
            return None;
        }
        let shape = &weight.shape;
        let (panel, rest) = packing.axes.split_first()?;
        let (source, strides) = weight.strided();
        let steps = match packing.pairs {
            true => shape[*rest.last()?],
            false => 1,
        };
        let to_of = |at: usize| match packing.pairs {
            true => (at / steps * steps.div_ceil(2) + at % steps / 2) * lanes * 2 + at % steps % 2,
            false => at * lanes,
        };
        let depth: usize = rest.iter().map(|&axis| shape[axis]).product();
        let places = (0..depth).map(|at| {
            let (mut offset, mut place) = (0, at);
            for &axis in rest.iter().rev() {
                offset += place % shape[axis] * strides[axis];
                place /= shape[axis];
            }
            (offset, to_of(at))
        });
        Some(Self {
            places: places.collect(),
            weight: source,
            lanes,
            columns: *shape.get(*panel)?,
            step: strides[*panel],
            apart: if packing.pairs { 2 } else { 1 },
        })
    }

    /// Writes a panel.
    fn fill(&self, panel: usize, out: &mut [u8]) {
        match self.weight.dtype.bytes() {
            1 => self.fill_of::<1>(panel, out),
            2 => self.fill_of::<2>(panel, out),
            4 => self.fill_of::<4>(panel, out),
            8 => self.fill_of::<8>(panel, out),
            _ => self.fill_of::<16>(panel, out),
        }
    }

    /// Writes a panel of elements of `N` bytes.
    fn fill_of<const N: usize>(&self, panel: usize, out: &mut [u8]) {
        let (from, _) = self.weight.bytes().as_chunks::<N>();
        let (out, _) = out.as_chunks_mut::<N>();
        let first = panel * self.lanes;
        let count = self.lanes.min(self.columns - first);
        // Lanes without a column, and the halves of pairs without a step.
        if count < self.lanes || self.apart > 1 {
            out.fill([0; N]);
        }
        for &(offset, to) in &self.places {
            let from = &from[offset + first * self.step..];
            let out = &mut out[to..];
            if self.step == 1 && self.apart == 1 {
                out[..count].copy_from_slice(&from[..count]);
                continue;
            }
            let columns = from.iter().step_by(self.step);
            for (out, from) in out.iter_mut().step_by(self.apart).zip(columns).take(count) {
                *out = *from;
            }
        }
    }
}

/// The extents of a packed weight.
fn packed_shape(shape: &[usize], packing: &Packing) -> Option<Vec<usize>> {
    let lanes = usize::try_from(packing.lanes).ok()?;
    let (panel, rest) = packing.axes.split_first()?;
    let mut res = vec![shape.get(*panel)?.div_ceil(lanes)];
    for axis in rest {
        res.push(*shape.get(*axis)?);
    }
    if packing.pairs {
        let depth = res.pop()?;
        res.push(depth.div_ceil(2));
    }
    res.push(lanes);
    res.extend(packing.pairs.then_some(2));
    Some(res)
}

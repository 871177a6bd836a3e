//! Pads by the convolution that reads what is padded with zeros.
//!
//!     a = R.nn.pad(x, pad_width=[0, 0, 0, 0, 1, 1, 1, 1])
//!     y = R.nn.conv2d(a, w)                          →      y = R.nn.conv2d(x, w, padding=[1, 1, 1, 1])
//!
//! Refused where it pads with another number, along batch or channels, or crops, and where it is read elsewhere too.

use super::convolution::Convolution;
use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::{BoundCall, Prim};
use crate::opt::Pass;
use crate::shape::Dim;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_pad_into_conv",
    "zeros around what a convolution reads are padding of its own"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let mut conv = Convolution::read(site, binding.value)?;
    let pad = site
        .prim(site.def(&conv.x)?)
        .filter(|pad| pad.prim == Prim::Pad)?;
    let Some(widths) = spatial_pads(site, &pad) else {
        return site.refuse(
            binding,
            "it pads by what is not known, along batch or channels, or crops",
        );
    };
    if pad.float("pad_value") != 0.0 {
        return site.refuse(binding, "it pads with another number than zero");
    }
    if site.uses(&conv.x) != 1 {
        return site.refuse(binding, "what is padded is read elsewhere too");
    }
    if conv.pads.len() != widths.len() {
        return None;
    }
    conv.pads
        .iter_mut()
        .zip(widths)
        .for_each(|(pad, width)| *pad += width);
    conv.x = pad.operand("x")?.clone();
    Some(Rewrite::Value(conv.write(site)))
}

/// How much is padded around the axes from the third on: all begins, and then all ends.
pub(super) fn spatial_pads(site: &Site, pad: &BoundCall) -> Option<Vec<i64>> {
    let rank = site.shape(pad.operand("x")?)?.len();
    let widths: Option<Vec<i64>> = pad.dims("pad_width").iter().map(Dim::as_int).collect();
    let widths = widths.filter(|widths| widths.len() == 2 * rank && rank > 2)?;
    let (outer, spatial) = widths.split_at(4);
    let fits = outer.iter().all(|&width| width == 0) && spatial.iter().all(|&width| width >= 0);
    let begins = spatial.iter().step_by(2);
    let ends = spatial.iter().skip(1).step_by(2);
    fits.then(|| begins.chain(ends).copied().collect())
}

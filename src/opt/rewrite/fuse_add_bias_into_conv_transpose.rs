//! Adds to a transposed convolution's bias what is added to each of its channels.
//!
//!     a = R.nn.conv2d_transpose(x, w)              →      y = onnx.ConvTranspose(x, w, b, …)
//!     y = R.add(a, R.const([[[0.5]], [[2.0]]]))           (b = [0.5, 2.0])
//!
//! Refused where the sum is no constant with one number a channel, where it widens the result, and where the convolution
//! is read elsewhere too.

use super::convolution::by_channel;
use super::transposed::Transposed;
use super::{Binding, Rewrite, Site, pass, round};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_add_bias_into_conv_transpose",
    "a sum by channel after a transposed convolution is its bias"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Binary(Binary::Add) {
        return None;
    }
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let (conv, value, added) = [(a, b), (b, a)]
        .into_iter()
        .find_map(|(x, other)| Some((Transposed::read(site, site.def(x)?)?, x, other)))?;
    // A residual is no look-alike.
    if site
        .shape(added)
        .is_none_or(|dims| Some(dims) == site.shape(value))
    {
        return None;
    }
    if site.uses(value) != 1 {
        return site.refuse(binding, "the convolution is read elsewhere too");
    }
    let n = conv.n_channels(site)?;
    let Some(mut sums) = by_channel(site, n, value, added) else {
        let why = "what is added is no constant with one number a channel";
        return site.refuse(binding, why);
    };
    let Some(old) = conv.bias_numbers(site, n) else {
        return site.refuse(binding, "the convolution has a bias that is no constant");
    };
    sums.iter_mut().zip(old).for_each(|(sum, old)| *sum += old);
    let sums = round(vec![n], &sums, site.dtype(&conv.w)?)?;
    let bias = match &conv.bias {
        Some(old) => site.revise(old, sums),
        None => site.keep(&format!("{}_bias", binding.name), sums),
    };
    let mut fused = conv;
    fused.bias = Some(bias);
    Some(Rewrite::Value(fused.write(site)?))
}

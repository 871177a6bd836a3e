//! Multiplies a batch normalization by known moments into the transposed convolution before it.
//!
//!     a = R.nn.conv2d_transpose(x, w)
//!     t = R.nn.batch_norm(a, gamma, beta, mean, var, axis=1, …, training=False)
//!     y = t[0]                                                 →      y = onnx.ConvTranspose(x, w2, b2, …)
//!
//! With s = gamma / sqrt(var + epsilon): w2 = w · s by output channel, b2 = (b - mean) · s + beta. Refused where a parameter
//! is no constant, and where the convolution is read elsewhere too.

use super::fuse_bn_into_conv::{normalization, scale_and_shift};
use super::transposed::Transposed;
use super::{Binding, Rewrite, Site, pass, round, with_operand};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_bn_into_conv_transpose",
    "a batch normalization by known moments is part of the transposed convolution before it"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let norm = normalization(site, binding)?;
    let data = norm.get("data")?;
    let conv = Transposed::read(site, site.def(data)?)?;
    if site.uses(data) != 1 {
        return site.refuse(binding, "the convolution is read elsewhere too");
    }
    if norm.bool("training") != Some(false) || norm.int("axis") != Some(1) {
        return site.refuse(
            binding,
            "it does not normalize the channels by known moments",
        );
    }
    let Some((scale, shift)) = scale_and_shift(site, &norm) else {
        return site.refuse(binding, "a parameter of the normalization is no constant");
    };
    let n = conv.n_channels(site).filter(|&n| n == scale.len())?;
    let (Some(w), Some(old)) = (conv.scaled_kernel(site, &scale), conv.bias_numbers(site, n))
    else {
        return site.refuse(binding, "a weight of the convolution is no constant");
    };
    let sums: Vec<f64> = (0..n).map(|at| old[at] * scale[at] + shift[at]).collect();
    let bias = round(vec![n], &sums, w.dtype)?;
    let bias = site.revise(conv.bias.as_ref().or(norm.get("beta"))?, bias);
    let w = site.revise(&conv.w, w);
    let mut fused = conv.clone();
    fused.bias = Some(bias);
    Some(Rewrite::Value(with_operand(
        &fused.write(site)?,
        &conv.w,
        &w,
    )))
}

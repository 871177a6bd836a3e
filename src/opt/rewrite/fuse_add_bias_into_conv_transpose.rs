//! Adds to a transposed convolution's bias what is added to each of its channels.
//!
//!     a = R.nn.conv2d_transpose(x, w)              →      y = onnx.ConvTranspose(x, w, b, …)
//!     y = R.add(a, R.const([[[0.5]], [[2.0]]]))           (b = [0.5, 2.0])
//!
//! Refused where the sum is no constant with one number a channel, where it widens the result, and where the convolution
//! is read elsewhere too.

use irc_syntax::Expr;

use super::fuse_add_bias_into_conv::{sum_by_channel, with_sums};
use super::transposed::Transposed;
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_add_bias_into_conv_transpose",
    "a sum by channel after a transposed convolution is its bias"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let read = |value: &Expr| Transposed::read(site, value);
    let n_channels = |conv: &Transposed| conv.n_channels(site);
    let (mut conv, sums) = sum_by_channel(site, binding, &read, &n_channels)?;
    let dtype = site.dtype(&conv.w)?;
    conv.bias = Some(with_sums(site, binding, conv.bias.as_ref(), sums, dtype)?);
    Some(Rewrite::Value(conv.write(site)?))
}

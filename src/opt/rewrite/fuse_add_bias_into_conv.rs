//! Adds to a convolution's bias what is added to each of its channels.
//!
//!     a = R.nn.conv2d(x, w)                        →      y = onnx.Conv(x, w, b, …)
//!     y = R.add(a, R.const([[[0.5]], [[2.0]]]))           (b = [0.5, 2.0])
//!
//! Refused where the sum is no constant with one number a channel, where it widens the result, and where the convolution
//! is read elsewhere too.

use irc_syntax::{DType, Expr};

use super::convolution::{Convolution, by_channel};
use super::{Binding, Rewrite, Site, pass, round};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_add_bias_into_conv",
    "a sum by channel after a convolution is its bias"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let read = |value: &Expr| Convolution::read(site, value);
    let n_channels = |conv: &Convolution| usize::try_from(conv.n_channels(site)?).ok();
    let (mut conv, sums) = sum_by_channel(site, binding, &read, &n_channels)?;
    let dtype = site.dtype(&conv.w)?;
    conv.bias = Some(with_sums(site, binding, conv.bias.as_ref(), sums, dtype)?);
    Some(Rewrite::Value(conv.write(site)))
}

/// The convolution, as `read` reads it, to which a binding adds, and what it adds to each channel.
pub(super) fn sum_by_channel<C>(
    site: &Site,
    binding: &Binding,
    read: &dyn Fn(&Expr) -> Option<C>,
    n_channels: &dyn Fn(&C) -> Option<usize>,
) -> Option<(C, Vec<f64>)> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Binary(Binary::Add) {
        return None;
    }
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let (conv, value, added) = [(a, b), (b, a)]
        .into_iter()
        .find_map(|(x, other)| Some((read(site.def(x)?)?, x, other)))?;
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
    let sums = n_channels(&conv).and_then(|n| by_channel(site, n, value, added));
    let Some(sums) = sums else {
        let why = "what is added is no constant with one number a channel";
        return site.refuse(binding, why);
    };
    Some((conv, sums))
}

/// A bias with these numbers added to it, or made of them.
pub(super) fn with_sums(
    site: &Site,
    binding: &Binding,
    old: Option<&Expr>,
    mut sums: Vec<f64>,
    dtype: DType,
) -> Option<Expr> {
    let shape = vec![sums.len()];
    let Some(old) = old else {
        let hint = format!("{}_bias", binding.name);
        return Some(site.keep(&hint, round(shape, &sums, dtype)?));
    };
    let Some(numbers) = site.numbers(old) else {
        return site.refuse(binding, "the convolution has a bias that is no constant");
    };
    sums.iter_mut()
        .zip(numbers)
        .for_each(|(sum, old)| *sum += old);
    Some(site.revise(old, round(shape, &sums, dtype)?))
}

//! Multiplies a constant factor of each channel of a convolution into its kernel and its bias.
//!
//!     a = onnx.Conv(x, w, b, …)
//!     y = R.multiply(a, R.const([[[0.5]], [[2.0]]]))          →      y = onnx.Conv(x, w · s, b · s, …)      (s = [0.5, 2.0])
//!
//! Refused where the factor is no constant with one number a channel, and where the convolution or its kernel is read
//! elsewhere too.

use irc_syntax::Expr;

use super::convolution::Convolution;
use super::{Binding, Rewrite, Site, pass, round};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_mul_into_conv",
    "a factor of a convolution by channel is part of its kernel"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Binary(Binary::Multiply) {
        return None;
    }
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let (conv, value, factor) = [(a, b), (b, a)]
        .into_iter()
        .find_map(|(x, other)| Some((Convolution::read(site, site.def(x)?)?, x, other)))?;
    let Some(factors) = conv.by_channel(site, value, factor) else {
        return site.refuse(
            binding,
            "the factor is no constant with one number a channel",
        );
    };
    if site.uses(value) != 1 || site.uses(&conv.w) != 1 {
        return site.refuse(
            binding,
            "the convolution or its kernel is read elsewhere too",
        );
    }
    let dtype = site.dtype(&conv.w)?;
    let scaled = |constant: &Expr| -> Option<Expr> {
        let mut numbers = site.numbers(constant)?;
        let row = numbers.len() / factors.len();
        let by_row = numbers.chunks_mut(row.max(1)).zip(&factors);
        by_row.for_each(|(row, factor)| row.iter_mut().for_each(|number| *number *= factor));
        let tensor = round(site.constant(constant)?.shape, &numbers, dtype)?;
        Some(site.revise(constant, tensor))
    };
    let Some(w) = scaled(&conv.w) else {
        return site.refuse(binding, "the kernel is no constant");
    };
    let bias = match &conv.bias {
        Some(bias) => Some(scaled(bias)?),
        None => None,
    };
    Some(Rewrite::Value(Convolution { w, bias, ..conv }.write(site)))
}

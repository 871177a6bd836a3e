//! Multiplies a constant factor of each channel of a convolution into its kernel and its bias.
//!
//!     a = onnx.Conv(x, w, b, …)
//!     y = R.multiply(a, R.const([[[0.5]], [[2.0]]]))          →      y = onnx.Conv(x, w · s, b · s, …)      (s = [0.5, 2.0])
//!
//! A constant that is added to each channel before is multiplied too. Refused where the factor is no constant with one
//! number a channel, and where the convolution, the sum or the kernel is read elsewhere too.

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

pub(in crate::opt) fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Binary(Binary::Multiply) {
        return None;
    }
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let (channels, value, factor) = [(a, b), (b, a)]
        .into_iter()
        .find_map(|(x, other)| Some((Channels::read(site, x)?, x, other)))?;
    let conv = &channels.conv;
    let Some(factors) = conv.by_channel(site, value, factor) else {
        return site.refuse(
            binding,
            "the factor is no constant with one number a channel",
        );
    };
    let is_shared = channels
        .added
        .as_ref()
        .is_some_and(|(inner, _)| site.uses(inner) != 1);
    if is_shared || site.uses(value) != 1 || site.uses(&conv.w) != 1 {
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
    let product = Convolution {
        w,
        bias,
        ..conv.clone()
    };
    let Some((inner, added)) = &channels.added else {
        return Some(Rewrite::Value(product.write(site)));
    };
    let sums = conv.by_channel(site, value, added)?;
    let sums: Vec<f64> = sums
        .iter()
        .zip(&factors)
        .map(|(sum, by)| sum * by)
        .collect();
    let mut shape = vec![1; conv.strides.len() + 1];
    shape[0] = sums.len();
    let added = site.revise(added, round(shape, &sums, dtype)?);
    let inner = site.step(inner.as_name()?.as_str(), product.write(site));
    Some(Rewrite::Value(Expr::call("R.add", [inner, added])))
}

/// A convolution, and the constant that is added to its result.
struct Channels {
    conv: Convolution,
    /// The name of the convolution's own result, and what is added to it.
    added: Option<(Expr, Expr)>,
}

impl Channels {
    fn read(site: &Site, value: &Expr) -> Option<Self> {
        let def = site.def(value)?;
        if let Some(conv) = Convolution::read(site, def) {
            return Some(Self { conv, added: None });
        }
        let add = site
            .prim(def)
            .filter(|add| add.prim == Prim::Binary(Binary::Add))?;
        let (a, b) = (add.operand("a")?, add.operand("b")?);
        [(a, b), (b, a)].into_iter().find_map(|(inner, added)| {
            let conv = Convolution::read(site, site.def(inner)?)?;
            conv.by_channel(site, value, added)?;
            Some(Self {
                conv,
                added: Some((inner.clone(), added.clone())),
            })
        })
    }
}

//! Multiplies a batch normalization by known moments into the convolution before it.
//!
//!     a = R.nn.conv2d(x, w)
//!     t = R.nn.batch_norm(a, gamma, beta, mean, var, axis=1, …, training=False)
//!     y = t[0]                                                 →      y = onnx.Conv(x, w2, b2, …)
//!
//! With s = gamma / sqrt(var + epsilon): w2 = w · s by output channel, b2 = (b - mean) · s + beta, in 64 bits and rounded
//! once. Refused where a parameter is no constant, and where the convolution is read elsewhere too.

use irc_syntax::{Expr, ExprKind, Module};

use super::convolution::Convolution;
use super::{Binding, Operator, Rewrite, Site, round, run_rule};
use crate::check::stage::Level;
use crate::opt::{Changed, Pass, PassCx};

/// The pass.
pub const PASS: Pass = Pass {
    name: "fuse_bn_into_conv",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "a batch normalization by known moments is part of the convolution before it",
    args: &[],
};

/// Runs the pass.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    run_rule(module, cx, &rule)
}

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let norm = normalization(site, binding)?;
    let data = norm.get("data")?;
    let conv = Convolution::read(site, site.def(data)?)?;
    if site.uses(data) != 1 {
        return site.refuse(binding, "the convolution is read elsewhere too");
    }
    if norm.bool("training") != Some(false) {
        return site.refuse(binding, "the moments are those of the batch");
    }
    if norm.int("axis") != Some(1) {
        return site.refuse(binding, "it does not normalize the channels");
    }
    let Some((scale, shift)) = scale_and_shift(site, &norm) else {
        return site.refuse(binding, "a parameter of the normalization is no constant");
    };
    let (Some(w), Some(dtype)) = (site.numbers(&conv.w), site.dtype(&conv.w)) else {
        return site.refuse(binding, "the kernel of the convolution is no constant");
    };
    let old_bias = match &conv.bias {
        None => vec![0.0; scale.len()],
        Some(bias) => {
            let Some(bias) = site.numbers(bias) else {
                return site.refuse(binding, "the bias of the convolution is no constant");
            };
            bias
        }
    };
    if scale.is_empty() || w.len() % scale.len() != 0 || old_bias.len() != scale.len() {
        return None;
    }
    let row = w.len() / scale.len();
    let w: Vec<f64> = w
        .iter()
        .enumerate()
        .map(|(at, w)| w * scale[at / row])
        .collect();
    let bias: Vec<f64> = (0..scale.len())
        .map(|m| old_bias[m] * scale[m] + shift[m])
        .collect();
    let shape = site.constant(&conv.w)?.shape;
    let w = round(shape, &w, dtype)?;
    let bias = round(vec![scale.len()], &bias, dtype)?;
    let bias = match &conv.bias {
        Some(old) => site.revise(old, bias),
        None => site.revise(norm.get("beta")?, bias),
    };
    let w = site.revise(&conv.w, w);
    Some(Rewrite::Value(
        Convolution {
            w,
            bias: Some(bias),
            ..conv
        }
        .write(site),
    ))
}

/// The normalization whose result, first of a tuple, the binding is.
pub(super) fn normalization<'s>(site: &'s Site, binding: &Binding) -> Option<Operator<'s>> {
    let ExprKind::Index { value, index } = &binding.value.kind else {
        return None;
    };
    let is_first = index.first().and_then(Expr::as_int) == Some(0);
    let norm = site.only_def(value).filter(|_| is_first)?;
    site.operator(norm)
        .filter(|norm| norm.is("R.nn.batch_norm"))
}

/// gamma / sqrt(var + epsilon), and beta - mean times that, by channel.
pub(super) fn scale_and_shift(site: &Site, norm: &Operator) -> Option<(Vec<f64>, Vec<f64>)> {
    let read = |name: &str| site.numbers(norm.get(name)?);
    let (gamma, beta) = (read("gamma")?, read("beta")?);
    let (mean, var) = (read("moving_mean")?, read("moving_var")?);
    let epsilon = norm.float("epsilon")?;
    let n = mean.len();
    if [&gamma, &beta, &var].iter().any(|other| other.len() != n) {
        return None;
    }
    let (has_scale, has_center) = (norm.bool("scale")?, norm.bool("center")?);
    let scale: Vec<f64> = (0..n)
        .map(|c| if has_scale { gamma[c] } else { 1.0 } / (var[c] + epsilon).sqrt())
        .collect();
    let shift = (0..n)
        .map(|c| if has_center { beta[c] } else { 0.0 } - mean[c] * scale[c])
        .collect();
    Some((scale, shift))
}

//! Adds to a convolution's bias what is added to each of its channels.
//!
//!     a = R.nn.conv2d(x, w)                        →      y = onnx.Conv(x, w, b, …)
//!     y = R.add(a, R.const([[[0.5]], [[2.0]]]))           (b = [0.5, 2.0])
//!
//! Refused where the sum is no constant with one number a channel, where it widens the result, and where the convolution
//! is read elsewhere too.

use irc_syntax::Module;

use super::convolution::Convolution;
use super::{Binding, Rewrite, Site, round, run_rule};
use crate::check::prim::{Binary, Prim};
use crate::check::stage::Level;
use crate::opt::{Changed, Pass, PassCx};

/// The pass.
pub const PASS: Pass = Pass {
    name: "fuse_add_bias_into_conv",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "a sum by channel after a convolution is its bias",
    args: &[],
};

/// Runs the pass.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    run_rule(module, cx, &rule)
}

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Binary(Binary::Add) {
        return None;
    }
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let (conv, value, added) = [(a, b), (b, a)]
        .into_iter()
        .find_map(|(x, other)| Some((Convolution::read(site, site.def(x)?)?, x, other)))?;
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
    let Some(mut sums) = conv.by_channel(site, value, added) else {
        return site.refuse(
            binding,
            "what is added is no constant with one number a channel",
        );
    };
    let (shape, dtype) = (vec![sums.len()], site.dtype(&conv.w)?);
    let bias = match &conv.bias {
        None => site.keep(
            &format!("{}_bias", binding.name),
            round(shape, &sums, dtype)?,
        ),
        Some(old) => {
            let Some(numbers) = site.numbers(old) else {
                return site.refuse(binding, "the convolution has a bias that is no constant");
            };
            sums.iter_mut()
                .zip(numbers)
                .for_each(|(sum, old)| *sum += old);
            site.revise(old, round(shape, &sums, dtype)?)
        }
    };
    Some(Rewrite::Value(
        Convolution {
            bias: Some(bias),
            ..conv
        }
        .write(site),
    ))
}

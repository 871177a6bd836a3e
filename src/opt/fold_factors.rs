//! Multiplies constant factors of convolutions and matrix products by channel into their weights.
//!
//!     a = R.nn.conv2d(x, w)
//!     b = R.multiply(a, s)
//!     y = R.add(b, c)               →      b = R.nn.conv2d(x, w · s)      (s has one number a channel)
//!                                          y = R.add(b, c)
//!
//! What a batch normalization multiplies by costs nothing then. Products round in another way, so `--exact` leaves them.

use irc_syntax::Module;

use super::rewrite::{fuse_mul_into_conv, fuse_mul_into_gemm, run_rule};
use super::{Changed, Pass, PassCx};
use crate::check::stage::Level;

/// The pass.
pub const PASS: Pass = Pass {
    name: "fold_factors",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "factors of convolutions and products by channel are part of their weights",
    args: &[],
};

/// Runs the pass on every graph function that is no group.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    if cx.target.exact {
        return Changed::No;
    }
    run_rule(module, cx, &|site, binding| {
        fuse_mul_into_conv::rule(site, binding).or_else(|| fuse_mul_into_gemm::rule(site, binding))
    })
}

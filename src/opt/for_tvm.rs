//! Expands the operators that Apache TVM does not have into those that it has.
//!
//!     y = R.nn.hard_swish(x)      →      y = x * clip(x / 6 + 0.5, 0, 1), one operation a binding
//!
//! These are `onnx.*` and `std.*` calls, operators of the user, and the few names of [`LACKING`]. What they come to is expanded
//! again until TVM has it. Needs normal form. `irc print --dialect tvm` runs it.

use irc_syntax::{Expr, Module};

use super::legalize::expand_calls;
use super::{Changed, Pass, PassCx};
use crate::check::expand::Depth;
use crate::check::stage::Level;

/// Operators of `R` in the library that TVM 0.27 does not register.
pub const LACKING: [&str; 14] = [
    "R.all",
    "R.any",
    "R.image.resize1d",
    "R.logsumexp",
    "R.masked_fill",
    "R.nn.adaptive_max_pool2d",
    "R.nn.celu",
    "R.nn.elu",
    "R.nn.global_avg_pool",
    "R.nn.global_max_pool",
    "R.nn.hard_sigmoid",
    "R.nn.hard_swish",
    "R.nn.mish",
    "R.nn.softsign",
];

/// The most times that what came out is expanded again; a template that comes to itself ends here.
const MAX_ROUNDS: usize = 16;

/// Whether TVM does not have the operator of a call.
pub fn lacks(path: &str) -> bool {
    let is_ours = |space: &str| !matches!(space, "R" | "T" | "I" | "cls" | "tvm");
    match path.split_once('.') {
        Some(("R", _)) => LACKING.contains(&path),
        Some((space, _)) => is_ours(space),
        None => false,
    }
}

/// The pass.
pub const PASS: Pass = Pass {
    name: "for_tvm",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "expand the operators that Apache TVM does not have",
    args: &[],
};

/// Runs the pass on every graph function.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let wanted = |path: &str, _: &Expr| lacks(path);
    let mut changed = Changed::No;
    for _ in 0..MAX_ROUNDS {
        if expand_calls(module, cx, Depth::OneLevel, &wanted) == Changed::No || !cx.diags.is_empty()
        {
            break;
        }
        changed = Changed::Yes;
        if let Err(faults) = cx.recheck(module) {
            cx.diags.extend(faults);
            break;
        }
    }
    changed
}

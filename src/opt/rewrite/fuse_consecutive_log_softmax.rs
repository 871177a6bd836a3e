//! Makes one operator of softmax and the logarithm of it, which is more precise too.
//!
//!     a = R.nn.softmax(x, axis=1)
//!     y = R.log(a)                      →      y = R.nn.log_softmax(x, axis=1)

use irc_syntax::Expr;

use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_consecutive_log_softmax",
    "the logarithm of softmax is one operator"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    if !binding.value.is_call_of("R.log") {
        return None;
    }
    let value = binding.value.positional().next()?;
    let softmax = site
        .operator(site.def(value)?)
        .filter(|op| op.is("R.nn.softmax"))?;
    if site.uses(value) != 1 {
        return site.refuse(binding, "softmax is read elsewhere too");
    }
    let call = Expr::call("R.nn.log_softmax", [softmax.get("data")?.clone()]);
    Some(Rewrite::Value(
        call.with("axis", Expr::int(softmax.int("axis")?)),
    ))
}

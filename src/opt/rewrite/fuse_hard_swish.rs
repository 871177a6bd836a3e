//! Recognizes hard sigmoid, and a value times it.
//!
//!     a = R.add(x, R.const(3.0))
//!     b = R.clip(a, min=0.0, max=6.0)
//!     c = R.multiply(x, b)
//!     y = R.divide(c, R.const(6.0))          →      y = R.nn.hard_swish(x)
//!
//! Without x as a factor it is `R.nn.hard_sigmoid(x, alpha=1 / 6, beta=0.5)`. Refused where a step is read elsewhere too.

use irc_syntax::Expr;

use super::factors::{Factors, close, plus, same};
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_hard_swish",
    "the arithmetic of hard swish and hard sigmoid is one operator"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    site.prim(binding.value)?;
    let all = Factors::of(site, binding.value);
    let value = match all.others.as_slice() {
        [gate] => {
            let x = clipped(site, gate).filter(|_| all.is(1.0 / 6.0))?;
            Expr::call("R.nn.hard_sigmoid", [x])
                .with("alpha", Expr::float(1.0 / 6.0))
                .with("beta", Expr::float(0.5))
        }
        [a, b] => [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
            let by_clip =
                all.is(1.0 / 6.0) && clipped(site, gate).is_some_and(|inner| same(&inner, x));
            let by_gate = all.is(1.0) && gated(site, gate).is_some_and(|inner| same(&inner, x));
            (by_clip || by_gate).then(|| Expr::call("R.nn.hard_swish", [x.clone()]))
        })?,
        _ => return None,
    };
    let fits = site.shape(value.positional().next()?)? == site.result_shape(binding)?;
    fits.then_some(Rewrite::Value(value))
}

/// The x of clip(x + 3, 0, 6).
fn clipped(site: &Site, value: &Expr) -> Option<Expr> {
    let op = site.operator(site.only_def(value)?)?;
    let inner = match op.path.as_str() {
        "R.clip" => {
            let bound = |name: &str| site.number(op.get(name)?);
            op.get("x")
                .filter(|_| bound("min") == Some(0.0) && bound("max") == Some(6.0))?
        }
        "R.nn.relu6" => op.get("data").or(op.get("x"))?,
        _ => return None,
    };
    plus(site, inner, 3.0)
}

/// The x of a hard sigmoid with the slope of hard swish.
fn gated(site: &Site, value: &Expr) -> Option<Expr> {
    let op = site.operator(site.only_def(value)?)?;
    let is_it = op.is("R.nn.hard_sigmoid")
        && close(op.float("alpha")?, 1.0 / 6.0)
        && op.float("beta") == Some(0.5);
    is_it.then(|| op.get("data").cloned())?
}

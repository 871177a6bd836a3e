//! Makes one concatenation of one within another along the same axis.
//!
//!     a = R.concat((x, y), axis=1)
//!     b = R.concat((a, z), axis=1)          →      b = R.concat((x, y, z), axis=1)
//!
//! Refused where the inner one is read elsewhere too.

use irc_syntax::Expr;

use super::view::from_front;
use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::Prim;
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_consecutive_concats",
    "a concatenation in a concatenation is part of it"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Concat {
        return None;
    }
    let rank = site.result_shape(binding)?.len();
    let axis = from_front(&[call.int("axis")], rank)?;
    let mut parts = Vec::new();
    let mut found = false;
    for part in call.operands() {
        let inner = site.def(part).and_then(|def| site.prim(def));
        let inner = inner.filter(|inner| {
            inner.prim == Prim::Concat
                && from_front(&[inner.int("axis")], rank) == Some(axis.clone())
        });
        let Some(inner) = inner else {
            parts.push(part.clone());
            continue;
        };
        if site.uses(part) != 1 {
            return site.refuse(binding, "the inner one is read elsewhere too");
        }
        found = true;
        parts.extend(inner.operands().into_iter().cloned());
    }
    let axis = Expr::int(call.int("axis"));
    let joined = Expr::call("R.concat", [Expr::tuple(parts)]).with("axis", axis);
    found.then_some(Rewrite::Value(joined))
}

//! Removes concatenations of one tensor, and from others the parts without elements.
//!
//!     y = R.concat((x,), axis=0)                     →      (x takes the place of y)
//!     y = R.concat((a, nothing, b), axis=0)          →      y = R.concat((a, b), axis=0)      (nothing has an extent of 0)

use irc_syntax::Expr;

use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::Prim;
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_nop_concat",
    "a concatenation of one tensor is that tensor"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Concat {
        return None;
    }
    let parts: Vec<Expr> = call.operands().into_iter().cloned().collect();
    let is_empty = |part: &Expr| {
        let dims = site.shape(part).unwrap_or_default();
        dims.iter().any(|dim| dim.as_int() == Some(0))
    };
    let full: Vec<Expr> = parts
        .iter()
        .filter(|part| !is_empty(part))
        .cloned()
        .collect();
    match full.as_slice() {
        [only] => Some(Rewrite::Alias(only.clone())),
        [] => None,
        _ if full.len() == parts.len() => None,
        _ => {
            let axis = Expr::int(call.int("axis"));
            let joined = Expr::call("R.concat", [Expr::tuple(full)]).with("axis", axis);
            Some(Rewrite::Value(joined))
        }
    }
}

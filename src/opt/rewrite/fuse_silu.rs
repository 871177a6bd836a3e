//! Recognizes a value times its own sigmoid.
//!
//!     a = R.sigmoid(x)
//!     y = R.multiply(x, a)          →      y = R.nn.silu(x)
//!
//! Refused where the sigmoid is read elsewhere too.

use irc_syntax::Expr;

use super::factors::same;
use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!("fuse_silu", "a value times its sigmoid is one operator");

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Binary(Binary::Multiply) {
        return None;
    }
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
        let inner = site.def(gate).filter(|def| def.is_call_of("R.sigmoid"))?;
        if !same(inner.positional().next()?, x) {
            return None;
        }
        if site.uses(gate) != 1 {
            return site.refuse(binding, "the sigmoid is read elsewhere too");
        }
        Some(Rewrite::Value(Expr::call("R.nn.silu", [x.clone()])))
    })
}

//! Writes what is constant in a sum or a product on its right, so that equal ones look equal.
//!
//!     y = R.add(R.const(1.0), x)          →      y = R.add(x, R.const(1.0))

use irc_syntax::Expr;

use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::{Binary, Prim};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "adjust_add",
    "what is constant in a sum or a product stands on its right"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    let Prim::Binary(Binary::Add | Binary::Multiply) = call.prim else {
        return None;
    };
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    if site.constant_shape(a).is_none() || site.constant_shape(b).is_some() {
        return None;
    }
    let (path, _) = binding.value.as_call()?;
    Some(Rewrite::Value(Expr::call(&path, [b.clone(), a.clone()])))
}

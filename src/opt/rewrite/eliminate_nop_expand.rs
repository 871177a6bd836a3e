//! Removes a broadcast to the extents that its operand has.
//!
//!     y = R.broadcast_to(x, R.shape([n, 4]))        →      (x has the extents [n, 4], and takes the place of y)

use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::Prim;
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_nop_expand",
    "a broadcast to the extents that its operand has is its operand"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::BroadcastTo {
        return None;
    }
    let x = call.operand("x")?;
    let same = site.shape(x)? == site.result_shape(binding)?;
    same.then(|| Rewrite::Alias(x.clone()))
}

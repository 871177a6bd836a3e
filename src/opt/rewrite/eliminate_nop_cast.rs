//! Removes a cast to the dtype that its operand has.
//!
//!     y = R.astype(x, "float32")        →      (x is float32, and takes the place of y)

use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::Prim;
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_nop_cast",
    "a cast to the dtype that its operand has is its operand"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Astype {
        return None;
    }
    let x = call.operand("x")?;
    let same = site.dtype(x)? == call.opt_dtype("dtype")?;
    same.then(|| Rewrite::Alias(x.clone()))
}

//! Looks for the largest element before a function that keeps the order.
//!
//!     a = R.nn.softmax(x, axis=1)
//!     y = R.argmax(a, axis=1)          →      y = R.argmax(x, axis=1)
//!
//! Elements that the function rounds to one number are told apart afterwards. Refused where softmax is along another axis.

use super::view::from_front;
use super::with_operand;
use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::Prim;
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_nop_monotone_argmax",
    "where the largest is does not change by a monotone function"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if !matches!(call.prim, Prim::Argmax | Prim::Argmin) {
        return None;
    }
    let value = call.operand("x")?;
    let axis = call.opt_int("axis")?;
    let rank = site.shape(value)?.len();
    let monotone = site.operator(site.def(value)?)?;
    let x = match monotone.path.as_str() {
        "R.exp" | "R.log" | "R.sqrt" | "R.sigmoid" | "R.tanh" => monotone.get("x")?,
        "R.nn.softmax" | "R.nn.log_softmax" => {
            if from_front(&[monotone.int("axis")?], rank)? != from_front(&[axis], rank)? {
                return site.refuse(binding, "softmax is along another axis");
            }
            monotone.get("data")?
        }
        _ => return None,
    };
    Some(Rewrite::Value(with_operand(binding.value, value, x)))
}

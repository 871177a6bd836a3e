//! Does once what changes nothing the second time.
//!
//!     a = R.nn.relu(x)
//!     y = R.nn.relu(a)          →      (a takes the place of y)
//!
//! So for abs, ceil, floor, relu, relu6, round, sign and trunc.

use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "eliminate_consecutive_idempotent_ops",
    "what is done twice is done once"
);

const IDEMPOTENT: [&str; 8] = [
    "R.abs",
    "R.ceil",
    "R.floor",
    "R.nn.relu",
    "R.nn.relu6",
    "R.round",
    "R.sign",
    "R.trunc",
];

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let (path, _) = binding.value.as_call()?;
    if !IDEMPOTENT.contains(&path.as_str()) {
        return None;
    }
    let first = binding.value.positional().next()?;
    let same = site.def(first)?.is_call_of(&path);
    same.then(|| Rewrite::Alias(first.clone()))
}

//! Permutes once what several parts are permuted alike for.
//!
//!     a = R.permute_dims(x, axes=[1, 0])                    c = R.concat((x, z), axis=1)
//!     b = R.permute_dims(z, axes=[1, 0])           →        y = R.permute_dims(c, axes=[1, 0])
//!     y = R.concat((a, b), axis=0)
//!
//! Refused where a permuted part is read elsewhere too.

use irc_syntax::Expr;

use super::view::{from_front, permutation, permute};
use super::{Binding, Rewrite, Site, pass};
use crate::check::prim::Prim;
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "reorder_permute_dims_after_concat",
    "parts that are permuted alike are permuted after they are joined"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let call = site.prim(binding.value)?;
    if call.prim != Prim::Concat || call.operands().len() < 2 {
        return None;
    }
    let parts = call.operands();
    let permuted: Option<Vec<(Expr, Vec<usize>)>> = parts
        .iter()
        .map(|part| permutation(site, site.def(part)?))
        .collect();
    let permuted = permuted?;
    let axes = permuted.first()?.1.clone();
    if permuted.iter().any(|(_, other)| *other != axes) {
        return site.refuse(binding, "the parts are permuted in different ways");
    }
    if parts.iter().any(|part| site.uses(part) != 1) {
        return site.refuse(binding, "a permuted part is read elsewhere too");
    }
    let at = from_front(&[call.int("axis")], axes.len())?;
    let sources = Expr::tuple(permuted.into_iter().map(|(x, _)| x));
    let joined = Expr::call("R.concat", [sources]).with("axis", Expr::int(axes[at[0]] as i128));
    let joined = site.step(binding.name.as_str(), joined);
    Some(Rewrite::Value(permute(&joined, &axes)))
}

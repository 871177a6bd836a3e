//! Says a sum of products that is a product of matrices as one.
//!
//!     y = R.einsum((a, b), subscripts="bij,bjk->bik")          →      y = R.matmul(a, b)
//!
//! Letters before the last two are those of a batch, the same in both and in the result. Refused otherwise.

use std::collections::BTreeSet;

use irc_syntax::Expr;

use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "replace_einsum_with_matmul",
    "a sum of products that is a product of matrices is one"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let op = site
        .operator(binding.value)
        .filter(|op| op.is("R.einsum"))?;
    let [a, b] = op.get("operands")?.as_items()? else {
        return None;
    };
    let text: String = op
        .text("subscripts")?
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    let (inputs, result) = text.split_once("->")?;
    let (left, right) = inputs.split_once(',')?;
    let [left, right, result] = [left, right, result].map(|text| text.chars().collect::<Vec<_>>());
    let n = left.len().checked_sub(2)?;
    let plain = left.iter().chain(&right).all(char::is_ascii_alphabetic)
        && right.len() == n + 2
        && result.len() == n + 2
        && left[..n] == right[..n]
        && left[..n] == result[..n];
    let is_product = plain
        && left[n + 1] == right[n]
        && result[n..] == [left[n], right[n + 1]]
        && left
            .iter()
            .chain(&right[n + 1..])
            .collect::<BTreeSet<_>>()
            .len()
            == n + 3;
    if !is_product {
        return site.refuse(binding, "it is no product of matrices");
    }
    Some(Rewrite::Value(Expr::call(
        "R.matmul",
        [a.clone(), b.clone()],
    )))
}

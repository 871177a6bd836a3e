//! Makes one split of the slices that cover an axis.
//!
//!     a = R.strided_slice(x, axes=[1], begin=[0], end=[2], strides=[1])             s = R.split(x, indices_or_sections=2, axis=1)
//!     b = R.strided_slice(x, axes=[1], begin=[2], end=[4], strides=[1])      →      a = s[0]
//!                                                                                   b = s[1]
//!
//! Refused where they overlap or leave something out.

use irc_syntax::{Expr, print_expr};

use super::view::Slice;
use super::{Binding, Rewrite, Site, pass};
use crate::opt::Pass;

/// The pass.
pub const PASS: Pass = pass!(
    "fuse_slices_into_split",
    "slices that cover an axis are one split"
);

fn rule(site: &Site, binding: &Binding) -> Option<Rewrite> {
    let slice = Slice::read(site, binding.value)?;
    let (axis, lo, hi) = slice.only_cut(site)?;
    let extent = site.shape(&slice.x)?.get(axis)?.as_int()?;
    let mut cuts: Vec<(i64, i64)> = Vec::new();
    for value in site.readers(&slice.x) {
        let other = Slice::read(site, &value).and_then(|other| other.only_cut(site));
        cuts.extend(
            other
                .filter(|cut| cut.0 == axis)
                .map(|(_, lo, hi)| (lo, hi)),
        );
    }
    cuts.sort_unstable();
    cuts.dedup();
    if cuts.len() < 2 {
        return None;
    }
    let ends = cuts.iter().map(|cut| cut.1);
    let begins = cuts.iter().map(|cut| cut.0).skip(1).chain([extent]);
    if cuts[0].0 != 0 || !ends.eq(begins) {
        return site.refuse(
            binding,
            "the slices of that axis overlap or leave something out",
        );
    }
    let width = cuts[0].1;
    let sections = if cuts.iter().all(|cut| cut.1 - cut.0 == width) {
        Expr::int(cuts.len() as i128)
    } else {
        Expr::list(cuts[1..].iter().map(|cut| Expr::int(cut.0)))
    };
    let split = Expr::call("R.split", [slice.x.clone()])
        .with("indices_or_sections", sections)
        .with("axis", Expr::int(axis as i128));
    let at = cuts.iter().position(|&cut| cut == (lo, hi))?;
    let hint = format!("{}_parts", slice.x.as_name()?);
    let key = print_expr(&split);
    let parts = match site.recall(&key) {
        Some(parts) => parts,
        None => {
            let parts = site.step(&hint, split);
            site.remember(key, &parts);
            parts
        }
    };
    Some(Rewrite::Value(Expr::index(parts, [Expr::int(at as i128)])))
}

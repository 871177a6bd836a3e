//! Gives other names to the symbols of a group that the loops to come are called by.
//!
//!     def matmul(p0: R.Tensor((n, k)), …)     →     def matmul(p0: R.Tensor((n, k_dim)), …)
//!
//! A loop `for k in range(k)` would hide the extent in its body, where strides read it.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::visit::{walk_expr_mut, walk_func_mut};
use irc_syntax::{Expr, ExprKind, Func, Module, Name, VisitMut};

use crate::check::expand::symbols_of;
use crate::check::{FuncInfo, Info};

/// Names that lowering gives to loops and scalars, beside numbered ones.
const TAKEN: [&str; 9] = [
    "end", "first", "left", "left_at", "middle", "right", "right_at", "to", "width",
];

/// Renames the symbols of all groups where they have to be. True when there were any.
pub(super) fn rename(module: &mut Module, info: &Info, is_group: fn(&Func) -> bool) -> bool {
    let mut is_changed = false;
    for func in module.funcs_mut().filter(|func| is_group(func)) {
        let Some(info) = info.funcs.get(&func.name) else {
            continue;
        };
        let mut names = NameSupply::of_func(func);
        let map: BTreeMap<Name, Name> = symbols(info)
            .into_iter()
            .filter(is_taken)
            .map(|name| {
                let fresh = names.fresh(&format!("{name}_dim"));
                (name, fresh)
            })
            .collect();
        if !map.is_empty() {
            for param in &mut func.params {
                if let Some(fresh) = map.get(&param.name) {
                    param.name = fresh.clone();
                }
            }
            walk_func_mut(&mut Rename(&map), func);
            is_changed = true;
        }
    }
    is_changed
}

fn symbols(info: &FuncInfo) -> BTreeSet<Name> {
    info.vars.values().flat_map(symbols_of).collect()
}

/// `k`, `kc`, `k0`, `i1`, `ax0`, `v_…`, and those of [`TAKEN`].
fn is_taken(name: &Name) -> bool {
    let name = name.as_str();
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_numbered = |stem: &str| {
        name.strip_prefix(stem)
            .is_some_and(|rest| !rest.is_empty() && is_number(rest))
    };
    let is_k = name
        .strip_prefix('k')
        .is_some_and(|rest| rest.len() <= 1 || is_number(rest));
    name.starts_with("v_") || TAKEN.contains(&name) || is_k || is_numbered("i") || is_numbered("ax")
}

struct Rename<'m>(&'m BTreeMap<Name, Name>);

impl VisitMut for Rename<'_> {
    fn visit_func(&mut self, func: &mut Func) {
        walk_func_mut(self, func);
    }

    fn visit_expr(&mut self, expr: &mut Expr) {
        match &expr.kind {
            ExprKind::Name(name) => {
                if let Some(fresh) = self.0.get(name) {
                    *expr = Expr::name(fresh).at(expr.span);
                }
            }
            // A compound extent may be quoted.
            ExprKind::Str(text) => {
                if let Ok(mut inner) = irc_syntax::parse_expr_str(text)
                    && irc_syntax::uses::names_read(&inner)
                        .iter()
                        .any(|name| self.0.contains_key(name))
                {
                    self.visit_expr(&mut inner);
                    *expr = Expr::str(irc_syntax::print_expr(&inner)).at(expr.span);
                }
            }
            _ => walk_expr_mut(self, expr),
        }
    }
}

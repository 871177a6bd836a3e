//! Makes every result of a public function a tensor of its own.
//!
//!     y = R.reshape(x, R.shape([4]))             y = R.reshape(x, R.shape([4]))
//!     return (y, x)                        →     y_out = R.broadcast_to(y, R.shape([4]))
//!                                                x_out = R.broadcast_to(x, R.shape([2, 2]))
//!                                                return (y_out, x_out)
//!
//! A caller owns what it gets: a result may be no view of an input, a weight, or of another result. What a kernel
//! writes, or a view of it, and is returned once is left alone; all else is copied by an element-wise kernel.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::{bound_names, mentions, names_read};
use irc_syntax::{Expr, ExprKind, FuncKind, Module, Name, Stmt, StmtKind};

use super::graph::kernel_views;
use super::pattern::pattern_of;
use super::{Changed, Pass, PassCx};
use crate::check::stage::Level;
use crate::check::{FuncInfo, Type};
use crate::shape::Dim;

/// The pass.
pub const PASS: Pass = Pass {
    name: "own_results",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "copy results that are no kernel's own",
    args: &[],
};

/// Runs the pass on every public graph function.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for func in module.funcs_mut() {
        if func.kind != FuncKind::Graph || func.is_private() {
            continue;
        }
        let info = cx.info.funcs.get(&func.name).cloned().unwrap_or_default();
        let owned = owned_roots(&func.body);
        let mut names = NameSupply::of_func(func);
        let Some(last) = func.body.pop() else {
            continue;
        };
        let Stmt {
            kind: StmtKind::Return(Some(mut value)),
            trivia,
            span,
        } = last
        else {
            func.body.push(last);
            continue;
        };
        let mut returned = BTreeSet::new();
        let mut copies = Vec::new();
        let mut own = |item: &mut Expr| {
            let root = item.as_name().and_then(|name| owned.get(name));
            let fresh = root.is_some_and(|root| returned.insert(root.clone()));
            if fresh {
                return;
            }
            let base = item
                .as_name()
                .map_or("result", |name| name.as_str())
                .to_owned();
            let Some(copy) = copy_of(item, &info) else {
                return;
            };
            let name = names.fresh(&format!("{base}_out"));
            copies.push(Stmt::bind(&name, copy).at(item.span));
            *item = Expr::name(name).at(item.span);
        };
        for_each_item(&mut value, &info, &mut own);
        changed |= !copies.is_empty();
        func.body.extend(copies);
        func.body.push(Stmt {
            kind: StmtKind::Return(Some(value)),
            trivia,
            span,
        });
    }
    Changed::from(changed)
}

/// Calls `visit` with each tensor of a returned value; a tuple held by a name stays whole.
fn for_each_item(value: &mut Expr, info: &FuncInfo, visit: &mut impl FnMut(&mut Expr)) {
    match &mut value.kind {
        ExprKind::Tuple { items, .. } => items
            .iter_mut()
            .for_each(|item| for_each_item(item, info, visit)),
        ExprKind::Name(name) if !matches!(info.vars.get(name), Some(Type::Tensor(_))) => {}
        _ => visit(value),
    }
}

/// `R.broadcast_to(v, R.shape([…]))` to its own shape.
fn copy_of(value: &Expr, info: &FuncInfo) -> Option<Expr> {
    let dims: Vec<Dim> = match value.as_name() {
        Some(name) => info.vars.get(name)?.as_tensor()?.shape.clone()?,
        None => Vec::new(),
    };
    let shape = Expr::call("R.shape", [Expr::list(dims.iter().map(Dim::to_expr))]);
    Some(Expr::call("R.broadcast_to", [value.clone(), shape]))
}

/// Names that show what a kernel of the function's own block writes, with the name that the kernel writes. A view
/// whose extents are known only behind the kernel is none: the result could not be placed before the kernel runs.
fn owned_roots(stmts: &[Stmt]) -> BTreeMap<Name, Name> {
    let symbols = symbols_bound(stmts);
    let made: BTreeMap<Name, usize> = stmts
        .iter()
        .enumerate()
        .flat_map(|(place, stmt)| {
            let StmtKind::Assign { target, .. } = &stmt.kind else {
                return Vec::new();
            };
            let names = bound_names(target).into_iter();
            names.map(|name| (name, place)).collect()
        })
        .collect();
    kernel_views(
        stmts,
        |value| pattern_of(value).is_some() || value.is_call_of("R.call_tir"),
        |root, view| !mentions(view, |symbol| symbols.get(symbol) > made.get(root)),
    )
}

/// The symbols that the body declares, with the place of the cast that binds each.
fn symbols_bound(stmts: &[Stmt]) -> BTreeMap<Name, usize> {
    let mut declared = BTreeSet::new();
    let mut bound = BTreeMap::new();
    for (place, stmt) in stmts.iter().enumerate() {
        let StmtKind::Assign { target, value, .. } = &stmt.kind else {
            continue;
        };
        if value.is_call_of("T.int64") {
            declared.extend(target.as_name().cloned());
        } else if value.is_call_of("R.match_cast") {
            for name in names_read(value).intersection(&declared) {
                bound.entry(name.clone()).or_insert(place);
            }
        }
    }
    bound
}

//! Removes pure bindings that nothing reads, private functions that nothing calls, and weights without a use.
//!
//!     a = R.exp(x)
//!     b = R.sin(x)        →     b = R.sin(x)
//!     return b                  return b
//!
//! Inputs stay, used or not: they are the function's interface. Effects stay.

use std::collections::BTreeMap;

use irc_syntax::uses::{bound_names, for_each_name, for_each_read};
use irc_syntax::{Expr, ExprKind, FuncKind, Item, Module, Name, Stmt, StmtKind};

use super::graph::{count_uses, is_pure, reached};
use super::log::Log;
use super::{Changed, Pass, PassCx, set_num_input};
use crate::check::stage::Level;

/// The pass.
pub const PASS: Pass = Pass {
    name: "dead_code",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "remove what nothing reads",
    args: &[],
};

/// Runs the pass.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let before = module.clone();
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph)
    {
        let mut counts = count_uses(&func.body);
        sweep(&mut func.body, &mut counts, &cx.log);
        if func.is_private() {
            continue;
        }
        let num_input = cx.info.num_input(func);
        let num_input = num_input.min(func.params.len());
        let total = func.params.len();
        let mut position = 0;
        func.params.retain(|param| {
            position += 1;
            position <= num_input || counts.get(&param.name).is_some_and(|&count| count > 0)
        });
        if func.params.len() != total {
            set_num_input(func, num_input);
        }
    }
    sweep_funcs(module);
    Changed::from(*module != before)
}

/// Walks a block backwards; a pure binding whose names are all unread goes, and its reads no longer count.
fn sweep(stmts: &mut Vec<Stmt>, counts: &mut BTreeMap<Name, usize>, log: &Log) {
    let mut kept = Vec::with_capacity(stmts.len());
    while let Some(mut stmt) = stmts.pop() {
        let is_dead = match &mut stmt.kind {
            StmtKind::Assign { target, value, .. } => {
                is_pure(value)
                    && matches!(target.kind, ExprKind::Name(_) | ExprKind::Tuple { .. })
                    && bound_names(target)
                        .iter()
                        .all(|name| !is_read(name, counts))
                    && !value.is_call_of("R.match_cast")
                    // Declares a symbol, with facts that are checked at every call.
                    && !value.is_call_of("T.int64")
                    && target.as_name().is_none_or(|name| *name != *"cls")
            }
            StmtKind::If { then, orelse, .. } => {
                let results: Vec<Name> = then.iter().chain(&*orelse).flat_map(targets).collect();
                let live = results.iter().any(|name| is_read(name, counts))
                    || has_effect(then)
                    || has_effect(orelse);
                if live {
                    sweep(then, counts, log);
                    sweep(orelse, counts, log);
                }
                !live
            }
            StmtKind::Expr(value) => value.is_call_of("R.tuple"),
            _ => false,
        };
        let name = targets(&stmt).into_iter().next();
        let name = name.as_ref().map_or("", |name| name.as_str());
        if is_dead && log.allows(name, stmt.span, || "nothing reads it".to_owned()) {
            for_each_read(std::slice::from_ref(&stmt), &mut |expr| {
                forget(expr, counts)
            });
        } else {
            kept.push(stmt);
        }
    }
    kept.reverse();
    *stmts = kept;
}

fn is_read(name: &Name, counts: &BTreeMap<Name, usize>) -> bool {
    counts.get(name).is_some_and(|&count| count > 0)
}

fn targets(stmt: &Stmt) -> Vec<Name> {
    if let StmtKind::Assign { target, .. } = &stmt.kind {
        bound_names(target)
    } else {
        Vec::new()
    }
}

fn has_effect(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| match &stmt.kind {
        StmtKind::Expr(value) => !is_pure(value),
        StmtKind::If { then, orelse, .. } => has_effect(then) || has_effect(orelse),
        _ => false,
    })
}

fn forget(expr: &Expr, counts: &mut BTreeMap<Name, usize>) {
    for_each_name(expr, &mut |name| {
        if let Some(count) = counts.get_mut(name) {
            *count = count.saturating_sub(1);
        }
    });
}

/// Removes private functions that no function of the module reaches.
fn sweep_funcs(module: &mut Module) {
    let public = module.funcs().filter(|func| !func.is_private());
    let public = public.map(|func| func.name.clone()).collect();
    let reached = reached(module, public);
    module.items.retain(|item| match item {
        Item::Func(func) => reached.contains(&func.name),
        Item::Stmt(_) => true,
    });
}

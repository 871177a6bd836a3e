//! Replaces a binding whose value was computed before in the same block by the earlier name.
//!
//!     a = R.exp(x)
//!     b = R.exp(x)        →     a = R.exp(x)
//!     c = R.add(a, b)           c = R.add(a, a)
//!
//! Values are compared as printed; calls with an effect and run-time checks are left alone.

use std::collections::BTreeMap;

use irc_syntax::uses::substitute_stmt;
use irc_syntax::{Expr, ExprKind, Module, Name, Stmt, StmtKind, print_expr};

use super::graph::{for_each_block, is_pure};
use super::log::Log;
use super::{Changed, Pass, PassCx};
use crate::check::stage::Level;

/// The pass.
pub const PASS: Pass = Pass {
    name: "common_subexpr",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "compute equal values once",
    args: &[],
};

/// Runs the pass on every block of every graph function.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for_each_block(module, &mut |_, stmts| {
        changed |= merge_equal(stmts, &cx.log)
    });
    Changed::from(changed)
}

fn merge_equal(stmts: &mut Vec<Stmt>, log: &Log) -> bool {
    let mut first: BTreeMap<String, Name> = BTreeMap::new();
    let mut map: BTreeMap<Name, Expr> = BTreeMap::new();
    let mut kept = Vec::with_capacity(stmts.len());
    for mut stmt in stmts.drain(..) {
        if !map.is_empty() {
            substitute_stmt(&mut stmt, &map);
        }
        if let StmtKind::Assign { target, value, .. } = &stmt.kind
            && let (Some(name), ExprKind::Call { .. }) = (target.as_name(), &value.kind)
            && is_pure(value)
            && !value.is_call_of("R.match_cast")
            // `n = T.int64()` declares a symbol of its own.
            && value.as_call().is_some_and(|(path, _)| !path.starts_with("T."))
        {
            let key = print_expr(value);
            if let Some(earlier) = first.get(&key) {
                if !log.allows(name, stmt.span, || format!("it is `{earlier}`")) {
                    kept.push(stmt);
                    continue;
                }
                map.insert(name.clone(), Expr::name(earlier));
                continue;
            }
            first.insert(key, name.clone());
        }
        kept.push(stmt);
    }
    *stmts = kept;
    !map.is_empty()
}

//! Indices that are looked up, outside of the vector loops that use them.
//!
//!     for i, j in T.grid(n, 384):                        for i in T.parallel(n):
//!         with T.sblock("y"):                                at = Cast(ids[i])
//!             at = Cast(ids[i])                              assert 0 <= at and at < 1000, …
//!             assert 0 <= at and at < 1000, …      →         with T.sblock("y"):                         (a kernel region)
//!             y[i, j] = table[at, j]                             for jo in range(24): for vi in T.vectorized(16):
//!                                                                    y[i, jo * 16 + vi] = table[at, jo * 16 + vi]
//!
//! What a block names and checks first goes in front of the loops that it does not depend on. Where these may have no
//! round, nothing is looked up.

use std::collections::BTreeSet;

use irc_syntax::names::NameSupply;
use irc_syntax::uses::{for_each_expr, mentions};
use irc_syntax::{BinaryOp, Expr, Name, Stmt, StmtKind};

use super::Target;
use super::build::{guarded, less, parallel, region, serial};
use super::nest::{Buffers, Loop, Nest, accesses};
use super::parallelize::{Sharing, is_long, work_of};
use super::vectorize::map_inside;

/// Elements that are worth a kernel of their own.
const MIN_ROW: i64 = 32;

/// The code of an element-wise nest whose indices are looked up. `None` when it is of another kind.
pub fn look_up(
    names: &mut NameSupply,
    nest: &Nest,
    sharing: Sharing,
    target: Target,
    buffers: &Buffers,
) -> Option<Vec<Stmt>> {
    let last = nest.loops.last().filter(|_| nest.init.is_empty())?;
    let mut inside: BTreeSet<Name> = BTreeSet::from([last.var.clone()]);
    let (mut head, mut rest) = (Vec::new(), Vec::new());
    let mut is_head = true;
    for stmt in &nest.body {
        is_head &= match &stmt.kind {
            StmtKind::Assign { target, .. } => target.as_name().is_some(),
            StmtKind::Assert { .. } => true,
            _ => false,
        };
        if is_head && !mentions_any(stmt, &inside) {
            head.push(stmt.clone());
            continue;
        }
        if let StmtKind::Assign { target, .. } = &stmt.kind {
            inside.extend(target.as_name().cloned());
        }
        rest.push(stmt.clone());
    }
    let looked_up: BTreeSet<Name> = head
        .iter()
        .filter_map(|stmt| match &stmt.kind {
            StmtKind::Assign { target, .. } => target.as_name().cloned(),
            _ => None,
        })
        .collect();
    let is_index = accesses(&rest).iter().any(|access| {
        let mut index = access.index.iter();
        index.any(|expr| mentions(expr, |name| looked_up.contains(name)))
    });
    // The loops that the head depends on stay around it.
    let depends = |each: &Loop| {
        let var = BTreeSet::from([each.var.clone()]);
        head.iter().any(|stmt| mentions_any(stmt, &var))
    };
    let outer = nest.loops.iter().rposition(depends).map_or(0, |at| at + 1);
    let inner = &nest.loops[outer..];
    if !is_index || last.len().is_none_or(|len| len < MIN_ROW) {
        return None;
    }
    let row = Nest {
        name: nest.name.clone(),
        loops: inner.to_vec(),
        init: Vec::new(),
        body: rest,
    };
    let body = map_inside(names, &row, 0, target, buffers)?;
    head.push(region(&nest.name, body));
    let open = inner
        .iter()
        .filter(|each| each.len().is_none_or(|len| len < 1));
    let has_rounds = open
        .map(|each| less(Expr::int(0), each.extent.clone()))
        .reduce(|a, b| Expr::binary(BinaryOp::And, a, b));
    let stmts = guarded(has_rounds, head);
    let levels = &nest.loops[..outer];
    let shared = matches!(sharing, Sharing::Tasks(_)) && is_long(&nest.loops);
    if shared && work_of(inner) > 0 && !levels.is_empty() {
        let levels = levels
            .iter()
            .map(|each| (each.var.clone(), each.extent.clone()));
        return Some(parallel(names, levels.collect(), stmts));
    }
    Some(levels.iter().rev().fold(stmts, |body, each| {
        vec![serial(&each.var, each.extent.clone(), body)]
    }))
}

fn mentions_any(stmt: &Stmt, names: &BTreeSet<Name>) -> bool {
    let mut found = false;
    for_each_expr(std::slice::from_ref(stmt), &mut |expr| {
        found |= expr.as_name().is_some_and(|name| names.contains(name));
    });
    found
}

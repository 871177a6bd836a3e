//! States the extents that have to be equal and are not proved to be, so that the compiled program checks them.
//!
//!     y = R.matmul(a, b)          y_agree = R.match_cast(R.shape([m]), R.Shape([k]))
//!                            →    y = R.matmul(a, b)
//!
//! Here `a` is (n, k) and `b` is (m, p). Where one of two broadcast extents may be 1 instead, the product of the
//! differences is cast to 0. Extents with symbols that the text does not bind are left to the pass that binds them.

use std::collections::BTreeSet;

use irc_syntax::names::NameSupply;
use irc_syntax::uses::bound_names;
use irc_syntax::{Expr, FuncKind, Module, Name, Span, Stmt, StmtKind};

use super::{Changed, Pass, PassCx};
use crate::check::stage::Level;
use crate::check::{FuncInfo, Type, symbols_of};
use crate::shape::{Dim, Facts};

/// The pass.
pub const PASS: Pass = Pass {
    name: "guard",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "state extents that have to agree",
    args: &[],
};

/// Runs the pass on every graph function.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for func in module.funcs_mut() {
        let Some(info) = cx.info.funcs.get(&func.name) else {
            continue;
        };
        if func.kind != FuncKind::Graph || info.checks.is_empty() {
            continue;
        }
        let mut known: BTreeSet<Name> = info
            .params
            .iter()
            .flat_map(|(_, ty)| symbols_of(ty))
            .collect();
        let scalars = info
            .params
            .iter()
            .filter(|(_, ty)| matches!(ty, Type::Scalar(_)));
        known.extend(scalars.map(|(name, _)| name.clone()));
        let mut guard = Guard {
            info,
            names: NameSupply::of_func(func),
            changed: false,
        };
        let body = std::mem::take(&mut func.body);
        // What a guard has stated need not be stated again; ranges of symbols are known from the start.
        let mut facts = Facts::default();
        for (name, stated) in info.facts.symbols() {
            facts.set(name, stated.clone());
        }
        func.body = guard.block(body, &mut facts, &mut known);
        changed |= guard.changed;
    }
    changed.into()
}

struct Guard<'a> {
    info: &'a FuncInfo,
    names: NameSupply,
    changed: bool,
}

impl Guard<'_> {
    fn block(
        &mut self,
        body: Vec<Stmt>,
        facts: &mut Facts,
        known: &mut BTreeSet<Name>,
    ) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(body.len());
        for mut stmt in body {
            let span = stmt.span;
            match &mut stmt.kind {
                StmtKind::Assign { target, value, .. } => {
                    if let Some(name) = bound_names(target).first() {
                        out.extend(self.state(name, name, span, facts, known));
                    }
                    if value.is_call_of("R.match_cast") {
                        let ty = bound_names(target)
                            .first()
                            .and_then(|name| self.info.vars.get(name));
                        known.extend(ty.map(symbols_of).unwrap_or_default());
                    }
                }
                StmtKind::Return(_) => {
                    let (key, base) = (Name::from("return"), Name::from("result"));
                    out.extend(self.state(&key, &base, span, facts, known));
                }
                StmtKind::If { then, orelse, .. } => {
                    for branch in [then, orelse] {
                        let inner = std::mem::take(branch);
                        *branch = self.block(inner, &mut facts.clone(), &mut known.clone());
                    }
                }
                StmtKind::With { body, .. } => {
                    let inner = std::mem::take(body);
                    *body = self.block(inner, facts, known);
                }
                _ => {}
            }
            out.push(stmt);
        }
        out
    }

    /// The cast that states what the binding of a name asks for.
    fn state(
        &mut self,
        key: &Name,
        base: &Name,
        span: Option<Span>,
        facts: &mut Facts,
        known: &BTreeSet<Name>,
    ) -> Option<Stmt> {
        let (mut have, mut want) = (Vec::new(), Vec::new());
        for (a, b) in self.info.checks.get(key)? {
            let bound = |dim: &Dim| dim.symbols().iter().all(|name| known.contains(name));
            if !bound(a) || !bound(b) || facts.prove_eq(a, b).is_some() {
                continue;
            }
            facts.assume_eq(a, b);
            have.push(a.to_expr());
            want.push(b.to_expr());
        }
        if have.is_empty() {
            return None;
        }
        self.changed = true;
        let name = self.names.fresh(&format!("{base}_agree"));
        let shape = Expr::call("R.shape", [Expr::list(have)]);
        let cast = Expr::call(
            "R.match_cast",
            [shape, Expr::call("R.Shape", [Expr::list(want)])],
        );
        Some(Stmt::bind(&name, cast.at(span)).at(span))
    }
}

//! Puts the branch that is always taken in the place of an `if`.
//!
//!     c = R.const(True, "bool")
//!     if c:
//!         y = R.exp(x)                  →      y = R.exp(x)
//!     else:
//!         y = R.sin(x)
//!
//! The condition is a constant of one element, in the text or a weight that is one.

use std::collections::BTreeMap;

use irc_syntax::{Expr, FuncKind, Module, Name, Stmt, StmtKind};

use crate::check::stage::Level;
use crate::opt::log::Log;
use crate::opt::{Changed, Pass, PassCx};
use crate::syntax::DType;
use crate::tensor::{Tensor, Weights, parse_const};

/// The pass.
pub const PASS: Pass = Pass {
    name: "eliminate_if_with_const_cond",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "the branch that is always taken stands in the place of an if",
    args: &[],
};

/// Runs the pass on every graph function.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for func in module.funcs_mut() {
        if func.kind != FuncKind::Graph {
            continue;
        }
        let num_input = cx.info.num_input(func);
        let own: Vec<Name> = func
            .params
            .iter()
            .skip(num_input)
            .filter(|_| !func.is_private())
            .map(|param| param.name.clone())
            .collect();
        let mut walk = Walk {
            weights: cx.weights,
            own: &own,
            log: &cx.log,
            known: BTreeMap::new(),
            changed: false,
        };
        walk.block(&mut func.body);
        changed |= walk.changed;
    }
    Changed::from(changed)
}

struct Walk<'a> {
    weights: &'a Weights,
    own: &'a [Name],
    log: &'a Log,
    /// Constants that are bound.
    known: BTreeMap<Name, Expr>,
    changed: bool,
}

impl Walk<'_> {
    fn block(&mut self, stmts: &mut Vec<Stmt>) {
        let mut kept = Vec::with_capacity(stmts.len());
        for mut stmt in stmts.drain(..) {
            match &mut stmt.kind {
                StmtKind::Assign { target, value, .. } if value.is_call_of("R.const") => {
                    if let Some(name) = target.as_name() {
                        self.known.insert(name.clone(), value.clone());
                    }
                }
                StmtKind::If {
                    cond, then, orelse, ..
                } => {
                    let outside = self.known.clone();
                    self.block(then);
                    self.known.clone_from(&outside);
                    self.block(orelse);
                    self.known = outside;
                    let name = cond.as_name().map_or("", |name| name.as_str());
                    if let Some(truth) = self.truth(cond)
                        && self
                            .log
                            .allows(name, stmt.span, || format!("it is always {truth}"))
                    {
                        self.changed = true;
                        let mut taken = std::mem::take(if truth { then } else { orelse });
                        if let Some(first) = taken.first_mut() {
                            first.trivia.leading.splice(0..0, stmt.trivia.leading);
                        }
                        kept.append(&mut taken);
                        continue;
                    }
                }
                _ => {}
            }
            kept.push(stmt);
        }
        *stmts = kept;
    }

    /// What a condition always is.
    fn truth(&self, cond: &Expr) -> Option<bool> {
        let literal = |value: &Expr| -> Option<Tensor> {
            let (path, args) = value.as_call()?;
            (path == "R.const").then(|| parse_const(args).ok())?
        };
        let tensor = match cond.as_name() {
            None => literal(cond)?,
            Some(name) => match self.known.get(name) {
                Some(value) => literal(value)?,
                None => {
                    let weight = self.own.contains(name).then(|| self.weights.get(name))??;
                    (weight.shape.iter().product::<usize>() == 1).then(|| weight.tensor())?
                }
            },
        };
        let bytes = (tensor.dtype == DType::Bool && tensor.len() == 1).then_some(&tensor.data)?;
        Some(*bytes.first()? != 0)
    }
}

//! Blocks: axes, and initialization of reductions.
//!
//! `T.init` runs in the rounds where every reduction axis is at its least value. Where the loops right above a block are
//! exactly its reduction axes, it runs once before them instead, so that a reduction over nothing has its initial value.

use irc_syntax::uses::mentions;
use irc_syntax::{Expr, Name, Stmt, StmtKind};

use super::Compiler;
use super::expr::IntCode;
use super::machine::Machine;
use super::stmt::{Run, sequence};
use crate::interp::RunError;

/// One axis of a block.
struct Axis<'a> {
    name: &'a Name,
    is_reduce: bool,
    /// The least value; `None` for 0.
    least: Option<&'a Expr>,
    bound: &'a Expr,
}

/// The axes that a statement declares.
fn axes(stmt: &Stmt) -> Vec<Axis<'_>> {
    let StmtKind::Assign { target, value, .. } = &stmt.kind else {
        return Vec::new();
    };
    let Some((path, args)) = value.as_call() else {
        return Vec::new();
    };
    match (path.as_str(), args) {
        ("T.axis.remap", [kinds, bound]) => {
            let names = target.as_items().unwrap_or(std::slice::from_ref(target));
            let kinds = kinds.value.as_str().unwrap_or_default().chars();
            let bound = bound.value.as_items().unwrap_or_default();
            let each = kinds
                .zip(names)
                .zip(bound)
                .filter_map(|((kind, name), bound)| {
                    Some(Axis {
                        name: name.as_name()?,
                        is_reduce: kind == 'R',
                        least: None,
                        bound,
                    })
                });
            each.collect()
        }
        (
            "T.axis.spatial" | "T.axis.S" | "T.axis.reduce" | "T.axis.R" | "T.axis.scan"
            | "T.axis.opaque",
            [dom, bound],
        ) => {
            let Some(name) = target.as_name() else {
                return Vec::new();
            };
            let is_reduce = path == "T.axis.reduce" || path == "T.axis.R";
            let least = dom.value.as_items().and_then(<[Expr]>::first);
            vec![Axis {
                name,
                is_reduce,
                least,
                bound: &bound.value,
            }]
        }
        _ => Vec::new(),
    }
}

fn is_init(stmt: &Stmt) -> Option<&[Stmt]> {
    match &stmt.kind {
        StmtKind::With { context, body, .. } if context.is_call_of("T.init") => Some(body),
        _ => None,
    }
}

impl Compiler {
    /// The body of a block.
    pub(super) fn block(&mut self, body: &[Stmt]) -> Result<Run, RunError> {
        let Some(at) = body.iter().position(|stmt| is_init(stmt).is_some()) else {
            return self.body(body);
        };
        let scope = self.scope.clone();
        let parts = self.block_with_init(body, at);
        self.scope = scope;
        Ok(sequence(parts?))
    }

    fn block_with_init(&mut self, body: &[Stmt], at: usize) -> Result<Vec<Run>, RunError> {
        let head: Vec<Stmt> = body[..at]
            .iter()
            .filter(|stmt| !is_where(stmt))
            .cloned()
            .collect();
        let mut parts = self.statements(&head)?;
        let mut firsts: Vec<(IntCode, IntCode)> = Vec::new();
        for axis in body.iter().flat_map(axes).filter(|axis| axis.is_reduce) {
            let value = self.expr(&Expr::name(axis.name.clone()))?.into_int();
            let least: IntCode = match axis.least {
                Some(least) => self.expr(least)?.into_int(),
                None => Box::new(|_| Ok(0)),
            };
            firsts.push((value, least));
        }
        let init = self.body(is_init(&body[at]).unwrap_or_default())?;
        let mut guarded: Vec<Run> = vec![Box::new(move |m: &mut Machine| {
            for (value, least) in &firsts {
                if value(m)? != least(m)? {
                    return Ok(());
                }
            }
            init(m)
        })];
        guarded.extend(self.statements(&body[at + 1..])?);
        let rest = sequence(guarded);
        match body[..at].iter().find(|stmt| is_where(stmt)) {
            Some(stmt) => {
                let cond = predicate(stmt)
                    .ok_or_else(|| RunError::type_error("`T.where` without a condition"))?;
                let cond = self.expr(cond)?.into_truth();
                parts.push(Box::new(
                    move |m| if cond(m)? != 0 { rest(m) } else { Ok(()) },
                ));
            }
            None => parts.push(rest),
        }
        Ok(parts)
    }

    /// A nest of loops around one block with `T.init` whose innermost loops are its reduction axes; `None` for any other.
    pub(super) fn reduction_nest(
        &mut self,
        target: &Expr,
        iter: &Expr,
        body: &[Stmt],
    ) -> Result<Option<Run>, RunError> {
        let mut levels = vec![(target, iter)];
        let mut inner = body;
        while let [
            Stmt {
                kind: StmtKind::For { target, iter, body },
                ..
            },
        ] = inner
        {
            levels.push((target, iter));
            inner = body;
        }
        let [
            Stmt {
                kind:
                    StmtKind::With {
                        context,
                        body: block,
                        ..
                    },
                ..
            },
        ] = inner
        else {
            return Ok(None);
        };
        let is_block = context.is_call_of("T.sblock") || context.is_call_of("T.block");
        let Some(at) = block.iter().position(|stmt| is_init(stmt).is_some()) else {
            return Ok(None);
        };
        if !is_block || block.iter().any(is_where) {
            return Ok(None);
        }
        let vars: Vec<&Name> = levels
            .iter()
            .flat_map(|(target, _)| target.as_items().unwrap_or(std::slice::from_ref(*target)))
            .filter_map(Expr::as_name)
            .collect();
        let all: Vec<Axis> = block[..at].iter().flat_map(axes).collect();
        let reduced: Vec<&Name> = all
            .iter()
            .filter(|axis| axis.is_reduce)
            .filter_map(|axis| axis.bound.as_name())
            .collect();
        let n_reduce = all.iter().filter(|axis| axis.is_reduce).count();
        let n_outer = vars.len().saturating_sub(n_reduce);
        let fits = n_reduce > 0
            && reduced.len() == n_reduce
            && vars[n_outer..].iter().all(|var| reduced.contains(var))
            && all.iter().all(|axis| {
                axis.is_reduce || !mentions(axis.bound, |name| vars[n_outer..].contains(&name))
            });
        if !fits {
            return Ok(None);
        }
        let scope = self.scope.clone();
        let run = self.split_nest(&levels, n_outer, block, at, &all);
        self.scope = scope;
        run.map(Some)
    }

    fn split_nest(
        &mut self,
        levels: &[(&Expr, &Expr)],
        n_outer: usize,
        block: &[Stmt],
        at: usize,
        all: &[Axis],
    ) -> Result<Run, RunError> {
        let mut heads = Vec::new();
        for (target, iter) in levels {
            for each in self.loops(target, iter)? {
                heads.push(self.head(each));
            }
        }
        let inner = heads.split_off(n_outer);
        let scope = self.scope.clone();
        let mut init = Vec::new();
        for axis in all.iter().filter(|axis| !axis.is_reduce) {
            init.push(self.bind(axis.name, axis.bound)?);
        }
        init.push(self.body(is_init(&block[at]).unwrap_or_default())?);
        self.scope = scope;
        let rest: Vec<Stmt> = block
            .iter()
            .enumerate()
            .filter(|(idx, _)| *idx != at)
            .map(|(_, stmt)| stmt.clone())
            .collect();
        let mut run = self.body(&rest)?;
        for head in inner.into_iter().rev() {
            run = head.around(run);
        }
        init.push(run);
        let mut run = sequence(init);
        for head in heads.into_iter().rev() {
            run = head.around(run);
        }
        Ok(run)
    }
}

fn is_where(stmt: &Stmt) -> bool {
    predicate(stmt).is_some()
}

fn predicate(stmt: &Stmt) -> Option<&Expr> {
    match &stmt.kind {
        StmtKind::Expr(call) if call.is_call_of("T.where") => call.positional().next(),
        _ => None,
    }
}

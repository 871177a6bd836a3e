//! Programs cut, joined and looked into: tools that make another program of one or two, weights included.
//!
//! `extract` cuts a part out of a function, `merge` joins two programs, `weights` changes what a program's weights are called and hold, `expose` makes results of values inside a function, so that compiled code shows them. Every edit gives a program that
//! checks, or says why there is none; names, comments and attributes that are still true stay. Tests are in `tests/cli`.

pub mod expose;
pub mod extract;
pub mod merge;
mod rename;
pub mod weights;

use std::collections::BTreeSet;

use irc_syntax::uses::bound_names;
use irc_syntax::{Expr, ExprKind, Func, Item, Module, Name, Span, Stmt, StmtKind, print_expr};

use crate::check::{Type, type_to_expr};
use crate::opt::graph::reached;
use crate::opt::set_func_attr;

/// Why a program that came out of a build is not edited: what a call writes is no value that it binds.
const PLANNED: &str =
    "tensors have their places already; the program that it was made of has values";

/// Takes out the functions that `name` does not need.
fn keep_reached(module: &mut Module, name: &Name) {
    let reached = reached(module, BTreeSet::from([name.clone()]));
    module.items.retain(|item| match item {
        Item::Func(func) => reached.contains(&func.name),
        Item::Stmt(_) => true,
    });
}

/// Statements with those of `with R.dataflow()` blocks in the place of the blocks.
fn flatten(stmts: Vec<Stmt>) -> Vec<Stmt> {
    let mut res = Vec::with_capacity(stmts.len());
    for stmt in stmts {
        match stmt.kind {
            StmtKind::With { body, .. } => res.extend(flatten(body)),
            StmtKind::Expr(call) if call.is_call_of("R.output") => {}
            kind => res.push(Stmt { kind, ..stmt }),
        }
    }
    res
}

/// A type as signatures have it, its symbols in quotes.
fn written_type(ty: &Type) -> Expr {
    let mut ty = type_to_expr(ty);
    rename::quote_dims(&mut ty);
    ty
}

/// An extent in quotes, unless it is a number.
fn quoted(dim: &mut Expr) {
    if dim.as_str().is_none() && dim.as_int().is_none() {
        *dim = Expr::str(print_expr(dim)).at(dim.span);
    }
}

/// Whether a statement binds a name, for those after it.
fn binds(stmt: &Stmt, name: &Name) -> bool {
    match &stmt.kind {
        StmtKind::If { then, orelse, .. } => {
            let binds = |stmts: &[Stmt]| stmts.iter().any(|stmt| binds(stmt, name));
            binds(then) && binds(orelse)
        }
        _ => bound_by(stmt).contains(name),
    }
}

/// The names that a statement binds, those inside its branches included.
fn bound_by(stmt: &Stmt) -> Vec<Name> {
    match &stmt.kind {
        StmtKind::Assign { target, .. } | StmtKind::Declare { target, .. } => bound_names(target),
        StmtKind::If { then, orelse, .. } => then.iter().chain(orelse).flat_map(bound_by).collect(),
        StmtKind::Func(func) => vec![func.name.clone()],
        StmtKind::With { .. }
        | StmtKind::Expr(_)
        | StmtKind::For { .. }
        | StmtKind::While { .. }
        | StmtKind::Return(_)
        | StmtKind::Assert { .. }
        | StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Pass
        | StmtKind::Import(_)
        | StmtKind::Error => Vec::new(),
    }
}

/// `n = T.int64()`
fn is_declaration(stmt: &Stmt) -> bool {
    let StmtKind::Assign { value, .. } = &stmt.kind else {
        return false;
    };
    let call = value.as_call();
    call.is_some_and(|(path, args)| {
        path.starts_with("T.") && args.iter().all(|arg| arg.name.is_some())
    })
}

/// The place of a `return` in a statement.
fn returns(stmt: &Stmt) -> Option<Option<Span>> {
    match &stmt.kind {
        StmtKind::Return(_) => Some(stmt.span),
        StmtKind::If { then, orelse, .. } => then.iter().chain(orelse).find_map(returns),
        _ => None,
    }
}

/// Sets attributes of a function, or takes away those without a value, and with the last the statement.
fn set_attrs(func: &mut Func, attrs: &[(&str, Option<Expr>)]) {
    for (key, value) in attrs {
        if let Some(value) = value {
            set_func_attr(func, key, value.clone());
        }
    }
    func.body.retain_mut(|stmt| {
        let StmtKind::Expr(call) = &mut stmt.kind else {
            return true;
        };
        let is_attrs = call.is_call_of("R.func_attr");
        let ExprKind::Call { args, .. } = &mut call.kind else {
            return true;
        };
        match args.first_mut().map(|arg| &mut arg.value.kind) {
            Some(ExprKind::Dict(items)) if is_attrs => {
                items.retain(|(name, _)| {
                    let gone = attrs.iter().find(|(key, _)| name.as_str() == Some(key));
                    gone.is_none_or(|(_, value)| value.is_some())
                });
                !items.is_empty()
            }
            _ => true,
        }
    });
}

//! Questions about names and expressions that a closure answers, and replacing names.
//!
//! *Reads* are what is evaluated: `for i in range(n)` reads `n`, `a[i] = x` reads `i` and `x`, `R.add(x, y)` reads `x` and
//! `y`. *Mentions* are every occurrence, what is bound, stored to and called included.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::*;
use crate::visit::{Visit, VisitMut, walk_expr, walk_expr_mut};

/// Calls `found` for every expression in statements, each before its parts; functions inside and targets too.
pub fn for_each_expr(stmts: &[Stmt], found: &mut dyn FnMut(&Expr)) {
    Exprs(found).visit_body(stmts);
}

/// Calls `found` for an expression and every one inside it, each before its parts.
pub fn for_each_subexpr(expr: &Expr, found: &mut dyn FnMut(&Expr)) {
    Exprs(found).visit_expr(expr);
}

struct Exprs<'f>(&'f mut dyn FnMut(&Expr));

impl Visit for Exprs<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        (self.0)(expr);
        walk_expr(self, expr);
    }
}

/// Whether an expression mentions a name that `wanted` holds for.
pub fn mentions(expr: &Expr, wanted: impl Fn(&Name) -> bool) -> bool {
    let mut res = false;
    for_each_subexpr(expr, &mut |part| res |= part.as_name().is_some_and(&wanted));
    res
}

/// The names that statements mention.
pub fn mentioned(stmts: &[Stmt]) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for_each_expr(stmts, &mut |expr| names.extend(expr.as_name().cloned()));
    names
}

/// Calls `found` for every expression that statements evaluate, whole; what they bind is none, what they store to is.
pub fn for_each_read(stmts: &[Stmt], found: &mut dyn FnMut(&Expr)) {
    struct Reads<'f>(&'f mut dyn FnMut(&Expr));
    impl Visit for Reads<'_> {
        fn visit_func(&mut self, func: &Func) {
            self.visit_body(&func.body);
        }

        fn visit_target(&mut self, target: &Expr) {
            if let ExprKind::Index { .. } = target.kind {
                self.visit_expr(target);
            }
        }

        fn visit_expr(&mut self, expr: &Expr) {
            (self.0)(expr);
        }
    }
    Reads(found).visit_body(stmts);
}

/// Calls `found` with every name that `expr` reads, in order; callees and keywords are not names.
pub fn for_each_name(expr: &Expr, found: &mut dyn FnMut(&Name)) {
    struct Names<'f>(&'f mut dyn FnMut(&Name));
    impl Visit for Names<'_> {
        fn visit_expr(&mut self, expr: &Expr) {
            match &expr.kind {
                ExprKind::Name(name) => (self.0)(name),
                ExprKind::Attr { value, .. } if is_namespace(value) => {}
                ExprKind::Call { args, .. } => {
                    args.iter().for_each(|arg| self.visit_expr(&arg.value));
                }
                _ => walk_expr(self, expr),
            }
        }
    }
    Names(found).visit_expr(expr);
}

/// Whether an expression is the head of a dotted name of the language: `R`, `T`, `I`, `cls`.
fn is_namespace(expr: &Expr) -> bool {
    expr.as_name()
        .is_some_and(|name| matches!(name.as_str(), "R" | "T" | "I" | "cls"))
}

/// The names that `expr` reads, sorted.
pub fn names_read(expr: &Expr) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for_each_name(expr, &mut |name| {
        names.insert(name.clone());
    });
    names
}

/// Names that a target binds: `x`, or the members of `a, b`.
pub fn bound_names(target: &Expr) -> Vec<Name> {
    match &target.kind {
        ExprKind::Name(name) => vec![name.clone()],
        ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
            items.iter().flat_map(bound_names).collect()
        }
        _ => Vec::new(),
    }
}

/// Replaces every name that is read in `expr` by its entry in `map`; what takes its place keeps the name's place.
pub fn substitute(expr: &mut Expr, map: &BTreeMap<Name, Expr>) {
    Substitute(map).visit_expr(expr);
}

/// [`substitute`] in every expression of a statement, nested blocks included; targets keep their names.
pub fn substitute_stmt(stmt: &mut Stmt, map: &BTreeMap<Name, Expr>) {
    Substitute(map).visit_stmt(stmt);
}

struct Substitute<'m>(&'m BTreeMap<Name, Expr>);

impl VisitMut for Substitute<'_> {
    fn visit_func(&mut self, func: &mut Func) {
        self.visit_body(&mut func.body);
    }

    fn visit_target(&mut self, target: &mut Expr) {
        if let ExprKind::Index { .. } = target.kind {
            self.visit_expr(target);
        }
    }

    fn visit_expr(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Name(name) => {
                if let Some(value) = self.0.get(name) {
                    let span = expr.span;
                    *expr = value.clone();
                    expr.span = span.or(expr.span);
                }
            }
            ExprKind::Call { args, .. } => {
                args.iter_mut()
                    .for_each(|arg| self.visit_expr(&mut arg.value));
            }
            _ => walk_expr_mut(self, expr),
        }
    }
}

//! Names of functions, values and symbols changed wherever they stand: bound, read, called, and in quotes in a type.

use std::collections::BTreeMap;

use irc_syntax::visit::{walk_expr_mut, walk_func_mut};
use irc_syntax::{Expr, ExprKind, Func, Module, Name, Param, Stmt, VisitMut};

use super::quoted;
use crate::shape::Dim;

/// What is called otherwise.
#[derive(Default)]
pub(super) struct Renamer {
    /// Values and symbols, and what stands in their place; a name that is bound may only get another name.
    pub(super) values: BTreeMap<Name, Expr>,
    /// Functions of the module.
    pub(super) funcs: BTreeMap<Name, Name>,
    /// The name of the module, and that of the one that its functions go to.
    pub(super) module: Option<Name>,
    pub(super) new_module: Option<Name>,
    /// Symbols that stand for extents.
    pub(super) settled: BTreeMap<Name, Dim>,
}

impl Renamer {
    /// Renames the functions of a module and their calls.
    pub(super) fn module_funcs(&mut self, module: &mut Module) {
        for func in module.funcs_mut() {
            self.visit_func(func);
            if let Some(name) = self.funcs.get(&func.name) {
                func.name = name.clone();
            }
        }
    }

    pub(super) fn stmt(&mut self, stmt: &mut Stmt) {
        self.visit_stmt(stmt);
    }

    pub(super) fn expr(&mut self, expr: &mut Expr) {
        self.visit_expr(expr);
    }

    pub(super) fn param(&mut self, param: &mut Param) {
        if let Some(name) = self.values.get(&param.name).and_then(Expr::as_name) {
            param.name = name.clone();
        }
        if let Some(ty) = &mut param.ty {
            self.visit_expr(ty);
            quote_dims(ty);
        }
    }
}

impl VisitMut for Renamer {
    fn visit_func(&mut self, func: &mut Func) {
        for param in &mut func.params {
            if let Some(name) = self.values.get(&param.name).and_then(Expr::as_name) {
                param.name = name.clone();
            }
        }
        walk_func_mut(self, func);
    }

    fn visit_expr(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Name(name) => {
                if let Some(value) = self.values.get(name) {
                    let span = expr.span;
                    *expr = value.clone();
                    expr.span = span.or(expr.span);
                } else if self.module.as_ref() == Some(name) {
                    *name = self.new_module.clone().unwrap_or_else(|| name.clone());
                }
            }
            ExprKind::Attr { value, name } => {
                let base = value.as_name();
                let is_module = base.is_some_and(|base| Some(base) == self.module.as_ref());
                if is_module || base.is_some_and(|base| *base == *"cls") {
                    self.visit_expr(value);
                    if let Some(new) = self.funcs.get(name) {
                        *name = new.clone();
                    }
                } else if base.is_none() {
                    walk_expr_mut(self, expr);
                }
            }
            ExprKind::Call { func, args } => {
                let is_type = func.as_path().is_some_and(|path| {
                    matches!(path.as_str(), "R.Tensor" | "R.Shape" | "R.shape")
                });
                // A local function is called by a name.
                self.visit_expr(func);
                for arg in args {
                    if is_type && arg.name.as_deref() != Some("dtype") {
                        self.dims(&mut arg.value);
                    }
                    self.visit_expr(&mut arg.value);
                }
            }
            _ => walk_expr_mut(self, expr),
        }
    }
}

impl Renamer {
    /// Extents in quotes as expressions, where a name in them changes.
    fn dims(&self, expr: &mut Expr) {
        let (ExprKind::Tuple { items, .. } | ExprKind::List(items)) = &mut expr.kind else {
            return;
        };
        for item in items {
            let dim = item.as_str().and_then(|_| Dim::from_expr(item).ok());
            if let Some(dim) = dim
                && dim
                    .symbols()
                    .iter()
                    .any(|name| self.values.contains_key(name))
            {
                *item = dim.to_expr();
            }
        }
    }
}

/// Puts the extents of a type that are no numbers into quotes, as signatures have them.
pub(super) fn quote_dims(ty: &mut Expr) {
    let is_type = ["R.Tensor", "R.Shape"]
        .iter()
        .any(|path| ty.is_call_of(path));
    let is_outer = ["R.Tuple", "R.Seq", "R.Opt"]
        .iter()
        .any(|path| ty.is_call_of(path));
    let ExprKind::Call { args, .. } = &mut ty.kind else {
        return;
    };
    for arg in args {
        if is_outer {
            quote_dims(&mut arg.value);
            continue;
        }
        let (ExprKind::Tuple { items, .. } | ExprKind::List(items)) = &mut arg.value.kind else {
            continue;
        };
        for item in items.iter_mut().filter(|_| is_type) {
            quoted(item);
        }
    }
}

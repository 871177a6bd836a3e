//! Walks over the tree: read with [`Visit`], change with [`VisitMut`].
//!
//! Override what is of interest and call the `walk_` function of the same name to go on below it. A pass that
//! adds or removes statements overrides [`VisitMut::visit_body`].

use crate::ast::*;

/// A walk that reads. Order is written order.
pub trait Visit {
    /// A function, also a nested one.
    fn visit_func(&mut self, func: &Func) {
        walk_func(self, func);
    }

    /// A statement.
    fn visit_stmt(&mut self, stmt: &Stmt) {
        walk_stmt(self, stmt);
    }

    /// An expression, also an annotation or target.
    fn visit_expr(&mut self, expr: &Expr) {
        walk_expr(self, expr);
    }
}

/// A walk that changes. Order is written order.
pub trait VisitMut {
    /// A function, also a nested one.
    fn visit_func(&mut self, func: &mut Func) {
        walk_func_mut(self, func);
    }

    /// The statements of a function, branch, loop or block.
    fn visit_body(&mut self, body: &mut Vec<Stmt>) {
        walk_body_mut(self, body);
    }

    /// A statement.
    fn visit_stmt(&mut self, stmt: &mut Stmt) {
        walk_stmt_mut(self, stmt);
    }

    /// An expression, also an annotation or target.
    fn visit_expr(&mut self, expr: &mut Expr) {
        walk_expr_mut(self, expr);
    }
}

/// Every statement before the module and every item of it.
pub fn walk_module<V: Visit + ?Sized>(visit: &mut V, module: &Module) {
    for stmt in &module.prelude {
        visit.visit_stmt(stmt);
    }
    for item in &module.items {
        match item {
            Item::Func(func) => visit.visit_func(func),
            Item::Stmt(stmt) => visit.visit_stmt(stmt),
        }
    }
}

/// The parts of a function.
pub fn walk_func<V: Visit + ?Sized>(visit: &mut V, func: &Func) {
    for arg in &func.decorator {
        visit.visit_expr(&arg.value);
    }
    for param in &func.params {
        for expr in param.ty.iter().chain(&param.default) {
            visit.visit_expr(expr);
        }
    }
    if let Some(ret) = &func.ret {
        visit.visit_expr(ret);
    }
    walk_body(visit, &func.body);
}

/// The statements of a body.
pub fn walk_body<V: Visit + ?Sized>(visit: &mut V, body: &[Stmt]) {
    for stmt in body {
        visit.visit_stmt(stmt);
    }
}

/// The parts of a statement.
pub fn walk_stmt<V: Visit + ?Sized>(visit: &mut V, stmt: &Stmt) {
    match &stmt.kind {
        StmtKind::Assign { target, ty, value } => {
            visit.visit_expr(target);
            if let Some(ty) = ty {
                visit.visit_expr(ty);
            }
            visit.visit_expr(value);
        }
        StmtKind::Declare { target, ty } => {
            visit.visit_expr(target);
            visit.visit_expr(ty);
        }
        StmtKind::Expr(value) => visit.visit_expr(value),
        StmtKind::If {
            cond, then, orelse, ..
        } => {
            visit.visit_expr(cond);
            walk_body(visit, then);
            walk_body(visit, orelse);
        }
        StmtKind::For { target, iter, body } => {
            visit.visit_expr(target);
            visit.visit_expr(iter);
            walk_body(visit, body);
        }
        StmtKind::While { cond, body } => {
            visit.visit_expr(cond);
            walk_body(visit, body);
        }
        StmtKind::With {
            context,
            target,
            body,
        } => {
            visit.visit_expr(context);
            if let Some(target) = target {
                visit.visit_expr(target);
            }
            walk_body(visit, body);
        }
        StmtKind::Return(value) => {
            if let Some(value) = value {
                visit.visit_expr(value);
            }
        }
        StmtKind::Assert { cond, message } => {
            visit.visit_expr(cond);
            if let Some(message) = message {
                visit.visit_expr(message);
            }
        }
        StmtKind::Func(func) => visit.visit_func(func),
        StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Pass
        | StmtKind::Import(_)
        | StmtKind::Error => {}
    }
}

/// The parts of an expression.
pub fn walk_expr<V: Visit + ?Sized>(visit: &mut V, expr: &Expr) {
    match &expr.kind {
        ExprKind::Attr { value, .. } | ExprKind::Unary { value, .. } | ExprKind::Starred(value) => {
            visit.visit_expr(value);
        }
        ExprKind::Call { func, args } => {
            visit.visit_expr(func);
            for arg in args {
                visit.visit_expr(&arg.value);
            }
        }
        ExprKind::Index { value, index } => {
            visit.visit_expr(value);
            for item in index {
                visit.visit_expr(item);
            }
        }
        ExprKind::Slice { lo, hi, step } => {
            for part in [lo, hi, step].into_iter().flatten() {
                visit.visit_expr(part);
            }
        }
        ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
            for item in items {
                visit.visit_expr(item);
            }
        }
        ExprKind::Dict(items) => {
            for (key, value) in items {
                visit.visit_expr(key);
                visit.visit_expr(value);
            }
        }
        ExprKind::Binary { lhs, rhs, .. } => {
            visit.visit_expr(lhs);
            visit.visit_expr(rhs);
        }
        ExprKind::IfElse { cond, then, orelse } => {
            visit.visit_expr(then);
            visit.visit_expr(cond);
            visit.visit_expr(orelse);
        }
        ExprKind::ListComp {
            element,
            target,
            iter,
            cond,
        } => {
            for part in [element, target, iter].into_iter().chain(cond) {
                visit.visit_expr(part);
            }
        }
        ExprKind::Name(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Str(_)
        | ExprKind::Bool(_)
        | ExprKind::None
        | ExprKind::Ellipsis
        | ExprKind::Error => {}
    }
}

/// Every statement before the module and every item of it.
pub fn walk_module_mut<V: VisitMut + ?Sized>(visit: &mut V, module: &mut Module) {
    for stmt in &mut module.prelude {
        visit.visit_stmt(stmt);
    }
    for item in &mut module.items {
        match item {
            Item::Func(func) => visit.visit_func(func),
            Item::Stmt(stmt) => visit.visit_stmt(stmt),
        }
    }
}

/// The parts of a function.
pub fn walk_func_mut<V: VisitMut + ?Sized>(visit: &mut V, func: &mut Func) {
    for arg in &mut func.decorator {
        visit.visit_expr(&mut arg.value);
    }
    for param in &mut func.params {
        for expr in param.ty.iter_mut().chain(&mut param.default) {
            visit.visit_expr(expr);
        }
    }
    if let Some(ret) = &mut func.ret {
        visit.visit_expr(ret);
    }
    visit.visit_body(&mut func.body);
}

/// The statements of a body.
pub fn walk_body_mut<V: VisitMut + ?Sized>(visit: &mut V, body: &mut Vec<Stmt>) {
    for stmt in body {
        visit.visit_stmt(stmt);
    }
}

/// The parts of a statement.
pub fn walk_stmt_mut<V: VisitMut + ?Sized>(visit: &mut V, stmt: &mut Stmt) {
    match &mut stmt.kind {
        StmtKind::Assign { target, ty, value } => {
            visit.visit_expr(target);
            if let Some(ty) = ty {
                visit.visit_expr(ty);
            }
            visit.visit_expr(value);
        }
        StmtKind::Declare { target, ty } => {
            visit.visit_expr(target);
            visit.visit_expr(ty);
        }
        StmtKind::Expr(value) => visit.visit_expr(value),
        StmtKind::If {
            cond, then, orelse, ..
        } => {
            visit.visit_expr(cond);
            visit.visit_body(then);
            visit.visit_body(orelse);
        }
        StmtKind::For { target, iter, body } => {
            visit.visit_expr(target);
            visit.visit_expr(iter);
            visit.visit_body(body);
        }
        StmtKind::While { cond, body } => {
            visit.visit_expr(cond);
            visit.visit_body(body);
        }
        StmtKind::With {
            context,
            target,
            body,
        } => {
            visit.visit_expr(context);
            if let Some(target) = target {
                visit.visit_expr(target);
            }
            visit.visit_body(body);
        }
        StmtKind::Return(value) => {
            if let Some(value) = value {
                visit.visit_expr(value);
            }
        }
        StmtKind::Assert { cond, message } => {
            visit.visit_expr(cond);
            if let Some(message) = message {
                visit.visit_expr(message);
            }
        }
        StmtKind::Func(func) => visit.visit_func(func),
        StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Pass
        | StmtKind::Import(_)
        | StmtKind::Error => {}
    }
}

/// The parts of an expression.
pub fn walk_expr_mut<V: VisitMut + ?Sized>(visit: &mut V, expr: &mut Expr) {
    match &mut expr.kind {
        ExprKind::Attr { value, .. } | ExprKind::Unary { value, .. } | ExprKind::Starred(value) => {
            visit.visit_expr(value);
        }
        ExprKind::Call { func, args } => {
            visit.visit_expr(func);
            for arg in args {
                visit.visit_expr(&mut arg.value);
            }
        }
        ExprKind::Index { value, index } => {
            visit.visit_expr(value);
            for item in index {
                visit.visit_expr(item);
            }
        }
        ExprKind::Slice { lo, hi, step } => {
            for part in [lo, hi, step].into_iter().flatten() {
                visit.visit_expr(part);
            }
        }
        ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
            for item in items {
                visit.visit_expr(item);
            }
        }
        ExprKind::Dict(items) => {
            for (key, value) in items {
                visit.visit_expr(key);
                visit.visit_expr(value);
            }
        }
        ExprKind::Binary { lhs, rhs, .. } => {
            visit.visit_expr(lhs);
            visit.visit_expr(rhs);
        }
        ExprKind::IfElse { cond, then, orelse } => {
            visit.visit_expr(then);
            visit.visit_expr(cond);
            visit.visit_expr(orelse);
        }
        ExprKind::ListComp {
            element,
            target,
            iter,
            cond,
        } => {
            for part in [element, target, iter].into_iter().chain(cond) {
                visit.visit_expr(part);
            }
        }
        ExprKind::Name(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Str(_)
        | ExprKind::Bool(_)
        | ExprKind::None
        | ExprKind::Ellipsis
        | ExprKind::Error => {}
    }
}

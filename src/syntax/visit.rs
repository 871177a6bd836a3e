//! Walks over the tree: read with [`Visit`], change with [`VisitMut`].
//!
//! Override what is of interest and call the `walk_` function of the same name to go on below it. A pass that
//! adds or removes statements overrides `visit_body` of [`VisitMut`]. Order is written order. For a question
//! about names or expressions a closure will do: see `uses.rs`.

use crate::ast::*;

/// Defines a trait and its walks; both kinds of walk go the same way, so there is one text for them.
///
/// `$mutability` is `mut` or nothing, and stands behind every `&`; `$body` is what a list of statements is seen as.
macro_rules! walks {
    (
        $(#[$doc:meta])*
        trait $Visit:ident<$body:ty> $(, $mutability:tt)?;
        $walk_module:ident, $walk_func:ident, $walk_body:ident, $walk_stmt:ident, $walk_expr:ident
    ) => {
        $(#[$doc])*
        pub trait $Visit {
            /// A function, also a nested one.
            fn visit_func(&mut self, func: &$($mutability)? Func) {
                $walk_func(self, func);
            }

            /// The statements of a function, branch, loop or block.
            fn visit_body(&mut self, body: &$($mutability)? $body) {
                $walk_body(self, body);
            }

            /// A statement.
            fn visit_stmt(&mut self, stmt: &$($mutability)? Stmt) {
                $walk_stmt(self, stmt);
            }

            /// What a statement binds, declares or stores to: names, or the place of an element.
            fn visit_target(&mut self, target: &$($mutability)? Expr) {
                self.visit_expr(target);
            }

            /// An expression, also an annotation.
            fn visit_expr(&mut self, expr: &$($mutability)? Expr) {
                $walk_expr(self, expr);
            }
        }

        /// Every statement before the module and every item of it.
        pub fn $walk_module<V: $Visit + ?Sized>(visit: &mut V, module: &$($mutability)? Module) {
            for stmt in &$($mutability)? module.prelude {
                visit.visit_stmt(stmt);
            }
            for item in &$($mutability)? module.items {
                match item {
                    Item::Func(func) => visit.visit_func(func),
                    Item::Stmt(stmt) => visit.visit_stmt(stmt),
                }
            }
        }

        /// The parts of a function.
        pub fn $walk_func<V: $Visit + ?Sized>(visit: &mut V, func: &$($mutability)? Func) {
            for arg in &$($mutability)? func.decorator {
                visit.visit_expr(&$($mutability)? arg.value);
            }
            for param in &$($mutability)? func.params {
                let parts = [&$($mutability)? param.ty, &$($mutability)? param.default];
                for expr in parts.into_iter().flatten() {
                    visit.visit_expr(expr);
                }
            }
            if let Some(ret) = &$($mutability)? func.ret {
                visit.visit_expr(ret);
            }
            visit.visit_body(&$($mutability)? func.body);
        }

        /// The statements of a body.
        pub fn $walk_body<V: $Visit + ?Sized>(visit: &mut V, body: &$($mutability)? $body) {
            for stmt in body {
                visit.visit_stmt(stmt);
            }
        }

        /// The parts of a statement.
        pub fn $walk_stmt<V: $Visit + ?Sized>(visit: &mut V, stmt: &$($mutability)? Stmt) {
            match &$($mutability)? stmt.kind {
                StmtKind::Assign { target, ty, value } => {
                    visit.visit_target(target);
                    if let Some(ty) = ty {
                        visit.visit_expr(ty);
                    }
                    visit.visit_expr(value);
                }
                StmtKind::Declare { target, ty } => {
                    visit.visit_target(target);
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
                    visit.visit_target(target);
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
                        visit.visit_target(target);
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
        pub fn $walk_expr<V: $Visit + ?Sized>(visit: &mut V, expr: &$($mutability)? Expr) {
            match &$($mutability)? expr.kind {
                ExprKind::Attr { value, .. }
                | ExprKind::Unary { value, .. }
                | ExprKind::Starred(value) => visit.visit_expr(value),
                ExprKind::Call { func, args } => {
                    visit.visit_expr(func);
                    for arg in args {
                        visit.visit_expr(&$($mutability)? arg.value);
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
                    visit.visit_expr(element);
                    visit.visit_target(target);
                    visit.visit_expr(iter);
                    if let Some(cond) = cond {
                        visit.visit_expr(cond);
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
    };
}

walks! {
    /// A walk that reads.
    trait Visit<[Stmt]>;
    walk_module, walk_func, walk_body, walk_stmt, walk_expr
}

walks! {
    /// A walk that changes.
    trait VisitMut<Vec<Stmt>>, mut;
    walk_module_mut, walk_func_mut, walk_body_mut, walk_stmt_mut, walk_expr_mut
}

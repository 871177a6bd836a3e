//! Equality of trees that ignores places, comments, and how a tuple was bracketed.
//!
//! [`is_identical`] compares names as text: what printing and parsing must keep. [`Same`] also ignores the names
//! of bound variables: parameters, and what statements of a function bind. Names of functions, attributes and
//! keywords always count. Floats compare by their bits, `-3` is one number however it was built, and an
//! empty block equals one that holds `pass`.

use crate::ast::*;
use std::collections::HashMap;

/// Equality up to places, comments and bound names.
pub trait Same {
    /// Whether the two mean the same text.
    fn same(&self, other: &Self) -> bool;
}

/// Whether two modules are equal but for places and comments.
pub fn is_identical(a: &Module, b: &Module) -> bool {
    Compare::by_text().module(a, b)
}

/// Whether two expressions are equal but for places and comments.
pub fn is_identical_expr(a: &Expr, b: &Expr) -> bool {
    Compare::by_text().expr(a, b)
}

impl Same for Module {
    fn same(&self, other: &Self) -> bool {
        Compare::by_binding().module(self, other)
    }
}

impl Same for Func {
    fn same(&self, other: &Self) -> bool {
        Compare::by_binding().func(self, other)
    }
}

impl Same for Stmt {
    fn same(&self, other: &Self) -> bool {
        Compare::by_binding().stmt(self, other)
    }
}

impl Same for [Stmt] {
    fn same(&self, other: &Self) -> bool {
        Compare::by_binding().body(self, other)
    }
}

impl Same for Expr {
    fn same(&self, other: &Self) -> bool {
        Compare::by_binding().expr(self, other)
    }
}

/// Two trees walked together, with the bound names met so far.
struct Compare<'a> {
    by_text: bool,
    left: HashMap<&'a Name, &'a Name>,
    right: HashMap<&'a Name, &'a Name>,
}

impl<'a> Compare<'a> {
    fn by_text() -> Self {
        Self {
            by_text: true,
            left: HashMap::new(),
            right: HashMap::new(),
        }
    }

    fn by_binding() -> Self {
        Self {
            by_text: false,
            ..Self::by_text()
        }
    }

    /// Pairs two names that are bound at the same point.
    fn bind(&mut self, a: &'a Name, b: &'a Name) -> bool {
        if self.by_text {
            return a == b;
        }
        if let Some(old) = self.left.insert(a, b) {
            self.right.remove(old);
        }
        if let Some(old) = self.right.insert(b, a)
            && old != a
        {
            self.left.remove(old);
        }
        true
    }

    fn name(&self, a: &Name, b: &Name) -> bool {
        match (self.left.get(a), self.right.get(b)) {
            (Some(to), Some(from)) => *to == b && *from == a,
            (None, None) => a == b,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    fn module(&mut self, a: &'a Module, b: &'a Module) -> bool {
        a.name == b.name
            && a.doc == b.doc
            && self.body(&a.prelude, &b.prelude)
            && a.items.len() == b.items.len()
            && a.items.iter().zip(&b.items).all(|(a, b)| match (a, b) {
                (Item::Func(a), Item::Func(b)) => self.func(a, b),
                (Item::Stmt(a), Item::Stmt(b)) => self.stmt(a, b),
                (Item::Func(_), Item::Stmt(_)) | (Item::Stmt(_), Item::Func(_)) => false,
            })
    }

    fn func(&mut self, a: &'a Func, b: &'a Func) -> bool {
        let outer = (self.left.clone(), self.right.clone());
        let is_same = a.kind == b.kind
            && a.name == b.name
            && a.doc == b.doc
            && self.args(&a.decorator, &b.decorator)
            && a.params.len() == b.params.len()
            && a.params.iter().zip(&b.params).all(|(a, b)| {
                self.bind(&a.name, &b.name)
                    && self.option(a.ty.as_ref(), b.ty.as_ref())
                    && self.option(a.default.as_ref(), b.default.as_ref())
            })
            && self.option(a.ret.as_ref(), b.ret.as_ref())
            && self.body(&a.body, &b.body);
        (self.left, self.right) = outer;
        is_same
    }

    fn body(&mut self, a: &'a [Stmt], b: &'a [Stmt]) -> bool {
        let (a, b) = (without_pass(a), without_pass(b));
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.stmt(a, b))
    }

    fn stmt(&mut self, a: &'a Stmt, b: &'a Stmt) -> bool {
        use StmtKind as K;
        match (&a.kind, &b.kind) {
            (
                K::Assign { target, ty, value },
                K::Assign {
                    target: b_target,
                    ty: b_ty,
                    value: b_value,
                },
            ) => {
                self.expr(value, b_value)
                    && self.option(ty.as_ref(), b_ty.as_ref())
                    && self.target(target, b_target)
            }
            (
                K::Declare { target, ty },
                K::Declare {
                    target: b_target,
                    ty: b_ty,
                },
            ) => self.expr(ty, b_ty) && self.target(target, b_target),
            (K::Expr(a), K::Expr(b)) => self.expr(a, b),
            (
                K::If {
                    cond, then, orelse, ..
                },
                K::If {
                    cond: b_cond,
                    then: b_then,
                    orelse: b_orelse,
                    ..
                },
            ) => self.expr(cond, b_cond) && self.body(then, b_then) && self.body(orelse, b_orelse),
            (
                K::For { target, iter, body },
                K::For {
                    target: b_target,
                    iter: b_iter,
                    body: b_body,
                },
            ) => {
                self.expr(iter, b_iter) && self.target(target, b_target) && self.body(body, b_body)
            }
            (
                K::While { cond, body },
                K::While {
                    cond: b_cond,
                    body: b_body,
                },
            ) => self.expr(cond, b_cond) && self.body(body, b_body),
            (
                K::With {
                    context,
                    target,
                    body,
                },
                K::With {
                    context: b_context,
                    target: b_target,
                    body: b_body,
                },
            ) => {
                self.expr(context, b_context)
                    && match (target, b_target) {
                        (Some(a), Some(b)) => self.target(a, b),
                        (None, None) => true,
                        (Some(_), None) | (None, Some(_)) => false,
                    }
                    && self.body(body, b_body)
            }
            (K::Return(a), K::Return(b)) => self.option(a.as_ref(), b.as_ref()),
            (
                K::Assert { cond, message },
                K::Assert {
                    cond: b_cond,
                    message: b_message,
                },
            ) => self.expr(cond, b_cond) && self.option(message.as_ref(), b_message.as_ref()),
            (K::Import(a), K::Import(b)) => a == b,
            (K::Func(a), K::Func(b)) => self.func(a, b),
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    /// What a statement binds; elements of tensors are used, not bound.
    fn target(&mut self, a: &'a Expr, b: &'a Expr) -> bool {
        match (&a.kind, &b.kind) {
            (ExprKind::Name(a), ExprKind::Name(b)) => self.bind(a, b),
            (ExprKind::Tuple { items: a, .. }, ExprKind::Tuple { items: b, .. }) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.target(a, b))
            }
            _ => self.expr(a, b),
        }
    }

    fn option(&mut self, a: Option<&'a Expr>, b: Option<&'a Expr>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => self.expr(a, b),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    fn exprs(&mut self, a: &'a [Expr], b: &'a [Expr]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.expr(a, b))
    }

    fn args(&mut self, a: &'a [Arg], b: &'a [Arg]) -> bool {
        a.len() == b.len()
            && a.iter()
                .zip(b)
                .all(|(a, b)| a.name == b.name && self.expr(&a.value, &b.value))
    }

    fn expr(&mut self, a: &'a Expr, b: &'a Expr) -> bool {
        use ExprKind as K;
        if let (Some(a), Some(b)) = (number(a), number(b)) {
            return a == b;
        }
        match (&a.kind, &b.kind) {
            (K::Name(a), K::Name(b)) => self.name(a, b),
            (K::Str(a), K::Str(b)) => a == b,
            (K::Bool(a), K::Bool(b)) => a == b,
            (
                K::Attr { value, name },
                K::Attr {
                    value: b_value,
                    name: b_name,
                },
            ) => name == b_name && self.expr(value, b_value),
            (
                K::Call { func, args },
                K::Call {
                    func: b_func,
                    args: b_args,
                },
            ) => self.expr(func, b_func) && self.args(args, b_args),
            (
                K::Index { value, index },
                K::Index {
                    value: b_value,
                    index: b_index,
                },
            ) => self.expr(value, b_value) && self.exprs(index, b_index),
            (
                K::Slice { lo, hi, step },
                K::Slice {
                    lo: b_lo,
                    hi: b_hi,
                    step: b_step,
                },
            ) => {
                self.option(lo.as_deref(), b_lo.as_deref())
                    && self.option(hi.as_deref(), b_hi.as_deref())
                    && self.option(step.as_deref(), b_step.as_deref())
            }
            (K::Tuple { items: a, .. }, K::Tuple { items: b, .. }) | (K::List(a), K::List(b)) => {
                self.exprs(a, b)
            }
            (K::Dict(a), K::Dict(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .zip(b)
                        .all(|(a, b)| self.expr(&a.0, &b.0) && self.expr(&a.1, &b.1))
            }
            (
                K::Unary { op, value },
                K::Unary {
                    op: b_op,
                    value: b_value,
                },
            ) => op == b_op && self.expr(value, b_value),
            (
                K::Binary { op, lhs, rhs },
                K::Binary {
                    op: b_op,
                    lhs: b_lhs,
                    rhs: b_rhs,
                },
            ) => op == b_op && self.expr(lhs, b_lhs) && self.expr(rhs, b_rhs),
            (
                K::IfElse { cond, then, orelse },
                K::IfElse {
                    cond: b_cond,
                    then: b_then,
                    orelse: b_orelse,
                },
            ) => self.expr(cond, b_cond) && self.expr(then, b_then) && self.expr(orelse, b_orelse),
            (
                K::ListComp {
                    element,
                    target,
                    iter,
                    cond,
                },
                K::ListComp {
                    element: b_element,
                    target: b_target,
                    iter: b_iter,
                    cond: b_cond,
                },
            ) => {
                self.expr(iter, b_iter)
                    && self.target(target, b_target)
                    && self.option(cond.as_deref(), b_cond.as_deref())
                    && self.expr(element, b_element)
            }
            (K::Starred(a), K::Starred(b)) => self.expr(a, b),
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

fn without_pass(body: &[Stmt]) -> &[Stmt] {
    match body {
        [only] if only.kind == StmtKind::Pass => &[],
        _ => body,
    }
}

/// A number with its sign folded in; floats by their bits, all NaN alike.
fn number(expr: &Expr) -> Option<(Option<i128>, u64)> {
    let float = |value: f64| (None, if value.is_nan() { 1 } else { value.to_bits() });
    match &expr.kind {
        ExprKind::Int(value) => Some((Some(*value), 0)),
        ExprKind::Float(value) => Some(float(*value)),
        ExprKind::Unary {
            op: UnaryOp::Neg,
            value,
        } => match &value.kind {
            ExprKind::Int(value) if *value >= 0 => Some((Some(-value), 0)),
            ExprKind::Float(value) if !value.is_sign_negative() => Some(float(-value)),
            _ => None,
        },
        _ => None,
    }
}

//! Gradients in a function that is being lifted, by reverse-mode differentiation.
//!
//!     def dx_of(x_1): …; return y                x_1 = x
//!     dx = I.gradient(dx_of, (x,), wrt=1)    →   y = R.multiply(x_1, x_1)
//!                                                y_grad = R.ones_like(y)
//!                                                x_1_grad = R.multiply(y_grad, x_1)
//!                                                …
//!
//! The function is lifted in place, on names of its own. Operators of the library are expanded until each has a rule,
//! a function `std.grad.<operator>` (`std/grad.ir`). Then the bindings are gone through from the last to the first: the rule
//! of each gives the gradients of its operands from that of its result, and those of one value are added. The gradient is that
//! of the sum of the result's elements. The result is text like any other, and may be differentiated again.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::uses::{bound_names, for_each_expr, substitute};
use irc_syntax::{Diagnostic, Expr, ExprKind, Name, Stmt, StmtKind};

use super::lift::Lift;
use super::tail::bound;
use crate::check::Type;
use crate::check::expand::Depth;
use crate::check::prim::{self, Prim, Scope};

/// A binding of what is differentiated, and the value of the model that it helps to make.
struct Step {
    stmt: Stmt,
    origin: Option<Name>,
}

/// The gradient of a value: one of a tensor, or one for each member of a tuple.
enum Adjoint {
    One(Expr),
    Many(BTreeMap<usize, Expr>),
}

type Fault = Option<Diagnostic>;

impl Lift<'_> {
    /// Whether this asks for the gradient of a function inside the function.
    pub(super) fn is_open_gradient(&self, value: &Expr) -> bool {
        let name = value.positional().next().and_then(Expr::as_name);
        value.is_call_of("I.gradient") && name.is_some_and(|name| self.bodies.contains_key(name))
    }

    /// Puts the function and its derivative in place of the call.
    pub(super) fn close_gradient(&mut self, target: &Expr, value: &Expr, out: &mut Vec<Stmt>) {
        let names = bound_names(target);
        if let Err(diag) = self.differentiate(value, &names, out) {
            self.diags.extend(diag);
            for name in names {
                self.scope.define(&name, Type::Error);
            }
        }
    }

    /// `Err` with nothing to say where the function has faults of its own.
    fn differentiate(
        &mut self,
        value: &Expr,
        names: &[Name],
        out: &mut Vec<Stmt>,
    ) -> Result<(), Fault> {
        let args: Vec<&Expr> = value.positional().collect();
        let func = args
            .first()
            .and_then(|func| self.bodies.remove(func.as_name()?));
        let values = args.get(1).and_then(|values| values.as_items());
        let (Some(func), Some(values)) = (func, values) else {
            return Err(None);
        };
        let n_wrt = value.keyword("wrt").and_then(Expr::as_int);
        let n_wrt = n_wrt.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let mut active = BTreeSet::new();
        for (at, (param, value)) in func.params.iter().zip(values).enumerate() {
            let stmt = Stmt::bind(&param.name, value.clone());
            if at < n_wrt {
                // A name of its own, and no constant: what is computed of it is not folded.
                let ty = self.scope.type_of(value);
                if is_differentiable(&ty) {
                    active.insert(param.name.clone());
                }
                self.scope.define(&param.name, ty);
                out.push(stmt);
            } else {
                self.keep(stmt, out);
            }
        }
        let (steps, mut result) = self.steps(&func.body)?;
        substitute(&mut result, &self.alias);
        self.find_active(&steps, &mut active)?;
        let mut adjoints: BTreeMap<Name, Adjoint> = BTreeMap::new();
        out.extend(steps.iter().map(|step| step.stmt.clone()));
        if let Some(name) = result.as_name().filter(|name| active.contains(*name)) {
            let seed = self.names.fresh(&format!("{name}_grad"));
            let ones = Expr::call("R.ones_like", [result.clone()]);
            self.keep(Stmt::bind(&seed, ones), out);
            adjoints.insert(name.clone(), Adjoint::One(Expr::name(seed)));
        }
        for step in steps.iter().rev() {
            self.step_back(step, &active, &mut adjoints, out)?;
        }
        for (name, param) in names.iter().zip(&func.params) {
            let gradient = match adjoints.remove(&param.name) {
                Some(Adjoint::One(gradient)) => gradient,
                Some(Adjoint::Many(_)) | None => {
                    Expr::call("R.zeros_like", [Expr::name(&param.name)])
                }
            };
            self.keep(Stmt::bind(name, gradient), out);
        }
        Ok(())
    }

    /// The bindings of a function, lifted and expanded until each has a rule or needs none, and its result.
    fn steps(&mut self, body: &[Stmt]) -> Result<(Vec<Step>, Expr), Fault> {
        let n_faults = self.diags.len();
        let mut steps = Vec::new();
        let mut result = Expr::none();
        for stmt in body {
            let origin = match &stmt.kind {
                StmtKind::Return(Some(value)) => {
                    result = value.clone();
                    continue;
                }
                StmtKind::Assign { target, .. } => bound_names(target).first().cloned(),
                _ => None,
            };
            let wanted = bound(std::slice::from_ref(stmt));
            let lifted = self.block(vec![stmt.clone()], &wanted);
            let expanded = self.with_rules(lifted);
            steps.extend(expanded.into_iter().map(|stmt| Step {
                stmt,
                origin: origin.clone(),
            }));
        }
        if self.diags.len() > n_faults {
            return Err(None);
        }
        Ok((steps, result))
    }

    /// Expands operators of the library that have no rule.
    fn with_rules(&mut self, stmts: Vec<Stmt>) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(stmts.len());
        for stmt in stmts {
            let composite = match &stmt.kind {
                StmtKind::Assign { target, value, .. } => value
                    .as_call()
                    .filter(|(path, _)| self.is_composite(path, value))
                    .map(|_| (target.clone(), value.clone())),
                _ => None,
            };
            match composite {
                Some((target, value)) => {
                    let mut inner = Vec::new();
                    self.expand(stmt, &target, &value, &mut inner);
                    let inner = self.with_rules(inner);
                    out.extend(inner);
                }
                None => out.push(stmt),
            }
        }
        out
    }

    fn is_composite(&self, path: &str, call: &Expr) -> bool {
        let library = self.expander.library();
        (Prim::find(path).is_none() || prim::is_library_form(path, call))
            && library.has(path)
            && !library.has(&rule(path))
    }

    /// Adds the names whose values depend on those that are active.
    fn find_active(&mut self, steps: &[Step], active: &mut BTreeSet<Name>) -> Result<(), Fault> {
        for step in steps {
            let stmt = std::slice::from_ref(&step.stmt);
            let mut depends = false;
            for_each_expr(stmt, &mut |expr| {
                depends |= expr.as_name().is_some_and(|name| active.contains(name));
            });
            if !depends {
                continue;
            }
            match &step.stmt.kind {
                StmtKind::Assign { target, .. } => {
                    for name in bound_names(target) {
                        if self.scope.var(&name).is_some_and(is_differentiable) {
                            active.insert(name);
                        }
                    }
                }
                StmtKind::If { .. } => return Err(self.refuse("`if`", step)),
                StmtKind::For { .. } | StmtKind::While { .. } => {
                    return Err(self.refuse("a loop", step));
                }
                StmtKind::With { .. } => return Err(self.refuse("`with`", step)),
                StmtKind::Func(_)
                | StmtKind::Declare { .. }
                | StmtKind::Expr(_)
                | StmtKind::Return(_)
                | StmtKind::Assert { .. }
                | StmtKind::Break
                | StmtKind::Continue
                | StmtKind::Pass
                | StmtKind::Import(_)
                | StmtKind::Error => {}
            }
        }
        Ok(())
    }

    /// The fault of something that has no gradient.
    fn refuse(&self, what: &str, step: &Step) -> Fault {
        let diag = Diagnostic::error(
            "onnx-unsupported",
            format!("no rule gives the gradient through {what}"),
        )
        .at(step.stmt.span, "in this binding");
        let origin = step.origin.as_ref();
        Some(
            match origin.and_then(|name| Some((name, self.origins.get(name)?))) {
                Some((name, origin)) => diag.note(format!(
                    "this is {origin} of the model, which makes `{name}`"
                )),
                None => diag,
            },
        )
    }

    /// Hands the gradient of a binding's value to what the value is made of.
    fn step_back(
        &mut self,
        step: &Step,
        active: &BTreeSet<Name>,
        adjoints: &mut BTreeMap<Name, Adjoint>,
        out: &mut Vec<Stmt>,
    ) -> Result<(), Fault> {
        let StmtKind::Assign { target, value, .. } = &step.stmt.kind else {
            return Ok(());
        };
        let bound = bound_names(target);
        let adjoint = match (target.as_name(), bound.as_slice()) {
            (Some(name), _) => adjoints.remove(name),
            (None, names) => {
                let parts = names.iter().enumerate();
                let parts = parts.filter_map(|(at, name)| match adjoints.remove(name)? {
                    Adjoint::One(adjoint) => Some((at, adjoint)),
                    Adjoint::Many(_) => None,
                });
                Some(Adjoint::Many(parts.collect())).filter(|all| !all.is_empty())
            }
        };
        let Some(adjoint) = adjoint else {
            return Ok(());
        };
        let mut sink = Sink {
            active,
            adjoints,
            out,
        };
        match (&value.kind, adjoint) {
            (ExprKind::Name(_), adjoint) => self.add(value, adjoint, &mut sink),
            (ExprKind::Tuple { items, .. } | ExprKind::List(items), Adjoint::Many(parts)) => {
                for (at, part) in parts {
                    if let Some(item) = items.get(at) {
                        self.add(item, Adjoint::One(part), &mut sink);
                    }
                }
            }
            (ExprKind::Index { value, index }, Adjoint::One(adjoint)) => {
                let at = index.first().and_then(Expr::as_int);
                if let Some(at) = at.and_then(|at| usize::try_from(at).ok()) {
                    let part = Adjoint::Many(BTreeMap::from([(at, adjoint)]));
                    self.add(value, part, &mut sink);
                }
            }
            (ExprKind::Call { .. }, adjoint) if value.is_call_of("R.match_cast") => {
                if let Some(operand) = value.positional().next() {
                    self.add(operand, adjoint, &mut sink);
                }
            }
            (_, adjoint) => self.apply_rule(step, target, value, &adjoint, &mut sink)?,
        }
        Ok(())
    }

    /// Expands the rule of an operator and adds the gradients that it gives.
    fn apply_rule(
        &mut self,
        step: &Step,
        target: &Expr,
        value: &Expr,
        adjoint: &Adjoint,
        sink: &mut Sink<'_>,
    ) -> Result<(), Fault> {
        let Some((path, args)) = value.as_call() else {
            return Err(self.refuse("this expression", step));
        };
        if !self.expander.library().has(&rule(&path)) {
            return Err(self.refuse(&format!("`{path}`"), step));
        }
        let bound = bound_names(target);
        let given = match adjoint {
            Adjoint::One(gradient) => gradient.clone(),
            Adjoint::Many(parts) => Expr::tuple((0..bound.len().max(parts.len())).map(|at| {
                let part = parts.get(&at).cloned();
                part.unwrap_or_else(Expr::none)
            })),
        };
        let mut call = Expr::call(&rule(&path), [given, target.clone()]);
        if let ExprKind::Call { args: all, .. } = &mut call.kind {
            all.extend(args.iter().cloned());
        }
        let base = bound.first().map_or("lv", |name| name.as_str());
        let base = format!("{base}_grad");
        let expansion = self.expander.expand(
            &call,
            &base,
            Depth::OneLevel,
            &mut self.scope,
            &mut self.names,
        );
        let mut expansion = expansion.map_err(|diag| {
            let refusal = self.refuse(&format!("`{path}`"), step);
            refusal.map(|refusal| refusal.note(diag.message))
        })?;
        self.made.take(&mut expansion, &self.func);
        let mut result = expansion.result.clone();
        self.take(expansion, sink.out);
        substitute(&mut result, &self.alias);
        let gradients = match result.kind {
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => items,
            _ => vec![result],
        };
        for (arg, gradient) in args.iter().zip(gradients) {
            match (&arg.value.kind, gradient.kind) {
                (
                    ExprKind::Tuple { items, .. } | ExprKind::List(items),
                    ExprKind::Tuple { items: parts, .. } | ExprKind::List(parts),
                ) => {
                    for (item, part) in items.iter().zip(parts) {
                        self.add(item, Adjoint::One(part), sink);
                    }
                }
                (_, ExprKind::Tuple { items, .. } | ExprKind::List(items)) => {
                    let parts = items.into_iter().enumerate().collect();
                    self.add(&arg.value, Adjoint::Many(parts), sink);
                }
                (_, kind) => self.add(&arg.value, Adjoint::One(Expr::new(kind)), sink),
            }
        }
        Ok(())
    }

    /// Adds a gradient to what a value has already.
    fn add(&mut self, value: &Expr, gradient: Adjoint, sink: &mut Sink<'_>) {
        let Some(name) = value.as_name().filter(|name| sink.active.contains(*name)) else {
            return;
        };
        let is_none = |expr: &Expr| expr.kind == ExprKind::None;
        match (sink.adjoints.remove(name), gradient) {
            (have, Adjoint::One(new)) if is_none(&new) => {
                if let Some(have) = have {
                    sink.adjoints.insert(name.clone(), have);
                }
            }
            (Some(Adjoint::One(have)), Adjoint::One(new)) => {
                let sum = self.sum(name, have, new, sink);
                sink.adjoints.insert(name.clone(), Adjoint::One(sum));
            }
            (Some(Adjoint::Many(mut have)), Adjoint::Many(new)) => {
                for (at, part) in new.into_iter().filter(|(_, part)| !is_none(part)) {
                    let part = match have.remove(&at) {
                        Some(old) => self.sum(name, old, part, sink),
                        None => part,
                    };
                    have.insert(at, part);
                }
                sink.adjoints.insert(name.clone(), Adjoint::Many(have));
            }
            (_, Adjoint::Many(mut new)) => {
                new.retain(|_, part| !is_none(part));
                sink.adjoints.insert(name.clone(), Adjoint::Many(new));
            }
            (_, new @ Adjoint::One(_)) => {
                sink.adjoints.insert(name.clone(), new);
            }
        }
    }

    fn sum(&mut self, name: &Name, a: Expr, b: Expr, sink: &mut Sink<'_>) -> Expr {
        let sum = self.names.fresh(&format!("{name}_grad"));
        self.keep(Stmt::bind(&sum, Expr::call("R.add", [a, b])), sink.out);
        Expr::name(sum)
    }
}

/// Where gradients go.
struct Sink<'s> {
    active: &'s BTreeSet<Name>,
    adjoints: &'s mut BTreeMap<Name, Adjoint>,
    out: &'s mut Vec<Stmt>,
}

impl Adjoint {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Many(parts) if parts.is_empty())
    }
}

/// The library's function for the gradient through an operator.
fn rule(path: &str) -> String {
    format!("std.grad.{}", path.strip_prefix("R.").unwrap_or(path))
}

/// Whether values of a type may have a gradient: floats, and tuples with some.
fn is_differentiable(ty: &Type) -> bool {
    match ty {
        Type::Tensor(tensor) => tensor.dtype.is_some_and(|dtype| dtype.is_float()),
        Type::Tuple(members) => members.iter().any(is_differentiable),
        Type::Seq(inner) | Type::Opt(inner) => is_differentiable(inner),
        Type::Scalar(_)
        | Type::Shape(_)
        | Type::Func(..)
        | Type::Str
        | Type::DTypeValue
        | Type::Any
        | Type::Void
        | Type::Error => false,
    }
}

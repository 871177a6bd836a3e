//! Loops of a function that is being lifted: a body inside the function becomes a function of the module.
//!
//!     def end_body(i, acc): …                                 end_loop = I.while_loop(
//!     end = I.while_loop(end_body, n, None, (start,))    →        cls.main_end_body, n, None, (start,), (w,), out_ty=[…])
//!                                                             end = end_loop
//!
//! The body is lifted with the types that the first iteration brings, and again with wider ones where an iteration
//! changes them. Names around it that it reads are passed along, small constants are written into it.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::uses::{bound_names, names_read, substitute, substitute_stmt};
use irc_syntax::{Diagnostic, Expr, ExprKind, Func, Name, Stmt, StmtKind};

use super::lift::Lift;
use crate::check::loop_body::{self, Body, Bounds};
use crate::check::prim::Scope;
use crate::check::{TensorType, Type, symbols_of, type_to_expr};
use crate::shape::Dim;
use crate::tensor::print_const;

/// Integers of up to this many elements are written into a body.
const MAX_INLINE: usize = 16;

/// A body lifted once.
struct Attempt {
    stmts: Vec<Stmt>,
    results: Vec<(Expr, Type)>,
    fresh: BTreeSet<Name>,
}

impl Lift<'_> {
    /// Whether this is a loop whose body is a function inside the function.
    pub(super) fn is_open_loop(&self, value: &Expr) -> bool {
        value.is_call_of("I.while_loop")
            && value.keyword("out_ty").is_none()
            && self.body_name(value).is_some()
    }

    fn body_name(&self, value: &Expr) -> Option<Name> {
        let name = value.positional().next()?.as_name()?;
        self.bodies.contains_key(name).then(|| name.clone())
    }

    /// Makes the body a function and the loop its call.
    pub(super) fn close_loop(&mut self, target: &Expr, value: &Expr, out: &mut Vec<Stmt>) {
        let names = bound_names(target);
        match self.closed(value, &names, out) {
            Ok(()) => {}
            Err(diag) => {
                self.diags.extend(diag);
                for name in names {
                    self.scope.define(&name, Type::Error);
                }
            }
        }
    }

    /// `Err` with nothing to say where the body has faults of its own.
    fn closed(
        &mut self,
        value: &Expr,
        names: &[Name],
        out: &mut Vec<Stmt>,
    ) -> Result<(), Option<Diagnostic>> {
        let Some(func) = self
            .body_name(value)
            .and_then(|name| self.bodies.remove(&name))
        else {
            return Err(None);
        };
        let args: Vec<Expr> = value.positional().skip(1).cloned().collect();
        let fault = |why: String| {
            let message = format!("the loop that gives `{}`: {why}", names_text(names));
            Some(Diagnostic::error("onnx-unsupported", message))
        };
        let mut bounds = [args.first().cloned(), args.get(1).cloned()]
            .map(|bound| bound.filter(|bound| bound.kind != ExprKind::None));
        for bound in bounds.iter_mut().flatten() {
            self.inline(bound);
        }
        let [trips, mut condition] = bounds;
        let mut initial = Vec::new();
        for item in args.get(2).and_then(Expr::as_items).unwrap_or_default() {
            initial.push(self.carried(item, out));
        }
        let mut types: Vec<Type> = Vec::new();
        for item in &initial {
            types.push(loop_body::carried_type(&self.scope.type_of(item)));
        }
        if types.contains(&Type::Error) {
            return Err(None);
        }
        let skip = usize::from(condition.is_some());
        let mut widened = BTreeSet::new();
        let mut attempt = loop {
            let before = self.save();
            let attempt = self.attempt(&func, &types)?;
            if attempt.results.len() < skip + types.len() {
                return Err(fault(
                    "its body gives fewer values than go round".to_owned(),
                ));
            }
            let given: Vec<Type> = attempt
                .results
                .iter()
                .skip(skip)
                .map(|r| r.1.clone())
                .collect();
            let facts = self.scope.info.facts.clone();
            let mut scope = before.scope.clone();
            let mut changed = false;
            for ((ty, given), param) in types.iter_mut().zip(&given).zip(func.params.iter().skip(1))
            {
                let mut made = Vec::new();
                let wider = loop_body::widen(ty, given, &facts, &widened, &mut |axis| {
                    let dim = scope.fresh(&format!("{}_d{axis}", param.name));
                    made.extend(dim.as_sym().cloned());
                    dim
                });
                widened.extend(made);
                if let Some(wider) = wider.map_err(fault)? {
                    changed = true;
                    *ty = wider;
                }
            }
            if !changed {
                break attempt;
            }
            self.restore(before);
            self.scope = scope;
            widened.iter().for_each(|symbol| self.names.take(symbol));
        };
        // A condition that holds before and after every iteration is none.
        let result = attempt.results.first().map(|(expr, _)| self.inlined(expr));
        if condition.as_ref().is_some_and(holds) && result.as_ref().is_some_and(holds) {
            condition = None;
            attempt.results.remove(0);
        }
        self.emit_loop(
            func,
            attempt,
            (trips, condition),
            initial,
            (types, widened),
            names,
            out,
        )
        .map_err(fault)
    }

    /// A value as it goes into the first iteration: a tuple becomes a sequence.
    fn carried(&mut self, item: &Expr, out: &mut Vec<Stmt>) -> Expr {
        if !matches!(self.scope.type_of(item), Type::Tuple(_) | Type::Void) {
            return item.clone();
        }
        let base = item.as_name().map_or("carried", |name| name.as_str());
        let name = self.names.fresh(&format!("{base}_seq"));
        self.keep(
            Stmt::bind(&name, Expr::call("I.sequence", [item.clone()])),
            out,
        );
        Expr::name(name)
    }

    /// Lifts the body for carried values of given types.
    fn attempt(&mut self, func: &Func, types: &[Type]) -> Result<Attempt, Option<Diagnostic>> {
        let iteration = Type::tensor(irc_syntax::DType::I64, Vec::new());
        let all = std::iter::once(&iteration).chain(types);
        for (param, ty) in func.params.iter().zip(all) {
            self.scope.define(&param.name, ty.clone());
        }
        let symbols = |lift: &Self| -> BTreeSet<Name> {
            let known = lift.scope.info.facts.symbols();
            known.map(|(symbol, _)| symbol.clone()).collect()
        };
        let before = symbols(self);
        let n_faults = self.diags.len();
        let mut body = func.body.clone();
        let Some(StmtKind::Return(Some(mut value))) = body.pop().map(|stmt| stmt.kind) else {
            return Err(None);
        };
        let stmts = self.block(body, &names_read(&value));
        if self.diags.len() > n_faults {
            return Err(None);
        }
        substitute(&mut value, &self.alias);
        let items = match value.kind {
            ExprKind::Tuple { items, .. } => items,
            _ => vec![value],
        };
        let mut stmts = stmts;
        let mut results = Vec::with_capacity(items.len());
        for item in items {
            let item = self.carried(&item, &mut stmts);
            let ty = loop_body::carried_type(&self.scope.type_of(&item));
            results.push((item, ty));
        }
        Ok(Attempt {
            stmts,
            results,
            fresh: symbols(self).difference(&before).cloned().collect(),
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn emit_loop(
        &mut self,
        func: Func,
        attempt: Attempt,
        (trips, condition): (Option<Expr>, Option<Expr>),
        initial: Vec<Expr>,
        (carried, widened): (Vec<Type>, BTreeSet<Name>),
        names: &[Name],
        out: &mut Vec<Stmt>,
    ) -> Result<(), String> {
        let base = names.first().map_or("loop", |name| name.as_str());
        let Attempt {
            mut stmts,
            mut results,
            fresh,
        } = attempt;
        self.write_constants(&mut stmts, &mut results);
        let count = trips.as_ref().and_then(|trips| self.count_of(trips));
        let iteration = Type::tensor(irc_syntax::DType::I64, Vec::new());
        let params = func.params.iter().map(|param| param.name.clone());
        let params = params.zip(std::iter::once(iteration).chain(carried.iter().cloned()));
        let body = Body {
            name: self.made.name(&self.func, &func.name),
            params: params.collect(),
            stmts,
            results,
        };
        let bounds = Bounds {
            trips,
            count,
            condition,
            initial,
            carried,
            fresh: fresh.into_iter().chain(widened).collect(),
        };
        let made = loop_body::make(body, bounds, base, &mut self.scope)?;
        self.made.push(made.func);
        for symbol in made
            .types
            .iter()
            .flat_map(symbols_of)
            .collect::<BTreeSet<_>>()
        {
            self.names.take(&symbol);
            if made.fresh.contains(&symbol) {
                out.push(Stmt::bind(symbol, Expr::call("T.int64", [])));
            }
        }
        let whole = self.names.fresh(&format!("{base}_loop"));
        let ty = match made.types.as_slice() {
            [one] => one.clone(),
            _ => Type::Tuple(made.types.clone()),
        };
        self.scope.define(&whole, ty);
        out.push(Stmt::bind(&whole, made.call));
        for (at, (name, ty)) in names.iter().zip(&made.types).enumerate() {
            let mut part = Expr::name(&whole);
            if made.types.len() > 1 {
                part = Expr::index(part, [Expr::int(at as i128)]);
            }
            if symbols_of(ty)
                .iter()
                .any(|symbol| made.fresh.contains(symbol))
            {
                if part.as_name().is_none() {
                    let raw = self.names.fresh(&format!("{name}_raw"));
                    self.scope.define(&raw, ty.clone());
                    out.push(Stmt::bind(&raw, part));
                    part = Expr::name(raw);
                }
                part = Expr::call("R.match_cast", [part, type_to_expr(ty)]);
            }
            self.scope.define(name, ty.clone());
            out.push(Stmt::bind(name, part));
        }
        Ok(())
    }

    /// Writes small constants around a body into it.
    fn write_constants(&self, stmts: &mut [Stmt], results: &mut [(Expr, Type)]) {
        // Constants around the body are written into it.
        let mut constants = BTreeMap::new();
        for name in irc_syntax::uses::mentioned(stmts).into_iter().chain(
            results
                .iter()
                .filter_map(|(expr, _)| expr.as_name().cloned()),
        ) {
            let known = self.scope.known(&name).filter(|tensor| {
                tensor.len() <= 1 || (tensor.len() <= MAX_INLINE && tensor.dtype.is_int())
            });
            if let Some(tensor) = known {
                constants.insert(name, print_const(tensor));
            }
        }
        for stmt in stmts.iter() {
            if let StmtKind::Assign { target, .. } = &stmt.kind {
                bound_names(target).iter().for_each(|name| {
                    constants.remove(name);
                });
            }
        }
        for stmt in stmts {
            substitute_stmt(stmt, &constants);
        }
        for (expr, _) in results {
            substitute(expr, &constants);
        }
    }

    /// A small constant in place of its name.
    fn inline(&mut self, expr: &mut Expr) {
        *expr = self.inlined(expr);
    }

    fn inlined(&self, expr: &Expr) -> Expr {
        let known = expr.as_name().and_then(|name| self.scope.known(name));
        match known.filter(|tensor| tensor.len() <= MAX_INLINE) {
            Some(tensor) => print_const(tensor).at(expr.span),
            None => expr.clone(),
        }
    }

    /// The number of iterations, where it is a number or an extent.
    fn count_of(&mut self, trips: &Expr) -> Option<Dim> {
        match self.scope.type_of(trips) {
            Type::Tensor(TensorType {
                value: Some(value), ..
            }) => match value.as_slice() {
                [one] => Some(one.clone()),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Whether an expression is a constant that is true.
fn holds(expr: &Expr) -> bool {
    let value = expr
        .positional()
        .next()
        .filter(|_| expr.is_call_of("R.const"));
    value.is_some_and(|value| matches!(value.kind, ExprKind::Bool(true) | ExprKind::Int(1)))
}

fn names_text(names: &[Name]) -> String {
    let names: Vec<&str> = names.iter().map(Name::as_str).collect();
    names.join("`, `")
}

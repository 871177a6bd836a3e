//! `I.while_loop(step, n, c, (carried…))` in a template: `step` is a function inside the template.
//!
//! The function is evaluated once with names for what goes round, and again where an iteration turns out to change an
//! extent; what it emits is the body, a function of the module, and the tensors around it that it reads are
//! passed along. It gives the condition, where the loop has one, then the carried values, then one element of each
//! stacked result.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::{Arg, Diagnostic, Expr, Func, Name, Span, Stmt};

use super::eval::fault;
use super::{Eval, Frame, Machine, Value};
use crate::check::loop_body::{self, Body, Bounds, Loop};
use crate::check::prim::Scope;
use crate::check::types::Type;
use crate::check::{element_type, type_to_expr};
use crate::shape::{Dim, Facts};
use crate::tensor::Tensor;

/// One evaluation of a body.
struct Attempt {
    body: Body,
    /// Symbols that it made.
    fresh: Vec<Name>,
    /// Functions of loops inside it.
    funcs: Vec<Func>,
    tainted: bool,
}

impl<'a> Machine<'_, 'a> {
    pub(super) fn while_loop(
        &mut self,
        expr: &Expr,
        args: &[Arg],
        frame: &mut Frame<'a>,
        hint: &str,
    ) -> Eval {
        let span = expr.span;
        let (def, [trips, condition, carried]) = self.loop_args(expr, args, frame)?;
        let mut initial = Vec::new();
        for value in carried.as_items().unwrap_or_else(|| vec![carried.clone()]) {
            let (value, ty) = self.carried_value(value, frame, span)?;
            initial.push((value, ty));
        }
        let base = match hint {
            "" | "=" => frame.prefix.clone(),
            _ => format!("{}_{hint}", frame.prefix),
        };
        let has_condition = condition != Value::None;
        let mut types: Vec<Type> = initial
            .iter()
            .map(|(_, ty)| loop_body::carried_type(ty))
            .collect();
        let mut widened = BTreeSet::new();
        let (attempt, params) = loop {
            let params: Vec<Name> = def
                .params
                .iter()
                .map(|param| self.names.clone().fresh(&format!("{base}_{}", param.name)))
                .collect();
            let attempt = self.try_body(def, frame, &base, &params, &types)?;
            let skip = usize::from(has_condition);
            let results = &attempt.body.results;
            if results.len() < skip + types.len() {
                return Err(fault(span, "the body gives fewer values than go round"));
            }
            let mut changed = false;
            for (at, ty) in types.iter_mut().enumerate() {
                let given = &results[skip + at].1;
                let stem = def.params.get(at + 1).map_or("d", |param| &*param.name);
                let scope = &mut *self.scope;
                let facts = scope.facts().clone();
                let mut made = Vec::new();
                let wider = loop_body::widen(ty, given, &facts, &widened, &mut |axis| {
                    let dim = scope.fresh(&format!("{stem}_d{axis}"));
                    made.extend(dim.as_sym().cloned());
                    dim
                });
                widened.extend(made);
                match wider {
                    Ok(None) => {}
                    Ok(Some(wider)) => {
                        changed = true;
                        *ty = wider;
                    }
                    Err(why) => return Err(fault(span, &format!("`{stem}`: {why}"))),
                }
            }
            if !changed {
                break (attempt, params);
            }
        };
        for name in &params {
            self.names.take(name);
        }
        self.tainted |= attempt.tainted;
        self.emit_loop(
            (&trips, &condition),
            initial,
            types,
            attempt,
            &widened,
            &base,
        )
    }

    /// The body, and the values of the other arguments.
    fn loop_args(
        &mut self,
        expr: &Expr,
        args: &[Arg],
        frame: &mut Frame<'a>,
    ) -> Eval<(&'a Func, [Value; 3])> {
        const NAMES: [&str; 3] = ["trip_count", "condition", "carried"];
        let def = args.first().and_then(|arg| arg.value.as_name());
        let Some(def) = def.and_then(|name| frame.defs.get(name)).copied() else {
            return Err(fault(
                expr.span,
                "the body of a loop is a function defined before it",
            ));
        };
        let mut values = [Value::None, Value::None, Value::Tuple(Vec::new())];
        for (at, arg) in args.iter().enumerate().skip(1) {
            let place = match &arg.name {
                None => Some(at - 1),
                Some(name) => NAMES.iter().position(|known| **name == **known),
            };
            match place.and_then(|place| values.get_mut(place)) {
                Some(place) => *place = self.eval(&arg.value, frame, "")?,
                None => return Err(fault(expr.span, "a loop has no such argument")),
            }
        }
        Ok((def, values))
    }

    /// A value as it goes into the first iteration: a tensor, or a sequence.
    fn carried_value(
        &mut self,
        value: Value,
        frame: &Frame<'a>,
        span: Option<Span>,
    ) -> Eval<(Expr, Type)> {
        let value = match value {
            Value::Tuple(_) | Value::List(_) => {
                let (items, ty) = self.as_result(value)?;
                let ty = element_type(&ty);
                let call = Expr::call("I.sequence", [items]).at(self.span);
                let born = self.fresh.len();
                self.emit(frame, "seq", call, ty, born)
            }
            Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::None => {
                return Err(fault(
                    span,
                    "what goes round a loop are tensors and sequences",
                ));
            }
            other => other,
        };
        self.as_result(value)
    }

    /// Evaluates a body for names of given types.
    fn try_body(
        &mut self,
        def: &'a Func,
        frame: &Frame<'a>,
        base: &str,
        params: &[Name],
        types: &[Type],
    ) -> Eval<Attempt> {
        if params.len() != 1 + types.len() {
            let message = format!(
                "`{}` takes {} values, and {} go round beside the iteration",
                def.name,
                params.len(),
                types.len()
            );
            return Err(fault(def.span, &message));
        }
        let iteration = Type::tensor(irc_syntax::DType::I64, Vec::new());
        let all: Vec<(Name, Type)> = params
            .iter()
            .cloned()
            .zip(std::iter::once(iteration).chain(types.iter().cloned()))
            .collect();
        let mut names = self.names.clone();
        all.iter().for_each(|(name, _)| names.take(name));
        let mut scope = BodyScope {
            scope: &mut *self.scope,
            outer: &self.types,
            params: all.iter().cloned().collect(),
        };
        let mut machine = Machine {
            lib: self.lib,
            memo: &mut *self.memo,
            depth: self.depth,
            scope: &mut scope,
            names: &mut names,
            base: base.to_string(),
            span: self.span,
            stmts: Vec::new(),
            types: BTreeMap::new(),
            funcs: Vec::new(),
            steps: self.steps,
            max_steps: self.max_steps,
            calls: self.calls,
            fresh: Vec::new(),
            tainted: false,
        };
        let args = all.iter().map(|(name, ty)| {
            (
                None,
                Value::Expr(Expr::name(name).at(self.span), ty.clone()),
            )
        });
        let args = args.collect();
        let inner = Frame {
            vars: frame.vars.clone(),
            defs: frame.defs.clone(),
            template: frame.template,
            prefix: base.to_string(),
        };
        let value = machine.call_def(def, args, &inner, "=")?;
        let mut results = Vec::new();
        for item in match value {
            Value::Tuple(items) | Value::List(items) => items,
            one => vec![one],
        } {
            let item = match item {
                item @ (Value::Tuple(_) | Value::List(_)) => {
                    let (expr, ty) = machine.carried_value(item, &inner, def.span)?;
                    Value::Expr(expr, ty)
                }
                item => item,
            };
            results.push(machine.as_result(item)?);
        }
        let results = results.into_iter().map(|(expr, ty)| {
            let ty = loop_body::carried_type(&ty);
            (expr, ty)
        });
        let attempt = Attempt {
            body: Body {
                name: Name::from(format!("{base}_{}", def.name)),
                results: results.collect(),
                params: all,
                stmts: std::mem::take(&mut machine.stmts),
            },
            fresh: std::mem::take(&mut machine.fresh),
            funcs: std::mem::take(&mut machine.funcs),
            tainted: machine.tainted,
        };
        self.steps = machine.steps;
        Ok(attempt)
    }

    /// Emits the body as a function and the loop as its call; gives its results as a tuple, or the only one.
    fn emit_loop(
        &mut self,
        (trips, condition): (&Value, &Value),
        initial: Vec<(Expr, Type)>,
        types: Vec<Type>,
        attempt: Attempt,
        widened: &BTreeSet<Name>,
        base: &str,
    ) -> Eval {
        let mut fresh: BTreeSet<Name> = widened.clone();
        fresh.extend(attempt.fresh);
        let operand = |value: &Value| match value {
            Value::None => None,
            Value::Expr(expr, _) => Some(expr.clone()),
            value => Some(super::emit::attribute(value)),
        };
        let bounds = Bounds {
            trips: operand(trips),
            count: trips.as_dim(),
            condition: operand(condition),
            initial: initial.into_iter().map(|(expr, _)| expr).collect(),
            carried: types,
            fresh,
        };
        let made = loop_body::make(attempt.body, bounds, base, &mut self.inner());
        let Loop {
            func,
            mut call,
            types,
            fresh,
        } = made.map_err(|why| Box::new(Diagnostic::error("type-unknown", why)))?;
        let mut funcs = attempt.funcs;
        let callee = self.add_funcs(func, &mut funcs);
        if let irc_syntax::ExprKind::Call { args, .. } = &mut call.kind
            && let Some(first) = args.first_mut()
        {
            first.value = Expr::path(&format!("cls.{callee}"));
        }
        for symbol in types.iter().flat_map(super::symbols_of) {
            if fresh.contains(&symbol) {
                self.declare(&symbol);
            }
        }
        let whole = match types.as_slice() {
            [one] => one.clone(),
            _ => Type::Tuple(types.clone()),
        };
        let whole = self.bind(&format!("{base}_loop"), call.at(self.span), whole);
        let Value::Expr(whole_expr, _) = &whole else {
            return Ok(whole);
        };
        let mut items = Vec::new();
        for (at, ty) in types.iter().enumerate() {
            let mut item = whole.clone();
            if types.len() > 1 {
                let part = Expr::index(whole_expr.clone(), [Expr::int(at as i128)]);
                item = self.bind(&format!("{base}_{at}"), part.at(self.span), ty.clone());
            }
            // Symbols of this call are bound by a cast, which every pass knows to do so.
            if super::symbols_of(ty)
                .iter()
                .any(|symbol| fresh.contains(symbol))
                && let Value::Expr(part, _) = &item
            {
                let cast = Expr::call("R.match_cast", [part.clone(), type_to_expr(ty)]);
                item = self.bind(base, cast.at(self.span), ty.clone());
            }
            items.push(item);
        }
        self.fresh.extend(fresh);
        Ok(match items.len() {
            1 => items.remove(0),
            _ => Value::Tuple(items),
        })
    }

    /// Keeps the functions of a loop, each under a name of its own; gives the name of the body.
    fn add_funcs(&mut self, body: Func, inner: &mut Vec<Func>) -> Name {
        let mut map = BTreeMap::new();
        let mut all = std::mem::take(inner);
        all.push(body);
        for func in &mut all {
            loop_body::rename_funcs(&mut func.body, &map);
            let mut name = func.name.clone();
            let mut number = 0;
            while self.funcs.iter().any(|known| known.name == name)
                || map.values().any(|known| *known == name)
            {
                number += 1;
                name = Name::from(format!("{}_{number}", func.name));
            }
            map.insert(func.name.clone(), name.clone());
            func.name = name;
        }
        let name = all.last().map(|func| func.name.clone());
        self.funcs.extend(all);
        name.unwrap_or_else(|| Name::from("body"))
    }
}

/// The scope of a body: its parameters, and the names around it.
struct BodyScope<'s> {
    scope: &'s mut dyn Scope,
    /// What has been emitted around the loop.
    outer: &'s BTreeMap<Name, Type>,
    params: BTreeMap<Name, Type>,
}

impl Scope for BodyScope<'_> {
    fn type_of(&mut self, expr: &Expr) -> Type {
        let known = expr
            .as_name()
            .and_then(|name| self.params.get(name).or_else(|| self.outer.get(name)));
        match known {
            Some(ty) => ty.clone(),
            None => self.scope.type_of(expr),
        }
    }

    fn facts(&self) -> &Facts {
        self.scope.facts()
    }

    fn fresh(&mut self, base: &str) -> Dim {
        self.scope.fresh(base)
    }

    fn fresh_any_sign(&mut self, base: &str) -> Dim {
        self.scope.fresh_any_sign(base)
    }

    fn annotation(&mut self, expr: &Expr) -> Result<Type, Diagnostic> {
        self.scope.annotation(expr)
    }

    fn constant(&self, expr: &Expr) -> Option<Tensor> {
        self.scope.constant(expr)
    }
}

impl super::Expansion {
    /// Gives the functions made along names that `choose` makes of theirs.
    pub fn name_funcs(&mut self, choose: &mut dyn FnMut(&Name) -> Name) {
        let map: BTreeMap<Name, Name> = self
            .funcs
            .iter()
            .map(|func| (func.name.clone(), choose(&func.name)))
            .collect();
        if map.is_empty() {
            return;
        }
        for func in &mut self.funcs {
            if let Some(name) = map.get(&func.name) {
                func.name = name.clone();
            }
            loop_body::rename_funcs(&mut func.body, &map);
        }
        let stmts: &mut Vec<Stmt> = &mut self.stmts;
        loop_body::rename_funcs(stmts, &map);
    }
}

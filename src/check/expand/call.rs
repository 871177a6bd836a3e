//! Calls in templates: primitives, other library functions, local functions, methods.

use irc_syntax::{Arg, DType, Diagnostic, Expr, ExprKind, Func, Name, Span};

use super::eval::fault;
use super::stmt::Flow;
use super::{DEPTH, Depth, Eval, Fault, Frame, Inner, Machine, Value};
use crate::check::prim::{self, Kind, Prim, Slot};
use crate::check::suggest;
use crate::check::types::{TensorType, Type};
use crate::library::Template;
use crate::shape::Dim;

/// Arguments as given: keyword and value.
pub(super) type Args = Vec<(Option<Name>, Value)>;

impl<'a> Machine<'_, 'a> {
    pub(super) fn call(
        &mut self,
        expr: &Expr,
        func: &Expr,
        args: &[Arg],
        frame: &mut Frame<'a>,
        hint: &str,
    ) -> Eval {
        let path = func.as_path();
        let head_is_variable = {
            let head = path.as_deref().and_then(|path| path.split('.').next());
            head.is_some_and(|head| frame.vars.contains_key(head))
        };
        let path = match (path, &func.kind) {
            (Some(path), kind) if !head_is_variable || matches!(kind, ExprKind::Name(_)) => path,
            (_, ExprKind::Attr { value, name }) => {
                let object = self.eval(value, frame, "")?;
                let args = self.args(args, frame)?;
                return self.method(expr.span, object, name, args);
            }
            _ => return Err(fault(expr.span, "this cannot be called")),
        };
        if path == "I.prove" || path == "I.fail" {
            return self.prove_or_fail(&path, expr, args, frame);
        }
        let values = self.args(args, frame)?;
        if let Some(name) = path.strip_prefix("I.") {
            return self.builtin_info(name, expr.span, values, frame);
        }
        if let Some(def) = frame.defs.get(path.as_str()).copied() {
            return self.call_def(def, values, frame, hint);
        }
        if let Some(value) = self.builtin(&path, expr.span, &values, frame)? {
            return Ok(value);
        }
        self.call_operator(&path, values, expr.span, frame, hint)
    }

    fn call_operator(
        &mut self,
        path: &str,
        values: Args,
        span: Option<Span>,
        frame: &Frame<'a>,
        hint: &str,
    ) -> Eval {
        if values.iter().any(|(_, value)| value.is_error()) {
            return Ok(Value::Expr(Expr::none(), Type::Error));
        }
        if Prim::find(path).is_some() {
            return self.emit_prim(path, values, span, frame, hint);
        }
        let mut values = values;
        let since = since_of_call(self.lib, path, &mut values);
        let sibling = || frame.template.and_then(|template| template.sibling(path));
        let Some(template) = self.lib.find(path, since).or_else(sibling) else {
            return Err(unknown_operator(path, span, self.lib));
        };
        let is_helper = path.starts_with("std.") || !self.lib.has(path);
        if self.depth == Depth::OneLevel && !is_helper {
            return self.emit_call(template, path, values, frame, hint);
        }
        let stem = match hint {
            "=" => frame.prefix.clone(),
            "" if is_helper => frame.prefix.clone(),
            "" => format!(
                "{}_{}",
                frame.prefix,
                path.rsplit('.').next().unwrap_or(path)
            ),
            _ => format!("{}_{hint}", frame.prefix),
        };
        self.call_template_as(template, values, stem)
    }

    fn args(&mut self, args: &[Arg], frame: &mut Frame<'a>) -> Eval<Args> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            if let ExprKind::Starred(inner) = &arg.value.kind {
                let list = self.eval(inner, frame, "")?;
                let items = self.iterate(list, inner.span, frame)?;
                values.extend(items.into_iter().map(|item| (None, item)));
            } else {
                values.push((arg.name.clone(), self.eval(&arg.value, frame, "")?));
            }
        }
        Ok(values)
    }

    /// Evaluates a library function with arguments; its own names start with those of the whole expansion.
    pub(super) fn call_template(&mut self, template: Template<'a>, args: Args) -> Eval {
        let base = self.base.clone();
        self.call_template_as(template, args, base)
    }

    fn call_template_as(&mut self, template: Template<'a>, args: Args, prefix: String) -> Eval {
        self.enter()?;
        let result = self.bind_params(template.func, args).and_then(|vars| {
            let mut frame = Frame {
                vars,
                defs: Default::default(),
                template: Some(template),
                prefix,
            };
            self.run(&template.func.body, &mut frame)
        });
        self.calls -= 1;
        match result {
            Ok(Flow::Return(value)) => Ok(value),
            Ok(Flow::Next | Flow::Break | Flow::Continue) => Ok(Value::None),
            Err(fault) => Err(at_template(fault, template)),
        }
    }

    /// A function defined inside the template; it sees the variables around it.
    fn call_def(&mut self, func: &'a Func, args: Args, frame: &Frame<'a>, hint: &str) -> Eval {
        self.enter()?;
        let mut vars = frame.vars.clone();
        vars.extend(self.bind_params(func, args)?);
        let prefix = match hint {
            "" | "=" => frame.prefix.clone(),
            _ => format!("{}_{hint}", frame.prefix),
        };
        let mut inner = Frame {
            vars,
            defs: frame.defs.clone(),
            template: frame.template,
            prefix,
        };
        let flow = self.run(&func.body, &mut inner)?;
        self.calls -= 1;
        Ok(if let Flow::Return(value) = flow {
            value
        } else {
            Value::None
        })
    }

    fn enter(&mut self) -> Eval<()> {
        self.calls += 1;
        if self.calls > DEPTH {
            let message = "library functions call each other too deeply here".to_string();
            return Err(Box::new(Diagnostic::error("template-steps", message)));
        }
        Ok(())
    }

    /// Parameters by name, defaults filled in, values made to fit the annotations.
    fn bind_params(
        &mut self,
        func: &'a Func,
        args: Args,
    ) -> Eval<std::collections::BTreeMap<Name, Value>> {
        let op = crate::library::op_of(func).unwrap_or(func.name.as_str());
        let mut vars = std::collections::BTreeMap::new();
        let mut place = 0;
        for (name, value) in args {
            let param = match &name {
                None => func.params.get(place),
                Some(name) => func.params.iter().find(|param| param.name == *name),
            };
            place += usize::from(name.is_none());
            let Some(param) = param else {
                return Err(match name {
                    Some(name) => no_parameter(op, &name, func),
                    None => bad_call(format!(
                        "`{op}` takes at most {} arguments",
                        func.params.len()
                    )),
                });
            };
            let value = fit(op, param.name.as_str(), param.ty.as_ref(), value)?;
            if vars.insert(param.name.clone(), value).is_some() {
                return Err(bad_call(format!(
                    "`{op}` has its argument `{}` twice",
                    param.name
                )));
            }
        }
        for param in &func.params {
            if vars.contains_key(&param.name) {
                continue;
            }
            let Some(default) = &param.default else {
                return Err(bad_call(format!(
                    "`{op}` needs its argument `{}`",
                    param.name
                )));
            };
            let mut blank = Frame {
                vars: Default::default(),
                defs: Default::default(),
                template: None,
                prefix: String::new(),
            };
            let value = self.eval(default, &mut blank, "")?;
            let value = fit(op, param.name.as_str(), param.ty.as_ref(), value)?;
            vars.insert(param.name.clone(), value);
        }
        Ok(vars)
    }

    /// A call of a primitive: emitted as a binding, or computed where its content is known.
    pub(super) fn emit_prim(
        &mut self,
        path: &str,
        args: Args,
        span: Option<Span>,
        frame: &Frame<'a>,
        hint: &str,
    ) -> Eval {
        let Some(prim) = Prim::find(path) else {
            return Err(fault(span, "no such primitive"));
        };
        if args.iter().any(|(_, value)| value.is_error()) {
            return Ok(Value::Expr(Expr::none(), Type::Error));
        }
        let slots = prim::slots(prim);
        let values = by_slot(path, slots, args, span)?;
        if let Some(value) = self.known_prim(prim, &values, span, frame)? {
            return Ok(value);
        }
        let call = self.prim_call(prim, path, slots, values, span, frame)?;
        let born = self.fresh.len();
        let bound = prim::bind(prim, &call).map_err(Box::new)?;
        let ty = prim::infer(&bound, &mut self.inner()).map_err(|mut problem| {
            // The places of emitted nodes are the caller's; the fault is shown in the library function.
            problem.primary = None;
            Box::new(problem.at(span, "in this call"))
        })?;
        if ty == Type::Error {
            return Ok(Value::Expr(Expr::none(), Type::Error));
        }
        if let Some(same) = unchanged(prim, &bound, &ty, &mut self.inner()) {
            return Ok(Value::Expr(same, ty));
        }
        if let Some(constant) = folded(&ty) {
            return Ok(Value::Expr(constant.at(self.span), ty));
        }
        if let Type::Shape(Some(dims)) = &ty
            && self.fresh.len() == born
        {
            return Ok(Value::Shape(dims.clone()));
        }
        let hint = match hint {
            "=" => "",
            "" => path.rsplit('.').next().unwrap_or(path),
            _ => hint,
        };
        Ok(self.emit(frame, hint, call, ty, born))
    }

    /// Calls that are values already: constants, shapes.
    fn known_prim(
        &mut self,
        prim: Prim,
        values: &[Option<Value>],
        span: Option<Span>,
        frame: &Frame<'a>,
    ) -> Eval<Option<Value>> {
        let first = values.first().and_then(Option::as_ref);
        match (prim, first) {
            (Prim::Const, Some(value)) => {
                let dtype = values.get(1).and_then(Option::as_ref);
                self.constant_of(value, dtype, span, frame).map(Some)
            }
            (Prim::Shape, None) => Ok(Some(Value::Shape(Vec::new()))),
            (Prim::Shape, Some(value)) => match dims_of(value) {
                Some(dims) => Ok(Some(Value::Shape(dims))),
                None => Err(fault(span, "a shape is made of a list of extents")),
            },
            (
                Prim::TensorToShape,
                Some(Value::Expr(
                    _,
                    Type::Tensor(TensorType {
                        value: Some(dims), ..
                    }),
                )),
            ) => Ok(Some(Value::Shape(dims.clone()))),
            _ => Ok(None),
        }
    }

    fn constant_of(
        &mut self,
        value: &Value,
        dtype: Option<&Value>,
        span: Option<Span>,
        frame: &Frame<'a>,
    ) -> Eval {
        let dtype = match dtype {
            Some(Value::Str(name)) => {
                Some(DType::from_name(name).ok_or_else(|| fault(span, "no such dtype"))?)
            }
            _ => None,
        };
        if let Value::Dim(dim) = value {
            return Ok(self.dim_tensor(dim, dtype.unwrap_or(DType::I64), frame));
        }
        if let Value::Expr(..) = value {
            return Err(fault(
                span,
                "a constant is made of numbers, not of a tensor",
            ));
        }
        let mut call = Expr::call("R.const", [attribute(value)]);
        if let ExprKind::Call { args, .. } = &mut call.kind
            && let Some(dtype) = dtype
        {
            args.push(Arg {
                name: None,
                value: Expr::str(dtype.name()),
            });
        }
        let call = call.at(self.span);
        let bound = prim::bind(Prim::Const, &call).map_err(Box::new)?;
        let ty = prim::infer(&bound, &mut self.inner()).map_err(Box::new)?;
        Ok(Value::Expr(call, ty))
    }

    /// A number or dim as a 0-d tensor.
    pub(super) fn dim_tensor(&mut self, dim: &Dim, dtype: DType, frame: &Frame<'a>) -> Value {
        if let Some(value) = dim.as_int() {
            return Value::Expr(
                scalar(&Value::Int(value.into()), dtype).at(self.span),
                scalar_type(dtype, Some(dim)),
            );
        }
        let born = self.fresh.len();
        let shape = Expr::call("R.shape", [Expr::list([dim.to_expr()])]);
        let vector = TensorType {
            value: Some(vec![dim.clone()]),
            ..TensorType::new(DType::I64, vec![Dim::int(1)])
        };
        let expr = Expr::call("R.shape_to_tensor", [shape]).at(self.span);
        let whole = self.emit(frame, "dim", expr, Type::Tensor(vector), born);
        let Value::Expr(whole, _) = whole else {
            return whole;
        };
        let point = Expr::call(
            "R.reshape",
            [whole, Expr::call("R.shape", [Expr::list([])])],
        );
        let value = self.emit(
            frame,
            "dim",
            point.at(self.span),
            scalar_type(DType::I64, Some(dim)),
            born,
        );
        if dtype == DType::I64 {
            return value;
        }
        let Value::Expr(point, _) = value else {
            return value;
        };
        let cast = Expr::call("R.astype", [point]).with("dtype", Expr::str(dtype.name()));
        let content = dtype.is_int().then_some(dim);
        self.emit(
            frame,
            "dim",
            cast.at(self.span),
            scalar_type(dtype, content),
            born,
        )
    }

    fn prim_call(
        &mut self,
        prim: Prim,
        path: &str,
        slots: &[Slot],
        values: Vec<Option<Value>>,
        span: Option<Span>,
        frame: &Frame<'a>,
    ) -> Eval<Expr> {
        let is_index = |slot: &Slot| matches!(slot.name, "indices");
        let data =
            |slot: &Slot| slot.kind == Kind::Tensor && !is_index(slot) && slot.name != "condition";
        let dtype = slots
            .iter()
            .zip(&values)
            .find_map(|(slot, value)| match value {
                Some(value) if data(slot) => value.dtype(),
                _ => None,
            });
        let mut call = Expr::call(path, []).at(self.span);
        let ExprKind::Call { args, .. } = &mut call.kind else {
            return Ok(call);
        };
        let mut attributes = false;
        for (slot, value) in slots.iter().zip(values) {
            let Some(value) = value else {
                // A hole: what follows is named.
                attributes = true;
                continue;
            };
            let dtype = if is_index(slot) {
                Some(DType::I64)
            } else {
                dtype
            };
            let (expr, positional) = match slot.kind {
                Kind::Tensor => (self.operand(prim, value, dtype, span, frame)?, true),
                Kind::Tensors => match value.as_items() {
                    Some(items) => {
                        let shared = items.iter().find_map(Value::dtype);
                        let items: Eval<Vec<Expr>> = items
                            .into_iter()
                            .map(|item| self.operand(prim, item, shared, span, frame))
                            .collect();
                        (Expr::tuple(items?), true)
                    }
                    None => (attribute(&value), true),
                },
                Kind::Shape => match dims_of(&value) {
                    Some(dims) => (
                        Expr::call("R.shape", [Expr::list(dims.iter().map(Dim::to_expr))]),
                        true,
                    ),
                    None => (attribute(&value), true),
                },
                _ if is_default(slot, &value) => {
                    attributes = true;
                    continue;
                }
                _ => (attribute(&value), false),
            };
            let name = (attributes || !positional).then(|| Name::from(slot.name));
            args.push(Arg { name, value: expr });
        }
        Ok(call)
    }

    /// One operand: numbers become constants of the dtype beside them.
    fn operand(
        &mut self,
        prim: Prim,
        value: Value,
        dtype: Option<DType>,
        span: Option<Span>,
        frame: &Frame<'a>,
    ) -> Eval<Expr> {
        match (&value, dtype) {
            (Value::Expr(expr, _), _) => Ok(expr.clone()),
            (Value::Shape(_), _) => Ok(self.as_result(value)?.0),
            (Value::Dim(dim), _) if prim == Prim::Arange => Ok(dim.to_expr()),
            (Value::Dim(dim), dtype) => {
                let tensor = self.dim_tensor(dim, dtype.unwrap_or(DType::I64), frame);
                Ok(attribute(&tensor))
            }
            (Value::Int(_) | Value::Float(_) | Value::Bool(_), None) => Ok(attribute(&value)),
            (Value::Int(_) | Value::Float(_) | Value::Bool(_), Some(dtype)) => {
                let whole = value.as_float().is_none_or(|number| number.fract() == 0.0);
                if !whole && (dtype.is_int() || dtype == DType::Bool) {
                    let message = format!("{} is no value of dtype {dtype}", value.describe());
                    return Err(fault(span, &message));
                }
                Ok(scalar(&value, dtype).at(self.span))
            }
            _ => {
                let message = format!("`{}` takes a tensor, not {}", prim.name(), value.describe());
                Err(Box::new(
                    Diagnostic::error("not-a-tensor", message).at(span, "in this call"),
                ))
            }
        }
    }

    /// A call of a library function that stays a call, with its type.
    fn emit_call(
        &mut self,
        template: Template<'a>,
        path: &str,
        values: Args,
        frame: &Frame<'a>,
        hint: &str,
    ) -> Eval {
        let born = self.fresh.len();
        let ty = self.type_of_template(template, values.clone())?;
        if ty == Type::Error {
            return Ok(Value::Expr(Expr::none(), ty));
        }
        let mut call = Expr::call(path, []).at(self.span);
        if let ExprKind::Call { args, .. } = &mut call.kind {
            let mut place = 0;
            for (name, value) in values {
                let param = match &name {
                    None => template.func.params.get(place),
                    Some(name) => template
                        .func
                        .params
                        .iter()
                        .find(|param| param.name == *name),
                };
                place += usize::from(name.is_none());
                let is_data = matches!(&value, Value::Expr(..) | Value::Shape(_))
                    || matches!(&value, Value::Tuple(items) | Value::List(items) if items.iter().any(Value::is_tensor));
                let value = if is_data {
                    self.as_result(value)?.0
                } else {
                    attribute(&value)
                };
                // Data stay positional as long as all before them do.
                let is_next = name.is_none() && args.len() + 1 == place;
                let name = if is_data && is_next && args.iter().all(|arg: &Arg| arg.name.is_none())
                {
                    None
                } else {
                    param.map(|param| param.name.clone())
                };
                args.push(Arg { name, value });
            }
        }
        let hint = match hint {
            "=" => "",
            "" => path.rsplit('.').next().unwrap_or(path),
            _ => hint,
        };
        Ok(self.emit(frame, hint, call, ty, born))
    }

    /// The type of a call of a library function, remembered by function and arguments.
    pub(super) fn type_of_template(
        &mut self,
        template: Template<'a>,
        args: Args,
    ) -> Result<Type, Fault> {
        let mut key = format!(
            "{}@{}",
            template.op(),
            crate::library::since_of(template.func)
        );
        for (name, value) in &args {
            key.push(';');
            if let Some(name) = name {
                key.push_str(name);
                key.push('=');
            }
            value.write_key(&mut key);
        }
        if let Some(ty) = self.memo.get(&key) {
            return Ok(ty.clone());
        }
        let born = self.fresh.len();
        let mut names = irc_syntax::NameSupply::new();
        let mut inner = Inner {
            scope: &mut *self.scope,
            types: &self.types,
            fresh: &mut self.fresh,
        };
        let mut machine = Machine {
            lib: self.lib,
            memo: &mut *self.memo,
            depth: Depth::OneLevel,
            scope: &mut inner,
            names: &mut names,
            base: "lv".to_string(),
            span: self.span,
            stmts: Vec::new(),
            types: Default::default(),
            steps: self.steps,
            calls: self.calls,
            fresh: Vec::new(),
            tainted: false,
        };
        let value = machine.call_template(template, args)?;
        let (_, ty) = machine.as_result(value)?;
        let (steps, tainted) = (machine.steps, machine.tainted);
        self.steps = steps;
        self.tainted |= tainted;
        if self.fresh.len() == born && !tainted {
            self.memo.insert(key, ty.clone());
        }
        Ok(ty)
    }

    /// A user's call of a library function: the function, and the arguments as values.
    pub(super) fn user_call(&mut self, call: &Expr) -> Eval<(Template<'a>, Args)> {
        let Some((path, args)) = call.as_call() else {
            return Err(bad_call("a library function is called here".to_string()));
        };
        let since = call
            .keyword("since")
            .and_then(Expr::as_int)
            .and_then(|since| u32::try_from(since).ok());
        let Some(template) = self.lib.find(&path, since) else {
            return Err(unknown_operator(&path, call.span, self.lib));
        };
        let takes_since = template
            .func
            .params
            .iter()
            .any(|param| param.name == *"since");
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            if arg.name.as_deref() == Some("since") && !takes_since {
                continue;
            }
            values.push((arg.name.clone(), self.user_value(&arg.value)?));
        }
        Ok((template, values))
    }

    /// An argument written in the user's program.
    fn user_value(&mut self, expr: &Expr) -> Eval {
        let blank = || Frame {
            vars: Default::default(),
            defs: Default::default(),
            template: None,
            prefix: String::new(),
        };
        match &expr.kind {
            ExprKind::List(items) => Ok(Value::List(
                items
                    .iter()
                    .map(|item| self.user_value(item))
                    .collect::<Eval<_>>()?,
            )),
            ExprKind::Tuple { items, .. } => Ok(Value::Tuple(
                items
                    .iter()
                    .map(|item| self.user_value(item))
                    .collect::<Eval<_>>()?,
            )),
            ExprKind::Binary { op, lhs, rhs } => {
                let (left, right) = (self.user_value(lhs)?, self.user_value(rhs)?);
                let run_time = |value: &Value| matches!(value, Value::Expr(..));
                if run_time(&left) || run_time(&right) {
                    let ty = self.type_of(expr);
                    return Ok(Value::Expr(expr.clone(), ty));
                }
                self.binary(*op, left, right, expr.span, &blank(), "")
            }
            ExprKind::Unary { value, .. } => {
                let inner = self.user_value(value)?;
                if matches!(inner, Value::Expr(..)) {
                    let ty = self.type_of(expr);
                    return Ok(Value::Expr(expr.clone(), ty));
                }
                self.eval(expr, &mut blank(), "")
            }
            ExprKind::Call { args, .. } => {
                let path = expr.as_call().map(|(path, _)| path).unwrap_or_default();
                let wrapped = matches!(
                    path.as_str(),
                    "R.prim_value"
                        | "R.str"
                        | "R.dtype"
                        | "T.int64"
                        | "T.int32"
                        | "T.bool"
                        | "T.float32"
                        | "T.float64"
                );
                match (path.as_str(), args.as_slice()) {
                    ("R.null_value", _) => Ok(Value::None),
                    ("T.float32" | "T.float64", [Arg { value, .. }])
                        if value.as_str().is_some() =>
                    {
                        let number = value.as_str().and_then(|text| text.parse().ok());
                        Ok(Value::Float(number.unwrap_or(f64::NAN)))
                    }
                    (_, [only]) if wrapped => self.user_value(&only.value),
                    ("R.tuple", _) => {
                        let items = args.iter().map(|arg| self.user_value(&arg.value));
                        Ok(Value::Tuple(items.collect::<Eval<_>>()?))
                    }
                    ("R.shape", _) => match prim::shape_dims(expr) {
                        Some(dims) => Ok(Value::Shape(dims.map_err(Box::new)?)),
                        None => Ok(Value::Shape(Vec::new())),
                    },
                    _ => {
                        let ty = self.type_of(expr);
                        Ok(Value::Expr(expr.clone(), ty))
                    }
                }
            }
            ExprKind::Index { .. } | ExprKind::Attr { .. } => {
                let ty = self.type_of(expr);
                Ok(Value::Expr(expr.clone(), ty))
            }
            _ => self.eval(expr, &mut blank(), ""),
        }
    }
}

/// Takes `since=N`, which names the version of the operator, out of the arguments of a call.
fn since_of_call(lib: &crate::library::Library, path: &str, values: &mut Args) -> Option<u32> {
    let at = values
        .iter()
        .position(|(name, _)| name.as_deref() == Some("since"))?;
    let newest = lib.find(path, None)?;
    if newest
        .func
        .params
        .iter()
        .any(|param| param.name == *"since")
    {
        return None;
    }
    let (_, value) = values.remove(at);
    value.as_int().and_then(|since| u32::try_from(since).ok())
}

/// Arguments in the order of a primitive's slots.
fn by_slot(path: &str, slots: &[Slot], args: Args, span: Option<Span>) -> Eval<Vec<Option<Value>>> {
    let mut values: Vec<Option<Value>> = vec![None; slots.len()];
    let mut next = 0;
    for (name, value) in args {
        let at = match &name {
            None => {
                next += 1;
                next - 1
            }
            Some(name) => {
                let is_it = |slot: &Slot| slot.name == &**name || slot.aliases.contains(&&**name);
                slots.iter().position(is_it).unwrap_or(usize::MAX)
            }
        };
        match values.get_mut(at) {
            // `None` is the same as an argument left out.
            Some(place) => *place = Some(value).filter(|value| *value != Value::None),
            None => {
                let what = name.map_or("so many arguments".to_string(), |name| {
                    format!("argument `{name}`")
                });
                return Err(fault(span, &format!("`{path}` does not take {what}")));
            }
        }
    }
    Ok(values)
}

fn is_default(slot: &Slot, value: &Value) -> bool {
    match (slot.default, value) {
        (prim::Default::Bool(default), Value::Bool(value)) => default == *value,
        (prim::Default::Int(default), Value::Int(value)) => i128::from(default) == *value,
        (prim::Default::Float(default), _) => value.as_float() == Some(default),
        (prim::Default::Str(default), Value::Str(value)) => default == value,
        _ => false,
    }
}

/// The dims that a list, tuple or shape holds.
pub(super) fn dims_of(value: &Value) -> Option<Vec<Dim>> {
    match value {
        Value::Shape(dims) => Some(dims.clone()),
        Value::Expr(_, Type::Shape(dims)) => dims.clone(),
        _ => value.as_items()?.iter().map(Value::as_dim).collect(),
    }
}

/// The literal of a value that is known; the expression of one of run time.
pub(super) fn attribute(value: &Value) -> Expr {
    match value {
        Value::None | Value::Maybe => Expr::none(),
        Value::Bool(value) => Expr::bool(*value),
        Value::Int(value) => Expr::int(*value),
        Value::Float(value) => Expr::float(*value),
        Value::Str(text) => Expr::str(text.as_str()),
        Value::Dim(dim) => dim.to_expr(),
        Value::List(items) => Expr::list(items.iter().map(attribute)),
        Value::Tuple(items) => Expr::tuple(items.iter().map(attribute)),
        Value::Shape(dims) => Expr::list(dims.iter().map(Dim::to_expr)),
        Value::Expr(expr, _) => expr.clone(),
    }
}

/// `R.const(value, dtype)` of a number.
fn scalar(value: &Value, dtype: DType) -> Expr {
    let number = match value {
        _ if dtype == DType::Bool => Expr::bool(value.as_float().is_some_and(|value| value != 0.0)),
        _ if dtype.is_float() => Expr::float(value.as_float().unwrap_or_default()),
        Value::Float(number) => Expr::int(*number as i128),
        _ => Expr::int(value.as_int().unwrap_or_default()),
    };
    let number = match &number.kind {
        ExprKind::Float(value) if value.is_infinite() => {
            Expr::str(if *value > 0.0 { "inf" } else { "-inf" })
        }
        ExprKind::Float(value) if value.is_nan() => Expr::str("nan"),
        _ => number,
    };
    Expr::call("R.const", [number, Expr::str(dtype.name())])
}

fn scalar_type(dtype: DType, content: Option<&Dim>) -> Type {
    let value = content
        .filter(|_| dtype.is_int())
        .map(|dim| vec![dim.clone()]);
    Type::Tensor(TensorType {
        value,
        ..TensorType::new(dtype, Vec::new())
    })
}

/// The operand of a call that changes nothing: a cast to the same dtype, a reshape to the same shape.
fn unchanged(
    prim: Prim,
    call: &prim::BoundCall,
    ty: &Type,
    scope: &mut dyn prim::Scope,
) -> Option<Expr> {
    if !matches!(prim, Prim::Astype | Prim::Reshape | Prim::BroadcastTo) {
        return None;
    }
    let x = call.operand("x")?;
    let (before_dtype, before) = match scope.type_of(x) {
        Type::Tensor(TensorType {
            dtype: Some(dtype),
            shape: Some(shape),
            ..
        }) => (dtype, shape),
        _ => return None,
    };
    let (dtype, after) = ty.as_known_tensor()?;
    (before_dtype == dtype && before == after).then(|| x.clone())
}

/// The constant that an integer tensor of known numbers is.
fn folded(ty: &Type) -> Option<Expr> {
    let Type::Tensor(TensorType {
        dtype: Some(dtype),
        shape: Some(shape),
        value: Some(value),
        ..
    }) = ty
    else {
        return None;
    };
    let literal = |value: i64| {
        if *dtype == DType::Bool {
            Expr::bool(value != 0)
        } else {
            Expr::int(value)
        }
    };
    let numbers: Option<Vec<Expr>> = value.iter().map(|dim| dim.as_int().map(literal)).collect();
    let numbers = numbers.filter(|numbers| numbers.len() <= 16)?;
    let whole = match shape.len() {
        0 => numbers.into_iter().next()?,
        _ => Expr::list(numbers),
    };
    Some(Expr::call("R.const", [whole, Expr::str(dtype.name())]))
}

/// A value made to fit an annotation: an int is a list of one for `list`, a float for `float`, and so on.
fn fit(op: &str, name: &str, ty: Option<&Expr>, value: Value) -> Eval {
    let Some(annotation) = ty.and_then(Expr::as_path) else {
        return Ok(value);
    };
    if value == Value::None {
        return Ok(value);
    }
    let wrong = |wanted: &str, value: &Value| {
        let message = format!(
            "argument `{name}` of `{op}` is {wanted}, not {}",
            value.describe()
        );
        Box::new(Diagnostic::error("bad-argument", message))
    };
    Ok(match (annotation.as_str(), value) {
        ("list", value @ (Value::Int(_) | Value::Float(_) | Value::Dim(_) | Value::Str(_))) => {
            Value::List(vec![value])
        }
        ("list", value @ (Value::Tuple(_) | Value::Shape(_))) => {
            Value::List(value.as_items().unwrap_or_default())
        }
        ("shape", value) => match dims_of(&value) {
            Some(dims) => Value::Shape(dims),
            None => value,
        },
        ("float", Value::Int(number)) => Value::Float(number as f64),
        ("bool", Value::Int(number)) => Value::Bool(number != 0),
        ("int", Value::Bool(truth)) => Value::Int(i128::from(truth)),
        ("int", Value::Float(number)) if number.fract() == 0.0 => Value::Int(number as i128),
        (
            "int",
            value @ (Value::Str(_)
            | Value::List(_)
            | Value::Tuple(_)
            | Value::Expr(_, Type::Tensor(_))),
        ) => {
            return Err(wrong("an integer", &value));
        }
        ("str", value @ (Value::Int(_) | Value::Float(_) | Value::List(_) | Value::Expr(..))) => {
            return Err(wrong("a string", &value));
        }
        ("dtype", Value::Str(name)) => match DType::from_name(&name) {
            Some(_) => Value::Str(name),
            None => return Err(wrong("a dtype", &Value::Str(name))),
        },
        (
            "R.Tensor",
            value @ (Value::Str(_)
            | Value::List(_)
            | Value::Tuple(_)
            | Value::Expr(_, Type::Tuple(_))),
        ) => {
            return Err(wrong("a tensor", &value));
        }
        ("R.Tuple", value @ Value::List(_)) => Value::Tuple(value.as_items().unwrap_or_default()),
        ("R.Tuple", value @ Value::Expr(_, Type::Tensor(_))) => Value::Tuple(vec![value]),
        (_, value) => value,
    })
}

fn bad_call(message: String) -> Fault {
    Box::new(Diagnostic::error("bad-call", message))
}

fn no_parameter(op: &str, name: &str, func: &Func) -> Fault {
    let fault = Diagnostic::error("bad-call", format!("`{op}` has no argument `{name}`"));
    let known = func.params.iter().map(|param| param.name.as_str());
    Box::new(match suggest::closest(name, known) {
        Some(near) => fault.help(format!("write `{near}=`"), None),
        None => fault,
    })
}

/// An operator that is neither a primitive nor in the library.
pub(crate) fn unknown_operator(
    path: &str,
    span: Option<Span>,
    lib: &crate::library::Library,
) -> Fault {
    let fault = Diagnostic::error("unknown-operator", format!("there is no operator `{path}`"))
        .at(span, "unknown operator");
    let known = Prim::all()
        .map(|row| row.0)
        .chain(lib.ops().map(|row| row.0));
    Box::new(match suggest::closest(path, known) {
        Some(near) => fault.help(format!("write `{near}`"), None),
        None => fault,
    })
}

/// Places in the text of the standard library become notes; the fault itself is shown at the user's call.
fn at_template(mut fault: Fault, template: Template<'_>) -> Fault {
    // A constraint is that of the operator that was called, not of the helper that states it.
    if fault.code == "constraint"
        && !fault.message.starts_with('`')
        && !template.op().starts_with("std.")
    {
        fault.message = format!("`{}`: {}", template.op(), fault.message);
    }
    let place = |span: Span| template.place(span);
    if let Some(label) = fault.primary.take() {
        match place(label.span) {
            Some(place) => {
                fault
                    .notes
                    .push(format!("{place}: {}, in `{}`", label.text, template.op()))
            }
            None => fault.related.insert(0, label),
        }
    }
    let related = std::mem::take(&mut fault.related);
    for label in related {
        if place(label.span).is_none() {
            fault.related.push(label);
        }
    }
    fault
}

//! Calls in templates: primitives, other library functions, local functions, methods.

use irc_syntax::{Arg, DType, Diagnostic, Expr, ExprKind, Func, Name, Span};

use super::emit::dims_of;
use super::eval::fault;
use super::stmt::Flow;
use super::{DEPTH, Depth, Eval, Fault, Frame, Inner, Machine, Value};
use crate::check::prim::Prim;
use crate::check::suggest;
use crate::check::types::Type;
use crate::library::Template;

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
        if is_type(&path) {
            return self.type_value(&path, args, frame);
        }
        if path == "I.while_loop" {
            return self.while_loop(expr, args, frame, hint);
        }
        let values = self.args(args, frame)?;
        if path.starts_with("I.") && Prim::find(&path).is_some() {
            return self.emit_prim(&path, values, expr.span, frame, hint);
        }
        if path == "I.seed" {
            return Ok(self.seed());
        }
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
        // Operators of ONNX are spelled out, so that what is imported reads in those of `R`.
        let is_spelled_out =
            path.starts_with("onnx.") && !(self.depth == Depth::Onnx && is_operator_of_onnx(path));
        let is_helper = path.starts_with("std.") || is_spelled_out || !self.lib.has(path);
        if self.depth != Depth::Full && !is_helper {
            return self.emit_call(template, path, values, since, frame, hint);
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
    pub(super) fn call_def(
        &mut self,
        func: &'a Func,
        args: Args,
        frame: &Frame<'a>,
        hint: &str,
    ) -> Eval {
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
            names: &mut *self.names,
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
            funcs: Vec::new(),
            steps: self.steps,
            max_steps: self.max_steps,
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
}

/// Whether a name is that of an operator of ONNX, not of a part of one that the library has a function for.
pub(crate) fn is_operator_of_onnx(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or_default();
    path.starts_with("onnx.") && name.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Whether a call states a type.
pub(super) fn is_type(path: &str) -> bool {
    matches!(path, "R.Tensor" | "R.Seq" | "R.Opt")
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

pub(super) fn bad_call(message: String) -> Fault {
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

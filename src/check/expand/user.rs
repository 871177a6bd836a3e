//! Arguments as the user's program writes them.

use irc_syntax::{Arg, DType, Expr, ExprKind};

use super::call::{Args, bad_call, is_type, unknown_operator};
use super::{Eval, Frame, Machine, Value};
use crate::check::prim;
use crate::check::types::Type;
use crate::library::Template;
use crate::shape::Dim;

impl<'a> Machine<'_, 'a> {
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
            let mut params = template.func.params.iter();
            let param = match &arg.name {
                Some(name) => params.find(|param| param.name == *name),
                None => params.nth(values.len()),
            };
            let is_tensor = param
                .and_then(|param| param.ty.as_ref()?.as_path())
                .is_some_and(|ty| ty == "R.Tensor");
            let constant = typed_number(&arg.value).filter(|_| is_tensor);
            let value = constant.as_ref().unwrap_or(&arg.value);
            values.push((arg.name.clone(), self.user_value(value)?));
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
        if let Some(dim) = self.extent(expr) {
            return Ok(dim
                .as_int()
                .map_or(Value::Dim(dim), |value| Value::Int(value.into())));
        }
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
                    (path, _) if is_type(path) => Ok(Value::Expr(expr.clone(), Type::Any)),
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

impl Machine<'_, '_> {
    /// Arithmetic of extents, scalar parameters among them.
    fn extent(&mut self, expr: &Expr) -> Option<Dim> {
        let is_arithmetic = match &expr.kind {
            ExprKind::Binary { .. } => true,
            ExprKind::Call { .. } => expr.is_call_of("T.min") || expr.is_call_of("T.max"),
            _ => false,
        };
        let dim = is_arithmetic.then(|| Dim::from_expr(expr).ok())??;
        let mut symbols = dim.symbols().into_iter();
        let are_extents = symbols.all(|symbol| {
            let ty = self.type_of(&Expr::name(symbol));
            matches!(ty, Type::Scalar(dtype) if dtype.is_int())
        });
        are_extents.then_some(dim)
    }
}

/// `R.const(1.0, "float16")` for `T.float16(1.0)`, also inside `R.prim_value`: a number that states its dtype.
fn typed_number(value: &Expr) -> Option<Expr> {
    let (path, [Arg { value: inner, .. }]) = value.as_call()? else {
        return None;
    };
    if path == "R.prim_value" {
        return typed_number(inner);
    }
    let dtype = DType::from_name(path.strip_prefix("T.")?)?;
    Some(Expr::call("R.const", [inner.clone(), Expr::str(dtype.name())]).at(value.span))
}

//! What templates emit: calls of primitives, and calls of library functions that stay calls.

use irc_syntax::{Arg, DType, Diagnostic, Expr, ExprKind, Name, Span};

use super::call::Args;
use super::eval::fault;
use super::{Depth, Eval, Frame, Machine, Value};
use crate::check::prim::{self, Kind, Prim, Slot};
use crate::check::types::{TensorType, Type};
use crate::library::{Template, since_of};
use crate::shape::Dim;

/// Constants of more elements get a name.
const MAX_REPEATED: usize = 1024;

/// The number of numbers in nested lists.
fn members(value: &Value) -> usize {
    match value {
        Value::List(items) | Value::Tuple(items) => items.iter().map(members).sum(),
        _ => 1,
    }
}

impl<'a> Machine<'_, 'a> {
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
        // A table is written once, however often it is read.
        if members(value) > MAX_REPEATED {
            let base = format!("{}_table", frame.prefix);
            return Ok(self.bind(&base, call, ty));
        }
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
            (Value::Int(_) | Value::Float(_) | Value::Bool(_), None) => {
                let dtype = match (prim, &value) {
                    // No operand is a tensor, and these take tensors only.
                    (Prim::Binary(_) | Prim::Where, Value::Float(_)) => DType::F32,
                    (Prim::Binary(_) | Prim::Where, Value::Int(_)) => DType::I64,
                    (Prim::Binary(_) | Prim::Where, _) => DType::Bool,
                    _ => return Ok(attribute(&value)),
                };
                Ok(scalar(&value, dtype).at(self.span))
            }
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
    pub(super) fn emit_call(
        &mut self,
        template: Template<'a>,
        path: &str,
        values: Args,
        since: Option<u32>,
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
        if self.depth == Depth::Onnx && path.starts_with("onnx.") {
            call = call.with(
                "since",
                Expr::int(i128::from(since.unwrap_or(since_of(template.func)))),
            );
        }
        let hint = match hint {
            "=" => "",
            "" => path.rsplit('.').next().unwrap_or(path),
            _ => hint,
        };
        Ok(self.emit(frame, hint, call, ty, born))
    }
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

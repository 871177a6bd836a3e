//! Expressions of templates.

use irc_syntax::{Diagnostic, Expr, ExprKind, Span, UnaryOp};

use super::{Eval, Fault, Frame, Machine, Value};
use crate::check::prim::Scope;
use crate::check::types::{TensorType, Type};
use crate::shape::Dim;
use crate::tensor::{Tensor, parse_const};

impl<'m, 'a> Machine<'m, 'a> {
    /// The value of an expression. `hint` names what it emits.
    pub(super) fn eval(&mut self, expr: &Expr, frame: &mut Frame<'a>, hint: &str) -> Eval {
        self.step()?;
        match &expr.kind {
            ExprKind::Name(name) => self.name(expr, name, frame),
            ExprKind::Int(value) => Ok(Value::Int(*value)),
            ExprKind::Float(value) => Ok(Value::Float(*value)),
            ExprKind::Str(text) => Ok(Value::Str(text.clone())),
            ExprKind::Bool(value) => Ok(Value::Bool(*value)),
            ExprKind::None => Ok(Value::None),
            ExprKind::Attr { value, name } => self.member(expr, value, name, frame),
            ExprKind::Call { func, args } => self.call(expr, func, args, frame, hint),
            ExprKind::Index { value, index } => {
                if let Some(item) = self.item_of_variable(value, index, frame)? {
                    return Ok(item);
                }
                let value = self.eval(value, frame, "")?;
                self.index(expr, value, index, frame, hint)
            }
            ExprKind::Tuple { items, .. } => Ok(Value::Tuple(self.items(items, frame)?)),
            ExprKind::List(items) => Ok(Value::List(self.items(items, frame)?)),
            ExprKind::Unary { op, value } => {
                let value = self.eval(value, frame, "")?;
                self.unary(*op, value, expr.span, frame, hint)
            }
            ExprKind::Binary { op, lhs, rhs } => self.binary_expr(expr, *op, lhs, rhs, frame, hint),
            ExprKind::IfElse { cond, then, orelse } => match self.condition(cond, frame)? {
                true => self.eval(then, frame, hint),
                false => self.eval(orelse, frame, hint),
            },
            ExprKind::ListComp {
                element,
                target,
                iter,
                cond,
            } => {
                let items = self.eval(iter, frame, "")?;
                let items = self.iterate(items, iter.span, frame)?;
                // The variable of a comprehension is its own.
                let before = frame.vars.clone();
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    self.step()?;
                    self.assign(target, item, frame)?;
                    let taken = match cond {
                        Some(cond) => self.condition(cond, frame)?,
                        None => true,
                    };
                    if taken {
                        list.push(self.eval(element, frame, hint)?);
                    }
                }
                frame.vars = before;
                Ok(Value::List(list))
            }
            ExprKind::Ellipsis
            | ExprKind::Slice { .. }
            | ExprKind::Dict(_)
            | ExprKind::Starred(_)
            | ExprKind::Error => Err(fault(
                expr.span,
                "this has no meaning in a library function",
            )),
        }
    }

    /// Elements of a list; `*x` puts in the elements of x.
    pub(super) fn items(&mut self, items: &[Expr], frame: &mut Frame<'a>) -> Eval<Vec<Value>> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            if let ExprKind::Starred(inner) = &item.kind {
                let inner_value = self.eval(inner, frame, "")?;
                values.extend(self.iterate(inner_value, inner.span, frame)?);
            } else {
                values.push(self.eval(item, frame, "")?);
            }
        }
        Ok(values)
    }

    /// The truth of a condition; a fault where it is not decided.
    pub(super) fn condition(&mut self, cond: &Expr, frame: &mut Frame<'a>) -> Eval<bool> {
        let value = self.eval(cond, frame, "")?;
        value.truth(self.facts()).ok_or_else(|| match &value {
            Value::Expr(..) => fault(cond.span, "a condition on values known at run time only"),
            _ => Box::new(
                Diagnostic::error(
                    "dim-undecided",
                    "a comparison of extents cannot be decided here",
                )
                .at(cond.span, "not decided")
                .help(
                    "ask with `I.prove(…)`, which is True only where it is proved",
                    None,
                ),
            ),
        })
    }

    fn name(&mut self, expr: &Expr, name: &irc_syntax::Name, frame: &Frame<'a>) -> Eval {
        if let Some(value) = frame.vars.get(name) {
            return Ok(value.clone());
        }
        if frame.template.is_some() {
            return Err(Box::new(
                Diagnostic::error(
                    "unknown-name",
                    format!("`{name}` is not bound in the library function"),
                )
                .at(expr.span, "not bound"),
            ));
        }
        Ok(match self.type_of(expr) {
            Type::Scalar(dtype) if dtype.is_int() => Value::Dim(Dim::sym(name)),
            Type::Shape(Some(dims)) => Value::Shape(dims),
            ty => Value::Expr(expr.clone(), ty),
        })
    }

    fn member(
        &mut self,
        expr: &Expr,
        value: &Expr,
        name: &irc_syntax::Name,
        frame: &mut Frame<'a>,
    ) -> Eval {
        if let ExprKind::Name(base) = &value.kind
            && **base == *"I"
            && !frame.vars.contains_key(base)
        {
            return match name.as_str() {
                "inf" => Ok(Value::Float(f64::INFINITY)),
                "nan" => Ok(Value::Float(f64::NAN)),
                "pi" => Ok(Value::Float(std::f64::consts::PI)),
                _ => Err(fault(expr.span, &format!("there is no `I.{name}`"))),
            };
        }
        let object = self.eval(value, frame, "")?;
        match (name.as_str(), &object) {
            (
                "ndim",
                Value::Expr(
                    _,
                    Type::Tensor(TensorType {
                        ndim: Some(rank), ..
                    }),
                ),
            ) => Ok(Value::from(*rank)),
            (
                "ndim",
                Value::Expr(_, Type::Scalar(_))
                | Value::Int(_)
                | Value::Float(_)
                | Value::Bool(_)
                | Value::Dim(_),
            ) => Ok(Value::Int(0)),
            ("ndim", Value::Shape(dims)) => Ok(Value::from(dims.len())),
            ("dtype", Value::Expr(..)) => match object.dtype() {
                Some(dtype) => Ok(Value::Str(dtype.name().to_string())),
                None => Err(unknown(expr.span, "dtype", &object)),
            },
            ("dtype", Value::Int(_) | Value::Dim(_)) => Ok(Value::Str("int64".to_string())),
            ("dtype", Value::Float(_)) => Ok(Value::Str("float32".to_string())),
            ("dtype", Value::Bool(_)) => Ok(Value::Str("bool".to_string())),
            ("shape", Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::Dim(_)) => {
                Ok(Value::Tuple(Vec::new()))
            }
            ("shape", Value::Expr(_, Type::Scalar(_))) => Ok(Value::Tuple(Vec::new())),
            ("shape", Value::Expr(_, Type::Tensor(ty))) => match (&ty.shape, ty.ndim) {
                (Some(dims), _) => Ok(Value::Tuple(dims.iter().map(Value::from_dim).collect())),
                (None, Some(rank)) => self.find_shape(value, object.clone(), rank, frame),
                (None, None) => Err(unknown(expr.span, "rank", &object)),
            },
            ("ndim", _) => Err(unknown(expr.span, "rank", &object)),
            _ => Err(fault(
                expr.span,
                &format!("{} has no `{name}`", object.describe()),
            )),
        }
    }

    /// Extents of a tensor whose rank alone is known become symbols, bound by a cast from here on.
    fn find_shape(
        &mut self,
        variable: &Expr,
        tensor: Value,
        rank: usize,
        frame: &mut Frame<'a>,
    ) -> Eval {
        let Value::Expr(expr, Type::Tensor(ty)) = tensor else {
            return Ok(tensor);
        };
        let born = self.fresh.len();
        let stem = expr
            .as_name()
            .map_or_else(|| "x".to_string(), ToString::to_string);
        let dims: Vec<Dim> = (0..rank)
            .map(|at| self.inner().fresh(&format!("{stem}_d{at}")))
            .collect();
        let ty = Type::Tensor(TensorType {
            shape: Some(dims.clone()),
            ..ty
        });
        let known = self.cast_fresh(&stem, Value::Expr(expr, ty.clone()), ty, born);
        if let ExprKind::Name(name) = &variable.kind {
            frame.vars.insert(name.clone(), known);
        }
        Ok(Value::Tuple(dims.iter().map(Value::from_dim).collect()))
    }

    /// An element of a list that a variable holds, without a copy of the list: tables of models are long. `None`
    /// where the general way has to say what is there, or what is wrong.
    fn item_of_variable(
        &mut self,
        value: &Expr,
        index: &[Expr],
        frame: &mut Frame<'a>,
    ) -> Eval<Option<Value>> {
        let ([at], ExprKind::Name(name)) = (index, &value.kind) else {
            return Ok(None);
        };
        let is_list = matches!(frame.vars.get(name), Some(Value::List(_) | Value::Tuple(_)));
        if !is_list || matches!(at.kind, ExprKind::Slice { .. }) || at.as_name() == Some(name) {
            return Ok(None);
        }
        let at = self.eval(at, frame, "")?.as_int();
        let (Some(at), Some(Value::List(items) | Value::Tuple(items))) = (at, frame.vars.get(name))
        else {
            return Ok(None);
        };
        let at = if at < 0 { at + items.len() as i128 } else { at };
        Ok(usize::try_from(at)
            .ok()
            .and_then(|at| items.get(at))
            .cloned())
    }

    fn index(
        &mut self,
        expr: &Expr,
        value: Value,
        index: &[Expr],
        frame: &mut Frame<'a>,
        hint: &str,
    ) -> Eval {
        let [at] = index else {
            return Err(fault(expr.span, "one index is needed here"));
        };
        if let ExprKind::Slice { lo, hi, step } = &at.kind {
            let mut bound = |part: &Option<Box<Expr>>| -> Eval<Option<i128>> {
                match part {
                    Some(part) => Ok(self.eval(part, frame, "")?.as_int()),
                    None => Ok(None),
                }
            };
            let (lo, hi, step) = (bound(lo)?, bound(hi)?, bound(step)?);
            return match value {
                Value::List(items) => Ok(Value::List(slice(&items, lo, hi, step))),
                Value::Tuple(items) => Ok(Value::Tuple(slice(&items, lo, hi, step))),
                Value::Shape(_) => Ok(Value::List(slice(
                    &value.as_items().unwrap_or_default(),
                    lo,
                    hi,
                    step,
                ))),
                Value::Str(text) => {
                    let letters: Vec<char> = text.chars().collect();
                    Ok(Value::Str(
                        slice(&letters, lo, hi, step).into_iter().collect(),
                    ))
                }
                other => Err(fault(
                    expr.span,
                    &format!("{} has no slices", other.describe()),
                )),
            };
        }
        let at_value = self.eval(at, frame, "")?;
        let Some(number) = at_value.as_int() else {
            return Err(fault(at.span, "an index is an integer that is known"));
        };
        let pick = |length: usize| {
            let number = if number < 0 {
                number + length as i128
            } else {
                number
            };
            usize::try_from(number).ok().filter(|at| *at < length)
        };
        let outside = |length: usize| {
            fault(
                expr.span,
                &format!("index {number} is outside a list of {length}"),
            )
        };
        match &value {
            Value::List(items) | Value::Tuple(items) => pick(items.len())
                .and_then(|at| items.get(at).cloned())
                .ok_or_else(|| outside(items.len())),
            Value::Shape(dims) => pick(dims.len())
                .and_then(|at| dims.get(at).map(Value::from_dim))
                .ok_or_else(|| outside(dims.len())),
            Value::Str(text) => {
                let letters: Vec<char> = text.chars().collect();
                pick(letters.len())
                    .and_then(|at| letters.get(at).map(|letter| Value::Str(letter.to_string())))
                    .ok_or_else(|| outside(letters.len()))
            }
            Value::Expr(_, Type::Tuple(members)) => {
                let at = pick(members.len()).ok_or_else(|| outside(members.len()))?;
                self.project(&value, at, frame, hint)
            }
            other => Err(fault(
                expr.span,
                &format!(
                    "{} is not indexed: use `R.take` or `R.strided_slice`",
                    other.describe()
                ),
            )),
        }
    }

    /// A member of a run-time tuple, as a binding.
    pub(super) fn project(
        &mut self,
        tuple: &Value,
        at: usize,
        frame: &Frame<'a>,
        hint: &str,
    ) -> Eval {
        let Value::Expr(expr, Type::Tuple(members)) = tuple else {
            return Ok(tuple.clone());
        };
        let Some(ty) = members.get(at).cloned() else {
            return Ok(Value::None);
        };
        let part = Expr::index(expr.clone(), [Expr::int(at as i128)]).at(self.span);
        let hint = if hint.is_empty() {
            at.to_string()
        } else {
            hint.to_string()
        };
        let born = self.fresh.len();
        Ok(self.emit(frame, &hint, part, ty, born))
    }

    /// The members of what a loop walks.
    pub(super) fn iterate(
        &mut self,
        value: Value,
        span: Option<Span>,
        frame: &Frame<'a>,
    ) -> Eval<Vec<Value>> {
        match &value {
            Value::Str(text) => Ok(text
                .chars()
                .map(|letter| Value::Str(letter.to_string()))
                .collect()),
            Value::Expr(_, Type::Tuple(members)) => (0..members.len())
                .map(|at| self.project(&value, at, frame, ""))
                .collect(),
            _ => value
                .as_items()
                .ok_or_else(|| fault(span, &format!("{} is not a list", value.describe()))),
        }
    }

    /// The constant that a value is; inline ones, and those that the caller knows.
    pub(super) fn constant(&mut self, value: &Value) -> Option<Tensor> {
        let Value::Expr(expr, _) = value else {
            return None;
        };
        if let Some((path, args)) = expr.as_call()
            && path == "R.const"
        {
            return parse_const(args).ok();
        }
        let found = self.scope.constant(expr);
        self.tainted |= found.is_some();
        found
    }

    fn unary(
        &mut self,
        op: UnaryOp,
        value: Value,
        span: Option<Span>,
        frame: &Frame<'a>,
        hint: &str,
    ) -> Eval {
        let prim = match op {
            UnaryOp::Neg => "negative",
            UnaryOp::Pos => return Ok(value),
            UnaryOp::Not => {
                if let Value::Expr(..) = value {
                    "logical_not"
                } else {
                    return Ok(value
                        .truth(self.facts())
                        .map_or(Value::Maybe, |truth| Value::Bool(!truth)));
                }
            }
            UnaryOp::Invert => "bitwise_not",
        };
        match (op, &value) {
            (_, Value::Expr(..)) => {
                self.emit_prim(&format!("R.{prim}"), vec![(None, value)], span, frame, hint)
            }
            (UnaryOp::Neg, Value::Int(number)) => Ok(Value::Int(-number)),
            (UnaryOp::Neg, Value::Bool(truth)) => Ok(Value::Int(-i128::from(*truth))),
            (UnaryOp::Neg, Value::Float(number)) => Ok(Value::Float(-number)),
            (UnaryOp::Neg, Value::Dim(dim)) => Ok(Value::from_dim(&-dim)),
            (UnaryOp::Invert, Value::Int(number)) => Ok(Value::Int(!number)),
            _ => Err(fault(
                span,
                &format!("{} has no `{prim}`", value.describe()),
            )),
        }
    }
}

fn slice<T: Clone>(items: &[T], lo: Option<i128>, hi: Option<i128>, step: Option<i128>) -> Vec<T> {
    let length = items.len() as i128;
    let step = step.unwrap_or(1);
    let (low, high) = if step > 0 {
        (0, length)
    } else {
        (-1, length - 1)
    };
    let bound = |bound: Option<i128>, default: i128| match bound {
        Some(bound) => (if bound < 0 { bound + length } else { bound }).clamp(low, high),
        None => default,
    };
    let (mut at, end) = if step > 0 {
        (bound(lo, low), bound(hi, high))
    } else {
        (bound(lo, high), bound(hi, low))
    };
    let mut picked = Vec::new();
    while step != 0 && if step > 0 { at < end } else { at > end } {
        picked.extend(
            usize::try_from(at)
                .ok()
                .and_then(|at| items.get(at).cloned()),
        );
        at += step;
    }
    picked
}

/// A fault in the text of a library function.
pub(super) fn fault(span: Option<Span>, message: &str) -> Fault {
    Box::new(Diagnostic::error("template", message.to_string()).at(span, "here"))
}

fn unknown(span: Option<Span>, what: &str, value: &Value) -> Fault {
    let text = match value {
        Value::Expr(expr, _) => expr
            .as_path()
            .map_or("the operand".to_string(), |path| format!("`{path}`")),
        other => other.describe(),
    };
    Box::new(
        Diagnostic::error("type-unknown", format!("the {what} of {text} is not known"))
            .at(span, "needed here")
            .help("annotate it, or cast it with `R.match_cast`", None),
    )
}

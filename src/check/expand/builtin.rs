//! What templates may call besides operators: Python's own functions, `I.…`, and methods of lists and strings.

use irc_syntax::{Arg, DType, Expr, Name, Span};

use super::call::Args;
use super::eval::fault;
use super::{Eval, Frame, Machine, Value};
use crate::check::prim::{MAX_CONTENT, Scope};
use crate::check::types::{TensorType, Type};
use crate::shape::Dim;
use crate::tensor::Tensor;

impl<'a> Machine<'_, 'a> {
    /// `I.prove(c)` and `I.fail("…")`.
    pub(super) fn prove_or_fail(
        &mut self,
        path: &str,
        expr: &Expr,
        args: &[Arg],
        frame: &mut Frame<'a>,
    ) -> Eval {
        let [arg] = args else {
            return Err(fault(expr.span, "one argument is needed here"));
        };
        let value = self.eval(&arg.value, frame, "")?;
        if path == "I.fail" {
            return Err(self.constraint(value));
        }
        Ok(Value::Bool(value.truth(self.facts()) == Some(true)))
    }

    /// `I.seed()`: a number below 2^32 made from the name of the call's result (FNV-1a), so that it is the same in
    /// every run and differs between the calls of a program.
    pub(super) fn seed(&self) -> Value {
        let hash = self.base.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        Value::Int(hash.into())
    }

    /// `R.Tensor(dtype=d)` and the like: a type as the argument of a primitive.
    pub(super) fn type_value(&mut self, path: &str, args: &[Arg], frame: &mut Frame<'a>) -> Eval {
        let mut call = Expr::call(path, []).at(self.span);
        for arg in args {
            let value = self.eval(&arg.value, frame, "")?;
            let value = super::emit::attribute(&value);
            match &arg.name {
                Some(name) => call = call.with(name, value),
                None => {
                    if let irc_syntax::ExprKind::Call { args, .. } = &mut call.kind {
                        args.push(Arg { name: None, value });
                    }
                }
            }
        }
        Ok(Value::Expr(call, Type::Any))
    }

    pub(super) fn builtin_info(
        &mut self,
        name: &str,
        span: Option<Span>,
        args: Args,
        frame: &Frame<'a>,
    ) -> Eval {
        let Some((_, value)) = args.into_iter().next() else {
            return Err(fault(span, "an argument is needed here"));
        };
        let dtype = || match &value {
            Value::Str(name) => DType::from_name(name).ok_or_else(|| fault(span, "no such dtype")),
            other => other
                .dtype()
                .ok_or_else(|| fault(span, "a dtype is needed here")),
        };
        Ok(match name {
            "value" => match self.known_numbers(&value) {
                Some(tensor) => nested(&tensor).unwrap_or(Value::None),
                None => Value::None,
            },
            "dims" => return self.dims(value, span, frame),
            "has_dims" => Value::Bool(self.has_dims(&value)),
            "is_list" => Value::Bool(matches!(
                value,
                Value::List(_) | Value::Tuple(_) | Value::Shape(_)
            )),
            "is_seq" => Value::Bool(matches!(value, Value::Expr(_, Type::Seq(_)))),
            "is_tuple" => Value::Bool(matches!(
                value,
                Value::Tuple(_) | Value::Expr(_, Type::Tuple(_) | Type::Void)
            )),
            "is_optional" => Value::Bool(matches!(value, Value::Expr(_, Type::Opt(_)))),
            "is_tensor" => Value::Bool(matches!(value, Value::Expr(..))),
            "is_known" => Value::Bool(matches!(
                value,
                Value::Int(_) | Value::Float(_) | Value::Bool(_)
            )),
            "is_float" => Value::Bool(dtype()?.is_float()),
            "is_int" => Value::Bool(dtype()?.is_int()),
            "is_signed" => Value::Bool(dtype()?.is_signed() || dtype()?.is_float()),
            "bits" => Value::Int(i128::from(if dtype()? == DType::Bool {
                1
            } else {
                dtype()?.bits()
            })),
            "min_value" => limits(dtype()?).0,
            "max_value" => limits(dtype()?).1,
            _ => return Err(fault(span, &format!("there is no `I.{name}`"))),
        })
    }

    /// The numbers of a constant, or of an integer tensor whose content the types know.
    fn known_numbers(&mut self, value: &Value) -> Option<Tensor> {
        if let Some(tensor) = self.constant(value) {
            return Some(tensor);
        }
        let Value::Expr(
            _,
            Type::Tensor(TensorType {
                shape: Some(shape),
                value: Some(content),
                ..
            }),
        ) = value
        else {
            return None;
        };
        let numbers: Vec<i64> = content.iter().map(Dim::as_int).collect::<Option<_>>()?;
        let shape: Vec<usize> = shape
            .iter()
            .map(|dim| usize::try_from(dim.as_int()?).ok())
            .collect::<Option<_>>()?;
        Tensor::from_vec(shape, &numbers)
    }

    /// `I.has_dims(t)`: whether the contents of a tensor are known as dims, so that `I.dims` binds nothing.
    fn has_dims(&mut self, value: &Value) -> bool {
        let typed = matches!(
            value,
            Value::Expr(
                _,
                Type::Tensor(TensorType { value: Some(_), .. }) | Type::Shape(Some(_))
            )
        );
        typed || !matches!(value, Value::Expr(..)) || self.constant(value).is_some()
    }

    /// `I.dims(t)`: the contents of an integer tensor of rank 0 or 1, as dims.
    fn dims(&mut self, value: Value, span: Option<Span>, frame: &Frame<'a>) -> Eval {
        if let Some(items) = value.as_items() {
            return Ok(Value::List(items));
        }
        if value.as_dim().is_some() {
            return Ok(Value::List(vec![value]));
        }
        match &value {
            Value::Expr(
                _,
                Type::Tensor(TensorType {
                    value: Some(dims), ..
                }),
            ) => return Ok(Value::dims(dims)),
            Value::Expr(_, Type::Shape(Some(dims))) => return Ok(Value::dims(dims)),
            _ => {}
        }
        if let Some(tensor) = self.constant(&value)
            && tensor.dtype.is_int()
        {
            let numbers = tensor.to_i64s().into_iter();
            return Ok(Value::List(
                numbers.map(|number| Value::Int(number.into())).collect(),
            ));
        }
        let Value::Expr(_, Type::Tensor(ty)) = &value else {
            return Err(fault(
                span,
                "`I.dims` takes an integer tensor of rank 0 or 1",
            ));
        };
        let length = match ty.shape.as_deref() {
            Some([]) => Some(1),
            Some([length]) => length
                .as_int()
                .and_then(|length| usize::try_from(length).ok()),
            _ => None,
        };
        let Some(length) = length.filter(|length| *length <= MAX_CONTENT) else {
            return Err(fault(
                span,
                "the number of elements is not known, and is needed for `I.dims`",
            ));
        };
        let (scalar, wide) = (
            ty.shape.as_deref() == Some(&[]),
            ty.dtype == Some(DType::I64),
        );
        let mut tensor = value;
        if !wide {
            let args = vec![(None, tensor), (None, Value::Str("int64".to_string()))];
            tensor = self.emit_prim("R.astype", args, span, frame, "dims")?;
        }
        if scalar {
            let args = vec![(None, tensor), (None, Value::Shape(vec![Dim::int(1)]))];
            tensor = self.emit_prim("R.reshape", args, span, frame, "dims")?;
        }
        let Value::Expr(tensor, _) = tensor else {
            return Ok(tensor);
        };
        let stem = tensor
            .as_name()
            .map_or("dim".to_string(), ToString::to_string);
        let dims: Vec<Dim> = (0..length)
            .map(|at| self.inner().fresh_any_sign(&format!("{stem}_{at}")))
            .collect();
        for dim in &dims {
            if let Some(name) = dim.as_sym().cloned() {
                self.declare(&name);
            }
        }
        let ty = Type::Shape(Some(dims.clone()));
        let shape = self.bind(
            &format!("{}_shape", frame.prefix),
            Expr::call("R.tensor_to_shape", [tensor]).at(self.span),
            Type::Shape(None),
        );
        let Value::Expr(shape, _) = shape else {
            return Ok(shape);
        };
        let cast = Expr::call("R.match_cast", [shape, crate::check::type_to_expr(&ty)]);
        self.bind(&format!("{}_dims", frame.prefix), cast.at(self.span), ty);
        Ok(Value::dims(&dims))
    }

    /// Python's own functions; `None` when there is none of that name.
    pub(super) fn builtin(
        &mut self,
        name: &str,
        span: Option<Span>,
        args: &Args,
        frame: &Frame<'a>,
    ) -> Eval<Option<Value>> {
        // tidy: table
        let first = args.first().map(|(_, value)| value.clone());
        let need = || {
            first
                .clone()
                .ok_or_else(|| fault(span, "an argument is needed here"))
        };
        Ok(Some(match name {
            "range" => range(args, span)?,
            "len" => {
                let value = need()?;
                match &value {
                    Value::Str(text) => Value::from(text.chars().count()),
                    Value::Expr(_, Type::Tuple(members)) => Value::from(members.len()),
                    _ => match value.as_items() {
                        Some(items) => Value::from(items.len()),
                        None => {
                            return Err(fault(
                                span,
                                &format!("{} has no length", value.describe()),
                            ));
                        }
                    },
                }
            }
            "min" | "max" => {
                let items = match args.len() {
                    1 => self.iterate(need()?, span, frame)?,
                    _ => args.iter().map(|(_, value)| value.clone()).collect(),
                };
                self.extreme(&items, name == "max", span)?
            }
            "sum" => {
                let items = self.iterate(need()?, span, frame)?;
                let mut total = args
                    .get(1)
                    .map_or(Value::Int(0), |(_, start)| start.clone());
                for item in items {
                    total = self.binary(irc_syntax::BinaryOp::Add, total, item, span, frame, "")?;
                }
                total
            }
            "abs" => match need()? {
                Value::Int(number) => Value::Int(number.abs()),
                Value::Float(number) => Value::Float(number.abs()),
                Value::Dim(dim) => {
                    let positive = self.facts().prove_le(&Dim::int(0), &dim) == Some(true);
                    Value::from_dim(&if positive {
                        dim
                    } else {
                        Dim::max(&dim, &-&dim)
                    })
                }
                value @ Value::Expr(..) => {
                    return self
                        .emit_prim("R.abs", vec![(None, value)], span, frame, "")
                        .map(Some);
                }
                other => {
                    return Err(fault(
                        span,
                        &format!("{} has no absolute value", other.describe()),
                    ));
                }
            },
            "int" | "round" | "floor" | "ceil" => rounded(name, need()?, args, span)?,
            "float" => match need()? {
                Value::Str(text) => {
                    Value::Float(text.parse().map_err(|_| fault(span, "not a number"))?)
                }
                value => match value.as_float() {
                    Some(number) => Value::Float(number),
                    None => {
                        return Err(fault(
                            span,
                            &format!("{} is not a known number", value.describe()),
                        ));
                    }
                },
            },
            "bool" => {
                let value = need()?;
                value.truth(self.facts()).map_or(Value::Maybe, Value::Bool)
            }
            "str" => match need()? {
                Value::Str(text) => Value::Str(text),
                value => Value::Str(value.describe()),
            },
            "list" | "tuple" | "reversed" | "sorted" | "zip" | "enumerate" | "any" | "all" => {
                self.list_builtin(name, span, args, frame)?
            }
            "R.tuple" => Value::Tuple(args.iter().map(|(_, value)| value.clone()).collect()),
            "R.str" | "R.dtype" | "R.prim_value" | "T.int64" => need()?,
            _ => return Ok(None),
        }))
    }

    /// Functions of lists.
    fn list_builtin(
        &mut self,
        name: &str,
        span: Option<Span>,
        args: &Args,
        frame: &Frame<'a>,
    ) -> Eval {
        let first = args.first().map(|(_, value)| value.clone());
        let need = || {
            first
                .clone()
                .ok_or_else(|| fault(span, "an argument is needed here"))
        };
        Ok(match name {
            "list" | "tuple" => {
                let items = match first {
                    Some(value) => self.iterate(value, span, frame)?,
                    None => Vec::new(),
                };
                if name == "list" {
                    Value::List(items)
                } else {
                    Value::Tuple(items)
                }
            }
            "reversed" => {
                let mut items = self.iterate(need()?, span, frame)?;
                items.reverse();
                Value::List(items)
            }
            "sorted" => {
                let items = self.iterate(need()?, span, frame)?;
                sorted(items, args).ok_or_else(|| fault(span, "these cannot be sorted"))?
            }
            "zip" => {
                let mut lists = Vec::new();
                for (_, value) in args {
                    lists.push(self.iterate(value.clone(), span, frame)?);
                }
                let shortest = lists.iter().map(Vec::len).min().unwrap_or(0);
                let row = |at| {
                    Value::Tuple(
                        lists
                            .iter()
                            .filter_map(|list| list.get(at).cloned())
                            .collect(),
                    )
                };
                Value::List((0..shortest).map(row).collect())
            }
            "enumerate" => {
                let items = self.iterate(need()?, span, frame)?;
                let row = |(at, item)| Value::Tuple(vec![Value::from(at), item]);
                Value::List(items.into_iter().enumerate().map(row).collect())
            }
            _ => {
                let wanted = name == "any";
                let mut result = Value::Bool(!wanted);
                for item in self.iterate(need()?, span, frame)? {
                    match item.truth(self.facts()) {
                        Some(truth) if truth == wanted => return Ok(Value::Bool(wanted)),
                        Some(_) => {}
                        None => result = Value::Maybe,
                    }
                }
                result
            }
        })
    }

    fn extreme(&self, items: &[Value], largest: bool, span: Option<Span>) -> Eval {
        let Some(first) = items.first() else {
            return Err(fault(span, "of an empty list"));
        };
        if items.iter().any(|item| matches!(item, Value::Dim(_))) {
            let dims: Option<Vec<Dim>> = items.iter().map(Value::as_dim).collect();
            let dims = dims.ok_or_else(|| fault(span, "extents beside other values"))?;
            let all = if largest {
                Dim::max_of(dims)
            } else {
                Dim::min_of(dims)
            };
            return Ok(Value::from_dim(&self.facts().simplify(&all)));
        }
        let mut best = first.clone();
        for item in items {
            let (Some(a), Some(b)) = (item.as_float(), best.as_float()) else {
                return Err(fault(
                    span,
                    &format!("{} is not a known number", item.describe()),
                ));
            };
            if if largest { a > b } else { a < b } {
                best = item.clone();
            }
        }
        Ok(best)
    }

    /// Methods of lists and strings.
    pub(super) fn method(
        &mut self,
        span: Option<Span>,
        object: Value,
        name: &Name,
        args: Args,
    ) -> Eval {
        let args: Vec<Value> = args.into_iter().map(|(_, value)| value).collect();
        let facts = self.facts();
        if let Value::Str(text) = &object {
            return string_method(text, name, &args)
                .ok_or_else(|| fault(span, &format!("a string has no `{name}` like this")));
        }
        let Some(items) = object.as_items() else {
            return Err(fault(
                span,
                &format!("{} has no `{name}`", object.describe()),
            ));
        };
        let is_it =
            |item: &&Value| args.first().and_then(|value| value.equals(item, facts)) == Some(true);
        match (name.as_str(), args.as_slice()) {
            ("index", [value]) => match items.iter().position(|item| is_it(&item)) {
                Some(at) => Ok(Value::from(at)),
                None => Err(fault(
                    span,
                    &format!("{} is not in the list", value.describe()),
                )),
            },
            ("count", [_]) => Ok(Value::from(items.iter().filter(is_it).count())),
            _ => Err(fault(span, &format!("a list has no `{name}` like this"))),
        }
    }
}

fn string_method(text: &str, name: &str, args: &[Value]) -> Option<Value> {
    let string = |at: usize| match args.get(at) {
        Some(Value::Str(text)) => Some(text.as_str()),
        _ => None,
    };
    let strings = |parts: Vec<&str>| {
        Value::List(
            parts
                .into_iter()
                .map(|part| Value::Str(part.to_string()))
                .collect(),
        )
    };
    Some(match name {
        "split" if args.is_empty() => strings(text.split_whitespace().collect()),
        "split" => strings(text.split(string(0)?).collect()),
        "replace" => Value::Str(text.replace(string(0)?, string(1)?)),
        "find" | "index" => {
            let at = text
                .find(string(0)?)
                .map(|byte| text.get(..byte).unwrap_or("").chars().count());
            match at {
                Some(at) => Value::from(at),
                None if name == "find" => Value::Int(-1),
                None => return None,
            }
        }
        "count" => Value::from(text.matches(string(0)?).count()),
        "startswith" => Value::Bool(text.starts_with(string(0)?)),
        "endswith" => Value::Bool(text.ends_with(string(0)?)),
        "lower" => Value::Str(text.to_lowercase()),
        "upper" => Value::Str(text.to_uppercase()),
        "strip" => Value::Str(text.trim().to_string()),
        "isdigit" => Value::Bool(!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())),
        "isalpha" => Value::Bool(!text.is_empty() && text.chars().all(char::is_alphabetic)),
        "join" => {
            let parts = args.first()?.as_items()?;
            let parts: Option<Vec<String>> = parts
                .into_iter()
                .map(|part| {
                    if let Value::Str(text) = part {
                        Some(text)
                    } else {
                        None
                    }
                })
                .collect();
            Value::Str(parts?.join(text))
        }
        _ => return None,
    })
}

fn range(args: &Args, span: Option<Span>) -> Eval {
    let numbers: Option<Vec<i128>> = args.iter().map(|(_, value)| value.as_int()).collect();
    let numbers =
        numbers.ok_or_else(|| fault(span, "the ends of a range are integers that are known"))?;
    let (lo, hi, step) = match numbers.as_slice() {
        [hi] => (0, *hi, 1),
        [lo, hi] => (*lo, *hi, 1),
        [lo, hi, step] if *step != 0 => (*lo, *hi, *step),
        _ => return Err(fault(span, "a range has one to three ends")),
    };
    let mut items = Vec::new();
    let mut at = lo;
    while if step > 0 { at < hi } else { at > hi } {
        items.push(Value::Int(at));
        at += step;
        if items.len() > 1 << 20 {
            return Err(fault(span, "a range of over a million"));
        }
    }
    Ok(Value::List(items))
}

fn rounded(name: &str, value: Value, args: &Args, span: Option<Span>) -> Eval {
    if value.as_dim().is_some() {
        return Ok(value);
    }
    if let (Value::Str(text), "int") = (&value, name) {
        return text
            .trim()
            .parse()
            .map(Value::Int)
            .map_err(|_| fault(span, "not an integer"));
    }
    let Some(number) = value.as_float() else {
        return Err(fault(
            span,
            &format!("{} is not a known number", value.describe()),
        ));
    };
    if let Some(digits) = args.get(1).and_then(|(_, digits)| digits.as_int()) {
        let factor = 10f64.powi(digits.clamp(-300, 300) as i32);
        return Ok(Value::Float((number * factor).round_ties_even() / factor));
    }
    let whole = match name {
        "int" => number.trunc(),
        "floor" => number.floor(),
        "ceil" => number.ceil(),
        _ => number.round_ties_even(),
    };
    if !whole.is_finite() || whole.abs() > 1e37 {
        return Err(fault(span, "not a finite number"));
    }
    Ok(Value::Int(whole as i128))
}

fn sorted(mut items: Vec<Value>, args: &Args) -> Option<Value> {
    let all_text = items.iter().all(|item| matches!(item, Value::Str(_)));
    let all_numbers = items.iter().all(|item| item.as_float().is_some());
    if !all_text && !all_numbers {
        return None;
    }
    items.sort_by(|a, b| match (a, b) {
        (Value::Str(a), Value::Str(b)) => a.cmp(b),
        _ => a
            .as_float()
            .unwrap_or(0.0)
            .total_cmp(&b.as_float().unwrap_or(0.0)),
    });
    let descending = args
        .iter()
        .any(|(name, value)| name.as_deref() == Some("reverse") && *value == Value::Bool(true));
    if descending {
        items.reverse();
    }
    Some(Value::List(items))
}

/// Smallest and largest finite value of a dtype.
fn limits(dtype: DType) -> (Value, Value) {
    if dtype == DType::Bool {
        return (Value::Bool(false), Value::Bool(true));
    }
    if let Some((least, most)) = dtype.int_range() {
        return (Value::Int(least), Value::Int(most));
    }
    let most = match dtype {
        DType::F4E2M1 => 6.0,
        DType::F8E4M3FN => 448.0,
        DType::F8E4M3FNUZ => 240.0,
        DType::F8E5M2 | DType::F8E5M2FNUZ => 57344.0,
        DType::F8E8M0 => 2f64.powi(127),
        DType::F16 => 65504.0,
        DType::BF16 => 3.389_531_389_251_535_5e38,
        DType::F64 => f64::MAX,
        _ => f64::from(f32::MAX),
    };
    (
        Value::Float(if dtype == DType::F8E8M0 {
            2f64.powi(-127)
        } else {
            -most
        }),
        Value::Float(most),
    )
}

/// A tensor as nested lists of numbers, up to 4096 of them.
fn nested(tensor: &Tensor) -> Option<Value> {
    if tensor.len() > 4096 {
        return None;
    }
    let flat: Vec<Value> = if let Some(texts) = &tensor.strings {
        texts.iter().map(|text| Value::Str(text.clone())).collect()
    } else if tensor.dtype == DType::Bool {
        tensor
            .data
            .iter()
            .map(|byte| Value::Bool(*byte != 0))
            .collect()
    } else if let Some(wide) = tensor.to_vec::<u64>() {
        wide.into_iter()
            .map(|value| Value::Int(value.into()))
            .collect()
    } else if tensor.dtype.is_float() {
        tensor.to_f64s().into_iter().map(Value::Float).collect()
    } else {
        tensor
            .to_i64s()
            .into_iter()
            .map(|value| Value::Int(value.into()))
            .collect()
    };
    let mut level = flat;
    for extent in tensor.shape.iter().rev() {
        if *extent == 0 {
            level = vec![Value::List(Vec::new()); level.len().max(1)];
            continue;
        }
        level = level
            .chunks(*extent)
            .map(|row| Value::List(row.to_vec()))
            .collect();
    }
    level.into_iter().next()
}

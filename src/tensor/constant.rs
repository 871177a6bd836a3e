//! `R.const(…)` and tensors.
//!
//!     R.const(0.5, "float32")    R.const([[1, 2], [3, 4]], "int64")    R.const("inf", "float32")
//!
//! Floats are written as the shortest decimal that reads back to the same bits of the dtype; what is not finite is
//! written as text, as TVM does.

use irc_syntax::DType;
use irc_syntax::ast::{Arg, Expr, ExprKind, UnaryOp};

use super::{Tensor, TensorError};

/// The tensor that the arguments of `R.const` describe. Without a dtype: `float32`, `int32`, `bool` or `string`.
pub fn parse_const(args: &[Arg]) -> Result<Tensor, TensorError> {
    let positional: Vec<&Expr> = args
        .iter()
        .filter(|arg| arg.name.is_none())
        .map(|arg| &arg.value)
        .collect();
    let keyword = |key: &str| {
        args.iter()
            .find(|arg| arg.name.as_ref().is_some_and(|name| name == key))
            .map(|arg| &arg.value)
    };
    let value = positional.first().copied().or_else(|| keyword("value"));
    let Some(value) = value else {
        return Err(TensorError("`R.const` needs a value".to_owned()));
    };
    let dtype = match positional.get(1).copied().or_else(|| keyword("dtype")) {
        Some(expr) => expr
            .as_str()
            .and_then(DType::from_name)
            .map(Some)
            .ok_or_else(|| TensorError("the dtype of `R.const` is no dtype name".to_owned()))?,
        None => None,
    };
    parse_const_value(value, dtype)
}

/// The values of `T.allocate_const([1, 2, 3], "int32", [3])`. The list may hold strings of hexadecimal digits instead: the
/// bytes as they lie in memory, for tables that would take a line a number.
pub fn parse_const_buffer(call: &Expr) -> Result<Tensor, TensorError> {
    let fault = |text: &str| TensorError(text.to_owned());
    let args: Vec<&Expr> = call.positional().collect();
    let [values, dtype, shape] = args.as_slice() else {
        return Err(fault("it takes values, an element type and a shape"));
    };
    let dtype = dtype.as_str().and_then(DType::from_name);
    let dtype = dtype.ok_or_else(|| fault("its element type is no name of one"))?;
    let dims = shape.as_items().unwrap_or_default().iter();
    let shape: Option<Vec<usize>> = dims
        .map(|dim| usize::try_from(dim.as_int()?).ok())
        .collect();
    let shape = shape.ok_or_else(|| fault("its shape is no list of numbers"))?;
    let items = values.as_items().unwrap_or_default();
    let data = match items.first().map(|item| &item.kind) {
        Some(ExprKind::Str(_)) => {
            let text: Option<Vec<&str>> = items.iter().map(Expr::as_str).collect();
            bytes_of_hex(&text.unwrap_or_default().concat())
                .ok_or_else(|| fault("its text is not hexadecimal"))?
        }
        _ => parse_const_value(values, Some(dtype))?.data.to_vec(),
    };
    Tensor::new(dtype, shape, data).ok_or_else(|| fault("its values do not fit its shape"))
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// The tensor of a number or nested lists of numbers. Without a dtype as in [`parse_const`].
pub fn parse_const_value(value: &Expr, dtype: Option<DType>) -> Result<Tensor, TensorError> {
    let mut leaves = Vec::new();
    let mut shape = Vec::new();
    collect(value, 0, &mut shape, &mut leaves)?;
    let dtype = dtype.unwrap_or_else(|| default_dtype(&leaves));
    build(dtype, shape, &leaves)
}

/// One number or text of a constant.
#[derive(Clone, Copy)]
enum Leaf<'a> {
    Int(i128),
    Float(f64),
    Bool(bool),
    Text(&'a str),
}

fn default_dtype(leaves: &[Leaf]) -> DType {
    let mut dtype = DType::Bool;
    for leaf in leaves {
        match leaf {
            Leaf::Text(_) => return DType::Str,
            Leaf::Float(_) => dtype = DType::F32,
            Leaf::Int(_) if dtype == DType::Bool => dtype = DType::I32,
            Leaf::Int(_) | Leaf::Bool(_) => {}
        }
    }
    if leaves.is_empty() { DType::F32 } else { dtype }
}

/// Walks a nested list; the first element of a level fixes the extent of the next.
fn collect<'a>(
    expr: &'a Expr,
    depth: usize,
    shape: &mut Vec<usize>,
    leaves: &mut Vec<Leaf<'a>>,
) -> Result<(), TensorError> {
    let Some(items) = expr.as_items() else {
        if depth < shape.len() {
            return Err(TensorError(
                "the lists of the constant differ in depth".to_owned(),
            ));
        }
        leaves.push(leaf(expr)?);
        return Ok(());
    };
    match shape.get(depth) {
        Some(&extent) if extent != items.len() => {
            return Err(TensorError(format!(
                "lists of {extent} and of {} elements in one constant",
                items.len()
            )));
        }
        Some(_) => {}
        None if leaves.is_empty() => shape.push(items.len()),
        None => {
            return Err(TensorError(
                "the lists of the constant differ in depth".to_owned(),
            ));
        }
    }
    items
        .iter()
        .try_for_each(|item| collect(item, depth + 1, shape, leaves))
}

fn leaf(expr: &Expr) -> Result<Leaf<'_>, TensorError> {
    let fault = || TensorError("an element of the constant is no number".to_owned());
    Ok(match &expr.kind {
        ExprKind::Int(value) => Leaf::Int(*value),
        ExprKind::Float(value) => Leaf::Float(*value),
        ExprKind::Bool(value) => Leaf::Bool(*value),
        ExprKind::Str(text) => Leaf::Text(text),
        ExprKind::Unary {
            op: UnaryOp::Neg,
            value,
        } => match leaf(value)? {
            Leaf::Int(value) => Leaf::Int(value.checked_neg().ok_or_else(fault)?),
            Leaf::Float(value) => Leaf::Float(-value),
            Leaf::Bool(_) | Leaf::Text(_) => return Err(fault()),
        },
        ExprKind::Unary {
            op: UnaryOp::Pos,
            value,
        } => leaf(value)?,
        // `T.float32(0.5)`, `T.int64(3)`, `T.bool(True)` inside a constant.
        ExprKind::Call { args, .. } if args.len() == 1 => leaf(&args[0].value)?,
        _ => return Err(fault()),
    })
}

fn build(dtype: DType, shape: Vec<usize>, leaves: &[Leaf]) -> Result<Tensor, TensorError> {
    let count_fault = || TensorError("the constant has too many or too few elements".to_owned());
    if dtype == DType::Str {
        let text = |leaf: &Leaf| match leaf {
            Leaf::Text(text) => Ok((*text).to_owned()),
            _ => Err(TensorError(
                "an element of a string constant is no string".to_owned(),
            )),
        };
        let strings = leaves.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        return Tensor::from_strings(shape, strings).ok_or_else(count_fault);
    }
    if dtype.is_int() || dtype == DType::Bool {
        let values = leaves
            .iter()
            .map(|leaf| int_leaf(*leaf, dtype))
            .collect::<Result<Vec<_>, _>>()?;
        return Tensor::from_i64s(dtype, shape, &values).ok_or_else(count_fault);
    }
    let values = leaves
        .iter()
        .map(|leaf| float_leaf(*leaf))
        .collect::<Result<Vec<_>, _>>()?;
    Tensor::from_f64s(dtype, shape, &values).ok_or_else(count_fault)
}

fn int_leaf(leaf: Leaf, dtype: DType) -> Result<i64, TensorError> {
    let value = match leaf {
        Leaf::Int(value) => value,
        Leaf::Bool(value) => i128::from(value),
        Leaf::Float(value) if dtype == DType::Bool => i128::from(value != 0.0),
        Leaf::Float(value) if value.trunc() == value && value.abs() < 1e18 => value as i128,
        Leaf::Float(value) => return Err(TensorError(format!("{value} is no {dtype}"))),
        Leaf::Text(text) => return Err(TensorError(format!("{text:?} is no {dtype}"))),
    };
    let bits = if dtype == DType::Bool {
        1
    } else {
        dtype.bits()
    };
    let (lo, hi) = if dtype.is_signed() {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    if value < lo || hi < value {
        return Err(TensorError(format!("{value} does not fit {dtype}")));
    }
    Ok(value as i64)
}

fn float_leaf(leaf: Leaf) -> Result<f64, TensorError> {
    Ok(match leaf {
        Leaf::Int(value) => value as f64,
        Leaf::Float(value) => value,
        Leaf::Bool(value) => f64::from(u8::from(value)),
        Leaf::Text(text) => match text {
            "inf" | "+inf" | "Infinity" => f64::INFINITY,
            "-inf" | "-Infinity" => f64::NEG_INFINITY,
            "nan" | "NaN" => f64::NAN,
            _ => return Err(TensorError(format!("{text:?} is no number"))),
        },
    })
}

/// The expression that `parse_const` reads back to the same tensor. A tensor without elements that a list cannot
/// describe comes as `R.full`.
pub fn print_const(tensor: &Tensor) -> Expr {
    let dtype = Expr::str(tensor.dtype.name());
    let has_lost_extents = tensor
        .shape
        .iter()
        .position(|&extent| extent == 0)
        .is_some_and(|at| at + 1 != tensor.shape.len());
    if has_lost_extents {
        let shape = Expr::list(tensor.shape.iter().map(|&extent| Expr::int(extent as i128)));
        let zero = match tensor.dtype {
            DType::Str => Expr::str(""),
            DType::Bool => Expr::bool(false),
            dtype if dtype.is_int() => Expr::int(0),
            _ => Expr::float(0.0),
        };
        let fill = Expr::call("R.const", [zero, dtype.clone()]);
        return Expr::call("R.full", [Expr::call("R.shape", [shape]), fill]).with("dtype", dtype);
    }
    let mut leaves = leaf_exprs(tensor).into_iter();
    let value = nest(&tensor.shape, &mut leaves);
    Expr::call("R.const", [value, dtype])
}

fn nest(shape: &[usize], leaves: &mut impl Iterator<Item = Expr>) -> Expr {
    match shape.split_first() {
        None => leaves.next().unwrap_or_else(Expr::none),
        Some((&extent, rest)) => {
            Expr::list((0..extent).map(|_| nest(rest, leaves)).collect::<Vec<_>>())
        }
    }
}

fn leaf_exprs(tensor: &Tensor) -> Vec<Expr> {
    if let Some(strings) = &tensor.strings {
        return strings.iter().map(|text| Expr::str(text.clone())).collect();
    }
    let ints = || tensor.to_i64s().into_iter();
    match tensor.dtype {
        DType::Bool => ints().map(|value| Expr::bool(value != 0)).collect(),
        DType::U64 => ints()
            .map(|value| Expr::int(i128::from(value as u64)))
            .collect(),
        dtype if dtype.is_int() => ints().map(Expr::int).collect(),
        dtype => tensor
            .to_f64s()
            .into_iter()
            .map(|value| float_expr(dtype, value))
            .collect(),
    }
}

fn float_expr(dtype: DType, value: f64) -> Expr {
    if value.is_nan() {
        return Expr::str("nan");
    }
    if value.is_infinite() {
        return Expr::str(if value > 0.0 { "inf" } else { "-inf" });
    }
    Expr::float(shortest(dtype, value))
}

/// The f64 of the shortest decimal that rounds to `value` in `dtype`.
pub(super) fn shortest(dtype: DType, value: f64) -> f64 {
    if dtype == DType::F64 {
        return value;
    }
    let round = |candidate: f64| {
        Tensor::from_f64s(dtype, Vec::new(), &[candidate]).map(|tensor| tensor.data)
    };
    let bits = round(value);
    (0..17)
        .filter_map(|digits| format!("{value:.digits$e}").parse::<f64>().ok())
        .find(|&candidate| round(candidate) == bits)
        .unwrap_or(value)
}

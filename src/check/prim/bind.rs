//! Calls of primitives, matched against their arguments.
//!
//! After [`bind`] every attribute has a parsed value, defaults are filled in, and window attributes have one entry
//! a spatial axis (`padding`: all begins, then all ends).

use irc_syntax::{Arg, BinaryOp, DType, Diagnostic, Expr, ExprKind, Span, UnaryOp};

use super::schema::{Default, Kind, Slot, slots};
use super::{Binary, Prim, Unary};
use crate::check::suggest;
use crate::shape::Dim;

/// A call of a primitive with its arguments in place.
#[derive(Clone, Debug)]
pub struct BoundCall {
    /// The primitive.
    pub prim: Prim,
    /// Where the call is written.
    pub span: Option<Span>,
    /// One value for each of the primitive's slots.
    pub values: Vec<Bound>,
}

/// The value of one argument.
#[derive(Clone, PartialEq, Debug)]
pub enum Bound {
    /// Left out, or `None`.
    None,
    /// An operand: a name, a constant, a number, a nested call.
    Expr(Expr),
    /// Operands.
    Items(Vec<Expr>),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of dims, or a shape written out.
    Dims(Vec<Dim>),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(String),
    /// A dtype.
    DType(DType),
}

/// The operands of an argument that takes a tuple.
#[derive(Clone, Copy, Debug)]
pub enum Items<'a> {
    /// Written out one by one.
    Listed(&'a [Expr]),
    /// A value of tuple type.
    Tuple(&'a Expr),
}

impl BoundCall {
    /// The value of an argument.
    pub fn get(&self, name: &str) -> &Bound {
        let at = slots(self.prim).iter().position(|slot| slot.name == name);
        debug_assert!(at.is_some(), "{} has no argument {name}", self.prim.name());
        at.and_then(|at| self.values.get(at))
            .unwrap_or(&Bound::None)
    }

    /// An operand, where it is given.
    pub fn operand(&self, name: &str) -> Option<&Expr> {
        if let Bound::Expr(expr) = self.get(name) {
            Some(expr)
        } else {
            None
        }
    }

    /// The operands of an argument that takes several.
    pub fn items(&self, name: &str) -> Items<'_> {
        match self.get(name) {
            Bound::Items(items) => Items::Listed(items),
            Bound::Expr(expr) => Items::Tuple(expr),
            _ => Items::Listed(&[]),
        }
    }

    /// Every operand in the order of the slots: tensors, constants, shape values.
    pub fn operands(&self) -> Vec<&Expr> {
        let operands = slots(self.prim)
            .iter()
            .zip(&self.values)
            .flat_map(|(slot, value)| match value {
                Bound::Expr(expr) if slot.kind != Kind::Value => std::slice::from_ref(expr),
                Bound::Items(items) => items.as_slice(),
                _ => &[],
            });
        operands.collect()
    }

    /// An integer, where it is given.
    pub fn opt_int(&self, name: &str) -> Option<i64> {
        if let Bound::Int(value) = self.get(name) {
            Some(*value)
        } else {
            None
        }
    }

    /// An integer that has a default.
    pub fn int(&self, name: &str) -> i64 {
        self.opt_int(name).unwrap_or_default()
    }

    /// Integers, where they are given.
    pub fn opt_ints(&self, name: &str) -> Option<&[i64]> {
        if let Bound::Ints(values) = self.get(name) {
            Some(values)
        } else {
            None
        }
    }

    /// Integers; none where they are not given.
    pub fn ints(&self, name: &str) -> &[i64] {
        self.opt_ints(name).unwrap_or(&[])
    }

    /// Dims, or a shape that is written out; `None` for one left out or held by a name.
    pub fn opt_dims(&self, name: &str) -> Option<&[Dim]> {
        if let Bound::Dims(values) = self.get(name) {
            Some(values)
        } else {
            None
        }
    }

    /// Dims; none where they are not given.
    pub fn dims(&self, name: &str) -> &[Dim] {
        self.opt_dims(name).unwrap_or(&[])
    }

    /// A number.
    pub fn float(&self, name: &str) -> f64 {
        if let Bound::Float(value) = self.get(name) {
            *value
        } else {
            0.0
        }
    }

    /// A truth value.
    pub fn bool(&self, name: &str) -> bool {
        matches!(self.get(name), Bound::Bool(true))
    }

    /// A string, where it is given.
    pub fn opt_str(&self, name: &str) -> Option<&str> {
        if let Bound::Str(text) = self.get(name) {
            Some(text)
        } else {
            None
        }
    }

    /// A string that has a default.
    pub fn str(&self, name: &str) -> &str {
        self.opt_str(name).unwrap_or_default()
    }

    /// A dtype, where it is given.
    pub fn opt_dtype(&self, name: &str) -> Option<DType> {
        if let Bound::DType(dtype) = self.get(name) {
            Some(*dtype)
        } else {
            None
        }
    }

    fn set(&mut self, name: &str, value: Bound) {
        let at = slots(self.prim).iter().position(|slot| slot.name == name);
        if let Some(place) = at.and_then(|at| self.values.get_mut(at)) {
            *place = value;
        }
    }
}

/// The dims of a shape that is written out: `R.shape([n, 4])`, `(n, 4)`, `[n, 4]`.
pub fn shape_dims(expr: &Expr) -> Option<Result<Vec<Dim>, Diagnostic>> {
    let items = match &expr.kind {
        ExprKind::List(items) | ExprKind::Tuple { items, .. } => items.as_slice(),
        ExprKind::Call { args, .. } if expr.is_call_of("R.shape") => match args.as_slice() {
            [only] => only.value.as_items()?,
            _ => &[],
        },
        _ => return None,
    };
    Some(items.iter().map(Dim::from_expr).collect())
}

/// The primitive that `a op b` means on tensors; `None` for `in` and `is`.
pub fn binary_prim(op: BinaryOp) -> Option<Prim> {
    Some(Prim::Binary(match op {
        BinaryOp::Pow => Binary::Power,
        BinaryOp::Mul => Binary::Multiply,
        BinaryOp::Div => Binary::Divide,
        BinaryOp::FloorDiv => Binary::FloorDivide,
        BinaryOp::Mod => Binary::FloorMod,
        BinaryOp::MatMul => return Some(Prim::Matmul),
        BinaryOp::Add => Binary::Add,
        BinaryOp::Sub => Binary::Subtract,
        BinaryOp::Shl => Binary::LeftShift,
        BinaryOp::Shr => Binary::RightShift,
        BinaryOp::BitAnd => Binary::BitwiseAnd,
        BinaryOp::BitXor => Binary::BitwiseXor,
        BinaryOp::BitOr => Binary::BitwiseOr,
        BinaryOp::Eq => Binary::Equal,
        BinaryOp::Ne => Binary::NotEqual,
        BinaryOp::Lt => Binary::Less,
        BinaryOp::Le => Binary::LessEqual,
        BinaryOp::Gt => Binary::Greater,
        BinaryOp::Ge => Binary::GreaterEqual,
        BinaryOp::And => Binary::LogicalAnd,
        BinaryOp::Or => Binary::LogicalOr,
        BinaryOp::In | BinaryOp::NotIn | BinaryOp::Is | BinaryOp::IsNot => return None,
    }))
}

/// The primitive that `op a` means on a tensor; `None` for `+a`, which is `a`.
pub fn unary_prim(op: UnaryOp) -> Option<Prim> {
    match op {
        UnaryOp::Neg => Some(Prim::Unary(Unary::Negative)),
        UnaryOp::Not => Some(Prim::Unary(Unary::LogicalNot)),
        UnaryOp::Invert => Some(Prim::Unary(Unary::BitwiseNot)),
        UnaryOp::Pos => None,
    }
}

/// `a + b`, `-a` and so on as the call of the primitive they mean; `None` for any other expression.
pub fn bind_infix(expr: &Expr) -> Option<BoundCall> {
    let prim = match &expr.kind {
        ExprKind::Binary { op, .. } => binary_prim(*op)?,
        ExprKind::Unary { op, .. } => unary_prim(*op)?,
        _ => return None,
    };
    let mut values = match &expr.kind {
        ExprKind::Binary { lhs, rhs, .. } => {
            vec![Bound::Expr((**lhs).clone()), Bound::Expr((**rhs).clone())]
        }
        ExprKind::Unary { value, .. } => vec![Bound::Expr((**value).clone())],
        _ => return None,
    };
    values.resize(slots(prim).len(), Bound::None);
    Some(BoundCall {
        prim,
        span: expr.span,
        values,
    })
}

/// Matches a call (or an operator written infix) against the arguments of a primitive.
pub fn bind(prim: Prim, expr: &Expr) -> Result<BoundCall, Diagnostic> {
    let ExprKind::Call { args, .. } = &expr.kind else {
        return bind_infix(expr).ok_or_else(|| {
            Diagnostic::error("bad-call", format!("`{}` is called here", prim.name()))
                .at(expr.span, "not a call")
        });
    };
    let slots = slots(prim);
    let mut given: Vec<Option<&Expr>> = vec![None; slots.len()];
    let mut rest: Vec<Expr> = Vec::new();
    let mut next = 0;
    for arg in args {
        match &arg.name {
            None => match slots.get(next) {
                Some(slot) if slot.rest => rest.push(arg.value.clone()),
                Some(_) => {
                    if let Some(place) = given.get_mut(next) {
                        *place = Some(&arg.value);
                    }
                    next += 1;
                }
                None => return Err(too_many(prim, expr, slots.len())),
            },
            Some(name) => {
                let at = slots
                    .iter()
                    .position(|slot| slot.name == &**name || slot.aliases.contains(&&**name));
                let place = at.and_then(|at| given.get_mut(at));
                match place {
                    None => return Err(no_such_argument(prim, arg, slots)),
                    Some(Some(_)) => return Err(twice(prim, arg)),
                    Some(place) => *place = Some(&arg.value),
                }
            }
        }
    }
    let mut values = Vec::with_capacity(slots.len());
    for (slot, value) in slots.iter().zip(given) {
        values.push(match value {
            _ if slot.rest => Bound::Items(std::mem::take(&mut rest)),
            Some(value) => parse(prim, slot, value)?,
            None => fallback(slot).ok_or_else(|| missing(prim, slot, expr))?,
        });
    }
    let mut call = BoundCall {
        prim,
        span: expr.span,
        values,
    };
    complete(&mut call)?;
    Ok(call)
}

/// The value of an argument that is left out; `None` for one that may not be.
fn fallback(slot: &Slot) -> Option<Bound> {
    Some(match (slot.default, slot.kind) {
        (Default::Required, _) => return None,
        (Default::None, _) => Bound::None,
        (Default::Int(value), Kind::Ints) => Bound::Ints(vec![value]),
        (Default::Int(value), Kind::Tensor) => Bound::Expr(Expr::int(value)),
        (Default::Int(value), _) => Bound::Int(value),
        (Default::Float(value), Kind::Tensor) => Bound::Expr(Expr::float(value)),
        (Default::Float(value), _) => Bound::Float(value),
        (Default::Bool(value), _) => Bound::Bool(value),
        (Default::Str(text), Kind::DType) => {
            DType::from_name(text).map_or(Bound::None, Bound::DType)
        }
        (Default::Str(text), _) => Bound::Str(text.to_string()),
        (Default::Empty, Kind::Ints) => Bound::Ints(Vec::new()),
        (Default::Empty, _) => Bound::Dims(Vec::new()),
    })
}

fn parse(prim: Prim, slot: &Slot, value: &Expr) -> Result<Bound, Diagnostic> {
    let is_none = value.kind == ExprKind::None || value.is_call_of("R.null_value");
    if is_none && slot.default != Default::Required {
        return Ok(if slot.default == Default::None {
            Bound::None
        } else {
            fallback(slot).unwrap_or(Bound::None)
        });
    }
    let wrong = |wanted: &str| {
        Diagnostic::error(
            "bad-argument",
            format!("argument `{}` of `{}` is {wanted}", slot.name, prim.name()),
        )
        .at(value.span, format!("not {wanted}"))
    };
    Ok(match slot.kind {
        Kind::Tensor | Kind::Value => Bound::Expr(value.clone()),
        Kind::Tensors => match value.as_items() {
            Some(items) => Bound::Items(items.to_vec()),
            None if value.is_call_of("R.tuple") => {
                Bound::Items(value.positional().cloned().collect())
            }
            None => Bound::Expr(value.clone()),
        },
        Kind::Shape => match shape_dims(value) {
            Some(dims) => Bound::Dims(dims?),
            None => Bound::Expr(value.clone()),
        },
        Kind::Int => Bound::Int(int(value).ok_or_else(|| wrong("an integer"))?),
        Kind::Ints => match value.as_items() {
            Some(items) => {
                let values: Option<Vec<i64>> = items.iter().map(int).collect();
                Bound::Ints(values.ok_or_else(|| wrong("a list of integers"))?)
            }
            None => Bound::Ints(vec![int(value).ok_or_else(|| wrong("a list of integers"))?]),
        },
        Kind::Dims => match shape_dims(value) {
            Some(dims) => Bound::Dims(dims?),
            None => Bound::Dims(vec![Dim::from_expr(value)?]),
        },
        Kind::Float => Bound::Float(float(value).ok_or_else(|| wrong("a number"))?),
        Kind::Bool => Bound::Bool(boolean(value).ok_or_else(|| wrong("`True` or `False`"))?),
        Kind::Str => Bound::Str(string(value).ok_or_else(|| wrong("a string"))?),
        Kind::DType => {
            let name = string(value).ok_or_else(|| wrong("the name of a dtype"))?;
            match DType::from_name(&name) {
                Some(dtype) => Bound::DType(dtype),
                None if name.is_empty() || name == "void" => Bound::None,
                None => return Err(unknown_dtype(&name, value)),
            }
        }
    })
}

/// The expression inside `R.prim_value(e)`, `T.int64(e)`, `R.str(e)` and the like.
fn unwrapped(value: &Expr) -> &Expr {
    let ExprKind::Call { args, .. } = &value.kind else {
        return value;
    };
    match (value.as_path_of_call(), args.as_slice()) {
        (Some(path), [only]) => match path.as_str() {
            "R.prim_value" | "R.str" | "R.dtype" | "T.int64" | "T.int32" | "T.int16" | "T.int8"
            | "T.uint8" | "T.uint16" | "T.uint32" | "T.uint64" | "T.bool" | "T.float32"
            | "T.float64" | "T.float16" | "T.bfloat16" | "float" => &only.value,
            _ => value,
        },
        _ => value,
    }
}

trait CallPath {
    fn as_path_of_call(&self) -> Option<String>;
}

impl CallPath for Expr {
    fn as_path_of_call(&self) -> Option<String> {
        if let ExprKind::Call { func, .. } = &self.kind {
            func.as_path()
        } else {
            None
        }
    }
}

fn int(value: &Expr) -> Option<i64> {
    i64::try_from(unwrapped(value).as_int()?).ok()
}

/// A number as text has it: `1`, `-0.5`, `T.float32("inf")`, `"-inf"`.
pub(crate) fn float(value: &Expr) -> Option<f64> {
    let value = unwrapped(value);
    match &value.kind {
        ExprKind::Float(number) => Some(*number),
        ExprKind::Int(number) => Some(*number as f64),
        ExprKind::Bool(truth) => Some(f64::from(u8::from(*truth))),
        ExprKind::Str(text) => match text.as_str() {
            "inf" | "+inf" => Some(f64::INFINITY),
            "-inf" => Some(f64::NEG_INFINITY),
            "nan" => Some(f64::NAN),
            _ => text.parse().ok(),
        },
        ExprKind::Unary {
            op: UnaryOp::Neg,
            value,
        } => Some(-float(value)?),
        _ => None,
    }
}

fn boolean(value: &Expr) -> Option<bool> {
    match &unwrapped(value).kind {
        ExprKind::Bool(truth) => Some(*truth),
        ExprKind::Int(0) => Some(false),
        ExprKind::Int(1) => Some(true),
        _ => None,
    }
}

fn string(value: &Expr) -> Option<String> {
    unwrapped(value).as_str().map(str::to_string)
}

/// Fills in what depends on the number of spatial axes.
fn complete(call: &mut BoundCall) -> Result<(), Diagnostic> {
    let (rank, transposed) = match call.prim {
        Prim::MaxPool(rank) | Prim::AvgPool(rank) | Prim::Conv(rank) => (rank, false),
        Prim::ConvTranspose(rank) => (rank, true),
        _ => return Ok(()),
    };
    for slot in slots(call.prim)
        .iter()
        .filter(|slot| slot.kind == Kind::Ints)
    {
        let values = call.ints(slot.name);
        let wanted = if slot.name == "padding" {
            rank * 2
        } else {
            rank
        };
        let full = match values {
            [one] => vec![*one; wanted],
            _ if values.len() == wanted => continue,
            _ if slot.name == "padding" && values.len() == rank => values.repeat(2),
            _ => return Err(window_length(call, slot.name, values.len(), wanted)),
        };
        call.set(slot.name, Bound::Ints(full));
    }
    let spatial = match rank {
        1 => "W",
        2 => "HW",
        _ => "DHW",
    };
    let or = |value: &Bound, fallback: String| match value {
        Bound::Str(text) if !text.is_empty() => text.clone(),
        _ => fallback,
    };
    let is_pool = matches!(call.prim, Prim::MaxPool(_) | Prim::AvgPool(_));
    let layout_slot = if is_pool { "layout" } else { "data_layout" };
    let layout = or(call.get(layout_slot), format!("NC{spatial}"));
    if !is_pool {
        let kernel = format!("{}{spatial}", if transposed { "IO" } else { "OI" });
        let kernel = or(call.get("kernel_layout"), kernel);
        check_layout(call, "kernel_layout", &kernel, &format!("IO{spatial}"))?;
        call.set("kernel_layout", Bound::Str(kernel));
    }
    let out_layout = or(call.get("out_layout"), layout.clone());
    check_layout(call, layout_slot, &layout, &format!("NC{spatial}"))?;
    check_layout(call, "out_layout", &out_layout, &format!("NC{spatial}"))?;
    call.set(layout_slot, Bound::Str(layout));
    call.set("out_layout", Bound::Str(out_layout));
    Ok(())
}

fn check_layout(
    call: &BoundCall,
    slot: &str,
    layout: &str,
    letters: &str,
) -> Result<(), Diagnostic> {
    let mut sorted: Vec<char> = layout.chars().collect();
    let mut wanted: Vec<char> = letters.chars().collect();
    sorted.sort_unstable();
    wanted.sort_unstable();
    if sorted == wanted {
        return Ok(());
    }
    let message = format!(
        "`{slot}` of `{}` is an order of the letters {letters}",
        call.prim.name()
    );
    Err(Diagnostic::error("bad-argument", message).at(call.span, format!("`{layout}`")))
}

fn window_length(call: &BoundCall, slot: &str, got: usize, wanted: usize) -> Diagnostic {
    let message = format!(
        "`{slot}` of `{}` has {got} entries and needs 1 or {wanted}",
        call.prim.name()
    );
    Diagnostic::error("bad-argument", message).at(call.span, "in this call")
}

fn too_many(prim: Prim, expr: &Expr, most: usize) -> Diagnostic {
    let message = format!("`{}` takes at most {most} arguments", prim.name());
    Diagnostic::error("bad-call", message).at(expr.span, "too many arguments")
}

fn twice(prim: Prim, arg: &Arg) -> Diagnostic {
    let name = arg.name.as_deref().unwrap_or_default();
    Diagnostic::error(
        "bad-call",
        format!("`{}` has its argument `{name}` twice", prim.name()),
    )
    .at(arg.value.span, "given again here")
}

fn missing(prim: Prim, slot: &Slot, expr: &Expr) -> Diagnostic {
    Diagnostic::error(
        "bad-call",
        format!("`{}` needs its argument `{}`", prim.name(), slot.name),
    )
    .at(expr.span, "argument is missing")
}

fn no_such_argument(prim: Prim, arg: &Arg, slots: &[Slot]) -> Diagnostic {
    let name = arg.name.as_deref().unwrap_or_default();
    let fault = Diagnostic::error(
        "bad-call",
        format!("`{}` has no argument `{name}`", prim.name()),
    )
    .at(arg.value.span, "unknown argument");
    match suggest::closest(name, slots.iter().map(|slot| slot.name)) {
        Some(near) => fault.help(format!("write `{near}=`"), None),
        None => fault,
    }
}

/// A dtype name that there is none of.
pub(crate) fn unknown_dtype(name: &str, at: &Expr) -> Diagnostic {
    let fault = Diagnostic::error("unknown-dtype", format!("there is no dtype `{name}`"))
        .at(at.span, "unknown dtype");
    match suggest::closest(name, DType::all().map(DType::name)) {
        Some(near) => fault.help(format!("write `{near}`"), None),
        None => fault,
    }
}

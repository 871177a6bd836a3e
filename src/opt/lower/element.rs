//! Element expressions: what one element of an inline value is, over elements of its operands.

use irc_syntax::{
    BinaryOp, DType, Diagnostic, Expr, ExprKind, Name, Stmt, StmtKind, UnaryOp, print_expr,
};

use super::index;
use super::{Axis, Block, Lower, access, constant};
use crate::check::prim::{Binary, BoundCall, Prim, Real, Unary, shape_dims};
use crate::shape::Dim;

/// Whether a primitive's elements can be written where they are read.
// tidy: table
pub(super) fn is_inline(prim: Prim) -> bool {
    match prim {
        Prim::Unary(_) | Prim::Binary(_) | Prim::Where | Prim::Astype | Prim::Reinterpret => true,
        Prim::BroadcastTo | Prim::PermuteDims | Prim::Reshape | Prim::StridedSlice | Prim::Pad => {
            true
        }
        Prim::Take | Prim::GatherElements | Prim::GatherNd => true,
        Prim::Full | Prim::Arange | Prim::Const | Prim::ShapeToTensor => true,
        Prim::Reduce(_) | Prim::Argmax | Prim::Argmin | Prim::Cumsum | Prim::Cumprod => false,
        Prim::Concat
        | Prim::ScatterElements
        | Prim::ScatterNd
        | Prim::Sort
        | Prim::Argsort
        | Prim::KeepBoxes => false,
        Prim::MaxPool(_) | Prim::AvgPool(_) | Prim::Matmul | Prim::Conv(_) => false,
        Prim::ConvTranspose(_) | Prim::Nonzero | Prim::Unique | Prim::ShapeOf | Prim::Shape => {
            false
        }
        Prim::Text(_) | Prim::DecodeImage => false,
        Prim::TensorToShape | Prim::MatchCast | Prim::CallTir | Prim::CallTirInplace => false,
        Prim::CallDpsPacked | Prim::CallPurePacked | Prim::CallPacked => false,
        Prim::WhileLoop | Prim::Sequence | Prim::SeqInsert | Prim::SeqErase | Prim::SeqAt => false,
        Prim::SeqLen | Prim::SeqConcat | Prim::Rank => false,
        Prim::Optional | Prim::HasValue | Prim::GetValue => false,
    }
}

/// Whether computing an element twice costs more than a load.
pub(super) fn is_costly(prim: Prim) -> bool {
    match prim {
        Prim::Unary(op) => matches!(
            op,
            Unary::Real(real) if !real.is_rounding()
        ),
        Prim::Binary(op) => matches!(
            op,
            Binary::Divide | Binary::FloorDivide | Binary::FloorMod | Binary::Mod | Binary::Power
        ),
        Prim::Take | Prim::GatherElements | Prim::GatherNd => true,
        _ => false,
    }
}

/// The dtype of `R.const(v, dtype)`.
pub(super) fn const_dtype(value: &Expr) -> Option<DType> {
    if !value.is_call_of("R.const") {
        return None;
    }
    DType::from_name(
        value
            .positional()
            .nth(1)
            .or_else(|| value.keyword("dtype"))?
            .as_str()?,
    )
}

/// One block over the shape of `name` that stores its element.
pub(super) fn materialize(
    lower: &mut Lower,
    name: &Name,
    prim: Prim,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    let (_, shape) = lower.tensor(name)?;
    let axes = Lower::axes(&shape);
    let idx: Vec<Dim> = axes.iter().map(Axis::dim).collect();
    let mut block = Block::default();
    let value = primitive(lower, &mut block, name, prim, call, &idx)?;
    lower.push_store(name, &axes, access(name, &idx), value, block.stmts);
    Ok(())
}

/// One block an operand, each writing its part of the result.
pub(super) fn materialize_concat(
    lower: &mut Lower,
    name: &Name,
    call: &BoundCall,
) -> Result<(), Diagnostic> {
    let (_, shape) = lower.tensor(name)?;
    let axis = index::axis(call.int("axis"), shape.len());
    let mut offset = Dim::int(0);
    let parts: Vec<Expr> = call.operands().into_iter().cloned().collect();
    for (position, part) in parts.iter().enumerate() {
        let (_, extents) = lower.operand(part)?;
        let axes = Lower::axes(&extents);
        let idx: Vec<Dim> = axes.iter().map(Axis::dim).collect();
        let mut to = idx.clone();
        to[axis] = &to[axis] + &offset;
        let mut block = Block::default();
        let value = element(lower, &mut block, part, &idx)?;
        let block_name = format!("{name}_{position}");
        lower.push_store(&block_name, &axes, access(name, &to), value, block.stmts);
        offset = &offset + &extents[axis];
    }
    Ok(())
}

/// The element of an operand at an index that has the operand's own rank.
pub(super) fn element(
    lower: &mut Lower,
    block: &mut Block,
    value: &Expr,
    idx: &[Dim],
) -> Result<Expr, Diagnostic> {
    let Some(name) = value.as_name() else {
        return scalar_constant(value);
    };
    if let Some(buffer) = lower.kept.get(name) {
        return Ok(access(buffer, idx));
    }
    let Some((prim, call)) = lower.calls.get(name).cloned() else {
        return Err(Diagnostic::error(
            "unknown-name",
            format!("`{name}` is not bound in its group"),
        ));
    };
    let key = (
        name.clone(),
        idx.iter()
            .map(|dim| print_expr(&dim.to_expr()))
            .collect::<Vec<_>>()
            .join(", "),
    );
    if let Some(bound) = block.lets.get(&key) {
        return Ok(bound.clone());
    }
    let value = primitive(lower, block, name, prim, &call, idx)?;
    if block.conditional > 0 || is_leaf(&value) {
        return Ok(value);
    }
    let (dtype, _) = lower.tensor(name)?;
    let bound = bind(lower, block, name, dtype, value);
    block.lets.insert(key, bound.clone());
    Ok(bound)
}

/// An element of an operand that broadcasts to a result: trailing axes align, extents of 1 repeat.
pub(super) fn broadcast_element(
    lower: &mut Lower,
    block: &mut Block,
    value: &Expr,
    idx: &[Dim],
    shape: &[Dim],
) -> Result<Expr, Diagnostic> {
    let (_, extents) = lower.operand(value)?;
    let idx = index::broadcast(&extents, idx, shape);
    element(lower, block, value, &idx)
}

/// `T.if_then_else(a and b, value, otherwise)`; the value itself without conditions.
pub(super) fn guarded(conds: Vec<Expr>, value: Expr, otherwise: Expr) -> Expr {
    let all = conds
        .into_iter()
        .reduce(|a, b| Expr::binary(BinaryOp::And, a, b));
    match all {
        Some(cond) => t("if_then_else", [cond, value, otherwise]),
        None => value,
    }
}

fn is_leaf(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::Name(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Index { .. } => true,
        ExprKind::Call { args, .. } => args.iter().all(|arg| {
            matches!(
                arg.value.kind,
                ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Str(_)
            )
        }),
        _ => false,
    }
}

/// `name_1: T.let[T.float32] = value`, and the name.
pub(super) fn bind(
    lower: &mut Lower,
    block: &mut Block,
    base: &str,
    dtype: DType,
    value: Expr,
) -> Expr {
    let local = lower.names.fresh(&format!("{base}_v"));
    let ty = Expr::index(
        Expr::path("T.let"),
        [Expr::path(&format!("T.{}", dtype.name()))],
    );
    block.stmts.push(Stmt::new(StmtKind::Assign {
        target: Expr::name(&local),
        ty: Some(ty),
        value,
    }));
    Expr::name(local)
}

/// `R.const(0.5, "float32")` → `T.float32(0.5)`.
fn scalar_constant(value: &Expr) -> Result<Expr, Diagnostic> {
    let fault = || {
        Diagnostic::error(
            "not-lowered",
            "a constant of several elements stands inside a group",
        )
        .at(value.span, "here")
    };
    let dtype = const_dtype(value).ok_or_else(fault)?;
    let mut number = value.positional().next().ok_or_else(fault)?;
    while let Some([one]) = number.as_items() {
        number = one;
    }
    if number.as_items().is_some() {
        return Err(fault());
    }
    let mut number = number.clone();
    number.span = None;
    Ok(constant(dtype, number))
}

/// The element of a primitive's result.
fn primitive(
    lower: &mut Lower,
    block: &mut Block,
    name: &Name,
    prim: Prim,
    call: &BoundCall,
    idx: &[Dim],
) -> Result<Expr, Diagnostic> {
    let (dtype, shape) = lower.tensor(name)?;
    let args: Vec<Expr> = call.operands().into_iter().cloned().collect();
    if let Some(moved) = index::moved(lower, block, name, call, &args, idx)? {
        return Ok(moved);
    }
    if let Some(made) = generated(lower, call, dtype, idx) {
        return Ok(made);
    }
    let mut operands = Vec::with_capacity(args.len());
    for arg in &args {
        operands.push(broadcast_element(lower, block, arg, idx, &shape)?);
    }
    let of = match args.first() {
        Some(arg) => lower.operand(arg)?.0,
        None => dtype,
    };
    scalar(prim, operands, of, dtype).ok_or_else(|| {
        Diagnostic::error("not-lowered", format!("`{}` has no loops", prim.name()))
            .at(call.span, "this call")
    })
}

/// A primitive on scalars: `of` is the dtype of the first operand, `to` of the result.
fn scalar(prim: Prim, mut x: Vec<Expr>, of: DType, to: DType) -> Option<Expr> {
    let mut next = || (!x.is_empty()).then(|| x.remove(0));
    match prim {
        Prim::Unary(op) => Some(unary(op, next()?, of)),
        Prim::Binary(op) => Some(binary(op, next()?, next()?, of)),
        Prim::Where => Some(t("Select", [next()?, next()?, next()?])),
        Prim::Astype if of == to => next(),
        Prim::Astype => Some(t("Cast", [Expr::str(to.name()), next()?])),
        Prim::Reinterpret => Some(t("reinterpret", [Expr::str(to.name()), next()?])),
        Prim::BroadcastTo => next(),
        _ => None,
    }
}

// tidy: table
fn unary(op: Unary, a: Expr, of: DType) -> Expr {
    let is_float = of.is_float();
    let call = |name: &str, a: Expr| t(name, [a]);
    match op {
        Unary::Abs if is_float => call("fabs", a),
        Unary::Abs if of.is_unsigned() || of == DType::Bool => a,
        Unary::Abs => call("abs", a),
        Unary::Negative => Expr::unary(UnaryOp::Neg, a),
        Unary::Real(real) if real.is_rounding() && !is_float => a,
        Unary::Real(Real::Round) => call("nearbyint", a),
        Unary::Real(real) => call(real.name(), a),
        Unary::Isnan | Unary::Isinf if !is_float => constant(DType::Bool, Expr::bool(false)),
        Unary::Isfinite if !is_float => constant(DType::Bool, Expr::bool(true)),
        Unary::Sign => sign(a, of),
        Unary::LogicalNot => Expr::unary(UnaryOp::Not, a),
        Unary::BitwiseNot if of == DType::Bool => Expr::unary(UnaryOp::Not, a),
        Unary::BitwiseNot => Expr::unary(UnaryOp::Invert, a),
        Unary::Isnan => call("isnan", a),
        Unary::Isinf => call("isinf", a),
        Unary::Isfinite => call("isfinite", a),
    }
}

/// Elements of operators without tensors: `arange`, `shape_to_tensor`.
fn generated(lower: &Lower, call: &BoundCall, to: DType, idx: &[Dim]) -> Option<Expr> {
    let cast = |value: Expr| t("Cast", [Expr::str(to.name()), value]);
    match call.prim {
        Prim::Arange => {
            let start = number_of(call.operand("start")?)?;
            let step = call
                .operand("step")
                .and_then(number_of)
                .unwrap_or_else(|| Expr::int(1));
            // With one bound, the bound is the end and the range begins at zero.
            let start = if call.operand("end").is_some() {
                start
            } else {
                Expr::int(0)
            };
            let at = idx.first()?.to_expr();
            if to.is_float() {
                let scaled = Expr::binary(BinaryOp::Mul, cast(at), cast(step));
                return Some(Expr::binary(BinaryOp::Add, cast(start), scaled));
            }
            let offset = Expr::binary(BinaryOp::Mul, at, step);
            Some(cast(Expr::binary(BinaryOp::Add, start, offset)))
        }
        Prim::ShapeToTensor => {
            let operand = call.operand("x")?;
            let dims = match shape_dims(operand) {
                Some(dims) => dims.ok()?,
                None => lower.shape_value(operand.as_name()?)?,
            };
            let at = idx.first()?.to_expr();
            let mut dims = dims.iter().enumerate().rev();
            let (_, last) = dims.next()?;
            Some(dims.fold(cast(last.to_expr()), |rest, (position, dim)| {
                let here = Expr::binary(BinaryOp::Eq, at.clone(), Expr::int(position as i128));
                t("Select", [here, cast(dim.to_expr()), rest])
            }))
        }
        _ => None,
    }
}

/// A bound of a range: a number, a dim, or the number inside `R.const`.
fn number_of(value: &Expr) -> Option<Expr> {
    if value.is_call_of("R.const") || value.is_call_of("R.prim_value") {
        return value.positional().next().cloned();
    }
    Some(value.clone())
}

// tidy: table
fn binary(op: Binary, a: Expr, b: Expr, of: DType) -> Expr {
    let is_bool = of == DType::Bool;
    let is_float = of.is_float();
    let infix = |op: BinaryOp, a: Expr, b: Expr| Expr::binary(op, a, b);
    match op {
        Binary::Add | Binary::Maximum if is_bool => infix(BinaryOp::Or, a, b),
        Binary::Multiply | Binary::Minimum if is_bool => infix(BinaryOp::And, a, b),
        Binary::Add => infix(BinaryOp::Add, a, b),
        Binary::Subtract => infix(BinaryOp::Sub, a, b),
        Binary::Multiply => infix(BinaryOp::Mul, a, b),
        Binary::Divide if is_float => infix(BinaryOp::Div, a, b),
        Binary::Divide => t("truncdiv", [a, b]),
        Binary::FloorDivide if is_float => t("floor", [infix(BinaryOp::Div, a, b)]),
        Binary::FloorDivide => infix(BinaryOp::FloorDiv, a, b),
        Binary::FloorMod => infix(BinaryOp::Mod, a, b),
        Binary::Mod if is_float => t("fmod", [a, b]),
        Binary::Mod => t("truncmod", [a, b]),
        Binary::Power => t("pow", [a, b]),
        Binary::Maximum => t("max", [a, b]),
        Binary::Minimum => t("min", [a, b]),
        Binary::LeftShift => infix(BinaryOp::Shl, a, b),
        Binary::RightShift => infix(BinaryOp::Shr, a, b),
        Binary::BitwiseAnd if is_bool => infix(BinaryOp::And, a, b),
        Binary::BitwiseOr if is_bool => infix(BinaryOp::Or, a, b),
        Binary::BitwiseAnd => infix(BinaryOp::BitAnd, a, b),
        Binary::BitwiseOr => infix(BinaryOp::BitOr, a, b),
        Binary::BitwiseXor | Binary::LogicalXor if is_bool => infix(BinaryOp::Ne, a, b),
        Binary::BitwiseXor | Binary::LogicalXor => infix(BinaryOp::BitXor, a, b),
        Binary::LogicalAnd => infix(BinaryOp::And, a, b),
        Binary::LogicalOr => infix(BinaryOp::Or, a, b),
        Binary::Equal => infix(BinaryOp::Eq, a, b),
        Binary::NotEqual => infix(BinaryOp::Ne, a, b),
        Binary::Less => infix(BinaryOp::Lt, a, b),
        Binary::LessEqual => infix(BinaryOp::Le, a, b),
        Binary::Greater => infix(BinaryOp::Gt, a, b),
        Binary::GreaterEqual => infix(BinaryOp::Ge, a, b),
    }
}

/// `T.name(args)`.
pub(super) fn t(name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    Expr::call(&format!("T.{name}"), args)
}

/// The number zero as a literal of a dtype.
pub(super) fn zero(dtype: DType) -> Expr {
    match dtype {
        DType::Bool => Expr::bool(false),
        _ if dtype.is_float() => Expr::float(0.0),
        _ => Expr::int(0),
    }
}

/// -1, 0 or 1; NaN stays NaN.
fn sign(a: Expr, of: DType) -> Expr {
    let number = |value: i32| {
        constant(
            of,
            if of.is_float() {
                Expr::float(f64::from(value))
            } else {
                Expr::int(value)
            },
        )
    };
    let zero = || constant(of, zero(of));
    let positive = Expr::binary(BinaryOp::Gt, a.clone(), zero());
    if of.is_unsigned() {
        return t("Select", [positive, number(1), number(0)]);
    }
    let negative = Expr::binary(BinaryOp::Lt, a.clone(), zero());
    let rest = if of.is_float() { a } else { number(0) };
    t(
        "Select",
        [
            positive,
            number(1),
            t("Select", [negative, number(-1), rest]),
        ],
    )
}

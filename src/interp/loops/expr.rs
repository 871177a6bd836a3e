//! Expressions of the loop level, compiled to closures over slots.
//!
//! A bare integer takes the dtype of what it meets (int32 alone); of two integer dtypes the wider wins, and a float wins over
//! an integer, as TVM matches operands.

use irc_syntax::{BinaryOp, DType, Expr, ExprKind, Span, UnaryOp};

use super::machine::{Machine, Ran};
use super::scalar::{float_to_int, int_to_float, load_float, load_int, round, wrap};
use super::{Compiler, Place};
use crate::interp::RunError;
use crate::interp::kernels::num::{Num, shift_left, shift_right};

/// Compiled code that gives an integer.
pub(super) type IntCode = Box<dyn Fn(&Machine) -> Ran<i64>>;
/// Compiled code that gives a float.
pub(super) type FloatCode = Box<dyn Fn(&Machine) -> Ran<f64>>;

/// Compiled code by the class of its result.
pub(super) enum Code {
    Int(IntCode),
    Float(FloatCode),
}

/// A compiled expression.
pub(super) struct Typed {
    pub(super) dtype: DType,
    /// A bare number, whose dtype bends.
    pub(super) weak: bool,
    pub(super) code: Code,
}

impl Typed {
    pub(super) fn int(dtype: DType, code: IntCode) -> Self {
        Self {
            dtype,
            weak: false,
            code: Code::Int(code),
        }
    }

    pub(super) fn float(dtype: DType, code: FloatCode) -> Self {
        Self {
            dtype,
            weak: false,
            code: Code::Float(code),
        }
    }

    /// The same value in another dtype.
    pub(super) fn cast(self, dtype: DType) -> Self {
        let from = self.dtype;
        // A bare number has not been rounded yet.
        if from == dtype && !self.weak {
            return self;
        }
        match (self.code, dtype.is_float()) {
            (Code::Int(code), false) => {
                Self::int(dtype, Box::new(move |m| Ok(wrap(dtype, code(m)?))))
            }
            (Code::Int(code), true) => Self::float(
                dtype,
                Box::new(move |m| Ok(round(dtype, int_to_float(from, code(m)?)))),
            ),
            (Code::Float(code), false) => {
                Self::int(dtype, Box::new(move |m| Ok(float_to_int(dtype, code(m)?))))
            }
            (Code::Float(code), true) => {
                Self::float(dtype, Box::new(move |m| Ok(round(dtype, code(m)?))))
            }
        }
    }

    /// The value as an index.
    pub(super) fn into_int(self) -> IntCode {
        match self.cast(DType::I64).code {
            Code::Int(code) => code,
            Code::Float(code) => Box::new(move |m| Ok(code(m)? as i64)),
        }
    }

    /// The value as a condition.
    pub(super) fn into_truth(self) -> IntCode {
        match self.code {
            Code::Int(code) => code,
            Code::Float(code) => Box::new(move |m| Ok(i64::from(code(m)? != 0.0))),
        }
    }

    /// The value as a float.
    pub(super) fn into_float(self) -> FloatCode {
        let from = self.dtype;
        match self.code {
            Code::Float(code) => code,
            Code::Int(code) => Box::new(move |m| Ok(int_to_float(from, code(m)?))),
        }
    }
}

/// Brings two operands to one dtype.
pub(super) fn match_types(a: Typed, b: Typed) -> (Typed, Typed) {
    let dtype = common(&a, &b);
    (a.cast(dtype), b.cast(dtype))
}

fn common(a: &Typed, b: &Typed) -> DType {
    if a.dtype == b.dtype {
        return a.dtype;
    }
    match (a.weak, b.weak) {
        // A bare float among integers stays one.
        (true, false) if b.dtype.is_float() || !a.dtype.is_float() => b.dtype,
        (false, true) if a.dtype.is_float() || !b.dtype.is_float() => a.dtype,
        _ => match (a.dtype.is_float(), b.dtype.is_float()) {
            (true, false) => a.dtype,
            (false, true) => b.dtype,
            _ if a.dtype.bits() < b.dtype.bits() || a.dtype == DType::Bool => b.dtype,
            _ => a.dtype,
        },
    }
}

/// Whether an operator's result is a truth value.
fn is_comparison(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge
    )
}

impl Compiler {
    /// Compiles an expression.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<Typed, RunError> {
        let fault = |what: &str| Err(RunError::type_error(what).at(expr.span));
        match &expr.kind {
            ExprKind::Int(value) => {
                let value = *value as i64;
                let fits = i32::try_from(value).is_ok();
                let dtype = if fits { DType::I32 } else { DType::I64 };
                Ok(Typed {
                    dtype,
                    weak: true,
                    code: Code::Int(Box::new(move |_| Ok(value))),
                })
            }
            ExprKind::Float(value) => {
                let value = *value;
                let code = Code::Float(Box::new(move |_| Ok(value)));
                Ok(Typed {
                    dtype: DType::F32,
                    weak: true,
                    code,
                })
            }
            ExprKind::Bool(value) => {
                let value = i64::from(*value);
                Ok(Typed::int(DType::Bool, Box::new(move |_| Ok(value))))
            }
            // A quoted dim of a buffer's shape.
            ExprKind::Str(text) => self.quoted(text, expr),
            ExprKind::Name(name) => match self.scope.get(name) {
                Some(Place::Int(slot, dtype)) => {
                    let slot = *slot;
                    Ok(Typed::int(
                        *dtype,
                        Box::new(move |m| Ok(m.slots[slot] as i64)),
                    ))
                }
                Some(Place::Float(slot, dtype)) => {
                    let slot = *slot;
                    Ok(Typed::float(
                        *dtype,
                        Box::new(move |m| Ok(f64::from_bits(m.slots[slot]))),
                    ))
                }
                Some(Place::Buffer(..)) => fault(&format!("buffer `{name}` is no scalar")),
                None => fault(&format!("`{name}` has no value here")),
            },
            ExprKind::Index { value, index } => self.load(value, index, expr.span),
            ExprKind::Call { .. } => self.call(expr),
            ExprKind::Unary { op, value } => self.unary(*op, value),
            ExprKind::Binary { op, lhs, rhs } => {
                let (a, b) = (self.expr(lhs)?, self.expr(rhs)?);
                self.binary(*op, a, b, expr.span)
            }
            ExprKind::IfElse { cond, then, orelse } => self.choose(cond, then, orelse),
            ExprKind::None
            | ExprKind::Ellipsis
            | ExprKind::Attr { .. }
            | ExprKind::Slice { .. }
            | ExprKind::Tuple { .. }
            | ExprKind::List(_)
            | ExprKind::Dict(_)
            | ExprKind::ListComp { .. }
            | ExprKind::Starred(_)
            | ExprKind::Error => fault("this expression has no scalar value"),
        }
    }

    fn quoted(&mut self, text: &str, at: &Expr) -> Result<Typed, RunError> {
        let dim = crate::shape::Dim::from_expr(at)
            .map_err(|_| RunError::type_error(format!("{text:?} is no dim")).at(at.span))?;
        let expr = dim.to_expr();
        if expr.kind == at.kind {
            return Err(RunError::type_error(format!("{text:?} is no dim")).at(at.span));
        }
        self.expr(&expr)
    }

    /// `B[i, j]`
    fn load(
        &mut self,
        value: &Expr,
        index: &[Expr],
        span: Option<Span>,
    ) -> Result<Typed, RunError> {
        let (buffer, dtype) = self.buffer(value)?;
        let index = self.indices(index)?;
        Ok(if dtype.is_float() {
            Typed::float(
                dtype,
                Box::new(move |m| {
                    with_index(&index, m, |at| {
                        Ok(load_float(dtype, m.element(buffer, at, span)?))
                    })
                }),
            )
        } else {
            Typed::int(
                dtype,
                Box::new(move |m| {
                    with_index(&index, m, |at| {
                        Ok(load_int(dtype, m.element(buffer, at, span)?))
                    })
                }),
            )
        })
    }

    /// Compiles indices.
    pub(super) fn indices(&mut self, index: &[Expr]) -> Result<Vec<IntCode>, RunError> {
        // `B[()]` is the element of a buffer of rank 0.
        if let [only] = index
            && only.as_items().is_some_and(<[Expr]>::is_empty)
        {
            return Ok(Vec::new());
        }
        index
            .iter()
            .map(|expr| Ok(self.expr(expr)?.into_int()))
            .collect()
    }

    fn unary(&mut self, op: UnaryOp, value: &Expr) -> Result<Typed, RunError> {
        let x = self.expr(value)?;
        let (dtype, weak) = (x.dtype, x.weak);
        Ok(match op {
            UnaryOp::Pos => x,
            UnaryOp::Neg => Typed {
                dtype,
                weak,
                code: match x.code {
                    Code::Int(code) => {
                        Code::Int(Box::new(move |m| Ok(wrap(dtype, code(m)?.wrapping_neg()))))
                    }
                    Code::Float(code) => Code::Float(Box::new(move |m| Ok(-code(m)?))),
                },
            },
            UnaryOp::Not => {
                let code = x.into_truth();
                Typed::int(DType::Bool, Box::new(move |m| Ok(i64::from(code(m)? == 0))))
            }
            UnaryOp::Invert => {
                let code = x.into_int();
                let flip: fn(i64) -> i64 = match dtype {
                    DType::Bool => |value| i64::from(value == 0),
                    _ => |value| !value,
                };
                Typed::int(dtype, Box::new(move |m| Ok(wrap(dtype, flip(code(m)?)))))
            }
        })
    }

    /// `a op b` of compiled operands.
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        a: Typed,
        b: Typed,
        span: Option<Span>,
    ) -> Result<Typed, RunError> {
        if matches!(op, BinaryOp::And | BinaryOp::Or) {
            let (a, b) = (a.into_truth(), b.into_truth());
            let stop_at = op == BinaryOp::Or;
            return Ok(Typed::int(
                DType::Bool,
                Box::new(move |m| {
                    let first = a(m)? != 0;
                    Ok(i64::from(if first == stop_at { first } else { b(m)? != 0 }))
                }),
            ));
        }
        let weak = a.weak && b.weak;
        let (a, b) = match_types(a, b);
        let dtype = a.dtype;
        // `/` of integers is a float in Python; TVM writes `T.Div` for the truncating one.
        match (a.code, b.code) {
            (Code::Int(a), Code::Int(b)) if is_comparison(op) => {
                let test = compare_ints(op, dtype);
                Ok(Typed::int(
                    DType::Bool,
                    Box::new(move |m| Ok(i64::from(test(a(m)?, b(m)?)))),
                ))
            }
            (Code::Float(a), Code::Float(b)) if is_comparison(op) => {
                let test = compare_floats(op);
                Ok(Typed::int(
                    DType::Bool,
                    Box::new(move |m| Ok(i64::from(test(a(m)?, b(m)?)))),
                ))
            }
            (Code::Int(a), Code::Int(b)) => {
                let f = int_op(op, dtype).ok_or_else(|| no_operator(op, dtype, span))?;
                let code: IntCode = Box::new(move |m| Ok(wrap(dtype, f(a(m)?, b(m)?))));
                Ok(Typed {
                    dtype,
                    weak,
                    code: Code::Int(code),
                })
            }
            (Code::Float(a), Code::Float(b)) => {
                let f = float_op(op).ok_or_else(|| no_operator(op, dtype, span))?;
                let code: FloatCode = Box::new(move |m| Ok(round(dtype, f(a(m)?, b(m)?))));
                Ok(Typed {
                    dtype,
                    weak,
                    code: Code::Float(code),
                })
            }
            _ => Err(no_operator(op, dtype, span)),
        }
    }

    /// `a if c else b`: only the chosen side is evaluated.
    pub(super) fn choose(
        &mut self,
        cond: &Expr,
        then: &Expr,
        orelse: &Expr,
    ) -> Result<Typed, RunError> {
        let cond = self.expr(cond)?.into_truth();
        let (a, b) = (self.expr(then)?, self.expr(orelse)?);
        let (a, b) = match_types(a, b);
        let dtype = a.dtype;
        match (a.code, b.code) {
            (Code::Int(a), Code::Int(b)) => Ok(Typed::int(
                dtype,
                Box::new(move |m| if cond(m)? != 0 { a(m) } else { b(m) }),
            )),
            (Code::Float(a), Code::Float(b)) => Ok(Typed::float(
                dtype,
                Box::new(move |m| if cond(m)? != 0 { a(m) } else { b(m) }),
            )),
            _ => Err(RunError::type_error(
                "a choice between two classes of values",
            )),
        }
    }
}

fn no_operator(op: BinaryOp, dtype: DType, span: Option<Span>) -> RunError {
    RunError::type_error(format!("{op:?} of {dtype}")).at(span)
}

/// Calls `f` with evaluated indices, without allocation for the usual ranks.
pub(super) fn with_index<T>(
    index: &[IntCode],
    machine: &Machine,
    f: impl FnOnce(&[i64]) -> Ran<T>,
) -> Ran<T> {
    let mut fixed = [0i64; 8];
    if index.len() <= fixed.len() {
        for (place, code) in fixed.iter_mut().zip(index) {
            *place = code(machine)?;
        }
        return f(&fixed[..index.len()]);
    }
    let values = index
        .iter()
        .map(|code| code(machine))
        .collect::<Ran<Vec<i64>>>()?;
    f(&values)
}

fn compare_ints(op: BinaryOp, dtype: DType) -> fn(i64, i64) -> bool {
    let unsigned = dtype == DType::U64;
    match op {
        BinaryOp::Eq => |a, b| a == b,
        BinaryOp::Ne => |a, b| a != b,
        BinaryOp::Lt if unsigned => |a, b| (a as u64) < b as u64,
        BinaryOp::Le if unsigned => |a, b| a as u64 <= b as u64,
        BinaryOp::Gt if unsigned => |a, b| a as u64 > b as u64,
        BinaryOp::Ge if unsigned => |a, b| a as u64 >= b as u64,
        BinaryOp::Lt => |a, b| a < b,
        BinaryOp::Le => |a, b| a <= b,
        BinaryOp::Gt => |a, b| a > b,
        _ => |a, b| a >= b,
    }
}

fn compare_floats(op: BinaryOp) -> fn(f64, f64) -> bool {
    match op {
        BinaryOp::Eq => |a, b| a == b,
        BinaryOp::Ne => |a, b| a != b,
        BinaryOp::Lt => |a, b| a < b,
        BinaryOp::Le => |a, b| a <= b,
        BinaryOp::Gt => |a, b| a > b,
        _ => |a, b| a >= b,
    }
}

/// The integer function of an operator; uint64 divides and shifts by its own rules.
fn int_op(op: BinaryOp, dtype: DType) -> Option<fn(i64, i64) -> i64> {
    let unsigned = dtype == DType::U64;
    Some(match op {
        BinaryOp::Add => i64::wrapping_add,
        BinaryOp::Sub => i64::wrapping_sub,
        BinaryOp::Mul => i64::wrapping_mul,
        BinaryOp::Div if unsigned => |a, b| (a as u64).checked_div(b as u64).unwrap_or(0) as i64,
        BinaryOp::Div => |a, b| Num::div(a, b),
        BinaryOp::FloorDiv if unsigned => |a, b| Num::floor_div(a as u64, b as u64) as i64,
        BinaryOp::FloorDiv => |a, b| Num::floor_div(a, b),
        BinaryOp::Mod if unsigned => |a, b| Num::floor_mod(a as u64, b as u64) as i64,
        BinaryOp::Mod => |a, b| Num::floor_mod(a, b),
        BinaryOp::Pow => |a, b| Num::pow(a, b),
        BinaryOp::Shl => shift_left,
        BinaryOp::Shr if unsigned => |a, b| ((a as u64) >> b.clamp(0, 63)) as i64,
        BinaryOp::Shr => shift_right,
        BinaryOp::BitAnd => |a, b| a & b,
        BinaryOp::BitOr => |a, b| a | b,
        BinaryOp::BitXor => |a, b| a ^ b,
        BinaryOp::MatMul
        | BinaryOp::Eq
        | BinaryOp::Ne
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge
        | BinaryOp::In
        | BinaryOp::NotIn
        | BinaryOp::Is
        | BinaryOp::IsNot
        | BinaryOp::And
        | BinaryOp::Or => return None,
    })
}

fn float_op(op: BinaryOp) -> Option<fn(f64, f64) -> f64> {
    Some(match op {
        BinaryOp::Add => |a, b| a + b,
        BinaryOp::Sub => |a, b| a - b,
        BinaryOp::Mul => |a, b| a * b,
        BinaryOp::Div => |a, b| a / b,
        BinaryOp::FloorDiv => |a, b| Num::floor_div(a, b),
        BinaryOp::Mod => |a, b| Num::floor_mod(a, b),
        BinaryOp::Pow => |a, b| a.powf(b),
        BinaryOp::MatMul
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::BitAnd
        | BinaryOp::BitXor
        | BinaryOp::BitOr
        | BinaryOp::Eq
        | BinaryOp::Ne
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge
        | BinaryOp::In
        | BinaryOp::NotIn
        | BinaryOp::Is
        | BinaryOp::IsNot
        | BinaryOp::And
        | BinaryOp::Or => return None,
    })
}

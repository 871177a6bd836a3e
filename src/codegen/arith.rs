//! Operators on registers of one dtype.
//!
//! Integers wrap. Integer division never traps: by zero it gives 0 for the quotient and the dividend for the remainder.
//! Results of narrow floats are rounded to their dtype after every operation that can leave it.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, I8, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::FunctionBuilder;
use irc_syntax::DType;

use super::cast::{round_to, wrap_sub_byte};
use super::math::{Math, Precision, widen};
use crate::check::intrinsics::Real;

type Fb<'b> = FunctionBuilder<'b>;

/// A register and what it holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Val {
    /// The register.
    pub v: Value,
    /// Its dtype; the register has `cast::register_type` of it.
    pub dtype: DType,
}

/// A value of an expression. Numbers written without a dtype take the one of what they meet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Operand {
    /// `42`
    Int(i128),
    /// `0.5`
    Float(f64),
    /// Anything with a dtype.
    Val(Val),
}

/// Two-operand arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Arith {
    Add,
    Sub,
    Mul,
    /// Exact for floats, truncating for integers.
    Div,
    FloorDiv,
    FloorMod,
    TruncMod,
    Min,
    Max,
    Pow,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Atan2,
    CopySign,
}

/// Comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// The dtype in which two operands meet; `None` for two plain numbers.
pub fn unify(lhs: Operand, rhs: Operand) -> Option<DType> {
    match (lhs, rhs) {
        (Operand::Val(a), Operand::Val(b)) => Some(unify_dtypes(a.dtype, b.dtype)),
        (Operand::Val(a), Operand::Int(_)) | (Operand::Int(_), Operand::Val(a)) => {
            Some(if a.dtype == DType::Bool {
                DType::I32
            } else {
                a.dtype
            })
        }
        (Operand::Val(a), Operand::Float(_)) | (Operand::Float(_), Operand::Val(a)) => {
            Some(if a.dtype.is_float() {
                a.dtype
            } else {
                DType::F32
            })
        }
        _ => None,
    }
}

fn unify_dtypes(a: DType, b: DType) -> DType {
    if a == b || b == DType::Bool {
        return a;
    }
    if a == DType::Bool {
        return b;
    }
    match (a.is_float(), b.is_float()) {
        (true, false) => a,
        (false, true) => b,
        (true, true) if a.bits() == b.bits() => DType::F32,
        _ if a.bits() != b.bits() => {
            if a.bits() > b.bits() {
                a
            } else {
                b
            }
        }
        _ => {
            if a.is_signed() {
                a
            } else {
                b
            }
        }
    }
}

/// `lhs op rhs`, both of one dtype. `rhs_const` is the right side where it is known.
pub fn arith(
    b: &mut Fb<'_>,
    fma: bool,
    op: Arith,
    lhs: Val,
    rhs: Val,
    rhs_const: Option<i128>,
) -> Value {
    let dtype = lhs.dtype;
    if dtype.is_float() {
        let res = float_arith(b, fma, op, lhs, rhs);
        let exact = matches!(op, Arith::Min | Arith::Max | Arith::CopySign);
        return if exact { res } else { round_to(b, res, dtype) };
    }
    let res = int_arith(b, op, lhs.v, rhs.v, dtype, rhs_const);
    wrap_sub_byte(b, res, dtype)
}

fn float_arith(b: &mut Fb<'_>, fma: bool, op: Arith, lhs: Val, rhs: Val) -> Value {
    let (x, y) = (lhs.v, rhs.v);
    match op {
        Arith::Add => b.ins().fadd(x, y),
        Arith::Sub => b.ins().fsub(x, y),
        Arith::Mul => b.ins().fmul(x, y),
        Arith::Div => b.ins().fdiv(x, y),
        Arith::Min => b.ins().fmin(x, y),
        Arith::Max => b.ins().fmax(x, y),
        Arith::CopySign => b.ins().fcopysign(x, y),
        Arith::FloorDiv => {
            let quotient = b.ins().fdiv(x, y);
            b.ins().floor(quotient)
        }
        Arith::FloorMod => {
            // The remainder takes the sign of the divisor, zero too. Signs are compared, for a product of both may
            // underflow.
            let rest = through_double(b, fma, lhs.dtype, x, |math, x| {
                let y = widen(math.b, y);
                math.fmod(x, y)
            });
            let zero = super::cast::zero_like(b, rest);
            let sum = b.ins().fadd(rest, y);
            let rest_negative = b.ins().fcmp(FloatCC::LessThan, rest, zero);
            let divisor_negative = b.ins().fcmp(FloatCC::LessThan, y, zero);
            let differs = b.ins().bxor(rest_negative, divisor_negative);
            let whole = b.ins().fcmp(FloatCC::Equal, rest, zero);
            let signed_zero = b.ins().fcopysign(zero, y);
            let moved = b.ins().select(differs, sum, rest);
            b.ins().select(whole, signed_zero, moved)
        }
        Arith::TruncMod => through_double(b, fma, lhs.dtype, x, |math, x| {
            let y = widen(math.b, y);
            math.fmod(x, y)
        }),
        Arith::Pow => through_double(b, fma, lhs.dtype, x, |math, x| {
            let y = widen(math.b, y);
            math.pow(x, y)
        }),
        Arith::Atan2 => through_double(b, fma, lhs.dtype, x, |math, x| {
            let y = widen(math.b, y);
            math.atan2(x, y)
        }),
        // Bits of floats have no operators; `check` has said so.
        Arith::And | Arith::Or | Arith::Xor | Arith::Shl | Arith::Shr => x,
    }
}

/// Computes in float64 and comes back.
fn through_double(
    b: &mut Fb<'_>,
    fma: bool,
    dtype: DType,
    x: Value,
    compute: impl FnOnce(&mut Math<'_, '_>, Value) -> Value,
) -> Value {
    let precision = if dtype == DType::F64 {
        Precision::Double
    } else {
        Precision::Single
    };
    let wide = widen(b, x);
    let mut math = Math { b, fma, precision };
    let res = compute(&mut math, wide);
    if dtype == DType::F64 {
        res
    } else {
        b.ins().fdemote(F32, res)
    }
}

/// A function of a real number, of a float.
pub fn real(b: &mut Fb<'_>, fma: bool, func: Real, x: Val) -> Value {
    let res = match func {
        Real::Sqrt => b.ins().sqrt(x.v),
        Real::Floor => b.ins().floor(x.v),
        Real::Ceil => b.ins().ceil(x.v),
        Real::Trunc => b.ins().trunc(x.v),
        Real::Round => b.ins().nearest(x.v),
        Real::Rsqrt if x.dtype != DType::F64 => {
            let root = b.ins().sqrt(x.v);
            let one = b.ins().f32const(1.0);
            b.ins().fdiv(one, root)
        }
        _ => through_double(b, fma, x.dtype, x.v, |math, x| math.call1(func, x)),
    };
    round_to(b, res, x.dtype)
}

fn int_arith(
    b: &mut Fb<'_>,
    op: Arith,
    x: Value,
    y: Value,
    dtype: DType,
    rhs_const: Option<i128>,
) -> Value {
    let signed = dtype.is_signed();
    match op {
        Arith::Add => b.ins().iadd(x, y),
        Arith::Sub => b.ins().isub(x, y),
        Arith::Mul => b.ins().imul(x, y),
        Arith::Div if signed => signed_div(b, x, y, rhs_const),
        Arith::TruncMod if signed => signed_rem(b, x, y, rhs_const),
        Arith::FloorDiv if signed => floor_div(b, x, y, rhs_const),
        Arith::FloorMod if signed => floor_mod(b, x, y, rhs_const),
        Arith::Div | Arith::FloorDiv => unsigned_div(b, x, y, rhs_const),
        Arith::TruncMod | Arith::FloorMod => unsigned_rem(b, x, y, rhs_const),
        Arith::Min if signed => b.ins().smin(x, y),
        Arith::Min => b.ins().umin(x, y),
        Arith::Max if signed => b.ins().smax(x, y),
        Arith::Max => b.ins().umax(x, y),
        Arith::And => b.ins().band(x, y),
        Arith::Or => b.ins().bor(x, y),
        Arith::Xor => b.ins().bxor(x, y),
        Arith::Shl | Arith::Shr => shift(b, op, x, y, dtype),
        Arith::Pow => int_pow(b, x, y, dtype),
        // These are functions of floats.
        Arith::Atan2 | Arith::CopySign => x,
    }
}

/// Shifts by the width or more give what shifting bit by bit gives.
fn shift(b: &mut Fb<'_>, op: Arith, x: Value, y: Value, dtype: DType) -> Value {
    let ty = b.func.dfg.value_type(x);
    let last = b.ins().iconst(ty, i64::from(ty.bits()) - 1);
    if op == Arith::Shr && dtype.is_signed() {
        let amount = b.ins().umin(y, last);
        return b.ins().sshr(x, amount);
    }
    let shifted = if op == Arith::Shl {
        b.ins().ishl(x, y)
    } else {
        b.ins().ushr(x, y)
    };
    let fits = b.ins().icmp(IntCC::UnsignedLessThanOrEqual, y, last);
    let zero = b.ins().iconst(ty, 0);
    b.ins().select(fits, shifted, zero)
}

/// Cranelift divides 32 and 64 bits; narrower operands are extended.
fn in_wide(
    b: &mut Fb<'_>,
    x: Value,
    y: Value,
    signed: bool,
    op: impl FnOnce(&mut Fb<'_>, Value, Value) -> Value,
) -> Value {
    let ty = b.func.dfg.value_type(x);
    if ty.bits() >= 32 {
        return op(b, x, y);
    }
    let (x, y) = if signed {
        (b.ins().sextend(I32, x), b.ins().sextend(I32, y))
    } else {
        (b.ins().uextend(I32, x), b.ins().uextend(I32, y))
    };
    let res = op(b, x, y);
    b.ins().ireduce(ty, res)
}

/// A divisor that cannot trap, and whether the real one is zero or minus one.
fn safe_divisor(b: &mut Fb<'_>, y: Value, signed: bool) -> (Value, Value, Option<Value>) {
    let ty = b.func.dfg.value_type(y);
    let one = b.ins().iconst(ty, 1);
    let is_zero = b.ins().icmp_imm_s(IntCC::Equal, y, 0);
    let y = b.ins().select(is_zero, one, y);
    if !signed {
        return (y, is_zero, None);
    }
    let is_minus = b.ins().icmp_imm_s(IntCC::Equal, y, -1);
    (b.ins().select(is_minus, one, y), is_zero, Some(is_minus))
}

fn is_plain(rhs_const: Option<i128>) -> bool {
    rhs_const.is_some_and(|value| value != 0 && value != -1)
}

fn signed_div(b: &mut Fb<'_>, x: Value, y: Value, rhs_const: Option<i128>) -> Value {
    in_wide(b, x, y, true, |b, x, y| {
        if is_plain(rhs_const) {
            return b.ins().sdiv(x, y);
        }
        let (safe, is_zero, is_minus) = safe_divisor(b, y, true);
        let quotient = b.ins().sdiv(x, safe);
        let neg = b.ins().ineg(x);
        let quotient = is_minus.map_or(quotient, |cond| b.ins().select(cond, neg, quotient));
        let ty = b.func.dfg.value_type(x);
        let zero = b.ins().iconst(ty, 0);
        b.ins().select(is_zero, zero, quotient)
    })
}

fn signed_rem(b: &mut Fb<'_>, x: Value, y: Value, rhs_const: Option<i128>) -> Value {
    in_wide(b, x, y, true, |b, x, y| {
        if is_plain(rhs_const) {
            return b.ins().srem(x, y);
        }
        let (safe, is_zero, _) = safe_divisor(b, y, true);
        // The remainder by ±1 is 0, which is what the stand-in gives.
        let rest = b.ins().srem(x, safe);
        let ty = b.func.dfg.value_type(x);
        let zero = b.ins().iconst(ty, 0);
        b.ins().select(is_zero, zero, rest)
    })
}

fn floor_div(b: &mut Fb<'_>, x: Value, y: Value, rhs_const: Option<i128>) -> Value {
    if let Some(value) = rhs_const.filter(|value| *value > 0 && value.count_ones() == 1) {
        return b.ins().sshr_imm_u(x, i64::from(value.trailing_zeros()));
    }
    in_wide(b, x, y, true, |b, x, y| {
        let quotient = signed_div(b, x, y, rhs_const);
        let product = b.ins().imul(quotient, y);
        let rest = b.ins().isub(x, product);
        // One less where the remainder is not zero and its sign differs from the divisor's.
        let mixed = b.ins().bxor(rest, y);
        let differs = b.ins().icmp_imm_s(IntCC::SignedLessThan, mixed, 0);
        let inexact = b.ins().icmp_imm_s(IntCC::NotEqual, rest, 0);
        let defined = b.ins().icmp_imm_s(IntCC::NotEqual, y, 0);
        let down = b.ins().band(differs, inexact);
        let down = b.ins().band(down, defined);
        let less = b.ins().iadd_imm_s(quotient, -1);
        b.ins().select(down, less, quotient)
    })
}

fn floor_mod(b: &mut Fb<'_>, x: Value, y: Value, rhs_const: Option<i128>) -> Value {
    if let Some(value) = rhs_const.filter(|value| *value > 0 && value.count_ones() == 1) {
        return b.ins().band_imm_s(x, value as i64 - 1);
    }
    in_wide(b, x, y, true, |b, x, y| {
        let rest = signed_rem(b, x, y, rhs_const);
        let mixed = b.ins().bxor(rest, y);
        let differs = b.ins().icmp_imm_s(IntCC::SignedLessThan, mixed, 0);
        let inexact = b.ins().icmp_imm_s(IntCC::NotEqual, rest, 0);
        let defined = b.ins().icmp_imm_s(IntCC::NotEqual, y, 0);
        let up = b.ins().band(differs, inexact);
        let up = b.ins().band(up, defined);
        let sum = b.ins().iadd(rest, y);
        b.ins().select(up, sum, rest)
    })
}

fn unsigned_div(b: &mut Fb<'_>, x: Value, y: Value, rhs_const: Option<i128>) -> Value {
    in_wide(b, x, y, false, |b, x, y| {
        if is_plain(rhs_const) {
            return b.ins().udiv(x, y);
        }
        let (safe, is_zero, _) = safe_divisor(b, y, false);
        let quotient = b.ins().udiv(x, safe);
        let ty = b.func.dfg.value_type(x);
        let zero = b.ins().iconst(ty, 0);
        b.ins().select(is_zero, zero, quotient)
    })
}

fn unsigned_rem(b: &mut Fb<'_>, x: Value, y: Value, rhs_const: Option<i128>) -> Value {
    in_wide(b, x, y, false, |b, x, y| {
        if is_plain(rhs_const) {
            return b.ins().urem(x, y);
        }
        let (safe, is_zero, _) = safe_divisor(b, y, false);
        let rest = b.ins().urem(x, safe);
        let ty = b.func.dfg.value_type(x);
        let zero = b.ins().iconst(ty, 0);
        b.ins().select(is_zero, zero, rest)
    })
}

/// The quotient and remainder of an index that is not negative by a positive divisor.
pub fn index_div(b: &mut Fb<'_>, x: Value, y: Value, rhs_const: Option<i128>) -> Value {
    unsigned_div(b, x, y, rhs_const)
}

/// As [`index_div`].
pub fn index_rem(b: &mut Fb<'_>, x: Value, y: Value, rhs_const: Option<i128>) -> Value {
    unsigned_rem(b, x, y, rhs_const)
}

/// Squaring and multiplying; a negative exponent gives what the rounded real power is: 0, or ±1 for ±1.
fn int_pow(b: &mut Fb<'_>, x: Value, y: Value, dtype: DType) -> Value {
    let ty = b.func.dfg.value_type(x);
    let (head, body, exit) = (b.create_block(), b.create_block(), b.create_block());
    let res = b.append_block_param(head, ty);
    let base = b.append_block_param(head, ty);
    let exponent = b.append_block_param(head, ty);
    let one = b.ins().iconst(ty, 1);
    let zero = b.ins().iconst(ty, 0);
    let start = if dtype.is_signed() {
        b.ins().smax(y, zero)
    } else {
        y
    };
    b.ins().jump(head, &[one.into(), x.into(), start.into()]);
    b.switch_to_block(head);
    b.ins().brif(exponent, body, &[], exit, &[]);
    b.switch_to_block(body);
    let odd = b.ins().band_imm_u(exponent, 1);
    let product = b.ins().imul(res, base);
    let next = b.ins().select(odd, product, res);
    let square = b.ins().imul(base, base);
    let half = b.ins().ushr_imm_u(exponent, 1);
    b.ins()
        .jump(head, &[next.into(), square.into(), half.into()]);
    b.seal_block(head);
    b.seal_block(body);
    b.switch_to_block(exit);
    b.seal_block(exit);
    if !dtype.is_signed() {
        return res;
    }
    let minus_one = b.ins().ineg(one);
    let is_negative = b.ins().icmp_imm_s(IntCC::SignedLessThan, y, 0);
    let is_one = b.ins().icmp_imm_s(IntCC::Equal, x, 1);
    let is_minus = b.ins().icmp_imm_s(IntCC::Equal, x, -1);
    let odd = b.ins().band_imm_u(y, 1);
    let alternating = b.ins().select(odd, minus_one, one);
    let small = b.ins().select(is_minus, alternating, zero);
    let small = b.ins().select(is_one, one, small);
    b.ins().select(is_negative, small, res)
}

/// A comparison; the result is a `bool`.
pub fn compare(b: &mut Fb<'_>, op: Compare, lhs: Val, rhs: Val) -> Value {
    if lhs.dtype.is_float() {
        let cc = match op {
            Compare::Eq => FloatCC::Equal,
            Compare::Ne => FloatCC::NotEqual,
            Compare::Lt => FloatCC::LessThan,
            Compare::Le => FloatCC::LessThanOrEqual,
            Compare::Gt => FloatCC::GreaterThan,
            Compare::Ge => FloatCC::GreaterThanOrEqual,
        };
        return b.ins().fcmp(cc, lhs.v, rhs.v);
    }
    let signed = lhs.dtype.is_signed();
    let cc = match (op, signed) {
        (Compare::Eq, _) => IntCC::Equal,
        (Compare::Ne, _) => IntCC::NotEqual,
        (Compare::Lt, true) => IntCC::SignedLessThan,
        (Compare::Le, true) => IntCC::SignedLessThanOrEqual,
        (Compare::Gt, true) => IntCC::SignedGreaterThan,
        (Compare::Ge, true) => IntCC::SignedGreaterThanOrEqual,
        (Compare::Lt, false) => IntCC::UnsignedLessThan,
        (Compare::Le, false) => IntCC::UnsignedLessThanOrEqual,
        (Compare::Gt, false) => IntCC::UnsignedGreaterThan,
        (Compare::Ge, false) => IntCC::UnsignedGreaterThanOrEqual,
    };
    b.ins().icmp(cc, lhs.v, rhs.v)
}

/// Functions of one value that give the same dtype.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Unary {
    Neg,
    Abs,
    BitNot,
    PopCount,
    CountLeadingZeros,
}

impl Unary {
    /// The function of a name in the `T` namespace.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "abs" | "fabs" => Self::Abs,
            "bitwise_not" => Self::BitNot,
            "popcount" => Self::PopCount,
            "clz" => Self::CountLeadingZeros,
            _ => return None,
        })
    }
}

/// `op x`
pub fn unary(b: &mut Fb<'_>, op: Unary, x: Val) -> Value {
    let is_float = x.dtype.is_float();
    let res = match op {
        Unary::Neg if is_float => return b.ins().fneg(x.v),
        Unary::Abs if is_float => return b.ins().fabs(x.v),
        // Bits of floats have no operators; `check` has said so.
        Unary::BitNot | Unary::PopCount | Unary::CountLeadingZeros if is_float => return x.v,
        Unary::Neg => b.ins().ineg(x.v),
        Unary::Abs if x.dtype.is_signed() => b.ins().iabs(x.v),
        Unary::Abs => x.v,
        Unary::BitNot if x.dtype == DType::Bool => b.ins().bxor_imm_u(x.v, 1),
        Unary::BitNot => b.ins().bnot(x.v),
        Unary::PopCount => b.ins().popcnt(x.v),
        Unary::CountLeadingZeros => b.ins().clz(x.v),
    };
    wrap_sub_byte(b, res, x.dtype)
}

/// `isnan`, `isinf`, `isfinite`; integers are finite.
pub fn classify(b: &mut Fb<'_>, name: &str, x: Val) -> Option<Value> {
    if !x.dtype.is_float() {
        return matches!(name, "isnan" | "isinf" | "isfinite")
            .then(|| b.ins().iconst(I8, i64::from(name == "isfinite")));
    }
    let abs = b.ins().fabs(x.v);
    let inf = if x.dtype == DType::F64 {
        b.ins().f64const(f64::INFINITY)
    } else {
        b.ins().f32const(f32::INFINITY)
    };
    Some(match name {
        "isnan" => b.ins().fcmp(FloatCC::Unordered, x.v, x.v),
        "isinf" => b.ins().fcmp(FloatCC::Equal, abs, inf),
        "isfinite" => b.ins().fcmp(FloatCC::LessThan, abs, inf),
        _ => return None,
    })
}

/// The bits of one dtype read as another of the same size.
pub fn reinterpret(b: &mut Fb<'_>, x: Val, to: DType) -> Option<Value> {
    if x.dtype.bytes() != to.bytes() {
        return None;
    }
    let raw = super::cast::to_memory(b, x.v, x.dtype);
    let wanted = super::cast::memory_type(to)?;
    let raw = if b.func.dfg.value_type(raw) == wanted {
        raw
    } else {
        b.ins()
            .bitcast(wanted, cranelift_codegen::ir::MemFlagsData::new(), raw)
    };
    Some(super::cast::from_memory(b, raw, to))
}

/// An index register of an integer: 64 bits.
pub fn to_index(b: &mut Fb<'_>, x: Val) -> Value {
    let ty = b.func.dfg.value_type(x.v);
    if ty == I64 {
        x.v
    } else if x.dtype.is_signed() {
        b.ins().sextend(I64, x.v)
    } else {
        b.ins().uextend(I64, x.v)
    }
}

//! Calls of `T.*` in values.

use irc_syntax::{BinaryOp, DType, Expr, ExprKind, UnaryOp};

use super::super::math;
use super::super::vir::{BinOp, CmpOp, Reg, Ty, UnOp};
use super::Lower;
use super::cond::{Cond, comparison};
use super::value::Val;
use crate::check::intrinsics::Real;

impl Lower<'_> {
    pub(super) fn call(&mut self, expr: &Expr) -> Option<Val> {
        if let Some((op, a, b)) = comparison(expr) {
            return self.compare(op, a, b);
        }
        let (path, args) = expr.as_call()?;
        let args: Vec<&Expr> = args.iter().map(|arg| &arg.value).collect();
        let name = path.strip_prefix("T.")?;
        match (name, args.as_slice()) {
            ("if_then_else", [cond, a, b]) => {
                let cond = self.cond(cond)?;
                self.choose_value(cond, a, b)
            }
            ("Select", [cond, a, b]) => self.select(cond, a, b),
            ("Cast", [dtype, value]) => {
                let value = self.expr(value)?;
                self.cast(DType::from_name(dtype.as_str()?)?, value)
            }
            ("reinterpret", [dtype, value]) => {
                let value = self.expr(value)?;
                match (DType::from_name(dtype.as_str()?)?, value) {
                    (DType::I32, Val::F32(reg)) => Some(Val::I32(self.b.cast(Ty::I32, reg))),
                    (DType::F32, Val::I32(reg)) => Some(Val::F32(self.b.cast(Ty::F32, reg))),
                    _ => None,
                }
            }
            ("likely", [value]) => self.expr(value),
            ("max" | "Max", [a, b]) => self.extreme(BinOp::Max, expr, a, b),
            ("min" | "Min", [a, b]) => self.extreme(BinOp::Min, expr, a, b),
            ("And", [a, b]) => Some(Val::Cond(self.cond(a)?.and(self.cond(b)?))),
            ("Or", [a, b]) => Some(Val::Cond(self.cond(a)?.or(self.cond(b)?))),
            ("Not", [a]) => Some(Val::Cond(self.cond(a)?.not())),
            ("pow" | "power", [a, b]) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                let (ty, a, b) = self.same_type(a, b)?;
                (ty == Ty::F32).then(|| Val::F32(math::pow(&mut self.b, a, b)))
            }
            (_, [a, b]) => {
                let op = infix(name)?;
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                self.arithmetic(op, a, b)
            }
            (_, [value]) => {
                if let Some(dtype) = DType::from_name(name) {
                    return self.literal(dtype, value);
                }
                self.function(name, value)
            }
            _ => None,
        }
    }

    fn select(&mut self, cond: &Expr, a: &Expr, b: &Expr) -> Option<Val> {
        let cond = self.cond(cond)?;
        match cond {
            Cond::Known(true) => self.expr(a),
            Cond::Known(false) => self.expr(b),
            cond => {
                let mask = self.mask_of(cond);
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                self.blend(mask, a, b)
            }
        }
    }

    /// `T.float32(1)`, `T.int32(n)`, `T.float32("-inf")`
    fn literal(&mut self, dtype: DType, value: &Expr) -> Option<Val> {
        let number = number_of(value);
        match (dtype, number) {
            (DType::F32, Some(number)) => Some(Val::F32(self.b.f32(number as f32))),
            (DType::F16, Some(number)) => {
                let half = half::f16::from_f64(number).to_f32();
                Some(Val::Half(self.b.f32(half)))
            }
            (DType::Bool, _) => Some(Val::Cond(self.cond(value)?)),
            (DType::I16 | DType::I8 | DType::U8, Some(_)) => {
                let value = i32::try_from(value.as_int()?).ok()?;
                Some(Val::Narrow(self.b.i32(value), dtype))
            }
            (DType::I32, Some(_)) => {
                let value = i32::try_from(value.as_int()?).ok()?;
                Some(Val::Int(super::super::affine::Poly::constant(i64::from(
                    value,
                ))))
            }
            (dtype, _) if dtype.is_int() => Some(Val::Int(self.poly(value)?)),
            (dtype, None) => {
                let value = self.expr(value)?;
                self.cast(dtype, value)
            }
            _ => None,
        }
    }

    fn cast(&mut self, dtype: DType, value: Val) -> Option<Val> {
        match (dtype, value) {
            (DType::F32, Val::F32(reg) | Val::Half(reg)) => Some(Val::F32(reg)),
            (DType::F32, Val::I32(reg)) => Some(Val::F32(self.as_float(reg))),
            (DType::F32, Val::Narrow(reg, from)) => {
                self.note_dtype(reg, from);
                Some(Val::F32(self.as_float(reg)))
            }
            (DType::F32, Val::Int(poly)) => {
                let lanes = self.lanes_of(&poly)?;
                Some(Val::F32(self.b.un(UnOp::ToFloat, lanes)))
            }
            (DType::F16, Val::Half(reg)) => Some(Val::Half(reg)),
            (DType::F16, Val::F32(reg)) => Some(Val::Half(self.b.un(UnOp::RoundHalf, reg))),
            (DType::F16, value) => {
                let Some(Val::F32(reg)) = self.cast(DType::F32, value) else {
                    return None;
                };
                Some(Val::Half(self.b.un(UnOp::RoundHalf, reg)))
            }
            (DType::I32, Val::I32(reg)) => Some(Val::I32(reg)),
            (DType::I32, Val::Narrow(reg, from)) => {
                self.note_dtype(reg, from);
                Some(Val::I32(reg))
            }
            (DType::I32, Val::F32(reg)) => Some(Val::I32(self.b.un(UnOp::ToInt, reg))),
            (DType::I32 | DType::I64, Val::Int(poly)) => Some(Val::Int(poly)),
            (DType::I16 | DType::I8 | DType::U8, Val::I32(reg)) => Some(self.low_of(dtype, reg)),
            (DType::I8 | DType::U8, Val::F32(reg) | Val::Half(reg)) => {
                Some(self.as_byte(dtype, reg))
            }
            (DType::I8 | DType::U8, Val::Narrow(reg, from)) if from == dtype => {
                Some(Val::Narrow(reg, dtype))
            }
            (DType::I16, Val::Narrow(reg, _)) => Some(Val::Narrow(reg, dtype)),
            (DType::Bool, Val::Mask(mask)) => Some(Val::Mask(mask)),
            (DType::Bool, Val::Cond(cond)) => Some(Val::Cond(cond)),
            (DType::Bool, Val::F32(reg)) => {
                let zero = self.b.f32(0.0);
                Some(Val::Mask(self.b.cmp(CmpOp::Ne, reg, zero)))
            }
            (DType::Bool, Val::I32(reg) | Val::Narrow(reg, _)) => {
                let zero = self.b.i32(0);
                Some(Val::Mask(self.b.cmp(CmpOp::Ne, reg, zero)))
            }
            (DType::F32, value @ (Val::Mask(_) | Val::Cond(_))) => {
                let mask = self.convert(value, DType::Bool)?;
                let (one, zero) = (self.b.f32(1.0), self.b.f32(0.0));
                Some(Val::F32(self.b.select(mask, one, zero)))
            }
            (
                DType::I32 | DType::I16 | DType::I8 | DType::U8,
                value @ (Val::Mask(_) | Val::Cond(_)),
            ) => {
                let mask = self.convert(value, DType::Bool)?;
                let lanes = self.mask_as_int(mask);
                Some(if dtype == DType::I32 {
                    Val::I32(lanes)
                } else {
                    Val::Narrow(lanes, dtype)
                })
            }
            _ => None,
        }
    }

    /// The low bytes of lanes. The lanes of a narrow integer are its value: what is left of it is extended.
    pub(super) fn low_of(&mut self, dtype: DType, lanes: Reg) -> Val {
        if self.range(lanes).fits(dtype) {
            return Val::Narrow(lanes, dtype);
        }
        if dtype == DType::U8 {
            let byte = self.b.i32(0xFF);
            return Val::Narrow(self.b.bin(BinOp::And, lanes, byte), dtype);
        }
        let by = self.b.i32(32 - dtype.bits() as i32);
        let high = self.b.bin(BinOp::Shl, lanes, by);
        Val::Narrow(self.b.bin(BinOp::Sar, high, by), dtype)
    }

    fn extreme(&mut self, op: BinOp, whole: &Expr, a: &Expr, b: &Expr) -> Option<Val> {
        if let Some(poly) = self.poly(whole) {
            return Some(Val::Int(poly));
        }
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        match (a, b) {
            (Val::Half(a), Val::Half(b)) => Some(Val::Half(self.extremum(op, a, b))),
            (Val::Narrow(a, x), Val::Narrow(b, y)) if x == y => {
                Some(Val::Narrow(self.b.bin(op, a, b), x))
            }
            (a, b) => {
                let (ty, a, b) = self.same_type(a, b)?;
                Some(match ty {
                    Ty::F32 => Val::F32(self.extremum(op, a, b)),
                    _ => Val::I32(self.b.bin(op, a, b)),
                })
            }
        }
    }

    fn function(&mut self, name: &str, value: &Expr) -> Option<Val> {
        let value = self.expr(value)?;
        let reg = match value {
            Val::F32(reg) => reg,
            // Computed as f32 and rounded, as the interpreter does.
            Val::Half(reg) => {
                return match self.function_of(name, reg)? {
                    Val::F32(res) => Some(Val::Half(self.b.un(UnOp::RoundHalf, res))),
                    other => Some(other),
                };
            }
            Val::I32(reg) if matches!(name, "abs" | "fabs") => {
                let zero = self.b.i32(0);
                let minus = self.b.bin(BinOp::Sub, zero, reg);
                return Some(Val::I32(self.b.bin(BinOp::Max, reg, minus)));
            }
            _ => return None,
        };
        self.function_of(name, reg)
    }

    fn function_of(&mut self, name: &str, reg: Reg) -> Option<Val> {
        if matches!(name, "isnan" | "isinf" | "isfinite") {
            return Some(Val::Mask(self.classify(name, reg)));
        }
        let b = &mut self.b;
        if matches!(name, "fabs" | "abs") {
            return Some(Val::F32(math::abs(b, reg)));
        }
        let res = match Real::from_name(name)? {
            Real::Sqrt => b.un(UnOp::Sqrt, reg),
            Real::Floor => self.whole(UnOp::Floor, reg),
            Real::Ceil => self.whole(UnOp::Ceil, reg),
            Real::Trunc => self.whole(UnOp::Trunc, reg),
            Real::Round => self.whole(UnOp::Round, reg),
            Real::Exp => math::exp(b, reg),
            Real::Log => math::log(b, reg),
            Real::Rsqrt => math::rsqrt(b, reg),
            Real::Tanh => math::tanh(b, reg),
            Real::Sigmoid => math::sigmoid(b, reg),
            Real::Erf => math::erf(b, reg),
            Real::Sin => math::sin(b, reg),
            Real::Cos => math::cos(b, reg),
            Real::Exp2
            | Real::Exp10
            | Real::Expm1
            | Real::Log2
            | Real::Log10
            | Real::Log1p
            | Real::Tan
            | Real::Sinh
            | Real::Cosh
            | Real::Asin
            | Real::Acos
            | Real::Atan
            | Real::Asinh
            | Real::Acosh
            | Real::Atanh => return None,
        };
        Some(Val::F32(res))
    }

    fn classify(&mut self, name: &str, reg: Reg) -> Reg {
        if name == "isnan" {
            return self.b.cmp(CmpOp::Ne, reg, reg);
        }
        let size = math::abs(&mut self.b, reg);
        let infinity = self.b.f32(f32::INFINITY);
        let op = if name == "isinf" {
            CmpOp::Eq
        } else {
            CmpOp::Lt
        };
        self.b.cmp(op, size, infinity)
    }
}

/// The number of a literal: `1`, `-0.5`, `"inf"`, `-I.inf`.
fn number_of(value: &Expr) -> Option<f64> {
    match &value.kind {
        ExprKind::Str(text) => text.parse().ok(),
        ExprKind::Float(value) => Some(*value),
        ExprKind::Unary {
            op: UnaryOp::Neg,
            value,
        } => Some(-number_of(value)?),
        ExprKind::Attr { .. } => match value.as_path()?.as_str() {
            "I.inf" => Some(f64::INFINITY),
            "I.nan" => Some(f64::NAN),
            _ => None,
        },
        _ => value.as_int().map(|value| value as f64),
    }
}

/// The operator that a functional form stands for.
fn infix(name: &str) -> Option<BinaryOp> {
    Some(match name {
        "Add" => BinaryOp::Add,
        "Sub" => BinaryOp::Sub,
        "Mul" => BinaryOp::Mul,
        "Div" => BinaryOp::Div,
        "bitwise_and" => BinaryOp::BitAnd,
        "bitwise_or" => BinaryOp::BitOr,
        "bitwise_xor" => BinaryOp::BitXor,
        "shift_left" => BinaryOp::Shl,
        "shift_right" => BinaryOp::Shr,
        _ => return None,
    })
}

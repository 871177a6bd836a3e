//! Calls inside expressions: casts, choices, arithmetic by name, and elementary functions.

use irc_syntax::{BinaryOp, DType, Expr};

use super::Compiler;
use super::expr::{Code, Typed, match_types};
use super::scalar::{round, wrap};
use crate::check::intrinsics::Real;
use crate::interp::RunError;
use crate::interp::kernels::num::{Num, int_limits};

impl Compiler {
    /// Compiles a call that gives a scalar.
    pub(super) fn call(&mut self, expr: &Expr) -> Result<Typed, RunError> {
        let unknown = || RunError::type_error("this call has no scalar value").at(expr.span);
        let (path, args) = expr.as_call().ok_or_else(unknown)?;
        let name = path.strip_prefix("T.").unwrap_or(&path);
        let values: Vec<&Expr> = args.iter().map(|arg| &arg.value).collect();
        if let Some(dtype) = DType::from_name(name) {
            return match values.as_slice() {
                [value] => self.literal(dtype, value),
                _ => Err(unknown()),
            };
        }
        match (name, values.as_slice()) {
            ("Cast" | "cast", [dtype, value]) => {
                let dtype = dtype
                    .as_str()
                    .and_then(DType::from_name)
                    .ok_or_else(unknown)?;
                Ok(self.expr(value)?.cast(dtype))
            }
            ("reinterpret", [dtype, value]) => {
                let dtype = dtype
                    .as_str()
                    .and_then(DType::from_name)
                    .ok_or_else(unknown)?;
                self.reinterpret(dtype, value)
            }
            ("Select" | "if_then_else", [cond, a, b]) => self.choose(cond, a, b),
            ("likely" | "evaluate" | "let_value", [value]) => self.expr(value),
            (
                "call_extern" | "call_pure_extern" | "call_llvm_pure_intrin",
                [dtype, name, rest @ ..],
            ) => {
                let dtype = dtype
                    .as_str()
                    .and_then(DType::from_name)
                    .ok_or_else(unknown)?;
                let symbol = name.as_str().ok_or_else(unknown)?;
                let plain = libm_name(symbol).ok_or_else(|| {
                    RunError::runtime_error(format!("`{symbol}` cannot be called here"))
                        .at(expr.span)
                })?;
                Ok(self.math(plain, rest, expr)?.cast(dtype))
            }
            ("min_value" | "max_value" | "infinity", [dtype]) => {
                let dtype = dtype
                    .as_str()
                    .and_then(DType::from_name)
                    .ok_or_else(unknown)?;
                Ok(limit(name, dtype))
            }
            ("isnan" | "isinf" | "isfinite", [x]) => {
                let test: fn(f64) -> bool = match name {
                    "isnan" => f64::is_nan,
                    "isinf" => f64::is_infinite,
                    _ => f64::is_finite,
                };
                let code = self.expr(x)?.into_float();
                Ok(Typed::int(
                    DType::Bool,
                    Box::new(move |m| Ok(i64::from(test(code(m)?)))),
                ))
            }
            _ => match (binary_name(name), values.as_slice()) {
                (Some(op), [a, b]) => {
                    let (a, b) = (self.expr(a)?, self.expr(b)?);
                    self.binary(op, a, b, expr.span)
                }
                _ => self.math(name, &values, expr),
            },
        }
    }

    /// `T.float32(0.5)`, `T.float32("inf")`, `T.int64(n)`.
    fn literal(&mut self, dtype: DType, value: &Expr) -> Result<Typed, RunError> {
        if let Some(text) = value.as_str() {
            let number: f64 = text.parse().map_err(|_| {
                RunError::type_error(format!("{text:?} is no number")).at(value.span)
            })?;
            return Ok(Typed::float(dtype, Box::new(move |_| Ok(number))));
        }
        if let Some(value) = value.as_int()
            && dtype.is_int()
        {
            let value = wrap(dtype, value as i64);
            return Ok(Typed::int(dtype, Box::new(move |_| Ok(value))));
        }
        Ok(self.expr(value)?.cast(dtype))
    }

    fn reinterpret(&mut self, dtype: DType, value: &Expr) -> Result<Typed, RunError> {
        let x = self.expr(value)?;
        let from = x.dtype;
        if from.bytes() != dtype.bytes() || from.bytes() > 8 {
            let message = format!("{from} has not the bits of {dtype}");
            return Err(RunError::type_error(message).at(value.span));
        }
        let bits: super::expr::IntCode = match x.code {
            Code::Int(code) => code,
            Code::Float(code) => Box::new(move |m| {
                let mut bytes = [0u8; 8];
                super::scalar::store_float(from, &mut bytes[..from.bytes()], code(m)?);
                Ok(i64::from_le_bytes(bytes))
            }),
        };
        Ok(if dtype.is_float() {
            Typed::float(
                dtype,
                Box::new(move |m| {
                    let bytes = bits(m)?.to_le_bytes();
                    Ok(super::scalar::load_float(dtype, &bytes[..dtype.bytes()]))
                }),
            )
        } else {
            Typed::int(dtype, Box::new(move |m| Ok(wrap(dtype, bits(m)?))))
        })
    }

    /// Functions by their plain name.
    fn math(&mut self, name: &str, args: &[&Expr], at: &Expr) -> Result<Typed, RunError> {
        let unknown = || {
            RunError::type_error(format!("`{name}` has no meaning at the loop level")).at(at.span)
        };
        let mut values = args
            .iter()
            .map(|arg| self.expr(arg))
            .collect::<Result<Vec<_>, _>>()?;
        match (name, values.len()) {
            (
                "max" | "min" | "truncmod" | "truncdiv" | "fmod" | "pow" | "power" | "atan2"
                | "copysign" | "hypot",
                2,
            ) => {
                let (b, a) = (
                    values.pop().ok_or_else(unknown)?,
                    values.pop().ok_or_else(unknown)?,
                );
                two(name, a, b).ok_or_else(unknown)
            }
            ("fma", 3) => {
                let (c, b) = (
                    values.pop().ok_or_else(unknown)?,
                    values.pop().ok_or_else(unknown)?,
                );
                let a = values.pop().ok_or_else(unknown)?;
                let dtype = a.dtype;
                let (a, b, c) = (a.into_float(), b.into_float(), c.into_float());
                // An f64 product of two f32 is exact, so there is one rounding but for the sum's own.
                Ok(Typed::float(
                    dtype,
                    Box::new(move |m| Ok(round(dtype, a(m)?.mul_add(b(m)?, c(m)?)))),
                ))
            }
            (_, 1) => {
                let x = values.pop().ok_or_else(unknown)?;
                one(name, x).ok_or_else(unknown)
            }
            _ => Err(unknown()),
        }
    }
}

/// Least and greatest values, and infinity.
fn limit(name: &str, dtype: DType) -> Typed {
    if dtype.is_float() {
        let largest = match dtype {
            DType::F64 => f64::MAX,
            DType::F16 => 65504.0,
            DType::BF16 => half::bf16::MAX.to_f64(),
            _ => f64::from(f32::MAX),
        };
        let value = match name {
            "min_value" => -largest,
            "max_value" => largest,
            _ => f64::INFINITY,
        };
        return Typed::float(dtype, Box::new(move |_| Ok(value)));
    }
    let (lo, hi) = int_limits(dtype);
    let value = if name == "min_value" { lo } else { hi } as i64;
    Typed::int(dtype, Box::new(move |_| Ok(value)))
}

fn binary_name(name: &str) -> Option<BinaryOp> {
    // tidy: table
    Some(match name {
        "Add" => BinaryOp::Add,
        "Sub" => BinaryOp::Sub,
        "Mul" => BinaryOp::Mul,
        "Div" => BinaryOp::Div,
        "FloorDiv" | "floordiv" => BinaryOp::FloorDiv,
        "FloorMod" | "floormod" => BinaryOp::Mod,
        "And" => BinaryOp::And,
        "Or" => BinaryOp::Or,
        "EQ" => BinaryOp::Eq,
        "NE" => BinaryOp::Ne,
        "LT" => BinaryOp::Lt,
        "LE" => BinaryOp::Le,
        "GT" => BinaryOp::Gt,
        "GE" => BinaryOp::Ge,
        "shift_left" => BinaryOp::Shl,
        "shift_right" => BinaryOp::Shr,
        "bitwise_and" => BinaryOp::BitAnd,
        "bitwise_or" => BinaryOp::BitOr,
        "bitwise_xor" => BinaryOp::BitXor,
        _ => return None,
    })
}

/// The plain name of a function of libm or LLVM.
fn libm_name(symbol: &str) -> Option<&str> {
    let plain = symbol.strip_prefix("llvm.").unwrap_or(symbol);
    let plain = plain
        .strip_suffix(".f32")
        .or(plain.strip_suffix(".f64"))
        .unwrap_or(plain);
    if Real::from_name(plain).is_some()
        || ["fabs", "pow", "fmod", "atan2", "copysign", "fma", "hypot"].contains(&plain)
    {
        return Some(plain);
    }
    let single = plain.strip_suffix('f')?;
    let known = Real::from_name(single).is_some()
        || ["fabs", "pow", "fmod", "atan2", "copysign", "fma", "hypot"].contains(&single);
    known.then_some(single)
}

fn one(name: &str, x: Typed) -> Option<Typed> {
    let dtype = x.dtype;
    if let "abs" | "fabs" = name {
        return Some(match x.code {
            Code::Int(code) => Typed::int(
                dtype,
                Box::new(move |m| Ok(wrap(dtype, Num::abs(code(m)?)))),
            ),
            Code::Float(code) => Typed::float(dtype, Box::new(move |m| Ok(code(m)?.abs()))),
        });
    }
    if let "bitwise_not" | "Not" = name {
        let is_truth = name == "Not" || dtype == DType::Bool;
        let code = x.into_truth();
        return Some(if is_truth {
            Typed::int(DType::Bool, Box::new(move |m| Ok(i64::from(code(m)? == 0))))
        } else {
            Typed::int(dtype, Box::new(move |m| Ok(wrap(dtype, !code(m)?))))
        });
    }
    let f = Real::from_name(name)?;
    let dtype = if dtype.is_float() { dtype } else { DType::F32 };
    let code = x.into_float();
    Some(Typed::float(
        dtype,
        Box::new(move |m| Ok(round(dtype, code(m)?.apply(f)))),
    ))
}

fn two(name: &str, a: Typed, b: Typed) -> Option<Typed> {
    let (a, b) = match_types(a, b);
    let dtype = a.dtype;
    let is_u64 = dtype == DType::U64;
    Some(match (a.code, b.code) {
        (Code::Int(a), Code::Int(b)) => {
            let f: fn(i64, i64) -> i64 = match name {
                "max" if is_u64 => |a, b| Num::larger(a as u64, b as u64) as i64,
                "min" if is_u64 => |a, b| Num::smaller(a as u64, b as u64) as i64,
                "max" => |a, b| Num::larger(a, b),
                "min" => |a, b| Num::smaller(a, b),
                "truncmod" | "fmod" if is_u64 => |a, b| Num::rem(a as u64, b as u64) as i64,
                "truncdiv" if is_u64 => |a, b| Num::div(a as u64, b as u64) as i64,
                "truncmod" | "fmod" => |a, b| Num::rem(a, b),
                "truncdiv" => |a, b| Num::div(a, b),
                "pow" | "power" => |a, b| Num::pow(a, b),
                _ => return None,
            };
            Typed::int(dtype, Box::new(move |m| Ok(wrap(dtype, f(a(m)?, b(m)?)))))
        }
        (Code::Float(a), Code::Float(b)) => {
            let f: fn(f64, f64) -> f64 = match name {
                "max" => |a, b| Num::larger(a, b),
                "min" => |a, b| Num::smaller(a, b),
                "truncmod" | "fmod" => |a, b| a % b,
                "pow" | "power" => f64::powf,
                "atan2" => f64::atan2,
                "copysign" => f64::copysign,
                "hypot" => f64::hypot,
                _ => return None,
            };
            Typed::float(dtype, Box::new(move |m| Ok(round(dtype, f(a(m)?, b(m)?)))))
        }
        _ => return None,
    })
}

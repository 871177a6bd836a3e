//! Calls of `T.*` in scalar expressions: conversions, functions of numbers, limits, addresses.

use cranelift_codegen::ir::InstBuilder;
use irc_syntax::{Arg, DType, Expr, ExprKind, Span, UnaryOp};

use super::arith::{self, Arith, Compare, Operand, Unary, Val};
use super::cast;
use super::lower::{Lower, Res, unsupported};
use crate::check::intrinsics::Real;

impl Lower<'_, '_> {
    /// `T.name(args)`
    pub fn call_expr(&mut self, path: &str, args: &[Arg], span: Option<Span>) -> Res<Operand> {
        let name = path.strip_prefix("T.").unwrap_or(path);
        if let Some(dtype) = DType::from_name(name) {
            return self.literal(dtype, args, span);
        }
        let arg = |idx: usize| {
            args.get(idx)
                .map(|arg| &arg.value)
                .ok_or_else(|| unsupported(span, format!("`{path}` needs more arguments")))
        };
        if let Some(op) = arith_named(name) {
            return self.arith_expr(op, arg(0)?, arg(1)?, span);
        }
        if let Some(op) = compare_named(name) {
            return self.compare_expr(op, arg(0)?, arg(1)?, span);
        }
        if let Some(func) = Real::from_name(name) {
            return self.function(func, arg(0)?, span);
        }
        if let Some(op) = Unary::from_name(name) {
            let operand = self.expr(arg(0)?)?;
            let val = self.number(operand, span)?;
            return Ok(Operand::Val(Val {
                v: arith::unary(&mut self.b, op, val),
                dtype: val.dtype,
            }));
        }
        match name {
            "Cast" | "cast" => {
                let (dtype, value) = self.dtype_and_value(arg(0)?, arg(1)?)?;
                let v = self.value_as(value, dtype)?;
                Ok(Operand::Val(Val { v, dtype }))
            }
            "reinterpret" => {
                let (dtype, value) = self.dtype_and_value(arg(0)?, arg(1)?)?;
                let val = self.value(value)?;
                let v = arith::reinterpret(&mut self.b, val, dtype).ok_or_else(|| {
                    unsupported(span, format!("`{}` cannot be read as `{dtype}`", val.dtype))
                })?;
                Ok(Operand::Val(Val { v, dtype }))
            }
            "Select" => self.select(args, span),
            "if_then_else" => self.lazy_select(arg(0)?, arg(1)?, arg(2)?, span),
            "And" => self.logic(true, arg(0)?, arg(1)?),
            "Or" => self.logic(false, arg(0)?, arg(1)?),
            "Not" | "logical_not" => self.unary_expr(UnaryOp::Not, arg(0)?),
            "isnan" | "isinf" | "isfinite" => {
                let operand = self.expr(arg(0)?)?;
                let val = self.number(operand, span)?;
                let v = arith::classify(&mut self.b, name, val)
                    .ok_or_else(|| unsupported(span, format!("`{path}` is not known")))?;
                Ok(Operand::Val(Val {
                    v,
                    dtype: DType::Bool,
                }))
            }
            "likely" | "ceildiv" if name == "likely" => self.expr(arg(0)?),
            "ceildiv" => self.ceil_div(arg(0)?, arg(1)?, span),
            "infinity" => self.special(f64::INFINITY, arg(0)?),
            "nan" => self.special(f64::NAN, arg(0)?),
            "max_value" | "min_value" => self.limit(name == "max_value", arg(0)?),
            "sizeof" | "address_of" => self.address_of(arg(0)?, span),
            "call_extern" | "call_pure_extern" => self.call_extern(args, span),
            "call_llvm_pure_intrin" | "call_llvm_intrin" => self.call_llvm(args, span),
            _ => Err(unsupported(span, format!("`{path}` cannot be compiled"))),
        }
    }

    /// `T.float32(0.5)`, `T.float32("inf")`, and `T.int64(x)` as a conversion.
    fn literal(&mut self, dtype: DType, args: &[Arg], span: Option<Span>) -> Res<Operand> {
        let arg = args
            .first()
            .map(|arg| &arg.value)
            .ok_or_else(|| unsupported(span, format!("`T.{dtype}()` has no value here")))?;
        let operand = match &arg.kind {
            ExprKind::Str(text) if dtype == DType::Str => {
                let v = self.string(text)?;
                return Ok(Operand::Val(Val { v, dtype }));
            }
            ExprKind::Str(text) => Operand::Float(
                cast::parse_float(text)
                    .ok_or_else(|| unsupported(span, format!("`{text}` is not a number")))?,
            ),
            _ => self.expr(arg)?,
        };
        let v = self.convert(operand, dtype, span)?;
        Ok(Operand::Val(Val { v, dtype }))
    }

    /// The dtype of an argument that is one: `"float32"` or `T.float32`.
    pub fn dtype_of(&self, expr: &Expr) -> Res<DType> {
        let text = match &expr.kind {
            ExprKind::Str(text) => Some(text.clone()),
            _ => expr
                .as_path()
                .map(|path| path.strip_prefix("T.").unwrap_or(&path).to_owned()),
        };
        text.and_then(|text| DType::from_name(&text))
            .ok_or_else(|| unsupported(expr.span, "this is not an element type"))
    }

    /// `T.Cast("float32", x)` and `T.cast(x, "float32")`.
    fn dtype_and_value<'e>(&self, first: &'e Expr, second: &'e Expr) -> Res<(DType, &'e Expr)> {
        if matches!(second.kind, ExprKind::Str(_)) && !matches!(first.kind, ExprKind::Str(_)) {
            return Ok((self.dtype_of(second)?, first));
        }
        Ok((self.dtype_of(first)?, second))
    }

    fn function(&mut self, func: Real, arg: &Expr, span: Option<Span>) -> Res<Operand> {
        let operand = self.expr(arg)?;
        let val = match operand {
            Operand::Int(value) if !func.is_rounding() => {
                let v = self.convert(Operand::Float(value as f64), DType::F32, span)?;
                Val {
                    v,
                    dtype: DType::F32,
                }
            }
            Operand::Int(_) | Operand::Float(_) | Operand::Val(_) => self.settle(operand, span)?,
        };
        if !val.dtype.is_float() {
            if func.is_rounding() {
                return Ok(Operand::Val(val));
            }
            return Err(unsupported(
                span,
                format!("this function has no `{}` form", val.dtype),
            ));
        }
        let fma = self.fma();
        Ok(Operand::Val(Val {
            v: arith::real(&mut self.b, fma, func, val),
            dtype: val.dtype,
        }))
    }

    fn ceil_div(&mut self, lhs: &Expr, rhs: &Expr, span: Option<Span>) -> Res<Operand> {
        let a = self.expr(lhs)?;
        let c = self.expr(rhs)?;
        let sum = self.arith_operands(Arith::Add, a, c, span)?;
        let less = self.arith_operands(Arith::Sub, sum, Operand::Int(1), span)?;
        self.arith_operands(Arith::FloorDiv, less, c, span)
    }

    fn special(&mut self, value: f64, dtype: &Expr) -> Res<Operand> {
        let dtype_value = self.dtype_of(dtype)?;
        let v = self.convert(Operand::Float(value), dtype_value, dtype.span)?;
        Ok(Operand::Val(Val {
            v,
            dtype: dtype_value,
        }))
    }

    fn limit(&mut self, is_max: bool, arg: &Expr) -> Res<Operand> {
        let dtype = self.dtype_of(arg)?;
        let operand = match dtype {
            DType::Bool => Operand::Int(i128::from(is_max)),
            _ if dtype.is_int() => {
                let bits = dtype.bits() - u32::from(dtype.is_signed());
                let max = (1i128 << bits) - 1;
                let min = if dtype.is_signed() { -max - 1 } else { 0 };
                Operand::Int(if is_max { max } else { min })
            }
            _ => {
                let max = match dtype {
                    DType::F64 => f64::MAX,
                    DType::F16 => 65504.0,
                    DType::BF16 => f64::from(half::bf16::MAX.to_f32()),
                    _ => f64::from(f32::MAX),
                };
                Operand::Float(if is_max { max } else { -max })
            }
        };
        let v = self.convert(operand, dtype, arg.span)?;
        Ok(Operand::Val(Val { v, dtype }))
    }

    fn address_of(&mut self, arg: &Expr, span: Option<Span>) -> Res<Operand> {
        let ExprKind::Index { value, index } = &arg.kind else {
            return Err(unsupported(
                span,
                "only elements of buffers have an address",
            ));
        };
        let name = value
            .as_name()
            .ok_or_else(|| unsupported(span, "only elements of buffers have an address"))?;
        let (address, offset, _) = self.address(name, index, span)?;
        let v = self.b.ins().iadd_imm_s(address, i64::from(offset));
        Ok(Operand::Val(Val {
            v,
            dtype: DType::U64,
        }))
    }
}

/// The operator of a functional spelling: `T.Add(a, b)`, `T.floordiv(a, b)`.
fn arith_named(name: &str) -> Option<Arith> {
    // tidy: table
    Some(match name {
        "Add" => Arith::Add,
        "Sub" => Arith::Sub,
        "Mul" => Arith::Mul,
        "Div" | "truncdiv" => Arith::Div,
        "Mod" | "truncmod" | "fmod" => Arith::TruncMod,
        "FloorDiv" | "floordiv" => Arith::FloorDiv,
        "FloorMod" | "floormod" => Arith::FloorMod,
        "Min" | "min" => Arith::Min,
        "Max" | "max" => Arith::Max,
        "pow" | "power" => Arith::Pow,
        "bitwise_and" => Arith::And,
        "bitwise_or" => Arith::Or,
        "bitwise_xor" => Arith::Xor,
        "shift_left" => Arith::Shl,
        "shift_right" => Arith::Shr,
        "atan2" => Arith::Atan2,
        "copysign" => Arith::CopySign,
        _ => return None,
    })
}

fn compare_named(name: &str) -> Option<Compare> {
    Some(match name {
        "EQ" => Compare::Eq,
        "NE" => Compare::Ne,
        "LT" => Compare::Lt,
        "LE" => Compare::Le,
        "GT" => Compare::Gt,
        "GE" => Compare::Ge,
        _ => return None,
    })
}

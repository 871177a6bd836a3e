//! Conversions between dtypes, and between registers and memory.
//!
//! In a register an integer has its own width (sub-byte integers and `bool` take eight bits), float64 and float32 are
//! themselves, and every narrower float is a float32 that holds one of its values. Cranelift has no arithmetic of
//! narrow floats, so their encodings are made and read here by integer operations, rounding to nearest even.
//! Conversions follow C where C defines them: integers wrap, floats truncate towards zero (saturating, NaN gives 0,
//! where C says nothing), anything but zero is `True`. Floats beyond a narrow format's range become infinite, or NaN
//! where it has no infinity; `float4_e2m1fn`, which has neither, saturates.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64, I128};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::FunctionBuilder;
use irc_syntax::DType;

type Fb<'b> = FunctionBuilder<'b>;

/// Whether values of a dtype are moved and compared only: text and complex numbers.
pub fn is_opaque(dtype: DType) -> bool {
    matches!(dtype, DType::C64 | DType::C128 | DType::Str)
}

/// The register type of a dtype.
pub fn register_type(dtype: DType) -> Option<Type> {
    if is_opaque(dtype) {
        return Some(if dtype.bits() == 64 { I64 } else { I128 });
    }
    Some(match (dtype.is_float(), dtype.bits()) {
        (true, 64) => F64,
        (true, _) => F32,
        (false, 64) => I64,
        (false, 32) => I32,
        (false, 16) => I16,
        (false, _) => I8,
    })
}

/// Whether values of a dtype are kept as float32 and rounded.
pub fn is_narrow_float(dtype: DType) -> bool {
    dtype.is_float() && dtype != DType::F32 && dtype != DType::F64
}

/// The layout of a narrow float.
struct Format {
    exp_bits: u32,
    man_bits: u32,
    bias: i32,
    /// What lies beyond the finite numbers.
    top: Top,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Top {
    /// The largest exponent means infinity and NaN.
    Ieee,
    /// All ones mean NaN.
    Nan,
    /// The pattern of minus zero means NaN.
    NegZeroNan,
    /// Every pattern is a number.
    Finite,
}

fn format_of(dtype: DType) -> Option<Format> {
    let row = |exp_bits, man_bits, bias, top| {
        Some(Format {
            exp_bits,
            man_bits,
            bias,
            top,
        })
    };
    match dtype {
        DType::F16 => row(5, 10, 15, Top::Ieee),
        DType::F8E5M2 => row(5, 2, 15, Top::Ieee),
        DType::F8E4M3FN => row(4, 3, 7, Top::Nan),
        DType::F8E4M3FNUZ => row(4, 3, 8, Top::NegZeroNan),
        DType::F8E5M2FNUZ => row(5, 2, 16, Top::NegZeroNan),
        DType::F4E2M1 => row(2, 1, 1, Top::Finite),
        _ => None,
    }
}

impl Format {
    fn sign_bit(&self) -> i64 {
        1 << (self.exp_bits + self.man_bits)
    }

    /// The encoding of the largest finite number.
    fn max_code(&self) -> i64 {
        let all = self.sign_bit() - 1;
        match self.top {
            Top::Ieee => all - (1 << self.man_bits),
            Top::Nan => all - 1,
            Top::NegZeroNan | Top::Finite => all,
        }
    }

    fn nan_code(&self) -> i64 {
        match self.top {
            Top::Ieee => self.max_code() + 1 + (1 << (self.man_bits - 1)),
            Top::Nan => self.sign_bit() - 1,
            Top::NegZeroNan => self.sign_bit(),
            Top::Finite => self.max_code(),
        }
    }

    /// What a number beyond the range becomes.
    fn overflow_code(&self) -> i64 {
        match self.top {
            Top::Ieee | Top::Finite => self.max_code() + i64::from(self.top == Top::Ieee),
            Top::Nan | Top::NegZeroNan => self.nan_code(),
        }
    }
}

fn bits_of(b: &mut Fb<'_>, x: Value) -> Value {
    b.ins().bitcast(I32, MemFlagsData::new(), x)
}

fn float_of(b: &mut Fb<'_>, bits: Value) -> Value {
    b.ins().bitcast(F32, MemFlagsData::new(), bits)
}

fn i32_const(b: &mut Fb<'_>, value: i64) -> Value {
    b.ins().iconst(I32, value & 0xffff_ffff)
}

/// The encoding of a float32 in a narrow format, as an i32.
fn encode(b: &mut Fb<'_>, x: Value, dtype: DType) -> Value {
    match dtype {
        DType::BF16 => encode_bf16(b, x),
        DType::F8E8M0 => encode_e8m0(b, x),
        _ => match format_of(dtype) {
            Some(format) => encode_small(b, x, &format),
            None => bits_of(b, x),
        },
    }
}

fn encode_bf16(b: &mut Fb<'_>, x: Value) -> Value {
    let bits = bits_of(b, x);
    let upper = b.ins().ushr_imm_u(bits, 16);
    let odd = b.ins().band_imm_u(upper, 1);
    let half = b.ins().iadd_imm_u(odd, 0x7fff);
    let sum = b.ins().iadd(bits, half);
    let rounded = b.ins().ushr_imm_u(sum, 16);
    let quiet = b.ins().bor_imm_u(upper, 0x40);
    let is_nan = b.ins().fcmp(FloatCC::Unordered, x, x);
    b.ins().select(is_nan, quiet, rounded)
}

/// Only powers of two: the exponent, rounded up from a mantissa above one half.
fn encode_e8m0(b: &mut Fb<'_>, x: Value) -> Value {
    let bits = bits_of(b, x);
    let half = i32_const(b, 0x0040_0000);
    let sum = b.ins().iadd(bits, half);
    let exponent = b.ins().ushr_imm_u(sum, 23);
    let zero = b.ins().f32const(0.0);
    let good = b.ins().fcmp(FloatCC::GreaterThanOrEqual, x, zero);
    let nan = i32_const(b, 255);
    b.ins().select(good, exponent, nan)
}

fn encode_small(b: &mut Fb<'_>, x: Value, format: &Format) -> Value {
    let bits = bits_of(b, x);
    let shift = 23 - i64::from(format.man_bits);
    let sign = b
        .ins()
        .ushr_imm_u(bits, 31 - i64::from(format.exp_bits + format.man_bits));
    let sign = b.ins().band_imm_u(sign, format.sign_bit());
    let abs = b.ins().band_imm_u(bits, 0x7fff_ffff);
    // Normal numbers: move the exponent, add half a unit less one, and one more when the kept part is odd.
    let rebias = i64::from(127 - format.bias) << 23;
    let kept = b.ins().ushr_imm_u(abs, shift);
    let odd = b.ins().band_imm_u(kept, 1);
    let offset = i32_const(b, ((1i64 << (shift - 1)) - 1) - rebias);
    let sum = b.ins().iadd(abs, offset);
    let sum = b.ins().iadd(sum, odd);
    let normal = b.ins().ushr_imm_u(sum, shift);
    // Subnormal numbers: adding this power of two leaves the rounded number in the low bits.
    let magic_bits = i64::from(127 - format.bias + 1 + 23 - format.man_bits as i32) << 23;
    let magic = b.ins().f32const(f32::from_bits(magic_bits as u32));
    let abs_float = float_of(b, abs);
    let shifted = b.ins().fadd(abs_float, magic);
    let shifted = bits_of(b, shifted);
    let magic = i32_const(b, magic_bits);
    let subnormal = b.ins().isub(shifted, magic);
    let first_normal = rebias + (1 << 23);
    let is_small = b
        .ins()
        .icmp_imm_u(IntCC::UnsignedLessThan, abs, first_normal);
    let code = b.ins().select(is_small, subnormal, normal);
    let top = i32_const(b, format.max_code());
    let over = b.ins().icmp(IntCC::UnsignedGreaterThan, code, top);
    let limit = i32_const(b, format.overflow_code());
    let code = b.ins().select(over, limit, code);
    let is_nan = b
        .ins()
        .icmp_imm_u(IntCC::UnsignedGreaterThan, abs, 0x7f80_0000);
    let nan = i32_const(b, format.nan_code());
    let code = b.ins().select(is_nan, nan, code);
    if format.top != Top::NegZeroNan {
        return b.ins().bor(code, sign);
    }
    // There is one zero only, and the sign of NaN is its encoding.
    let signed = b.ins().bor(code, sign);
    let is_zero = b.ins().icmp_imm_u(IntCC::Equal, code, 0);
    b.ins().select(is_zero, code, signed)
}

/// The float32 of an encoding in an i32.
fn decode(b: &mut Fb<'_>, code: Value, dtype: DType) -> Value {
    match dtype {
        DType::BF16 => {
            let bits = b.ins().ishl_imm_u(code, 16);
            float_of(b, bits)
        }
        DType::F8E8M0 => {
            let bits = b.ins().ishl_imm_u(code, 23);
            // 2^-127 is subnormal as a float32, 255 is NaN.
            let least = i32_const(b, 0x0040_0000);
            let bits = {
                let is_zero = b.ins().icmp_imm_u(IntCC::Equal, code, 0);
                b.ins().select(is_zero, least, bits)
            };
            let nan = i32_const(b, 0x7fc0_0000);
            let is_nan = b.ins().icmp_imm_u(IntCC::Equal, code, 255);
            let bits = b.ins().select(is_nan, nan, bits);
            float_of(b, bits)
        }
        _ => match format_of(dtype) {
            Some(format) => decode_small(b, code, &format),
            None => float_of(b, code),
        },
    }
}

fn decode_small(b: &mut Fb<'_>, code: Value, format: &Format) -> Value {
    let width = format.exp_bits + format.man_bits;
    let abs = b.ins().band_imm_u(code, format.sign_bit() - 1);
    let bits = b.ins().ishl_imm_u(abs, 23 - i64::from(format.man_bits));
    // A product with a power of two moves the exponent, of subnormal numbers too.
    let scale = b.ins().f32const(2f32.powi(127 - format.bias));
    let small = float_of(b, bits);
    let value = b.ins().fmul(small, scale);
    let value_bits = bits_of(b, value);
    let value_bits = match format.top {
        Top::Ieee => {
            let special = b.ins().bor_imm_u(value_bits, 0x7f80_0000);
            let is_special = b
                .ins()
                .icmp_imm_u(IntCC::UnsignedGreaterThan, abs, format.max_code());
            b.ins().select(is_special, special, value_bits)
        }
        Top::Nan | Top::NegZeroNan => {
            let nan = i32_const(b, 0x7fc0_0000);
            let subject = if format.top == Top::Nan { abs } else { code };
            let is_nan = b.ins().icmp_imm_u(IntCC::Equal, subject, format.nan_code());
            b.ins().select(is_nan, nan, value_bits)
        }
        Top::Finite => value_bits,
    };
    let sign = b.ins().band_imm_u(code, format.sign_bit());
    let sign = b.ins().ishl_imm_u(sign, 31 - i64::from(width));
    let bits = b.ins().bor(value_bits, sign);
    float_of(b, bits)
}

/// Rounds a float32 to the nearest value of a narrow float dtype; other values stay.
pub fn round_to(b: &mut Fb<'_>, x: Value, dtype: DType) -> Value {
    if !is_narrow_float(dtype) {
        return x;
    }
    let code = encode(b, x, dtype);
    decode(b, code, dtype)
}

/// Brings an integer register into the range of a sub-byte dtype; other values stay.
pub fn wrap_sub_byte(b: &mut Fb<'_>, x: Value, dtype: DType) -> Value {
    let bits = i64::from(dtype.bits());
    if bits >= 8 || !dtype.is_int() {
        return x;
    }
    if dtype.is_unsigned() {
        return b.ins().band_imm_u(x, (1 << bits) - 1);
    }
    let high = b.ins().ishl_imm_u(x, 8 - bits);
    b.ins().sshr_imm_u(high, 8 - bits)
}

/// The memory form of a register of a dtype: an integer of its size, or the float itself.
pub fn to_memory(b: &mut Fb<'_>, x: Value, dtype: DType) -> Value {
    if !is_narrow_float(dtype) {
        return x;
    }
    let code = encode(b, x, dtype);
    b.ins()
        .ireduce(if dtype.bytes() == 1 { I8 } else { I16 }, code)
}

/// The register of a value as it lies in memory.
pub fn from_memory(b: &mut Fb<'_>, raw: Value, dtype: DType) -> Value {
    if !is_narrow_float(dtype) {
        return raw;
    }
    let code = b.ins().uextend(I32, raw);
    decode(b, code, dtype)
}

/// The type that is loaded and stored for a dtype.
pub fn memory_type(dtype: DType) -> Option<Type> {
    if !is_narrow_float(dtype) {
        return register_type(dtype);
    }
    Some(if dtype.bytes() == 1 { I8 } else { I16 })
}

/// Converts a register from one dtype to another.
pub fn cast(b: &mut Fb<'_>, x: Value, from: DType, to: DType) -> Value {
    if from == to {
        return x;
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => cast_float(b, x, from, to),
        (true, false) => cast_float_to_int(b, x, to),
        (false, true) => cast_int_to_float(b, x, from, to),
        (false, false) => cast_int(b, x, from, to),
    }
}

fn cast_float(b: &mut Fb<'_>, x: Value, from: DType, to: DType) -> Value {
    if to == DType::F64 {
        return b.ins().fpromote(F64, x);
    }
    let single = if from == DType::F64 {
        demote_for(b, x, to)
    } else {
        x
    };
    // A wider format holds every value of the narrower one.
    let exact = matches!(
        (from, to),
        (
            DType::F8E4M3FN | DType::F8E5M2 | DType::F8E4M3FNUZ | DType::F4E2M1,
            DType::F16 | DType::BF16
        )
    );
    if exact {
        single
    } else {
        round_to(b, single, to)
    }
}

/// Narrows a float64. On the way to a narrower format the result is rounded to odd, so that the second rounding
/// gives what one rounding would.
fn demote_for(b: &mut Fb<'_>, x: Value, to: DType) -> Value {
    let single = b.ins().fdemote(F32, x);
    if to == DType::F32 {
        return single;
    }
    let back = b.ins().fpromote(F64, single);
    let inexact = b.ins().fcmp(FloatCC::OrderedNotEqual, back, x);
    let (abs_back, abs_x) = (b.ins().fabs(back), b.ins().fabs(x));
    let too_big = b.ins().fcmp(FloatCC::GreaterThan, abs_back, abs_x);
    let bits = bits_of(b, single);
    let down = b.ins().iadd_imm_s(bits, -1);
    let truncated = b.ins().select(too_big, down, bits);
    let odd = b.ins().bor_imm_u(truncated, 1);
    let bits = b.ins().select(inexact, odd, bits);
    float_of(b, bits)
}

fn cast_float_to_int(b: &mut Fb<'_>, x: Value, to: DType) -> Value {
    if to == DType::Bool {
        let zero = zero_like(b, x);
        return b.ins().fcmp(FloatCC::NotEqual, x, zero);
    }
    // Through 64 bits, and 32 where they hold the target: what does not fit wraps as integers do.
    if to == DType::U64 {
        return b.ins().fcvt_to_uint_sat(I64, x);
    }
    let wide = if to == DType::I32 { I32 } else { I64 };
    let int = b.ins().fcvt_to_sint_sat(wide, x);
    let from = if wide == I32 { DType::I32 } else { DType::I64 };
    cast_int(b, int, from, to)
}

fn cast_int_to_float(b: &mut Fb<'_>, x: Value, from: DType, to: DType) -> Value {
    let signed = from.is_signed();
    let wide = match from.bits() {
        64 => x,
        32 => {
            if signed {
                x
            } else {
                b.ins().uextend(I64, x)
            }
        }
        _ => {
            if signed {
                b.ins().sextend(I32, x)
            } else {
                b.ins().uextend(I32, x)
            }
        }
    };
    if to == DType::F64 || (is_narrow_float(to) && from.bits() > 16) {
        let double = if from == DType::U64 {
            b.ins().fcvt_from_uint(F64, wide)
        } else {
            b.ins().fcvt_from_sint(F64, wide)
        };
        return if to == DType::F64 {
            double
        } else {
            cast_float(b, double, DType::F64, to)
        };
    }
    let single = if from == DType::U64 {
        b.ins().fcvt_from_uint(F32, wide)
    } else {
        b.ins().fcvt_from_sint(F32, wide)
    };
    round_to(b, single, to)
}

fn cast_int(b: &mut Fb<'_>, x: Value, from: DType, to: DType) -> Value {
    if to == DType::Bool {
        return b.ins().icmp_imm_s(IntCC::NotEqual, x, 0);
    }
    let (Some(source), Some(target)) = (register_type(from), register_type(to)) else {
        return x;
    };
    let resized = if target.bits() < source.bits() {
        b.ins().ireduce(target, x)
    } else if target.bits() == source.bits() {
        x
    } else if from.is_signed() {
        b.ins().sextend(target, x)
    } else {
        b.ins().uextend(target, x)
    };
    if to.bits() < 8 {
        wrap_sub_byte(b, resized, to)
    } else {
        resized
    }
}

/// Zero of a float register's type.
pub fn zero_like(b: &mut Fb<'_>, x: Value) -> Value {
    if b.func.dfg.value_type(x) == F64 {
        b.ins().f64const(0.0)
    } else {
        b.ins().f32const(0.0)
    }
}

/// The register of a number written in the text; floats are rounded to the dtype once.
pub fn constant_int(b: &mut Fb<'_>, value: i128, dtype: DType) -> Option<Value> {
    if dtype.is_float() {
        return constant_float(b, value as f64, dtype);
    }
    if dtype == DType::Bool {
        return Some(b.ins().iconst(I8, i64::from(value != 0)));
    }
    let ty = register_type(dtype).filter(|_| !is_opaque(dtype))?;
    let bits = value as u64;
    let bits = match ty.bits() {
        64 => bits,
        width => bits & ((1 << width) - 1),
    };
    let res = b.ins().iconst(ty, bits as i64);
    Some(wrap_sub_byte(b, res, dtype))
}

/// As [`constant_int`].
pub fn constant_float(b: &mut Fb<'_>, value: f64, dtype: DType) -> Option<Value> {
    match dtype {
        DType::F64 => Some(b.ins().f64const(value)),
        DType::F32 => Some(b.ins().f32const(value as f32)),
        DType::F16 => Some(b.ins().f32const(half::f16::from_f64(value).to_f32())),
        DType::BF16 => Some(b.ins().f32const(half::bf16::from_f64(value).to_f32())),
        _ if is_narrow_float(dtype) => {
            let single = b.ins().f32const(value as f32);
            Some(round_to(b, single, dtype))
        }
        DType::Bool => Some(b.ins().iconst(I8, i64::from(value != 0.0))),
        _ if dtype.is_int() => constant_int(b, value as i128, dtype),
        _ => None,
    }
}

/// The number that a quoted literal stands for.
pub fn parse_float(text: &str) -> Option<f64> {
    match text {
        "inf" | "+inf" | "infinity" => Some(f64::INFINITY),
        "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
        "nan" => Some(f64::NAN),
        "-nan" => Some(-f64::NAN),
        _ => text.parse().ok(),
    }
}

//! Floats of 4 and 8 bits: decoding through a table of 256, encoding by rounding to nearest even.
//!
//! Overflow gives infinity where the format has one (`float8_e5m2`), else NaN where it has that, else the largest
//! value. Saturating conversions clamp before they come here.

use irc_syntax::DType;

/// The parameters of a small binary float.
#[derive(Clone, Copy)]
struct Format {
    /// Bits of the stored mantissa.
    mantissa: u32,
    /// Exponent bias.
    bias: i32,
    /// The largest finite code without its sign.
    max: u8,
    /// What overflow gives, without a sign; `None` stays at `max`.
    overflow: Option<u8>,
    /// The code of NaN.
    nan: u8,
    /// The sign bit; 0 for a format without negative numbers.
    sign: u8,
    /// Whether there is a negative zero.
    has_neg_zero: bool,
}

fn format(dtype: DType) -> Format {
    let ieee = Format {
        mantissa: 2,
        bias: 15,
        max: 0x7b,
        overflow: Some(0x7c),
        nan: 0x7f,
        sign: 0x80,
        has_neg_zero: true,
    };
    match dtype {
        DType::F8E4M3FN => Format {
            mantissa: 3,
            bias: 7,
            max: 0x7e,
            overflow: Some(0x7f),
            ..ieee
        },
        DType::F8E4M3FNUZ => Format {
            mantissa: 3,
            bias: 8,
            max: 0x7f,
            overflow: Some(0x80),
            nan: 0x80,
            has_neg_zero: false,
            ..ieee
        },
        DType::F8E5M2FNUZ => Format {
            bias: 16,
            max: 0x7f,
            overflow: Some(0x80),
            nan: 0x80,
            has_neg_zero: false,
            ..ieee
        },
        // NaN has no code of its own; it becomes the largest value.
        DType::F4E2M1 => Format {
            mantissa: 1,
            bias: 1,
            max: 0x7,
            overflow: None,
            nan: 0x7,
            sign: 0x8,
            ..ieee
        },
        _ => ieee,
    }
}

/// The value of each of the 256 bytes, read as `dtype`; only the low bits count for `float4_e2m1fn`.
pub(super) fn decode_table(dtype: DType) -> [f64; 256] {
    std::array::from_fn(|code| decode(dtype, code as u8))
}

fn decode(dtype: DType, code: u8) -> f64 {
    if dtype == DType::F8E8M0 {
        return if code == 0xff {
            f64::NAN
        } else {
            2f64.powi(i32::from(code) - 127)
        };
    }
    let format = format(dtype);
    let code = if dtype == DType::F4E2M1 {
        code & 0xf
    } else {
        code
    };
    let magnitude = code & (format.sign - 1);
    if dtype != DType::F4E2M1 {
        let is_nan = if format.has_neg_zero {
            magnitude > format.overflow.unwrap_or(u8::MAX) || magnitude == format.nan
        } else {
            code == format.nan
        };
        if is_nan {
            return f64::NAN;
        }
    }
    let sign = if code & format.sign != 0 { -1.0 } else { 1.0 };
    if magnitude > format.max {
        return sign * f64::INFINITY;
    }
    let exponent = i32::from(magnitude >> format.mantissa);
    let fraction = f64::from(magnitude & ((1 << format.mantissa) - 1));
    let unit = 2f64.powi(1 - format.bias - format.mantissa as i32);
    let hidden = f64::from(1u32 << format.mantissa);
    if exponent == 0 {
        sign * fraction * unit
    } else {
        sign * (fraction + hidden) * unit * 2f64.powi(exponent - 1)
    }
}

/// The code nearest to `value`, ties to even.
pub(super) fn encode(dtype: DType, value: f64) -> u8 {
    if dtype == DType::F8E8M0 {
        return encode_e8m0(value);
    }
    let format = format(dtype);
    if value.is_nan() {
        return format.nan;
    }
    let sign = if value.is_sign_negative() {
        format.sign
    } else {
        0
    };
    let magnitude = value.abs();
    let overflow = match format.overflow {
        // The single NaN of the formats without negative zero has its own sign bit.
        Some(code) if !format.has_neg_zero => code,
        Some(code) => code | sign,
        None => format.max | sign,
    };
    if magnitude.is_infinite() {
        return overflow;
    }
    let min_exponent = 1 - format.bias;
    let exponent = binary_exponent(magnitude).max(min_exponent);
    let quantum = 2f64.powi(exponent - format.mantissa as i32);
    // The quotient is exact, so there is one rounding; a carry into the exponent field is right by itself.
    let steps = (magnitude / quantum).round_ties_even() as i64;
    let code = (i64::from(exponent - min_exponent) << format.mantissa) + steps;
    if code > i64::from(format.max) {
        return overflow;
    }
    if code == 0 && !format.has_neg_zero {
        0
    } else {
        code as u8 | sign
    }
}

/// A power of two, the nearest in value; NaN for what has none.
fn encode_e8m0(value: f64) -> u8 {
    if value.is_nan() || value < 0.0 || value.is_infinite() {
        return 0xff;
    }
    let exponent = binary_exponent(value);
    let round_up = value >= 1.5 * 2f64.powi(exponent);
    (exponent + i32::from(round_up) + 127).clamp(0, 0xff) as u8
}

/// `floor(log2(value))` of a number that is not negative; very small for zero.
fn binary_exponent(value: f64) -> i32 {
    // Subnormal f64 are far below every format here.
    ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

//! Elementary functions of f32 lanes, as vector IR.
//!
//! Each reduces its argument to an interval around 0 and evaluates a polynomial there. The polynomials are minimax fits
//! of what is written beside them, in the relative error of the result, with coefficients rounded to f32 one by one
//! from the lowest. Errors are below 2 units in the last place (4 for `pow`), also for denormal arguments and results;
//! NaN, infinities and signed zeros come out as in IEEE 754. `sin` and `cos` keep that up to |x| = 10⁵ and lose
//! accuracy beyond. The tests (`x64/tests_math.rs`) sweep each against f64.

use super::vir::{BinOp, Builder, CmpOp, Reg, Ty, UnOp};

const SIGN: u32 = 0x8000_0000;

/// `|x|`
pub fn abs(b: &mut Builder, x: Reg) -> Reg {
    let mask = b.constant(Ty::F32, !SIGN);
    b.bin(BinOp::And, x, mask)
}

fn negate(b: &mut Builder, x: Reg) -> Reg {
    let sign = b.constant(Ty::F32, SIGN);
    b.bin(BinOp::Xor, x, sign)
}

/// The size of `x` (not negative) with the sign of `sign`.
fn copy_sign(b: &mut Builder, x: Reg, sign: Reg) -> Reg {
    let mask = b.constant(Ty::F32, SIGN);
    let sign = b.bin(BinOp::And, sign, mask);
    b.bin(BinOp::Or, x, sign)
}

/// The polynomial with coefficients from the lowest.
fn horner(b: &mut Builder, x: Reg, coefficients: &[f32]) -> Reg {
    let mut res = None;
    for &coefficient in coefficients.iter().rev() {
        let coefficient = b.f32(coefficient);
        res = Some(match res {
            None => coefficient,
            Some(sum) => b.fma(sum, x, coefficient),
        });
    }
    res.unwrap_or_else(|| b.f32(0.0))
}

/// The same polynomial by pairs of coefficients, given `x²`: half the depth, one multiplication more.
fn by_pairs(b: &mut Builder, x: Reg, square: Reg, coefficients: &[f32]) -> Reg {
    let mut res: Option<Reg> = None;
    for pair in coefficients.chunks(2).rev() {
        let low = b.f32(pair[0]);
        let part = match pair.get(1) {
            Some(&high) => {
                let high = b.f32(high);
                b.fma(high, x, low)
            }
            None => low,
        };
        res = Some(match res {
            None => part,
            Some(sum) => b.fma(sum, square, part),
        });
    }
    res.unwrap_or_else(|| b.f32(0.0))
}

/// `min(x, most)`, NaN for NaN.
fn at_most(b: &mut Builder, x: Reg, most: f32) -> Reg {
    let most = b.f32(most);
    b.bin(BinOp::Min, most, x)
}

/// `max(x, least)`, NaN for NaN.
fn at_least(b: &mut Builder, x: Reg, least: f32) -> Reg {
    let least = b.f32(least);
    b.bin(BinOp::Max, least, x)
}

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; the first has few bits, so that its product with an exponent is exact.
const LN2_HIGH: f32 = 0.693_145_75;
const LN2_LOW: f32 = 1.428_606_8e-6;

/// `(exp(r) - 1 - r) / r²` for |r| ≤ ln 2 / 2.
const EXP: [f32; 5] = [
    0.499_999_94,
    0.166_665_21,
    0.041_668_266,
    0.008_368_677,
    0.001_382_073_4,
];

/// Added to a number between -2²² and 2²² it leaves the nearest integer in the low bits.
const TO_INTEGER: f32 = 12_582_912.0;

/// The integer n nearest to `x scale`: an i32 with n + `bias` in its low bits and others above them, and n as f32.
fn nearest(b: &mut Builder, x: Reg, scale: f32, bias: i16) -> (Reg, Reg) {
    let magic = b.f32(TO_INTEGER + f32::from(bias));
    let sum = match scale {
        1.0 => b.bin(BinOp::Add, x, magic),
        _ => {
            let scale = b.f32(scale);
            b.fma(x, scale, magic)
        }
    };
    let n = b.bin(BinOp::Sub, sum, magic);
    (b.cast(Ty::I32, sum), n)
}

/// `exp(x) = 2ⁿ (1 + q)`: n + `bias` in the low bits of an i32, and q. `low` is added to the reduced argument.
fn exp_parts(b: &mut Builder, x: Reg, low: Option<Reg>, bias: i16) -> (Reg, Reg) {
    let (bits, n) = nearest(b, x, LOG2_E, bias);
    let (high, rest) = (b.f32(LN2_HIGH), b.f32(LN2_LOW));
    let r = b.fnma(n, high, x);
    let mut r = b.fnma(n, rest, r);
    if let Some(low) = low {
        r = b.bin(BinOp::Add, r, low);
    }
    let square = b.bin(BinOp::Mul, r, r);
    let p = by_pairs(b, r, square, &EXP);
    (bits, b.fma(square, p, r))
}

/// `2ⁿ` for an exponent of a normal number, given n + 127 in the low bits of an i32.
fn power_of_two(b: &mut Builder, biased: Reg) -> Reg {
    let by = b.i32(23);
    let bits = b.bin(BinOp::Shl, biased, by);
    b.cast(Ty::F32, bits)
}

/// The bias of n for `scale`.
const TWICE: i16 = 2 * 127;

/// `2ⁿ (1 + q)` where the result may be infinite or denormal, given n + 254 in the low bits of an i32: the scaling
/// goes in two steps, by the halves of that sum.
fn scale(b: &mut Builder, biased: Reg, q: Reg) -> Reg {
    let (by, half_by, exponents) = (b.i32(23), b.i32(22), b.constant(Ty::I32, 0xff80_0000));
    let half = b.bin(BinOp::Shl, biased, half_by);
    let first = b.bin(BinOp::And, half, exponents);
    let both = b.bin(BinOp::Shl, biased, by);
    let second = b.bin(BinOp::Sub, both, first);
    let (first, second) = (b.cast(Ty::F32, first), b.cast(Ty::F32, second));
    let res = b.fma(q, first, first);
    b.bin(BinOp::Mul, res, second)
}

/// `exp(x)` where neither argument nor result leaves the normal numbers.
fn exp_inside(b: &mut Builder, x: Reg) -> Reg {
    let (biased, q) = exp_parts(b, x, None, 127);
    let scale = power_of_two(b, biased);
    b.fma(q, scale, scale)
}

/// `exp(x)`
pub fn exp(b: &mut Builder, x: Reg) -> Reg {
    // Beyond these the result is 0 or infinite anyway.
    let x = at_most(b, x, 89.0);
    let x = at_least(b, x, -104.5);
    let (biased, q) = exp_parts(b, x, None, TWICE);
    scale(b, biased, q)
}

/// `1 / (1 + exp(-x))`
pub fn sigmoid(b: &mut Builder, x: Reg) -> Reg {
    // Below the result is 0, above it is 1 anyway.
    let x = at_most(b, x, 45.0);
    let x = at_least(b, x, -104.5);
    // exp(-x) = 2ⁿ (1 - q). With 2⁻⁶⁰ above and below no power of two leaves the normal numbers, so that only the
    // quotient does where it has to.
    let (biased, n) = nearest(b, x, -LOG2_E, 127 - 60);
    let (high, rest) = (b.f32(LN2_HIGH), b.f32(LN2_LOW));
    let r = b.fma(n, high, x);
    let r = b.fma(n, rest, r);
    let square = b.bin(BinOp::Mul, r, r);
    let mut coefficients = EXP;
    coefficients
        .iter_mut()
        .skip(1)
        .step_by(2)
        .for_each(|odd| *odd = -*odd);
    let p = by_pairs(b, r, square, &coefficients);
    let q = b.fnma(square, p, r);
    let power = power_of_two(b, biased);
    let one = b.f32(f32::from_bits((127 - 60) << 23));
    // 2⁻⁶⁰ + 2ⁿ⁻⁶⁰ is exact in the middle; what it loses outside goes to the smaller term.
    let sum = b.bin(BinOp::Add, power, one);
    let kept = b.bin(BinOp::Sub, sum, power);
    let lost = b.bin(BinOp::Sub, one, kept);
    let rest = b.fnma(power, q, lost);
    let sum = b.bin(BinOp::Add, sum, rest);
    b.bin(BinOp::Div, one, sum)
}

/// `(tanh(x) / x - 1) / x²` over x², for |x| ≤ 0.63.
const TANH: [f32; 5] = [
    -0.333_332_78,
    0.133_313_22,
    -0.053_729_367,
    0.020_604_296,
    -0.005_665_064,
];

/// `tanh(x)`
pub fn tanh(b: &mut Builder, x: Reg) -> Reg {
    let size = abs(b, x);
    let size = at_most(b, size, 10.0);
    let square = b.bin(BinOp::Mul, size, size);
    let p = horner(b, square, &TANH);
    let cube = b.bin(BinOp::Mul, size, square);
    let near = b.fma(cube, p, size);
    // 1 - 2 / (exp(2 |x|) + 1), which is 1 from 9.02 on.
    let twice = b.bin(BinOp::Add, size, size);
    let power = exp_inside(b, twice);
    let (one, two) = (b.f32(1.0), b.f32(2.0));
    let below = b.bin(BinOp::Add, power, one);
    let part = b.bin(BinOp::Div, two, below);
    let far = b.bin(BinOp::Sub, one, part);
    let limit = b.f32(0.625);
    let is_near = b.cmp(CmpOp::Lt, size, limit);
    let res = b.select(is_near, near, far);
    copy_sign(b, res, x)
}

/// `erf(x) / x - 1` over x², for |x| ≤ 0.93.
const ERF_NEAR: [f32; 6] = [
    0.128_379_15,
    -0.376_124_9,
    0.112_817_31,
    -0.026_762_966,
    0.004_987_352,
    -0.000_595_957_86,
];
/// `log2(1 - erf(t)) / t` for t from 0.92 to 4.
const ERF_FAR: [f32; 6] = [
    -1.628_102_1,
    -0.917_147_7,
    -0.151_860_68,
    0.033_023_2,
    -0.004_638_191,
    0.000_308_714_57,
];
/// `(2ʳ - 1) / r` for |r| ≤ 1/2, as good as a small part of a result needs.
// Fitted, and not the constant it is near to.
#[allow(clippy::approx_constant)]
const EXP2_ROUGH: [f32; 5] = [
    0.693_147,
    0.240_222_47,
    0.055_507_11,
    0.009_671_292,
    0.001_326_953_5,
];

/// `erf(x)`
pub fn erf(b: &mut Builder, x: Reg) -> Reg {
    let square = b.bin(BinOp::Mul, x, x);
    let p = horner(b, square, &ERF_NEAR);
    let near = b.fma(x, p, x);
    // 1 - 2 to the power of a polynomial; 1 - erf(4) is below half a unit.
    let size = abs(b, x);
    let size = at_most(b, size, 4.0);
    let square = at_most(b, square, 16.0);
    let p = by_pairs(b, size, square, &ERF_FAR);
    let exponent = b.bin(BinOp::Mul, size, p);
    let (biased, n) = nearest(b, exponent, 1.0, 127);
    let r = b.bin(BinOp::Sub, exponent, n);
    let square = b.bin(BinOp::Mul, r, r);
    let p = by_pairs(b, r, square, &EXP2_ROUGH);
    let scale = power_of_two(b, biased);
    let scaled = b.bin(BinOp::Mul, r, scale);
    let rest = b.fma(scaled, p, scale);
    let one = b.f32(1.0);
    let far = b.bin(BinOp::Sub, one, rest);
    let far = copy_sign(b, far, x);
    let limit = b.f32(0.921_875);
    let is_near = b.cmp(CmpOp::Lt, size, limit);
    b.select(is_near, near, far)
}

/// `1 / sqrt(x)`
pub fn rsqrt(b: &mut Builder, x: Reg) -> Reg {
    let (one, root) = (b.f32(1.0), b.un(UnOp::Sqrt, x));
    b.bin(BinOp::Div, one, root)
}

/// `(log(1 + f) - f + f² / 2) / f³` for f from -1/3 to 1/3.
const LOG: [f32; 8] = [
    0.333_332_15,
    -0.249_998_05,
    0.200_104_45,
    -0.166_801_81,
    0.140_053_4,
    -0.121_883_44,
    0.139_867_07,
    -0.128_744_87,
];

/// A positive number as `2ᵉ m` with m in an interval of ratio 2 that begins at `start`: e and m, both f32.
fn split_exponent(b: &mut Builder, x: Reg, start: f32) -> (Reg, Reg) {
    let (least, up) = (b.f32(f32::MIN_POSITIVE), b.f32((1u32 << 23) as f32));
    let denormal = b.cmp(CmpOp::Lt, x, least);
    let scaled = b.bin(BinOp::Mul, x, up);
    let normal = b.select(denormal, scaled, x);
    let (shift, none) = (b.f32(-23.0), b.f32(0.0));
    let shift = b.select(denormal, shift, none);
    let bits = b.cast(Ty::I32, normal);
    let (start, by) = (b.i32(start.to_bits() as i32), b.i32(23));
    let above = b.bin(BinOp::Sub, bits, start);
    let exponent = b.bin(BinOp::Sar, above, by);
    let part = b.bin(BinOp::Shl, exponent, by);
    let mantissa = b.bin(BinOp::Sub, bits, part);
    let exponent = b.un(UnOp::ToFloat, exponent);
    (
        b.bin(BinOp::Add, exponent, shift),
        b.cast(Ty::F32, mantissa),
    )
}

/// `log(x)`
pub fn log(b: &mut Builder, x: Reg) -> Reg {
    let (exponent, mantissa) = split_exponent(b, x, 2.0 / 3.0);
    let one = b.f32(1.0);
    let f = b.bin(BinOp::Sub, mantissa, one);
    let square = b.bin(BinOp::Mul, f, f);
    let p = by_pairs(b, f, square, &LOG);
    let minus_half = b.f32(-0.5);
    let p = b.fma(p, f, minus_half);
    let low = b.fma(square, p, f);
    let ln2 = b.f32(std::f32::consts::LN_2);
    let res = b.fma(exponent, ln2, low);
    let (zero, infinity) = (b.f32(0.0), b.f32(f32::INFINITY));
    let (minus_infinity, nan) = (b.f32(f32::NEG_INFINITY), b.f32(f32::NAN));
    let infinite = b.cmp(CmpOp::Eq, x, infinity);
    let res = b.select(infinite, x, res);
    let is_zero = b.cmp(CmpOp::Eq, x, zero);
    let other = b.select(is_zero, minus_infinity, nan);
    let positive = b.cmp(CmpOp::Gt, x, zero);
    b.select(positive, res, other)
}

/// π / 2 in three parts, the first ones with few bits.
// The constant without its low bits.
#[allow(clippy::approx_constant)]
const HALF_PI: [f32; 3] = [1.570_796, 3.139_164_7e-7, 5.390_302_5e-15];
/// `(sin(r) / r - 1) / r²` over r², for |r| ≤ π / 4.
const SIN: [f32; 4] = [
    -0.166_666_67,
    0.008_333_379,
    -0.000_198_530_72,
    2.832_680_1e-6,
];
/// `(cos(r) - 1 + r² / 2) / r⁴` over r², for |r| ≤ π / 4.
const COS: [f32; 3] = [0.041_666_646, -0.001_388_731, 2.443_233_6e-5];

/// `sin(x + quarter · π / 2)`
fn sin_from(b: &mut Builder, x: Reg, quarter: i32) -> Reg {
    let inverse = b.f32(std::f32::consts::FRAC_2_PI);
    let turns = b.bin(BinOp::Mul, x, inverse);
    let turns = b.un(UnOp::Round, turns);
    let mut r = x;
    for part in HALF_PI {
        let part = b.f32(part);
        r = b.fnma(turns, part, r);
    }
    // Only arguments too large for the three parts leave the interval; they stay between -1 and 1 at least.
    let r = at_most(b, r, 0.8);
    let r = at_least(b, r, -0.8);
    let square = b.bin(BinOp::Mul, r, r);
    let p = horner(b, square, &SIN);
    let cube = b.bin(BinOp::Mul, r, square);
    let sine = b.fma(cube, p, r);
    let p = horner(b, square, &COS);
    let (minus_half, one) = (b.f32(-0.5), b.f32(1.0));
    let p = b.fma(square, p, minus_half);
    let cosine = b.fma(square, p, one);
    let mut n = b.un(UnOp::ToInt, turns);
    if quarter != 0 {
        let quarter = b.i32(quarter);
        n = b.bin(BinOp::Add, n, quarter);
    }
    let (first, zero) = (b.i32(1), b.i32(0));
    let odd = b.bin(BinOp::And, n, first);
    let even = b.cmp(CmpOp::Eq, odd, zero);
    let res = b.select(even, sine, cosine);
    // The second bit of the number of quarters is the sign.
    let (by, sign) = (b.i32(30), b.constant(Ty::F32, SIGN));
    let high = b.bin(BinOp::Shl, n, by);
    let high = b.cast(Ty::F32, high);
    let flip = b.bin(BinOp::And, high, sign);
    b.bin(BinOp::Xor, res, flip)
}

/// `sin(x)`
pub fn sin(b: &mut Builder, x: Reg) -> Reg {
    let res = sin_from(b, x, 0);
    // The reduction makes +0 of -0.
    let zero = b.f32(0.0);
    let is_zero = b.cmp(CmpOp::Eq, x, zero);
    b.select(is_zero, x, res)
}

/// `cos(x)`
pub fn cos(b: &mut Builder, x: Reg) -> Reg {
    sin_from(b, x, 1)
}

/// `(2 atanh(s) - 2 s) / s³` over s², for |s| ≤ 0.1717.
const ATANH: [f32; 4] = [0.666_666_6, 0.400_009_72, 0.284_988_08, 0.242_782_43];

/// `log(x)` of a positive number as the sum of two f32.
fn log_in_two(b: &mut Builder, x: Reg) -> (Reg, Reg) {
    let (exponent, m) = split_exponent(b, x, std::f32::consts::FRAC_1_SQRT_2);
    // log(m) = 2 atanh(s), s = (m - 1) / (m + 1), with the remainders of sum and quotient.
    let one = b.f32(1.0);
    let f = b.bin(BinOp::Sub, m, one);
    let g = b.bin(BinOp::Add, m, one);
    let back = b.bin(BinOp::Sub, g, one);
    let g_low = b.bin(BinOp::Sub, m, back);
    let s = b.bin(BinOp::Div, f, g);
    let rest = b.fnma(s, g, f);
    let rest = b.fnma(s, g_low, rest);
    let s_low = b.bin(BinOp::Div, rest, g);
    let square = b.bin(BinOp::Mul, s, s);
    let p = horner(b, square, &ATANH);
    let cube = b.bin(BinOp::Mul, s, square);
    let p = b.bin(BinOp::Mul, cube, p);
    let two = b.f32(2.0);
    let low = b.fma(s_low, two, p);
    let high = b.bin(BinOp::Add, s, s);
    // Plus exponent · ln 2, the larger part unless it is 0.
    let (ln2_high, ln2_low) = (b.f32(LN2_HIGH), b.f32(LN2_LOW));
    let base = b.bin(BinOp::Mul, exponent, ln2_high);
    let sum = b.bin(BinOp::Add, base, high);
    let lost = b.bin(BinOp::Sub, base, sum);
    let lost = b.bin(BinOp::Add, lost, high);
    let low = b.bin(BinOp::Add, low, lost);
    let low = b.fma(exponent, ln2_low, low);
    let res = b.bin(BinOp::Add, sum, low);
    let lost = b.bin(BinOp::Sub, sum, res);
    (res, b.bin(BinOp::Add, lost, low))
}

/// `x` to the power `y`
pub fn pow(b: &mut Builder, x: Reg, y: Reg) -> Reg {
    let size = abs(b, x);
    let (log_high, log_low) = log_in_two(b, size);
    let high = b.bin(BinOp::Mul, y, log_high);
    let minus = negate(b, high);
    let low = b.fma(y, log_high, minus);
    let low = b.fma(y, log_low, low);
    // Where the product overflows its remainder means nothing.
    let (limit, zero) = (b.f32(120.0), b.f32(0.0));
    let length = abs(b, high);
    let inside = b.cmp(CmpOp::Lt, length, limit);
    let low = b.select(inside, low, zero);
    let high = at_most(b, high, 90.0);
    let high = at_least(b, high, -110.0);
    let (biased, q) = exp_parts(b, high, Some(low), TWICE);
    let res = scale(b, biased, q);
    special_powers(b, (x, y), size, res)
}

/// The cases of `pow` that its logarithm does not know.
fn special_powers(b: &mut Builder, (x, y): (Reg, Reg), size: Reg, res: Reg) -> Reg {
    let (zero, one, half) = (b.f32(0.0), b.f32(1.0), b.f32(0.5));
    let (infinity, nan) = (b.f32(f32::INFINITY), b.f32(f32::NAN));
    // 0 and infinity become one or the other.
    let is_zero = b.cmp(CmpOp::Eq, size, zero);
    let is_infinite = b.cmp(CmpOp::Eq, size, infinity);
    let falling = b.cmp(CmpOp::Lt, y, zero);
    let to_infinity = b.bin(BinOp::Xor, falling, is_infinite);
    let extreme = b.select(to_infinity, infinity, zero);
    let is_extreme = b.bin(BinOp::Or, is_zero, is_infinite);
    let res = b.select(is_extreme, extreme, res);
    // Negative numbers have powers with integers only; the odd ones are negative.
    let whole = b.un(UnOp::Trunc, y);
    let is_fraction = b.cmp(CmpOp::Ne, whole, y);
    let halved = b.bin(BinOp::Mul, y, half);
    let whole_half = b.un(UnOp::Trunc, halved);
    let not_even = b.cmp(CmpOp::Ne, whole_half, halved);
    let odd = b.bin(BinOp::AndNot, is_fraction, not_even);
    let negative = b.cmp(CmpOp::Lt, x, zero);
    let finite = b.bin(BinOp::AndNot, is_infinite, negative);
    let mut undefined = b.bin(BinOp::And, finite, is_fraction);
    for side in [x, y] {
        let unknown = b.cmp(CmpOp::Ne, side, side);
        undefined = b.bin(BinOp::Or, undefined, unknown);
    }
    let res = b.select(undefined, nan, res);
    let negated = copy_sign(b, res, x);
    let res = b.select(odd, negated, res);
    // x⁰ = 1 and 1ʸ = 1, also for NaN; (-1)^±∞ = 1.
    let flat = b.cmp(CmpOp::Eq, y, zero);
    let unit = b.cmp(CmpOp::Eq, x, one);
    let unit_size = b.cmp(CmpOp::Eq, size, one);
    let length = abs(b, y);
    let endless = b.cmp(CmpOp::Eq, length, infinity);
    let unit_forever = b.bin(BinOp::And, unit_size, endless);
    let is_one = b.bin(BinOp::Or, flat, unit);
    let is_one = b.bin(BinOp::Or, is_one, unit_forever);
    b.select(is_one, one, res)
}

//! The arithmetic of one number, in each of the four classes. Every corner of the primitives' meaning is here:
//! integers wrap, division by zero gives zero for integers, NaN propagates through maximum and minimum.

use irc_syntax::DType;

use crate::check::intrinsics::Real;
use crate::tensor::Tensor;

/// A number that arithmetic is done in.
pub(in crate::interp) trait Num: Copy + PartialOrd + PartialEq + 'static {
    const ZERO: Self;
    const ONE: Self;
    /// Packs numbers as elements of a dtype, rounded or wrapped once.
    fn store(dtype: DType, shape: Vec<usize>, values: &[Self]) -> Option<Tensor>;
    fn from_usize(value: usize) -> Self;
    fn to_f64(self) -> f64;
    fn to_i128(self) -> i128;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// Truncates for integers.
    fn div(self, other: Self) -> Self;
    fn floor_div(self, other: Self) -> Self;
    /// The sign of the divisor.
    fn floor_mod(self, other: Self) -> Self;
    /// The sign of the dividend.
    fn rem(self, other: Self) -> Self;
    fn pow(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
    fn bits(self, other: Self, op: fn(i64, i64) -> i64) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
    fn is_true(self) -> bool {
        self != Self::ZERO
    }
    fn is_nan(self) -> bool {
        false
    }
    fn is_inf(self) -> bool {
        false
    }
    /// A function of floats; integers go through f64.
    fn apply(self, f: Real) -> Self;
    /// The least and the greatest value of a dtype in this class.
    fn limits(dtype: DType) -> (Self, Self);
}

macro_rules! float {
    ($ty:ident, $store:ident) => {
        impl Num for $ty {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            fn store(dtype: DType, shape: Vec<usize>, values: &[Self]) -> Option<Tensor> {
                Tensor::$store(dtype, shape, values)
            }
            fn from_usize(value: usize) -> Self {
                value as Self
            }
            fn to_f64(self) -> f64 {
                self.into()
            }
            fn to_i128(self) -> i128 {
                self as i128
            }
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn div(self, other: Self) -> Self {
                self / other
            }
            fn floor_div(self, other: Self) -> Self {
                (self / other).floor()
            }
            fn floor_mod(self, other: Self) -> Self {
                let rest = self % other;
                if rest == 0.0 {
                    (0.0 as Self).copysign(other)
                } else if (rest < 0.0) != (other < 0.0) {
                    rest + other
                } else {
                    rest
                }
            }
            fn rem(self, other: Self) -> Self {
                self % other
            }
            fn pow(self, other: Self) -> Self {
                self.powf(other)
            }
            fn larger(self, other: Self) -> Self {
                if self > other || self != self {
                    self
                } else {
                    other
                }
            }
            fn smaller(self, other: Self) -> Self {
                if self < other || self != self {
                    self
                } else {
                    other
                }
            }
            fn bits(self, other: Self, op: fn(i64, i64) -> i64) -> Self {
                op(self as i64, other as i64) as Self
            }
            fn neg(self) -> Self {
                -self
            }
            fn abs(self) -> Self {
                self.abs()
            }
            fn sign(self) -> Self {
                // Zeros and NaN are their own sign.
                if self > 0.0 {
                    1.0
                } else if self < 0.0 {
                    -1.0
                } else {
                    self
                }
            }
            fn is_nan(self) -> bool {
                self != self
            }
            fn is_inf(self) -> bool {
                self.is_infinite()
            }
            fn apply(self, f: Real) -> Self {
                match f {
                    Real::Exp => self.exp(),
                    Real::Exp2 => self.exp2(),
                    Real::Exp10 => (10.0 as Self).powf(self),
                    Real::Expm1 => self.exp_m1(),
                    Real::Log => self.ln(),
                    Real::Log2 => self.log2(),
                    Real::Log10 => self.log10(),
                    Real::Log1p => self.ln_1p(),
                    Real::Sqrt => self.sqrt(),
                    Real::Rsqrt => 1.0 / self.sqrt(),
                    Real::Sin => self.sin(),
                    Real::Cos => self.cos(),
                    Real::Tan => self.tan(),
                    Real::Sinh => self.sinh(),
                    Real::Cosh => self.cosh(),
                    Real::Tanh => self.tanh(),
                    Real::Asin => self.asin(),
                    Real::Acos => self.acos(),
                    Real::Atan => self.atan(),
                    Real::Asinh => self.asinh(),
                    Real::Acosh => self.acosh(),
                    Real::Atanh => self.atanh(),
                    Real::Erf => erf(self.into()) as Self,
                    Real::Sigmoid => 1.0 / (1.0 + (-self).exp()),
                    Real::Floor => self.floor(),
                    Real::Ceil => self.ceil(),
                    Real::Round => self.round_ties_even(),
                    Real::Trunc => self.trunc(),
                }
            }
            fn limits(_: DType) -> (Self, Self) {
                (Self::NEG_INFINITY, Self::INFINITY)
            }
        }
    };
}

float!(f32, from_f32s);
float!(f64, from_f64s);

macro_rules! int {
    ($ty:ident) => {
        impl Num for $ty {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            fn store(dtype: DType, shape: Vec<usize>, values: &[Self]) -> Option<Tensor> {
                store_ints(
                    dtype,
                    shape,
                    values.iter().map(|&value| value as i64).collect(),
                )
            }
            fn from_usize(value: usize) -> Self {
                value as Self
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn to_i128(self) -> i128 {
                self.into()
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn div(self, other: Self) -> Self {
                if other == 0 {
                    0
                } else {
                    self.wrapping_div(other)
                }
            }
            fn floor_div(self, other: Self) -> Self {
                if other == 0 {
                    return 0;
                }
                let quotient = self.wrapping_div(other);
                let rest = self.wrapping_rem(other);
                if rest != 0 && is_negative(rest as i128) != is_negative(other as i128) {
                    quotient.wrapping_sub(1)
                } else {
                    quotient
                }
            }
            fn floor_mod(self, other: Self) -> Self {
                if other == 0 {
                    return 0;
                }
                let rest = self.wrapping_rem(other);
                if rest != 0 && is_negative(rest as i128) != is_negative(other as i128) {
                    rest.wrapping_add(other)
                } else {
                    rest
                }
            }
            fn rem(self, other: Self) -> Self {
                if other == 0 {
                    0
                } else {
                    self.wrapping_rem(other)
                }
            }
            fn pow(self, other: Self) -> Self {
                if is_negative(other as i128) {
                    // The truncated reciprocal of a power.
                    return match self as i128 {
                        1 => 1,
                        -1 => {
                            if other % 2 == 0 {
                                1
                            } else {
                                self
                            }
                        }
                        _ => 0,
                    };
                }
                let (mut base, mut exponent, mut res) = (self, other as u64, 1);
                while exponent != 0 {
                    if exponent & 1 == 1 {
                        res = Self::wrapping_mul(res, base);
                    }
                    base = base.wrapping_mul(base);
                    exponent >>= 1;
                }
                res
            }
            fn larger(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            fn smaller(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            fn bits(self, other: Self, op: fn(i64, i64) -> i64) -> Self {
                op(self as i64, other as i64) as Self
            }
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            fn abs(self) -> Self {
                if is_negative(self as i128) {
                    self.wrapping_neg()
                } else {
                    self
                }
            }
            fn sign(self) -> Self {
                if self == 0 {
                    0
                } else if is_negative(self as i128) {
                    (0 as Self).wrapping_sub(1)
                } else {
                    1
                }
            }
            fn apply(self, f: Real) -> Self {
                if f.is_rounding() {
                    self
                } else {
                    (self as f64).apply(f) as Self
                }
            }
            fn limits(dtype: DType) -> (Self, Self) {
                let (lo, hi) = int_limits(dtype);
                (lo as Self, hi as Self)
            }
        }
    };
}

int!(i64);
int!(u64);

fn is_negative(value: i128) -> bool {
    value < 0
}

fn store_ints(dtype: DType, shape: Vec<usize>, values: Vec<i64>) -> Option<Tensor> {
    Tensor::from_i64s(dtype, shape, &values)
}

/// The least and the greatest value of an integer dtype or bool.
pub(in crate::interp) fn int_limits(dtype: DType) -> (i128, i128) {
    if dtype == DType::Bool {
        (0, 1)
    } else if dtype.is_signed() {
        (-(1 << (dtype.bits() - 1)), (1 << (dtype.bits() - 1)) - 1)
    } else {
        (0, (1 << dtype.bits().min(64)) - 1)
    }
}

/// Shifts left; zero when every bit is shifted out.
pub(in crate::interp) fn shift_left(value: i64, by: i64) -> i64 {
    if (0..64).contains(&by) {
        value << by
    } else {
        0
    }
}

/// Shifts right, keeping the sign.
pub(in crate::interp) fn shift_right(value: i64, by: i64) -> i64 {
    value >> by.clamp(0, 63)
}

/// The error function. Below 3 a series of positive terms, above it the continued fraction of the complement; both are
/// good to the last bits of an f64.
pub(in crate::interp) fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a.is_nan() || a == 0.0 {
        return x;
    }
    if a < 3.0 {
        // erf x = 2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!!
        let (mut term, mut sum, mut n) = (a, a, 1.0);
        while term > sum * 1e-18 {
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        return (std::f64::consts::FRAC_2_SQRT_PI * (-a * a).exp() * sum).copysign(x);
    }
    if a > 6.0 {
        return 1f64.copysign(x);
    }
    // erfc x = exp(-x^2)/sqrt(pi) / (x + 1/2/(x + 1/(x + 3/2/(x + ...))))
    let mut tail = a;
    for n in (1..60).rev() {
        tail = a + f64::from(n) / 2.0 / tail;
    }
    let erfc = (-a * a).exp() * std::f64::consts::FRAC_2_SQRT_PI / 2.0 / tail;
    (1.0 - erfc).copysign(x)
}

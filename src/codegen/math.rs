//! Elementary functions as straight-line Cranelift IR, without libm.
//!
//! Everything is computed in float64: for float32 and narrower the result is then correct to about half a unit in
//! the last place and the series are cut short ([`Precision::Single`]); for float64 it is within a few units
//! (`pow` within 1e-13 relative). Methods are the classical ones: Cody–Waite argument reduction, Taylor series on the
//! reduced range, the atanh series for logarithms, a Chebyshev fit of `erfc(x)·exp(x²)` for erf. Both sides of a case
//! distinction are computed and one is selected, so code moves out of loops and no branch is mispredicted.
//! The reduction of sin, cos and tan is exact up to |x| of about 10⁷ and loses digits beyond.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F64, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use cranelift_frontend::FunctionBuilder;

use crate::check::intrinsics::Real;

/// How many terms of a series are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// The result is rounded to float32 or narrower.
    Single,
    /// The result is a float64.
    Double,
}

/// erfc(x)·exp(x²) on [1, 6] as a polynomial in (x − 3)/(x + 3), highest power first.
const ERFC_DOUBLE: [f64; 17] = [
    -2.03555756422008592e-7,
    -2.69151575928501248e-7,
    1.24596208471740918e-6,
    2.1124428949403866e-6,
    -7.97769657964407286e-6,
    -0.0000128593473514552894,
    0.000064056577940516657,
    0.0000452552014057953603,
    -0.000597061953181535196,
    0.000707746443561197235,
    0.00426913633307786864,
    -0.0243924993187907348,
    0.0716658371979733082,
    -0.150115936500775814,
    0.245603801712330913,
    -0.326233560043037233,
    0.17900115118138995,
];

/// The same with nine digits.
const ERFC_SINGLE: [f64; 9] = [
    -0.00058279970885291177798,
    0.00071887397051925319652,
    0.0042678255631698813008,
    -0.024393431046365879648,
    0.07166591241069544619,
    -0.15011590934137447846,
    0.24560379950803303649,
    -0.3262335602008583909,
    0.17900115119260013044,
];

const LN2_HI: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;

/// Emits functions of float64 values into a function under construction.
pub struct Math<'a, 'b> {
    /// Where instructions go.
    pub b: &'a mut FunctionBuilder<'b>,
    /// Whether the target multiplies and adds in one instruction.
    pub fma: bool,
    /// How many terms are taken.
    pub precision: Precision,
}

impl Math<'_, '_> {
    /// `f(x)` of a float64.
    pub fn call1(&mut self, func: Real, x: Value) -> Value {
        match func {
            Real::Exp => self.exp(x),
            Real::Exp2 => self.exp_scaled(x, std::f64::consts::LN_2),
            Real::Exp10 => self.exp_scaled(x, std::f64::consts::LN_10),
            Real::Expm1 => self.expm1(x),
            Real::Log => self.log(x),
            Real::Log2 => self.log_scaled(x, std::f64::consts::LOG2_E),
            Real::Log10 => self.log_scaled(x, std::f64::consts::LOG10_E),
            Real::Log1p => self.log1p(x),
            Real::Tanh => self.tanh(x),
            Real::Sinh => self.sinh(x),
            Real::Cosh => self.cosh(x),
            Real::Asinh => self.asinh(x),
            Real::Acosh => self.acosh(x),
            Real::Atanh => self.atanh(x),
            Real::Sigmoid => self.sigmoid(x),
            Real::Erf => self.erf(x),
            Real::Sin => self.sin_cos(x).0,
            Real::Cos => self.sin_cos(x).1,
            Real::Tan => {
                let (sin, cos) = self.sin_cos(x);
                self.b.ins().fdiv(sin, cos)
            }
            Real::Sqrt => self.b.ins().sqrt(x),
            Real::Floor => self.b.ins().floor(x),
            Real::Ceil => self.b.ins().ceil(x),
            Real::Trunc => self.b.ins().trunc(x),
            Real::Round => self.b.ins().nearest(x),
            Real::Asin => self.asin(x),
            Real::Acos => self.acos(x),
            Real::Atan => self.atan(x),
            Real::Rsqrt => {
                let root = self.b.ins().sqrt(x);
                let one = self.c(1.0);
                self.b.ins().fdiv(one, root)
            }
        }
    }

    fn c(&mut self, value: f64) -> Value {
        self.b.ins().f64const(value)
    }

    fn n_terms(&self, single: usize, double: usize) -> usize {
        if self.precision == Precision::Single {
            single
        } else {
            double
        }
    }

    /// `a * b + c`
    fn mul_add(&mut self, a: Value, b: Value, c: Value) -> Value {
        if self.fma {
            self.b.ins().fma(a, b, c)
        } else {
            let product = self.b.ins().fmul(a, b);
            self.b.ins().fadd(product, c)
        }
    }

    /// A polynomial, highest power first.
    fn poly(&mut self, x: Value, terms: impl IntoIterator<Item = f64>) -> Value {
        let mut terms = terms.into_iter();
        let mut sum = {
            let first = terms.next().unwrap_or(0.0);
            self.c(first)
        };
        for term in terms {
            let term = self.c(term);
            sum = self.mul_add(sum, x, term);
        }
        sum
    }

    fn select_lt(&mut self, a: Value, b: f64, then: Value, orelse: Value) -> Value {
        let b = self.c(b);
        let cond = self.b.ins().fcmp(FloatCC::LessThan, a, b);
        self.b.ins().select(cond, then, orelse)
    }

    fn copysign(&mut self, magnitude: Value, sign: Value) -> Value {
        self.b.ins().fcopysign(magnitude, sign)
    }

    /// `2^k` of an integer in the normal range.
    fn pow2(&mut self, k: Value) -> Value {
        let biased = self.b.ins().iadd_imm_s(k, 1023);
        let bits = self.b.ins().ishl_imm_u(biased, 52);
        self.b.ins().bitcast(F64, MemFlagsData::new(), bits)
    }

    /// `(e^r − 1, k)` with `x = k·ln 2 + r`; `x` is cut to where `e^x` is neither zero nor infinite.
    fn exp_parts(&mut self, x: Value) -> (Value, Value) {
        let (lo, hi) = (self.c(-746.0), self.c(710.0));
        let x = self.b.ins().fmax(x, lo);
        let x = self.b.ins().fmin(x, hi);
        let log2e = self.c(std::f64::consts::LOG2_E);
        let k = self.b.ins().fmul(x, log2e);
        let k = self.b.ins().nearest(k);
        let (hi, lo) = (self.c(-LN2_HI), self.c(-LN2_LO));
        let r = self.mul_add(k, hi, x);
        let r = self.mul_add(k, lo, r);
        let n = self.n_terms(8, 14);
        // e^r − 1 = r + r²·(1/2 + r/6 + …)
        let tail = self.poly(r, (2..=n).rev().map(|i| 1.0 / factorial(i)));
        let square = self.b.ins().fmul(r, r);
        let em1 = self.mul_add(square, tail, r);
        let k = self.b.ins().fcvt_to_sint_sat(I64, k);
        (em1, k)
    }

    fn exp(&mut self, x: Value) -> Value {
        let (em1, k) = self.exp_parts(x);
        let one = self.c(1.0);
        let e = self.b.ins().fadd(em1, one);
        // Two factors reach subnormal results and infinity.
        let half = self.b.ins().sshr_imm_u(k, 1);
        let rest = self.b.ins().isub(k, half);
        let (a, b) = (self.pow2(half), self.pow2(rest));
        let scaled = self.b.ins().fmul(e, a);
        self.b.ins().fmul(scaled, b)
    }

    fn exp_scaled(&mut self, x: Value, ln_base: f64) -> Value {
        let factor = self.c(ln_base);
        let x = self.b.ins().fmul(x, factor);
        self.exp(x)
    }

    fn expm1(&mut self, x: Value) -> Value {
        // Beyond 709 the result is infinite in either way of computing.
        let (em1, k) = self.exp_parts(x);
        let limit = self.b.ins().iconst(I64, 1022);
        let k_small = self.b.ins().smin(k, limit);
        let limit = self.b.ins().iconst(I64, -1022);
        let k_small = self.b.ins().smax(k_small, limit);
        let scale = self.pow2(k_small);
        let one = self.c(1.0);
        let rest = self.b.ins().fsub(scale, one);
        let small = self.mul_add(em1, scale, rest);
        let e = self.exp(x);
        let big = self.b.ins().fsub(e, one);
        self.select_lt(x, 700.0, small, big)
    }

    /// `(log of the mantissa, exponent)` of a positive number.
    fn log_parts(&mut self, x: Value) -> (Value, Value) {
        let scale = self.c(2f64.powi(54));
        let scaled = self.b.ins().fmul(x, scale);
        let smallest = self.c(f64::MIN_POSITIVE);
        let subnormal = self.b.ins().fcmp(FloatCC::LessThan, x, smallest);
        let x = self.b.ins().select(subnormal, scaled, x);
        let bits = self.b.ins().bitcast(I64, MemFlagsData::new(), x);
        // The mantissa is taken in [√½, √2).
        let offset = self.b.ins().iconst(I64, 0x3fe6_a09e_667f_3bcd);
        let rel = self.b.ins().isub(bits, offset);
        let k = self.b.ins().sshr_imm_u(rel, 52);
        let k_bits = self.b.ins().ishl_imm_u(k, 52);
        let mantissa = self.b.ins().isub(bits, k_bits);
        let m = self.b.ins().bitcast(F64, MemFlagsData::new(), mantissa);
        let e = self.b.ins().fcvt_from_sint(F64, k);
        let bias = self.c(54.0);
        let less = self.b.ins().fsub(e, bias);
        let e = self.b.ins().select(subnormal, less, e);
        let one = self.c(1.0);
        let f = self.b.ins().fsub(m, one);
        let two = self.c(2.0);
        let denominator = self.b.ins().fadd(f, two);
        let s = self.b.ins().fdiv(f, denominator);
        let z = self.b.ins().fmul(s, s);
        let n = self.n_terms(5, 11);
        // log((1+s)/(1−s)) = 2s·(1 + z/3 + z²/5 + …)
        let tail = self.poly(z, (1..=n).rev().map(|i| 2.0 / (2 * i + 1) as f64));
        let zs = self.b.ins().fmul(z, s);
        let s2 = self.b.ins().fadd(s, s);
        (self.mul_add(tail, zs, s2), e)
    }

    /// Replaces the logarithm of numbers that have none, or an infinite one.
    fn log_special(&mut self, x: Value, res: Value) -> Value {
        let (zero, inf, nan) = (self.c(0.0), self.c(f64::INFINITY), self.c(f64::NAN));
        let minus_inf = self.c(f64::NEG_INFINITY);
        let is_inf = self.b.ins().fcmp(FloatCC::Equal, x, inf);
        let res = self.b.ins().select(is_inf, inf, res);
        let is_zero = self.b.ins().fcmp(FloatCC::Equal, x, zero);
        let res = self.b.ins().select(is_zero, minus_inf, res);
        let bad = self.b.ins().fcmp(FloatCC::UnorderedOrLessThan, x, zero);
        self.b.ins().select(bad, nan, res)
    }

    fn log(&mut self, x: Value) -> Value {
        let (log_m, e) = self.log_parts(x);
        let (hi, lo) = (self.c(LN2_HI), self.c(LN2_LO));
        let low = self.mul_add(e, lo, log_m);
        let res = self.mul_add(e, hi, low);
        self.log_special(x, res)
    }

    fn log_scaled(&mut self, x: Value, factor: f64) -> Value {
        let (log_m, e) = self.log_parts(x);
        let whole = self.c(factor * std::f64::consts::LN_2);
        let factor = self.c(factor);
        let part = self.b.ins().fmul(log_m, factor);
        let res = self.mul_add(e, whole, part);
        self.log_special(x, res)
    }

    fn log1p(&mut self, x: Value) -> Value {
        let one = self.c(1.0);
        let u = self.b.ins().fadd(x, one);
        let log = self.log(u);
        let d = self.b.ins().fsub(u, one);
        // log(1+x) ≈ log(u)·x/(u−1) makes up for the rounding of u.
        let ratio = self.b.ins().fdiv(x, d);
        let product = self.b.ins().fmul(log, ratio);
        let same = self.b.ins().fcmp(FloatCC::Equal, u, one);
        let res = self.b.ins().select(same, x, product);
        let inf = self.c(f64::INFINITY);
        let is_inf = self.b.ins().fcmp(FloatCC::Equal, x, inf);
        let res = self.b.ins().select(is_inf, inf, res);
        let zero = self.c(0.0);
        let is_edge = self.b.ins().fcmp(FloatCC::Equal, u, zero);
        self.b.ins().select(is_edge, log, res)
    }

    fn tanh(&mut self, x: Value) -> Value {
        let abs = self.b.ins().fabs(x);
        let minus_two = self.c(-2.0);
        let arg = self.b.ins().fmul(abs, minus_two);
        let em1 = self.expm1(arg);
        let neg = self.b.ins().fneg(em1);
        let two = self.c(2.0);
        let denominator = self.b.ins().fadd(em1, two);
        let res = self.b.ins().fdiv(neg, denominator);
        self.copysign(res, x)
    }

    /// `e^|x| / 2`, without overflow where the hyperbolic functions have none.
    fn half_exp(&mut self, abs: Value) -> Value {
        let ln2 = self.c(std::f64::consts::LN_2);
        let arg = self.b.ins().fsub(abs, ln2);
        self.exp(arg)
    }

    fn sinh(&mut self, x: Value) -> Value {
        let abs = self.b.ins().fabs(x);
        let em1 = self.expm1(abs);
        let (one, half, quarter) = (self.c(1.0), self.c(0.5), self.c(0.25));
        let next = self.b.ins().fadd(em1, one);
        let part = self.b.ins().fdiv(em1, next);
        let sum = self.b.ins().fadd(em1, part);
        let small = self.b.ins().fmul(sum, half);
        let t = self.half_exp(abs);
        let back = self.b.ins().fdiv(quarter, t);
        let big = self.b.ins().fsub(t, back);
        let res = self.select_lt(abs, 2.0, small, big);
        self.copysign(res, x)
    }

    fn cosh(&mut self, x: Value) -> Value {
        let abs = self.b.ins().fabs(x);
        let t = self.half_exp(abs);
        let quarter = self.c(0.25);
        let back = self.b.ins().fdiv(quarter, t);
        self.b.ins().fadd(t, back)
    }

    fn asinh(&mut self, x: Value) -> Value {
        let abs = self.b.ins().fabs(x);
        let one = self.c(1.0);
        let square = self.b.ins().fmul(abs, abs);
        let next = self.b.ins().fadd(square, one);
        let root = self.b.ins().sqrt(next);
        let denominator = self.b.ins().fadd(root, one);
        let part = self.b.ins().fdiv(square, denominator);
        let arg = self.b.ins().fadd(abs, part);
        let small = self.log1p(arg);
        let big = self.log_of_double(abs);
        let res = self.select_lt(abs, 1e9, small, big);
        self.copysign(res, x)
    }

    fn log_of_double(&mut self, x: Value) -> Value {
        let log = self.log(x);
        let ln2 = self.c(std::f64::consts::LN_2);
        self.b.ins().fadd(log, ln2)
    }

    fn acosh(&mut self, x: Value) -> Value {
        let one = self.c(1.0);
        let t = self.b.ins().fsub(x, one);
        let square = self.b.ins().fmul(t, t);
        let double = self.b.ins().fadd(t, t);
        let sum = self.b.ins().fadd(square, double);
        let root = self.b.ins().sqrt(sum);
        let arg = self.b.ins().fadd(t, root);
        let small = self.log1p(arg);
        let big = self.log_of_double(x);
        self.select_lt(x, 1e9, small, big)
    }

    fn atanh(&mut self, x: Value) -> Value {
        let (one, half) = (self.c(1.0), self.c(0.5));
        let abs = self.b.ins().fabs(x);
        let double = self.b.ins().fadd(abs, abs);
        let rest = self.b.ins().fsub(one, abs);
        let arg = self.b.ins().fdiv(double, rest);
        let log = self.log1p(arg);
        let res = self.b.ins().fmul(log, half);
        let nan = self.c(f64::NAN);
        let outside = self.b.ins().fcmp(FloatCC::GreaterThan, abs, one);
        let res = self.b.ins().select(outside, nan, res);
        self.copysign(res, x)
    }

    fn sigmoid(&mut self, x: Value) -> Value {
        let neg = self.b.ins().fneg(x);
        let e = self.exp(neg);
        let one = self.c(1.0);
        let denominator = self.b.ins().fadd(e, one);
        self.b.ins().fdiv(one, denominator)
    }

    fn erf(&mut self, x: Value) -> Value {
        let abs = self.b.ins().fabs(x);
        let square = self.b.ins().fmul(abs, abs);
        let n = self.n_terms(12, 18);
        // erf x = 2/√π · x · Σ (−x²)ⁿ / (n!·(2n+1)) below 1.
        let series = self.poly(
            square,
            (0..=n).rev().map(|i| {
                let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
                sign * std::f64::consts::FRAC_2_SQRT_PI / (factorial(i) * (2 * i + 1) as f64)
            }),
        );
        let small = self.b.ins().fmul(series, abs);
        let six = self.c(6.0);
        let cut = self.b.ins().fmin(abs, six);
        let three = self.c(3.0);
        let num = self.b.ins().fsub(cut, three);
        let den = self.b.ins().fadd(cut, three);
        let t = self.b.ins().fdiv(num, den);
        let fit = if self.precision == Precision::Single {
            self.poly(t, ERFC_SINGLE)
        } else {
            self.poly(t, ERFC_DOUBLE)
        };
        let neg = self.b.ins().fneg(square);
        let gauss = self.exp(neg);
        let erfc = self.b.ins().fmul(fit, gauss);
        let one = self.c(1.0);
        let big = self.b.ins().fsub(one, erfc);
        let res = self.select_lt(abs, 1.0, small, big);
        self.copysign(res, x)
    }

    fn sin_cos(&mut self, x: Value) -> (Value, Value) {
        let two_over_pi = self.c(std::f64::consts::FRAC_2_PI);
        let k = self.b.ins().fmul(x, two_over_pi);
        let k = self.b.ins().nearest(k);
        let mut r = x;
        // π/2 in three parts; the products with k are exact below 2²³.
        for part in [
            1.5707963109016418,
            1.5893254712295857e-08,
            6.123_233_995_736_766e-17,
        ] {
            let part = self.c(-part);
            r = self.mul_add(k, part, r);
        }
        let z = self.b.ins().fmul(r, r);
        let n = self.n_terms(6, 9);
        let alternate = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        let tail = self.poly(
            z,
            (1..=n).rev().map(|i| alternate(i) / factorial(2 * i + 1)),
        );
        let zr = self.b.ins().fmul(z, r);
        let sin = self.mul_add(tail, zr, r);
        let cos = self.poly(z, (0..=n).rev().map(|i| alternate(i) / factorial(2 * i)));
        let quadrant = self.b.ins().fcvt_to_sint_sat(I64, k);
        let swap = self.b.ins().band_imm_s(quadrant, 1);
        let (s, c) = (
            self.b.ins().select(swap, cos, sin),
            self.b.ins().select(swap, sin, cos),
        );
        let sin_neg = self.b.ins().band_imm_s(quadrant, 2);
        let next = self.b.ins().iadd_imm_s(quadrant, 1);
        let cos_neg = self.b.ins().band_imm_s(next, 2);
        let (minus_s, minus_c) = (self.b.ins().fneg(s), self.b.ins().fneg(c));
        (
            self.b.ins().select(sin_neg, minus_s, s),
            self.b.ins().select(cos_neg, minus_c, c),
        )
    }

    /// `atan(num / den)` for a non-negative quotient.
    fn atan_ratio(&mut self, num: Value, den: Value) -> Value {
        // Octants: t = q, (q − 1)/(q + 1), or −1/q around tan(π/8) and tan(3π/8).
        let t1 = self.c(std::f64::consts::SQRT_2 - 1.0);
        let t2 = self.c(std::f64::consts::SQRT_2 + 1.0);
        let edge1 = self.b.ins().fmul(den, t1);
        let edge2 = self.b.ins().fmul(den, t2);
        let above1 = self.b.ins().fcmp(FloatCC::GreaterThan, num, edge1);
        let above2 = self.b.ins().fcmp(FloatCC::GreaterThan, num, edge2);
        let (diff, sum) = (self.b.ins().fsub(num, den), self.b.ins().fadd(num, den));
        let minus_den = self.b.ins().fneg(den);
        let n = self.b.ins().select(above1, diff, num);
        let d = self.b.ins().select(above1, sum, den);
        let n = self.b.ins().select(above2, minus_den, n);
        let d = self.b.ins().select(above2, num, d);
        let t = self.b.ins().fdiv(n, d);
        let (zero, quarter, half) = (
            self.c(0.0),
            self.c(std::f64::consts::FRAC_PI_4),
            self.c(std::f64::consts::FRAC_PI_2),
        );
        let base = self.b.ins().select(above1, quarter, zero);
        let base = self.b.ins().select(above2, half, base);
        let z = self.b.ins().fmul(t, t);
        let n = self.n_terms(10, 20);
        let tail = self.poly(
            z,
            (1..=n)
                .rev()
                .map(|i| (if i % 2 == 0 { 1.0 } else { -1.0 }) / (2 * i + 1) as f64),
        );
        let zt = self.b.ins().fmul(z, t);
        let part = self.mul_add(tail, zt, t);
        self.b.ins().fadd(base, part)
    }

    fn atan(&mut self, x: Value) -> Value {
        let abs = self.b.ins().fabs(x);
        let huge = self.c(1e300);
        // An infinite argument would give ∞/∞; π/2 is reached long before.
        let abs = self.b.ins().fmin(abs, huge);
        let one = self.c(1.0);
        let res = self.atan_ratio(abs, one);
        self.copysign(res, x)
    }

    fn asin(&mut self, x: Value) -> Value {
        let abs = self.b.ins().fabs(x);
        let one = self.c(1.0);
        let (less, more) = (self.b.ins().fsub(one, abs), self.b.ins().fadd(one, abs));
        let product = self.b.ins().fmul(less, more);
        let root = self.b.ins().sqrt(product);
        let res = self.atan_ratio(abs, root);
        self.copysign(res, x)
    }

    fn acos(&mut self, x: Value) -> Value {
        let one = self.c(1.0);
        let (less, more) = (self.b.ins().fsub(one, x), self.b.ins().fadd(one, x));
        let (num, den) = (self.b.ins().sqrt(less), self.b.ins().sqrt(more));
        let half = self.atan_ratio(num, den);
        self.b.ins().fadd(half, half)
    }

    /// `atan2(y, x)`
    pub fn atan2(&mut self, y: Value, x: Value) -> Value {
        let (num, den) = (self.b.ins().fabs(y), self.b.ins().fabs(x));
        let ratio = self.atan_ratio(num, den);
        let zero = self.c(0.0);
        let both_zero = self.b.ins().fadd(num, den);
        let is_zero = self.b.ins().fcmp(FloatCC::Equal, both_zero, zero);
        let first = self.b.ins().select(is_zero, zero, ratio);
        let pi = self.c(std::f64::consts::PI);
        let second = self.b.ins().fsub(pi, first);
        let x_bits = self.b.ins().bitcast(I64, MemFlagsData::new(), x);
        let left = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, x_bits, 0);
        let res = self.b.ins().select(left, second, first);
        self.copysign(res, y)
    }

    /// `x ** y`
    pub fn pow(&mut self, x: Value, y: Value) -> Value {
        let (zero, one) = (self.c(0.0), self.c(1.0));
        let abs = self.b.ins().fabs(x);
        let log = self.log(abs);
        let product = self.b.ins().fmul(log, y);
        let magnitude = self.exp(product);
        // A negative base has a real power for whole exponents only.
        let whole = self.b.ins().trunc(y);
        let is_whole = self.b.ins().fcmp(FloatCC::Equal, whole, y);
        let half = self.c(0.5);
        let halved = self.b.ins().fmul(y, half);
        let half_whole = self.b.ins().trunc(halved);
        let is_odd = self.b.ins().fcmp(FloatCC::NotEqual, half_whole, halved);
        let negated = self.copysign(magnitude, x);
        let signed = self.b.ins().select(is_odd, negated, magnitude);
        let nan = self.c(f64::NAN);
        let negative_base = self.b.ins().select(is_whole, signed, nan);
        let x_bits = self.b.ins().bitcast(I64, MemFlagsData::new(), x);
        let is_negative = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, x_bits, 0);
        let infinite = self.c(f64::INFINITY);
        let base_infinite = self.b.ins().fcmp(FloatCC::Equal, abs, infinite);
        let base_zero = self.b.ins().fcmp(FloatCC::Equal, abs, zero);
        let no_nan = self.b.ins().bor(base_infinite, base_zero);
        let signed_or_positive = self.b.ins().select(is_whole, signed, magnitude);
        let negative_base = self
            .b
            .ins()
            .select(no_nan, signed_or_positive, negative_base);
        let res = self.b.ins().select(is_negative, negative_base, magnitude);
        // (±1) ** ±∞ = 1, 1 ** y = 1, x ** 0 = 1
        let base_one = self.b.ins().fcmp(FloatCC::Equal, x, one);
        let unit = self.b.ins().fcmp(FloatCC::Equal, abs, one);
        let y_abs = self.b.ins().fabs(y);
        let y_infinite = self.b.ins().fcmp(FloatCC::Equal, y_abs, infinite);
        let unit_infinite = self.b.ins().band(unit, y_infinite);
        let y_zero = self.b.ins().fcmp(FloatCC::Equal, y, zero);
        let is_one = self.b.ins().bor(base_one, y_zero);
        let is_one = self.b.ins().bor(is_one, unit_infinite);
        self.b.ins().select(is_one, one, res)
    }

    /// `x − y·trunc(x / y)`, exact for float32 operands.
    pub fn fmod(&mut self, x: Value, y: Value) -> Value {
        // Each round removes what one division knows of the quotient; a float32 quotient takes a few rounds.
        let (zero, nan) = (self.c(0.0), self.c(f64::NAN));
        let divisor = self.b.ins().fabs(y);
        let start = self.b.ins().fabs(x);
        let (head, body, exit) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let rest = self.b.append_block_param(head, F64);
        self.b.ins().jump(head, &[start.into()]);
        self.b.switch_to_block(head);
        let infinite = self.c(f64::INFINITY);
        let more = self
            .b
            .ins()
            .fcmp(FloatCC::GreaterThanOrEqual, rest, divisor);
        let finite = self.b.ins().fcmp(FloatCC::LessThan, rest, infinite);
        let positive = self.b.ins().fcmp(FloatCC::GreaterThan, divisor, zero);
        let go = self.b.ins().band(more, finite);
        let go = self.b.ins().band(go, positive);
        self.b.ins().brif(go, body, &[], exit, &[]);
        self.b.switch_to_block(body);
        let quotient = self.b.ins().fdiv(rest, divisor);
        // 29 bits of the quotient times 24 bits of a float32 divisor are exact in 53.
        let bits = self.b.ins().bitcast(I64, MemFlagsData::new(), quotient);
        let kept = self.b.ins().band_imm_s(bits, !0xff_ffff);
        let kept = self.b.ins().bitcast(F64, MemFlagsData::new(), kept);
        let kept = self.b.ins().trunc(kept);
        let product = self.b.ins().fmul(kept, divisor);
        let next = self.b.ins().fsub(rest, product);
        let next_abs = self.b.ins().fmax(next, zero);
        self.b.ins().jump(head, &[next_abs.into()]);
        self.b.seal_block(head);
        self.b.seal_block(body);
        self.b.switch_to_block(exit);
        self.b.seal_block(exit);
        let whole = self.b.ins().fcmp(FloatCC::LessThan, start, infinite);
        let nonzero = self.b.ins().fcmp(FloatCC::GreaterThan, divisor, zero);
        let good = self.b.ins().band(whole, nonzero);
        let res = self.b.ins().select(good, rest, nan);
        self.copysign(res, x)
    }
}

/// `n!`, exact to 22.
fn factorial(n: usize) -> f64 {
    (1..=n).map(|i| i as f64).product()
}

/// Widens a float32, or leaves a float64.
pub fn widen(b: &mut FunctionBuilder<'_>, x: Value) -> Value {
    if b.func.dfg.value_type(x) == F32 {
        b.ins().fpromote(F64, x)
    } else {
        x
    }
}

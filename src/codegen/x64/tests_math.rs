//! The functions of `kernel::math`, compiled and swept against f64.

use super::exec::Loaded;
use crate::codegen::Cpu;
use crate::codegen::kernel::math;
use crate::codegen::kernel::vir::{BinOp, Builder, Elem, Inst, IntOp, Mem, Reg, Src, Ty};

/// Code for `out[i] = f(x[i], y[i])` over a multiple of 8 elements.
fn compile(f: &dyn Fn(&mut Builder, Reg, Reg) -> Reg) -> Loaded {
    let mut b = Builder::new(8);
    let (count, first, second, out) = (b.arg(0), b.arg(1), b.arg(2), b.arg(3));
    let at = b.reg(Ty::Int);
    b.push(Inst::Move {
        dst: at,
        src: Src::Imm(0),
    });
    b.open();
    let mem = |base| Mem {
        base,
        index: Some((at, 1)),
        disp: 0,
    };
    let (x, y) = (b.reg(Ty::F32), b.reg(Ty::F32));
    let elem = Elem::F32;
    b.push(Inst::Load {
        dst: x,
        elem,
        mem: mem(first),
        mask: None,
    });
    b.push(Inst::Load {
        dst: y,
        elem,
        mem: mem(second),
        mask: None,
    });
    let src = f(&mut b, x, y);
    b.push(Inst::Store {
        elem,
        mem: mem(out),
        src,
        mask: None,
    });
    b.push(Inst::Int {
        op: IntOp::Add,
        dst: at,
        a: Src::Reg(at),
        b: Src::Imm(32),
    });
    let (body, counter) = (b.close(), b.reg(Ty::Int));
    b.push(Inst::Loop {
        counter,
        count: Src::Reg(count),
        body,
    });
    Loaded::new(&super::compile(&b.finish(), Cpu::V3).expect("code").bytes)
}

fn eval(code: &Loaded, x: &[f32], y: &[f32]) -> Vec<f32> {
    let mut out = vec![0f32; x.len()];
    let args = [
        x.len() as u64 / 8,
        x.as_ptr() as u64,
        y.as_ptr() as u64,
        out.as_mut_ptr() as u64,
    ];
    code.call(&args);
    out
}

/// Distance in units in the last place of the wanted value.
fn distance(got: f32, want: f64) -> f64 {
    let nearest = want as f32;
    if nearest.is_nan() || got.is_nan() {
        return if nearest.is_nan() && got.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if nearest.is_infinite() || got.is_infinite() {
        // The largest number and infinity are neighbours.
        let same = nearest == got
            || (nearest.abs().max(got.abs()).is_infinite()
                && nearest.abs().min(got.abs()) > 3.402_823e38);
        return if same && nearest.signum() == got.signum() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if want == 0.0 {
        let same = got == 0.0 && got.is_sign_negative() == want.is_sign_negative();
        return if same { 0.0 } else { f64::INFINITY };
    }
    let exponent = (want.abs().log2().floor() as i32).max(-126);
    (f64::from(got) - want).abs() / 2f64.powi(exponent - 23)
}

const SPECIAL: [f32; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    1e-45,
    -1e-45,
    1e-40,
    -1e-40,
    f32::MAX,
    f32::MIN,
    2.0,
    -2.0,
    0.5,
    3.0,
    -3.0,
    0.33,
    -2.5,
    1e-20,
    100.0,
];

/// Every 1021st float from `low` to `high`, both signs as they come, and the special ones.
fn sweep(low: f32, high: f32) -> Vec<f32> {
    let mut values: Vec<f32> = (0..=u32::MAX / 1021)
        .map(|at| f32::from_bits(at * 1021))
        .filter(|value| low <= *value && *value <= high)
        .collect();
    values.extend(SPECIAL);
    values.resize(values.len().next_multiple_of(8), 1.0);
    values
}

fn check(
    name: &str,
    limit: f64,
    (low, high): (f32, f32),
    f: fn(&mut Builder, Reg) -> Reg,
    truth: fn(f64) -> f64,
) {
    let values = sweep(low, high);
    let code = compile(&|b, x, _| f(b, x));
    let got = eval(&code, &values, &values);
    let mut worst = (0.0, 0.0, 0.0);
    for (&x, &got) in values.iter().zip(&got) {
        if x.is_finite() && !(low..=high).contains(&x) {
            assert!(got.abs() <= 1.0, "{name} of {x:e} is {got:e}");
            continue;
        }
        let error = distance(got, truth(f64::from(x)));
        if error > worst.0 {
            worst = (error, x, got);
        }
    }
    println!("{name}: {:.2} ulp at {:e}", worst.0, worst.1);
    assert!(
        worst.0 <= limit,
        "{name}: {worst:?} is not {:e}",
        truth(f64::from(worst.1))
    );
}

#[test]
fn functions_of_one_argument_are_within_two_ulp() {
    let all = (f32::NEG_INFINITY, f32::INFINITY);
    check("exp", 2.0, all, math::exp, f64::exp);
    check("log", 2.0, all, math::log, f64::ln);
    check("sigmoid", 2.0, all, math::sigmoid, |x| {
        1.0 / (1.0 + (-x).exp())
    });
    check("tanh", 2.0, all, math::tanh, f64::tanh);
    check("erf", 2.0, all, math::erf, libm_erf);
    check("sin", 2.0, (-1e5, 1e5), math::sin, f64::sin);
    check("cos", 2.0, (-1e5, 1e5), math::cos, f64::cos);
    check("rsqrt", 2.0, all, math::rsqrt, |x| 1.0 / x.sqrt());
}

/// `erf` in f64: its series near 0, the continued fraction of `1 - erf` further out.
fn libm_erf(x: f64) -> f64 {
    let size = x.abs();
    if size.is_nan() {
        return x;
    }
    if size < 2.5 {
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term.abs() > 1e-18 * sum.abs() {
            n += 1.0;
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    if size > 7.0 {
        return x.signum();
    }
    let fraction = (1..=120)
        .rev()
        .fold(0.0, |below, k| f64::from(k) / 2.0 / (size + below));
    let rest = (-size * size).exp() / ((size + fraction) * std::f64::consts::PI.sqrt());
    x.signum() * (1.0 - rest)
}

#[test]
fn pow_is_within_four_ulp() {
    let (mut xs, mut ys) = (Vec::new(), Vec::new());
    for x in SPECIAL {
        for y in SPECIAL {
            xs.push(x);
            ys.push(y);
        }
    }
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    for _ in 0..400_000 {
        let x = (next() * 176.0 - 88.0).exp();
        let reach = 90.0 / x.ln().abs().max(1e-3);
        xs.push(x as f32);
        ys.push(((next() * 2.0 - 1.0) * reach) as f32);
        xs.push((next() * 2.0) as f32);
        ys.push((next() * 60.0 - 30.0) as f32);
        xs.push(-(next() * 20.0) as f32);
        ys.push((next() * 20.0 - 10.0).round() as f32);
    }
    xs.resize(xs.len().next_multiple_of(8), 1.0);
    ys.resize(xs.len(), 1.0);
    let got = eval(&compile(&math::pow), &xs, &ys);
    let mut worst = (0.0, 0.0, 0.0, 0.0);
    for ((&x, &y), &got) in xs.iter().zip(&ys).zip(&got) {
        let error = distance(got, f64::from(x).powf(f64::from(y)));
        if error > worst.0 {
            worst = (error, x, y, got);
        }
    }
    println!("pow: {:.2} ulp at {:e} {:e}", worst.0, worst.1, worst.2);
    assert!(worst.0 <= 4.0, "{worst:?}");
}

#[test]
fn speed_of_functions_is_printed() {
    let gelu = |b: &mut Builder, x: Reg, _: Reg| {
        let (half, one, root) = (
            b.f32(0.5),
            b.f32(1.0),
            b.f32(std::f32::consts::FRAC_1_SQRT_2),
        );
        let inner = b.bin(BinOp::Mul, x, root);
        let erf = math::erf(b, inner);
        let sum = b.bin(BinOp::Add, erf, one);
        let scaled = b.bin(BinOp::Mul, x, half);
        b.bin(BinOp::Mul, scaled, sum)
    };
    let one = |f: fn(&mut Builder, Reg) -> Reg| move |b: &mut Builder, x: Reg, _: Reg| f(b, x);
    let x: Vec<f32> = (0..10_000).map(|i| i as f32 / 1000.0 - 5.0).collect();
    for (name, code) in [
        ("gelu", compile(&gelu)),
        ("exp", compile(&one(math::exp))),
        ("log", compile(&one(math::log))),
        ("tanh", compile(&one(math::tanh))),
        ("sigmoid", compile(&one(math::sigmoid))),
        ("sin", compile(&one(math::sin))),
        ("pow", compile(&math::pow)),
    ] {
        let mut out = vec![0f32; x.len()];
        let at = x.as_ptr() as u64;
        let args = [x.len() as u64 / 8, at, at, out.as_mut_ptr() as u64];
        let nanos = super::tests::time(|| code.call(&args), 20);
        println!("{name}: {:.2} ns an element", nanos / x.len() as f64);
    }
}

//! Convolutions mean the same by Winograd's method, within the bounds that `mod.rs` states.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::Func;
use irc_syntax::names::NameSupply;

use super::super::choice::Choice;
use super::super::packing::Packing;
use super::super::tests::{arguments, check, compare, graph, lowered};
use super::super::{Target, nest, pack, panels};
use super::winograd;
use crate::interp::run_prim_func;
use crate::tensor::Tensor;

/// A 3×3 convolution with bias, a residual and an activation, of `(images, depth, height, width)` to `k` channels.
fn convolution(data: [&str; 4], k: i64, padding: [i64; 4]) -> String {
    let [n, c, h, w] = data;
    let [top, left, bottom, right] = padding;
    let quoted = |text: &str| match text.parse::<i64>() {
        Ok(number) => number.to_string(),
        Err(_) => format!("\"{text}\""),
    };
    let [n, h, w] = [n, h, w].map(quoted);
    graph(
        &format!(
            "x: R.Tensor(({n}, {c}, {h}, {w}), \"float32\"), k: R.Tensor(({k}, {c}, 3, 3), \"float32\"), b: R.Tensor(({k}, 1, 1), \"float32\")"
        ),
        &format!(
            "y = R.nn.conv2d(x, k, padding=[{top}, {left}, {bottom}, {right}])\nz = R.add(y, b)\nq = R.multiply(z, R.sigmoid(z))\nreturn q"
        ),
    )
}

/// The function of a convolution, itself scheduled for tiles of `m × m`, and how its kernels are packed.
fn winograd_func(text: &str, target: Target, m: i64) -> (Func, Func, Packing) {
    let module = lowered(text);
    let is_conv = |func: &&Func| func.name.contains("conv2d");
    let func = module.funcs().find(is_conv).expect("there");
    let parts = nest::parts_of(func);
    let is_nest = |part: &&nest::Part| matches!(part, nest::Part::Nest(_));
    let first = parts.iter().take_while(|part| !is_nest(part)).count();
    let nests: Vec<&nest::Nest> = parts
        .iter()
        .filter_map(|part| match part {
            nest::Part::Nest(nest) => Some(nest),
            nest::Part::Stmt(_) => None,
        })
        .collect();
    let weights: BTreeSet<_> = func.params.iter().map(|param| param.name.clone()).collect();
    let scope = (&nest::buffers_of(func), &weights);
    let mut names = NameSupply::of_func(func);
    let choice = Choice {
        winograd: Some(m),
        ..Choice::FORMULA
    };
    let target = Target { choice, ..target };
    let made = winograd(&mut names, &nests, target, scope, &|_| BTreeSet::new());
    let made = made.expect("a convolution");
    assert_eq!(made.taken, nests.len());
    let mut scheduled = func.clone();
    scheduled.body.truncate(first);
    scheduled.body.extend(made.stmts);
    (func.clone(), scheduled, made.packing)
}

#[test]
fn winograd_convolutions() {
    let (narrow, wide) = (Target::AVX2, Target::AVX512);
    let all = [0, 1, 1, 1];
    let cases = [
        ("edges", ["1", "8", "6", "5"], 8, [1; 4], narrow),
        ("no padding", ["2", "8", "6", "10"], 8, [0; 4], narrow),
        ("tails", ["1", "5", "7", "4"], 12, all, narrow),
        ("padded copy", ["1", "25", "4", "5"], 44, all, narrow),
        ("bands", ["1", "4", "9", "18"], 128, [1; 4], narrow),
        ("shared channels", ["1", "4", "5", "6"], 264, [1; 4], narrow),
        ("images", ["n", "8", "8", "12"], 8, [1; 4], narrow),
        ("sizes", ["n", "4", "h", "w"], 10, all, narrow),
        ("lanes", ["n", "5", "5", "w"], 40, [1; 4], wide),
    ];
    for (name, data, k, padding, target) in cases {
        let text = convolution(data, k, padding);
        for (m, n, h, w) in [(4, 1, 3, 5), (2, 2, 9, 6)] {
            let (func, scheduled, packing) = winograd_func(&text, target, m);
            let dims = BTreeMap::from([("n", n), ("h", h), ("w", w)]);
            eprintln!("{name}, tiles of {m}");
            compare(&func, scheduled, &[packing], &dims, &mut 7);
        }
    }
}

#[test]
fn winograd_leaves_other_convolutions() {
    let text = graph(
        "x: R.Tensor((1, 16, 12, 12), \"float32\"), a: R.Tensor((16, 16, 3, 3), \"float32\"), b: R.Tensor((16, 8, 3, 3), \"float32\"), c: R.Tensor((16, 16, 1, 1), \"float32\")",
        "s = R.nn.conv2d(x, a, strides=[2, 2], padding=[1, 1, 1, 1])\nd = R.nn.conv2d(s, a, dilation=[2, 2], padding=[2, 2, 2, 2])\ng = R.nn.conv2d(d, b, groups=2, padding=[1, 1, 1, 1])\ny = R.nn.conv2d(g, c)\nreturn y",
    );
    let packings = check(&text, &[], Target::AVX2, true);
    assert!(packings.iter().all(|packing| packing.winograd.is_none()));
}

/// The bounds that the head of `winograd` states.
#[test]
fn winograd_error_is_bounded() {
    check_error(4, 32.0);
    check_error(2, 8.0);
}

/// Errors of 4×4 results of 64 channels of data, for tiles of `m × m`, in units of `2⁻²⁴` of a tile's largest sum of sizes.
fn check_error(m: i64, bound: f64) {
    let text = graph(
        "x: R.Tensor((1, 64, 6, 6), \"float32\"), k: R.Tensor((8, 64, 3, 3), \"float32\")",
        "y = R.nn.conv2d(x, k)\nreturn y",
    );
    let (func, scheduled, packing) = winograd_func(&text, Target::AVX2, m);
    let args = arguments(&func, &BTreeMap::new(), &mut 7);
    let [x, k] = [&args[0], &args[1]].map(Tensor::to_f64s);
    let packed = panels::pack(&args[1].clone().into(), &packing).expect("packs");
    let mut scheduled = scheduled;
    pack::retype(&mut scheduled, 1, &packing).expect("retypes");
    let given = [args[0].clone(), packed.tensor(), args[2].clone()];
    let results = run_prim_func(&scheduled, &given).expect("runs")[2].to_f64s();
    let mut errors: BTreeMap<[usize; 3], (f64, f64)> = BTreeMap::new();
    for (at, found) in results.iter().enumerate() {
        let (row, column, channel) = (at / 8 / 4, at / 8 % 4, at % 8);
        let (mut sum, mut size) = (0.0, 0.0);
        for tap in 0..9 {
            for c in 0..64 {
                let data = x[((row + tap / 3) * 6 + column + tap % 3) * 64 + c];
                let product = data * k[(tap * 64 + c) * 8 + channel];
                sum += product;
                size += product.abs();
            }
        }
        let side = m as usize;
        let tile = errors
            .entry([row / side, column / side, channel])
            .or_default();
        *tile = (tile.0.max((found - sum).abs()), tile.1.max(size));
    }
    for (error, size) in errors.values() {
        assert!(*error <= bound * 2f64.powi(-24) * size, "{error} of {size}");
    }
}

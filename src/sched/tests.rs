//! Functions mean the same before and after scheduling.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::{Func, FuncKind, Module, SourceMap, parse, print};

use super::packing::Packing;
use super::{Target, nest, schedule_func};
use crate::interp::{Value, run_func, run_prim_func};
use crate::library::Library;
use crate::opt::{self, Pass, PassCx};
use crate::tensor::{Tensor, Weights};
use irc_syntax::DType;

/// The passes that lead to block form.
const STEPS: [&Pass; 13] = [
    &opt::normalize::PASS,
    &opt::legalize::PASS,
    &opt::simplify::PASS,
    &opt::fold_constants::PASS,
    &opt::dead_code::PASS,
    &opt::channels_last::PASS,
    &opt::simplify::PASS,
    &opt::common_subexpr::PASS,
    &opt::dead_code::PASS,
    &opt::own_results::PASS,
    &opt::fuse::PASS,
    &opt::collapse_axes::PASS,
    &opt::lower::PASS,
];

/// The prim_funcs that graph functions are lowered to.
pub(super) fn lowered(text: &str) -> Module {
    let mut sources = SourceMap::default();
    let (mut module, diags) = parse(&mut sources, "test", text);
    assert!(diags.is_empty(), "{diags:?}");
    let lib = Library::load();
    let mut weights = Weights::new();
    let host = crate::target::Target::native();
    let mut cx = PassCx::new(&lib, &mut weights, &host);
    if let Err(diags) = opt::run_passes(&mut module, &STEPS, &mut cx, &mut |_, _, _| {}) {
        panic!("{diags:?}");
    }
    module
}

/// Arguments with small varied numbers; `dims` gives symbols their values.
pub(super) fn arguments(func: &Func, dims: &BTreeMap<&str, usize>, seed: &mut u64) -> Vec<Tensor> {
    let mut next = || {
        *seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((*seed >> 40) % 2001) as f64 / 1000.0 - 1.0
    };
    let buffers = nest::buffers_of(func);
    func.params
        .iter()
        .map(|param| match buffers.get(&param.name) {
            None => Tensor::scalar(dims.get(param.name.as_str()).copied().unwrap_or(1) as i64),
            Some((dtype, shape)) => {
                let extents: Vec<usize> = shape
                    .iter()
                    .map(|expr| {
                        let dim = crate::shape::Dim::from_expr(expr).expect("a dim");
                        dim.eval(&|name| dims.get(name.as_str()).map(|&dim| dim as i64))
                            .expect("known") as usize
                    })
                    .collect();
                let values: Vec<f64> = (0..extents.iter().product()).map(|_| next()).collect();
                let scale = if *dtype == DType::F32 { 1.0 } else { 5.0 };
                let values: Vec<f64> = values.iter().map(|value| value * scale).collect();
                Tensor::from_f64s(*dtype, extents, &values).expect("fits")
            }
        })
        .collect()
}

fn is_close(a: &Tensor, b: &Tensor) -> bool {
    a.shape == b.shape
        && a.to_f64s().iter().zip(b.to_f64s()).all(|(&a, b)| {
            a == b || (a - b).abs() <= 1e-4 * (1.0 + a.abs()) || (a.is_nan() && b.is_nan())
        })
}

fn text_of(func: &Func) -> String {
    let module = Module {
        items: vec![irc_syntax::Item::Func(func.clone())],
        ..Module::default()
    };
    print(&module)
}

/// Schedules every prim_func of a lowered module and compares results; gives how weights are packed.
pub(super) fn check(
    text: &str,
    dims: &[(&str, usize)],
    target: Target,
    pack: bool,
) -> Vec<Packing> {
    let module = lowered(text);
    let dims: BTreeMap<&str, usize> = dims.iter().copied().collect();
    let mut seed = 7;
    let mut all = Vec::new();
    for func in module.funcs().filter(|func| func.kind == FuncKind::Loops) {
        let mut scheduled = func.clone();
        let last = func.params.len() - 1;
        let weights: BTreeSet<_> = match pack {
            true => func.params[..last]
                .iter()
                .map(|param| param.name.clone())
                .collect(),
            false => BTreeSet::new(),
        };
        let packings = schedule_func(&mut scheduled, &weights, target);
        compare(func, scheduled, &packings, &dims, &mut seed);
        all.extend(packings);
    }
    all
}

/// Computes a function and what became of it.
pub(super) fn compare(
    func: &Func,
    mut scheduled: Func,
    packings: &[Packing],
    dims: &BTreeMap<&str, usize>,
    seed: &mut u64,
) {
    let args = arguments(func, dims, seed);
    let before =
        run_prim_func(func, &args).unwrap_or_else(|error| panic!("{error}\n{}", text_of(func)));
    let mut packed_args = args.clone();
    for packing in packings {
        let at = func
            .params
            .iter()
            .position(|param| param.name == packing.param)
            .expect("there");
        let packed = super::panels::pack(&args[at].clone().into(), packing);
        packed_args[at] = packed.expect("packs").tensor();
        super::pack::retype(&mut scheduled, at, packing).expect("retypes");
    }
    let after = run_prim_func(&scheduled, &packed_args)
        .unwrap_or_else(|error| panic!("{error}\n{}", text_of(&scheduled)));
    for (param, (a, b)) in func.params.iter().zip(before.iter().zip(&after)) {
        if packings.iter().any(|packing| packing.param == param.name) {
            continue;
        }
        assert!(
            is_close(a, b),
            "`{}` differs\n{}\n{}",
            param.name,
            text_of(func),
            text_of(&scheduled)
        );
    }
}

pub(super) fn graph(params: &str, body: &str) -> String {
    let mut text =
        format!("@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n");
    for line in body.lines() {
        text.push_str(&format!("        {}\n", line.trim()));
    }
    text
}

#[test]
fn matmul_with_epilogue() {
    let text = graph(
        "x: R.Tensor((25, 20), \"float32\"), w: R.Tensor((20, 40), \"float32\"), b: R.Tensor((40,), \"float32\")",
        "y = R.matmul(x, w)\nz = R.add(y, b)\nr = R.maximum(z, R.const(0.0, \"float32\"))\nreturn r",
    );
    check(&text, &[], Target::AVX2, false);
    check(&text, &[], Target::AVX512, true);
}

#[test]
fn symbolic_matmul() {
    let text = graph(
        "x: R.Tensor((\"n\", \"m\", 20), \"float32\"), w: R.Tensor((20, 37), \"float32\")",
        "y = R.matmul(x, w)\nz = R.tanh(y)\nreturn z",
    );
    check(&text, &[("n", 2), ("m", 9)], Target::AVX2, true);
}

#[test]
fn convolutions() {
    let text = graph(
        "x: R.Tensor((1, 8, 11, 13), \"float32\"), w: R.Tensor((24, 8, 3, 3), \"float32\"), d: R.Tensor((24, 1, 3, 3), \"float32\")",
        "y = R.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1, 1, 1])\nz = R.maximum(y, R.const(0.0, \"float32\"))\nu = R.nn.conv2d(z, d, padding=[1, 1, 1, 1], groups=24)\nv = R.nn.max_pool2d(u, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])\ng = R.sum(v, axis=[2, 3])\nreturn g",
    );
    check(&text, &[], Target::AVX2, true);
}

#[test]
fn rows_that_are_looked_up() {
    let text = graph(
        "x: R.Tensor((9, \"n\", 70), \"float32\"), i: R.Tensor((), \"int64\"), j: R.Tensor((\"m\",), \"int64\"), w: R.Tensor((8, 40), \"int8\")",
        "y = R.take(x, i, axis=0)\nz = R.take(w, j, axis=0)\nu = R.astype(z, \"float32\")\nv = R.multiply(u, R.const(0.5, \"float32\"))\nreturn (y, v)",
    );
    check(&text, &[("n", 3), ("m", 5)], Target::AVX2, false);
    check(&text, &[("n", 0), ("m", 5)], Target::AVX512, false);
}

#[test]
fn integers_in_pairs() {
    for depth in [2, 8, 37] {
        let text = graph(
            &format!(
                "x: R.Tensor((\"n\", 11, {depth}), \"int16\"), w: R.Tensor(({depth}, 37), \"int8\"), s: R.Tensor((37,), \"float32\")"
            ),
            "y = R.matmul(x, w, out_dtype=\"int32\")\nz = R.astype(y, \"float32\")\nr = R.multiply(z, s)\nreturn r",
        );
        check(&text, &[("n", 2)], Target::AVX2, true);
        check(&text, &[("n", 2)], Target::AVX512, true);
        check(&text, &[("n", 2)], Target::AVX2, false);
    }
}

#[test]
fn integer_convolutions_in_pairs() {
    for channels in [3, 8] {
        let text = graph(
            &format!(
                "x: R.Tensor((1, {channels}, 11, 13), \"int16\"), w: R.Tensor((24, {channels}, 3, 3), \"int8\")"
            ),
            "y = R.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1, 1, 1], out_dtype=\"int32\")\nz = R.astype(y, \"float32\")\nr = R.multiply(z, R.const(0.5, \"float32\"))\nreturn r",
        );
        check(&text, &[], Target::AVX2, true);
    }
}

#[test]
fn rows() {
    let text = graph(
        "x: R.Tensor((\"n\", 5, 70), \"float32\")",
        "m = R.max(x, axis=[2], keepdims=True)\ne = R.exp(R.subtract(x, m))\ns = R.sum(e, axis=[2], keepdims=True)\nz = R.divide(e, s)\nreturn z",
    );
    check(&text, &[("n", 3)], Target::AVX2, false);
}

#[test]
fn attention_in_bands() {
    let body = "s = R.matmul(q, k)\nt = R.add(R.multiply(s, R.const(0.5, \"float32\")), mask)\nm = R.max(t, axis=[-1], keepdims=True)\ne = R.exp(R.subtract(t, m))\nz = R.divide(e, R.sum(e, axis=[-1], keepdims=True))\ny = R.matmul(z, v)\nr = R.multiply(y, gate)\nreturn r";
    let params = |rows: &str, columns: &str| {
        format!(
            "q: R.Tensor((2, {rows}, 20), \"float32\"), k: R.Tensor((2, 20, {columns}), \"float32\"), mask: R.Tensor(({rows}, {columns}), \"float32\"), v: R.Tensor((2, {columns}, 24), \"float32\"), gate: R.Tensor((2, {rows}, 24), \"float32\")"
        )
    };
    let fixed = graph(&params("103", "70"), body);
    assert_eq!(lowered(&fixed).funcs().count(), 2, "one kernel");
    check(&fixed, &[], Target::AVX2, false);
    check(&fixed, &[], Target::AVX512, true);
    let open = graph(&params("\"n\"", "\"m\""), body);
    check(&open, &[("n", 53), ("m", 9)], Target::AVX2, false);
    check(&open, &[("n", 5), ("m", 19)], Target::AVX2, false);
}

/// Weights that the body of a loop captures are packed by the function around it.
#[test]
fn weights_of_loops_are_packed() {
    const TEXT: &str = r#"
@I.ir_module
class Module:
    @R.function(private=True)
    def body(
        i: R.Tensor((), dtype="int64"),
        h: R.Tensor((1, 24), dtype="float32"),
        w: R.Tensor((24, 24), dtype="float32"),
        x: R.Tensor((1, 24), dtype="float32"),
    ) -> R.Tuple(R.Tensor((1, 24), dtype="float32"), R.Tensor((1, 24), dtype="float32")):
        y = R.matmul(h, w)
        z = R.add(y, x)
        n = R.tanh(z)
        return (n, n)

    @R.function
    def main(
        h: R.Tensor((1, 24), dtype="float32"),
        x: R.Tensor((1, 24), dtype="float32"),
        w: R.Tensor((24, 24), dtype="float32"),
    ):
        R.func_attr({"num_input": 2})
        y = I.while_loop(
            cls.body,
            R.const(3, "int64"),
            None,
            (h,),
            (w, x),
            out_ty=[R.Tensor((1, 24), dtype="float32"), R.Tensor((3, 1, 24), dtype="float32")],
        )
        return y
"#;
    let (mut module, diags) = parse(&mut SourceMap::default(), "test", TEXT);
    assert!(diags.is_empty(), "{diags:?}");
    let lib = Library::load();
    let host = crate::target::Target {
        cpu: crate::target::Cpu::V3,
        ..crate::target::Target::native()
    };
    let numbers = |n: usize| {
        (0..n)
            .map(|at| ((at * 7 % 23) as f64 - 11.0) / 40.0)
            .collect::<Vec<_>>()
    };
    let tensor = |shape: [usize; 2]| {
        Tensor::from_f64s(DType::F32, shape.to_vec(), &numbers(shape[0] * shape[1])).expect("fits")
    };
    let mut weights = Weights::new();
    weights.insert("w", tensor([24, 24]));
    let run = |module: &Module, weights: &Weights| {
        let func = module.find_func("main").expect("main");
        let inputs = [tensor([1, 24]), tensor([1, 24])].map(Value::Tensor);
        let own = func
            .params
            .iter()
            .skip(2)
            .map(|param| Value::Tensor(weights.get(&param.name).expect("a weight").tensor()));
        let args = inputs.into_iter().chain(own).collect();
        run_func(module, &lib, "main", args).expect("runs")
    };
    let before = run(&module, &weights);
    let mut steps = STEPS.to_vec();
    steps.push(&super::PASS);
    let mut cx = PassCx::new(&lib, &mut weights, &host);
    if let Err(diags) = opt::run_passes(&mut module, &steps, &mut cx, &mut |_, _, _| {}) {
        panic!("{diags:?}");
    }
    let text = print(&module);
    assert!(text.contains("(x, w_packed)"), "{text}");
    let (Value::Tuple(a), Value::Tuple(b)) = (before, run(&module, &weights)) else {
        panic!("two results");
    };
    for (a, b) in a.iter().zip(&b) {
        let (a, b) = (
            a.as_tensor().expect("a tensor"),
            b.as_tensor().expect("a tensor"),
        );
        assert!(is_close(a, b), "{text}");
    }
}

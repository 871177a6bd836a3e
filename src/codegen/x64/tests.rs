//! Regions from text to running code, against plain loops in Rust.

use std::collections::BTreeMap;

use irc_syntax::{DType, Expr, ExprKind, Func, SourceMap, Stmt, StmtKind};

use super::exec::Loaded;
use crate::codegen::Cpu;
use crate::codegen::kernel::{self, Buffer, Env, Kernel, KernelArg, vir_text};

/// The function of a text, its region and what is in scope.
struct Case {
    region: Vec<Stmt>,
    env: Env,
}

fn parse(text: &str) -> Case {
    let mut sources = SourceMap::default();
    let (module, diagnostics) = irc_syntax::parse(&mut sources, "test.ir", text);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let func = module.funcs().next().expect("a function");
    Case {
        region: region(&func.body).expect("a region").to_vec(),
        env: env(func),
    }
}

/// The statements of the first marked block.
fn region(stmts: &[Stmt]) -> Option<&[Stmt]> {
    stmts.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::With { body, .. } => Some(body.as_slice()),
        StmtKind::For { body, .. } => region(body),
        _ => None,
    })
}

fn env(func: &Func) -> Env {
    let mut env = Env::default();
    for param in &func.params {
        let ty = param.ty.as_ref().expect("a type");
        if ty.is_call_of("T.Buffer") {
            let mut args = ty.positional();
            let shape = args
                .next()
                .and_then(Expr::as_items)
                .expect("a shape")
                .to_vec();
            let dtype = args.next().and_then(Expr::as_str).unwrap_or("float32");
            let dtype = DType::from_name(dtype).expect("a dtype");
            env.buffers.insert(
                param.name.clone(),
                Buffer {
                    dtype,
                    shape,
                    strides: None,
                },
            );
        } else {
            let path = ty.as_path().expect("a scalar type");
            let dtype = DType::from_name(path.trim_start_matches("T.")).expect("a dtype");
            env.scalars.insert(param.name.clone(), dtype);
        }
    }
    fn loops(stmts: &[Stmt], env: &mut Env) {
        for stmt in stmts {
            if let StmtKind::For { target, body, .. } = &stmt.kind
                && let ExprKind::Name(name) = &target.kind
            {
                env.scalars.insert(name.clone(), DType::I64);
                loops(body, env);
            }
        }
    }
    loops(&func.body, &mut env);
    env
}

/// Bytes of a buffer by name, and integers by name.
#[derive(Default)]
pub(super) struct Data {
    buffers: BTreeMap<String, Vec<u8>>,
    ints: BTreeMap<String, i64>,
}

impl Data {
    pub(super) fn floats(mut self, name: &str, values: &[f32]) -> Self {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.buffers.insert(name.to_owned(), bytes);
        self
    }

    pub(super) fn bytes(mut self, name: &str, values: &[u8]) -> Self {
        self.buffers.insert(name.to_owned(), values.to_vec());
        self
    }

    pub(super) fn int(mut self, name: &str, value: i64) -> Self {
        self.ints.insert(name.to_owned(), value);
        self
    }

    pub(super) fn args(&mut self, kernel: &Kernel) -> Vec<u64> {
        kernel
            .args
            .iter()
            .map(|arg| match arg {
                KernelArg::Buffer(name) => self
                    .buffers
                    .get_mut(name.as_str())
                    .expect("a buffer")
                    .as_mut_ptr() as u64,
                KernelArg::Int(name) => *self.ints.get(name.as_str()).expect("an integer") as u64,
                KernelArg::Float(name) => *self.ints.get(name.as_str()).expect("a float") as u64,
            })
            .collect()
    }

    pub(super) fn raw(&self, name: &str) -> &[u8] {
        &self.buffers[name]
    }

    pub(super) fn get(&self, name: &str) -> Vec<f32> {
        self.buffers[name]
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect()
    }
}

/// Code for the machine at hand, and for AVX-512.
pub(super) struct Pair {
    pub(super) kernel: Kernel,
    native: Loaded,
    wide: Kernel,
}

impl Pair {
    pub(super) fn new(text: &str) -> Self {
        let case = parse(text);
        for lanes in [8, 16] {
            let (func, _) = kernel::lower(&case.region, &case.env, lanes).expect("vector IR");
            let text = vir_text::print(&func);
            let back = vir_text::parse(&text).expect("the text of vector IR");
            assert!(vir_text::print(&back) == text && back.body == func.body);
        }
        let wide = kernel::compile(&case.region, &case.env, Cpu::V4).expect("an AVX-512 kernel");
        let kernel = compile(text);
        let native = Loaded::new(&kernel.code);
        Self {
            kernel,
            native,
            wide,
        }
    }

    /// Runs both on the same data, and compares what they write.
    pub(super) fn run(&self, data: &mut Data) {
        let mut other = Data {
            buffers: data.buffers.clone(),
            ints: data.ints.clone(),
        };
        let args = data.args(&self.kernel);
        self.native.call(&args);
        let args = other.args(&self.wide);
        super::emulate::call(&self.wide.code, &args);
        for (name, bytes) in &data.buffers {
            let wide = &other.buffers[name];
            let same = bytes == wide
                || bytes
                    .chunks(4)
                    .zip(wide.chunks(4))
                    .all(|(a, b)| is_near(a, b));
            assert!(same, "AVX-512 writes other values to {name}");
        }
    }
}

/// Equal, or two floats that differ by the order of a sum.
fn is_near(a: &[u8], b: &[u8]) -> bool {
    let (Ok(x), Ok(y)) = (<[u8; 4]>::try_from(a), <[u8; 4]>::try_from(b)) else {
        return a == b;
    };
    let (x, y) = (f32::from_le_bytes(x), f32::from_le_bytes(y));
    a == b || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-5 * x.abs().max(1.0)
}

pub(super) fn compile(text: &str) -> Kernel {
    let case = parse(text);
    let kernel = kernel::compile(&case.region, &case.env, Cpu::V3).expect("a kernel");
    if std::env::var_os("SHOW").is_some() {
        println!("{}", disassemble(&kernel.code));
    }
    kernel
}

pub(super) fn run(text: &str, mut data: Data) -> Data {
    Pair::new(text).run(&mut data);
    data
}

pub(super) fn disassemble(code: &[u8]) -> String {
    use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
    let mut text = String::new();
    let mut formatter = IntelFormatter::new();
    for inst in Decoder::with_ip(64, code, 0, DecoderOptions::NONE).iter() {
        let mut line = String::new();
        formatter.format(&inst, &mut line);
        text.push_str(&format!("{:6x}  {line}\n", inst.ip()));
        if line == "ret" {
            break;
        }
    }
    text
}

pub(super) fn numbers(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

pub(super) fn close(got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len());
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (got - want).abs();
        assert!(
            error <= tolerance * want.abs().max(1.0),
            "at {at}: {got} is not {want}"
        );
    }
}

const GEMM: &str = r#"
@T.prim_func
def gemm(A: T.Buffer((M, K), "float32"), Bp: T.Buffer((4, K, 16), "float32"), bias: T.Buffer((64,), "float32"), C: T.Buffer((M, n), "float32"), M: T.int64, K: T.int64, n: T.int64):
    for mo in range(4):
        for vo in range(4):
            with T.sblock("tile"):
                T.sblock_attr({"irc.kernel": True})
                acc = T.alloc_local((6, 16), "float32")
                for mi in T.unroll(6):
                    for vi in T.vectorized(16):
                        acc[mi, vi] = T.float32(0)
                for k in range(K):
                    for mi in T.unroll(6):
                        for vi in T.vectorized(16):
                            acc[mi, vi] = acc[mi, vi] + A[mo * 6 + mi, k] * Bp[vo, k, vi]
                for mi in T.unroll(6):
                    for vi in T.vectorized(16):
                        if vo * 16 + vi < n:
                            C[mo * 6 + mi, vo * 16 + vi] = T.max(acc[mi, vi] + bias[vo * 16 + vi], T.float32(0))
"#;

fn gemm(m: usize, n: usize, k: usize) {
    let (a, b, bias) = (numbers(m * k, 1), numbers(4 * k * 16, 2), numbers(64, 3));
    let mut want = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            let dot: f64 = (0..k)
                .map(|p| f64::from(a[i * k + p]) * f64::from(b[j / 16 * k * 16 + p * 16 + j % 16]))
                .sum();
            want[i * n + j] = (dot as f32 + bias[j]).max(0.0);
        }
    }
    let pair = Pair::new(GEMM);
    let mut data = Data::default()
        .floats("A", &a)
        .floats("Bp", &b)
        .floats("bias", &bias)
        .floats("C", &vec![7.0; m * n])
        .int("M", m as i64)
        .int("K", k as i64)
        .int("n", n as i64);
    for mo in 0..m / 6 {
        for vo in 0..n.div_ceil(16) {
            data = data.int("mo", mo as i64).int("vo", vo as i64);
            pair.run(&mut data);
        }
    }
    close(&data.get("C"), &want, 1e-5);
}

#[test]
fn gemm_tiles_match_plain_loops() {
    gemm(12, 64, 64);
    gemm(12, 50, 37);
    gemm(6, 3, 1);
    gemm(6, 16, 0);
}

/// The masks of the last panel and the numbers of its lanes are alive around the loop over `k`, and are not in its way:
/// twelve products for two loads of B.
#[test]
fn masks_of_stores_take_no_register_from_products() {
    const TEXT: &str = r#"
@T.prim_func
def gemm(A: T.Buffer((M, 512), "float32"), Bp: T.Buffer((17, 512, 16), "float32"), C: T.Buffer((M, 257), "float32"), M: T.int64):
    for vo in range(17):
        with T.sblock("tile"):
            T.sblock_attr({"irc.kernel": True})
            for mo in range(M // 6):
                acc = T.alloc_local((6, 16), "float32")
                for mi in T.unroll(6):
                    for vi in T.vectorized(16):
                        acc[mi, vi] = T.float32(0)
                for k in range(512):
                    for mi in T.unroll(6):
                        for vi in T.vectorized(16):
                            acc[mi, vi] = acc[mi, vi] + A[mo * 6 + mi, k] * Bp[vo, k, vi]
                for mi in T.unroll(6):
                    for vi in T.vectorized(16):
                        if vo * 16 + vi < 257:
                            C[mo * 6 + mi, vo * 16 + vi] = acc[mi, vi]
"#;
    let listing = disassemble(&compile(TEXT).code);
    let count = |what: &str| listing.lines().filter(|line| line.contains(what)).count();
    assert!(count("vfmadd") > 0);
    assert_eq!(count("vfmadd"), 6 * count("vmovups ymm"), "{listing}");
}

/// Time of one call in nanoseconds, the best of some; printed, never asserted.
pub(super) fn time(mut call: impl FnMut(), calls: u32) -> f64 {
    (0..5)
        .map(|_| {
            let start = std::time::Instant::now();
            (0..calls).for_each(|_| call());
            start.elapsed().as_nanos() as f64 / f64::from(calls)
        })
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn gemm_speed_is_printed() {
    let text = GEMM
        .replace("range(4)", "range(16)")
        .replace("(4, K, 16)", "(16, 256, 16)")
        .replace("range(K)", "range(256)")
        .replace("(M, K)", "(M, 256)")
        .replace("(M, n)", "(M, 256)")
        .replace("bias: T.Buffer((64,)", "bias: T.Buffer((256,)");
    let kernel = compile(&text);
    let code = Loaded::new(&kernel.code);
    let (m, n, k) = (252, 256, 256);
    let mut data = Data::default()
        .floats("A", &numbers(m * k, 1))
        .floats("Bp", &numbers(n * k, 2))
        .floats("bias", &numbers(n, 3))
        .floats("C", &vec![0.0; m * n])
        .int("M", m as i64)
        .int("K", k as i64)
        .int("n", n as i64);
    let mut args = Vec::new();
    for vo in 0..n / 16 {
        for mo in 0..m / 6 {
            data = data.int("mo", mo as i64).int("vo", vo as i64);
            args.push(data.args(&kernel));
        }
    }
    let nanos = time(|| args.iter().for_each(|args| code.call(args)), 5);
    let peak = peak();
    let rate = 2.0 * (m * n * k) as f64 / nanos;
    println!(
        "gemm {m}x{n}x{k}: {rate:.1} GFLOP/s, {:.0} % of {peak:.1}",
        100.0 * rate / peak
    );
}

/// What multiply-adds reach that wait for nothing, in GFLOP/s.
pub(super) fn peak() -> f64 {
    use crate::codegen::kernel::vir::{Builder, Inst, Src, Ty};
    let mut b = Builder::new(8);
    let one = b.f32(1.0);
    let sums: Vec<_> = (0..12)
        .map(|_| b.un(crate::codegen::kernel::vir::UnOp::Copy, one))
        .collect();
    b.open();
    for _ in 0..8 {
        for &dst in &sums {
            b.push(Inst::Fma {
                neg: false,
                dst,
                a: one,
                b: one,
                c: dst,
            });
        }
    }
    let (body, counter) = (b.close(), b.reg(Ty::Int));
    b.push(Inst::Loop {
        counter,
        count: Src::Imm(1000),
        body,
    });
    let out = b.arg(0);
    for &src in &sums {
        let mem = crate::codegen::kernel::vir::Mem::at(out, 0);
        b.push(Inst::Store {
            elem: crate::codegen::kernel::vir::Elem::F32,
            mem,
            src,
            mask: None,
        });
    }
    let code = Loaded::new(&super::compile(&b.finish(), Cpu::V3).expect("code").bytes);
    let mut room = [0f32; 8];
    let args = [room.as_mut_ptr() as u64];
    let nanos = time(|| code.call(&args), 20);
    (12 * 8 * 8 * 2 * 1000) as f64 / nanos
}

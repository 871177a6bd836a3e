//! What the machine can do: two programs of our own, timed on as many threads as the profile uses.

use std::time::Instant;

use crate::cli::Exit;
use crate::cli::data::Data;
use crate::cli::native::Native;
use crate::cli::report::{Failure, Session};
use crate::cli::temporary::Temporary;
use crate::codegen::{Cpu, Target};
use crate::driver::Program;
use crate::syntax::{SourceMap, parse};
use crate::tensor::{Tensor, Weights};

/// Billions a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Peaks {
    /// Operations of float32 multiply-adds, each of which is two.
    pub gops: f64,
    /// Bytes read from memory.
    pub gbs: f64,
    /// Whether they were measured, not stated.
    pub measured: bool,
}

/// A tile of sums that stays in registers, and sums over rows of more bytes than caches hold.
const PROGRAM: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def multiply_add(a: T.Buffer((64, 6), "float32"), b: T.Buffer((64, WIDTH), "float32"), c: T.Buffer((64, 6, WIDTH), "float32")):
        for task in T.parallel(64):
            with T.sblock("tile"):
                T.sblock_attr({"irc.kernel": True})
                acc = T.alloc_local((6, WIDTH), "float32")
                for mi in T.unroll(6):
                    for vi in T.vectorized(WIDTH):
                        acc[mi, vi] = T.float32(0)
                for round, k in T.grid(1024, 64):
                    for mi in T.unroll(6):
                        for vi in T.vectorized(WIDTH):
                            acc[mi, vi] = acc[mi, vi] + a[k, mi] * b[k, vi]
                for mi in T.unroll(6):
                    for vi in T.vectorized(WIDTH):
                        c[task, mi, vi] = acc[mi, vi]

    @R.function
    def compute(a: R.Tensor((64, 6), dtype="float32"), b: R.Tensor((64, WIDTH), dtype="float32")):
        cls = Module
        c = R.call_tir(cls.multiply_add, (a, b), out_ty=R.Tensor((64, 6, WIDTH), dtype="float32"))
        return c

    @R.function
    def read(x: R.Tensor(("n", 4096), dtype="float32")):
        y = R.sum(x, axis=[1])
        return y
"#;

/// Rows of 16 KiB: 128 MiB, more than caches hold.
const ROWS: usize = 8 * 1024;

impl Peaks {
    /// `115,24.5`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| *value > 0.0);
        let parts = text.split_once(',');
        let parts = parts.and_then(|(gops, gbs)| number(gops).zip(number(gbs)));
        match parts {
            Some((gops, gbs)) => Ok(Self {
                gops,
                gbs,
                measured: false,
            }),
            None => Err("two numbers are wanted: `115,24.5`".to_owned()),
        }
    }

    /// Times the two programs; the best of some runs each.
    ///
    /// # Errors
    /// They cannot be run.
    pub fn measure(cpu: &Target, session: &mut Session) -> Result<Result<Self, Exit>, Failure> {
        let failed = |message: String| Failure::new(Exit::RunFailed, message);
        // Twelve sums of whole registers hide how long an addition takes.
        let width = if cpu.cpu == Cpu::V4 { 32 } else { 16 };
        let text = PROGRAM.replace("WIDTH", &width.to_string());
        let (module, _) = parse(&mut SourceMap::new(), "peaks", &text);
        let program = Program {
            module,
            weights: Weights::new(),
        };
        let lib = session.library()?;
        let made = match Temporary::build(program, cpu, &lib)? {
            Ok(made) => made,
            Err(fault) => return Ok(Err(session.show_fault(&fault))),
        };
        let library = Native::open(made.path()).map_err(failed)?;
        let ones = |shape: Vec<usize>| Data::Tensor(Tensor::from_fn(shape, |_| 1.0f32));
        let factors = [ones(vec![64, 6]), ones(vec![64, width])];
        let seconds = best_of(&library, "compute", &factors).map_err(failed)?;
        let operations = 2.0 * 64.0 * 1024.0 * 64.0 * 6.0 * width as f64;
        let gops = operations / seconds / 1e9;
        let rows = [ones(vec![ROWS, 4096])];
        let seconds = best_of(&library, "read", &rows).map_err(failed)?;
        let gbs = (ROWS * 4096 * 4) as f64 / seconds / 1e9;
        Ok(Ok(Self {
            gops,
            gbs,
            measured: true,
        }))
    }
}

fn best_of(library: &Native, func: &str, inputs: &[Data]) -> Result<f64, String> {
    let request = library.prepare(func, inputs)?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        request.run()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

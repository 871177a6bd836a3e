//! Programs run both ways: by the reference interpreter, and compiled, linked and loaded.
//!
//! Inputs are made from the types of the parameters, the same for the same text and sizes. Results agree when dtypes,
//! shapes, integers and booleans are equal and floats within a tolerance of their dtype.

use irc::check::{Info, Type, check};
use irc::cli::data::Data;
use irc::cli::native::Native;
use irc::codegen::Region;
use irc::driver::{self, Fault, Program};
use irc::interp::{Value, run_func};
use irc::library::Library;
use irc::link::WeightPlace;
use irc::syntax::{DType, Diagnostic, Format, Module, Name, SourceMap, render};
use irc::target::{Cpu, Target};
use irc::tensor::{Tensor, Weights};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The standard library, parsed once.
pub static LIBRARY: LazyLock<Library> = LazyLock::new(Library::load);

/// Values of symbols.
pub type Sizes = BTreeMap<Name, i64>;

/// Instruction sets that code is made differently for: Cranelift alone, AVX2, AVX-512.
pub const CPUS: [(Cpu, &str); 3] = [
    (Cpu::V2, "x86-64-v2"),
    (Cpu::V3, "x86-64-v3"),
    (Cpu::V4, "x86-64-v4"),
];

/// Whether this machine runs code for an instruction set.
pub fn is_run_here(cpu: Cpu) -> bool {
    cpu <= Target::native().cpu
}

/// A compiled and linked program.
pub struct Compiled {
    /// The shared object.
    pub bytes: Vec<u8>,
    /// The regions marked for the kernel emitter.
    pub regions: Vec<Region>,
}

/// A loaded shared object, whose file goes away with it.
pub struct Built {
    native: Native,
    path: PathBuf,
}

impl Drop for Built {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Compiles and links a program; with kernels for AVX-512 beside those for AVX2.
pub fn compile(program: Program, cpu: Cpu) -> Result<Compiled, Fault> {
    let target = Target {
        cpu,
        wider: (cpu == Cpu::V3).then_some(Cpu::V4),
        vnni: false,
        ..Target::native()
    };
    let artefact = driver::build(program, &target, &LIBRARY, &mut |_, _, _| {})?;
    let mut bytes = Vec::new();
    driver::write_shared(&artefact, WeightPlace::Embedded, &mut bytes)?;
    Ok(Compiled {
        bytes,
        regions: artefact.object.regions,
    })
}

/// Loads a compiled program.
pub fn load(compiled: &Compiled) -> Result<Built, Fault> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("native");
    let path = folder.join(format!(
        "{}-{}.so",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&path, &compiled.bytes))
        .map_err(|error| Fault::io(error.to_string()))?;
    let native = Native::open(&path).map_err(Fault::io)?;
    Ok(Built { native, path })
}

impl Built {
    /// Calls a function.
    pub fn call(&self, func: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
        let inputs: Vec<Data> = inputs.iter().cloned().map(Data::Tensor).collect();
        let mut tensors = Vec::new();
        for value in self.native.call(func, &inputs)? {
            match value {
                Data::Tensor(tensor) => tensors.push(tensor),
                Data::Seq(items) => tensors.extend(items),
                Data::None => {}
            }
        }
        Ok(tensors)
    }
}

/// A module without weights as a program.
pub fn program(module: &Module) -> Program {
    Program {
        module: module.clone(),
        weights: Weights::new(),
    }
}

/// What a fault says, one line a diagnostic.
pub fn say(fault: &Fault) -> String {
    show(&fault.diagnostics)
}

/// Diagnostics without their places.
pub fn show(diagnostics: &[Diagnostic]) -> String {
    render(
        diagnostics,
        &SourceMap::new(),
        Format::Short,
        Default::default(),
    )
}

/// Runs a function by the interpreter; tuples are flattened, as callers of a shared object get them.
pub fn interpret(module: &Module, func: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let args = inputs.iter().cloned().map(Value::Tensor).collect();
    let result = run_func(module, &LIBRARY, func, args).map_err(|error| error.to_string())?;
    let mut tensors = Vec::new();
    flatten(&result, &mut tensors)?;
    Ok(tensors)
}

/// The tensors of a value.
pub fn flatten(value: &Value, tensors: &mut Vec<Tensor>) -> Result<(), String> {
    if let Some(items) = value.as_items() {
        return items.iter().try_for_each(|item| flatten(item, tensors));
    }
    tensors.push(value.to_tensor(None).map_err(|error| error.to_string())?);
    Ok(())
}

/// The types of a module's functions.
pub fn types(module: &Module) -> Result<Info, String> {
    let (info, faults) = check(module, &LIBRARY);
    if driver::has_error(&faults) {
        return Err(show(&faults));
    }
    Ok(info)
}

/// Inputs of a function for given sizes: small numbers, each input its own.
pub fn inputs(info: &Info, func: &str, sizes: &Sizes) -> Result<Vec<Tensor>, String> {
    let info = info
        .funcs
        .get(&Name::from(func))
        .ok_or_else(|| format!("there is no function `{func}`"))?;
    let mut seed = 7u64;
    info.params
        .iter()
        .map(|(name, ty)| {
            let no = || format!("no value can be made for `{name}`");
            let (dtype, shape) = match ty {
                Type::Tensor(tensor) => tensor.dtype.zip(tensor.shape.as_deref()).ok_or_else(no)?,
                Type::Scalar(dtype) => (*dtype, &[][..]),
                _ => return Err(no()),
            };
            let extents: Option<Vec<usize>> = shape
                .iter()
                .map(|dim| usize::try_from(dim.eval(&|name| sizes.get(name).copied())?).ok())
                .collect();
            let extents =
                extents.ok_or_else(|| format!("the sizes do not fix those of `{name}`"))?;
            let n = extents.iter().product();
            let values: Vec<f64> = (0..n).map(|_| value(dtype, &mut seed)).collect();
            Tensor::from_f64s(dtype, extents, &values).ok_or_else(no)
        })
        .collect()
}

/// A number that its dtype holds exactly.
fn value(dtype: DType, seed: &mut u64) -> f64 {
    *seed = seed
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    let number = (*seed >> 40) % 64;
    match dtype {
        DType::Bool => (number % 2) as f64,
        _ if dtype.is_float() => number as f64 / 16.0 - 2.0,
        _ if dtype.is_signed() => (number % 13) as f64 - 6.0,
        _ => (number % 13) as f64,
    }
}

/// Whether two lists of results are the same as far as their dtypes can tell.
pub fn agree(found: &[Tensor], wanted: &[Tensor]) -> Result<(), String> {
    if found.len() != wanted.len() {
        return Err(format!("{} results, not {}", found.len(), wanted.len()));
    }
    found
        .iter()
        .zip(wanted)
        .try_for_each(|(a, b)| agree_one(a, b))
}

fn agree_one(a: &Tensor, b: &Tensor) -> Result<(), String> {
    if (a.dtype, &a.shape) != (b.dtype, &b.shape) {
        return Err(format!(
            "{} {:?}, not {} {:?}",
            a.dtype, a.shape, b.dtype, b.shape
        ));
    }
    if a.strings != b.strings {
        return Err(format!("{:?}, not {:?}", a.strings, b.strings));
    }
    let (relative, absolute) = tolerance(b.dtype);
    let (a, b) = (a.to_f64s(), b.to_f64s());
    let is_near = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= absolute + relative * b.abs()
    };
    match a.iter().zip(&b).position(|(a, b)| !is_near(*a, *b)) {
        None => Ok(()),
        Some(_) if a.len() <= 32 => Err(format!("{a:?}, not {b:?}")),
        Some(at) => Err(format!("element {at}: {}, not {}", a[at], b[at])),
    }
}

fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (2e-3, 1e-6),
        DType::BF16 => (2e-2, 1e-6),
        dtype if dtype.is_float() => (1e-5, 1e-6),
        _ => (0.0, 0.0),
    }
}

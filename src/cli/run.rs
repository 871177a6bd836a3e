//! `irc run`: calls a function of a program, and shows or compares what it answers.
//!
//! A shared object is loaded; text and ONNX files are built into a temporary one first, or interpreted (`--interp`).
//! With `--data` the inputs are those of an ONNX backend test, and its outputs are what is expected. `--against`,
//! `--trace-values` and `--sane` look at the values inside: `record` has them, `against` and `watch` tell of them.

mod against;
mod record;
mod watch;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::Exit;
use super::build::parse_cpu_here;
use super::compare::{Tolerance, compare};
use super::data::{self, Data};
use super::inputs::{forms, parse_pairs, read_inputs, read_value};
use super::map::show_maps;
use super::native::{Native, Slot};
use super::output::{write_file, write_stdout};
use super::profile;
use super::report::{Failure, Session, read_bytes};
use super::temporary::Temporary;
use crate::check::{Info, Type, check};
use crate::codegen::Target;
use crate::codegen::entry::{Maps, result_names};
use crate::driver::{self, FileKind, Program, has_error};
use crate::interp::{RunError, Value, Watch, run_watched};
use crate::library::Library;
use crate::shape::Dim;
use crate::syntax::{DType, print_expr};
use crate::tensor::{Tensor, print_npy};

/// `irc run FILE [--input x=@x.npy]… [--data DIR] [--expect y=@y.npy]… [--tol RTOL,ATOL]`
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("made").multiple(true).args(["profile", "against", "trace_values", "sane"]))]
pub struct Args {
    /// The program: a shared object that irc made, text, or an ONNX file
    #[arg(value_name = "FILE")]
    file: String,
    /// The function to call
    #[arg(long, value_name = "NAME", default_value = "main")]
    function: String,
    /// An input: `x=@x.npy`, `x=@x.pb`, `x=[[1, 2], [3, 4]]`, `x="text"`, a number for a scalar, `x=[1];[2, 3]` for a sequence, `x={"a": 1}` for a map, or `None`
    #[arg(short, long = "input", value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    /// A folder with input_0.pb… and output_0.pb…, or one with such folders
    #[arg(long, value_name = "DIR", conflicts_with = "inputs")]
    data: Option<PathBuf>,
    /// What a result must be: `y=@y.npy`, or a list
    #[arg(long = "expect", value_name = "NAME=VALUE")]
    expected: Vec<String>,
    /// How far results may be from what is expected: RTOL or RTOL,ATOL
    #[arg(long, value_name = "TOL", value_parser = Tolerance::parse)]
    tol: Option<Tolerance>,
    /// Write a result: `y=@y.npy`
    #[arg(long = "save", value_name = "NAME=@FILE")]
    saved: Vec<String>,
    /// Compute with the reference interpreter
    #[arg(long)]
    interp: bool,
    /// What the code may use, where a program is built first
    #[arg(long, value_name = "CPU", default_value = "native", value_parser = parse_cpu_here)]
    cpu: Target,
    #[command(flatten)]
    watch: watch::Looks,
    #[command(flatten)]
    profile: profile::Options,
}

/// What calls the function.
enum Engine {
    Native(Native),
    Interp(Interp),
}

/// Runs the function; 1 when results differ from what is expected, 5 when it fails.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    if args.profile.is_wanted() {
        let subject = profile::Subject {
            file: &args.file,
            function: &args.function,
            inputs: &args.inputs,
            data: args.data.as_deref(),
            cpu: &args.cpu,
        };
        return profile::run(&args.profile, &subject, session);
    }
    if args.watch.is_wanted() {
        return watch::run(&args, session);
    }
    let mut temporary = None;
    let engine = match open(&args, session, &mut temporary)? {
        Ok(engine) => engine,
        Err(exit) => return Ok(exit),
    };
    match &args.data {
        Some(folder) => run_data(&args, &engine, folder, session),
        None => run_inputs(&args, &engine, session),
    }
}

fn open(
    args: &Args,
    session: &mut Session,
    temporary: &mut Option<Temporary>,
) -> Result<Result<Engine, Exit>, Failure> {
    let path = Path::new(&args.file);
    let io = |message: String| Failure::new(Exit::Io, message);
    let is_library = args.file != "-" && {
        let bytes = read_bytes(&args.file)?;
        driver::recognize(path, &bytes) == FileKind::Library
    };
    if is_library && !args.interp {
        return Ok(Ok(Engine::Native(Native::open(path).map_err(io)?)));
    }
    let lib = session.library()?;
    let program = match session.load(&args.file, &lib) {
        Ok(program) => program,
        Err(fault) => return Ok(Err(session.show_fault(&fault))),
    };
    if args.interp {
        let (info, faults) = check(&program.module, &lib);
        if has_error(&faults) {
            return Ok(Err(session.show_fault(&faults.into())));
        }
        return Ok(Ok(Engine::Interp(Interp { program, lib, info })));
    }
    let made = match Temporary::build(program, &args.cpu, &lib)? {
        Ok(made) => temporary.insert(made),
        Err(fault) => return Ok(Err(session.show_fault(&fault))),
    };
    Ok(Ok(Engine::Native(Native::open(made.path()).map_err(io)?)))
}

impl Engine {
    fn slots(&self, func: &str) -> Result<(Vec<Slot>, Vec<Slot>), Failure> {
        let (slots, known) = match self {
            Self::Native(native) => (
                native.interface.slots(func),
                native.interface.functions().join(", "),
            ),
            Self::Interp(interp) => (interp.slots(func), interp.functions().join(", ")),
        };
        slots.ok_or_else(|| {
            let message = format!("there is no function `{func}`; there are: {known}");
            Failure::new(Exit::Usage, message)
        })
    }

    fn maps(&self, func: &str) -> Maps {
        match self {
            Self::Native(native) => native.interface.maps(func),
            Self::Interp(interp) => {
                let func = interp.program.module.find_func(func);
                func.map(Maps::of).unwrap_or_default()
            }
        }
    }

    fn call(&self, func: &str, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let results = match self {
            Self::Native(native) => native.call(func, inputs),
            Self::Interp(interp) => interp.call(func, inputs),
        };
        results.map_err(|message| Failure::new(Exit::RunFailed, message))
    }
}

/// A program that the reference interpreter runs.
struct Interp {
    program: Program,
    lib: Library,
    info: Info,
}

impl Interp {
    fn functions(&self) -> Vec<&str> {
        self.info.funcs.keys().map(|name| name.as_str()).collect()
    }

    /// The inputs and results of a function.
    fn slots(&self, func: &str) -> Option<(Vec<Slot>, Vec<Slot>)> {
        let info = self.info.funcs.get(func)?;
        let inputs = info.params.iter().take(info.num_input);
        let inputs = inputs.map(|(name, ty)| slot(name.as_str(), ty)).collect();
        let results = match &info.ret {
            Some(Type::Tuple(members)) => members.clone(),
            Some(ty) => vec![ty.clone()],
            None => Vec::new(),
        };
        let names = result_names(self.program.module.find_func(func)?, results.len());
        let results = names.iter().zip(&results);
        let results = results.map(|(name, ty)| slot(name, ty)).collect();
        Some((inputs, results))
    }

    fn call(&self, func: &str, inputs: &[Data]) -> Result<Vec<Data>, String> {
        self.call_watched(func, inputs, None)
    }

    fn call_watched<'a>(
        &'a self,
        func: &str,
        inputs: &[Data],
        watch: Option<Watch<'a>>,
    ) -> Result<Vec<Data>, String> {
        let info = self
            .info
            .funcs
            .get(func)
            .ok_or("there is no such function")?;
        let mut args: Vec<Value> = inputs.iter().map(to_value).collect();
        for (name, _) in info.params.iter().skip(info.num_input) {
            let weight = self.program.weights.get(name.as_str());
            let weight = weight.ok_or_else(|| format!("the weight `{name}` is missing"))?;
            args.push(Value::Tensor(weight.tensor()));
        }
        let result = run_watched(&self.program.module, &self.lib, func, args, watch);
        let result = result.map_err(|error| error.to_string())?;
        let items = match result {
            Value::Tuple(items) => items,
            value => vec![value],
        };
        let results: Result<Vec<Data>, _> = items.iter().map(from_value).collect();
        results.map_err(|error| error.to_string())
    }
}

fn to_value(data: &Data) -> Value {
    match data {
        Data::Tensor(tensor) => Value::Tensor(tensor.clone()),
        Data::Seq(items) => Value::Seq(items.iter().cloned().map(Value::Tensor).collect()),
        Data::None => Value::None,
    }
}

fn from_value(value: &Value) -> Result<Data, RunError> {
    Ok(match value {
        Value::None => Data::None,
        // A tuple inside the results is a sequence that is written out.
        Value::Seq(items) | Value::Tuple(items) => {
            let items = items.iter().map(|item| item.to_tensor(None));
            Data::Seq(items.collect::<Result<_, _>>()?)
        }
        value => Data::Tensor(value.to_tensor(None)?),
    })
}

fn dtype_of(ty: &Type) -> Option<DType> {
    ty.as_tensor().and_then(|tensor| tensor.dtype)
}

fn dims_of(dims: Option<&[Dim]>) -> Vec<String> {
    let dims = dims.unwrap_or_default().iter();
    dims.map(|dim| print_expr(&dim.to_expr())).collect()
}

fn slot(name: &str, ty: &Type) -> Slot {
    let (kind, dtype) = match ty {
        Type::Tensor(tensor) => ("tensor", tensor.dtype),
        Type::Scalar(dtype) => ("scalar", Some(*dtype)),
        Type::Shape(_) => ("shape", None),
        Type::Seq(inner) => ("sequence", dtype_of(inner)),
        Type::Opt(inner) => match &**inner {
            Type::Seq(inner) => ("optional sequence", dtype_of(inner)),
            inner => ("optional tensor", dtype_of(inner)),
        },
        _ => ("value", None),
    };
    Slot {
        name: name.to_string(),
        kind: kind.to_string(),
        dtype,
        rank: ty.as_tensor().and_then(|tensor| tensor.ndim).unwrap_or(0),
        dims: match ty {
            Type::Tensor(tensor) => dims_of(tensor.shape.as_deref()),
            Type::Shape(dims) => dims_of(dims.as_deref()),
            _ => Vec::new(),
        },
    }
}

/// Runs every data set of a folder.
fn run_data(
    args: &Args,
    engine: &Engine,
    folder: &Path,
    session: &mut Session,
) -> Result<Exit, Failure> {
    let sets = data::find_sets(folder)?;
    let (params, results) = engine.slots(&args.function)?;
    let (inputs, outputs) = (forms(&params), forms(&results));
    let mut exit = Exit::Good;
    for set in &sets {
        let tolerance = args
            .tol
            .or_else(|| Tolerance::read(set))
            .or_else(|| Tolerance::read(set.parent()?))
            .unwrap_or_default();
        let given = data::read(set, "input", &inputs)?;
        let wanted = data::read(set, "output", &outputs)?;
        let got = engine.call(&args.function, &given)?;
        let outcome = compare_all(&got, &wanted, tolerance);
        let name = set.file_name().map(Path::new).unwrap_or(set).display();
        match outcome {
            Ok(()) => write_stdout(format!("{name}: pass\n").as_bytes())?,
            Err(why) => {
                session.say(&format!("error: {name}: {why}\n"));
                exit = Exit::No;
            }
        }
    }
    Ok(exit)
}

fn compare_all(got: &[Data], wanted: &[Data], tolerance: Tolerance) -> Result<(), String> {
    if got.len() < wanted.len() {
        return Err(format!("{} results, wanted {}", got.len(), wanted.len()));
    }
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        compare_data(got, wanted, tolerance).map_err(|why| format!("output {i}: {why}"))?;
    }
    Ok(())
}

fn compare_data(got: &Data, wanted: &Data, tolerance: Tolerance) -> Result<(), String> {
    match (got, wanted) {
        (Data::Tensor(got), Data::Tensor(wanted)) => compare(got, wanted, tolerance),
        (Data::Seq(got), Data::Seq(wanted)) => {
            if got.len() != wanted.len() {
                let (got, wanted) = (got.len(), wanted.len());
                return Err(format!("a sequence of {got}, wanted {wanted}"));
            }
            for (at, (got, wanted)) in got.iter().zip(wanted).enumerate() {
                compare(got, wanted, tolerance).map_err(|why| format!("element {at}: {why}"))?;
            }
            Ok(())
        }
        (Data::None, Data::None) => Ok(()),
        _ => Err("another kind of value is wanted".to_owned()),
    }
}

/// Runs the function on the inputs of the command line.
fn run_inputs(args: &Args, engine: &Engine, session: &mut Session) -> Result<Exit, Failure> {
    let (params, results) = engine.slots(&args.function)?;
    let maps = engine.maps(&args.function);
    let missing = |param: &Slot| {
        let message = format!("input `{}` is missing: --input {0}=@FILE", param.name);
        Err(Failure::new(Exit::Usage, message))
    };
    let inputs = read_inputs(&args.inputs, &params, &maps, &missing)?;
    let got = engine.call(&args.function, &inputs)?;
    let named: BTreeMap<&str, &Data> = results
        .iter()
        .map(|slot| slot.name.as_str())
        .zip(&got)
        .collect();
    let find = |name: &str| {
        named.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = named.keys().copied().collect();
            let message = format!(
                "there is no result `{name}`; there are: {}",
                known.join(", ")
            );
            Failure::new(Exit::Usage, message)
        })
    };
    for (name, text) in parse_pairs(&args.saved)? {
        let path = text.strip_prefix('@').unwrap_or(&text);
        let bytes = print_npy(as_tensor(&name, find(&name)?)?)
            .map_err(|error| Failure::new(Exit::Unsupported, error.to_string()))?;
        write_file(Path::new(path), &bytes)?;
    }
    let expected = parse_pairs(&args.expected)?;
    let mut exit = Exit::Good;
    for (name, text) in &expected {
        let got = as_tensor(name, find(name)?)?;
        let wanted = read_value(text, Some(got.dtype))?;
        if let Err(why) = compare(got, &wanted, args.tol.unwrap_or_default()) {
            session.say(&format!("error: `{name}`: {why}\n"));
            exit = Exit::No;
        }
    }
    if expected.is_empty() && args.saved.is_empty() {
        let mut text = String::new();
        let mut all = results.iter().zip(&got).enumerate();
        while let Some((at, (slot, value))) = all.next() {
            let map = maps.results.iter().find(|(_, keys)| *keys == at);
            match (map, value, got.get(at + 1)) {
                (Some((name, _)), Data::Tensor(keys), Some(Data::Tensor(values))) => {
                    show_maps(&mut text, name, keys, values);
                    all.next();
                }
                _ => show(&mut text, &slot.name, value),
            }
        }
        write_stdout(text.as_bytes())?;
    }
    Ok(exit)
}

/// The tensor that a result is.
fn as_tensor<'d>(name: &str, value: &'d Data) -> Result<&'d Tensor, Failure> {
    match value {
        Data::Tensor(tensor) => Ok(tensor),
        Data::Seq(_) | Data::None => Err(Failure::new(
            Exit::Unsupported,
            format!("`{name}` is no tensor"),
        )),
    }
}

/// One line a tensor.
fn show(text: &mut String, name: &str, value: &Data) {
    match value {
        Data::Tensor(tensor) => {
            let (dtype, shape) = (tensor.dtype, &tensor.shape);
            let _ = writeln!(text, "{name}: {dtype}{shape:?} {}", head(tensor));
        }
        Data::Seq(items) => {
            let _ = writeln!(text, "{name}: a sequence of {}", items.len());
            for (at, tensor) in items.iter().enumerate() {
                let (dtype, shape) = (tensor.dtype, &tensor.shape);
                let _ = writeln!(text, "{name}[{at}]: {dtype}{shape:?} {}", head(tensor));
            }
        }
        Data::None => {
            let _ = writeln!(text, "{name}: None");
        }
    }
}

/// The first elements of a tensor.
fn head(tensor: &Tensor) -> String {
    const SHOWN: usize = 16;
    let texts: Vec<String> = if let Some(strings) = &tensor.strings {
        strings
            .iter()
            .take(SHOWN)
            .map(|text| format!("{text:?}"))
            .collect()
    } else if tensor.dtype.is_float() {
        tensor
            .to_f64s()
            .iter()
            .take(SHOWN)
            .map(|value| format!("{}", *value as f32))
            .collect()
    } else {
        tensor
            .to_i64s()
            .iter()
            .take(SHOWN)
            .map(ToString::to_string)
            .collect()
    };
    let more = if tensor.len() > SHOWN { " …" } else { "" };
    format!("{}{more}", texts.join(" "))
}

//! `irc run --trace-values FILE` and `--sane`: every value inside a function, and the first that is no finite number.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::record::{How, Recording, Seen, open};
use super::{Args, Engine, Interp, against};
use crate::cli::Exit;
use crate::cli::compare::place;
use crate::cli::data::{self, Data};
use crate::cli::inputs::{forms, make_input, parse_sizes, read_inputs};
use crate::cli::output::{write_output, write_stdout};
use crate::cli::report::{Failure, Session};
use crate::edit::expose::{find_binding, reads_of};
use crate::syntax::uses::for_each_expr;
use crate::syntax::{Diagnostic, Expr, ExprKind, Name, Span, Stmt, StmtKind};
use crate::tensor::{Stats, Tensor, parse_const, print_npz};

/// What of the values inside is asked for.
#[derive(clap::Args)]
pub struct Looks {
    /// Find the first value that differs from another program's (of the same name, or as `irc diff` matches them), from the interpreter's (`interp`), or from that of the same name in a folder of .npy and .pb files, an .npz or a .safetensors file
    #[arg(long, value_name = "B", conflicts_with_all = ["profile", "expected", "saved"])]
    against: Option<String>,
    /// Write every value that the function binds: their contents as .npz, or a line of JSON each with shape, dtype, range, mean and how many are NaN or infinite, where FILE ends in .jsonl. Of values in branches only the interpreter has any
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "expected", "saved"])]
    trace_values: Option<PathBuf>,
    /// Find the first value that is NaN, or infinite though what it is computed from is not
    #[arg(long, conflicts_with_all = ["profile", "expected", "saved"])]
    sane: bool,
}

impl Looks {
    /// Whether any of it is.
    pub fn is_wanted(&self) -> bool {
        self.against.is_some() || self.trace_values.is_some() || self.sane
    }
}

/// Runs the function and looks at its values; 1 where they diverge or are not finite. Inputs that are not given are made.
pub(super) fn run(args: &Args, session: &mut Session) -> Result<Exit, Failure> {
    let engine = match open(&args.file, session)? {
        Ok(engine) => engine,
        Err(exit) => return Ok(exit),
    };
    let inputs = inputs(args, &engine)?;
    let how = if args.interp {
        How::Interp
    } else {
        How::Native(&args.cpu)
    };
    let options = &args.watch;
    let mut exit = Exit::Good;
    if options.trace_values.is_some() || options.sane {
        let Engine::Interp(program) = &engine else {
            let message = format!(
                "the values inside {} cannot be seen: give the program that it was made of",
                args.file
            );
            return Err(Failure::new(Exit::Unsupported, message));
        };
        let recording = match program.record(&how, &args.function, &inputs, session)? {
            Ok(recording) => recording,
            Err(exit) => return Ok(exit),
        };
        if let Some(path) = &options.trace_values {
            write_trace(path, &recording, session)?;
        }
        if options.sane {
            exit = sane(program, &args.function, &inputs, &recording, session)?;
        }
    }
    if let (Some(other), true) = (&options.against, exit == Exit::Good) {
        exit = against::run(args, other, &engine, &how, &inputs, session)?;
    }
    Ok(exit)
}

/// The inputs: of the data set, or of the command line and made.
fn inputs(args: &Args, engine: &Engine) -> Result<Vec<Data>, Failure> {
    let params = engine.inputs(&args.function)?;
    let Some(folder) = &args.data else {
        let sizes = parse_sizes(&args.profile.sizes)?;
        let maps = engine.maps(&args.function);
        return read_inputs(&args.inputs, &params, &maps, &|param| {
            make_input(param, &sizes)
        });
    };
    let sets = data::find_sets(folder)?;
    let [set] = sets.as_slice() else {
        let message = format!(
            "{} has {} data sets: name one of them",
            folder.display(),
            sets.len()
        );
        return Err(Failure::new(Exit::Usage, message));
    };
    let inputs = data::read(set, "input", &forms(&params))?;
    if inputs.len() != params.len() {
        let message = format!(
            "{} has {} inputs, wanted {}",
            set.display(),
            inputs.len(),
            params.len()
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(inputs)
}

/// Writes all values: contents, or what can be said of them.
fn write_trace(path: &Path, recording: &Recording, session: &Session) -> Result<(), Failure> {
    let mut rows: Vec<(String, &Tensor)> = Vec::new();
    for seen in &recording.values {
        push_rows(&mut rows, &seen.inner.key(), &seen.data);
    }
    if path.extension().is_some_and(|suffix| suffix == "jsonl") {
        let lines: String = rows
            .iter()
            .map(|(name, tensor)| format!("{}\n", line(name, tensor)))
            .collect();
        return write_output(Some(path), lines.as_bytes());
    }
    let is_text = |tensor: &Tensor| tensor.strings.is_some();
    let n_texts = rows.iter().filter(|(_, tensor)| is_text(tensor)).count();
    if n_texts > 0 {
        let values = if n_texts == 1 {
            "value of text is"
        } else {
            "values of text are"
        };
        let why = "`.npz` has no form of it";
        session.say(&format!("note: {n_texts} {values} left out: {why}\n"));
    }
    let tensors = rows.iter().filter(|(_, tensor)| !is_text(tensor));
    let bytes = print_npz(tensors.map(|(name, tensor)| (name.as_str(), *tensor)))
        .map_err(|error| Failure::new(Exit::Unsupported, error.to_string()))?;
    write_output(Some(path), &bytes)
}

/// A value as tensors: of a sequence one an element, of an optional none where it has no value.
fn push_rows<'d>(rows: &mut Vec<(String, &'d Tensor)>, name: &str, data: &'d Data) {
    match data {
        Data::Tensor(tensor) => rows.push((name.to_owned(), tensor)),
        Data::Seq(items) => {
            let items = items.iter().enumerate();
            rows.extend(items.map(|(at, tensor)| (format!("{name}.{at}"), tensor)));
        }
        Data::None => {}
    }
}

fn line(name: &str, tensor: &Tensor) -> Json {
    let mut line = json!({
        "name": name,
        "dtype": tensor.dtype.name(),
        "shape": tensor.shape,
    });
    if let (Some(stats), Some(line)) = (Stats::of(tensor), line.as_object_mut()) {
        // JSON has no infinities; they are null, and counted.
        line.insert("min".to_owned(), json!(stats.min));
        line.insert("max".to_owned(), json!(stats.max));
        line.insert("mean".to_owned(), json!(stats.mean));
        line.insert("nan".to_owned(), json!(stats.n_nan));
        line.insert("inf".to_owned(), json!(stats.n_inf));
    }
    line
}

/// Reports the first value that is not sane.
fn sane(
    program: &Interp,
    func_name: &str,
    inputs: &[Data],
    recording: &Recording,
    session: &Session,
) -> Result<Exit, Failure> {
    let (Some(func), Some(info)) = (program.func(func_name), program.info.funcs.get(func_name))
    else {
        return Ok(Exit::Good);
    };
    let mut known: BTreeMap<String, Bad> = BTreeMap::new();
    for (at, (name, _)) in info.params.iter().enumerate() {
        let weight = program.program.weights.get(name.as_str());
        let (what, bad) = match inputs.get(at).filter(|_| at < info.num_input) {
            Some(data) => ("input", Bad::of(data)),
            None => {
                let tensor = weight.map(|weight| Data::Tensor(weight.tensor()));
                (
                    "weight",
                    tensor.map_or_else(Bad::default, |data| Bad::of(&data)),
                )
            }
        };
        // Weights may be infinite on purpose: masks are.
        if bad.n_nan > 0 || (what == "input" && bad.n_inf > 0) {
            let span = func.params.get(at).and_then(|param| param.span);
            session.show(&[bad.report(&format!("the {what} `{name}`"), span)]);
            return Ok(Exit::No);
        }
        known.insert(name.to_string(), bad);
    }
    let values = recording.values.iter().map(|seen| {
        let stmt = find_binding(&func.body, &seen.inner.name);
        (Some(seen), stmt, Bad::of(&seen.data))
    });
    let results = recording
        .results
        .iter()
        .map(|data| (None, returned(&func.body), Bad::of(data)));
    let mut n_values = 0;
    for (seen, stmt, bad) in values.chain(results) {
        n_values += 1;
        let reads = match (seen, stmt) {
            (Some(seen), _) => seen.inner.reads.clone(),
            (None, Some(stmt)) => reads_of(stmt),
            (None, None) => Vec::new(),
        };
        let is_stated = stmt.is_some_and(states_infinity)
            || reads
                .iter()
                .any(|name| of_name(&known, name).any(|(_, bad)| bad.n_inf > 0));
        if bad.n_nan > 0 || (bad.n_inf > 0 && !is_stated) {
            session.show(&[report(seen, stmt, &bad, &reads, &known)]);
            return Ok(Exit::No);
        }
        if let Some(seen) = seen {
            known.insert(seen.inner.key(), bad);
        }
    }
    write_stdout(format!("{n_values} values are sane\n").as_bytes())?;
    Ok(Exit::Good)
}

/// What is known of a name: of itself, or of its members.
fn of_name<'k>(
    known: &'k BTreeMap<String, Bad>,
    name: &'k Name,
) -> impl Iterator<Item = (&'k String, &'k Bad)> {
    known.iter().filter(move |(key, _)| {
        let rest = key.strip_prefix(name.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

fn report(
    seen: Option<&Seen>,
    stmt: Option<&Stmt>,
    bad: &Bad,
    reads: &[Name],
    known: &BTreeMap<String, Bad>,
) -> Diagnostic {
    let (what, span) = match seen {
        Some(seen) => (format!("`{}`", seen.inner.key()), seen.inner.span),
        None => ("the result".to_owned(), stmt.and_then(|stmt| stmt.span)),
    };
    let mut diag = bad.report(&what, span);
    let (mut finite, mut others) = (Vec::new(), Vec::new());
    for name in reads {
        for (key, bad) in of_name(known, name) {
            if bad.n_nan + bad.n_inf == 0 {
                finite.push(format!("`{key}`"));
            } else {
                others.push(format!("`{key}` holds {}", bad.count()));
            }
        }
    }
    if !finite.is_empty() {
        let verb = if finite.len() == 1 { "is" } else { "are" };
        diag = diag.note(format!("{} {verb} finite", finite.join(", ")));
    }
    for other in others {
        diag = diag.note(other);
    }
    diag
}

/// How many values of a value are no finite numbers.
#[derive(Default)]
struct Bad {
    n_nan: usize,
    n_inf: usize,
    n_all: usize,
    /// The first of them, and where it is.
    first: Option<(Vec<usize>, f64)>,
    ty: String,
}

impl Bad {
    fn of(data: &Data) -> Self {
        let tensors = match data {
            Data::Tensor(tensor) => std::slice::from_ref(tensor),
            Data::Seq(items) => items.as_slice(),
            Data::None => &[],
        };
        let mut res = Self::default();
        for tensor in tensors.iter().filter(|tensor| tensor.dtype.is_float()) {
            for (at, value) in tensor.to_f64s().into_iter().enumerate() {
                if value.is_finite() {
                    continue;
                }
                if value.is_nan() {
                    res.n_nan += 1;
                } else {
                    res.n_inf += 1;
                }
                if res.first.is_none() {
                    let place = place(&tensor.shape, at);
                    res.first = Some((place, value));
                    res.ty = format!("{}{:?}", tensor.dtype, tensor.shape);
                }
            }
            res.n_all += tensor.len();
        }
        res
    }

    fn count(&self) -> String {
        match (self.n_nan, self.n_inf) {
            (nan, 0) => format!("{nan} NaN"),
            (0, inf) => format!("{inf} infinite"),
            (nan, inf) => format!("{nan} NaN and {inf} infinite"),
        }
    }

    fn report(&self, what: &str, span: Option<Span>) -> Diagnostic {
        let message = format!(
            "{what} is not finite: {} of {} values",
            self.count(),
            self.n_all
        );
        let diag = Diagnostic::error("value-not-finite", message).at(span, "first here");
        match &self.first {
            Some((place, value)) => diag.note(format!("{}, first {value} at {place:?}", self.ty)),
            None => diag,
        }
    }
}

/// Whether a statement writes an infinity down.
fn states_infinity(stmt: &Stmt) -> bool {
    let mut res = false;
    for_each_expr(std::slice::from_ref(stmt), &mut |expr| {
        res |= is_infinity(expr);
    });
    res
}

fn is_infinity(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Float(value) => value.is_infinite(),
        ExprKind::Attr { .. } => expr.as_path().as_deref() == Some("I.inf"),
        ExprKind::Str(text) => matches!(text.as_str(), "inf" | "-inf"),
        ExprKind::Call { .. } if expr.is_call_of("R.const") => {
            let tensor = expr.as_call().and_then(|(_, args)| parse_const(args).ok());
            let stats = tensor.and_then(|tensor| Stats::of(&tensor));
            stats.is_some_and(|stats| stats.n_inf > 0)
        }
        _ => false,
    }
}

/// The statement that gives the result.
fn returned(body: &[Stmt]) -> Option<&Stmt> {
    let is_return = |stmt: &&Stmt| matches!(stmt.kind, StmtKind::Return(_));
    body.iter().rev().find(is_return)
}

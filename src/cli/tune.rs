//! `irc tune`: searches what the schedule decides for each kernel, by measuring on this machine.
//!
//! Every candidate is tried on all kernels at once: the program is built with it for profiles, and called in turn with
//! the best so far, so that each kernel is measured where it stands, between the others. Candidates come in stages, the
//! method, the shape of tiles, their order, then the size of tasks, each upon what the ones before chose. A kernel keeps a candidate
//! that is faster than all before; at the end what is not faster than the schedule's own formulas is dropped.

mod candidates;
mod log;

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Exit;
use super::bench::inputs_for;
use super::build::parse_cpu_here;
use super::data::Data;
use super::native::Native;
use super::output::write_output;
use super::report::{Failure, Session};
use super::temporary::Temporary;
use crate::codegen::{PROFILE, Target};
use crate::driver::{self, Fault, Program};
use crate::library::Library;
use crate::sched::choice::Choice;
use crate::sched::tuned;
use crate::syntax::{Expr, Func, FuncKind, Module, Stmt, StmtKind};
use candidates::Stage;
pub use log::Log;

/// `irc tune FILE -o tuned.json [--size n=128]`
#[derive(clap::Args)]
pub struct Args {
    /// The program: text or an ONNX file; `-` is stdin
    #[arg(value_name = "FILE")]
    file: String,
    /// Where the choices go, for `irc build --tuned`; `-` is stdout
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// The function to call
    #[arg(long, value_name = "NAME", default_value = "main")]
    function: String,
    /// An input, as `irc run` takes it; those that are not given are made
    #[arg(short, long = "input", value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    /// A folder with input_0.pb…, or one with such folders, of which the first is taken
    #[arg(long, value_name = "DIR", conflicts_with_all = ["inputs", "sizes"])]
    data: Option<PathBuf>,
    /// The value of a symbol in the shapes of inputs that are made: `n=128`
    #[arg(long = "size", value_name = "SYMBOL=NUMBER")]
    sizes: Vec<String>,
    /// Seconds that each candidate is called for; at least three calls are made
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = super::bench::parse_seconds)]
    seconds: f64,
    /// What part of its time a kernel must save to be given a choice: `3%`
    #[arg(long, value_name = "PART", default_value = "3%", value_parser = super::bench::parse_part)]
    least: f64,
    /// What the code may use
    #[arg(long, value_name = "CPU", default_value = "native", value_parser = parse_cpu_here)]
    cpu: Target,
}

/// Searches and writes the log; 5 when a call fails.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let lib = session.library()?;
    let program = match session.load(&args.file, &lib) {
        Ok(program) => program,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    let mut search = Search {
        args: &args,
        program,
        lib: &lib,
        is_shown: std::io::stderr().is_terminal(),
        keys: BTreeMap::new(),
        chosen: BTreeMap::new(),
    };
    let mut lowered = search.program.clone();
    driver::set_attr(&mut lowered.module, tuned::LOG, Expr::dict([]));
    if let Err(fault) = driver::run_to(&mut lowered, &tuned::PASS, &args.cpu, &lib) {
        return Ok(session.show_fault(&fault));
    }
    search.keys = keys_of(&lowered.module);
    match search.run(session)? {
        Ok(log) => {
            write_output(Some(&args.output), log.to_text().as_bytes())?;
            Ok(Exit::Good)
        }
        Err(fault) => Ok(session.show_fault(&fault)),
    }
}

/// A program that is built with some choices and can be called.
struct Version {
    library: Native,
    inputs: Vec<Data>,
    /// The code of each prim_func as it is scheduled.
    code: BTreeMap<String, Vec<Stmt>>,
}

/// The least time of each kernel in a request, by key.
type Times = BTreeMap<String, Duration>;

struct Search<'a> {
    args: &'a Args,
    program: Program,
    lib: &'a Library,
    is_shown: bool,
    /// The key of each prim_func.
    keys: BTreeMap<String, String>,
    /// What kernels have been given, by key.
    chosen: BTreeMap<String, Choice>,
}

impl Search<'_> {
    fn run(&mut self, session: &mut Session) -> Result<Result<Log, Fault>, Failure> {
        let mut best = match self.build(|_| Choice::FORMULA)? {
            Ok(version) => version,
            Err(fault) => return Ok(Err(fault)),
        };
        let keys: BTreeSet<&String> = self.keys.values().collect();
        let n_keys = keys.len();
        let stages = candidates::stages(self.args.cpu.cpu);
        let n_builds: usize = stages.iter().map(|stage| stage.candidates.len() + 1).sum();
        let mut done = 0;
        for Stage { candidates } in &stages {
            let mut found: BTreeMap<String, (f64, Choice)> = BTreeMap::new();
            for candidate in candidates {
                done += 1;
                self.show(
                    session,
                    &format!("{done} of {n_builds} builds: {candidate:?}"),
                );
                let version = match self.build(|key| candidate.or(self.choice(key)))? {
                    Ok(version) => version,
                    Err(fault) => return Ok(Err(fault)),
                };
                let changed = self.changed_keys(&best, &version);
                if changed.is_empty() {
                    continue;
                }
                let (before, after) = self.measure(&best, &version)?;
                for key in &changed {
                    let (Some(before), Some(after)) = (before.get(key), after.get(key)) else {
                        continue;
                    };
                    let ratio = after.as_secs_f64() / before.as_secs_f64().max(1e-9);
                    let least = found
                        .get(key)
                        .map_or(1.0 - self.args.least, |(least, _)| *least);
                    if ratio < least {
                        found.insert(key.clone(), (ratio, candidate.or(self.choice(key))));
                    }
                }
            }
            done += 1;
            if found.is_empty() {
                continue;
            }
            self.show(
                session,
                &format!("{done} of {n_builds} builds: the best so far"),
            );
            for (key, (_, choice)) in found {
                self.chosen.insert(key, choice);
            }
            best = match self.build(|key| self.choice(key))? {
                Ok(version) => version,
                Err(fault) => return Ok(Err(fault)),
            };
        }
        let formula = match self.build(|_| Choice::FORMULA)? {
            Ok(version) => version,
            Err(fault) => return Ok(Err(fault)),
        };
        let (before, after) = self.measure(&formula, &best)?;
        self.show(session, "");
        let mut log = Log::new(&self.args.cpu);
        for (key, choice) in &self.chosen {
            let (Some(before), Some(after)) = (before.get(key), after.get(key)) else {
                continue;
            };
            if after.as_secs_f64() < before.as_secs_f64() * (1.0 - self.args.least) {
                let name = self.keys.iter().find(|(_, of)| *of == key);
                let name = name.map_or("", |(name, _)| name.as_str());
                log.insert(key, name, *choice, *before, *after);
            }
        }
        session.say(&log.summary(n_keys));
        Ok(Ok(log))
    }

    fn choice(&self, key: &str) -> Choice {
        self.chosen.get(key).copied().unwrap_or(Choice::FORMULA)
    }

    /// Builds the program with a choice for each key.
    fn build(&self, choice: impl Fn(&str) -> Choice) -> Result<Result<Version, Fault>, Failure> {
        let mut log = Log::new(&self.args.cpu);
        for key in self.keys.values() {
            log.insert(key, "", choice(key), Duration::ZERO, Duration::ZERO);
        }
        let mut program = self.program.clone();
        driver::set_attr(&mut program.module, tuned::LOG, log.to_expr());
        driver::set_attr(&mut program.module, PROFILE, Expr::bool(true));
        let mut code = BTreeMap::new();
        let built =
            Temporary::build_seen(program, &self.args.cpu, self.lib, &mut |pass, module, _| {
                if pass == crate::sched::PASS.name {
                    code = code_of(module);
                }
            });
        let file = match built? {
            Ok(file) => file,
            Err(fault) => return Ok(Err(fault)),
        };
        let library = Native::open(file.path()).map_err(|why| Failure::new(Exit::Io, why))?;
        let args = self.args;
        let folder = args.data.as_deref();
        let inputs = inputs_for(
            file.path(),
            &args.function,
            folder,
            &args.inputs,
            &args.sizes,
        )?;
        // What is loaded needs its name no more, and a search that is broken off leaves nothing behind.
        drop(file);
        Ok(Ok(Version {
            library,
            inputs,
            code,
        }))
    }

    /// The keys of kernels whose code differs.
    fn changed_keys(&self, before: &Version, after: &Version) -> BTreeSet<String> {
        let differs = |name: &&String| before.code.get(*name) != after.code.get(*name);
        let names = after.code.keys().filter(differs);
        names
            .filter_map(|name| self.keys.get(name).cloned())
            .collect()
    }

    /// Calls two versions in turn; the least times of their kernels.
    fn measure(&self, before: &Version, after: &Version) -> Result<(Times, Times), Failure> {
        let failed = |message: String| Failure::new(Exit::RunFailed, message);
        let mut times = [Times::new(), Times::new()];
        let start = Instant::now();
        let period = Duration::from_secs_f64(self.args.seconds);
        let mut rounds = 0;
        // The first calls touch memory for the first time, and are worth nothing.
        while rounds < 4 || start.elapsed() < period {
            for (version, times) in [before, after].into_iter().zip(&mut times) {
                let request = version
                    .library
                    .prepare(&self.args.function, &version.inputs);
                let request = request.map_err(failed)?;
                let trace = version.library.trace(|| request.run()).map_err(failed)?;
                if rounds == 0 {
                    continue;
                }
                let mut sums = Times::new();
                for call in &trace.calls {
                    if let Some(key) = self.keys.get(&call.kernel) {
                        *sums.entry(key.clone()).or_default() += call.time;
                    }
                }
                for (key, time) in sums {
                    let least = times.entry(key).or_insert(time);
                    *least = time.min(*least);
                }
            }
            rounds += 1;
        }
        let [before, after] = times;
        Ok((before, after))
    }

    /// One line of progress, where somebody looks.
    fn show(&self, session: &Session, text: &str) {
        if self.is_shown {
            session.say(&format!("\r\x1b[K{text}"));
        }
    }
}

/// The key that the pass `tuned` noted in each prim_func.
pub fn keys_of(module: &Module) -> BTreeMap<String, String> {
    let kernels = module.funcs().filter(|func| func.kind == FuncKind::Loops);
    let key = |func: &Func| {
        Some((
            func.name.to_string(),
            func.attr(tuned::KEY)?.as_str()?.to_owned(),
        ))
    };
    kernels.filter_map(key).collect()
}

/// The statements of each prim_func without its attributes.
fn code_of(module: &Module) -> BTreeMap<String, Vec<Stmt>> {
    let is_attr =
        |stmt: &Stmt| matches!(&stmt.kind, StmtKind::Expr(call) if call.is_call_of("T.func_attr"));
    let code = |func: &Func| {
        func.body
            .iter()
            .filter(|stmt| !is_attr(stmt))
            .cloned()
            .collect()
    };
    let kernels = module.funcs().filter(|func| func.kind == FuncKind::Loops);
    kernels
        .map(|func| (func.name.to_string(), code(func)))
        .collect()
}

/// Reads a log for `irc build --tuned`.
///
/// # Errors
/// The file cannot be read, or is no log.
pub fn read_log(path: &Path) -> Result<Log, Failure> {
    let text = super::report::read_text(&path.display().to_string())?;
    Log::parse(&text).map_err(|why| {
        let message = format!("{} is no tuning log: {why}", path.display());
        Failure::new(Exit::Io, message)
    })
}

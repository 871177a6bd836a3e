//! `irc build`: a program as native code, or as it stands on the way there.
//!
//! All outputs are made in memory or in files beside their places first, and put there together at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Exit;
use super::output::{Outputs, Unwritable, write_stdout};
use super::report::{Failure, Session};
use super::tune::{keys_of, read_log};
use crate::codegen::{Cpu, PROFILE, Target};
use crate::driver::{self, Artefact, PIPELINE, Stage};
use crate::library::Library;
use crate::link::{self, WeightPlace};
use crate::opt::specialize;
use crate::sched::tuned;
use crate::syntax::{Expr, FuncKind, Module, Name, print};

/// `irc build FILE [-o NET.so] [--emit KINDS] [--cpu CPU] [--weights PLACE] [--exact]`
#[derive(clap::Args)]
pub struct Args {
    /// The program: text, an ONNX file, or a shared object that irc made; `-` is stdin
    #[arg(value_name = "FILE")]
    file: String,
    /// Where the result goes, `-` is stdout for one kind of text; several kinds go beside it with their own suffixes
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to make: ir, loops, scheduled, clif, asm, obj, so, h
    #[arg(
        long,
        value_name = "KINDS",
        value_delimiter = ',',
        value_enum,
        default_value = "so,h"
    )]
    emit: Vec<Kind>,
    /// What the code may use, of `irc list cpus`
    #[arg(long, value_name = "CPU", default_value = "native", value_parser = parse_cpu)]
    cpu: Target,
    /// Where weights go: auto (beside the library above 256 MiB), embed, sidecar
    #[arg(long, value_name = "PLACE", default_value = "auto", value_parser = ["auto", "embed", "sidecar"])]
    weights: String,
    /// Make versions for sizes that are asked for often: `n=1,128;m=4`, a version for each combination
    #[arg(long, value_name = "SIZES")]
    specialize: Option<String>,
    /// Let the library call a hook around every kernel, which `irc run --profile` sets
    #[arg(long)]
    profile: bool,
    /// Take the choices of kernels that `irc tune` wrote
    #[arg(long, value_name = "FILE")]
    tuned: Option<PathBuf>,
    /// Take every sum term by term in the order of the text: no Winograd convolutions, no partial sums
    #[arg(long)]
    exact: bool,
    /// Say which marked regions the vector emitter took, and why not the others
    #[arg(short, long)]
    verbose: bool,
}

/// What `--emit` makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Kind {
    /// The graph level, after simplification.
    Ir,
    /// Loops, one function a kernel.
    Loops,
    /// Loops as they are compiled, on planned memory.
    Scheduled,
    /// Cranelift IR.
    Clif,
    /// Assembly.
    Asm,
    /// A relocatable object.
    Obj,
    /// A shared object.
    So,
    /// The C header.
    H,
}

/// Weights of more bytes go beside the library unless told otherwise.
const MAX_EMBEDDED: usize = 256 << 20;

/// The names of `--cpu` beside `native`: what code is made for, and what a second copy of each kernel is.
const CPUS: [(Cpu, Option<Cpu>); 5] = [
    (Cpu::V2, None),
    (Cpu::V3, None),
    (Cpu::V4, None),
    (Cpu::V3, Some(Cpu::V4)),
    (Cpu::Portable, None),
];

/// The targets that `--cpu` names.
fn targets() -> impl Iterator<Item = Target> {
    let here = CPUS.into_iter().map(|(cpu, wider)| Target {
        cpu,
        wider,
        vnni: false,
        ..Target::native()
    });
    here.chain(std::iter::once(Target::aarch64()))
}

/// What `--cpu` takes.
pub fn cpu_names() -> Vec<String> {
    let named = targets().map(|target| target.cpu_name());
    std::iter::once("native".to_owned()).chain(named).collect()
}

/// The target of a `--cpu` name.
pub fn parse_cpu(name: &str) -> Result<Target, String> {
    let known = || format!("known are {}", cpu_names().join(", "));
    match name {
        "native" => Ok(Target::native()),
        _ => targets()
            .find(|target| target.cpu_name() == name)
            .ok_or_else(known),
    }
}

/// The target of a `--cpu` name for code that is called at once.
pub fn parse_cpu_here(name: &str) -> Result<Target, String> {
    let target = parse_cpu(name)?;
    match target.triple.architecture == Target::native().triple.architecture {
        true => Ok(target),
        false => Err("this machine is another one".to_owned()),
    }
}

impl Kind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Ir => "ir",
            Self::Loops => "loops.ir",
            Self::Scheduled => "scheduled.ir",
            Self::Clif => "clif",
            Self::Asm => "s",
            Self::Obj => "o",
            Self::So => "so",
            Self::H => "h",
        }
    }

    fn is_text(self) -> bool {
        !matches!(self, Self::Obj | Self::So)
    }
}

/// The module as it stood at the end of the stages that `--emit` names.
#[derive(Default)]
struct Stages {
    step: usize,
    ir: String,
    loops: String,
    scheduled: String,
}

impl Stages {
    /// Keeps the text of the last pass of a stage.
    fn note(&mut self, module: &Module, wanted: &[Kind]) {
        let stage = PIPELINE.get(self.step).map(|(_, stage)| *stage);
        self.step += 1;
        if stage == PIPELINE.get(self.step).map(|(_, stage)| *stage) {
            return;
        }
        let (kind, text) = match stage {
            Some(Stage::Optimized) => (Kind::Ir, &mut self.ir),
            Some(Stage::Loops) => (Kind::Loops, &mut self.loops),
            Some(Stage::Graph | Stage::Scheduled | Stage::Planned) | None => return,
        };
        if wanted.contains(&kind) {
            *text = print(module);
        }
    }
}

/// Builds the program; 1 when it has errors.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    if !args.cpu.is_x86() && args.emit.contains(&Kind::So) {
        let message = format!(
            "irc links for x86-64, not for {}: `--emit obj,h` gives an object for another linker",
            args.cpu.cpu_name()
        );
        return Err(Failure::new(Exit::Unsupported, message));
    }
    let lib = session.library()?;
    let mut program = match session.load(&args.file, &lib) {
        Ok(program) => program,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    if args.profile {
        driver::set_attr(&mut program.module, PROFILE, Expr::bool(true));
    }
    if let Some(sizes) = &args.specialize {
        let wanted = read_versions(sizes, &program.module)?;
        driver::set_attr(&mut program.module, specialize::ATTR, wanted);
    }
    let log = match &args.tuned {
        Some(path) => Some(read_log(path)?),
        None => None,
    };
    if let Some(log) = &log {
        driver::set_attr(&mut program.module, tuned::LOG, log.to_expr());
    }
    let mut target = args.cpu.clone();
    target.exact = args.exact;
    target.listing = args
        .emit
        .iter()
        .any(|kind| matches!(kind, Kind::Clif | Kind::Asm));
    let mut stages = Stages::default();
    let mut keys = BTreeMap::new();
    let mut passes_run = BTreeSet::new();
    let built = driver::build(program, &target, &lib, &mut |pass, module, _| {
        stages.note(module, &args.emit);
        passes_run.insert(pass);
        if pass == tuned::PASS.name && log.is_some() {
            keys = keys_of(module);
        }
    });
    let artefact = match built {
        Ok(artefact) => artefact,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    if args.specialize.is_some() && !passes_run.contains(specialize::PASS.name) {
        let message = format!(
            "{} is compiled already: versions are made of what it was built of",
            args.file
        );
        return Err(Failure::new(Exit::Unsupported, message));
    }
    let unknown = log.as_ref().map_or(0, |log| log.unknown(keys.values()));
    if unknown > 0 {
        let n = log.map_or(0, |log| log.n_choices());
        session.say(&format!(
            "note: {unknown} of {n} choices are for kernels that this program does not have\n"
        ));
    }
    stages.scheduled.clone_from(&artefact.program);
    if args.verbose || args.emit.contains(&Kind::Scheduled) {
        let manifest = serde_json::from_str(&artefact.object.interface.manifest);
        let manifest: serde_json::Value = manifest.unwrap_or_default();
        session.say(&super::info::describe_kernels(&manifest["kernels"]));
    }
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    let is_one_text = args.emit.len() == 1 && args.emit[0].is_text();
    if to_stdout && !is_one_text {
        let message = "only one kind of text can go to stdout";
        return Err(Failure::new(Exit::Usage, message));
    }
    if is_one_text && (to_stdout || args.output.is_none()) {
        write_stdout(text(args.emit[0], &artefact, &stages).as_bytes())?;
        return Ok(Exit::Good);
    }
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| default_output(&args.file));
    let mut outputs = Outputs::default();
    let outcome = write_all(&args, &output, &artefact, &stages, &lib, &mut outputs);
    match outcome.and_then(|()| Ok(outputs.keep()?)) {
        Ok(()) => Ok(Exit::Good),
        Err(fault) => Ok(session.show_fault(&fault)),
    }
}

/// The attribute of modules for `n=1,128;m=4`.
fn read_versions(text: &str, module: &Module) -> Result<Expr, Failure> {
    const MOST: usize = 64;
    let fault = |why: String| Failure::new(Exit::Usage, why);
    let public = module
        .funcs()
        .filter(|func| func.kind == FuncKind::Graph && !func.is_private());
    let known: BTreeSet<Name> = public.flat_map(specialize::symbols_of).collect();
    let mut wanted: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
    for part in text.split(';').filter(|part| !part.trim().is_empty()) {
        let form = || fault(format!("`{part}` is not of the form n=1,128"));
        let (name, sizes) = part.trim().split_once('=').ok_or_else(form)?;
        if !known.contains(name) {
            let known: Vec<&str> = known.iter().map(Name::as_str).collect();
            let known = known.join(", ");
            return Err(fault(format!(
                "no input has the symbol `{name}` in its shape; there are: {known}"
            )));
        }
        for size in sizes.split(',') {
            let size = size.trim().parse::<i64>().ok().filter(|size| *size >= 0);
            wanted
                .entry(name.to_owned())
                .or_default()
                .insert(size.ok_or_else(form)?);
        }
    }
    let n_versions: usize = wanted.values().map(BTreeSet::len).product();
    if n_versions > MOST {
        return Err(fault(format!("{n_versions} versions are more than {MOST}")));
    }
    let list = |sizes: BTreeSet<i64>| Expr::list(sizes.into_iter().map(Expr::int));
    Ok(Expr::dict(
        wanted.into_iter().map(|(name, sizes)| (name, list(sizes))),
    ))
}

/// `net.so` for `net.onnx`, in the current folder.
fn default_output(input: &str) -> PathBuf {
    let stem = Path::new(input).file_stem().filter(|_| input != "-");
    Path::new(stem.unwrap_or("net".as_ref())).with_extension("so")
}

fn write_all(
    args: &Args,
    output: &Path,
    artefact: &Artefact,
    stages: &Stages,
    lib: &Library,
    outputs: &mut Outputs,
) -> Result<(), driver::Fault> {
    for &kind in &args.emit {
        let is_main = args.emit.len() == 1 || kind == Kind::So;
        let path = if is_main {
            output.to_owned()
        } else {
            output.with_extension(kind.suffix())
        };
        match kind {
            Kind::So => write_library(args, &path, artefact, outputs)?,
            Kind::Obj => {
                let bytes = driver::whole_object(artefact, &args.cpu, lib)?;
                outputs.write_bytes(&path, &bytes)?;
            }
            _ => outputs.write_bytes(&path, text(kind, artefact, stages).as_bytes())?,
        }
    }
    Ok(())
}

fn write_library(
    args: &Args,
    path: &Path,
    artefact: &Artefact,
    outputs: &mut Outputs,
) -> Result<(), driver::Fault> {
    let bytes: usize = artefact
        .object
        .weights
        .iter()
        .map(|weight| weight.n_bytes())
        .sum();
    let embeds = match args.weights.as_str() {
        "embed" => true,
        "sidecar" => false,
        _ => bytes <= MAX_EMBEDDED,
    };
    let place = if embeds {
        WeightPlace::Embedded
    } else {
        let beside = path.with_extension("params");
        WeightPlace::Sidecar(outputs.write(&beside, |out| {
            link::write_params(&artefact.object.weights, out)
                .map_err(|error| driver::Fault::from(Unwritable::new(&beside, &error)))
        })?)
    };
    outputs.write(path, |out| driver::write_shared(artefact, place, out))
}

fn text<'t>(kind: Kind, artefact: &'t Artefact, stages: &'t Stages) -> &'t str {
    match kind {
        Kind::Ir => &stages.ir,
        Kind::Loops => &stages.loops,
        Kind::Scheduled => &stages.scheduled,
        Kind::Clif => &artefact.object.clif,
        Kind::Asm => &artefact.object.asm,
        Kind::H => &artefact.object.interface.header,
        Kind::Obj | Kind::So => "",
    }
}

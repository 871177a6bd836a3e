//! `irc run --profile`: how long each kernel takes, what it computes and moves, and how much of the machine that uses.
//!
//! The library has to call a hook around its kernels (`irc build --profile`); any other is built again with it, of the
//! program that it carries.

mod machine;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Exit;
use super::bench::inputs_for;
use super::native::{Native, Trace};
use super::output::{write_file, write_stdout};
use super::report::{Failure, Session, read_bytes};
use super::temporary::Temporary;
use crate::codegen::{PROFILE, Target};
use crate::driver::{self, FileKind, recognize};
use crate::link;
use crate::sched::costs::{Cost, noted_cost};
use crate::syntax::{Expr, FuncKind, SourceMap, parse};
use crate::tensor::MappedFile;
use machine::Peaks;
use report::Profile;

/// The options of a profile.
#[derive(clap::Args)]
pub struct Options {
    /// Show how long each kernel takes, and how much of what the machine can do it uses
    #[arg(long, conflicts_with_all = ["interp", "expected", "saved"])]
    profile: bool,
    /// Write the profile as JSON
    #[arg(long, value_name = "FILE", requires = "profile")]
    profile_json: Option<PathBuf>,
    /// Write the fastest request as Chrome trace events
    #[arg(long, value_name = "FILE", requires = "profile")]
    trace: Option<PathBuf>,
    /// How many requests are timed, after three that are not; the fastest is shown
    #[arg(long, value_name = "N", requires = "profile", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// What the machine can do, instead of measuring it: billions of float32 operations and of bytes a second
    #[arg(long, value_name = "GOPS,GBS", requires = "profile", value_parser = Peaks::parse)]
    peaks: Option<Peaks>,
    /// The value of a symbol in the shapes of inputs that are not given, and so made: `n=128`
    #[arg(long = "size", value_name = "SYMBOL=NUMBER", requires = "made")]
    pub sizes: Vec<String>,
}

impl Options {
    /// Whether a profile is asked for.
    pub fn is_wanted(&self) -> bool {
        self.profile
    }
}

/// What is profiled.
pub struct Subject<'a> {
    /// The file of the program.
    pub file: &'a str,
    /// The function to call.
    pub function: &'a str,
    /// Inputs that are given.
    pub inputs: &'a [String],
    /// Or the folder with them.
    pub data: Option<&'a Path>,
    /// What the code may use, where it is built.
    pub cpu: &'a Target,
}

/// Profiles; 5 when a call fails.
pub fn run(args: &Options, subject: &Subject<'_>, session: &mut Session) -> Result<Exit, Failure> {
    let failed = |message: String| Failure::new(Exit::RunFailed, message);
    let mut temporary = None;
    let path = match hooked_library(subject, session, &mut temporary)? {
        Ok(path) => path,
        Err(exit) => return Ok(exit),
    };
    let library = Native::open(&path).map_err(|why| Failure::new(Exit::Io, why))?;
    let inputs = inputs_for(
        &path,
        subject.function,
        subject.data,
        subject.inputs,
        &args.sizes,
    )?;
    let request = library.prepare(subject.function, &inputs).map_err(failed)?;
    for _ in 0..3 {
        request.run().map_err(failed)?;
    }
    let mut traces: Vec<Trace> = Vec::new();
    for _ in 0..args.repeat {
        traces.push(library.trace(|| request.run()).map_err(failed)?);
    }
    let peaks = match args.peaks {
        Some(peaks) => peaks,
        None => match Peaks::measure(subject.cpu, session)? {
            Ok(peaks) => peaks,
            Err(exit) => return Ok(exit),
        },
    };
    let profile = Profile::new(&traces, &costs_of(&path)?, peaks);
    if let Some(file) = &args.profile_json {
        write_file(file, format!("{:#}\n", profile.to_json()).as_bytes())?;
    }
    if let Some(file) = &args.trace {
        let events = profile.to_events(subject.function);
        write_file(file, format!("{events:#}\n").as_bytes())?;
    }
    write_stdout(profile.describe().as_bytes())?;
    Ok(Exit::Good)
}

/// A library with the hook: the file itself, or one that is built.
fn hooked_library(
    subject: &Subject<'_>,
    session: &mut Session,
    temporary: &mut Option<Temporary>,
) -> Result<Result<PathBuf, Exit>, Failure> {
    let path = Path::new(subject.file);
    if subject.file != "-" && recognize(path, &read_bytes(subject.file)?) == FileKind::Library {
        let library = Native::open(path).map_err(|why| Failure::new(Exit::Io, why))?;
        if library.has_hook() {
            return Ok(Ok(path.to_owned()));
        }
        session.say(&format!(
            "note: {} was built without --profile; its program is built again with the hook\n",
            subject.file
        ));
    }
    let lib = session.library()?;
    let built = match session.load(subject.file, &lib) {
        Ok(mut program) => {
            driver::set_attr(&mut program.module, PROFILE, Expr::bool(true));
            Temporary::build(program, subject.cpu, &lib)?
        }
        Err(fault) => Err(fault),
    };
    Ok(match built {
        Ok(made) => Ok(temporary.insert(made).path().to_owned()),
        Err(fault) => Err(session.show_fault(&fault)),
    })
}

/// What each kernel of a library computes and moves, by the program that it carries.
pub fn costs_of(path: &Path) -> Result<BTreeMap<String, Cost>, Failure> {
    let fault = |why: &str| Failure::new(Exit::Io, format!("{}: {why}", path.display()));
    let file = MappedFile::open(path).map_err(|error| fault(&error.to_string()))?;
    let text = link::read_program(&file).ok_or_else(|| fault("it carries no program"))?;
    let (module, _) = parse(&mut SourceMap::new(), "program", &text);
    let kernels = module.funcs().filter(|func| func.kind == FuncKind::Loops);
    Ok(kernels
        .map(|func| (func.name.to_string(), noted_cost(func)))
        .collect())
}

//! The command line: one file a verb, each with `Args` and `run`.
//!
//! Results go to stdout, all else to stderr. [`Exit`] holds the exit codes; `report` what the verbs share: reading
//! input, writing output whole or not at all, and showing diagnostics.

pub mod bench;
pub mod build;
pub mod check;
mod compare;
pub mod data;
pub mod diff;
pub mod explain;
pub mod export;
pub mod extract;
mod fault;
pub mod fmt;
mod git_setup;
pub mod import;
pub mod info;
pub mod inputs;
pub mod list;
mod map;
pub mod merge;
pub mod native;
pub mod opt;
mod output;
pub mod print;
mod profile;
pub mod report;
pub mod run;
pub mod save;
mod schedule;
mod temporary;
pub mod tune;
pub mod weights;

use clap::{Parser, Subcommand};
use report::{Failure, Global, Session};
use std::process::ExitCode;

/// What the process answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Done, or the answer is yes.
    Good = 0,
    /// The answer is no: errors found, not formatted, a mismatch.
    No = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// A file could not be read or written.
    Io = 3,
    /// Valid, but not supported.
    Unsupported = 4,
    /// The model's run failed.
    RunFailed = 5,
    /// Our own fault.
    Fault = 70,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// A textual tensor IR with symbolic shapes, and the compiler that makes native code of it.
#[derive(Parser)]
#[command(name = "irc", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Turn an ONNX file into text
    Import(import::Args),
    /// Turn a program into an ONNX file
    Export(export::Args),
    /// Apply schedule primitives to the loops of a program
    Schedule(schedule::Args),
    /// Write texts in the canonical form
    Fmt(fmt::Args),
    /// Report what is wrong with texts
    Check(check::Args),
    /// Print a program as text
    Print(print::Args),
    /// Say what a program or a shared object takes, returns and holds
    Info(info::Args),
    /// Run passes over a program
    Opt(opt::Args),
    /// Make native code of a program
    Build(build::Args),
    /// Call a function of a program
    Run(run::Args),
    /// Say what differs between two programs, or two files of weights
    Diff(diff::Args),
    /// Cut a part out of a program, by the names of values
    Extract(extract::Args),
    /// Make one program of two
    Merge(merge::Args),
    /// List, rename, fill or convert the weights of a program
    Weights(weights::Args),
    /// Tell git to show models as `irc diff` does
    GitSetup(git_setup::Args),
    /// Measure how long calls of a program take
    Bench(bench::Args),
    /// Search what the schedule decides, by measuring on this machine
    Tune(tune::Args),
    /// List passes, operators, instruction sets, dtypes
    List(list::Args),
    /// Say what a diagnostic code means
    Explain(explain::Args),
}

/// Bytes of stack for a verb: walks over deep trees need more than a main thread may have.
const STACK: usize = 256 << 20;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    fault::install_hook();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Good
            };
            let _ = error.print();
            return exit.into();
        }
    };
    let worker = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || run(cli));
    let exit = worker.map(std::thread::JoinHandle::join);
    match exit {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(_)) | Err(_) => Exit::Fault.into(),
    }
}

fn run(cli: Cli) -> Exit {
    let mut session = Session::new(&cli.global);
    let outcome = match cli.verb {
        Verb::Fmt(args) => fmt::run(args, &mut session),
        Verb::Check(args) => check::run(args, &mut session),
        Verb::Print(args) => print::run(args, &mut session),
        Verb::Import(args) => import::run(args, &mut session),
        Verb::Export(args) => export::run(args, &mut session),
        Verb::Schedule(args) => schedule::run(args, &mut session),
        Verb::Info(args) => info::run(args, &mut session),
        Verb::Opt(args) => opt::run(args, &mut session),
        Verb::Build(args) => build::run(args, &mut session),
        Verb::Run(args) => run::run(args, &mut session),
        Verb::Diff(args) => diff::run(args, &mut session),
        Verb::Extract(args) => extract::run(args, &mut session),
        Verb::Merge(args) => merge::run(args, &mut session),
        Verb::Weights(args) => weights::run(args, &mut session),
        Verb::GitSetup(args) => git_setup::run(args, &mut session),
        Verb::Bench(args) => bench::run(args, &mut session),
        Verb::Tune(args) => tune::run(args, &mut session),
        Verb::List(args) => list::run(args, &mut session),
        Verb::Explain(args) => explain::run(args, &mut session),
    };
    outcome.unwrap_or_else(|Failure { exit, message }| {
        session.say(&format!("error: {message}\n"));
        exit
    })
}

//! `irc bench`: how long calls of a function take, how long the first takes, and what memory they need.
//!
//! Every file, and every number of threads, is loaded by a process of its own; all of them are timed in turn, round
//! after round, so that a ratio holds while the machine's speed drifts.

mod figures;
mod worker;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value as Json;

use super::Exit;
use super::build::parse_cpu_here;
use super::output::write_stdout;
use super::report::{Failure, Session, read_bytes, read_text};
use super::temporary::Temporary;
use crate::codegen::Target;
use crate::driver::{FileKind, recognize};
use figures::{Report, Run};

pub use figures::{parse_part, show_ms, table};
pub use worker::inputs_for;

/// `irc bench FILE… [--size n=128] [--threads 1,2] [--json] [--baseline OLD.json --fail-over 5%]`
#[derive(clap::Args)]
pub struct Args {
    /// Programs: shared objects that irc made, texts, or ONNX files; several are compared with the first
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
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
    /// Numbers of threads, each measured; by default what IRC_NUM_THREADS says, or one a core
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    threads: Vec<u32>,
    /// How often each is timed in turn
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of a round; at least three calls are made
    #[arg(long, value_name = "SECONDS", default_value_t = 0.2, value_parser = parse_seconds)]
    seconds: f64,
    /// Seconds of calls before the first round
    #[arg(long, value_name = "SECONDS", default_value_t = 0.2, value_parser = parse_seconds)]
    warm_up: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// What `--json` wrote before, to compare with
    #[arg(long, value_name = "FILE")]
    baseline: Option<String>,
    /// Answer 1 when a median is over the baseline's by more than this part: `5%`
    #[arg(long, value_name = "PART", requires = "baseline", value_parser = figures::parse_part)]
    fail_over: Option<f64>,
    /// What the code may use, where a program is built first
    #[arg(long, value_name = "CPU", default_value = "native", value_parser = parse_cpu_here)]
    cpu: Target,
    /// Be the process that calls: orders on stdin, figures on stdout
    #[arg(long, hide = true)]
    worker: bool,
}

/// A number of seconds of the command line.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds is wanted".to_owned()),
    }
}

/// Measures; 1 when something is slower than the baseline allows, 5 when a call fails.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    if args.worker {
        return worker::run(&args);
    }
    let baseline = match &args.baseline {
        Some(path) => Some(read_baseline(path)?),
        None => None,
    };
    let mut libraries = Vec::new();
    for file in &args.files {
        match library_of(file, &args, session)? {
            Ok(library) => libraries.push(library),
            Err(exit) => return Ok(exit),
        }
    }
    let threads: Vec<Option<u32>> = match args.threads.is_empty() {
        true => vec![None],
        false => args.threads.iter().copied().map(Some).collect(),
    };
    let mut workers = Vec::new();
    for (file, library) in args.files.iter().zip(&libraries) {
        for &n in &threads {
            match Worker::start(&args, file, library.path(), n)? {
                Ok(worker) => workers.push(worker),
                Err(exit) => return Ok(exit),
            }
        }
    }
    for _ in 0..args.rounds {
        for worker in &mut workers {
            let times = worker.ask(&format!("round {}", args.seconds))?;
            worker.run.add_round(&times);
        }
    }
    let mut report = Report::default();
    for mut worker in workers {
        let last = worker.ask("end")?;
        worker.run.rss_mb = last["rss_mb"].as_f64().unwrap_or_default();
        report.runs.push(std::mem::take(&mut worker.run));
    }
    report.compare(threads.len());
    let mut exit = Exit::Good;
    let mut remarks = String::new();
    if let Some(baseline) = &baseline {
        let slower = report.compare_with(baseline, args.fail_over)?;
        for line in &slower {
            let _ = writeln!(remarks, "error: {line}");
            exit = Exit::No;
        }
    }
    let text = if args.json {
        format!("{:#}\n", report.to_json())
    } else {
        report.describe()
    };
    write_stdout(text.as_bytes())?;
    session.say(&remarks);
    Ok(exit)
}

fn read_baseline(path: &str) -> Result<Json, Failure> {
    let fault = |why: &str| Failure::new(Exit::Io, format!("{path} is no baseline: {why}"));
    let json: Json =
        serde_json::from_str(&read_text(path)?).map_err(|error| fault(&error.to_string()))?;
    match json["runs"].is_array() {
        true => Ok(json),
        false => Err(fault("it has no `runs`; `irc bench --json` writes it")),
    }
}

/// A file to call: the one given, or one that is built of it.
enum Library {
    Given(PathBuf),
    Built(Temporary),
}

impl Library {
    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Built(made) => made.path(),
        }
    }
}

fn library_of(
    file: &str,
    args: &Args,
    session: &mut Session,
) -> Result<Result<Library, Exit>, Failure> {
    let path = Path::new(file);
    if file != "-" && recognize(path, &read_bytes(file)?) == FileKind::Library {
        return Ok(Ok(Library::Given(path.to_owned())));
    }
    let lib = session.library()?;
    let built = match session.load(file, &lib) {
        Ok(program) => Temporary::build(program, &args.cpu, &lib)?,
        Err(fault) => Err(fault),
    };
    Ok(match built {
        Ok(made) => Ok(Library::Built(made)),
        Err(fault) => Err(session.show_fault(&fault)),
    })
}

/// A process that calls, and what it has said.
struct Worker {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    run: Run,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It ends by itself after `end`; otherwise another one has failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Worker {
    /// Starts a process and lets it make the first call; the inner error is how it ended.
    fn start(
        args: &Args,
        file: &str,
        library: &Path,
        threads: Option<u32>,
    ) -> Result<Result<Self, Exit>, Failure> {
        let fault = |why: std::io::Error| {
            let message = format!("cannot start a process for {file}: {why}");
            Failure::new(Exit::Fault, message)
        };
        let mut command = Command::new(std::env::current_exe().map_err(fault)?);
        command.args(["bench", "--worker", "--function", &args.function]);
        command.args(["--warm-up", &args.warm_up.to_string()]);
        for input in &args.inputs {
            command.args(["--input", input]);
        }
        for size in &args.sizes {
            command.args(["--size", size]);
        }
        if let Some(folder) = &args.data {
            command.arg("--data").arg(folder);
        }
        command.arg("--").arg(library);
        if let Some(threads) = threads {
            command.env("IRC_NUM_THREADS", threads.to_string());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(fault)?;
        let (Some(orders), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Failure::new(Exit::Fault, "a process has no pipes"));
        };
        let mut worker = Self {
            process,
            orders,
            answers: BufReader::new(answers),
            run: Run::default(),
        };
        match worker.answer() {
            Some(first) => worker.run = Run::new(file, &first),
            None => {
                let status = worker.process.wait().map_err(fault)?;
                return Ok(Err(exit_of(status.code())));
            }
        }
        Ok(Ok(worker))
    }

    fn ask(&mut self, order: &str) -> Result<Json, Failure> {
        let sent = writeln!(self.orders, "{order}").and_then(|()| self.orders.flush());
        let answer = sent.ok().and_then(|()| self.answer());
        answer.ok_or_else(|| {
            let message = format!("the process that calls {} has ended", self.run.file);
            Failure::new(Exit::RunFailed, message)
        })
    }

    fn answer(&mut self) -> Option<Json> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

/// The exit code of a worker, which has said why.
fn exit_of(code: Option<i32>) -> Exit {
    const ALL: [Exit; 6] = [
        Exit::No,
        Exit::Usage,
        Exit::Io,
        Exit::Unsupported,
        Exit::RunFailed,
        Exit::Fault,
    ];
    let found = ALL.into_iter().find(|exit| Some(*exit as i32) == code);
    found.unwrap_or(Exit::RunFailed)
}

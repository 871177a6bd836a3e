//! `irc diff`: what differs between two programs, or two files of weights.
//!
//! `--git` takes the arguments of an external diff of git and `--textconv` is its text conversion: see `git-setup`.

mod html;
mod json;
pub mod text;

use std::path::{Path, PathBuf};

use super::Exit;
use super::output::{write_output, write_stdout};
use super::report::{Failure, Session};
use crate::diff::{Options, Report, compare, compare_weights};
use crate::driver::{Fault, FileKind, Program, recognize};
use crate::library::Library;
use crate::syntax::print;
use crate::tensor::{MappedFile, Weights, sha256_bytes};

/// `irc diff A B [--format text|json|html] [--stat] [--all] [--ignore names,order,weights,attrs]`
#[derive(clap::Args)]
#[command(after_long_help = "\
The two are matched by structure and by name, never by line. Exit code: 0 equal, 1 they differ.

Verdict: `none`, equal but for names of internal values, order, comments; `patch`, same interface, other operators,
constants or weights; `minor`, old calls still hold; `major`, a call that was valid may fail. Inputs are named in calls
(`irc run --input`, the manifest, runtimes of ONNX), so another name is `major`; weights are no part of calls.

Examples:
  irc diff old.onnx new.onnx
  irc diff net.ir net.onnx --ignore names --format json
  irc diff old.safetensors new.safetensors --all")]
pub struct Args {
    /// Two programs (text, ONNX, shared objects of irc), or two .safetensors files
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<String>,
    /// How the report is written: text, json, html
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json", "html"])]
    format: String,
    /// Only how many there are of each kind
    #[arg(long)]
    stat: bool,
    /// Every change, however many there are
    #[arg(long)]
    all: bool,
    /// What does not count: names, order (of commuted operands), weights (and constants), attrs
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = ["names", "order", "weights", "attrs"])]
    ignore: Vec<String>,
    /// Where the report goes; stdout without it, and for `-`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// FILE… are the arguments of an external diff of git
    #[arg(long, conflicts_with = "textconv")]
    git: bool,
    /// Print one FILE as text to compare: operators, and weights by hash
    #[arg(long)]
    textconv: bool,
}

/// What is compared.
enum Loaded {
    Program(Program, FileKind),
    Weights(Weights),
}

/// Compares; 1 when the two differ.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    if args.git {
        return run_git(&args, session);
    }
    if args.textconv {
        return run_textconv(&args, session);
    }
    let [a, b] = args.files.as_slice() else {
        let message = "two files are compared: `irc diff A B`";
        return Err(Failure::new(Exit::Usage, message));
    };
    let lib = session.library()?;
    let report = match report(a, b, &args, &lib, session) {
        Ok(report) => report?,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    let text = match args.format.as_str() {
        "json" => json::write(&report, a, b),
        "html" => html::write(&report, a, b),
        _ if args.stat => text::write_counts(&report),
        _ => text::write(&report, args.all),
    };
    write_output(args.output.as_deref(), text.as_bytes())?;
    Ok(if report.is_empty() {
        Exit::Good
    } else {
        Exit::No
    })
}

fn options(args: &Args) -> Options {
    let is_ignored = |what: &str| args.ignore.iter().any(|ignored| ignored == what);
    Options {
        ignore_names: is_ignored("names"),
        ignore_order: is_ignored("order"),
        ignore_weights: is_ignored("weights"),
        ignore_attrs: is_ignored("attrs"),
        named_results: false,
    }
}

fn report(
    a: &str,
    b: &str,
    args: &Args,
    lib: &Library,
    session: &mut Session,
) -> Result<Result<Report, Failure>, Fault> {
    let (left, right) = (load(a, lib, session)?, load(b, lib, session)?);
    Ok(match (left, right) {
        (Loaded::Program(left, x), Loaded::Program(right, y)) => {
            let mut options = options(args);
            options.named_results = x == FileKind::Onnx && y == FileKind::Onnx;
            Ok(compare(&left, &right, lib, &options))
        }
        (Loaded::Weights(left), Loaded::Weights(right)) => {
            Ok(compare_weights(&left, &right, &options(args)))
        }
        (Loaded::Weights(left), Loaded::Program(right, _)) => {
            Ok(compare_weights(&left, &right.weights, &options(args)))
        }
        (Loaded::Program(left, _), Loaded::Weights(right)) => {
            Ok(compare_weights(&left.weights, &right, &options(args)))
        }
    })
}

fn load(path: &str, lib: &Library, session: &mut Session) -> Result<Loaded, Fault> {
    if path == "-" {
        return Ok(Loaded::Program(session.load(path, lib)?, FileKind::Text));
    }
    let file = MappedFile::open(Path::new(path))
        .map_err(|error| Fault::io(format!("`{path}` cannot be read: {error}")))?;
    if is_safetensors(&file) {
        let weights = Weights::parse(file)
            .map_err(|error| Fault::io(format!("`{path}` cannot be read: {error}")))?;
        return Ok(Loaded::Weights(weights));
    }
    let kind = recognize(Path::new(path), &file);
    Ok(Loaded::Program(session.load(path, lib)?, kind))
}

/// Whether bytes begin as a safetensors file does: the length of a header within the file, and a header in braces.
pub fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((len, rest)) = bytes.split_first_chunk::<8>() else {
        return false;
    };
    let len = u64::from_le_bytes(*len);
    rest.first() == Some(&b'{') && usize::try_from(len).is_ok_and(|len| len <= rest.len())
}

/// The external diff of git: `path old-file old-hex old-mode new-file new-hex new-mode`, and for a renamed file its new
/// path and a note. A file that cannot be read is told in its place, and the diff of other files goes on.
fn run_git(args: &Args, session: &mut Session) -> Result<Exit, Failure> {
    let path = args.files.first().map_or("", String::as_str);
    let (Some(old), Some(new)) = (args.files.get(1), args.files.get(4)) else {
        write_stdout(format!("* unmerged {path}\n").as_bytes())?;
        return Ok(Exit::Good);
    };
    let renamed = args.files.get(7).map_or(path, String::as_str);
    let mut out = format!("irc diff a/{path} b/{renamed}\n");
    let lib = session.library()?;
    match (old.as_str(), new.as_str()) {
        ("/dev/null", file) => out.push_str(&summary("new file", file, &lib, session)),
        (file, "/dev/null") => out.push_str(&summary("deleted file", file, &lib, session)),
        (old, new) => match report(old, new, args, &lib, session) {
            Ok(report) => out.push_str(&text::write(&report?, args.all)),
            Err(fault) => out.push_str(&sorry(&fault)),
        },
    }
    write_stdout(out.as_bytes())?;
    Ok(Exit::Good)
}

/// Why a file cannot be compared; the first of many reasons.
fn sorry(fault: &Fault) -> String {
    let first = fault.diagnostics.first().map_or("", |diag| &diag.message);
    let more = match fault.diagnostics.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    format!("cannot compare: {first}{more}\n")
}

/// What a file holds, in a line.
fn summary(what: &str, file: &str, lib: &Library, session: &mut Session) -> String {
    let of_weights = |weights: &Weights| {
        let bytes: usize = weights.iter().map(|(_, weight)| weight.n_bytes()).sum();
        format!("{} weights of {bytes} bytes", weights.len())
    };
    match load(file, lib, session) {
        Ok(Loaded::Program(program, _)) => {
            let funcs = program.module.funcs().count();
            let funcs = if funcs == 1 {
                "1 function".to_owned()
            } else {
                format!("{funcs} functions")
            };
            format!("{what}: {funcs}, {}\n", of_weights(&program.weights))
        }
        Ok(Loaded::Weights(weights)) => format!("{what}: {}\n", of_weights(&weights)),
        Err(fault) => format!("{what}\n{}", sorry(&fault)),
    }
}

fn run_textconv(args: &Args, session: &mut Session) -> Result<Exit, Failure> {
    let [file] = args.files.as_slice() else {
        let message = "one file is converted: `irc diff --textconv FILE`";
        return Err(Failure::new(Exit::Usage, message));
    };
    let lib = session.library()?;
    let loaded = match load(file, &lib, session) {
        Ok(loaded) => loaded,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    let (mut text, weights) = match loaded {
        Loaded::Program(program, _) => (print(&program.module), program.weights),
        Loaded::Weights(weights) => (String::new(), weights),
    };
    for (name, weight) in weights.iter() {
        let hash = sha256_bytes(weight.bytes());
        text.push_str(&format!(
            "# {name}: {} {:?} sha256 {hash}\n",
            weight.dtype, weight.shape
        ));
    }
    write_stdout(text.as_bytes())?;
    Ok(Exit::Good)
}

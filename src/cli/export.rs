//! `irc export`: a program as an ONNX file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::Exit;
use super::output::{Outputs, Unwritable};
use super::report::{Failure, Session};
use crate::check::prim::Prim;
use crate::driver::{self, Program};
use crate::export::{self, Exported};
use crate::library::Library;
use crate::opt::for_onnx;
use crate::syntax::uses::for_each_expr;

/// `irc export FILE -o MODEL.onnx`
#[derive(clap::Args)]
pub struct Args {
    /// The program: text, an ONNX file, or a shared object that irc made; `-` is stdin
    #[arg(value_name = "FILE")]
    file: String,
    #[command(flatten)]
    options: Options,
}

/// How the model is written.
#[derive(clap::Args)]
pub struct Options {
    /// Where the model goes
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The function to export, where there are several public ones
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// The operator set of ai.onnx, 18 or newer; the default is 18, or the first that has all that the program needs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(18..=28))]
    opset: Option<u32>,
    /// Put weights into a file beside the model, `MODEL.onnx.data`; models of 2 GiB and more need it
    #[arg(long)]
    external_data: bool,
    /// Write what was taken apart, and into which operator sets the model went, to this file; `-` is stdout
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Options {
    /// The model to a file, and nothing else asked for.
    pub fn plain(output: &Path) -> Self {
        Self {
            output: output.to_owned(),
            function: None,
            opset: None,
            external_data: false,
            report: None,
        }
    }
}

/// Exports the program; 4 when ONNX has no word for something in it.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let lib = session.library()?;
    match session.load(&args.file, &lib) {
        Ok(program) => write_model(program, &args.options, &lib, session),
        Err(fault) => Ok(session.show_fault(&fault)),
    }
}

/// Writes a program as an ONNX file; 4 when ONNX has no word for something in it.
///
/// # Errors
/// A file cannot be written.
pub fn write_model(
    mut program: Program,
    args: &Options,
    lib: &Library,
    session: &Session,
) -> Result<Exit, Failure> {
    let names = export::written_names(&program.module);
    let parts = taken_apart(&program, lib);
    let beside = beside(&args.output);
    let mut options = export::Options {
        function: args.function.as_deref(),
        external: args.external_data.then_some(beside.1.as_str()),
        names,
        opset: args.opset,
    };
    let info = match driver::say_in_onnx(&mut program, lib, &mut options) {
        Ok(info) => info,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    let exported = export::export(&program.module, &info, &program.weights, lib, &options);
    let exported = match exported {
        Ok(exported) => exported,
        Err(faults) => return Ok(session.show_fault(&faults.into())),
    };
    if exported.model.len() > i32::MAX as usize {
        let message = "the model is larger than 2 GiB, which ONNX files cannot be; \
                       `--external-data` puts the weights beside it";
        return Err(Failure::new(Exit::Usage, message));
    }
    let mut outputs = Outputs::default();
    if args.external_data {
        outputs.write(&beside.0, |out| {
            let written = exported.external.write(out);
            written.map_err(|error| Failure::from(Unwritable::new(&beside.0, &error)))
        })?;
    }
    outputs.write(&args.output, |out| {
        let written = exported.model.write(out);
        written.map_err(|error| Failure::from(Unwritable::new(&args.output, &error)))
    })?;
    outputs.keep()?;
    if let Some(path) = &args.report {
        let text = report(&parts, &exported);
        super::output::write_output(Some(path), text.as_bytes())?;
    }
    Ok(Exit::Good)
}

/// The file of the weights, and its name as the model says it.
fn beside(output: &Path) -> (PathBuf, String) {
    let mut path = output.as_os_str().to_owned();
    path.push(".data");
    let path = PathBuf::from(path);
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    (path, name.unwrap_or_default())
}

/// Operators that ONNX has no word for, with how often they are called.
fn taken_apart(program: &Program, lib: &Library) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for func in program.module.funcs() {
        for_each_expr(&func.body, &mut |expr| {
            let Some((path, _)) = expr.as_call() else {
                return;
            };
            let is_composite = path.starts_with("R.") && Prim::find(&path).is_none();
            if is_composite && lib.has(&path) && !for_onnx::has_word(&path, lib) {
                *found.entry(path).or_insert(0) += 1;
            }
        });
    }
    found
}

fn report(parts: &BTreeMap<String, usize>, exported: &Exported<'_>) -> String {
    let mut text = String::new();
    for (domain, version) in &exported.opsets {
        let domain = if domain.is_empty() { "ai.onnx" } else { domain };
        let _ = writeln!(text, "operator set {domain} {version}");
    }
    let _ = writeln!(text, "{} nodes", exported.n_nodes);
    for (path, count) in parts {
        let _ = writeln!(
            text,
            "{path} was taken apart, {count} times: ONNX has no such operator"
        );
    }
    text
}

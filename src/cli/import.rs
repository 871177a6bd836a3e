//! `irc import`: an ONNX file as text, its weights beside it.

use std::path::PathBuf;

use super::Exit;
use super::output::write_program;
use super::report::{Failure, Session};

/// `irc import MODEL [-o NET.ir]`
#[derive(clap::Args)]
pub struct Args {
    /// The model; `-` is stdin
    #[arg(value_name = "MODEL")]
    file: String,
    /// Where the text goes; weights go beside it as `.safetensors`. Without it, and for `-`, the text goes to stdout, without weights
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Imports the model.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let lib = session.library()?;
    let loaded = session.load(&args.file, &lib);
    let mut program = match loaded {
        Ok(program) => program,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    write_program(args.output.as_deref(), &mut program, session)?;
    Ok(Exit::Good)
}

//! `irc import`: an ONNX file as text, its weights beside it.

use std::path::{Path, PathBuf};

use super::Exit;
use super::output::{Outputs, Unwritable, write_file, write_stdout};
use super::report::{Failure, Session};
use crate::driver;
use crate::syntax::print;

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
    let Some(output) = args.output.filter(|path| path != Path::new("-")) else {
        if !program.weights.is_empty() {
            session.say("note: the weights are not written without `-o FILE`\n");
        }
        write_stdout(print(&program.module).as_bytes())?;
        return Ok(Exit::Good);
    };
    if program.weights.is_empty() {
        write_file(&output, print(&program.module).as_bytes())?;
        return Ok(Exit::Good);
    }
    let beside = output.with_extension("safetensors");
    let mut outputs = Outputs::default();
    let hash = outputs.write(&beside, |out| {
        let written = program.weights.write(out);
        written.map_err(|error| Failure::from(Unwritable::new(&beside, &error)))
    })?;
    let name = beside
        .file_name()
        .map(Path::new)
        .unwrap_or(&beside)
        .display()
        .to_string();
    driver::name_weights(&mut program.module, &name, &hash);
    outputs.write_bytes(&output, print(&program.module).as_bytes())?;
    outputs.keep()?;
    Ok(Exit::Good)
}

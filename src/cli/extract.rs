//! `irc extract`: a part of a program, cut by the names of values.

use std::path::PathBuf;

use super::Exit;
use super::report::{Failure, Session, has_error};
use super::save::save;
use crate::check::check;
use crate::edit::extract::extract;

/// `irc extract FILE [--from V,…] [--to V,…] -o OUT`
#[derive(clap::Args)]
#[command(after_long_help = "\
Inputs take the types of the values; weights that the part uses come along. What lies inside a branch or the body of a
loop cannot be cut at: an `if` or a loop is in the part as a whole, or not.

Examples:
  irc extract model.onnx --to features -o backbone.ir
  irc extract net.ir --from h1 --to h4,h5 -o part.onnx")]
pub struct Args {
    /// The program: text, an ONNX file, or a shared object that irc made; `-` is stdin
    #[arg(value_name = "FILE")]
    file: String,
    /// The values that become inputs; without it the inputs that are needed
    #[arg(long, value_name = "VALUES", value_delimiter = ',')]
    from: Vec<String>,
    /// The values that become results; without it the results
    #[arg(long, value_name = "VALUES", value_delimiter = ',')]
    to: Vec<String>,
    /// The function to cut
    #[arg(long, value_name = "NAME", default_value = "main")]
    function: String,
    /// Where the part goes: text, its weights beside it, or an ONNX file where FILE ends in .onnx; `-` is stdout
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Cuts; 1 when there is no such cut.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let lib = session.library()?;
    let program = match session.load(&args.file, &lib) {
        Ok(program) => program,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    let (info, faults) = check(&program.module, &lib);
    if has_error(&faults) {
        return Ok(session.show_fault(&faults.into()));
    }
    let extracted = match extract(&program, &info, &args.function, &args.from, &args.to) {
        Ok(extracted) => extracted,
        Err(diag) => return Ok(session.show_all(&[diag])),
    };
    for note in &extracted.notes {
        session.say(&format!("note: {note}\n"));
    }
    let (_, faults) = check(&extracted.program.module, &lib);
    if has_error(&faults) {
        session.say("error: the part does not stand by itself\n");
        return Ok(session.show_fault(&faults.into()));
    }
    save(extracted.program, Some(&args.output), &lib, session)
}

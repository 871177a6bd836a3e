//! `irc merge`: two programs as one.

use std::path::PathBuf;

use super::Exit;
use super::report::{Failure, Session, has_error};
use super::save::save;
use crate::check::{Info, check};
use crate::driver::Program;
use crate::edit::merge::{Side, chain, merge};
use crate::library::Library;

/// `irc merge A B [--map OUT=IN,…] -o OUT`
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  irc merge encoder.onnx decoder.onnx -o both.ir
  irc merge preprocess.ir model.onnx --map out=input -o whole.onnx")]
pub struct Args {
    /// The first program: text, an ONNX file, or a shared object that irc made
    #[arg(value_name = "A")]
    first: String,
    /// The second
    #[arg(value_name = "B")]
    second: String,
    /// Make one function of two: results of the first, or other values of it, and the inputs of the second that they become. Other results and inputs stay
    #[arg(long, value_name = "OUT=IN", value_delimiter = ',')]
    map: Vec<String>,
    /// The function of the first program that goes on
    #[arg(long, value_name = "NAME", default_value = "main")]
    function: String,
    /// The function of the second that it goes on with
    #[arg(long, value_name = "NAME", default_value = "main")]
    then: String,
    /// Where the program goes: text, its weights beside it, or an ONNX file where FILE ends in .onnx; `-` is stdout
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Merges; 1 when the two do not fit.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let lib = session.library()?;
    let (a, b) = match (
        load(&args.first, &lib, session),
        load(&args.second, &lib, session),
    ) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(exit), _) | (_, Err(exit)) => return Ok(exit),
    };
    let merged = if args.map.is_empty() {
        merge(&a.0, &b.0)
    } else {
        let mut links = Vec::new();
        for text in &args.map {
            let Some((out, input)) = text.split_once('=') else {
                let message = format!("`{text}` is not of the form OUT=IN");
                return Err(Failure::new(Exit::Usage, message));
            };
            links.push((out.to_owned(), input.to_owned()));
        }
        let side = |(program, info), func| Side {
            program,
            info,
            func,
        };
        chain(
            side((&a.0, &a.1), args.function.as_str()),
            side((&b.0, &b.1), args.then.as_str()),
            &links,
        )
    };
    let merged = match merged {
        Ok(merged) => merged,
        Err(diag) => return Ok(session.show_all(&[diag])),
    };
    for note in &merged.notes {
        session.say(&format!("note: {note}\n"));
    }
    let (_, faults) = check(&merged.program.module, &lib);
    if has_error(&faults) {
        session.say("error: the two do not fit\n");
        return Ok(session.show_fault(&faults.into()));
    }
    save(merged.program, Some(&args.output), &lib, session)
}

fn load(path: &str, lib: &Library, session: &mut Session) -> Result<(Program, Info), Exit> {
    let program = session
        .load(path, lib)
        .map_err(|fault| session.show_fault(&fault))?;
    let (info, faults) = check(&program.module, lib);
    if has_error(&faults) {
        return Err(session.show_fault(&faults.into()));
    }
    Ok((program, info))
}

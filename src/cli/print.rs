//! `irc print`: a program as text, for irc or for Apache TVM.

use super::Exit;
use super::report::{Failure, Session, has_error, write_file, write_stdout};
use crate::syntax::{Dialect, PrintOptions, print_with};
use std::path::PathBuf;

/// `irc print [--dialect irc|tvm] FILE`
#[derive(clap::Args)]
pub struct Args {
    /// The program; `-` is stdin
    #[arg(value_name = "FILE")]
    file: String,
    /// Whose reader the text is for: irc, tvm
    #[arg(long, value_name = "NAME", default_value = "irc", value_parser = ["irc", "tvm"])]
    dialect: String,
    /// Where the text goes
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Prints the program; 1 when the text has errors.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let (module, diagnostics) = session.parse(&args.file)?;
    session.show(&diagnostics);
    if has_error(&diagnostics) {
        return Ok(Exit::No);
    }
    let dialect = if args.dialect == "tvm" {
        Dialect::Tvm
    } else {
        Dialect::Irc
    };
    let text = print_with(&module, &PrintOptions { dialect });
    match args.output {
        Some(path) => write_file(&path, text.as_bytes())?,
        None => write_stdout(text.as_bytes())?,
    }
    Ok(Exit::Good)
}

//! `irc check`: everything that is wrong with a text, in one run.

use super::Exit;
use super::report::{Failure, Session, has_error};
use crate::check;
use crate::syntax::{Diagnostic, Module, SourceMap, is_identical, parse, print};

/// `irc check [--roundtrip] FILE…`
#[derive(clap::Args)]
pub struct Args {
    /// Texts to check; `-` is stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Only read, print and read again: the tree must stay equal and the second print the same bytes
    #[arg(long)]
    roundtrip: bool,
}

/// Checks every file; 1 when one has errors.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let library = session.library()?;
    let mut found = Vec::new();
    for path in &args.files {
        let (module, diagnostics) = session.parse(path)?;
        let is_sound = !has_error(&diagnostics);
        found.extend(diagnostics);
        if args.roundtrip {
            found.extend(roundtrip(path, &module).filter(|_| is_sound));
        } else {
            // What did not parse is silent in the checker.
            found.extend(check::check(&module, &library).1);
        }
    }
    Ok(session.show_all(&found))
}

/// What is lost when a module is printed and read again; nothing for a sound printer.
pub fn roundtrip(path: &str, module: &Module) -> Option<Diagnostic> {
    let printed = print(module);
    let (again, diagnostics) = parse(&mut SourceMap::new(), path, &printed);
    let fault = if has_error(&diagnostics) {
        "does not read back"
    } else if !is_identical(module, &again) {
        "reads back as another program"
    } else if print(&again) != printed {
        "prints differently the second time"
    } else {
        return None;
    };
    Some(Diagnostic::error(
        "round-trip",
        format!("the printed text of {path} {fault}"),
    ))
}

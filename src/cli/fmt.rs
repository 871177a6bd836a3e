//! `irc fmt`: texts in the canonical form. Comments stay; a text with errors stays as it is.

use super::Exit;
use super::output::{write_file, write_stdout};
use super::report::{Failure, Session, has_error, read_text};
use crate::syntax::{parse, print};
use similar::TextDiff;
use std::path::Path;

/// `irc fmt [--check|--diff] FILE…`
#[derive(clap::Args)]
pub struct Args {
    /// Texts to format in place; `-` reads stdin and writes stdout
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Write nothing; name the files that are not formatted and exit with 1
    #[arg(long)]
    check: bool,
    /// Write nothing; show what would change and exit with 1
    #[arg(long, conflicts_with = "check")]
    diff: bool,
}

/// Formats every file; 1 when one has errors or, with `--check` or `--diff`, is not formatted.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let mut exit = Exit::Good;
    for path in &args.files {
        let text = read_text(path)?;
        let (module, diagnostics) = parse(&mut session.sources, path, &text);
        session.show(&diagnostics);
        if has_error(&diagnostics) {
            exit = Exit::No;
            continue;
        }
        let printed = print(&module);
        let is_formatted = printed == text;
        if args.check || args.diff {
            if !is_formatted {
                exit = Exit::No;
                let shown = if args.check {
                    format!("{path}\n")
                } else {
                    diff(path, &text, &printed)
                };
                write_stdout(shown.as_bytes())?;
            }
        } else if path == "-" {
            write_stdout(printed.as_bytes())?;
        } else if !is_formatted {
            write_file(Path::new(path), printed.as_bytes())?;
        }
    }
    Ok(exit)
}

fn diff(path: &str, text: &str, printed: &str) -> String {
    let formatted = format!("{path} (formatted)");
    TextDiff::from_lines(text, printed)
        .unified_diff()
        .header(path, &formatted)
        .to_string()
}

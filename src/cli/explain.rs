//! `irc explain CODE`: what a diagnostic code means.

use super::Exit;
use super::output::write_stdout;
use super::report::{Failure, Session};
use crate::syntax::explain::{EXPLANATIONS, explanation};

/// `irc explain [CODE]`
#[derive(clap::Args)]
pub struct Args {
    /// The code, as it stands in brackets behind `error`; every code without one
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

/// Prints the paragraph of a code, or the list of codes; 1 when there is no such code.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let Some(code) = args.code else {
        let codes: String = EXPLANATIONS
            .iter()
            .map(|(code, _)| format!("{code}\n"))
            .collect();
        write_stdout(codes.as_bytes())?;
        return Ok(Exit::Good);
    };
    match explanation(&code) {
        Some(text) => {
            write_stdout(format!("{code}\n\n{}", wrap(text)).as_bytes())?;
            Ok(Exit::Good)
        }
        None => {
            session.say(&format!(
                "error: no diagnostic has the code `{code}`; `irc explain` lists them\n"
            ));
            Ok(Exit::No)
        }
    }
}

/// A paragraph in lines of at most 80 columns.
fn wrap(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > 80 {
            out.push('\n');
            column = 0;
        }
        if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out.push('\n');
    out
}

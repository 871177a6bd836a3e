//! `irc explain CODE`: what a diagnostic code means.

use super::Exit;
use super::report::{Failure, Session, write_stdout};
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
            write_stdout(format!("{code}\n\n{text}\n").as_bytes())?;
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

//! `irc list`: what there is to choose from.

use super::Exit;
use super::output::write_stdout;
use super::report::{Failure, Session};
use crate::driver;
use crate::library::Library;

/// `irc list WHAT`
#[derive(clap::Args)]
pub struct Args {
    /// What to list: passes, ops, cpus, dtypes
    #[arg(value_name = "WHAT", value_parser = ["passes", "ops", "cpus", "dtypes"])]
    what: String,
}

/// Prints one line an entry.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let text = match args.what.as_str() {
        "passes" => passes(),
        "ops" => ops(&session.library()?),
        "cpus" => super::build::cpu_names().join("\n") + "\n",
        _ => crate::syntax::DType::all()
            .map(|dtype| format!("{dtype}\n"))
            .collect(),
    };
    write_stdout(text.as_bytes())?;
    Ok(Exit::Good)
}

/// The passes in order, with what they do.
pub fn passes() -> String {
    let also = |name: &str| {
        let found = driver::ALIASES.iter().find(|(pass, _)| *pass == name);
        found.map_or_else(String::new, |(_, names)| {
            format!(" (also {})", names.join(", "))
        })
    };
    driver::passes()
        .iter()
        .map(|pass| format!("{:<16} {}{}\n", pass.name, pass.summary, also(pass.name)))
        .collect()
}

fn ops(lib: &Library) -> String {
    let line = |(op, since): (&str, Vec<u32>)| {
        let versions: Vec<String> = since
            .iter()
            .filter(|version| **version > 0)
            .map(ToString::to_string)
            .collect();
        if versions.is_empty() {
            format!("{op}\n")
        } else {
            format!("{op} since {}\n", versions.join(", "))
        }
    };
    lib.ops()
        .map(|(op, since)| line((op, since.collect())))
        .collect()
}

//! `tests/cli`: commands and what they say.
//!
//! A `file NAME` part is written to an empty folder; a `run irc …` part holds what the command wrote to stdout and then
//! to stderr, and `[exit N]` when that is not 0. An `is NAME` part holds a file as it is after the commands before it,
//! `lists` the names of all files then. `copy NAME PATH` takes a file of the repository.

use super::sections::{Case, Part};
use super::{Outcome, files_below, root};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the commands of a section in their own folder.
pub fn run(case: &Case, path: &Path) -> Outcome {
    let stem = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("cli")
        .join(stem)
        .join(&case.name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut parts = Vec::new();
    for part in &case.parts {
        let (kind, rest) = part.label.split_once(' ').unwrap_or((&part.label, ""));
        parts.push(match kind {
            "file" => {
                let path = folder.join(rest);
                std::fs::write(path, &part.text).map_err(|error| error.to_string())?;
                part.clone()
            }
            "is" => {
                let text = std::fs::read_to_string(folder.join(rest))
                    .map_err(|error| error.to_string())?;
                Part::new(&part.label, &text)
            }
            "copy" => {
                let (name, from) = rest.split_once(' ').ok_or("`copy NAME PATH`")?;
                std::fs::copy(root().join(from), folder.join(name))
                    .map_err(|error| format!("{from}: {error}"))?;
                part.clone()
            }
            "lists" => Part::new("lists", &list(&folder)),
            "run" => Part::new(&part.label, &run_command(rest, &folder)?),
            "" => part.clone(),
            kind => {
                return Err(format!(
                    "no part is called `{kind}`; there are `file`, `copy`, `run`, `is` and `lists`"
                ));
            }
        });
    }
    Ok(parts)
}

/// The names below a folder, one a line.
fn list(folder: &Path) -> String {
    files_below(folder)
        .iter()
        .filter_map(|path| path.strip_prefix(folder).ok())
        .map(|path| format!("{}\n", path.display()))
        .collect()
}

fn run_command(command: &str, folder: &Path) -> Result<String, String> {
    let mut words = command.split_whitespace();
    if words.next() != Some("irc") {
        return Err(format!("`{command}` does not start with `irc`"));
    }
    let (args, input): (Vec<&str>, Option<&str>) = match command.split_once(" < ") {
        Some((before, input)) => (
            before.split_whitespace().skip(1).collect(),
            Some(input.trim()),
        ),
        None => (words.collect(), None),
    };
    let stdin = match input {
        Some(name) => {
            let file = std::fs::File::open(folder.join(name)).map_err(|error| error.to_string())?;
            Stdio::from(file)
        }
        None => Stdio::null(),
    };
    let output = Command::new(env!("CARGO_BIN_EXE_irc"))
        .args(args)
        .current_dir(folder)
        .stdin(stdin)
        .env("NO_COLOR", "1")
        .output()
        .map_err(|error| error.to_string())?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let text: String = text
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    match output.status.code() {
        Some(0) => Ok(text),
        Some(code) => Ok(format!("{text}[exit {code}]\n")),
        None => Err(format!("{text}the command was killed")),
    }
}

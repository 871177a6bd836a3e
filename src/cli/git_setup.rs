//! `irc git-setup`: tells git to show models as `irc diff` does.
//!
//! Two things are written: lines of attributes that name a driver for files, and the drivers in git's configuration.
//! A driver has a `command`, which `git diff` runs, and a `textconv` for what shows many versions (`git log -p`,
//! `git show`, `git blame`): git runs commands there only with `--ext-diff`. Nothing else is changed; what is there
//! already is left as it is, so it may be run again.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Exit;
use super::output::{write_file, write_stdout};
use super::report::{Failure, Session};

/// `irc git-setup [--local|--global] [--merge] [--print] [--uninstall]`
#[derive(clap::Args)]
#[command(after_long_help = "\
Afterwards `git diff` shows changes of .onnx and .safetensors files as `irc diff` does, and `git log -p`, `git show` and
`git blame` show them as text with a hash for each weight. `git diff --no-ext-diff` shows that text too.

With --merge, git merges .ir texts in canonical form, line by line, and takes the result only where `irc check` accepts
it; otherwise the file is left in conflict. It merges texts, not meanings: read what it merged.")]
pub struct Args {
    /// For this repository: its .gitattributes and .git/config; the default
    #[arg(long, conflicts_with = "global")]
    local: bool,
    /// For this user: git's own attributes file and ~/.gitconfig
    #[arg(long)]
    global: bool,
    /// A merge driver for .ir texts as well
    #[arg(long)]
    merge: bool,
    /// Write nothing; print what would be written
    #[arg(long)]
    print: bool,
    /// Take away what was written
    #[arg(long, conflicts_with = "print")]
    uninstall: bool,
}

/// Suffixes with a driver.
const SUFFIXES: [&str; 2] = ["onnx", "safetensors"];

/// One attribute line or configuration key.
struct Plan {
    lines: Vec<String>,
    config: Vec<(String, String)>,
}

/// Writes, prints, or takes away.
pub fn run(args: Args, _session: &mut Session) -> Result<Exit, Failure> {
    // Removal takes the merge driver too, whether it was asked for or not.
    let plan = plan(&own_command(), args.merge || args.uninstall);
    if args.print {
        let mut out = String::new();
        for line in &plan.lines {
            out.push_str(&format!("{line}\n"));
        }
        for (key, value) in &plan.config {
            out.push_str(&format!(
                "git config {} {key} {}\n",
                scope(&args),
                quoted(value)
            ));
        }
        write_stdout(out.as_bytes())?;
        return Ok(Exit::Good);
    }
    let attributes = attributes_file(args.global)?;
    if args.uninstall {
        remove_lines(&attributes, &plan.lines)?;
        for (key, _) in &plan.config {
            if git(&["config", scope(&args), "--get", key])?.is_some() {
                git(&["config", scope(&args), "--unset-all", key])?;
            }
        }
        return Ok(Exit::Good);
    }
    add_lines(&attributes, &plan.lines)?;
    for (key, value) in &plan.config {
        if git(&["config", scope(&args), key, value])?.is_none() {
            let message = format!("git cannot set `{key}`");
            return Err(Failure::new(Exit::Io, message));
        }
    }
    Ok(Exit::Good)
}

fn scope(args: &Args) -> &'static str {
    if args.global { "--global" } else { "--local" }
}

fn plan(irc: &str, merge: bool) -> Plan {
    let mut plan = Plan {
        lines: Vec::new(),
        config: Vec::new(),
    };
    for suffix in SUFFIXES {
        plan.lines.push(format!("*.{suffix} diff=irc-{suffix}"));
        let mut set = |key: &str, flag: &str| {
            plan.config.push((
                format!("diff.irc-{suffix}.{key}"),
                format!("{irc} diff {flag}"),
            ));
        };
        set("command", "--git");
        set("textconv", "--textconv");
    }
    if merge {
        plan.lines.push("*.ir merge=irc-ir".to_owned());
        let name = "merge of .ir texts in canonical form";
        let driver = format!(
            "{irc} fmt %O %A %B; git merge-file -L ours -L base -L theirs %A %O %B && {irc} check %A"
        );
        plan.config
            .push(("merge.irc-ir.name".to_owned(), name.to_owned()));
        plan.config.push(("merge.irc-ir.driver".to_owned(), driver));
    }
    plan
}

/// How a shell calls this program: by its name where that finds it, by its path otherwise.
fn own_command() -> String {
    let Ok(own) = std::env::current_exe() else {
        return "irc".to_owned();
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("irc"))
        .find(|file| file.is_file());
    let is_own = |file: &PathBuf| std::fs::canonicalize(file).is_ok_and(|file| file == own);
    if found.as_ref().is_some_and(is_own) {
        return "irc".to_owned();
    }
    quoted(&own.to_string_lossy())
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Runs git; `None` when it says no.
fn git(args: &[&str]) -> Result<Option<String>, Failure> {
    let output = Command::new("git")
        .args(args.iter().map(OsStr::new))
        .output()
        .map_err(|error| Failure::new(Exit::Io, format!("git cannot be run: {error}")))?;
    if !output.status.success() {
        return Ok(None);
    }
    Ok(Some(
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned(),
    ))
}

/// The file of attributes: that of the repository's top folder, or the user's.
fn attributes_file(is_global: bool) -> Result<PathBuf, Failure> {
    if !is_global {
        let top = git(&["rev-parse", "--show-toplevel"])?
            .ok_or_else(|| Failure::new(Exit::Io, "this folder is in no repository of git"))?;
        return Ok(Path::new(&top).join(".gitattributes"));
    }
    if let Some(named) = git(&[
        "config",
        "--global",
        "--type=path",
        "--get",
        "core.attributesFile",
    ])? {
        return Ok(PathBuf::from(named));
    }
    let home = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let folder = home("XDG_CONFIG_HOME").or_else(|| home("HOME").map(|home| home.join(".config")));
    let folder = folder
        .ok_or_else(|| Failure::new(Exit::Io, "HOME is not set"))?
        .join("git");
    std::fs::create_dir_all(&folder).map_err(|error| {
        Failure::new(
            Exit::Io,
            format!("cannot make {}: {error}", folder.display()),
        )
    })?;
    Ok(folder.join("attributes"))
}

/// The text of a file that may not be there.
fn text_of(file: &Path) -> Result<String, Failure> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Failure::new(
            Exit::Io,
            format!("cannot read {}: {error}", file.display()),
        )),
    }
}

fn add_lines(file: &Path, lines: &[String]) -> Result<(), Failure> {
    let old = text_of(file)?;
    let mut new = old.clone();
    for line in lines {
        if !old.lines().any(|found| found.trim() == line) {
            if !new.is_empty() && !new.ends_with('\n') {
                new.push('\n');
            }
            new.push_str(line);
            new.push('\n');
        }
    }
    if new == old {
        Ok(())
    } else {
        write_file(file, new.as_bytes())
    }
}

fn remove_lines(file: &Path, lines: &[String]) -> Result<(), Failure> {
    let old = text_of(file)?;
    let kept = old
        .split_inclusive('\n')
        .filter(|found| !lines.iter().any(|line| found.trim() == line));
    let new: String = kept.collect();
    if new == old {
        return Ok(());
    }
    if new.is_empty() {
        return std::fs::remove_file(file).map_err(|error| {
            Failure::new(
                Exit::Io,
                format!("cannot remove {}: {error}", file.display()),
            )
        });
    }
    write_file(file, new.as_bytes())
}

//! What the verbs share: global options, reading input, writing output, showing diagnostics.

use super::Exit;
use crate::driver::{self, Fault, FaultKind, Program};
use crate::library::Library;
use crate::syntax::render::{Colour, Format, render};
use crate::syntax::{Diagnostic, Module, Severity, SourceMap, parse};
use std::io::{IsTerminal, Read, Write};
use std::path::Path;

/// Options that every verb takes.
#[derive(clap::Args, Clone)]
pub struct Global {
    /// How diagnostics are written: full, short, json, sarif, github
    #[arg(long, global = true, value_name = "FORMAT", default_value = "full", value_parser = parse_format)]
    pub message_format: Format,
    /// When colours are used: auto, always, never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_parser = ["auto", "always", "never"])]
    pub color: String,
    /// A text with operators beside those of the standard library; may be repeated
    #[arg(long, global = true, value_name = "FILE")]
    pub ops: Vec<String>,
}

fn parse_format(text: &str) -> Result<Format, String> {
    let found = Format::ALL.iter().find(|(name, _)| *name == text);
    let names: Vec<&str> = Format::ALL.iter().map(|(name, _)| *name).collect();
    found
        .map(|(_, format)| *format)
        .ok_or_else(|| format!("formats are {}", names.join(", ")))
}

/// Why a verb stopped: the exit code and one line.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What is wrong.
    pub message: String,
}

impl Failure {
    /// A failure with its exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { exit, message }
    }
}

/// One run of a verb: the texts read so far and how to report.
pub struct Session {
    /// The texts that diagnostics point into.
    pub sources: SourceMap,
    format: Format,
    colour: Colour,
    ops: Vec<String>,
}

impl Session {
    /// The session that the global options ask for.
    pub fn new(global: &Global) -> Self {
        let is_wanted = match global.color.as_str() {
            "always" => true,
            "never" => false,
            _ => std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        Self {
            sources: SourceMap::new(),
            format: global.message_format,
            colour: if is_wanted { Colour::On } else { Colour::Off },
            ops: global.ops.clone(),
        }
    }

    /// The standard library with the operators of the files that `--ops` names.
    ///
    /// # Errors
    /// A file cannot be read, or does not parse; what is wrong with it has been shown.
    pub fn library(&mut self) -> Result<Library, Failure> {
        let mut lib = Library::load();
        for path in self.ops.clone() {
            let bytes = read_bytes(&path)?;
            let text = String::from_utf8(bytes)
                .map_err(|_| Failure::new(Exit::Io, format!("`{path}` is no text")))?;
            let (module, faults) = crate::syntax::parse(&mut self.sources, &path, &text);
            if has_error(&faults) {
                self.show(&faults);
                let message = format!("the operators of `{path}` cannot be used");
                return Err(Failure::new(Exit::No, message));
            }
            lib = lib.with_user_file(module);
        }
        Ok(lib)
    }

    /// Writes to stderr.
    pub fn say(&self, text: &str) {
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// Writes diagnostics to stderr; a SARIF document is a result and goes to stdout.
    pub fn show(&self, diagnostics: &[Diagnostic]) {
        let text = render(diagnostics, &self.sources, self.format, self.colour);
        if self.format == Format::Sarif {
            let _ = std::io::stdout().write_all(text.as_bytes());
        } else if !text.is_empty() {
            self.say(&text);
        }
    }

    /// Shows diagnostics and says whether they leave the program without meaning.
    pub fn show_all(&self, diagnostics: &[Diagnostic]) -> Exit {
        self.show(diagnostics);
        if has_error(diagnostics) {
            Exit::No
        } else {
            Exit::Good
        }
    }

    /// Reads a program of any kind; `-` is stdin.
    ///
    /// # Errors
    /// The file cannot be read, or what it holds is wrong.
    pub fn load(&mut self, path: &str, lib: &Library) -> Result<Program, Fault> {
        if path != "-" {
            return driver::load(Path::new(path), lib, &mut self.sources);
        }
        let bytes = read_bytes(path).map_err(|failure| Fault::io(failure.message))?;
        driver::load_bytes(&bytes, lib, &mut self.sources)
    }

    /// Shows why a step failed, and says how the process ends.
    pub fn show_fault(&self, fault: &Fault) -> Exit {
        self.show(&fault.diagnostics);
        match fault.kind {
            FaultKind::Program => Exit::No,
            FaultKind::Io => Exit::Io,
            FaultKind::Unsupported => Exit::Unsupported,
            FaultKind::Internal => {
                let messages = fault.diagnostics.iter().map(|diag| diag.message.as_str());
                super::fault::report(&messages.collect::<Vec<_>>().join("; "));
                Exit::Fault
            }
        }
    }

    /// Reads and parses a text; `-` is stdin.
    ///
    /// # Errors
    /// The file cannot be read or is no UTF-8.
    pub fn parse(&mut self, path: &str) -> Result<(Module, Vec<Diagnostic>), Failure> {
        let text = read_text(path)?;
        let shown = if path == "-" { "<stdin>" } else { path };
        Ok(parse(&mut self.sources, shown, &text))
    }
}

/// Whether any of them is an error.
pub fn has_error(diagnostics: &[Diagnostic]) -> bool {
    diagnostics
        .iter()
        .any(|diagnostic| diagnostic.severity == Severity::Error)
}

/// The bytes of a file; `-` is stdin.
///
/// # Errors
/// The file cannot be read.
pub fn read_bytes(path: &str) -> Result<Vec<u8>, Failure> {
    let read = if path == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    read.map_err(|error| Failure::new(Exit::Io, format!("cannot read {path}: {error}")))
}

/// The text of a file; `-` is stdin.
///
/// # Errors
/// The file cannot be read or is no UTF-8.
pub fn read_text(path: &str) -> Result<String, Failure> {
    String::from_utf8(read_bytes(path)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(
            Exit::Io,
            format!("{path} is no UTF-8 text: byte {at} starts no character"),
        )
    })
}

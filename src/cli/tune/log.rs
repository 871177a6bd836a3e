//! The log: choices by key as JSON, each with the kernel that it was found for and what it saved.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::codegen::Target;
use crate::sched::choice::Choice;
use crate::syntax::Expr;

/// The version of the form.
const VERSION: u32 = 1;

/// Choices for kernels, by key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Log {
    v: u32,
    irc: String,
    target: String,
    threads: Option<String>,
    kernels: BTreeMap<String, Entry>,
}

/// A choice, and how it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    kernel: String,
    choice: Choice,
    /// Milliseconds of a request.
    ms: f64,
    /// The same by formula.
    formula_ms: f64,
}

impl Log {
    /// A log without choices, of this machine.
    pub fn new(target: &Target) -> Self {
        Self {
            v: VERSION,
            irc: env!("CARGO_PKG_VERSION").to_owned(),
            target: format!("{} {:?}", target.triple, target.cpu),
            threads: std::env::var("IRC_NUM_THREADS").ok(),
            kernels: BTreeMap::new(),
        }
    }

    /// Adds a choice.
    pub fn insert(
        &mut self,
        key: &str,
        kernel: &str,
        choice: Choice,
        before: Duration,
        after: Duration,
    ) {
        let micros = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        let entry = Entry {
            kernel: kernel.to_owned(),
            choice,
            ms: micros(after),
            formula_ms: micros(before),
        };
        self.kernels.insert(key.to_owned(), entry);
    }

    /// Reads a log.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let log: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if log.v != VERSION {
            return Err(format!("it is of version {}, not {VERSION}", log.v));
        }
        let unsound = log
            .kernels
            .iter()
            .find(|(_, entry)| !entry.choice.is_sound());
        match unsound {
            Some((key, _)) => Err(format!("the choice of `{key}` is out of range")),
            None => Ok(log),
        }
    }

    /// The log as a file.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The dictionary of the attribute `irc.tuned`.
    pub fn to_expr(&self) -> Expr {
        let items = self.kernels.iter();
        Expr::dict(items.map(|(key, entry)| (key.clone(), entry.choice.to_expr())))
    }

    /// The keys that are not among these.
    pub fn unknown<'k>(&self, known: impl Iterator<Item = &'k String>) -> usize {
        let known: std::collections::BTreeSet<&String> = known.collect();
        self.kernels
            .keys()
            .filter(|key| !known.contains(key))
            .count()
    }

    /// How many choices there are.
    pub fn n_choices(&self) -> usize {
        self.kernels.len()
    }

    /// What was found, in one line.
    pub fn summary(&self, n_kernels: usize) -> String {
        let sum = |ms: &dyn Fn(&Entry) -> f64| -> f64 { self.kernels.values().map(ms).sum() };
        let (before, after) = (sum(&|entry| entry.formula_ms), sum(&|entry| entry.ms));
        format!(
            "{} of {n_kernels} kernels are faster than by formula: {before:.3} ms of a request become {after:.3} ms\n",
            self.kernels.len()
        )
    }
}

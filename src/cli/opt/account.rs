//! What passes did, as `irc opt` tells it: dumps, times, remarks, a trace, and the program before and after.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::values::Values;
use super::{Args, Exit};
use crate::check::check;
use crate::cli::bench::table;
use crate::cli::output::write_file;
use crate::cli::report::{Failure, Session};
use crate::driver::Program;
use crate::library::Library;
use crate::opt::log::Remark;
use crate::opt::summary::{FuncSummary, formula, summarize};
use crate::opt::{Changed, Outcome};
use crate::syntax::{Diagnostic, Severity, print};

/// How many characters a cell of a table has at most.
const MAX_CELL: usize = 40;

/// The account of one run.
pub struct Account<'a> {
    args: &'a Args,
    before: Vec<FuncSummary>,
    values: Option<Values<'a>>,
    passes: Vec<Done>,
    number: usize,
    failed: Option<Failure>,
}

/// One run of one pass.
struct Done {
    pass: &'static str,
    changed: bool,
    rewrites: Vec<Remark>,
    time: Duration,
    /// The text after it, for a trace.
    text: Option<String>,
}

impl<'a> Account<'a> {
    /// Opens the account of a program.
    ///
    /// # Errors
    /// The folder of dumps cannot be made; there are no inputs to check values with.
    pub fn new(args: &'a Args, program: &Program, lib: &'a Library) -> Result<Self, Failure> {
        if let Some(dir) = &args.dump {
            std::fs::create_dir_all(dir).map_err(|error| {
                Failure::new(Exit::Io, format!("cannot make {}: {error}", dir.display()))
            })?;
        }
        let values = match args.check_values {
            Some(seed) => Some(Values::new(program, lib, seed)?),
            None => None,
        };
        Ok(Self {
            args,
            before: if args.summary {
                summary_of(program, lib)
            } else {
                Vec::new()
            },
            values,
            passes: Vec::new(),
            number: 0,
            failed: None,
        })
    }

    /// Notes a pass.
    pub fn note(&mut self, outcome: &Outcome) {
        let pass = outcome.step.pass.name;
        let changed = outcome.changed == Changed::Yes;
        self.number += 1;
        if let Some(dir) = self
            .args
            .dump
            .as_ref()
            .filter(|_| changed || !self.args.changed)
        {
            let path = dir.join(format!("{:02}-{pass}.ir", self.number));
            let written = write_file(&path, print(outcome.module).as_bytes());
            self.failed = self.failed.take().or(written.err());
        }
        if let Some(values) = self.values.as_mut().filter(|_| changed) {
            values.check(outcome);
        }
        self.passes.push(Done {
            pass,
            changed,
            rewrites: outcome.rewrites.to_vec(),
            time: outcome.time,
            text: (self.args.trace.is_some() && changed).then(|| print(outcome.module)),
        });
    }

    /// Tells what was asked for; 1 where a pass changed what the program computes.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn close(
        mut self,
        program: &Program,
        missed: &[Remark],
        lib: &Library,
        session: &Session,
    ) -> Result<Exit, Failure> {
        if let Some(failure) = self.failed.take() {
            return Err(failure);
        }
        if let Some(which) = &self.args.remarks {
            session.show(&self.remarks(which, missed));
        }
        if self.args.timing {
            session.say(&self.timing());
        }
        if self.args.summary {
            session.say(&compare(&self.before, &summary_of(program, lib)));
        }
        if let Some(path) = &self.args.trace {
            let trace = format!("{:#}\n", self.trace(missed));
            write_file(path, trace.as_bytes())?;
        }
        match self.values {
            Some(values) => values.close(session),
            None => Ok(Exit::Good),
        }
    }

    fn remarks(&self, which: &str, missed: &[Remark]) -> Vec<Diagnostic> {
        let done = self.passes.iter().flat_map(|done| &done.rewrites);
        let done = done
            .filter(|_| which != "missed")
            .map(|remark| ("rewritten", remark));
        let missed = missed.iter().filter(|_| which != "done");
        let missed = missed.map(|remark| ("not rewritten", remark));
        done.chain(missed)
            .map(|(what, remark)| say(what, remark))
            .collect()
    }

    fn timing(&self) -> String {
        let mut times: BTreeMap<&str, (Duration, usize, usize)> = BTreeMap::new();
        for done in &self.passes {
            let (time, runs, rewrites) = times.entry(done.pass).or_default();
            *time += done.time;
            *runs += 1;
            *rewrites += done.rewrites.len();
        }
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_by_key(|(name, (time, ..))| (std::cmp::Reverse(*time), *name));
        let head = ["pass", "ms", "runs", "rewrites"]
            .map(str::to_owned)
            .to_vec();
        let rows = times.into_iter().map(|(name, (time, runs, rewrites))| {
            vec![
                name.to_owned(),
                format!("{:.3}", time.as_secs_f64() * 1e3),
                runs.to_string(),
                rewrites.to_string(),
            ]
        });
        table(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
    }

    fn trace(&self, missed: &[Remark]) -> Json {
        let remark = |remark: &Remark| {
            let place = remark
                .span
                .map(|span| json!({"from": span.lo, "to": span.hi}));
            json!({
                "pass": remark.pass,
                "name": remark.name,
                "place": place,
                "message": remark.message,
            })
        };
        let passes = self.passes.iter().map(|done| {
            json!({
                "pass": done.pass,
                "changed": done.changed,
                "rewrites": done.rewrites.iter().map(remark).collect::<Vec<_>>(),
                "text": done.text,
            })
        });
        json!({
            "v": 1,
            "passes": passes.collect::<Vec<_>>(),
            "missed": missed.iter().map(remark).collect::<Vec<_>>(),
        })
    }
}

/// A remark as it is shown.
fn say(what: &str, remark: &Remark) -> Diagnostic {
    let name = match remark.name.as_str() {
        "" => "the module".to_owned(),
        name => format!("`{name}`"),
    };
    let message = match remark.message.as_str() {
        "" => format!("{name} is {what}"),
        why => format!("{name} is {what}: {why}"),
    };
    let mut diag = Diagnostic::error(remark.pass, message);
    diag.severity = Severity::Note;
    match remark.span {
        Some(span) => diag.at(Some(span), "here"),
        None => diag,
    }
}

/// What each function of a program costs.
fn summary_of(program: &Program, lib: &Library) -> Vec<FuncSummary> {
    let (info, _) = check(&program.module, lib);
    summarize(&program.module, &info, &program.weights, lib)
}

/// Two programs side by side, function by function.
fn compare(before: &[FuncSummary], after: &[FuncSummary]) -> String {
    let mut out = String::new();
    for now in after {
        let then = before.iter().find(|func| func.name == now.name);
        let row = |what: &str, read: &dyn Fn(&FuncSummary) -> String| {
            vec![
                what.to_owned(),
                then.map_or("-".to_owned(), read),
                read(now),
            ]
        };
        let mut rows = vec![vec![
            now.name.to_string(),
            "before".to_owned(),
            "after".to_owned(),
        ]];
        rows.push(row("operators", &|func| func.n_operators().to_string()));
        rows.push(row("parameters", &|func| func.parameters.to_string()));
        rows.push(row("bytes of parameters", &|func| {
            func.parameter_bytes.to_string()
        }));
        rows.push(row("FLOPs", &|func| formula(func.flops.as_ref())));
        rows.push(row("bytes moved", &|func| formula(func.bytes.as_ref())));
        rows.push(row("bytes alive at most", &|func| {
            formula(func.peak.as_ref())
        }));
        let names = then
            .iter()
            .flat_map(|then| then.operators.keys())
            .chain(now.operators.keys());
        let names: std::collections::BTreeSet<&String> = names.collect();
        for name in names {
            let count = |func: &FuncSummary| func.operators.get(name).copied().unwrap_or(0);
            if then.map_or(0, count) != count(now) {
                rows.push(row(&format!("  {name}"), &|func| count(func).to_string()));
            }
        }
        let long = shorten(&mut rows);
        let _ = writeln!(out, "{}", table(&rows).trim_end());
        for (number, formula) in long.iter().enumerate() {
            let _ = writeln!(out, "({}) {formula}", number + 1);
        }
    }
    out
}

/// Takes what is too long for a table out of it; a number in brackets stays for each.
fn shorten(rows: &mut [Vec<String>]) -> Vec<String> {
    let mut long: Vec<String> = Vec::new();
    for cell in rows.iter_mut().flatten() {
        if cell.len() > MAX_CELL {
            let known = long.iter().position(|other| other == cell);
            let at = known.unwrap_or_else(|| {
                long.push(cell.clone());
                long.len() - 1
            });
            *cell = format!("({})", at + 1);
        }
    }
    long
}

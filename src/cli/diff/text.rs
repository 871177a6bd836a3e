//! A report as lines for a reader.

use crate::diff::{Aspect, Change, Detail, FuncReport, Kind, Report, Verdict};

/// The most lines of operators of one function, and of weights, unless all are asked for.
const OPERATORS: usize = 40;
const WEIGHTS: usize = 10;

/// A longer line puts each of its details on a line of its own; a weight has one line.
const WIDTH: usize = 110;

/// The whole report; nothing but notes where the two are equal.
pub fn write(report: &Report, is_all: bool) -> String {
    let mut out = String::new();
    if report.is_empty() {
        let notes = match report.notes.as_slice() {
            [] => String::new(),
            notes => format!(" ({})", notes.join(", ")),
        };
        return format!("equal{notes}\n");
    }
    out.push_str(report.verdict.name());
    if !report.reason.is_empty() {
        out.push_str(&format!(": {}", report.reason));
    }
    out.push('\n');
    if !report.interface.is_empty() {
        out.push_str("interface\n");
        list(&report.interface, usize::MAX, &mut out);
    }
    let most = if is_all { usize::MAX } else { OPERATORS };
    let (loops, graphs): (Vec<&FuncReport>, Vec<&FuncReport>) =
        report.functions.iter().partition(|func| func.is_loops());
    if !loops.is_empty() {
        let changes: Vec<Change> = loops.iter().flat_map(|func| func.changes.clone()).collect();
        out.push_str("loops\n");
        list(&changes, most, &mut out);
    }
    for func in graphs {
        out.push_str(&format!("{}\n", func.name));
        list(&func.changes, most, &mut out);
        for line in &func.follows {
            out.push_str(&format!("  {line}\n"));
        }
    }
    if !report.weights.is_empty() {
        out.push_str(&format!("weights: {}\n", tally(&report.weights)));
        let most = if is_all { usize::MAX } else { WEIGHTS };
        let (changed, others): (Vec<Change>, Vec<Change>) = report
            .weights
            .iter()
            .cloned()
            .partition(|change| change.kind == Kind::Changed);
        list(&others, most, &mut out);
        list(&changed, most, &mut out);
    }
    for note in &report.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    out
}

fn list(changes: &[Change], most: usize, out: &mut String) {
    for change in changes.iter().take(most) {
        out.push_str(&line(change));
    }
    if changes.len() > most {
        let left = changes.len() - most;
        out.push_str(&format!("  … and {left} more (`--all`)\n"));
    }
}

/// What a change is of, without its details: ``R.nn.conv2d `y` ``.
pub fn subject(change: &Change) -> String {
    let mut res = change.what.clone();
    match change.name.strip_prefix("in ") {
        Some("return") => res.push_str(" in return"),
        Some(around) => res.push_str(&format!(" in `{around}`")),
        None if change.name.is_empty() => {}
        None if change.what == "operators" => res = format!("{} {res}", change.name),
        None => res.push_str(&format!(" `{}`", change.name)),
    }
    if let Some(renamed) = change
        .renamed
        .as_deref()
        .filter(|new| !new.starts_with("in "))
    {
        match change.kind {
            Kind::Renamed => res.push_str(&format!(" → `{renamed}`")),
            Kind::Added | Kind::Removed | Kind::Changed => {
                res.push_str(&format!(" (now `{renamed}`)"));
            }
        }
    }
    res
}

/// One detail: `strides: [1, 1] → [2, 2]`.
pub fn detail(detail: &Detail) -> String {
    let what = &detail.what;
    match (detail.aspect, &detail.from, &detail.to) {
        (Aspect::Order, Some(from), Some(to)) => format!("{what} swapped: {from} → {to}"),
        (_, Some(from), Some(to)) => format!("{what}: {from} → {to}"),
        (Aspect::Operand, None, Some(to)) => format!("{what}: {to} added"),
        (Aspect::Operand, Some(from), None) => format!("{what}: {from} removed"),
        (Aspect::Attribute, None, Some(to)) => format!("{what}: none → {to}"),
        (Aspect::Attribute, Some(from), None) => format!("{what}: {from} → none"),
        (_, None, Some(to)) => format!("{what} {to}"),
        (_, Some(from), None) => format!("{what} {from} removed"),
        (_, None, None) => what.clone(),
    }
}

fn line(change: &Change) -> String {
    let is_call =
        matches!(change.kind, Kind::Added | Kind::Removed) && change.note.starts_with(&change.what);
    let mut head = match (
        is_call,
        change.name.is_empty() || change.name.starts_with("in "),
    ) {
        (true, false) => format!("  {} {} = {}", change.kind.mark(), change.name, change.note),
        (true, true) => format!("  {} {}", change.kind.mark(), change.note),
        (false, _) => format!("  {} {}", change.kind.mark(), subject(change)),
    };
    let mut tail = String::new();
    if change.what == "weight" && !change.note.is_empty() {
        head.push_str(&format!(" {}", change.note));
    } else if !change.note.is_empty() && !is_call {
        tail = format!("  ({})", change.note);
    }
    if change.verdict > Verdict::Patch {
        tail.push_str(&format!("  {}", change.verdict.name()));
    }
    let details: Vec<String> = change.details.iter().map(detail).collect();
    let joined = details.join(", ");
    let is_short = head.chars().count() + joined.chars().count() < WIDTH;
    if !joined.is_empty() && (is_short || change.what == "weight") {
        return format!("{head}  {joined}{tail}\n");
    }
    head.push_str(&tail);
    head.push('\n');
    for detail in details {
        head.push_str(&format!("      {detail}\n"));
    }
    head
}

/// How many of each kind: `3 changed, 1 added`.
pub fn tally(changes: &[Change]) -> String {
    let kinds = [Kind::Changed, Kind::Renamed, Kind::Added, Kind::Removed];
    let counts = kinds.into_iter().filter_map(|kind| {
        let n = changes.iter().filter(|change| change.kind == kind).count();
        (n > 0).then(|| format!("{n} {}", kind.name()))
    });
    counts.collect::<Vec<_>>().join(", ")
}

/// Only how many changes there are.
pub fn write_counts(report: &Report) -> String {
    let mut out = format!("{}\n", report.verdict.name());
    let mut add = |what: &str, changes: &[Change]| {
        if !changes.is_empty() {
            out.push_str(&format!("{what}: {}\n", tally(changes)));
        }
    };
    add("interface", &report.interface);
    for func in &report.functions {
        let (constants, operators): (Vec<Change>, Vec<Change>) = func
            .changes
            .iter()
            .cloned()
            .partition(|change| change.what == "constant");
        add(&format!("{} operators", func.name), &operators);
        add(&format!("{} constants", func.name), &constants);
    }
    add("weights", &report.weights);
    out
}

//! Diagnostics written into the text they are about, and taken out of it again.
//!
//! Under a faulty line stands `#   ^^^ error[code]: message`, with the carets below the place; `~~~` marks a related
//! place; `#= ` starts a note, a help, or a diagnostic without a place. A caret below the first column of a
//! line is left out, for the `#` stands there.

use irc::syntax::render::severity_name;
use irc::syntax::{Diagnostic, SourceMap, Span};

/// The text without the lines that [`annotate`] adds.
pub fn strip(text: &str) -> String {
    let is_mark = |line: &&str| {
        let Some(rest) = line.strip_prefix('#') else {
            return false;
        };
        rest.starts_with("= ") || rest.trim_start().starts_with(['^', '~'])
    };
    text.lines()
        .filter(|line| !is_mark(line))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// The text with every diagnostic below the line it is about.
pub fn annotate(text: &str, diagnostics: &[Diagnostic], sources: &SourceMap) -> String {
    let mut below: Vec<Vec<String>> = vec![Vec::new(); text.lines().count() + 1];
    for diagnostic in diagnostics {
        let severity = severity_name(diagnostic.severity);
        let mut lines = Vec::new();
        let head = format!("{severity}[{}]: {}", diagnostic.code, diagnostic.message);
        let mut at = below.len() - 1;
        match &diagnostic.primary {
            Some(primary) => {
                let (line, carets) = marks(primary.span, '^', sources);
                at = line.min(at);
                lines.push(format!("{carets} {head}"));
            }
            None => lines.push(format!("#= {head}")),
        }
        lines.extend(
            diagnostic
                .notes
                .iter()
                .map(|note| format!("#= note: {note}")),
        );
        lines.extend(
            diagnostic
                .help
                .iter()
                .map(|help| format!("#= help: {}", help.text)),
        );
        below[at].extend(lines);
        for label in &diagnostic.related {
            let (line, tildes) = marks(label.span, '~', sources);
            let line = line.min(below.len() - 1);
            below[line].push(format!("{tildes} {}", label.text));
        }
    }
    let mut out = String::new();
    for (at, line) in text.lines().enumerate() {
        out.push_str(&format!("{line}\n"));
        for mark in below[at + 1].iter() {
            out.push_str(&format!("{mark}\n"));
        }
    }
    for mark in &below[0] {
        out.push_str(&format!("{mark}\n"));
    }
    out
}

/// The line of a place, from 1, and the marks below it.
fn marks(span: Span, mark: char, sources: &SourceMap) -> (usize, String) {
    let Some(file) = sources.file(span.file) else {
        return (1, format!("#{mark}"));
    };
    let (line, column) = file.line_column(span.lo);
    let (end_line, end_column) = file.line_column(span.hi);
    let end = if end_line == line {
        end_column
    } else {
        file.line(line).chars().count() + 1
    };
    let first = column.max(2);
    let n = end.saturating_sub(first).max(1);
    let marks: String = std::iter::repeat_n(mark, n).collect();
    (line, format!("#{}{marks}", " ".repeat(first - 2)))
}

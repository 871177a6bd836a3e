//! Diagnostics out: for a terminal, for `grep`, for programs and for code hosts.
//!
//! Gives text and prints nothing. What has no place is said without one. JSON is one object a line.

use crate::ast::{FileId, Span};
use crate::diag::{Diagnostic, Edit, Severity};
use crate::source::SourceMap;
use ariadne::{Color, Config, IndexType, Report, ReportKind, Source};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// How diagnostics are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// With the source lines and every related place.
    #[default]
    Full,
    /// One line each: `path:line:column: error[code]: message`.
    Short,
    /// One JSON object a line.
    Json,
    /// One SARIF 2.1.0 document.
    Sarif,
    /// GitHub's workflow commands.
    Github,
}

impl Format {
    /// Every format by its name on the command line.
    pub const ALL: [(&'static str, Format); 5] = [
        ("full", Format::Full),
        ("short", Format::Short),
        ("json", Format::Json),
        ("sarif", Format::Sarif),
        ("github", Format::Github),
    ];
}

/// Whether terminal colours are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Colour {
    /// Plain text.
    #[default]
    Off,
    /// ANSI escapes.
    On,
}

/// The diagnostics in a format, ending in a newline unless there are none.
pub fn render(
    diagnostics: &[Diagnostic],
    sources: &SourceMap,
    format: Format,
    colour: Colour,
) -> String {
    let mut out = String::new();
    match format {
        Format::Full => {
            let mut cache = SourceCache::new(sources);
            for diagnostic in diagnostics {
                full(diagnostic, &mut cache, colour, &mut out);
            }
        }
        Format::Short => {
            for diagnostic in diagnostics {
                short(diagnostic, sources, &mut out);
            }
        }
        Format::Json => {
            for diagnostic in diagnostics {
                let _ = writeln!(out, "{}", to_json(diagnostic, sources));
            }
        }
        Format::Sarif => {
            let _ = writeln!(out, "{:#}", sarif(diagnostics, sources));
        }
        Format::Github => {
            for diagnostic in diagnostics {
                github(diagnostic, sources, &mut out);
            }
        }
    }
    out
}

/// The word for a severity.
pub fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// The texts in the form that ariadne reads, made when first shown.
struct SourceCache<'a> {
    sources: &'a SourceMap,
    made: BTreeMap<FileId, Source<Arc<str>>>,
}

impl<'a> SourceCache<'a> {
    fn new(sources: &'a SourceMap) -> Self {
        let made = BTreeMap::new();
        Self { sources, made }
    }
}

impl ariadne::Cache<FileId> for SourceCache<'_> {
    type Storage = Arc<str>;

    fn fetch(&mut self, id: &FileId) -> Result<&Source<Arc<str>>, impl std::fmt::Debug> {
        let Some(file) = self.sources.file(*id) else {
            return Err("a place outside of every text");
        };
        Ok(self
            .made
            .entry(*id)
            .or_insert_with(|| Source::from(file.text.clone())))
    }

    fn display<'b>(&self, id: &'b FileId) -> Option<impl std::fmt::Display + 'b> {
        self.sources.file(*id).map(|file| file.path.clone())
    }
}

type Place = (FileId, std::ops::Range<usize>);

fn place(span: Span) -> Place {
    (span.file, span.lo as usize..span.hi as usize)
}

fn full(diagnostic: &Diagnostic, cache: &mut SourceCache, colour: Colour, out: &mut String) {
    let Some(primary) = &diagnostic.primary else {
        short(diagnostic, cache.sources, out);
        for note in &diagnostic.notes {
            let _ = writeln!(out, "  note: {note}");
        }
        if let Some(help) = &diagnostic.help {
            let _ = writeln!(out, "  help: {}", help.text);
        }
        return;
    };
    let (kind, main_colour) = match diagnostic.severity {
        Severity::Error => (ReportKind::Error, Color::Red),
        Severity::Warning => (ReportKind::Warning, Color::Yellow),
        Severity::Note => (ReportKind::Advice, Color::Blue),
    };
    let config = Config::default()
        .with_index_type(IndexType::Byte)
        .with_color(colour == Colour::On);
    let mut report = Report::build(kind, place(primary.span))
        .with_config(config)
        .with_code(diagnostic.code)
        .with_message(&diagnostic.message)
        .with_label(
            ariadne::Label::new(place(primary.span))
                .with_message(&primary.text)
                .with_color(main_colour)
                .with_priority(1),
        );
    for label in &diagnostic.related {
        let label = ariadne::Label::new(place(label.span))
            .with_message(&label.text)
            .with_color(Color::Cyan);
        report = report.with_label(label);
    }
    report.with_notes(&diagnostic.notes);
    if let Some(help) = &diagnostic.help {
        report = report.with_help(&help.text);
    }
    let mut bytes = Vec::new();
    if report.finish().write(cache, &mut bytes).is_ok() {
        out.push_str(&String::from_utf8_lossy(&bytes));
    }
}

fn short(diagnostic: &Diagnostic, sources: &SourceMap, out: &mut String) {
    if let Some(primary) = &diagnostic.primary {
        let _ = write!(out, "{}: ", sources.place(primary.span));
    }
    let severity = severity_name(diagnostic.severity);
    let _ = writeln!(
        out,
        "{severity}[{}]: {}",
        diagnostic.code, diagnostic.message
    );
}

/// One diagnostic as a JSON object.
pub fn to_json(diagnostic: &Diagnostic, sources: &SourceMap) -> Value {
    let label = |label: &crate::diag::Label| {
        let mut value = range_json(label.span, sources);
        value["text"] = json!(label.text);
        value
    };
    json!({
        "code": diagnostic.code,
        "severity": severity_name(diagnostic.severity),
        "message": diagnostic.message,
        "primary": diagnostic.primary.as_ref().map(label),
        "related": diagnostic.related.iter().map(label).collect::<Vec<_>>(),
        "notes": diagnostic.notes,
        "help": diagnostic.help.as_ref().map(|help| json!({
            "text": help.text,
            "edit": help.edit.as_ref().map(|edit| edit_json(edit, sources)),
        })),
    })
}

fn edit_json(edit: &Edit, sources: &SourceMap) -> Value {
    let mut value = range_json(edit.span, sources);
    value["replacement"] = json!(edit.text);
    value
}

fn range_json(span: Span, sources: &SourceMap) -> Value {
    let Some(file) = sources.file(span.file) else {
        return json!({});
    };
    let (line, column) = file.line_column(span.lo);
    let (end_line, end_column) = file.line_column(span.hi);
    json!({
        "file": file.path,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    })
}

fn sarif(diagnostics: &[Diagnostic], sources: &SourceMap) -> Value {
    let location = |span: Span, text: &str| {
        let range = range_json(span, sources);
        json!({
            "message": {"text": text},
            "physicalLocation": {
                "artifactLocation": {"uri": range["file"]},
                "region": {
                    "startLine": range["line"],
                    "startColumn": range["column"],
                    "endLine": range["end_line"],
                    "endColumn": range["end_column"],
                },
            },
        })
    };
    let results = diagnostics.iter().map(|diagnostic| {
        let primary = diagnostic
            .primary
            .iter()
            .map(|label| location(label.span, &label.text));
        let related = diagnostic
            .related
            .iter()
            .map(|label| location(label.span, &label.text));
        json!({
            "ruleId": diagnostic.code,
            "level": severity_name(diagnostic.severity),
            "message": {"text": diagnostic.message},
            "locations": primary.collect::<Vec<_>>(),
            "relatedLocations": related.collect::<Vec<_>>(),
        })
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "irc", "version": env!("CARGO_PKG_VERSION")}},
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

fn github(diagnostic: &Diagnostic, sources: &SourceMap, out: &mut String) {
    let escape = |text: &str| {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    let severity = match diagnostic.severity {
        Severity::Note => "notice",
        severity => severity_name(severity),
    };
    let _ = write!(out, "::{severity} title={}", diagnostic.code);
    if let Some(primary) = &diagnostic.primary
        && let Some(file) = sources.file(primary.span.file)
    {
        let (line, column) = file.line_column(primary.span.lo);
        let _ = write!(out, ",file={},line={line},col={column}", escape(&file.path));
    }
    let _ = writeln!(out, "::{}", escape(&diagnostic.message));
}

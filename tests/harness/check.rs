//! `tests/check`: modules with what the checker says in place; a module without faults has no marks.

use super::Outcome;
use super::carets;
use super::native::LIBRARY;
use super::sections::{Case, Part};
use irc::check::check;
use irc::syntax::{SourceMap, parse};
use std::path::Path;

/// Every fault stands below its line.
pub fn run(case: &Case, _path: &Path) -> Outcome {
    let mut sources = SourceMap::new();
    let text = carets::strip(&case.parts[0].text);
    let (module, mut diagnostics) = parse(&mut sources, "text", &text);
    if diagnostics.is_empty() {
        diagnostics = check(&module, &LIBRARY).1;
    }
    Ok(vec![Part::new(
        "",
        &carets::annotate(&text, &diagnostics, &sources),
    )])
}

//! `tests/syntax`: what is read and how it prints; what is refused and how that is said.

use super::Outcome;
use super::carets;
use super::laws;
use super::sections::{Case, Part};
use irc::syntax::{Dialect, Format, PrintOptions, SourceMap, parse, print_with, render};
use std::path::Path;

/// A text prints as itself, or as its `printed` part; a `tvm` part is the text in TVM's dialect.
pub fn run_ok(case: &Case, _path: &Path) -> Outcome {
    let mut sources = SourceMap::new();
    let source = &case.parts[0];
    let (module, diagnostics) = parse(&mut sources, "text", &source.text);
    if !diagnostics.is_empty() {
        return Err(render(
            &diagnostics,
            &sources,
            Format::Full,
            Default::default(),
        ));
    }
    laws::check_text(&source.text)?;
    let printed = |dialect| print_with(&module, &PrintOptions { dialect });
    if case.parts.len() == 1 {
        return Ok(vec![Part::new("", &printed(Dialect::Irc))]);
    }
    let mut parts = vec![source.clone()];
    for part in &case.parts[1..] {
        let text = match part.label.as_str() {
            "printed" => printed(Dialect::Irc),
            "tvm" => printed(Dialect::Tvm),
            label => {
                return Err(format!(
                    "no part is called `{label}`; there are `printed` and `tvm`"
                ));
            }
        };
        parts.push(Part::new(&part.label, &text));
    }
    Ok(parts)
}

/// Every fault stands below its line.
pub fn run_err(case: &Case, _path: &Path) -> Outcome {
    let mut sources = SourceMap::new();
    let text = carets::strip(&case.parts[0].text);
    let (_, diagnostics) = parse(&mut sources, "text", &text);
    if diagnostics.is_empty() {
        return Err("the text has no fault".into());
    }
    Ok(vec![Part::new(
        "",
        &carets::annotate(&text, &diagnostics, &sources),
    )])
}

//! Laws on every text: it reads back equal after printing, printing twice gives the same bytes, and `std/` and
//! `examples/` are stored formatted.

use super::sections::TestFile;
use super::{compare_text, files_below, is_blessing, root, shown};
use irc::syntax::{Format, Module, SourceMap, is_identical, parse, print, render};
use libtest_mimic::{Failed, Trial};
use std::path::Path;

/// Parses a text that has no fault.
pub fn parse_clean(text: &str) -> Result<Module, String> {
    let mut sources = SourceMap::new();
    let (module, diagnostics) = parse(&mut sources, "text", text);
    if diagnostics.is_empty() {
        Ok(module)
    } else {
        Err(render(
            &diagnostics,
            &sources,
            Format::Full,
            Default::default(),
        ))
    }
}

/// The laws on one text.
pub fn check_text(text: &str) -> Result<(), String> {
    let module = parse_clean(text)?;
    let printed = print(&module);
    let again =
        parse_clean(&printed).map_err(|fault| format!("the printed text has faults\n{fault}"))?;
    if !is_identical(&module, &again) {
        return Err(format!(
            "the printed text reads back as another program:\n{printed}"
        ));
    }
    let second = print(&again);
    if second != printed {
        return Err(format!("printing twice differs:\n{printed}\n---\n{second}"));
    }
    let comments = |text: &str| {
        text.lines()
            .filter(|line| line.trim_start().starts_with('#'))
            .count()
    };
    if comments(&printed) < comments(text) {
        return Err(format!("a comment is lost:\n{printed}"));
    }
    Ok(())
}

/// One test a file of `std/` and `examples/`, and one a test file with texts that have no faults.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for folder in ["std", "examples"] {
        for path in ir_files(&root().join(folder)) {
            trials.push(Trial::test(format!("laws:{}", shown(&path)), move || {
                check_stored(&path)
            }));
        }
    }
    for path in ir_files(&root().join("tests")) {
        let name = shown(&path);
        if name.starts_with("tests/syntax") || name.starts_with("tests/check") {
            continue;
        }
        trials.push(Trial::test(format!("laws:{name}"), move || {
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            for case in TestFile::parse(&text, &name).cases {
                // Remarks are no text of the language.
                for part in case.parts.iter().filter(|part| part.label != "missed") {
                    check_text(&part.text)
                        .map_err(|fault| format!("{name}:{}: {fault}", case.line))?;
                }
            }
            Ok(())
        }));
    }
    trials
}

fn ir_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = files_below(folder);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "ir"));
    files
}

fn check_stored(path: &Path) -> Result<(), Failed> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let name = shown(path);
    check_text(&text).map_err(|fault| format!("{name}: {fault}"))?;
    let printed = print(&parse_clean(&text)?);
    if is_blessing() && printed != text {
        std::fs::write(path, &printed).map_err(|error| error.to_string())?;
        return Ok(());
    }
    compare_text(&text, &printed, &name, &format!("laws:{name}"))
}

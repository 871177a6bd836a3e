//! `tests/opt/<pass>`: a module, and what the pass of that name makes of it.
//!
//! The directive `passes: a, b` names others. An `unchanged` part says that the pass leaves the module alone; a
//! `refused` part holds what it said.

use super::Outcome;
use super::laws::parse_clean;
use super::native::LIBRARY;
use super::sections::{Case, Part};
use irc::opt::{Changed, Pass, PassCx, find_pass, run_passes};
use irc::syntax::{Format, SourceMap, parse, print, render};
use irc::tensor::Weights;
use std::path::Path;

/// Runs the passes on the first part; the second is what came out.
pub fn run(case: &Case, path: &Path) -> Outcome {
    let folder = path
        .parent()
        .and_then(Path::file_name)
        .unwrap_or_default()
        .to_string_lossy();
    let names = case.directive("passes").unwrap_or(&folder);
    let passes: Vec<&Pass> = names
        .split(", ")
        .map(|name| find_pass(name).ok_or_else(|| format!("there is no pass `{name}`")))
        .collect::<Result<_, _>>()?;
    let mut sources = SourceMap::new();
    let (mut module, diagnostics) = parse(&mut sources, "text", &case.parts[0].text);
    if !diagnostics.is_empty() {
        return Err(render(
            &diagnostics,
            &sources,
            Format::Full,
            Default::default(),
        ));
    }
    let before = print(&module);
    let library = &*LIBRARY;
    let mut weights = Weights::default();
    let target = irc::target::Target::native();
    let mut cx = PassCx::new(library, &mut weights, &target);
    let mut has_changed = false;
    let outcome = run_passes(&mut module, &passes, &mut cx, &mut |_, _, changed| {
        has_changed |= changed == Changed::Yes;
    });
    let after = print(&module);
    let (label, text) = match outcome {
        Err(faults) => (
            "refused",
            render(&faults, &sources, Format::Short, Default::default()),
        ),
        Ok(()) if after == before && has_changed => {
            return Err("the pass says that it changed the module, but did not".into());
        }
        Ok(()) if after == before => ("unchanged", String::new()),
        Ok(()) => ("after", after),
    };
    if label == "after" {
        parse_clean(&text).map_err(|fault| format!("the result does not read back\n{fault}"))?;
    }
    Ok(vec![Part::new("", &before), Part::new(label, &text)])
}

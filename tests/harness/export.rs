//! `tests/export`: a module, and after `# => onnx` the ONNX file that `irc export` makes of it, read back as the import shows
//! a graph before anything is said in `R.*`. `refused` holds what it said instead.
//!
//! With a directive `sizes`, `main` computes the same after the round.

use super::Outcome;
use super::laws::parse_clean;
use super::native::{self, LIBRARY, agree, interpret};
use super::programs::all_sizes;
use super::sections::{Case, Part};
use irc::driver::{self, Program};
use irc::export::{Options, export, written_names};
use irc::onnx::{self, NoFiles, Source};
use irc::opt::PassCx;
use irc::opt::lift::{self, Lifted};
use irc::syntax::{Diagnostic, print};
use irc::target::Target;
use irc::tensor::Weights;
use std::path::Path;

/// Exports the module of the first part.
pub fn run(case: &Case, _path: &Path) -> Outcome {
    let source = &case.parts[0];
    let module = parse_clean(&source.text)?;
    let mut program = Program {
        module: module.clone(),
        weights: Weights::new(),
    };
    let library = &*LIBRARY;
    let mut options = Options {
        names: written_names(&module),
        ..Options::default()
    };
    let refused = |faults: &[Diagnostic]| {
        let lines = faults
            .iter()
            .map(|fault| format!("# {}: {}\n", fault.code, fault.message));
        vec![
            source.clone(),
            Part::new("refused", &lines.collect::<String>()),
        ]
    };
    let info = match driver::say_in_onnx(&mut program, library, &mut options) {
        Ok(info) => info,
        Err(fault) => return Ok(refused(&fault.diagnostics)),
    };
    let exported = export(&program.module, &info, &program.weights, library, &options)
        .map_err(|faults| format!("{faults:?}"))?;
    let mut bytes = Vec::new();
    exported
        .model
        .write(&mut bytes)
        .map_err(|error| error.to_string())?;
    let is_known = |op: &str, since: i64| library.find(op, u32::try_from(since).ok()).is_some();
    let mut imported = onnx::import(
        Source::Memory(&bytes),
        &NoFiles,
        &onnx::Options {
            is_known: &is_known,
        },
    )
    .map_err(|failure| format!("{:?}", failure.diagnostics))?;
    let shown = print(&imported.module);
    let target = Target::native();
    let mut cx = PassCx::new(library, &mut imported.weights, &target);
    lift::run_imported(
        &mut imported.module,
        &mut cx,
        &imported.origins,
        Lifted::Every,
    );
    if !cx.diags.is_empty() {
        return Err(format!("{:?}", cx.diags));
    }
    let types = native::types(&module)?;
    let all = match case.directive("sizes") {
        Some(_) => all_sizes(case)?,
        None => Vec::new(),
    };
    for sizes in all {
        let inputs = native::inputs(&types, "main", &sizes)?;
        let before = interpret(&module, "main", &inputs)?;
        let after = interpret(&imported.module, "main", &inputs)?;
        agree(&after, &before).map_err(|why| format!("after the round: {why}"))?;
    }
    Ok(vec![source.clone(), Part::new("onnx", &shown)])
}

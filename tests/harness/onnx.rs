//! `tests/onnx`: a model of `tests/onnx/models`, named by the directive `model`, as the text that it is imported to.
//!
//! The part `lifted` is the text with ONNX's operators said in terms of `R.*`; `imported` is what `irc import` prints,
//! where some stay calls of ONNX's operators. What is refused stands as comments: the
//! code, the message and its notes. `models/make.py` writes the models.

use super::Outcome;
use super::native::LIBRARY;
use super::sections::{Case, Part};
use irc::onnx::{Options, Source, import};
use irc::opt::PassCx;
use irc::opt::lift::{self, Lifted};
use irc::syntax::{Diagnostic, print};
use irc::target::Target;
use irc::tensor::MappedFile;
use irc::tensor::folder::ModelFolder;
use std::path::Path;

/// Imports the model; the parts are the text and what lifting makes of it.
pub fn run(case: &Case, path: &Path) -> Outcome {
    let model = case
        .directive("model")
        .ok_or("the section names no model: `# model: conv.onnx`")?;
    let model = super::root()
        .join("tests")
        .join(path)
        .parent()
        .unwrap_or(Path::new(""))
        .join("models")
        .join(model);
    let file = MappedFile::open(&model).map_err(|error| format!("{}: {error}", model.display()))?;
    let library = &*LIBRARY;
    let is_known = |op: &str, since: i64| library.find(op, u32::try_from(since).ok()).is_some();
    let options = Options {
        is_known: &is_known,
    };
    let imported = match import(Source::Mapped(&file), &ModelFolder::of(&model), &options) {
        Ok(imported) => imported,
        Err(failure) => return Ok(vec![Part::new("", &remarks(&failure.diagnostics))]),
    };
    let text = print(&imported.module);
    let lift = |lifted: Lifted| {
        let (mut module, mut weights) = (imported.module.clone(), imported.weights.clone());
        let target = Target::native();
        let mut cx = PassCx::new(library, &mut weights, &target);
        lift::run_imported(&mut module, &mut cx, &imported.origins, lifted);
        if cx.diags.is_empty() {
            print(&module)
        } else {
            remarks(&cx.diags)
        }
    };
    let (lifted, kept) = (lift(Lifted::Every), lift(Lifted::Plain));
    let mut parts = vec![Part::new("", &text), Part::new("lifted", &lifted)];
    if kept != lifted {
        parts.push(Part::new("imported", &kept));
    }
    Ok(parts)
}

/// Faults as comments.
fn remarks(faults: &[Diagnostic]) -> String {
    let mut text = String::new();
    for fault in faults {
        text.push_str(&format!("# {}: {}\n", fault.code, fault.message));
        for note in &fault.notes {
            text.push_str(&format!("#     {note}\n"));
        }
    }
    text
}

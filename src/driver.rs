//! The pipeline: a file in, a program out of it, an artefact out of that.
//!
//!     load → check → passes (PIPELINE, top to bottom) → codegen → link
//!
//! Every step up to codegen is tree → tree; [`build`] shows the tree after each to an observer, which is how dumps and
//! `--emit` are made. Input is recognized by content: a shared object that irc made, text, or an ONNX file.

mod lines;
mod passes;

use std::io::Write;
use std::path::Path;

use irc_syntax::uses::for_each_expr;
use irc_syntax::{Diagnostic, Expr, ExprKind, Item, Module, Name, SourceMap, Stmt, parse, print};

use crate::check::Info;
use crate::codegen::{self, Object, PROFILE, Target};
use crate::export;
use crate::library::Library;
use crate::link::{self, WeightPlace};
use crate::onnx;
use crate::opt::log::{Log, Remark};
use crate::opt::specialize::ATTR as SPECIALIZE;
use crate::opt::{self, Changed, Outcome, Pass, PassCx, Promises, Step};
use crate::sched::tuned::LOG;
use crate::tensor::folder::ModelFolder;
use crate::tensor::{MappedFile, Weights, inline_metadata, sha256_bytes};

pub use passes::{
    ALIASES, OptLevel, PIPELINE, REWRITES, Stage, find_pass, parse_steps, passes, select_passes,
};

/// A module and the weights that it names.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The text, as a tree.
    pub module: Module,
    /// The weights of its public functions, by parameter name.
    pub weights: Weights,
}

/// Whose fault it is that a step failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The program is wrong.
    Program,
    /// A file cannot be read or written.
    Io,
    /// The program is valid, and asks for what irc does not do.
    Unsupported,
    /// irc is wrong.
    Internal,
}

/// Why a step failed.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Whose fault it is.
    pub kind: FaultKind,
    /// What is wrong, at least one.
    pub diagnostics: Vec<Diagnostic>,
}

impl Fault {
    /// A file that cannot be read or written.
    pub fn io(message: impl Into<String>) -> Self {
        let diagnostics = vec![Diagnostic::error("file", message)];
        Self {
            kind: FaultKind::Io,
            diagnostics,
        }
    }

    /// The program is wrong.
    pub fn program(diagnostics: Vec<Diagnostic>) -> Self {
        Self {
            kind: FaultKind::Program,
            diagnostics,
        }
    }
}

/// What steps after reading report; the codes say whose fault it is.
impl From<Vec<Diagnostic>> for Fault {
    fn from(diagnostics: Vec<Diagnostic>) -> Self {
        let all = |part: &str| diagnostics.iter().all(|diag| diag.code.contains(part));
        let kind = if diagnostics.iter().any(|diag| diag.code.ends_with("-fault")) {
            FaultKind::Internal
        } else if all("unsupported") {
            FaultKind::Unsupported
        } else {
            FaultKind::Program
        };
        Self { kind, diagnostics }
    }
}

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A text of the language.
    Text,
    /// An ONNX file.
    Onnx,
    /// A shared object.
    Library,
}

/// Recognizes a file by its first bytes. Only a broken file is judged by its name.
pub fn recognize(path: &Path, bytes: &[u8]) -> FileKind {
    let head = &bytes[..bytes.len().min(4096)];
    let plain = |byte: &u8| *byte >= b' ' || b"\t\n\r\x0c".contains(byte);
    if head.starts_with(b"\x7fELF") {
        FileKind::Library
    } else if path.extension().is_some_and(|suffix| suffix == "onnx") || !head.iter().all(plain) {
        FileKind::Onnx
    } else {
        FileKind::Text
    }
}

/// Reads a program from a file. Texts go into `sources`, so that diagnostics can point into them.
///
/// # Errors
/// The file cannot be read, or what it holds is wrong.
pub fn load(path: &Path, lib: &Library, sources: &mut SourceMap) -> Result<Program, Fault> {
    let shown = path.display().to_string();
    let file = MappedFile::open(path)
        .map_err(|error| Fault::io(format!("`{shown}` cannot be read: {error}")))?;
    match recognize(path, &file) {
        FileKind::Onnx => import(onnx::Source::Mapped(&file), &ModelFolder::of(path), lib),
        FileKind::Text => load_text(&shown, &file, &ModelFolder::of(path), sources),
        FileKind::Library => {
            let text = link::read_program(&file)
                .ok_or_else(|| Fault::io(format!("`{shown}` holds no program of irc")))?;
            let beside = MappedFile::open(&path.with_extension("params")).ok();
            let weights = link::read_weights(&file, beside).map_err(|why| {
                Fault::io(format!("the weights of `{shown}` cannot be read: {why}"))
            })?;
            let module = read_text(&shown, text.as_bytes(), sources)?;
            Ok(Program { module, weights })
        }
    }
}

/// Reads a program from bytes that come from no file; it has no weights beside it.
///
/// # Errors
/// What the bytes hold is wrong.
pub fn load_bytes(bytes: &[u8], lib: &Library, sources: &mut SourceMap) -> Result<Program, Fault> {
    let here = Path::new("-");
    match recognize(here, bytes) {
        FileKind::Onnx => import(onnx::Source::Memory(bytes), &onnx::NoFiles, lib),
        FileKind::Text => load_text("<stdin>", bytes, &ModelFolder::of(here), sources),
        FileKind::Library => Err(Fault::io("a shared object cannot be read from a stream")),
    }
}

fn load_text(
    shown: &str,
    bytes: &[u8],
    folder: &ModelFolder,
    sources: &mut SourceMap,
) -> Result<Program, Fault> {
    let module = read_text(shown, bytes, sources)?;
    let weights = load_weights(&module, folder)?;
    Ok(Program { module, weights })
}

fn read_text(shown: &str, bytes: &[u8], sources: &mut SourceMap) -> Result<Module, Fault> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Fault::io(format!("`{shown}` is no text: {error}")))?;
    let (mut module, diagnostics) = parse(sources, shown, text);
    if has_error(&diagnostics) {
        return Err(Fault::program(diagnostics));
    }
    inline_metadata(&mut module).map_err(|fault| Fault::program(vec![fault]))?;
    Ok(module)
}

/// The weights of the file that `irc.params` names, if it names one.
fn load_weights(module: &Module, folder: &ModelFolder) -> Result<Weights, Fault> {
    let Some(Expr {
        kind: ExprKind::Dict(items),
        ..
    }) = module.attr("irc.params")
    else {
        return Ok(Weights::new());
    };
    let text = |key: &str| {
        let item = items.iter().find(|(name, _)| name.as_str() == Some(key));
        item.and_then(|(_, value)| value.as_str())
    };
    let Some(name) = text("file") else {
        return Ok(Weights::new());
    };
    let fault = |why: &str| Fault::io(format!("the weights `{name}` cannot be read: {why}"));
    let file = folder.open(name).map_err(|why| fault(&why))?;
    if let Some(wanted) = text("sha256") {
        let found = sha256_bytes(&file);
        if found != wanted {
            let message = format!("the weights `{name}` are not those that the module names");
            let diag = Diagnostic::error("params-hash", message)
                .note(format!("sha256 of the file: {found}"))
                .note(format!("sha256 in `irc.params`: {wanted}"));
            return Err(Fault::program(vec![diag]));
        }
    }
    // A library that irc made serves as well: `irc print net.so` names it.
    if file.starts_with(b"\x7fELF") {
        let beside = folder
            .open(&Path::new(name).with_extension("params").to_string_lossy())
            .ok();
        return link::read_weights(&file, beside).map_err(|why| fault(&why));
    }
    Weights::parse(file).map_err(|error| fault(&error.to_string()))
}

/// Reads an ONNX file and says it in operators of `R`.
fn import(
    source: onnx::Source<'_>,
    files: &dyn onnx::Files,
    lib: &Library,
) -> Result<Program, Fault> {
    let is_known = |op: &str, since: i64| {
        u32::try_from(since).is_ok_and(|since| lib.find(op, Some(since)).is_some())
    };
    let options = onnx::Options {
        is_known: &is_known,
    };
    let imported = onnx::import(source, files, &options).map_err(|failure| Fault {
        kind: match failure.kind {
            onnx::FailureKind::Malformed => FaultKind::Program,
            onnx::FailureKind::Io => FaultKind::Io,
            onnx::FailureKind::Unsupported => FaultKind::Unsupported,
        },
        diagnostics: failure.diagnostics,
    })?;
    let mut program = Program {
        module: imported.module,
        weights: imported.weights,
    };
    // The model's shapes are followed while its operators are expanded, so it is not checked before.
    let target = Target::native();
    let mut cx = PassCx::new(lib, &mut program.weights, &target);
    opt::lift::run_imported(
        &mut program.module,
        &mut cx,
        &imported.origins,
        opt::lift::Lifted::Plain,
    );
    if !cx.diags.is_empty() {
        return Err(Fault::from(cx.diags));
    }
    opt::hoist_constants::hoist_tables(&mut program.module, &mut cx);
    Ok(program)
}

/// Names the file of the weights in the module.
pub fn name_weights(module: &mut Module, file: &str, sha256: &str) {
    let text = |text: &str| Expr::str(text);
    let value = Expr::dict([
        ("file".to_owned(), text(file)),
        ("sha256".to_owned(), text(sha256)),
    ]);
    set_attr(module, "irc.params", value);
}

/// Sets an attribute of the module, in the order of keys.
pub fn set_attr(module: &mut Module, key: &str, value: Expr) {
    for item in &mut module.items {
        let Item::Stmt(Stmt {
            kind: irc_syntax::StmtKind::Expr(call),
            ..
        }) = item
        else {
            continue;
        };
        if !call.is_call_of("I.module_attrs") {
            continue;
        }
        let ExprKind::Call { args, .. } = &mut call.kind else {
            continue;
        };
        if let Some(ExprKind::Dict(items)) = args.first_mut().map(|arg| &mut arg.value.kind) {
            items.retain(|(name, _)| name.as_str() != Some(key));
            items.push((Expr::str(key), value));
            items.sort_by(|(a, _), (b, _)| a.as_str().cmp(&b.as_str()));
            return;
        }
    }
    // Attributes are written in a class.
    module.name.get_or_insert_with(|| Name::from("Module"));
    let attrs = Expr::call("I.module_attrs", [Expr::dict([(key.to_owned(), value)])]);
    module.items.insert(0, Item::Stmt(Stmt::expr(attrs)));
}

/// Takes an attribute of the module away, and with the last the statement.
pub fn remove_attr(module: &mut Module, key: &str) {
    module.items.retain_mut(|item| {
        let Item::Stmt(Stmt {
            kind: irc_syntax::StmtKind::Expr(call),
            ..
        }) = item
        else {
            return true;
        };
        let is_attrs = call.is_call_of("I.module_attrs");
        let ExprKind::Call { args, .. } = &mut call.kind else {
            return true;
        };
        match args.first_mut().map(|arg| &mut arg.value.kind) {
            Some(ExprKind::Dict(items)) if is_attrs => {
                items.retain(|(name, _)| name.as_str() != Some(key));
                !items.is_empty()
            }
            _ => true,
        }
    });
}

/// What is shown after each pass: its name, the module, and whether it changed.
pub type Observer<'o> = &'o mut dyn FnMut(&'static str, &Module, Changed);

/// Runs passes over a program.
///
/// # Errors
/// What the checker or a pass found wrong.
pub fn run_passes(
    program: &mut Program,
    passes: &[&'static Pass],
    target: &Target,
    lib: &Library,
    promises: Promises,
    observer: Observer<'_>,
) -> Result<(), Fault> {
    let mut cx = PassCx::new(lib, &mut program.weights, target);
    cx.promises = promises;
    Ok(opt::run_passes(
        &mut program.module,
        passes,
        &mut cx,
        observer,
    )?)
}

/// Passes to run, and how.
#[derive(Default)]
pub struct Plan {
    /// Those that run once, before the others.
    pub first: Vec<Step>,
    /// The others.
    pub steps: Vec<Step>,
    /// Whether the others run until none changes anything.
    pub over_and_over: bool,
    /// After how many rewrites to stop; never without it.
    pub fuel: Option<u64>,
    /// Whether passes are held to what they promise.
    pub promises: Promises,
}

/// Runs passes over a program; gives why rewrites of look-alikes were refused.
///
/// # Errors
/// What the checker or a pass found wrong.
pub fn run_plan(
    program: &mut Program,
    plan: &Plan,
    target: &Target,
    lib: &Library,
    after: &mut dyn FnMut(&Outcome),
) -> Result<Vec<Remark>, Fault> {
    let mut cx = PassCx::new(lib, &mut program.weights, target);
    cx.promises = plan.promises;
    cx.log = Log::with_fuel(plan.fuel.unwrap_or(u64::MAX));
    if plan.over_and_over {
        opt::run_rounds(
            &mut program.module,
            &plan.first,
            &plan.steps,
            &mut cx,
            after,
        )?;
    } else {
        let steps: Vec<Step> = plan.first.iter().chain(&plan.steps).cloned().collect();
        opt::run_steps(&mut program.module, &steps, &mut cx, after)?;
    }
    Ok(cx.log.missed())
}

/// Says a program in operators of ONNX, for the operator set that `options` names or the first that has all of them,
/// which is named there then. Gives the types of what came out.
///
/// # Errors
/// What the program does wrong, or ONNX cannot say.
pub fn say_in_onnx(
    program: &mut Program,
    lib: &Library,
    options: &mut export::Options<'_>,
) -> Result<Info, Fault> {
    let target = Target::native();
    let passes = [&opt::normalize::PASS];
    let promises = Promises::default();
    run_passes(program, &passes, &target, lib, promises, &mut |_, _, _| {})?;
    let mut opset = options.opset.unwrap_or(opt::for_onnx::OPSET);
    loop {
        let mut cx = PassCx::new(lib, &mut program.weights, &target);
        cx.recheck(&program.module)?;
        opt::for_onnx::run_for(&mut program.module, &mut cx, opset);
        if !cx.diags.is_empty() {
            return Err(Fault::from(cx.diags));
        }
        let info = cx.info;
        options.opset = Some(opset);
        let exported = export::export(&program.module, &info, &program.weights, lib, options)?;
        // An operator may need a newer set, in which others mean something else.
        match exported.opsets.get("") {
            Some(needed) if *needed > opset => opset = *needed,
            _ => return Ok(info),
        }
    }
}

/// A compiled program.
#[derive(Clone, Debug, Default)]
pub struct Artefact {
    /// The relocatable object, its weights, its header and manifest.
    pub object: Object,
    /// The program after the last pass, as text.
    pub program: String,
}

/// Compiles a program.
///
/// # Errors
/// What the program does wrong, or asks for in vain.
pub fn build(
    mut program: Program,
    target: &Target,
    lib: &Library,
    observer: Observer<'_>,
) -> Result<Artefact, Fault> {
    if program.module.attr("irc.source").is_none() {
        let mut source = program.module.clone();
        for how in [PROFILE, LOG, SPECIALIZE] {
            remove_attr(&mut source, how);
        }
        let digest = sha256_bytes(print(&source).as_bytes());
        set_attr(&mut program.module, "irc.source", Expr::str(digest));
    }
    // The library holds the weights itself from here on.
    remove_attr(&mut program.module, "irc.params");
    // A program that came out of this function goes to code generation as it is.
    let steps: Vec<&'static Pass> = if is_planned(&program.module) {
        Vec::new()
    } else {
        PIPELINE.iter().map(|(pass, _)| *pass).collect()
    };
    let promises = Promises::default();
    run_passes(&mut program, &steps, target, lib, promises, observer)?;
    for done in [LOG, SPECIALIZE] {
        remove_attr(&mut program.module, done);
    }
    // No operator call is left after this line: every call is one of a prim_func on planned memory.
    let mut cx = PassCx::new(lib, &mut program.weights, target);
    cx.recheck(&program.module)?;
    let info = std::mem::take(&mut cx.info);
    let (lines, origins) = lines::point_into_text(&mut program);
    let object = codegen::compile(
        &program.module,
        &info,
        &program.weights,
        target,
        lines,
        None,
    );
    let object = object.map_err(|mut faults| {
        faults.iter_mut().for_each(|fault| origins.restore(fault));
        faults
    })?;
    Ok(Artefact {
        object,
        program: print(&program.module),
    })
}

/// Runs the passes of the pipeline up to one, that one included.
///
/// # Errors
/// As [`run_passes`].
pub fn run_to(
    program: &mut Program,
    last: &Pass,
    target: &Target,
    lib: &Library,
) -> Result<(), Fault> {
    let at = PIPELINE.iter().position(|(pass, _)| pass.name == last.name);
    let steps = &PIPELINE[..at.map_or(0, |at| at + 1)];
    let steps: Vec<&'static Pass> = steps.iter().map(|(pass, _)| *pass).collect();
    run_passes(
        program,
        &steps,
        target,
        lib,
        Promises::default(),
        &mut |_, _, _| {},
    )
}

/// The relocatable object of an artefact with its weights inside, for linkers other than irc's.
///
/// # Errors
/// The program of the artefact is not what [`build`] made.
pub fn whole_object(artefact: &Artefact, target: &Target, lib: &Library) -> Result<Vec<u8>, Fault> {
    let object = &artefact.object;
    let mut weights = Weights::new();
    for (name, weight) in object.weight_names.iter().zip(&object.weights) {
        weights.insert(name.as_str(), weight.clone());
    }
    let module = read_text(
        "program",
        artefact.program.as_bytes(),
        &mut SourceMap::new(),
    )?;
    let mut program = Program { module, weights };
    let mut cx = PassCx::new(lib, &mut program.weights, target);
    cx.recheck(&program.module)?;
    let info = std::mem::take(&mut cx.info);
    let (lines, _) = lines::point_into_text(&mut program);
    let table = link::weights_info(&object.weights);
    let whole = codegen::compile(
        &program.module,
        &info,
        &program.weights,
        target,
        lines,
        Some(&table),
    )?;
    Ok(whole.bytes)
}

/// Whether the tensors of a module have their places already.
pub fn is_planned(module: &Module) -> bool {
    module.funcs().any(|func| {
        let mut placed = false;
        for_each_expr(&func.body, &mut |expr| {
            placed |= expr.is_call_of("R.builtin.alloc_tensor")
                || expr.is_call_of("R.memory.alloc_tensor");
        });
        placed
    })
}

/// Writes the shared object of an artefact.
///
/// # Errors
/// The object cannot be linked, or writing fails.
pub fn write_shared(
    artefact: &Artefact,
    place: WeightPlace,
    out: &mut dyn Write,
) -> Result<(), Fault> {
    let parts = link::Parts {
        object: &artefact.object.bytes,
        weights: &artefact.object.weights,
        names: &artefact.object.weight_names,
        place,
        program: &artefact.program,
    };
    link::write_shared(&parts, out).map_err(|error| match error {
        link::LinkError::Io(error) => Fault::io(format!("the library cannot be written: {error}")),
        link::LinkError::Object(message) => vec![Diagnostic::error("link-fault", message)].into(),
    })
}

/// Whether any of them leaves the program without meaning.
pub fn has_error(diagnostics: &[Diagnostic]) -> bool {
    diagnostics
        .iter()
        .any(|diag| diag.severity == irc_syntax::Severity::Error)
}

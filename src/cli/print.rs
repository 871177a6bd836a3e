//! `irc print`: a program as text, for irc or for Apache TVM, with more or fewer annotations.

use super::Exit;
use super::output::write_output;
use super::report::{Failure, Session, has_error, read_bytes};
use crate::check::{self, FuncInfo, Info, Type, type_to_expr};
use crate::codegen::Target;
use crate::driver::{self, Fault, FileKind};
use crate::library::Library;
use crate::opt::{Promises, for_tvm};
use crate::syntax::visit::{walk_expr, walk_module, walk_stmt_mut};
use crate::syntax::{
    Diagnostic, Dialect, Expr, FuncKind, Module, PrintOptions, Stmt, StmtKind, Visit, VisitMut,
    print_with,
};
use crate::tensor::{Weights, sha256_file};
use std::path::{Path, PathBuf};

/// `irc print [--dialect irc|tvm] [--types all|sig|none] FILE`
#[derive(clap::Args)]
pub struct Args {
    /// The program; `-` is stdin
    #[arg(value_name = "FILE")]
    file: String,
    /// Whose reader the text is for: irc, tvm
    #[arg(long, value_name = "NAME", default_value = "irc", value_parser = ["irc", "tvm"])]
    dialect: String,
    /// Which annotations graph functions have: on every binding, in signatures, nowhere; as written without this
    #[arg(long, value_name = "WHICH", value_parser = ["all", "sig", "none"])]
    types: Option<String>,
    /// Where the text goes; stdout without it, and for `-`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Prints the program; 1 when the text has errors.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let lib = session.library()?;
    let (mut module, mut diagnostics) = match read(&args.file, &lib, session) {
        Ok(read) => read?,
        Err(fault) => return Ok(session.show_fault(&fault)),
    };
    if let (Some(types), false) = (&args.types, has_error(&diagnostics)) {
        diagnostics.extend(annotate(&mut module, types, &lib));
    }
    session.show(&diagnostics);
    if has_error(&diagnostics) {
        return Ok(Exit::No);
    }
    let dialect = if args.dialect == "tvm" {
        if let Err(fault) = expand_for_tvm(&mut module) {
            return Ok(session.show_fault(&fault));
        }
        Dialect::Tvm
    } else {
        Dialect::Irc
    };
    let text = print_with(&module, &PrintOptions { dialect });
    write_output(args.output.as_deref(), text.as_bytes())?;
    Ok(Exit::Good)
}

/// Expands the operators that TVM does not have; a module without any stays as it is written.
fn expand_for_tvm(module: &mut Module) -> Result<(), Fault> {
    let mut finder = Lacking { is_found: false };
    walk_module(&mut finder, module);
    if !finder.is_found {
        return Ok(());
    }
    let mut program = driver::Program {
        module: std::mem::take(module),
        weights: Weights::default(),
    };
    let passes = driver::select_passes(&["normalize", "for_tvm"])?;
    let target = Target::native();
    driver::run_passes(
        &mut program,
        &passes,
        &target,
        &Library::load(),
        Promises::default(),
        &mut |_, _, _| {},
    )?;
    *module = program.module;
    Ok(())
}

/// Looks for a call of an operator that TVM does not have.
struct Lacking {
    is_found: bool,
}

impl Visit for Lacking {
    fn visit_expr(&mut self, expr: &Expr) {
        self.is_found |= expr
            .as_call()
            .is_some_and(|(path, _)| for_tvm::lacks(&path));
        walk_expr(self, expr);
    }
}

type Read = Result<(Module, Vec<Diagnostic>), Failure>;

/// The module of a text, of an ONNX file, or inside a shared object; the last is named as the file of its weights.
fn read(path: &str, lib: &Library, session: &mut Session) -> Result<Read, Fault> {
    let kind = match path {
        "-" => FileKind::Text,
        _ => match read_bytes(path) {
            Ok(bytes) => driver::recognize(Path::new(path), &bytes),
            Err(failure) => return Ok(Err(failure)),
        },
    };
    if kind == FileKind::Text {
        return Ok(session.parse(path));
    }
    let mut program = session.load(path, lib)?;
    if let (FileKind::Library, Some(name)) = (kind, Path::new(path).file_name())
        && !program.weights.is_empty()
    {
        let hash = sha256_file(Path::new(path))
            .map_err(|error| Fault::io(format!("{path} cannot be read: {error}")))?;
        driver::name_weights(&mut program.module, &name.to_string_lossy(), &hash);
    }
    Ok(Ok((program.module, Vec::new())))
}

/// Gives graph functions the annotations asked for; what the checker found is returned for `all`, which needs it.
fn annotate(module: &mut Module, types: &str, lib: &Library) -> Vec<Diagnostic> {
    let (info, diagnostics) = match types {
        "all" => check::check(module, lib),
        _ => (Info::default(), Vec::new()),
    };
    for func in module.funcs_mut() {
        if func.kind != FuncKind::Graph {
            continue;
        }
        let found = info.funcs.get(&func.name);
        if types == "none" {
            func.ret = None;
        } else if let (None, Some(ret)) = (&func.ret, found.and_then(|info| info.ret.as_ref())) {
            func.ret = Some(type_to_expr(ret));
        }
        let mut annotator = Annotator { info: found };
        annotator.visit_body(&mut func.body);
    }
    diagnostics
}

/// Writes the type of every binding, or takes annotations away where no types are known.
struct Annotator<'a> {
    info: Option<&'a FuncInfo>,
}

impl VisitMut for Annotator<'_> {
    fn visit_stmt(&mut self, stmt: &mut Stmt) {
        if let StmtKind::Assign { target, ty, value } = &mut stmt.kind {
            let Some(info) = self.info else {
                *ty = None;
                return;
            };
            let is_symbol = value
                .as_call()
                .is_some_and(|(path, _)| path.starts_with("T."));
            let found = target.as_name().and_then(|name| info.vars.get(name));
            match found {
                Some(Type::Error | Type::Any) | None => {}
                Some(_) if is_symbol => {}
                Some(found) => *ty = Some(type_to_expr(found)),
            }
            return;
        }
        walk_stmt_mut(self, stmt);
    }
}

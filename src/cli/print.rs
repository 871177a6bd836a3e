//! `irc print`: a program as text, for irc or for Apache TVM, with more or fewer annotations.

use super::Exit;
use super::report::{Failure, Session, has_error, write_file, write_stdout};
use crate::check::{self, FuncInfo, Info, Type, type_to_expr};
use crate::library::Library;
use crate::syntax::visit::walk_stmt_mut;
use crate::syntax::{
    Dialect, FuncKind, Module, PrintOptions, Stmt, StmtKind, VisitMut, print_with,
};
use std::path::PathBuf;

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
    /// Where the text goes
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Prints the program; 1 when the text has errors.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let (mut module, mut diagnostics) = session.parse(&args.file)?;
    if let (Some(types), false) = (&args.types, has_error(&diagnostics)) {
        diagnostics.extend(annotate(&mut module, types));
    }
    session.show(&diagnostics);
    if has_error(&diagnostics) {
        return Ok(Exit::No);
    }
    let dialect = if args.dialect == "tvm" {
        Dialect::Tvm
    } else {
        Dialect::Irc
    };
    let text = print_with(&module, &PrintOptions { dialect });
    match args.output {
        Some(path) => write_file(&path, text.as_bytes())?,
        None => write_stdout(text.as_bytes())?,
    }
    Ok(Exit::Good)
}

/// Gives graph functions the annotations asked for; what the checker found is returned for `all`, which needs it.
fn annotate(module: &mut Module, types: &str) -> Vec<crate::syntax::Diagnostic> {
    let (info, diagnostics) = match types {
        "all" => check::check(module, &Library::load()),
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

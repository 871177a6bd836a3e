//! Text to tree: lexer, layout and generated parser put together.
//!
//! Always gives a tree and the faults; what did not parse is an `Error` node. Faults are ordered by place.

use crate::actions::{Class, Cx, Root, take_doc};
use crate::ast::*;
use crate::attach::attach;
use crate::diag::Diagnostic;
use crate::grammar::StartParser;
use crate::layout::Layout;
use crate::source::SourceMap;
use crate::token::Tok;
use crate::wording;

/// Reads a file. The text goes into the map, so that the places in the result can be shown.
pub fn parse(sources: &mut SourceMap, path: &str, text: &str) -> (Module, Vec<Diagnostic>) {
    let file = sources.add(path, text);
    let text = sources
        .file(file)
        .map(|file| file.text.clone())
        .unwrap_or_default();
    let mut layout = Layout::new(&text, file, Tok::StartFile);
    let (root, class, diagnostics) = run(&text, file, &mut layout);
    let mut module = match root {
        Some(Root::File(stmts)) => build_module(stmts, class),
        Some(Root::Expr(_)) | None => Module::default(),
    };
    attach(&mut module, &text, &layout.trivia);
    (module, diagnostics)
}

/// Reads one expression from text that is in no map; places in the result point nowhere useful.
///
/// # Errors
/// Gives what is wrong with the text.
pub fn parse_expr_str(text: &str) -> Result<Expr, Vec<Diagnostic>> {
    let file = SourceMap::new().add("expression", text);
    match run(text, file, &mut Layout::new(text, file, Tok::StartExpr)) {
        (Some(Root::Expr(expr)), _, diagnostics) if diagnostics.is_empty() => Ok(expr),
        (_, _, diagnostics) => Err(diagnostics),
    }
}

/// Drives the parser over a layout; what is left in the layout are the comments.
fn run<'a>(
    text: &'a str,
    file: FileId,
    layout: &mut Layout<'a>,
) -> (Option<Root>, Option<Class>, Vec<Diagnostic>) {
    let mut cx = Cx::new(text, file);
    let root = StartParser::new().parse(&mut cx, layout.by_ref());
    let root = root.map_err(|error| cx.errors.push(error)).ok();
    let mut diagnostics = std::mem::take(&mut layout.diagnostics);
    diagnostics.append(&mut cx.diagnostics);
    for error in &cx.errors {
        diagnostics.extend(wording::parse_error(text, file, layout, error));
    }
    diagnostics
        .sort_by_key(|diagnostic| diagnostic.primary.as_ref().map_or(0, |label| label.span.lo));
    (root, cx.class, diagnostics)
}

/// Sorts the statements of a file into what stands before the module and what is in it.
fn build_module(mut stmts: Vec<Stmt>, class: Option<Class>) -> Module {
    let mut module = Module::default();
    let span = stmts.first().zip(stmts.last()).and_then(|(first, last)| {
        let (first, last) = first.span.zip(last.span)?;
        Some(Span {
            hi: last.hi,
            ..first
        })
    });
    if let Some(class) = class {
        let at = stmts
            .iter()
            .position(|stmt| stmt.kind == StmtKind::Error && stmt.span == class.span);
        let after = at.map(|at| stmts.split_off(at)).unwrap_or_default();
        let mut body = class.body;
        module.name = Some(class.name);
        module.doc = take_doc(&mut body);
        module.span = class.span;
        body.extend(after.into_iter().skip(1));
        module.items = body.into_iter().map(item).collect();
        module.prelude = stmts;
    } else {
        module.doc = take_doc(&mut stmts);
        let at = stmts
            .iter()
            .position(|stmt| matches!(stmt.kind, StmtKind::Func(_)));
        let items = stmts.split_off(at.unwrap_or(stmts.len()));
        module.span = span;
        module.items = items.into_iter().map(item).collect();
        module.prelude = stmts;
    }
    module
}

fn item(stmt: Stmt) -> Item {
    match stmt.kind {
        StmtKind::Func(func) => Item::Func(*func),
        _ => Item::Stmt(stmt),
    }
}

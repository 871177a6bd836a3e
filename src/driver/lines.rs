//! Points the statements of a planned program into its own text, for line tables.
//!
//! The text is what `irc print` gives for the shared object, so a debugger that shows `program.ir` shows that. Only
//! spans change: what code generation reports is pointed back at what the user wrote.

use std::collections::BTreeMap;

use irc_syntax::{Diagnostic, Func, SourceMap, Span, Stmt, Visit, VisitMut, parse, print, visit};

use super::{Program, name_weights, remove_attr};
use crate::codegen::debug::{Lines, PROGRAM_FILE};

/// Where statements were written before they were pointed into the program's text.
#[derive(Default)]
pub struct Origins(BTreeMap<Span, Option<Span>>);

impl Origins {
    /// Points a diagnostic at what the user wrote.
    pub fn restore(&self, fault: &mut Diagnostic) {
        let origin = |span: Span| match self.0.get(&span) {
            Some(origin) => *origin,
            None => Some(span).filter(|span| span.file != PROGRAM_FILE),
        };
        if let Some(label) = &mut fault.primary {
            match origin(label.span) {
                Some(span) => label.span = span,
                None => fault.primary = None,
            }
        }
        fault.related.retain_mut(|label| match origin(label.span) {
            Some(span) => {
                label.span = span;
                true
            }
            None => false,
        });
    }
}

/// Gives the statements and functions of a module their places in its printed text.
pub fn point_into_text(program: &mut Program) -> (Lines, Origins) {
    let module = &mut program.module;
    // A shared object with weights prints their file and hash, which take lines; which ones does not matter.
    let has_weights = !program.weights.is_empty();
    if has_weights {
        name_weights(module, "net.so", &"0".repeat(64));
    }
    let text = print(module);
    if has_weights {
        remove_attr(module, "irc.params");
    }
    let (parsed, faults) = parse(&mut SourceMap::new(), "", &text);
    let mut places = Places::default();
    visit::walk_module(&mut places, &parsed);
    let mut pointer = Pointer {
        places,
        funcs: 0,
        stmts: 0,
        origins: Origins::default(),
    };
    if faults.is_empty() {
        for func in module.funcs_mut() {
            pointer.visit_func(func);
        }
    }
    (Lines::new(&text), pointer.origins)
}

/// The places of functions and of the statements in them, in order.
#[derive(Default)]
struct Places {
    funcs: Vec<Option<Span>>,
    stmts: Vec<Option<Span>>,
    depth: usize,
}

impl Visit for Places {
    fn visit_func(&mut self, func: &Func) {
        self.funcs.push(func.name_span);
        self.depth += 1;
        visit::walk_func(self, func);
        self.depth -= 1;
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if self.depth > 0 {
            self.stmts.push(stmt.span);
        }
        visit::walk_stmt(self, stmt);
    }
}

struct Pointer {
    places: Places,
    funcs: usize,
    stmts: usize,
    origins: Origins,
}

impl Pointer {
    fn point(&mut self, span: &mut Option<Span>, place: Option<Span>) {
        let place = place.map(|place| Span {
            file: PROGRAM_FILE,
            ..place
        });
        if let Some(place) = place {
            self.origins.0.insert(place, *span);
            *span = Some(place);
        }
    }
}

impl VisitMut for Pointer {
    fn visit_func(&mut self, func: &mut Func) {
        let place = self.places.funcs.get(self.funcs).copied().flatten();
        self.funcs += 1;
        self.point(&mut func.name_span, place);
        visit::walk_func_mut(self, func);
    }

    fn visit_stmt(&mut self, stmt: &mut Stmt) {
        let place = self.places.stmts.get(self.stmts).copied().flatten();
        self.stmts += 1;
        self.point(&mut stmt.span, place);
        visit::walk_stmt_mut(self, stmt);
    }
}

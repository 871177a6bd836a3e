//! The examples of the standard library: those in docstrings, and further ones in `tests/std/<family>.ir`.
//!
//! An example is the body of a function. A line `a == b` claims that two values agree: dtypes and shapes exactly, integers
//! and booleans too, floats within the tolerance of their dtype.

use super::Outcome;
use super::sections::Case;
use irc::interp::{Value, run_func};
use irc::library::{Library, Template};
use irc::syntax::{
    BinaryOp, DType, Diagnostic, Expr, ExprKind, Format, Module, Name, SourceMap, Stmt, StmtKind,
    Trivia, parse, render,
};
use irc::tensor::Tensor;
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::path::Path;

/// One test a version of an operator. Helpers, and versions beside one with examples, need none.
pub fn trials() -> Vec<Trial> {
    let library = Library::load();
    let shown: BTreeSet<&str> = library
        .templates()
        .filter(|template| example_of(*template).is_some())
        .map(|template| template.op())
        .collect();
    let mut trials = Vec::new();
    for template in library.templates() {
        let op = template.op();
        let name = match irc::library::since_of(template.func) {
            1 => format!("std/{op}"),
            since => format!("std/{op}@{since}"),
        };
        match example_of(template) {
            Some(text) => trials.push(Trial::test(name, move || {
                run_example(&text).map_err(|fault| fault.into())
            })),
            None if op.starts_with("std.") || shown.contains(op) => {}
            None => trials.push(Trial::test(name, || Err("it has no example".into()))),
        }
    }
    trials
}

/// Runs one section of a file of examples.
pub fn run(case: &Case, _path: &Path) -> Outcome {
    run_example(&case.parts[0].text)?;
    Ok(case.parts.clone())
}

/// The lines below `Example:` in a docstring, without their indent.
fn example_of(template: Template<'_>) -> Option<String> {
    let doc = template.func.doc.as_deref()?;
    let mut lines = doc
        .lines()
        .skip_while(|line| line.trim() != "Example:")
        .skip(1)
        .peekable();
    let indent = lines
        .peek()
        .map(|line| line.len() - line.trim_start().len())?;
    let mut text = String::new();
    for line in lines {
        text.push_str(line.get(indent..).unwrap_or_default());
        text.push('\n');
    }
    Some(text)
}

fn run_example(text: &str) -> Result<(), String> {
    let (module, claims) = module_of(text)?;
    let library = Library::load();
    let result =
        run_func(&module, &library, "main", Vec::new()).map_err(|error| error.to_string())?;
    let values = result.as_items().unwrap_or_default();
    let mut faults = String::new();
    for (claim, pair) in claims.iter().zip(values.chunks(2)) {
        if let [found, wanted] = pair
            && let Err(why) = agree(found, wanted)
        {
            faults.push_str(&format!("{claim}\n    {why}\n"));
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults)
    }
}

/// A module whose function `main` computes both sides of every claim; and the claims as text.
fn module_of(text: &str) -> Result<(Module, Vec<String>), String> {
    let mut sources = SourceMap::new();
    let mut wrapped =
        String::from("@I.ir_module\nclass Module:\n    @R.function\n    def main():\n");
    for line in text.lines() {
        wrapped.push_str(&format!("        {line}\n"));
    }
    let (mut module, faults) = parse(&mut sources, "example", &wrapped);
    if !faults.is_empty() {
        return Err(show(&faults, &sources));
    }
    let mut claims = Vec::new();
    let Some(func) = module.funcs_mut().next() else {
        return Err("no function".into());
    };
    let mut body = Vec::new();
    let mut sides = Vec::new();
    for stmt in std::mem::take(&mut func.body) {
        let StmtKind::Expr(Expr {
            kind:
                ExprKind::Binary {
                    op: BinaryOp::Eq,
                    lhs,
                    rhs,
                },
            ..
        }) = &stmt.kind
        else {
            body.push(stmt);
            continue;
        };
        claims.push(irc::syntax::print_expr(lhs));
        for (side, expr) in [("found", lhs), ("wanted", rhs)] {
            let name = Name::from(format!("{side}_{}", claims.len()));
            body.push(Stmt::bind(&name, (**expr).clone()));
            sides.push(Expr::name(&name));
        }
    }
    if claims.is_empty() {
        return Err("the example claims nothing".into());
    }
    body.push(Stmt {
        kind: StmtKind::Return(Some(Expr::tuple(sides))),
        trivia: Trivia::default(),
        span: None,
    });
    func.body = body;
    Ok((module, claims))
}

fn show(faults: &[Diagnostic], sources: &SourceMap) -> String {
    render(faults, sources, Format::Full, Default::default())
}

/// Whether two values are the same as far as their dtypes can tell.
fn agree(found: &Value, wanted: &Value) -> Result<(), String> {
    if let (Some(a), Some(b)) = (found.as_items(), wanted.as_items()) {
        if a.len() != b.len() {
            return Err(format!("{} values, not {}", a.len(), b.len()));
        }
        return a.iter().zip(b).try_for_each(|(a, b)| agree(a, b));
    }
    let (Some(a), Some(b)) = (found.as_tensor(), wanted.as_tensor()) else {
        return Err(format!("{found}, not {wanted}"));
    };
    if (a.dtype, &a.shape) != (b.dtype, &b.shape) {
        return Err(format!(
            "{} {:?}, not {} {:?}",
            a.dtype, a.shape, b.dtype, b.shape
        ));
    }
    if a.strings != b.strings {
        return Err(format!("{:?}, not {:?}", a.strings, b.strings));
    }
    let (relative, absolute) = tolerance(b);
    let (a, b) = (a.to_f64s(), b.to_f64s());
    let is_near = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= absolute + relative * b.abs()
    };
    if a.iter().zip(&b).all(|(a, b)| is_near(*a, *b)) {
        Ok(())
    } else {
        Err(format!("{a:?}, not {b:?}"))
    }
}

fn tolerance(tensor: &Tensor) -> (f64, f64) {
    match tensor.dtype {
        DType::F16 => (2e-3, 1e-6),
        DType::BF16 => (2e-2, 1e-6),
        dtype if dtype.is_float() => (1e-5, 1e-6),
        _ => (0.0, 0.0),
    }
}

//! The examples of the standard library: those in docstrings, and further ones in `tests/std/<family>.ir`.
//!
//! An example is the body of a function. A line `a == b` claims that two values agree. The interpreter computes both, and
//! the compiled example what the interpreter does. So that the compiler cannot compute it all beforehand, constants
//! become inputs: all of them where the operator takes that, else those of floats.

use super::Outcome;
use super::native::{self, LIBRARY, agree, flatten, interpret};
use super::sections::Case;
use irc::driver::FaultKind;
use irc::interp::run_func;
use irc::library::Template;
use irc::syntax::visit::walk_expr_mut;
use irc::syntax::{
    BinaryOp, DType, Diagnostic, Expr, ExprKind, Format, Module, Name, Param, SourceMap, Stmt,
    StmtKind, Trivia, VisitMut, parse, render,
};
use irc::target::Target;
use irc::tensor::Tensor;
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::path::Path;

/// One test a version of an operator. Helpers, and versions beside one with examples, need none.
pub fn trials() -> Vec<Trial> {
    let library = &LIBRARY;
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
    let result =
        run_func(&module, &LIBRARY, "main", Vec::new()).map_err(|error| error.to_string())?;
    let values = result.as_items().unwrap_or_default();
    let mut faults = String::new();
    let mut all_found = Vec::new();
    for (claim, pair) in claims.iter().zip(values.chunks(2)) {
        let [found, wanted] = pair else { continue };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let flat = flatten(found, &mut a).and_then(|()| flatten(wanted, &mut b));
        if let Err(why) = flat.and_then(|()| agree(&a, &b)) {
            faults.push_str(&format!("{claim}\n    {why}\n"));
        }
        all_found.extend(a);
        all_found.extend(b);
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    run_compiled(&module, &all_found)
}

/// Compiles the example, and compares what it computes with the values that the interpreter found.
fn run_compiled(module: &Module, wanted: &[Tensor]) -> Result<(), String> {
    let mut refusal = String::new();
    for opaque in [|_: DType| true, |dtype: DType| dtype.is_float(), |_| false] {
        let (module, inputs) = open_constants(module, opaque)?;
        let built = native::compile(native::program(&module), Target::native().cpu)
            .and_then(|compiled| native::load(&compiled));
        match built {
            Ok(built) => {
                let found = built.call("main", &inputs)?;
                return agree(&found, wanted).map_err(|why| format!("compiled: {why}"));
            }
            Err(fault) if fault.kind == FaultKind::Unsupported => return Ok(()),
            Err(fault) => refusal = native::say(&fault),
        }
    }
    Err(format!("it does not compile: {refusal}"))
}

/// The module with chosen constants as parameters of `main`, and their values.
fn open_constants(
    module: &Module,
    opaque: fn(DType) -> bool,
) -> Result<(Module, Vec<Tensor>), String> {
    let mut opener = Opener {
        opaque,
        params: Vec::new(),
        inputs: Vec::new(),
        fault: None,
    };
    let mut module = module.clone();
    if let Some(func) = module.funcs_mut().next() {
        opener.visit_body(&mut func.body);
        func.params = std::mem::take(&mut opener.params);
    }
    match opener.fault {
        Some(fault) => Err(fault),
        None => Ok((module, opener.inputs)),
    }
}

/// Turns `R.const(…)` into parameters.
struct Opener {
    opaque: fn(DType) -> bool,
    params: Vec<Param>,
    inputs: Vec<Tensor>,
    fault: Option<String>,
}

impl VisitMut for Opener {
    fn visit_expr(&mut self, expr: &mut Expr) {
        if !expr.is_call_of("R.const") {
            return walk_expr_mut(self, expr);
        }
        let tensor = match value_of(expr) {
            Ok(tensor) => tensor,
            Err(fault) => return self.fault = Some(fault),
        };
        if tensor.strings.is_some() || !(self.opaque)(tensor.dtype) {
            return;
        }
        let name = Name::from(format!("c{}", self.inputs.len()));
        let dims = tensor.shape.iter().map(|&extent| Expr::int(extent as i128));
        let ty = Expr::call("R.Tensor", [Expr::tuple(dims)])
            .with("dtype", Expr::str(tensor.dtype.name()));
        self.params.push(Param::new(name.clone(), ty));
        self.inputs.push(tensor);
        *expr = Expr::name(&name);
    }
}

/// What a constant is.
fn value_of(expr: &Expr) -> Result<Tensor, String> {
    let mut module = module_of("x == x")?.0;
    if let Some(func) = module.funcs_mut().next() {
        func.body = vec![Stmt::ret(expr.clone())];
    }
    interpret(&module, "main", &[])?
        .pop()
        .ok_or_else(|| "a constant without a value".into())
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

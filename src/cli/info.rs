//! `irc info`: what a program or a shared object takes, returns and holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::Exit;
use super::output::write_stdout;
use super::report::{Failure, Session, read_bytes};
use crate::driver::{FileKind, Program, recognize};
use crate::link;
use crate::syntax::{Expr, ExprKind, Func, FuncKind, Visit, print_expr, visit};

/// Letters of a formula that is still read at a glance.
const LONGEST_FORMULA: usize = 200;

/// `irc info FILE`
#[derive(clap::Args)]
pub struct Args {
    /// The program: text, an ONNX file, or a shared object that irc made; `-` is stdin
    #[arg(value_name = "FILE")]
    file: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints what is known; 1 when the program has errors.
pub fn run(args: Args, session: &mut Session) -> Result<Exit, Failure> {
    let is_library = args.file != "-" && {
        let bytes = read_bytes(&args.file)?;
        recognize(Path::new(&args.file), &bytes) == FileKind::Library
    };
    let facts = if is_library {
        let manifest = link::read_manifest(&read_bytes(&args.file)?);
        manifest
            .and_then(|text| serde_json::from_str(&text).ok())
            .ok_or_else(|| {
                Failure::new(
                    Exit::Io,
                    format!("{} is not a library that irc made", args.file),
                )
            })?
    } else {
        let lib = session.library()?;
        match session.load(&args.file, &lib) {
            Ok(program) => program_facts(&program),
            Err(fault) => return Ok(session.show_fault(&fault)),
        }
    };
    let text = if args.json {
        format!("{facts:#}\n")
    } else {
        describe(&facts)
    };
    write_stdout(text.as_bytes())?;
    Ok(Exit::Good)
}

/// What a text says of itself.
fn program_facts(program: &Program) -> Value {
    let funcs: serde_json::Map<String, Value> = program
        .module
        .funcs()
        .filter(|func| !func.is_private())
        .map(|func| (func.name.to_string(), func_facts(func)))
        .collect();
    let bytes: usize = program
        .weights
        .iter()
        .map(|(_, weight)| weight.n_bytes())
        .sum();
    json!({ "functions": funcs, "weights": { "count": program.weights.len(), "bytes": bytes } })
}

fn func_facts(func: &Func) -> Value {
    let num_input = func.attr("num_input").and_then(Expr::as_int);
    let n_inputs = num_input.map_or(func.params.len(), |n| usize::try_from(n).unwrap_or(0));
    let ty = |ty: Option<&Expr>| ty.map(print_expr).unwrap_or_default();
    let inputs: Vec<Value> = func
        .params
        .iter()
        .take(n_inputs)
        .map(|param| json!({ "name": param.name.as_str(), "type": ty(param.ty.as_ref()) }))
        .collect();
    let mut ops = Ops::default();
    visit::walk_func(&mut ops, func);
    json!({
        "level": if func.kind == FuncKind::Graph { "graph" } else { "loops" },
        "inputs": inputs,
        "returns": ty(func.ret.as_ref()),
        "operators": ops.0,
    })
}

/// How often each operator is called.
#[derive(Default)]
struct Ops(BTreeMap<String, usize>);

impl Visit for Ops {
    fn visit_expr(&mut self, expr: &Expr) {
        const NO_OPERATORS: [&str; 8] = [
            "R.Tensor",
            "R.Tuple",
            "R.Shape",
            "R.shape",
            "R.dtype",
            "R.const",
            "R.func_attr",
            "R.output",
        ];
        if let ExprKind::Call { .. } = &expr.kind
            && let Some((path, _)) = expr.as_call()
            && (path.starts_with("R.") || path.starts_with("onnx."))
            && !NO_OPERATORS.contains(&path.as_str())
        {
            *self.0.entry(path).or_default() += 1;
        }
        visit::walk_expr(self, expr);
    }
}

/// The facts for a reader.
fn describe(facts: &Value) -> String {
    let mut res = String::new();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    for (name, func) in facts["functions"].as_object().into_iter().flatten() {
        let _ = writeln!(res, "{name}");
        for (key, mark) in [("inputs", "<-"), ("outputs", "->")] {
            for slot in func[key].as_array().into_iter().flatten() {
                let ty = match slot["type"].as_str() {
                    Some(ty) => ty.to_owned(),
                    None => format!("{}{}", text(&slot["dtype"]), slot_shape(&slot["shape"])),
                };
                let _ = writeln!(res, "  {mark} {}: {ty}", text(&slot["name"]));
            }
        }
        if let Some(returns) = func["returns"]
            .as_str()
            .filter(|returns| func["outputs"].is_null() && !returns.is_empty())
        {
            let _ = writeln!(res, "  -> {returns}");
        }
        for (dim, facts) in func["dims"].as_object().into_iter().flatten() {
            let range = [("min", ">="), ("max", "<="), ("multiple_of", "multiple of")];
            for (key, words) in range {
                if !facts[key].is_null() && facts[key] != json!(1) && facts[key] != json!(0) {
                    let _ = writeln!(res, "  {dim} {words} {}", facts[key]);
                }
            }
        }
        if !func["workspace"].is_null() {
            let bytes = match text(&func["workspace"]) {
                long if long.len() > LONGEST_FORMULA => "by a long formula (--json)".to_owned(),
                formula => format!("{formula} bytes"),
            };
            let _ = writeln!(res, "  workspace: {bytes}");
        }
        for (op, count) in func["operators"].as_object().into_iter().flatten() {
            let _ = writeln!(res, "  {count:>6} {op}");
        }
    }
    for key in ["irc", "target", "source_sha256"] {
        if !facts[key].is_null() {
            let _ = writeln!(res, "{key}: {}", text(&facts[key]));
        }
    }
    if let Some(weights) = facts["weights"].as_object() {
        let _ = writeln!(
            res,
            "weights: {} of {} bytes",
            weights["count"], weights["bytes"]
        );
    }
    res + &describe_kernels(&facts["kernels"])
}

/// How many regions are marked for the vector emitter, how many it took, and why not the others.
pub fn describe_kernels(kernels: &Value) -> String {
    let Some(n_regions) = kernels["regions"].as_u64() else {
        return String::new();
    };
    let refused = kernels["refused"].as_array().map_or(&[][..], Vec::as_slice);
    let n_refused: u64 = refused.iter().filter_map(|why| why["count"].as_u64()).sum();
    let n_taken = n_regions.saturating_sub(n_refused);
    let mut res = format!("kernels: {n_taken} of {n_regions} regions by the vector emitter\n");
    for group in refused {
        let text = |key: &str| group[key].as_str().unwrap_or_default();
        let _ = writeln!(
            res,
            "  {:>4} not: {} (first in {})",
            group["count"],
            text("why"),
            text("first")
        );
    }
    res
}

fn slot_shape(shape: &Value) -> String {
    let dims = shape.as_array().into_iter().flatten().map(|dim| match dim {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    format!("[{}]", dims.collect::<Vec<_>>().join(", "))
}

//! A module as an ONNX file: the other way of `onnx`.
//!
//! Before: a graph function in operators of ONNX, which is what the pass `for_onnx` leaves, with its weights. After: the
//! bytes of a `ModelProto` whose graph answers as the function does.
//!
//! * A binding of an `onnx.*` call is a node; values keep their names, inputs and outputs those in `irc.names`.
//! * Constants and weights are initializers of the outermost graph. Equal constants without a name are one.
//! * Shapes are vectors of int64: a symbolic extent is read from an input that has it (`dims.rs`).
//! * `if` is `If`, `I.while_loop` is `Loop` (`control.rs`).
//! * What ONNX has no word for is refused, all of it in one run.
//!
//! `proto.rs` writes bytes, `preferred.rs` finds the names of the text again, `node.rs` sorts arguments into inputs and attributes, `tensor.rs` has types and data, and
//! `graph.rs` walks functions. Tests are in `tests/export`.

mod control;
mod dims;
mod graph;
mod node;
mod preferred;
mod proto;
mod tensor;

pub use proto::Chunks;

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::uses::bound_names;
use irc_syntax::{Diagnostic, Expr, ExprKind, Func, FuncKind, Module, Name, StmtKind, print_expr};

use crate::check::Info;
use crate::library::Library;
use crate::opt::for_onnx::OPSET;
use crate::opt::graph::returned;
use crate::tensor::Weights;

/// The operator set of ai.onnx.ml that is written, where no operator needs a newer one.
const ML_OPSET: u32 = 4;

/// What an export may choose.
#[derive(Clone, Debug, Default)]
pub struct Options<'o> {
    /// The operator set of ai.onnx; a node may need a newer one.
    pub opset: Option<u32>,
    /// The function, where there are several.
    pub function: Option<&'o str>,
    /// The file beside the model that weights go to, where they do.
    pub external: Option<&'o str>,
    /// The names that values had before passes ran, by function; see [`written_names`].
    pub names: BTreeMap<Name, Written>,
}

/// An exported function.
pub struct Exported<'w> {
    /// The file.
    pub model: Chunks<'w>,
    /// What goes into the file beside it.
    pub external: Chunks<'w>,
    /// Operator sets that the model imports: domain and version.
    pub opsets: BTreeMap<String, u32>,
    /// How many nodes there are, those inside others counted too.
    pub n_nodes: usize,
}

/// Exports a function of a module; `info` are its types.
///
/// # Errors
/// What ONNX cannot say, all of it.
pub fn export<'w>(
    module: &Module,
    info: &Info,
    weights: &'w Weights,
    lib: &Library,
    options: &Options<'_>,
) -> Result<Exported<'w>, Vec<Diagnostic>> {
    let func = choose(module, options.function).map_err(|fault| vec![fault])?;
    let mut exporter = graph::Exporter::new(module, info, weights, lib);
    exporter.external = options.external.map(str::to_owned);
    exporter.written = options.names.get(&func.name).cloned().unwrap_or_default();
    let graph = exporter.main(func);
    if !exporter.diags.is_empty() {
        return Err(exporter.diags);
    }
    let mut opsets = exporter.opsets;
    let main = opsets.entry(String::new()).or_insert(OPSET);
    *main = (*main).max(options.opset.unwrap_or(OPSET));
    let ir_version = ir_version(*main);
    if let Some(version) = opsets.get_mut("ai.onnx.ml") {
        *version = (*version).max(ML_OPSET);
    }
    let n_nodes = exporter.n_nodes;
    let model = proto::Model {
        ir_version,
        opsets: opsets
            .iter()
            .map(|(domain, version)| (domain.clone(), i64::from(*version)))
            .collect(),
        graph,
    };
    Ok(Exported {
        model: model.write(),
        external: exporter.beside,
        opsets,
        n_nodes,
    })
}

/// Names of a function that `normalize` puts other names, or values, in the place of.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The names of results, in order.
    pub results: Vec<Option<Name>>,
    /// The names of constants, by their text; in order where there are several of one text.
    pub constants: BTreeMap<String, Vec<Name>>,
    /// The names of shapes as tensors.
    pub shapes: BTreeSet<Name>,
    /// All names that are bound.
    pub names: BTreeSet<Name>,
}

/// The names that the public functions of a module give their results and constants.
pub fn written_names(module: &Module) -> BTreeMap<Name, Written> {
    let public = module.funcs().filter(|func| !func.is_private());
    public
        .map(|func| {
            let results = returned(&func.body).into_iter();
            let mut written = Written {
                results: results.map(|value| value.as_name().cloned()).collect(),
                names: func.params.iter().map(|param| param.name.clone()).collect(),
                ..Written::default()
            };
            for stmt in &func.body {
                let StmtKind::Assign { target, value, .. } = &stmt.kind else {
                    continue;
                };
                written.names.extend(bound_names(target));
                let Some(name) = target.as_name() else {
                    continue;
                };
                if value.is_call_of("R.const") {
                    let text = print_expr(value);
                    let names = written.constants.entry(text).or_default();
                    names.push(name.clone());
                }
                if value.is_call_of("R.shape_to_tensor") {
                    written.shapes.insert(name.clone());
                }
            }
            (func.name.clone(), written)
        })
        .collect()
}

/// The function of a name, `main`, or the only one.
fn choose<'m>(module: &'m Module, name: Option<&str>) -> Result<&'m Func, Diagnostic> {
    let mut public = module
        .funcs()
        .filter(|func| func.kind == FuncKind::Graph && !func.is_private());
    let fault = |message: String| Diagnostic::error("no-function", message);
    match name {
        Some(name) => public
            .find(|func| func.name == *name)
            .ok_or_else(|| fault(format!("the program has no public function `{name}`"))),
        None => {
            let all: Vec<&Func> = public.collect();
            let main = all.iter().find(|func| func.name == "main");
            match (main, all.as_slice()) {
                (Some(main), _) => Ok(main),
                (None, [only]) => Ok(only),
                (None, []) => Err(fault("the program has no public graph function".to_owned())),
                (None, _) => Err(fault("the program has several functions".to_owned())
                    .help("choose one with `--function NAME`", None)),
            }
        }
    }
}

/// The version of the format that goes with an operator set (ONNX, docs/Versioning.md).
fn ir_version(opset: u32) -> i64 {
    match opset {
        ..=18 => 8,
        19..=20 => 9,
        21..=22 => 10,
        23 => 11,
        24 => 12,
        25..=26 => 13,
        27.. => 14,
    }
}

/// The names that inputs and results have in ONNX, by those in the text.
fn original_names(func: &Func) -> BTreeMap<Name, String> {
    let Some(Expr {
        kind: ExprKind::Dict(items),
        ..
    }) = func.attr("irc.names")
    else {
        return BTreeMap::new();
    };
    items
        .iter()
        .filter_map(|(name, original)| {
            Some((Name::from(name.as_str()?), original.as_str()?.to_owned()))
        })
        .collect()
}

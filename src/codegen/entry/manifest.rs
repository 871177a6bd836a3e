//! The manifest: what a shared object holds, as JSON that tools read without running it.

use irc_syntax::{Module, Name};
use serde_json::{Value, json};

use super::describe::{Entry, Form, Kind, Slot};
use crate::codegen::{Cpu, Target};
use crate::shape::SymbolFacts;
use crate::tensor::Weight;

/// What the manifest says beside the functions.
#[derive(Clone, Debug, Default)]
pub struct Facets {
    /// sha256 of the source, where the module carries it in `irc.source`.
    pub source: Option<String>,
    /// Machine and instruction set.
    pub target: String,
    /// Number of weights.
    pub n_weights: usize,
    /// Bytes of all of them.
    pub weight_bytes: usize,
}

impl Facets {
    /// What a module and a target say.
    pub fn new(module: &Module, target: &Target, weights: &[Weight]) -> Self {
        let cpu = match target.cpu {
            Cpu::Portable => "portable",
            Cpu::V2 => "x86-64-v2",
            Cpu::V3 => "x86-64-v3",
            Cpu::V4 => "x86-64-v4",
        };
        Self {
            source: module
                .attr("irc.source")
                .and_then(|value| value.as_str())
                .map(str::to_owned),
            target: format!("{} {cpu}", target.triple),
            n_weights: weights.len(),
            weight_bytes: weights.iter().map(|weight| weight.bytes().len()).sum(),
        }
    }
}

/// The manifest of an object with these entries.
pub fn print(entries: &[Entry], facets: &Facets) -> String {
    let functions: serde_json::Map<String, Value> = entries
        .iter()
        .map(|entry| (entry.name.clone(), function(entry)))
        .collect();
    json!({
        "irc": env!("CARGO_PKG_VERSION"),
        "target": facets.target,
        "source_sha256": facets.source,
        "weights": { "count": facets.n_weights, "bytes": facets.weight_bytes },
        "functions": functions,
    })
    .to_string()
}

fn function(entry: &Entry) -> Value {
    let dims: serde_json::Map<String, Value> = entry
        .symbols
        .iter()
        .map(|(name, facts)| symbol(name, facts))
        .collect();
    json!({
        "inputs": entry.inputs.iter().map(slot).collect::<Vec<_>>(),
        "outputs": entry.outputs.iter().map(slot).collect::<Vec<_>>(),
        "returns": match entry.form {
            Form::Tensor => "tensor",
            Form::Array => "array",
            Form::None => "nothing",
        },
        "dims": dims,
    })
}

fn symbol(name: &Name, facts: &SymbolFacts) -> (String, Value) {
    let facts = json!({ "min": facts.min, "max": facts.max, "multiple_of": facts.multiple_of });
    (name.to_string(), facts)
}

fn slot(slot: &Slot) -> Value {
    let dims: Vec<Value> = slot
        .dims_text
        .iter()
        .map(|dim| {
            dim.parse::<i64>()
                .map_or_else(|_| json!(dim), |number| json!(number))
        })
        .collect();
    let (kind, dtype) = match slot.kind {
        Kind::Tensor(dtype) => ("tensor", Some(dtype.name())),
        Kind::Scalar(dtype) => ("scalar", Some(dtype.name())),
        Kind::Shape => ("shape", None),
    };
    json!({ "name": slot.name, "kind": kind, "dtype": dtype, "shape": dims })
}

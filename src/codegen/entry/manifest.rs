//! The manifest: what a shared object holds, as JSON that tools read without running it.

use irc_syntax::{Module, Name};
use serde_json::{Value, json};

use super::describe::{Entry, Form, Kind, Slot};
use crate::codegen::{Cpu, Target};
use crate::shape::SymbolFacts;

/// What the manifest says beside the functions.
#[derive(Clone, Debug, Default)]
pub struct Facets {
    /// sha256 of the source, where the module carries it in `irc.source`.
    pub source: Option<String>,
    /// Machine and instruction set.
    pub target: String,
    /// The file and hash that the module names in `irc.params`.
    pub params: Value,
}

impl Facets {
    /// What a module and a target say.
    pub fn new(module: &Module, target: &Target) -> Self {
        let cpu = match target.cpu {
            Cpu::Portable => "portable",
            Cpu::V2 => "x86-64-v2",
            Cpu::V3 => "x86-64-v3",
            Cpu::V4 => "x86-64-v4",
        };
        let text = |key: &str| {
            let irc_syntax::ExprKind::Dict(items) = &module.attr("irc.params")?.kind else {
                return None;
            };
            let item = items.iter().find(|(name, _)| name.as_str() == Some(key))?;
            item.1.as_str().map(str::to_owned)
        };
        let params = match (text("file"), text("sha256")) {
            (None, None) => Value::Null,
            (file, sha256) => json!({ "file": file, "sha256": sha256 }),
        };
        Self {
            source: module
                .attr("irc.source")
                .and_then(|value| value.as_str())
                .map(str::to_owned),
            target: format!("{} {cpu}", target.triple),
            params,
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
        "params": facets.params,
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

//! The manifest: what a shared object holds, as JSON that tools read without running it.

use std::collections::BTreeMap;

use irc_syntax::{Module, Name};
use serde_json::{Value, json};

use super::describe::{Entry, Form, Kind, Slot};
use crate::codegen::{Region, Target};
use crate::shape::{Dim, SymbolFacts};
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
    /// The bytes of the workspace of a call, by function.
    pub workspaces: BTreeMap<Name, Dim>,
    /// Number of regions marked for the kernel emitter.
    pub n_regions: usize,
    /// Why it refused some of them: the reason, how many, and where the first is.
    pub refused: BTreeMap<String, (usize, String)>,
}

impl Facets {
    /// What a module and a target say.
    pub fn new(module: &Module, target: &Target, weights: &[Weight], regions: &[Region]) -> Self {
        let mut refused: BTreeMap<String, (usize, String)> = BTreeMap::new();
        for region in regions {
            if let Some(why) = &region.refusal {
                let entry = refused.entry(why.clone());
                entry.or_insert_with(|| (0, region.place.clone())).0 += 1;
            }
        }
        Self {
            source: module
                .attr("irc.source")
                .and_then(|value| value.as_str())
                .map(str::to_owned),
            target: format!("{} {}", target.triple, target.cpu_name()),
            n_weights: weights.len(),
            weight_bytes: weights.iter().map(|weight| weight.n_bytes()).sum(),
            workspaces: BTreeMap::new(),
            n_regions: regions.len(),
            refused,
        }
    }
}

/// The manifest of an object with these entries.
pub fn print(entries: &[Entry], facets: &Facets) -> String {
    let functions: serde_json::Map<String, Value> = entries
        .iter()
        .map(|entry| (entry.name.clone(), function(entry, facets)))
        .collect();
    let refused: Vec<Value> = facets
        .refused
        .iter()
        .map(|(why, (count, first))| json!({ "why": why, "count": count, "first": first }))
        .collect();
    json!({
        "irc": env!("CARGO_PKG_VERSION"),
        "target": facets.target,
        "source_sha256": facets.source,
        "weights": { "count": facets.n_weights, "bytes": facets.weight_bytes },
        "kernels": { "regions": facets.n_regions, "refused": refused },
        "functions": functions,
    })
    .to_string()
}

fn function(entry: &Entry, facets: &Facets) -> Value {
    let workspace = facets.workspaces.get(entry.name.as_str());
    let workspace = workspace.map_or(json!(0), |bytes| match bytes.as_int() {
        Some(bytes) => json!(bytes),
        None => json!(irc_syntax::print_expr(&bytes.to_expr())),
    });
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
        "maps": { "inputs": maps(&entry.maps.inputs), "outputs": maps(&entry.maps.results) },
        "dims": dims,
        "workspace": workspace,
    })
}

fn maps(maps: &[(String, usize)]) -> serde_json::Map<String, Value> {
    let places = maps.iter().map(|(name, at)| (name.clone(), json!(at)));
    places.collect()
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
        Kind::AnyRank(dtype) => ("tensor", Some(dtype.name())),
        Kind::Seq(dtype) => ("sequence", Some(dtype.name())),
        Kind::OptTensor(dtype) => ("optional tensor", Some(dtype.name())),
        Kind::OptSeq(dtype) => ("optional sequence", Some(dtype.name())),
    };
    json!({ "name": slot.name, "kind": kind, "dtype": dtype, "shape": dims })
}

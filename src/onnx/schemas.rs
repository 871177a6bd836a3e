//! What ONNX's operator sets allow: which version of an operator a node needs.
//!
//! In: an operator, its attributes, and the element types of what goes in and comes out. Out: the first operator set from 18
//! on (4 for ai.onnx.ml) that has the operator so. The table is `schemas.txt`, which `schemas.py` writes from the `onnx`
//! package 1.23.2.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use irc_syntax::DType;

/// One version of an operator.
struct Version {
    since: u32,
    /// `None` for any number.
    most_inputs: Option<usize>,
    attributes: BTreeMap<&'static str, &'static str>,
    inputs: Vec<&'static str>,
    outputs: Vec<&'static str>,
}

/// A node, as far as versions differ.
pub struct Use<'u> {
    /// The domain; empty for ai.onnx.
    pub domain: &'u str,
    /// The operator.
    pub op: &'u str,
    /// Its attributes.
    pub attributes: Vec<&'u str>,
    /// The element types of its inputs, where they are there and known.
    pub inputs: Vec<Option<DType>>,
    /// The same of its outputs.
    pub outputs: Vec<Option<DType>>,
}

/// The type of an attribute, as its field of `AttributeProto` is called: `int`, `floats`.
pub fn attribute_type(domain: &str, op: &str, name: &str) -> Option<&'static str> {
    let versions = table().get(&(shown(domain), op))?;
    versions
        .iter()
        .find_map(|version| version.attributes.get(name).copied())
}

fn shown(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}

/// The operator set that a node needs; `None` where the operator is not ONNX's, or no version has it so.
pub fn needed(node: &Use<'_>) -> Option<u32> {
    let versions = table().get(&(shown(node.domain), node.op))?;
    let has_form = |version: &&Version| {
        version
            .most_inputs
            .is_none_or(|most| node.inputs.len() <= most)
            && node
                .attributes
                .iter()
                .all(|name| version.attributes.contains_key(name))
    };
    let has_types = |version: &&Version| {
        allow(&version.inputs, &node.inputs) && allow(&version.outputs, &node.outputs)
    };
    let forms = || versions.iter().filter(has_form);
    // Where no version has the types, a runtime may have them all the same.
    let found = forms().find(has_types).or_else(|| forms().next())?;
    Some(found.since)
}

/// Whether each type is among those allowed in its place; the last place serves all that follow.
fn allow(allowed: &[&str], types: &[Option<DType>]) -> bool {
    types.iter().enumerate().all(|(at, dtype)| {
        let allowed = allowed.get(at).or(allowed.last());
        match (allowed, dtype) {
            (Some(allowed), Some(dtype)) if *allowed != "*" => {
                allowed.split(',').any(|name| name == dtype.name())
            }
            _ => true,
        }
    })
}

fn table() -> &'static BTreeMap<(&'static str, &'static str), Vec<Version>> {
    static TABLE: OnceLock<BTreeMap<(&str, &str), Vec<Version>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table: BTreeMap<_, Vec<Version>> = BTreeMap::new();
        for line in include_str!("schemas.txt").lines() {
            let mut columns = line.split('|');
            let mut column = || columns.next().unwrap_or_default();
            let key = (column(), column());
            let version = Version {
                since: column().parse().unwrap_or(1),
                most_inputs: column().parse().ok(),
                attributes: column()
                    .split(',')
                    .filter_map(|attribute| attribute.split_once('='))
                    .collect(),
                inputs: column().split(';').collect(),
                outputs: column().split(';').collect(),
            };
            table.entry(key).or_default().push(version);
        }
        table
    })
}

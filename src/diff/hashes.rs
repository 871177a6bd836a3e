//! Hashes of the operators of one function: what each is, what it computes from the inputs, how its results are used.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::graph::{Attr, Const, Graph, Value};
use super::matching::Contents;

pub(super) fn mix(parts: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn const_hash(value: &Const) -> u64 {
    let tensor = &value.tensor;
    hash_of(&(
        tensor.dtype.name(),
        &tensor.shape,
        &*tensor.data,
        &tensor.strings,
    ))
}

/// Hashes of the nodes of one side.
pub(super) struct Hashes {
    /// The operator alone.
    pub(super) op: Vec<u64>,
    /// Operator, attributes, functions called, kind of block.
    pub(super) base: Vec<u64>,
    /// `base` with the parameters taken; `None` where none is.
    pub(super) local: Vec<Option<u64>>,
    /// The operator with the parameters taken.
    pub(super) weights: Vec<Option<u64>>,
    pub(super) names: Vec<u64>,
    pub(super) down: Vec<u64>,
    pub(super) up: Vec<u64>,
}

impl Hashes {
    pub(super) fn new(graph: &Graph<'_>, funcs: &Contents, leaf: &dyn Fn(usize) -> u64) -> Self {
        let n = graph.nodes.len();
        let consts: Vec<u64> = graph.consts.iter().map(const_hash).collect();
        let mut res = Self {
            op: Vec::with_capacity(n),
            base: Vec::with_capacity(n),
            local: Vec::with_capacity(n),
            weights: Vec::with_capacity(n),
            names: graph
                .nodes
                .iter()
                .map(|node| hash_of(&node.names))
                .collect(),
            down: Vec::with_capacity(n),
            up: vec![0; n],
        };
        let mut own = Vec::with_capacity(n);
        for node in &graph.nodes {
            let label = graph
                .regions
                .get(node.region)
                .map_or("", |region| &region.label);
            let op = hash_of(&node.op);
            let mut base = vec![op, hash_of(label)];
            for (key, attr) in &node.attrs {
                base.push(hash_of(key));
                base.push(attr_hash(attr, funcs));
            }
            let base = mix(&base);
            let (mut params, mut weights) = (Vec::new(), Vec::new());
            let mut down = Vec::with_capacity(node.operands.len() + 1);
            for (at, operand) in node.operands.iter().enumerate() {
                let key = if node.commutes && at < 2 {
                    0
                } else {
                    hash_of(&operand.key)
                };
                let value = match &operand.value {
                    Value::Node(of, out) => {
                        mix(&[res.down.get(*of).copied().unwrap_or(0), *out as u64])
                    }
                    Value::Param(of, out) => {
                        let value = mix(&[leaf(*of), *out as u64, 7]);
                        params.push(mix(&[key, value]));
                        if *of >= graph.n_inputs {
                            weights.push(mix(&[key, value]));
                        }
                        value
                    }
                    Value::Const(of) => consts.get(*of).copied().unwrap_or(0),
                    Value::Literal(text) => hash_of(text),
                };
                down.push(mix(&[key, value]));
            }
            if node.commutes {
                let n_first = down.len().min(2);
                if let Some(first) = down.get_mut(..n_first) {
                    first.sort_unstable();
                }
                params.sort_unstable();
                weights.sort_unstable();
            }
            down.push(base);
            res.op.push(op);
            res.base.push(base);
            res.down.push(mix(&down));
            let with = |first: u64| {
                let mut parts = params.clone();
                parts.push(first);
                (!params.is_empty()).then(|| mix(&parts))
            };
            // What an operator reads of the inputs is above it, as other operators are; weights are its own.
            weights.push(base);
            own.push(mix(&weights));
            res.local.push(with(base));
            res.weights.push(with(op));
        }
        for at in (0..n).rev() {
            let users = graph.users.get(at).map_or(&[][..], Vec::as_slice);
            let mut parts: Vec<u64> = users
                .iter()
                .map(|&(user, operand)| {
                    let (key, out) = use_of(graph, user, operand);
                    mix(&[res.up.get(user).copied().unwrap_or(0), key, out])
                })
                .collect();
            parts.sort_unstable();
            parts.push(own[at]);
            let node = &graph.nodes[at];
            for operand in &node.operands {
                if let Value::Const(of) = operand.value {
                    parts.push(consts.get(of).copied().unwrap_or(0));
                }
            }
            res.up[at] = mix(&parts);
        }
        res
    }
}

/// How a user takes a value: hashes of the argument and of the member.
pub(super) fn use_of(graph: &Graph<'_>, user: usize, operand: usize) -> (u64, u64) {
    let Some(node) = graph.nodes.get(user) else {
        return (0, 0);
    };
    let Some(taken) = node.operands.get(operand) else {
        return (0, 0);
    };
    let key = if node.commutes && operand < 2 {
        0
    } else {
        hash_of(&taken.key)
    };
    let out = match taken.value {
        Value::Node(_, out) | Value::Param(_, out) => out as u64,
        Value::Const(_) | Value::Literal(_) => 0,
    };
    (key, out)
}

fn attr_hash(attr: &Attr, funcs: &Contents) -> u64 {
    match attr {
        Attr::Text(text) => hash_of(text),
        Attr::Func(name) => funcs.get(name).copied().unwrap_or_else(|| hash_of(name)),
    }
}

//! Which value of one function is which of another's: what `compare` knows of them, for those who compare what is
//! computed.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::{FuncKind, Name};

use super::call::Ops;
use super::graph::Renames;
use super::interface::{self, Side};
use super::{contents, matching, read};
use crate::driver::Program;
use crate::library::Library;
use crate::opt::graph::names_of;

/// The partners in `b` of the names that a graph function of `a` binds, parameters included: those of the same name, unless
/// structure has another partner and they are of two operators or both belong to others; the rest by structure.
pub fn pair_values(
    (a, a_func): (&Program, &str),
    (b, b_func): (&Program, &str),
    lib: &Library,
) -> BTreeMap<Name, Name> {
    let (Some(left), Some(right)) = (a.module.find_func(a_func), b.module.find_func(b_func)) else {
        return BTreeMap::new();
    };
    let ops = Ops::new(lib);
    let side = |func, weights| Side {
        func,
        weights,
        ret: None,
    };
    let (side_a, side_b) = (side(left, &a.weights), side(right, &b.weights));
    let leaves = interface::pair_params(side_a, side_b);
    let mut by_structure: BTreeMap<Name, Name> = BTreeMap::new();
    for (at, other) in leaves.to_b.iter().enumerate() {
        let pair = left
            .params
            .get(at)
            .zip(other.and_then(|at| right.params.get(at)));
        by_structure.extend(pair.map(|(x, y)| (x.name.clone(), y.name.clone())));
    }
    let (mut ops_a, mut ops_b) = (BTreeMap::new(), BTreeMap::new());
    let (names_a, names_b) = (names_of(left), names_of(right));
    if left.kind == FuncKind::Graph && right.kind == FuncKind::Graph {
        let renames = interface::rename_symbols(side_a, side_b, &leaves);
        let x = read::build(left, &a.module, &ops, &Renames::new());
        let y = read::build(right, &b.module, &ops, &renames);
        let (x_funcs, y_funcs) = (contents(&a.module, &ops), contents(&b.module, &ops));
        let found = matching::match_graphs((&x, &x_funcs), (&y, &y_funcs), &leaves);
        for (node, other) in x.nodes.iter().zip(&found.to_b) {
            let other = other.and_then(|at| y.nodes.get(at));
            let Some(other) = other.filter(|other| other.names.len() == node.names.len()) else {
                continue;
            };
            let pairs = node.names.iter().zip(&other.names);
            by_structure.extend(pairs.map(|(x, y)| (x.clone(), y.clone())));
        }
        for (ops_of, graph) in [(&mut ops_a, &x), (&mut ops_b, &y)] {
            for node in &graph.nodes {
                ops_of.extend(
                    node.names
                        .iter()
                        .map(|name| (name.clone(), node.op.clone())),
                );
            }
        }
    }
    let taken: BTreeSet<Name> = by_structure.values().cloned().collect();
    let mut res = BTreeMap::new();
    for name in names_a {
        let structural = by_structure.get(&name);
        let is_named = names_b.contains(&name);
        let is_other = structural.is_some_and(|other| *other != name)
            && (taken.contains(&name) || ops_a.get(&name) != ops_b.get(&name));
        let partner = if is_named && !is_other {
            Some(name.clone())
        } else {
            structural.cloned()
        };
        res.extend(partner.map(|partner| (name, partner)));
    }
    res
}

//! The order of a graph's nodes: every value is made before it is read.
//!
//! In: nodes as written. Out: their indices, in written order wherever that is possible already. Files that
//! are not sorted are accepted, as runtimes do; a cycle is an error that lists it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use super::fault::Failure;
use super::model::{AttrValue, Graph, Node};

/// How a node is called in messages: by its name, or by what it makes.
pub fn describe(node: &Node<'_>) -> String {
    if !node.name.is_empty() {
        return format!("node `{}` ({})", node.name, node.op);
    }
    match node.outputs.iter().find(|output| !output.is_empty()) {
        Some(output) => format!("the {} node that makes `{output}`", node.op),
        None => format!("an unnamed {} node", node.op),
    }
}

/// The values a node reads, those of its subgraphs from outside included.
pub fn reads<'a>(node: &Node<'a>) -> Vec<&'a str> {
    let mut reads: Vec<&str> = node
        .inputs
        .iter()
        .copied()
        .filter(|input| !input.is_empty())
        .collect();
    for attr in &node.attributes {
        if let AttrValue::Graph(graph) = &attr.value {
            reads.extend(captures(graph));
        }
    }
    reads
}

/// The values that a subgraph takes from outside.
fn captures<'a>(graph: &Graph<'a>) -> Vec<&'a str> {
    let mut own: HashSet<&str> = graph.inputs.iter().map(|input| input.name).collect();
    own.extend(graph.initializers.iter().map(|tensor| tensor.name));
    own.extend(
        graph
            .sparse_initializers
            .iter()
            .map(|tensor| tensor.values.name),
    );
    own.extend(
        graph
            .nodes
            .iter()
            .flat_map(|node| node.outputs.iter().copied()),
    );
    let mut found: Vec<&str> = graph.nodes.iter().flat_map(reads).collect();
    found.extend(graph.outputs.iter().map(|output| output.name));
    found.retain(|name| !own.contains(name));
    found
}

/// The indices of nodes in an order in which they can run.
///
/// # Errors
/// Where two nodes make the same value, or nodes wait for each other.
pub fn sort_nodes(nodes: &[Node<'_>]) -> Result<Vec<usize>, Failure> {
    let mut makers: HashMap<&str, usize> = HashMap::new();
    for (idx, node) in nodes.iter().enumerate() {
        for output in node.outputs.iter().filter(|output| !output.is_empty()) {
            if let Some(first) = makers
                .insert(output, idx)
                .and_then(|first| nodes.get(first))
            {
                return Err(Failure::invalid(format!(
                    "`{output}` is made twice: by {} and by {}",
                    describe(first),
                    describe(node)
                )));
            }
        }
    }
    let needs: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            let mut needs: Vec<usize> = reads(node)
                .into_iter()
                .filter_map(|read| makers.get(read).copied())
                .collect();
            needs.sort_unstable();
            needs.dedup();
            needs
        })
        .collect();
    let mut waiting: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (idx, needs) in needs.iter().enumerate() {
        for &need in needs {
            if let Some(list) = readers.get_mut(need) {
                list.push(idx);
            }
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = waiting
        .iter()
        .enumerate()
        .filter(|(_, n)| **n == 0)
        .map(|(idx, _)| Reverse(idx))
        .collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(idx)) = ready.pop() {
        order.push(idx);
        for &reader in readers.get(idx).into_iter().flatten() {
            if let Some(n) = waiting.get_mut(reader) {
                *n -= 1;
                if *n == 0 {
                    ready.push(Reverse(reader));
                }
            }
        }
    }
    if order.len() < nodes.len() {
        return Err(cycle(nodes, &needs, &waiting));
    }
    Ok(order)
}

/// The error that lists a cycle: from a node that waits, one step to another that it waits for, until one repeats.
fn cycle(nodes: &[Node<'_>], needs: &[Vec<usize>], waiting: &[usize]) -> Failure {
    let is_waiting = |idx: &usize| waiting.get(*idx).is_some_and(|n| *n > 0);
    let mut path: Vec<usize> = Vec::new();
    let mut at = (0..nodes.len()).find(is_waiting);
    while let Some(idx) = at {
        if let Some(start) = path.iter().position(|seen| *seen == idx) {
            let mut names: Vec<String> = path
                .iter()
                .skip(start)
                .filter_map(|idx| nodes.get(*idx))
                .map(describe)
                .collect();
            names.reverse();
            names.extend(names.first().cloned());
            return Failure::invalid(format!("the graph has a cycle: {}", names.join(" -> ")));
        }
        path.push(idx);
        at = needs
            .get(idx)
            .and_then(|needs| needs.iter().copied().find(|need| is_waiting(need)));
    }
    Failure::invalid("the graph has a cycle")
}

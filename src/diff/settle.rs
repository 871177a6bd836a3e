//! The last look at a matching: two operators of one kind that would be told with fewer lines in each other's place
//! change places.
//!
//! Weights are strong evidence for which operator is which, and where two operators swapped theirs they mislead: all
//! that reads the two would be rewired. What stands around an operator says so.

use super::graph::{Graph, Node, Value};
use super::matching::{Leaves, Matching};

/// Operators with more readers stay as they are matched: to weigh them takes a look at each.
const MOST_READERS: usize = 64;

/// Exchanges partners where that leaves fewer differences.
pub(super) fn settle(a: &Graph<'_>, b: &Graph<'_>, leaves: &Leaves, found: &mut Matching) {
    for x in 0..a.nodes.len() {
        let Some(y) = found.to_b[x] else {
            continue;
        };
        let sides = Sides { a, b, leaves };
        if sides.cost(x, y, found) == 0 {
            continue;
        }
        for other in sides.expected(x, found) {
            if other != y && sides.try_exchange(x, y, other, found) {
                break;
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Sides<'s, 'm> {
    a: &'s Graph<'m>,
    b: &'s Graph<'m>,
    leaves: &'s Leaves,
}

impl Sides<'_, '_> {
    /// The nodes of `b` that the readers of `x` have in its place.
    fn expected(&self, x: usize, found: &Matching) -> Vec<usize> {
        let readers = &self.a.users[x];
        let mut nodes = Vec::new();
        for &(reader, operand) in readers.iter().take(MOST_READERS) {
            let taken = &self.a.nodes[reader].operands[operand];
            let partner = found.to_b[reader].map(|partner| &self.b.nodes[partner]);
            let place = partner.and_then(|node| counterpart(node, operand, &taken.key));
            if let Some(Value::Node(y, _)) = place
                && !nodes.contains(y)
            {
                nodes.push(*y);
            }
        }
        nodes
    }

    /// Matches `x` with `other`, and what `other` was matched with with `y`, if that leaves fewer differences.
    fn try_exchange(&self, x: usize, y: usize, other: usize, found: &mut Matching) -> bool {
        let alike = |x: usize, y: usize| self.a.nodes[x].op == self.b.nodes[y].op;
        let many = |graph: &Graph<'_>, at: usize| graph.users[at].len() > MOST_READERS;
        let partner = found.to_a[other];
        let is_kind = alike(x, other) && partner.is_none_or(|partner| alike(partner, y));
        if !is_kind || many(self.a, x) || partner.is_some_and(|partner| many(self.a, partner)) {
            return false;
        }
        let cost = |found: &Matching| {
            let of = |x: usize| found.to_b[x].map_or(0, |y| self.cost(x, y, found));
            of(x) + partner.map_or(0, of)
        };
        let before = cost(found);
        let set = |found: &mut Matching, y: usize, other: usize| {
            found.to_b[x] = Some(other);
            found.to_a[other] = Some(x);
            found.to_a[y] = partner;
            if let Some(partner) = partner {
                found.to_b[partner] = Some(y);
            }
        };
        set(found, y, other);
        if cost(found) < before {
            return true;
        }
        set(found, other, y);
        false
    }

    /// How much a pair of nodes and what reads them differ.
    fn cost(&self, x: usize, y: usize, found: &Matching) -> usize {
        let (a, b) = (&self.a.nodes[x], &self.b.nodes[y]);
        let differs = |at: usize, to: usize| match (a.operands.get(at), b.operands.get(to)) {
            (Some(from), Some(to)) => usize::from(!self.is_same(&from.value, &to.value, found)),
            (None, None) => 0,
            (Some(_), None) | (None, Some(_)) => 1,
        };
        let n = a.operands.len().max(b.operands.len());
        let straight: usize = (0..n).map(|at| differs(at, at)).sum();
        let own = if a.commutes && n == 2 {
            straight.min(differs(0, 1) + differs(1, 0))
        } else {
            straight
        };
        let readers = self.a.users[x].iter().take(MOST_READERS);
        let rewired = readers.filter(|&&(reader, operand)| {
            let Some(partner) = found.to_b[reader] else {
                return false;
            };
            let taken = &self.a.nodes[reader].operands[operand];
            let node = &self.b.nodes[partner];
            let is_it =
                |value: Option<&Value>| matches!(value, Some(Value::Node(of, _)) if *of == y);
            let other = (node.commutes && operand < 2).then_some(1 - operand.min(1));
            let crossed = other.and_then(|at| node.operands.get(at));
            let is_there = is_it(counterpart(node, operand, &taken.key))
                || is_it(crossed.map(|operand| &operand.value));
            !is_there
        });
        own + rewired.count() + usize::from(a.attrs != b.attrs)
    }

    fn is_same(&self, a: &Value, b: &Value, found: &Matching) -> bool {
        match (a, b) {
            (Value::Node(x, out), Value::Node(y, other)) => {
                out == other && found.to_b[*x] == Some(*y)
            }
            (Value::Param(x, out), Value::Param(y, other)) => {
                out == other && self.leaves.to_b.get(*x).copied().flatten() == Some(*y)
            }
            // Their contents are told apart by other lines.
            (Value::Const(_), Value::Const(_)) => true,
            _ => a == b,
        }
    }
}

/// The value that a node takes as the same argument.
fn counterpart<'n>(node: &'n Node<'_>, at: usize, key: &str) -> Option<&'n Value> {
    let found = node.operands.get(at).filter(|operand| operand.key == key);
    let found = found.or_else(|| node.operands.iter().find(|operand| operand.key == key));
    found.map(|operand| &operand.value)
}

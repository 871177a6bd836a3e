//! Which operator of one function is which of the other.
//!
//! Anchors first: operators that compute the same from the inputs down (`down`) and are used alike up to the results
//! (`up`), then those of which one holds, so that all above and all below a change is settled. From them the match
//! goes on along operands and users: first to operators of the same name, then to those with the same weights,
//! attributes, and at last of the same kind. Names decide only between candidates that structure leaves, so that
//! other names change nothing. What is left and stands between the same operators is one replaced by another.
//!
//! Every step groups by a hash and takes a group once, so time grows with the number of operators, not its square.
//! Hashes are of fixed keys: the same texts are matched alike everywhere.

use std::collections::{BTreeMap, HashMap, VecDeque};

use irc_syntax::Name;

use super::graph::{Graph, Value};
use super::hashes::{Hashes, mix, use_of};
use super::settle::settle;

/// The partners of nodes, both ways.
pub(super) struct Matching {
    pub(super) to_b: Vec<Option<usize>>,
    pub(super) to_a: Vec<Option<usize>>,
}

/// Which parameter is which.
pub(super) struct Leaves {
    /// For each parameter of `b` the one of `a`.
    pub(super) to_a: Vec<Option<usize>>,
    /// For each parameter of `a` the one of `b`.
    pub(super) to_b: Vec<Option<usize>>,
}

/// What functions of a module hold, whatever they are called.
pub(super) type Contents = HashMap<Name, u64>;

/// Matches the operators of two functions.
pub(super) fn match_graphs(
    (a, a_funcs): (&Graph<'_>, &Contents),
    (b, b_funcs): (&Graph<'_>, &Contents),
    leaves: &Leaves,
) -> Matching {
    let a_leaf = |at: usize| match leaves.to_b.get(at) {
        Some(Some(_)) => mix(&[1, at as u64]),
        _ => mix(&[2, at as u64]),
    };
    let b_leaf = |at: usize| match leaves.to_a.get(at) {
        Some(Some(of)) => mix(&[1, *of as u64]),
        _ => mix(&[3, at as u64]),
    };
    let mut matcher = Matcher {
        left: Hashes::new(a, a_funcs, &a_leaf),
        right: Hashes::new(b, b_funcs, &b_leaf),
        a,
        b,
        leaves,
        found: Matching {
            to_b: vec![None; a.nodes.len()],
            to_a: vec![None; b.nodes.len()],
        },
        takes_any: false,
    };
    matcher.run();
    let mut found = matcher.found;
    settle(a, b, leaves, &mut found);
    found
}

/// What a function computes, where its parameters are told apart by their places only.
pub(super) fn content(graph: &Graph<'_>, funcs: &Contents) -> u64 {
    let hashes = Hashes::new(graph, funcs, &|at| at as u64);
    let sinks = graph.nodes.iter().enumerate().filter(|(at, node)| {
        node.op == "return" || graph.users.get(*at).is_none_or(|users| users.is_empty())
    });
    let mut all: Vec<u64> = sinks.map(|(at, _)| hashes.down[at]).collect();
    all.sort_unstable();
    mix(&all)
}

/// Nodes of both sides that may be matched with one another.
type Candidates = (Vec<usize>, Vec<usize>);

/// How much alike two nodes must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// What they compute and how it is used.
    Twin,
    /// Operator, attributes and names.
    Named,
    /// Operator and attributes.
    Exact,
    /// The operator.
    Kind,
}

/// A node, and how it takes or is taken: hashes of the argument and of the member.
type Neighbour = (usize, (u64, u64));

/// What a node computes and how it is used.
fn twin(side: &Hashes, at: usize) -> Option<u64> {
    Some(mix(&[side.down[at], side.up[at]]))
}

struct Matcher<'g, 'm> {
    left: Hashes,
    right: Hashes,
    a: &'g Graph<'m>,
    b: &'g Graph<'m>,
    leaves: &'g Leaves,
    found: Matching,
    /// Whether neighbours that nothing tells apart are matched in order.
    takes_any: bool,
}

impl Matcher<'_, '_> {
    fn run(&mut self) {
        let named = |key: u64, side: &Hashes, at: usize| Some(mix(&[key, side.names[at]]));
        self.by_unique_key(|side, at| named(mix(&[side.down[at], side.up[at]]), side, at));
        self.by_unique_key(twin);
        self.by_seeds(twin, Likeness::Twin);
        self.by_unique_key(|side, at| named(side.down[at], side, at));
        self.by_unique_key(|side, at| named(side.up[at], side, at));
        self.by_unique_key(|side, at| Some(side.down[at]));
        self.by_unique_key(|side, at| Some(side.up[at]));
        self.match_results();
        self.propagate(Likeness::Named);
        self.by_unique_key(|side, at| side.local[at]);
        self.propagate(Likeness::Exact);
        self.by_unique_key(|side, at| side.weights[at]);
        self.propagate(Likeness::Kind);
        self.by_unique_key(|side, at| named(side.op[at], side, at));
        self.propagate(Likeness::Kind);
        // What is left has several partners that structure does not tell apart; one choice settles its neighbours.
        self.by_seeds(|side, at| Some(side.down[at]), Likeness::Exact);
        self.by_seeds(|side, at| Some(side.up[at]), Likeness::Exact);
        self.by_seeds(|side, at| side.local[at], Likeness::Exact);
        self.takes_any = true;
        self.propagate(Likeness::Kind);
        self.match_replaced();
    }

    fn add(&mut self, a: usize, b: usize) {
        self.found.to_b[a] = Some(b);
        self.found.to_a[b] = Some(a);
    }

    fn is_free(&self, a: usize, b: usize) -> bool {
        self.found.to_b[a].is_none() && self.found.to_a[b].is_none()
    }

    /// The free nodes of both sides by a key, in order.
    fn groups(&self, key: impl Fn(&Hashes, usize) -> Option<u64>) -> Vec<Candidates> {
        let free = |list: &[Option<usize>]| -> Vec<usize> {
            (0..list.len()).filter(|&at| list[at].is_none()).collect()
        };
        self.grouped(&free(&self.found.to_b), &free(&self.found.to_a), key)
    }

    /// Nodes of both sides by a key, in the order of the first side.
    fn grouped(
        &self,
        a: &[usize],
        b: &[usize],
        key: impl Fn(&Hashes, usize) -> Option<u64>,
    ) -> Vec<Candidates> {
        let mut place: HashMap<u64, usize> = HashMap::new();
        let mut groups: Vec<Candidates> = Vec::new();
        for &node in a {
            if let Some(key) = key(&self.left, node) {
                let group = *place.entry(key).or_insert_with(|| {
                    groups.push(Default::default());
                    groups.len() - 1
                });
                groups[group].0.push(node);
            }
        }
        for &node in b {
            if let Some(group) = key(&self.right, node).and_then(|key| place.get(&key)) {
                groups[*group].1.push(node);
            }
        }
        groups.retain(|(_, b)| !b.is_empty());
        groups
    }

    /// Matches nodes that are the only ones of a key.
    fn by_unique_key(&mut self, key: impl Fn(&Hashes, usize) -> Option<u64>) {
        for (a, b) in self.groups(key) {
            if let ([a], [b]) = (a.as_slice(), b.as_slice()) {
                self.add(*a, *b);
            }
        }
    }

    /// Matches nodes of which several have a key: those of one name first, the others in order, and after each what
    /// stands around it.
    fn by_seeds(&mut self, key: impl Fn(&Hashes, usize) -> Option<u64>, likeness: Likeness) {
        for (a, b) in self.groups(key) {
            for (a, b) in self.grouped(&a, &b, |side, at| Some(side.names[at])) {
                self.seed(&a, &b, likeness);
            }
            self.seed(&a, &b, likeness);
        }
    }

    fn seed(&mut self, a: &[usize], b: &[usize], likeness: Likeness) {
        let mut partners = b.iter().copied().peekable();
        for &node in a {
            if self.found.to_b[node].is_some() {
                continue;
            }
            while partners
                .next_if(|&partner| self.found.to_a[partner].is_some())
                .is_some()
            {}
            let Some(partner) = partners.next() else {
                return;
            };
            self.add(node, partner);
            self.follow(VecDeque::from([(node, partner)]), likeness);
        }
    }

    /// What the functions return are the same statement, whatever it takes.
    fn match_results(&mut self) {
        let find = |graph: &Graph<'_>| {
            let is_it = |node: &super::graph::Node<'_>| node.op == "return" && node.region == 0;
            graph.nodes.iter().position(is_it)
        };
        if let (Some(a), Some(b)) = (find(self.a), find(self.b))
            && self.is_free(a, b)
        {
            self.add(a, b);
        }
    }

    /// Goes from all that is matched, parameters first, to what it takes and who takes it.
    fn propagate(&mut self, likeness: Likeness) {
        let (a, b, leaves) = (self.a, self.b, self.leaves);
        let mut queue = VecDeque::new();
        for (of, to) in leaves.to_b.iter().enumerate() {
            if let Some(to) = to
                && let (Some(a), Some(b)) = (a.param_users.get(of), b.param_users.get(*to))
            {
                self.match_users(a, b, likeness, &mut queue);
            }
        }
        let matched = self.found.to_b.iter().enumerate();
        queue.extend(matched.filter_map(|(a, b)| b.map(|b| (a, b))));
        self.follow(queue, likeness);
    }

    fn follow(&mut self, mut queue: VecDeque<(usize, usize)>, likeness: Likeness) {
        let (a, b) = (self.a, self.b);
        while let Some((x, y)) = queue.pop_front() {
            self.match_operands(x, y, likeness, &mut queue);
            self.match_users(&a.users[x], &b.users[y], likeness, &mut queue);
        }
    }

    fn match_operands(
        &mut self,
        x: usize,
        y: usize,
        likeness: Likeness,
        queue: &mut VecDeque<(usize, usize)>,
    ) {
        let (a, b) = (self.a, self.b);
        let free = |graph: &Graph<'_>, at: usize, matched: &[Option<usize>]| {
            let operands = graph.nodes[at].operands.iter().enumerate();
            let of = operands.filter_map(|(operand, taken)| match taken.value {
                Value::Node(of, _) if matched[of].is_none() => {
                    Some((of, use_of(graph, at, operand)))
                }
                _ => None,
            });
            of.collect::<Vec<_>>()
        };
        let from = free(a, x, &self.found.to_b);
        if !from.is_empty() {
            let to = free(b, y, &self.found.to_a);
            self.match_alike(from, to, likeness, queue);
        }
    }

    fn match_users(
        &mut self,
        a: &[(usize, usize)],
        b: &[(usize, usize)],
        likeness: Likeness,
        queue: &mut VecDeque<(usize, usize)>,
    ) {
        let free = |graph: &Graph<'_>, users: &[(usize, usize)], matched: &[Option<usize>]| {
            let free = users.iter().filter(|(user, _)| matched[*user].is_none());
            free.map(|&(user, operand)| (user, use_of(graph, user, operand)))
                .collect::<Vec<_>>()
        };
        let from = free(self.a, a, &self.found.to_b);
        if !from.is_empty() {
            let to = free(self.b, b, &self.found.to_a);
            self.match_alike(from, to, likeness, queue);
        }
    }

    /// Matches neighbours that are taken alike and are alike: where there are several, those that compute the same, are
    /// used alike, or have one name; what is then left waits until the end.
    fn match_alike(
        &mut self,
        from: Vec<Neighbour>,
        to: Vec<Neighbour>,
        likeness: Likeness,
        queue: &mut VecDeque<(usize, usize)>,
    ) {
        let mut groups: BTreeMap<(u64, u64, u64), Candidates> = BTreeMap::new();
        for (node, (key, out)) in from {
            let kind = self.kind(&self.left, node, likeness);
            groups.entry((key, out, kind)).or_default().0.push(node);
        }
        for (node, (key, out)) in to {
            let kind = self.kind(&self.right, node, likeness);
            if let Some(group) = groups.get_mut(&(key, out, kind)) {
                group.1.push(node);
            }
        }
        for (mut a, mut b) in groups.into_values() {
            // Both operands may be one value.
            a.dedup();
            b.dedup();
            if b.is_empty() {
                continue;
            }
            let finer: [fn(&Hashes, usize) -> Option<u64>; 5] = [
                |_, _| Some(0),
                twin,
                |side, at| Some(side.down[at]),
                |side, at| Some(side.up[at]),
                |side, at| Some(side.names[at]),
            ];
            for key in finer {
                for (a, b) in self.grouped(&a, &b, key) {
                    if let ([a], [b]) = (a.as_slice(), b.as_slice()) {
                        self.add_alike(*a, *b, likeness, queue);
                    }
                }
                a.retain(|&node| self.found.to_b[node].is_none());
                b.retain(|&node| self.found.to_a[node].is_none());
                if a.is_empty() || b.is_empty() {
                    break;
                }
            }
            if self.takes_any {
                for (&a, &b) in a.iter().zip(&b) {
                    self.add_alike(a, b, likeness, queue);
                }
            }
        }
    }

    fn add_alike(
        &mut self,
        a: usize,
        b: usize,
        likeness: Likeness,
        queue: &mut VecDeque<(usize, usize)>,
    ) {
        if self.is_free(a, b) && (likeness != Likeness::Named || self.weights_agree(a, b)) {
            self.add(a, b);
            queue.push_back((a, b));
        }
    }

    fn kind(&self, side: &Hashes, at: usize, likeness: Likeness) -> u64 {
        match likeness {
            Likeness::Twin => mix(&[side.down[at], side.up[at]]),
            Likeness::Named => mix(&[side.base[at], side.names[at]]),
            Likeness::Exact => side.base[at],
            Likeness::Kind => side.op[at],
        }
    }

    /// Whether nodes of one name take the same parameters, or the two nodes of two names have swapped theirs. Where an
    /// operator is put in and those behind it are numbered anew, weights know better than names.
    fn weights_agree(&self, a: usize, b: usize) -> bool {
        let (left, right) = (self.left.local[a], self.right.local[b]);
        if left == right {
            return true;
        }
        let params = |graph: &Graph<'_>, at: usize| -> Vec<usize> {
            let operands = graph.nodes[at].operands.iter();
            operands
                .filter_map(|operand| match operand.value {
                    Value::Param(of, _) => Some(of),
                    Value::Node(..) | Value::Const(_) | Value::Literal(_) => None,
                })
                .collect()
        };
        let (of_a, of_b) = (params(self.a, a), params(self.b, b));
        if of_a.len() != of_b.len() {
            return false;
        }
        of_a.iter().zip(&of_b).all(|(&of_a, &of_b)| {
            let Some(in_a) = self.leaves.to_a.get(of_b).copied().flatten() else {
                return false;
            };
            let Some(in_b) = self.leaves.to_b.get(of_a).copied().flatten() else {
                return false;
            };
            let names = |side: &Hashes, users: &[(usize, usize)]| -> Vec<u64> {
                let mut names: Vec<u64> = users.iter().map(|(user, _)| side.names[*user]).collect();
                names.sort_unstable();
                names
            };
            // The other parameter's user in `a` is, by its name, this parameter's user in `b`.
            in_a == of_a
                || names(&self.left, &self.a.param_users[in_a])
                    == names(&self.right, &self.b.param_users[in_b])
        })
    }

    /// One operator in the place of another: the same user takes it as the same argument, and it takes the same value
    /// first.
    fn match_replaced(&mut self) {
        let (a, b) = (self.a, self.b);
        for y in 0..b.nodes.len() {
            if self.found.to_a[y].is_some() {
                continue;
            }
            let candidate = b.users[y].iter().find_map(|&(user, operand)| {
                let partner = self.found.to_a[user]?;
                let taken = b.nodes[user].operands.get(operand)?;
                let other = a.nodes[partner]
                    .operands
                    .iter()
                    .find(|other| other.key == taken.key)?;
                match (&other.value, &taken.value) {
                    (Value::Node(x, out), Value::Node(_, same)) if out == same => Some(*x),
                    _ => None,
                }
            });
            let Some(x) = candidate.filter(|&x| self.found.to_b[x].is_none()) else {
                continue;
            };
            let first = |graph: &Graph<'_>, at: usize| {
                graph.nodes[at]
                    .operands
                    .first()
                    .map(|operand| operand.value.clone())
            };
            let is_same = match (first(a, x), first(b, y)) {
                (Some(of_a), Some(of_b)) => self.is_same(&of_a, &of_b),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if is_same {
                self.add(x, y);
            }
        }
    }

    fn is_same(&self, a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Node(x, out), Value::Node(y, other)) => {
                out == other && self.found.to_b[*x] == Some(*y)
            }
            (Value::Param(x, out), Value::Param(y, other)) => {
                out == other && self.leaves.to_b.get(*x).copied().flatten() == Some(*y)
            }
            _ => false,
        }
    }
}

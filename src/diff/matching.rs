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

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use irc_syntax::Name;

use super::graph::{Attr, Const, Graph, Value};

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
    };
    matcher.run();
    matcher.found
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

fn mix(parts: &[u64]) -> u64 {
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
struct Hashes {
    /// The operator alone.
    op: Vec<u64>,
    /// Operator, attributes, functions called, kind of block.
    base: Vec<u64>,
    /// `base` with the parameters taken; `None` where none is.
    local: Vec<Option<u64>>,
    /// The operator with the parameters taken.
    weights: Vec<Option<u64>>,
    names: Vec<u64>,
    down: Vec<u64>,
    up: Vec<u64>,
}

impl Hashes {
    fn new(graph: &Graph<'_>, funcs: &Contents, leaf: &dyn Fn(usize) -> u64) -> Self {
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
fn use_of(graph: &Graph<'_>, user: usize, operand: usize) -> (u64, u64) {
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

/// Nodes of both sides that may be matched with one another.
type Candidates = (Vec<usize>, Vec<usize>);

/// How much alike two nodes must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// Operator, attributes and names.
    Named,
    /// Operator and attributes.
    Exact,
    /// The operator.
    Kind,
}

struct Matcher<'g, 'm> {
    left: Hashes,
    right: Hashes,
    a: &'g Graph<'m>,
    b: &'g Graph<'m>,
    leaves: &'g Leaves,
    found: Matching,
}

impl Matcher<'_, '_> {
    fn run(&mut self) {
        self.by_key(|side, at| Some(mix(&[side.down[at], side.up[at], side.names[at]])));
        self.by_key(|side, at| Some(mix(&[side.down[at], side.up[at]])));
        self.by_key(|side, at| Some(mix(&[side.down[at], side.names[at]])));
        self.by_key(|side, at| Some(mix(&[side.up[at], side.names[at]])));
        self.by_key(|side, at| Some(side.down[at]));
        self.by_key(|side, at| Some(side.up[at]));
        self.match_results();
        self.propagate(Likeness::Named);
        self.by_unique_key(|side, at| side.local[at]);
        self.propagate(Likeness::Exact);
        self.by_unique_key(|side, at| side.weights[at]);
        self.propagate(Likeness::Kind);
        self.by_unique_key(|side, at| Some(mix(&[side.op[at], side.names[at]])));
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
        let mut at: HashMap<u64, usize> = HashMap::new();
        let mut groups: Vec<Candidates> = Vec::new();
        for (node, _) in self
            .found
            .to_b
            .iter()
            .enumerate()
            .filter(|(_, to)| to.is_none())
        {
            if let Some(key) = key(&self.left, node) {
                let group = *at.entry(key).or_insert_with(|| {
                    groups.push(Default::default());
                    groups.len() - 1
                });
                groups[group].0.push(node);
            }
        }
        for (node, _) in self
            .found
            .to_a
            .iter()
            .enumerate()
            .filter(|(_, to)| to.is_none())
        {
            if let Some(group) = key(&self.right, node).and_then(|key| at.get(&key)) {
                groups[*group].1.push(node);
            }
        }
        groups.retain(|(_, b)| !b.is_empty());
        groups
    }

    /// Matches nodes of the same key: those of the same names first, the others in order.
    fn by_key(&mut self, key: impl Fn(&Hashes, usize) -> Option<u64>) {
        for (a, b) in self.groups(key) {
            self.match_group(&a, &b);
        }
    }

    /// Matches nodes where both sides have as many of the key.
    fn by_unique_key(&mut self, key: impl Fn(&Hashes, usize) -> Option<u64>) {
        for (a, b) in self.groups(key) {
            if a.len() == b.len() {
                self.match_group(&a, &b);
            }
        }
    }

    fn match_group(&mut self, a: &[usize], b: &[usize]) {
        if let ([a], [b]) = (a, b) {
            return self.add(*a, *b);
        }
        let mut by_name: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for &node in b.iter().rev() {
            by_name
                .entry(self.right.names[node])
                .or_default()
                .push(node);
        }
        let mut rest = Vec::new();
        for &node in a {
            match by_name.get_mut(&self.left.names[node]).and_then(Vec::pop) {
                Some(partner) => self.add(node, partner),
                None => rest.push(node),
            }
        }
        let others: Vec<usize> = b
            .iter()
            .copied()
            .filter(|&node| self.found.to_a[node].is_none())
            .collect();
        for (node, partner) in rest.into_iter().zip(others) {
            self.add(node, partner);
        }
    }

    /// What the functions return are the same statement, whatever it takes.
    fn match_results(&mut self) {
        let find = |graph: &Graph<'_>| {
            graph
                .nodes
                .iter()
                .position(|node| node.op == "return" && node.region == 0)
        };
        if let (Some(a), Some(b)) = (find(self.a), find(self.b))
            && self.is_free(a, b)
        {
            self.add(a, b);
        }
    }

    /// Goes from matched nodes and parameters to what they take and who takes them.
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
        while let Some((x, y)) = queue.pop_front() {
            let (from, to) = (&a.nodes[x].operands, &b.nodes[y].operands);
            let keys: HashMap<&str, usize> = if from.len() > 2 || to.len() > 2 {
                to.iter()
                    .enumerate()
                    .map(|(at, operand)| (operand.key.as_str(), at))
                    .collect()
            } else {
                HashMap::new()
            };
            for (at, operand) in from.iter().enumerate() {
                let same = match to.get(at) {
                    Some(other) if other.key == operand.key => Some(other),
                    _ => keys.get(operand.key.as_str()).and_then(|at| to.get(*at)),
                };
                if let (Value::Node(x, out), Some(Value::Node(y, other))) =
                    (&operand.value, same.map(|same| &same.value))
                    && out == other
                    && self.is_free(*x, *y)
                    && self.are_alike(*x, *y, likeness)
                {
                    self.add(*x, *y);
                    queue.push_back((*x, *y));
                }
            }
            self.match_users(&a.users[x], &b.users[y], likeness, &mut queue);
        }
    }

    fn match_users(
        &mut self,
        a: &[(usize, usize)],
        b: &[(usize, usize)],
        likeness: Likeness,
        queue: &mut VecDeque<(usize, usize)>,
    ) {
        let mut groups: BTreeMap<(u64, u64, u64), Candidates> = BTreeMap::new();
        for &(user, operand) in a {
            if self.found.to_b[user].is_none() {
                let (key, out) = use_of(self.a, user, operand);
                let kind = self.kind(&self.left, user, likeness);
                groups.entry((key, out, kind)).or_default().0.push(user);
            }
        }
        if groups.is_empty() {
            return;
        }
        for &(user, operand) in b {
            if self.found.to_a[user].is_none() {
                let (key, out) = use_of(self.b, user, operand);
                let kind = self.kind(&self.right, user, likeness);
                if let Some(group) = groups.get_mut(&(key, out, kind)) {
                    group.1.push(user);
                }
            }
        }
        for (a, b) in groups.into_values() {
            if b.is_empty() || (a.len() != b.len() && likeness != Likeness::Named) {
                continue;
            }
            for (&a, &b) in a.iter().zip(&b) {
                if self.is_free(a, b) && self.are_alike(a, b, likeness) {
                    self.add(a, b);
                    queue.push_back((a, b));
                }
            }
        }
    }

    fn kind(&self, side: &Hashes, at: usize, likeness: Likeness) -> u64 {
        match likeness {
            Likeness::Named => mix(&[side.base[at], side.names[at]]),
            Likeness::Exact => side.base[at],
            Likeness::Kind => side.op[at],
        }
    }

    fn are_alike(&self, a: usize, b: usize, likeness: Likeness) -> bool {
        self.kind(&self.left, a, likeness) == self.kind(&self.right, b, likeness)
            && (likeness != Likeness::Named || self.weights_agree(a, b))
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

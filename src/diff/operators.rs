//! What differs between matched functions: operators added, removed, changed attribute by attribute, rewired; constants
//! by value; and what only follows from it.

use std::collections::{BTreeMap, HashMap, HashSet};

use irc_syntax::{Name, print_expr};

use super::Options;
use super::graph::{Attr, Graph, Node, Value, WHOLE, flat};
use super::interface::{as_dims, shape_text, type_text};
use super::matching::{Leaves, Matching};
use super::report::{Aspect, Change, Detail, FuncReport, Kind};
use super::weights;
use crate::check::{FuncInfo, Type, substitute};
use crate::tensor::{Tensor, Weight, print_const};

/// Readers that all take one value for another are one line from this number on.
const GROUPED_READERS: usize = 4;

/// The most characters of a call that is shown.
const CALL_WIDTH: usize = 100;

/// Constants up to this many elements are shown by value.
const SHOWN_ELEMENTS: usize = 8;

/// One matched pair of functions.
pub(super) struct Pair<'g, 'm> {
    pub(super) a: &'g Graph<'m>,
    pub(super) b: &'g Graph<'m>,
    pub(super) leaves: &'g Leaves,
    pub(super) matching: &'g Matching,
    /// Types of both sides, and what symbols of the second are called in the first.
    pub(super) types: Option<(&'g FuncInfo, &'g FuncInfo, &'g super::graph::Renames)>,
}

/// What the walk over a pair of functions found besides its report.
#[derive(Default)]
pub(super) struct Found {
    /// Values with another name.
    pub(super) n_renamed: usize,
    /// Functions that matched operators call, in order.
    pub(super) callees: Vec<(Name, Name)>,
}

/// Compares a pair of functions. `partner` gives the function of `b` that one of `a` is already paired with, and the
/// other way round.
pub(super) fn compare(
    pair: &Pair<'_, '_>,
    options: &Options,
    is_partner: &mut dyn FnMut(&Name, &Name) -> bool,
) -> (FuncReport, Found) {
    let mut walk = Walk {
        pair,
        options,
        found: Found::default(),
        constants: BTreeMap::new(),
        n_shapes: 0,
        a_names: names(pair.a),
    };
    let mut changes: Vec<Change> = Vec::new();
    let mut next_a = 0;
    for (at, partner) in pair.matching.to_a.iter().enumerate() {
        let Some(partner) = *partner else {
            changes.push(walk.present(Kind::Added, pair.b, at));
            continue;
        };
        // What is gone is told where it stood.
        while next_a <= partner {
            if pair.matching.to_b[next_a].is_none() {
                changes.push(walk.present(Kind::Removed, pair.a, next_a));
            }
            next_a += 1;
        }
        changes.extend(walk.matched(partner, at, is_partner));
    }
    for at in next_a..pair.a.nodes.len() {
        if pair.matching.to_b[at].is_none() {
            changes.push(walk.present(Kind::Removed, pair.a, at));
        }
    }
    let mut changes = group_readers(changes);
    changes.extend(walk.constant_changes());
    if pair.a.places != pair.b.places && changes.is_empty() {
        let mut change = Change::new(Kind::Changed, "memory plan", "");
        let (from, to) = (
            pair.a.places.len().to_string(),
            pair.b.places.len().to_string(),
        );
        change.details.push(Detail::fact("placements", from, to));
        changes.push(change);
    }
    let report = FuncReport {
        name: String::new(),
        follows: if changes.is_empty() {
            Vec::new()
        } else {
            walk.follows()
        },
        changes,
    };
    (report, walk.found)
}

/// Every name that a function gives a value.
fn names(graph: &Graph<'_>) -> HashSet<Name> {
    let bound = graph.nodes.iter().flat_map(|node| &node.names);
    bound.chain(&graph.params).cloned().collect()
}

struct Walk<'w, 'g, 'm> {
    pair: &'w Pair<'g, 'm>,
    options: &'w Options,
    found: Found,
    /// Constants that differ, by both of them in the order of `b`, with their readers.
    constants: BTreeMap<(usize, usize), Vec<usize>>,
    /// Operators that say a shape which only follows from those of their operands.
    n_shapes: usize,
    a_names: HashSet<Name>,
}

impl Walk<'_, '_, '_> {
    /// An operator that only one side has.
    fn present(&self, kind: Kind, graph: &Graph<'_>, at: usize) -> Change {
        let node = &graph.nodes[at];
        let mut change = Change::new(kind, node.op.as_str(), label(graph, at));
        change.note = match node.written {
            Some(expr) => short(&flat(&print_expr(expr))),
            None => String::new(),
        };
        change
    }

    fn matched(
        &mut self,
        x: usize,
        y: usize,
        is_partner: &mut dyn FnMut(&Name, &Name) -> bool,
    ) -> Option<Change> {
        let (a, b) = (&self.pair.a.nodes[x], &self.pair.b.nodes[y]);
        let named = a.names.iter().zip(&b.names).filter(|(a, b)| a != b).count();
        self.found.n_renamed += named;
        let mut change = Change::new(Kind::Changed, a.op.as_str(), "");
        if a.op != b.op {
            let (from, to) = (Some(a.op.clone()), Some(b.op.clone()));
            change
                .details
                .push(Detail::new(Aspect::Operator, "operator", from, to));
        }
        let block = |graph: &Graph<'_>, node: &Node<'_>| graph.regions[node.region].label.clone();
        let (from, to) = (block(self.pair.a, a), block(self.pair.b, b));
        if from != to {
            let text = |label: String| {
                if label.is_empty() {
                    "function".to_owned()
                } else {
                    label
                }
            };
            let detail = Detail::new(Aspect::Fact, "block", Some(text(from)), Some(text(to)));
            change.details.push(detail);
        }
        self.attributes(a, b, is_partner, &mut change.details);
        self.operands(x, y, &mut change.details);
        if change.details.is_empty() {
            return None;
        }
        if self.follows_operands(a, b, &change.details) {
            self.n_shapes += 1;
            return None;
        }
        change.name = label(self.pair.a, x);
        let new = label(self.pair.b, y);
        if new != change.name && !self.options.ignore_names && !a.names.is_empty() {
            change.renamed = Some(new);
        }
        Some(change)
    }

    /// Whether only shapes are written otherwise, and a value taken has another shape too.
    fn follows_operands(&self, a: &Node<'_>, b: &Node<'_>, details: &[Detail]) -> bool {
        let is_shape = |text: &Option<String>| {
            text.as_ref()
                .is_some_and(|text| text.starts_with("R.shape("))
        };
        let is_written = |detail: &Detail| {
            detail.aspect == Aspect::Attribute && is_shape(&detail.from) && is_shape(&detail.to)
        };
        details.iter().all(is_written)
            && a.operands
                .iter()
                .zip(&b.operands)
                .any(|pair| match (&pair.0.value, &pair.1.value) {
                    (Value::Node(x, _), Value::Node(y, _)) => {
                        let old = &self.pair.a.nodes[*x].names;
                        let new = &self.pair.b.nodes[*y].names;
                        old.iter()
                            .zip(new)
                            .any(|(old, new)| self.retyped(old, new).is_some())
                    }
                    _ => false,
                })
    }

    /// The types of a value in both programs, where they differ.
    fn retyped(&self, old: &Name, new: &Name) -> Option<(Type, Type)> {
        let (a, b, renames) = self.pair.types?;
        let (from, to) = (a.vars.get(old)?, b.vars.get(new)?);
        let (from, mut to) = (without_value(from), without_value(to));
        if !renames.is_empty() {
            to = substitute(&to, &as_dims(renames));
        }
        (from != to).then_some((from, to))
    }

    fn attributes(
        &mut self,
        a: &Node<'_>,
        b: &Node<'_>,
        is_partner: &mut dyn FnMut(&Name, &Name) -> bool,
        details: &mut Vec<Detail>,
    ) {
        let get = |node: &Node<'_>, key: &str| {
            node.attrs
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, attr)| attr.clone())
        };
        let new = b.attrs.iter().filter(|(key, _)| get(a, key).is_none());
        let keys: Vec<String> = a
            .attrs
            .iter()
            .chain(new)
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            let (from, to) = (get(a, &key), get(b, &key));
            if let (Some(Attr::Func(f)), Some(Attr::Func(g))) = (&from, &to) {
                if is_partner(f, g) {
                    self.found.callees.push((f.clone(), g.clone()));
                    continue;
                }
            } else if from == to {
                continue;
            }
            // Another operator has other attributes.
            if self.options.ignore_attrs || (a.op != b.op && (from.is_none() || to.is_none())) {
                continue;
            }
            let text = |attr: Option<Attr>| {
                attr.map(|attr| match attr {
                    Attr::Text(text) => short(&text),
                    Attr::Func(name) => format!("`{name}`"),
                })
            };
            details.push(Detail::new(Aspect::Attribute, &key, text(from), text(to)));
        }
    }

    fn operands(&mut self, x: usize, y: usize, details: &mut Vec<Detail>) {
        let (a, b) = (&self.pair.a.nodes[x], &self.pair.b.nodes[y]);
        let (from, to) = (&a.operands, &b.operands);
        if a.commutes && b.commutes && from.len() == 2 && to.len() == 2 {
            let same = |x: usize, y: usize| self.is_same(&from[x].value, &to[y].value);
            let is_straight = same(0, 0) && same(1, 1);
            if !is_straight && same(0, 1) && same(1, 0) {
                if !self.options.ignore_order {
                    let text = |graph: &Graph<'_>, node: &Node<'_>, is_new: bool| {
                        let values = node.operands.iter().map(|operand| {
                            if is_new {
                                self.to_text(&operand.value)
                            } else {
                                value_text(graph, &operand.value)
                            }
                        });
                        format!("({})", values.collect::<Vec<_>>().join(", "))
                    };
                    let (from, to) = (text(self.pair.a, a, false), text(self.pair.b, b, true));
                    details.push(Detail::new(Aspect::Order, "operands", Some(from), Some(to)));
                }
                return;
            }
            if !is_straight && !same(0, 0) && !same(1, 1) && (same(0, 1) || same(1, 0)) {
                let (old, new) = if same(0, 1) { (1, 0) } else { (0, 1) };
                let values = (Some(&from[old].value), Some(&to[new].value));
                self.rewired(&from[old].key, values, x, details);
                return;
            }
        }
        // Another operator calls its arguments otherwise.
        let is_one_run = a.op != b.op || a.op == "return";
        let (old, new) = (runs(a, is_one_run), runs(b, is_one_run));
        let added = new.keys().filter(|key| !old.contains_key(*key));
        let mut keys: Vec<&String> = old.keys().chain(added).collect();
        keys.sort_by_key(|key| old.get(*key).or(new.get(*key)).map(|run| run.0));
        let empty = (0, Vec::new());
        for key in keys {
            let (_, from) = old.get(key).unwrap_or(&empty);
            let (_, to) = new.get(key).unwrap_or(&empty);
            self.run(key, (from, to), x, details);
        }
    }

    /// The values of one argument, laid side by side.
    fn run(
        &mut self,
        key: &str,
        (from, to): (&[&Value], &[&Value]),
        reader: usize,
        details: &mut Vec<Detail>,
    ) {
        let n_head = from
            .iter()
            .zip(to)
            .take_while(|(x, y)| self.is_same(x, y))
            .count();
        let (from, to) = (&from[n_head..], &to[n_head..]);
        let backwards = from.iter().rev().zip(to.iter().rev());
        let n_tail = if from.len() == to.len() {
            0
        } else {
            backwards.take_while(|(x, y)| self.is_same(x, y)).count()
        };
        let (from, to) = (&from[..from.len() - n_tail], &to[..to.len() - n_tail]);
        for at in 0..from.len().max(to.len()) {
            let (x, y) = (from.get(at).copied(), to.get(at).copied());
            if let (Some(x), Some(y)) = (x, y)
                && self.is_same(x, y)
            {
                continue;
            }
            let shown = match self.pair.a.nodes[reader].op.as_str() {
                "return" => "result".to_owned(),
                "call" => format!("operand {key}"),
                _ if key.is_empty() => "operand".to_owned(),
                _ => key.to_owned(),
            };
            self.rewired(&shown, (x, y), reader, details);
        }
    }

    /// One value that node `reader` of `a` takes for another.
    fn rewired(
        &mut self,
        key: &str,
        (from, to): (Option<&Value>, Option<&Value>),
        reader: usize,
        details: &mut Vec<Detail>,
    ) {
        if let (Some(Value::Const(x)), Some(Value::Const(y))) = (from, to) {
            self.constants.entry((*x, *y)).or_default().push(reader);
            return;
        }
        let from = from.map(|value| value_text(self.pair.a, value));
        let to = to.map(|value| self.to_text(value));
        details.push(Detail::new(Aspect::Operand, key, from, to));
    }

    /// A value of `b`, by the name it has in `a` where it is there.
    fn to_text(&self, value: &Value) -> String {
        let text = value_text(self.pair.b, value);
        match self.in_a(value) {
            Some(old) => {
                let old = value_text(self.pair.a, &old);
                if old == text || self.options.ignore_names {
                    old
                } else {
                    format!("{old} (now {text})")
                }
            }
            None => {
                let bare = text.trim_matches('`');
                let is_taken = matches!(value, Value::Node(..) | Value::Param(..))
                    && self.a_names.contains(bare);
                if is_taken {
                    format!("{text} (new)")
                } else {
                    text
                }
            }
        }
    }

    fn in_a(&self, value: &Value) -> Option<Value> {
        match value {
            Value::Node(at, out) => Some(Value::Node(self.pair.matching.to_a[*at]?, *out)),
            Value::Param(at, out) => Some(Value::Param(
                self.pair.leaves.to_a.get(*at).copied().flatten()?,
                *out,
            )),
            Value::Const(_) | Value::Literal(_) => None,
        }
    }

    fn is_same(&self, a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Const(x), Value::Const(y)) => {
                let (x, y) = (
                    &self.pair.a.consts[*x].tensor,
                    &self.pair.b.consts[*y].tensor,
                );
                is_equal(x, y)
            }
            (Value::Node(..) | Value::Param(..), Value::Node(..) | Value::Param(..)) => {
                self.in_a(b).as_ref() == Some(a)
            }
            _ => a == b,
        }
    }

    /// Constants that differ, each pair of contents once.
    fn constant_changes(&mut self) -> Vec<Change> {
        if self.options.ignore_weights {
            return Vec::new();
        }
        // The same constant may be written in several places.
        let mut merged: Vec<(usize, usize, Vec<usize>)> = Vec::new();
        let mut first: HashMap<(u64, u64, Option<Name>), usize> = HashMap::new();
        for ((x, y), readers) in std::mem::take(&mut self.constants) {
            let (from, to) = (&self.pair.a.consts[x], &self.pair.b.consts[y]);
            let key = (
                tensor_hash(&from.tensor),
                tensor_hash(&to.tensor),
                from.name.clone(),
            );
            match first.get(&key).and_then(|at| merged.get_mut(*at)) {
                Some(group) => group.2.extend(readers),
                None => {
                    first.insert(key, merged.len());
                    merged.push((x, y, readers));
                }
            }
        }
        let changes = merged.into_iter().map(|(x, y, readers)| {
            let (from, to) = (&self.pair.a.consts[x], &self.pair.b.consts[y]);
            let name = from.name.as_ref().map(Name::to_string).unwrap_or_default();
            let mut change = Change::new(Kind::Changed, "constant", name);
            constant_details(&from.tensor, &to.tensor, &mut change);
            let more = match readers.len() {
                0 | 1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            let first = readers.first().map_or(String::new(), |&reader| {
                let op = &self.pair.a.nodes[reader].op;
                match label(self.pair.a, reader) {
                    name if name.is_empty() => op.clone(),
                    name => match name.strip_prefix("in ") {
                        Some(around) => format!("{op} in `{around}`"),
                        None => format!("{op} `{name}`"),
                    },
                }
            });
            change.note = format!("read by {first}{more}");
            change
        });
        changes.collect()
    }

    /// One line for all shapes that differ where nothing else does.
    fn follows(&self) -> Vec<String> {
        let mut first = None;
        let mut n_values = 0;
        for (y, x) in self.pair.matching.to_a.iter().enumerate() {
            let Some(x) = x else {
                continue;
            };
            let nodes = (&self.pair.a.nodes[*x], &self.pair.b.nodes[y]);
            for (old, new) in nodes.0.names.iter().zip(&nodes.1.names) {
                let Some((from, to)) = self.retyped(old, new) else {
                    continue;
                };
                n_values += 1;
                first.get_or_insert_with(|| {
                    let (x, y) = (shape_text(&from), shape_text(&to));
                    let (x, y) = if x == y {
                        (type_text(&from), type_text(&to))
                    } else {
                        (x, y)
                    };
                    format!("`{old}`: {x} → {y}")
                });
            }
        }
        let written = match self.n_shapes {
            0 => String::new(),
            1 => ", and 1 shape that an operator says".to_owned(),
            n => format!(", and {n} shapes that operators say"),
        };
        let sentence = |first: String| match n_values {
            1 => format!("the type of 1 value follows{written}: {first}"),
            n => format!("types of {n} values follow{written}, first {first}"),
        };
        first.map(sentence).into_iter().collect()
    }
}

/// A type without what is known of the contents.
fn without_value(ty: &Type) -> Type {
    let mut res = ty.clone();
    if let Type::Tensor(tensor) = &mut res {
        tensor.value = None;
    }
    res
}

/// The operands of each argument, or of all as one, in order, with the place of the first.
fn runs<'n>(node: &'n Node<'_>, is_one: bool) -> BTreeMap<String, (usize, Vec<&'n Value>)> {
    let mut runs: BTreeMap<String, (usize, Vec<&Value>)> = BTreeMap::new();
    for (at, operand) in node.operands.iter().enumerate() {
        let base = if is_one {
            ""
        } else {
            operand.key.split('[').next().unwrap_or_default()
        };
        let run = runs
            .entry(base.to_owned())
            .or_insert_with(|| (at, Vec::new()));
        run.1.push(&operand.value);
    }
    runs
}

fn is_equal(a: &Tensor, b: &Tensor) -> bool {
    a.dtype == b.dtype && a.shape == b.shape && a.data == b.data && a.strings == b.strings
}

fn tensor_hash(tensor: &Tensor) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (
        tensor.dtype.name(),
        &tensor.shape,
        &*tensor.data,
        &tensor.strings,
    )
        .hash(&mut hasher);
    hasher.finish()
}

fn constant_details(from: &Tensor, to: &Tensor, change: &mut Change) {
    let is_one_type = from.dtype == to.dtype && from.shape == to.shape;
    if from.len() <= SHOWN_ELEMENTS && to.len() <= SHOWN_ELEMENTS {
        change
            .details
            .push(Detail::fact("value", const_text(from), const_text(to)));
        if is_one_type {
            return;
        }
    }
    if from.dtype != to.dtype {
        change
            .details
            .push(Detail::fact("dtype", from.dtype.name(), to.dtype.name()));
    }
    if from.shape != to.shape {
        let text = |tensor: &Tensor| format!("{:?}", tensor.shape);
        change
            .details
            .push(Detail::fact("shape", text(from), text(to)));
    }
    if is_one_type {
        let (from, to) = (Weight::from(from.clone()), Weight::from(to.clone()));
        weights::distance(&from, &to).details(&mut change.details);
    }
}

fn const_text(tensor: &Tensor) -> String {
    let printed = print_const(tensor);
    let value = printed.positional().next();
    value
        .map(|value| flat(&print_expr(value)))
        .unwrap_or_default()
}

/// The name of a node for a reader: its own, or that of the first that takes it.
fn label(graph: &Graph<'_>, at: usize) -> String {
    let mut node = at;
    loop {
        let names = &graph.nodes[node].names;
        if !names.is_empty() {
            let all: Vec<&str> = names.iter().take(3).map(Name::as_str).collect();
            let more = if names.len() > 3 { ", …" } else { "" };
            let text = format!("{}{more}", all.join(", "));
            return if node == at {
                text
            } else {
                format!("in {text}")
            };
        }
        match graph.users[node].first() {
            Some((user, _)) => node = *user,
            None => {
                return if node == at {
                    String::new()
                } else {
                    "in return".to_owned()
                };
            }
        }
    }
}

/// A value for a reader.
fn value_text(graph: &Graph<'_>, value: &Value) -> String {
    match value {
        Value::Node(at, out) => {
            let node = &graph.nodes[*at];
            let place = usize::try_from(*out).unwrap_or(0);
            let block = match graph.regions[node.region].label.as_str() {
                "" => String::new(),
                label => format!(" of {label}"),
            };
            match node.names.get(place) {
                Some(name) if node.names.len() > 1 || *out == WHOLE => format!("`{name}`{block}"),
                _ if *out == WHOLE => format!("{} {}", node.op, label(graph, *at)),
                _ => format!("`{}`[{place}]", label(graph, *at)),
            }
        }
        Value::Param(at, WHOLE) => format!("`{}`", graph.params[*at]),
        Value::Param(at, out) => format!("`{}`[{out}]", graph.params[*at]),
        Value::Const(at) => {
            let found = &graph.consts[*at];
            match &found.name {
                Some(name) => format!("`{name}`"),
                None if found.tensor.len() <= SHOWN_ELEMENTS => const_text(&found.tensor),
                None => format!("a constant {} {:?}", found.tensor.dtype, found.tensor.shape),
            }
        }
        Value::Literal(text) => short(text),
    }
}

/// The first characters of a long text.
fn short(text: &str) -> String {
    if text.chars().count() <= CALL_WIDTH {
        return text.to_owned();
    }
    let head: String = text.chars().take(CALL_WIDTH).collect();
    format!("{head}…")
}

/// Many operators that only take one value for another, as one line.
fn group_readers(changes: Vec<Change>) -> Vec<Change> {
    let key = |change: &Change| match change.details.as_slice() {
        [only] if only.aspect == Aspect::Operand && change.kind == Kind::Changed => {
            Some((only.from.clone()?, only.to.clone()?))
        }
        _ => None,
    };
    let mut counts: HashMap<(String, String), usize> = HashMap::new();
    for key in changes.iter().filter_map(key) {
        *counts.entry(key).or_default() += 1;
    }
    let mut at: HashMap<(String, String), usize> = HashMap::new();
    let mut res: Vec<Change> = Vec::new();
    for change in changes {
        let Some(key) = key(&change).filter(|key| counts[key] >= GROUPED_READERS) else {
            res.push(change);
            continue;
        };
        match at.get(&key).and_then(|at| res.get_mut(*at)) {
            Some(group) => group.note.push_str(&format!(", `{}`", change.name)),
            None => {
                let mut group = Change::new(Kind::Changed, "operators", counts[&key].to_string());
                group.note = format!("`{}`", change.name);
                group.details = change.details;
                at.insert(key, res.len());
                res.push(group);
            }
        }
    }
    for group in res.iter_mut().filter(|change| change.what == "operators") {
        group.note = short(&group.note);
    }
    res
}

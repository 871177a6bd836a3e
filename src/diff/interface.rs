//! What callers see of functions: inputs, results, dims, and what a change of them means for calls.
//!
//! A call is positional (C, TVM-FFI) or names its inputs (`irc run --input`, the manifest, runtimes of ONNX), so both
//! the order and the names of inputs are interface. Weights come with the program and are none of it.
//!
//! | change | verdict |
//! |---|---|
//! | a public function, an input or a result added to or taken from a function, renamed, or moved | major (a new function: minor) |
//! | dtype or rank of an input or result | major |
//! | an extent of an input: a number instead of a symbol, another number, a narrower range | major |
//! | an extent of an input: a symbol instead of a number that it may be, a wider range | minor |
//! | an extent of a result, unless it follows from an input's that is minor | major |
//! | names of dims | none |

use std::collections::{BTreeMap, BTreeSet, HashMap};

use irc_syntax::{Expr, Func, FuncKind, Name, Stmt, StmtKind, print_expr};

use super::graph::{Renames, flat, n_inputs};
use super::matching::Leaves;
use super::report::{Change, Detail, Kind, Verdict};
use super::weights::is_equal;
use crate::check::{Type, substitute, symbols_of, type_from_expr, type_to_expr};
use crate::shape::Dim;
use crate::tensor::Weights;

/// A function with what is known about it.
#[derive(Clone, Copy)]
pub(super) struct Side<'m> {
    pub(super) func: &'m Func,
    pub(super) weights: &'m Weights,
    /// The type of its result, where the text does not state it.
    pub(super) ret: Option<&'m Type>,
}

impl Side<'_> {
    /// How many leading parameters are inputs.
    pub(super) fn n_inputs(&self) -> usize {
        n_inputs(self.func)
    }

    fn name(&self, at: usize) -> &Name {
        &self.func.params[at].name
    }

    fn ty(&self, at: usize) -> Option<Type> {
        type_from_expr(self.func.params[at].ty.as_ref()?).ok()
    }

    fn text(&self, at: usize) -> String {
        let ty = self.func.params[at].ty.as_ref();
        ty.map(|ty| flat(&print_expr(ty))).unwrap_or_default()
    }

    fn result(&self) -> Option<Type> {
        let stated = self
            .func
            .ret
            .as_ref()
            .and_then(|ret| type_from_expr(ret).ok());
        stated.or_else(|| self.ret.cloned())
    }
}

/// Pairs parameters: inputs and weights each by name, then weights of equal content, then by type in order.
pub(super) fn pair_params(a: Side<'_>, b: Side<'_>) -> Leaves {
    let mut leaves = Leaves {
        to_a: vec![None; b.func.params.len()],
        to_b: vec![None; a.func.params.len()],
    };
    let pair = |leaves: &mut Leaves, x: usize, y: usize| {
        leaves.to_b[x] = Some(y);
        leaves.to_a[y] = Some(x);
    };
    let by_name: HashMap<&Name, usize> = (0..b.func.params.len())
        .map(|at| (b.name(at), at))
        .collect();
    for at in 0..a.func.params.len() {
        if let Some(&other) = by_name.get(a.name(at)) {
            pair(&mut leaves, at, other);
        }
    }
    let (a_inputs, b_inputs) = (a.n_inputs(), b.n_inputs());
    let free = |list: &[Option<usize>], range: std::ops::Range<usize>| -> Vec<usize> {
        range.filter(|&at| list[at].is_none()).collect()
    };
    // Weights of the same bytes under another name.
    let mut by_content: HashMap<String, Vec<usize>> = HashMap::new();
    let weights = free(&leaves.to_a, b_inputs..b.func.params.len());
    let others = free(&leaves.to_b, a_inputs..a.func.params.len());
    if !weights.is_empty() && !others.is_empty() {
        for at in weights.into_iter().rev() {
            if let Some(weight) = b.weights.get(b.name(at)) {
                by_content.entry(content_key(weight)).or_default().push(at);
            }
        }
        for at in others {
            let Some(weight) = a.weights.get(a.name(at)) else {
                continue;
            };
            let found = by_content.get_mut(&content_key(weight)).and_then(Vec::pop);
            if let Some(other) = found
                && b.weights
                    .get(b.name(other))
                    .is_some_and(|other| is_equal(weight, other))
            {
                pair(&mut leaves, at, other);
            }
        }
    }
    // What is left, by type: as many of it on both sides, or in the same place.
    for (in_a, in_b) in [
        (0..a_inputs, 0..b_inputs),
        (a_inputs..a.func.params.len(), b_inputs..b.func.params.len()),
    ] {
        let mut groups: BTreeMap<String, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for at in free(&leaves.to_b, in_a.clone()) {
            groups.entry(shape_class(a, at)).or_default().0.push(at);
        }
        for at in free(&leaves.to_a, in_b.clone()) {
            groups.entry(shape_class(b, at)).or_default().1.push(at);
        }
        for (x, y) in groups.into_values().filter(|(x, y)| x.len() == y.len()) {
            for (x, y) in x.into_iter().zip(y) {
                pair(&mut leaves, x, y);
            }
        }
    }
    leaves
}

fn content_key(weight: &crate::tensor::Weight) -> String {
    crate::tensor::sha256_bytes(weight.bytes())
}

/// What parameters of different names must share to be taken for one: dtype and number of dims, and sizes that are known.
fn shape_class(side: Side<'_>, at: usize) -> String {
    match side.ty(at) {
        Some(Type::Tensor(tensor)) => {
            let dims = tensor.shape.iter().flatten().map(|dim| match dim.as_int() {
                Some(value) => value.to_string(),
                None => "_".to_owned(),
            });
            let dims: Vec<String> = dims.collect();
            format!("{:?} {:?} {}", tensor.dtype, tensor.ndim, dims.join(","))
        }
        _ => side.text(at),
    }
}

/// What symbols of `b` are called in `a`: by where they stand in paired parameters, then by name, then in order.
pub(super) fn rename_symbols(a: Side<'_>, b: Side<'_>, leaves: &Leaves) -> Renames {
    let mut renames = Renames::new();
    let mut taken: BTreeSet<Name> = BTreeSet::new();
    for (at, other) in leaves.to_b.iter().enumerate() {
        let Some(other) = other else {
            continue;
        };
        let (Some(x), Some(y)) = (a.ty(at), b.ty(*other)) else {
            continue;
        };
        for (x, y) in dims_of(&x).into_iter().zip(dims_of(&y)) {
            if let (Some(x), Some(y)) = (x.as_sym(), y.as_sym())
                && !renames.contains_key(y)
                && taken.insert(x.clone())
            {
                renames.insert(y.clone(), x.clone());
            }
        }
    }
    let (of_a, of_b) = (symbols(a.func), symbols(b.func));
    let known: BTreeSet<&Name> = of_a.iter().collect();
    for name in &of_b {
        if !renames.contains_key(name) && known.contains(name) && taken.insert(name.clone()) {
            renames.insert(name.clone(), name.clone());
        }
    }
    let left_a: Vec<&Name> = of_a.iter().filter(|name| !taken.contains(*name)).collect();
    let left_b: Vec<&Name> = of_b
        .iter()
        .filter(|name| !renames.contains_key(*name))
        .collect();
    let is_paired = left_a.len() == left_b.len();
    let mut left_a = left_a.into_iter();
    let mut fresh = Vec::new();
    for name in left_b {
        match left_a.next().filter(|_| is_paired) {
            Some(other) => fresh.push((name.clone(), other.clone())),
            // Its own name means another symbol of `a`.
            None if known.contains(name) => {
                fresh.push((name.clone(), Name::from(format!("{name}′"))));
            }
            None => {}
        }
    }
    renames.extend(fresh);
    renames.retain(|from, to| from != to);
    renames
}

fn dims_of(ty: &Type) -> Vec<Dim> {
    match ty {
        Type::Tensor(tensor) => tensor.shape.clone().unwrap_or_default(),
        Type::Shape(dims) => dims.clone().unwrap_or_default(),
        Type::Tuple(members) => members.iter().flat_map(dims_of).collect(),
        Type::Seq(inner) | Type::Opt(inner) => dims_of(inner),
        Type::Scalar(_)
        | Type::Func(..)
        | Type::Str
        | Type::DTypeValue
        | Type::Any
        | Type::Void
        | Type::Error => Vec::new(),
    }
}

/// The symbols of a function in the order they come: those of its signature, then those its body declares.
pub(super) fn symbols(func: &Func) -> Vec<Name> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut add = |name: Name| {
        if seen.insert(name.clone()) {
            found.push(name);
        }
    };
    for ty in func.params.iter().filter_map(|param| param.ty.as_ref()) {
        if let Ok(ty) = type_from_expr(ty) {
            for dim in dims_of(&ty) {
                dim.symbols().into_iter().for_each(&mut add);
            }
        }
    }
    declared(&func.body, &mut |name, _| add(name.clone()));
    found
}

/// Calls `found` with every symbol that statements declare.
fn declared<'m>(body: &'m [Stmt], found: &mut dyn FnMut(&'m Name, &'m Expr)) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Assign { target, value, .. } => {
                let is_symbol = value.as_call().is_some_and(|(path, args)| {
                    path.starts_with("T.") && args.iter().all(|arg| arg.name.is_some())
                });
                if let (Some(name), true) = (target.as_name(), is_symbol) {
                    found(name, value);
                }
            }
            StmtKind::With { body, .. } => declared(body, found),
            StmtKind::If { then, orelse, .. } => {
                declared(then, found);
                declared(orelse, found);
            }
            StmtKind::Declare { .. }
            | StmtKind::Expr(_)
            | StmtKind::For { .. }
            | StmtKind::While { .. }
            | StmtKind::Return(_)
            | StmtKind::Assert { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Pass
            | StmtKind::Import(_)
            | StmtKind::Func(_)
            | StmtKind::Error => {}
        }
    }
}

/// Symbols as dims.
pub(super) fn as_dims(renames: &Renames) -> BTreeMap<Name, Dim> {
    let pairs = renames.iter();
    pairs
        .map(|(from, to)| (from.clone(), Dim::sym(to)))
        .collect()
}

/// How names of inputs and results count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Naming {
    /// Names of inputs are interface.
    pub(super) inputs: bool,
    /// What `return` names is interface, as it is of an ONNX file.
    pub(super) results: bool,
}

/// What callers of a public function notice.
pub(super) fn compare(
    a: Side<'_>,
    b: Side<'_>,
    leaves: &Leaves,
    renames: &Renames,
    naming: Naming,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let (a_inputs, b_inputs) = (a.n_inputs(), b.n_inputs());
    let map = as_dims(renames);
    // Numbers of `a` where `b` has a symbol: what the old calls give it.
    let mut widened: BTreeMap<Name, Dim> = BTreeMap::new();
    for at in 0..a_inputs {
        match leaves.to_b[at] {
            Some(other) if other < b_inputs => {
                let ty = b.ty(other).map(|ty| substitute(&ty, &map));
                let pair = (a.ty(at), ty);
                let mut change = Change::new(Kind::Changed, "input", a.name(at).as_str());
                change.verdict = Verdict::None;
                if a.name(at) != b.name(other) && naming.inputs {
                    change.kind = Kind::Renamed;
                    change.renamed = Some(b.name(other).to_string());
                    change.verdict = Verdict::Major;
                }
                input_details(&pair, (a, at), (b, other), &mut change, &mut widened);
                if change.verdict > Verdict::None {
                    changes.push(change);
                }
            }
            Some(other) => {
                let mut change = Change::new(Kind::Changed, "input", a.name(at).as_str());
                change.details.push(Detail::fact("kind", "input", "weight"));
                if a.name(at) != b.name(other) {
                    change.renamed = Some(b.name(other).to_string());
                }
                changes.push(change.weighs(Verdict::Major));
            }
            None => changes.push(present(Kind::Removed, "input", a, at)),
        }
    }
    for at in 0..b_inputs {
        match leaves.to_a[at] {
            None => changes.push(present(Kind::Added, "input", b, at)),
            Some(other) if other >= a_inputs => {
                let mut change = Change::new(Kind::Changed, "input", b.name(at).as_str());
                change.details.push(Detail::fact("kind", "weight", "input"));
                changes.push(change.weighs(Verdict::Major));
            }
            Some(_) => {}
        }
    }
    order(a, b, leaves, &mut changes);
    facts(a, b, renames, &mut changes);
    results(a, b, &map, &widened, naming, &mut changes);
    let func = a.func.name.as_str();
    for change in &mut changes {
        change.note = match change.note.as_str() {
            "" => format!("of `{func}`"),
            note => format!("{note}, of `{func}`"),
        };
    }
    changes
}

fn present(kind: Kind, what: &str, side: Side<'_>, at: usize) -> Change {
    let mut change = Change::new(kind, what, side.name(at).as_str());
    change.note = side.text(at);
    change.weighs(Verdict::Major)
}

fn input_details(
    pair: &(Option<Type>, Option<Type>),
    (a, x): (Side<'_>, usize),
    (b, y): (Side<'_>, usize),
    change: &mut Change,
    widened: &mut BTreeMap<Name, Dim>,
) {
    let (Some(from), Some(to)) = pair else {
        if a.text(x) != b.text(y) {
            change
                .details
                .push(Detail::fact("type", a.text(x), b.text(y)));
            change.verdict = Verdict::Major;
        }
        return;
    };
    let verdict = type_details(
        from,
        to,
        &mut change.details,
        &mut |from, to| match (from, to) {
            (Some(from), Some(to)) if from == to => Verdict::None,
            (Some(from), Some(to)) => match (from.as_int(), to.as_sym()) {
                (Some(_), Some(symbol)) => {
                    let is_new = widened.get(symbol).is_none_or(|known| known == from);
                    widened.insert(symbol.clone(), from.clone());
                    if is_new {
                        Verdict::Minor
                    } else {
                        Verdict::Major
                    }
                }
                _ => Verdict::Major,
            },
            (Some(_), None) => Verdict::Minor,
            (None, _) => Verdict::Major,
        },
    );
    change.verdict = change.verdict.max(verdict);
}

/// Writes down how types differ, and says what the worst of it means; `judge` weighs extents.
fn type_details(
    from: &Type,
    to: &Type,
    details: &mut Vec<Detail>,
    judge: &mut dyn FnMut(Option<&Dim>, Option<&Dim>) -> Verdict,
) -> Verdict {
    let (Type::Tensor(x), Type::Tensor(y)) = (from, to) else {
        let (from, to) = (type_text(from), type_text(to));
        if from == to {
            return Verdict::None;
        }
        details.push(Detail::fact("type", from, to));
        return Verdict::Major;
    };
    let mut verdict = Verdict::None;
    if x.dtype != y.dtype {
        let name = |ty: Option<irc_syntax::DType>| ty.map_or("any", irc_syntax::DType::name);
        details.push(Detail::fact("dtype", name(x.dtype), name(y.dtype)));
        verdict = Verdict::Major;
    }
    let shape = match (&x.shape, &y.shape) {
        (Some(x), Some(y)) if x.len() == y.len() => {
            let dims = x.iter().zip(y);
            dims.map(|(x, y)| judge(Some(x), Some(y)))
                .max()
                .unwrap_or_default()
        }
        (None, None) if x.ndim == y.ndim => Verdict::None,
        (Some(x), None) if y.ndim.is_none_or(|ndim| ndim == x.len()) => x
            .iter()
            .map(|dim| judge(Some(dim), None))
            .max()
            .unwrap_or(Verdict::Minor),
        _ => Verdict::Major,
    };
    if shape > Verdict::None {
        details.push(Detail::fact("shape", shape_text(from), shape_text(to)));
    }
    verdict.max(shape)
}

/// A type as annotations say it.
pub(super) fn type_text(ty: &Type) -> String {
    flat(&print_expr(&type_to_expr(ty)))
}

/// `(n, 4)`; the whole type of what is no tensor of known shape.
pub(super) fn shape_text(ty: &Type) -> String {
    match ty.as_tensor() {
        Some(tensor) => match (&tensor.shape, tensor.ndim) {
            (Some(dims), _) => {
                let dims: Vec<String> = dims.iter().map(|dim| print_expr(&dim.to_expr())).collect();
                match dims.as_slice() {
                    [only] => format!("({only},)"),
                    _ => format!("({})", dims.join(", ")),
                }
            }
            (None, Some(ndim)) => format!("rank {ndim}"),
            (None, None) => "of any rank".to_owned(),
        },
        None => type_text(ty),
    }
}

/// Inputs of the same names in another order.
fn order(a: Side<'_>, b: Side<'_>, leaves: &Leaves, changes: &mut Vec<Change>) {
    let (a_inputs, b_inputs) = (a.n_inputs(), b.n_inputs());
    let places: Vec<(usize, usize)> = (0..a_inputs)
        .filter_map(|at| {
            leaves.to_b[at]
                .filter(|other| *other < b_inputs)
                .map(|to| (at, to))
        })
        .collect();
    if places.windows(2).all(|pair| pair[0].1 < pair[1].1) {
        return;
    }
    let names = |side: Side<'_>, list: &mut dyn Iterator<Item = usize>| {
        list.map(|at| side.name(at).to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let from = names(a, &mut places.iter().map(|place| place.0));
    let mut to: Vec<usize> = places.iter().map(|place| place.1).collect();
    to.sort_unstable();
    let mut change = Change::new(Kind::Changed, "inputs", "");
    let to = names(b, &mut to.into_iter());
    change.details.push(Detail::fact("order", from, to));
    changes.push(change.weighs(Verdict::Major));
}

/// The facts that the text states of a symbol: least, greatest, divisor.
fn stated(func: &Func) -> BTreeMap<Name, (Option<i128>, Option<i128>, i128)> {
    let mut res = BTreeMap::new();
    declared(&func.body, &mut |name, value| {
        let number = |key: &str| value.keyword(key).and_then(Expr::as_int);
        let facts = (
            number("min"),
            number("max"),
            number("multiple_of").unwrap_or(1),
        );
        res.insert(name.clone(), facts);
    });
    res
}

fn facts(a: Side<'_>, b: Side<'_>, renames: &Renames, changes: &mut Vec<Change>) {
    let in_signature = |side: Side<'_>| -> BTreeSet<Name> {
        let params = (0..side.func.params.len()).filter_map(|at| side.ty(at));
        params.flat_map(|ty| symbols_of(&ty)).collect()
    };
    let (of_a, of_b) = (stated(a.func), stated(b.func));
    let known = in_signature(a);
    let none = (None, None, 1);
    for name in in_signature(b) {
        let old = renames.get(&name).unwrap_or(&name);
        if !known.contains(old) {
            continue;
        }
        let from = of_a.get(old).copied().unwrap_or(none);
        let to = of_b.get(&name).copied().unwrap_or(none);
        if from == to {
            continue;
        }
        let mut change = Change::new(Kind::Changed, "dim", old.as_str());
        let text = |value: Option<i128>| value.map_or("any".to_owned(), |value| value.to_string());
        // An extent is never negative.
        let least = |value: Option<i128>| value.unwrap_or(0);
        let most = |value: Option<i128>| value.unwrap_or(i128::MAX);
        let mut verdict = Verdict::Minor;
        if from.0 != to.0 {
            change
                .details
                .push(Detail::fact("min", text(from.0), text(to.0)));
        }
        if from.1 != to.1 {
            change
                .details
                .push(Detail::fact("max", text(from.1), text(to.1)));
        }
        if from.2 != to.2 {
            let (from, to) = (from.2.to_string(), to.2.to_string());
            change.details.push(Detail::fact("multiple_of", from, to));
        }
        let is_narrower = least(to.0) > least(from.0)
            || most(to.1) < most(from.1)
            || from.2.checked_rem(to.2.max(1)) != Some(0);
        if is_narrower {
            verdict = Verdict::Major;
        }
        changes.push(change.weighs(verdict));
    }
}

fn results(
    a: Side<'_>,
    b: Side<'_>,
    map: &BTreeMap<Name, Dim>,
    widened: &BTreeMap<Name, Dim>,
    naming: Naming,
    changes: &mut Vec<Change>,
) {
    let flatten = |ty: Option<Type>| -> Option<Vec<Type>> {
        let mut types = Vec::new();
        members(&ty?, &mut types);
        Some(types)
    };
    let mut from = flatten(a.result());
    let mut to = flatten(b.result().map(|ty| substitute(&ty, map)));
    // Types that only one side has say nothing of a change.
    if from.is_none() || to.is_none() {
        (from, to) = (None, None);
    }
    let (a_names, b_names) = (returned(a.func), returned(b.func));
    let n_from = from.as_ref().map_or(a_names.len(), Vec::len);
    let n_to = to.as_ref().map_or(b_names.len(), Vec::len);
    if n_from != n_to {
        let mut change = Change::new(Kind::Changed, "results", "");
        let (from, to) = (n_from.to_string(), n_to.to_string());
        change.details.push(Detail::fact("count", from, to));
        changes.push(change.weighs(Verdict::Major));
    }
    for at in 0..n_from.min(n_to) {
        let name = match (n_from, a_names.get(at)) {
            (_, Some(Some(name))) if naming.results => name.to_string(),
            (1, _) => String::new(),
            _ => at.to_string(),
        };
        let mut change = Change::new(Kind::Changed, "result", name);
        change.verdict = Verdict::None;
        if let (Some(Some(x)), Some(Some(y))) = (a_names.get(at), b_names.get(at))
            && x != y
            && naming.results
        {
            change.kind = Kind::Renamed;
            change.renamed = Some(y.to_string());
            change.verdict = Verdict::Major;
        }
        let types = from.as_ref().and_then(|types| types.get(at));
        if let (Some(x), Some(y)) = (types, to.as_ref().and_then(|types| types.get(at))) {
            let verdict = type_details(
                x,
                y,
                &mut change.details,
                &mut |from, to| match (from, to) {
                    (Some(from), Some(to)) if from == to => Verdict::None,
                    (Some(from), Some(to)) if *from == to.subst(widened) => Verdict::Minor,
                    _ => Verdict::Major,
                },
            );
            change.verdict = change.verdict.max(verdict);
        }
        if change.verdict > Verdict::None {
            changes.push(change);
        }
    }
}

fn members(ty: &Type, into: &mut Vec<Type>) {
    match ty {
        Type::Tuple(items) => items.iter().for_each(|item| members(item, into)),
        Type::Void => {}
        _ => into.push(ty.clone()),
    }
}

/// The names that a function returns; `None` for what has none.
fn returned(func: &Func) -> Vec<Option<Name>> {
    if func.kind != FuncKind::Graph {
        return Vec::new();
    }
    let value = func.body.iter().rev().find_map(|stmt| match &stmt.kind {
        StmtKind::Return(value) => value.as_ref(),
        _ => None,
    });
    let Some(value) = value else {
        return Vec::new();
    };
    match value.as_items() {
        Some(items) => items.iter().map(|item| item.as_name().cloned()).collect(),
        None => vec![value.as_name().cloned()],
    }
}

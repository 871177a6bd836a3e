//! Two programs compared: what callers see, what is computed, and the weights.
//!
//! Matched by structure and by name, never by line. What this promises:
//!
//! * Names of values, the order of statements that do not depend on one another, comments, formatting, defaults written
//!   or left out, and names of dims are no difference.
//! * An operator put in, taken out, or replaced is reported as that and its readers as rewired; what stands below it is
//!   matched with what it was before.
//! * The same texts give the same report, and time grows with the size of the programs, not its square.
//!
//! It compares, and proves nothing: programs that compute the same by other operators differ.
//!
//! `read` makes a `graph` of each function, `matching` and `settle` pair their operators, `operators` says what differs, `interface`
//! what callers notice, `weights` and `loops` compare bytes and prim_funcs. Tests are in `tests/diff`.

mod call;
mod graph;
mod hashes;
mod interface;
mod loops;
mod matching;
mod operators;
mod read;
mod report;
mod settle;
mod values;
mod weights;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use irc_syntax::{Diagnostic, Expr, ExprKind, Func, FuncKind, Module, Name, Severity, print_expr};

pub use report::{Aspect, Change, Detail, FuncReport, Kind, Report, Verdict};
pub use values::pair_values;

use crate::check::{self, FuncInfo, Info};
use crate::driver::Program;
use crate::library::Library;
use crate::tensor::Weights;
use call::Ops;
use graph::{Renames, flat};
use interface::{Naming, Side};
use matching::{Contents, Leaves};

/// What counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Names of inputs, results, weights and values count for nothing.
    pub ignore_names: bool,
    /// In which order a commutative operator takes its operands.
    pub ignore_order: bool,
    /// The contents of weights and constants.
    pub ignore_weights: bool,
    /// The attributes of operators.
    pub ignore_attrs: bool,
    /// What `return` names is interface: both programs are ONNX files.
    pub named_results: bool,
}

/// Compares two programs.
pub fn compare(a: &Program, b: &Program, lib: &Library, options: &Options) -> Report {
    let ops = Ops::new(lib);
    let mut compare = Compare {
        lib,
        options,
        a,
        b,
        a_contents: contents(&a.module, &ops),
        b_contents: contents(&b.module, &ops),
        ops,
        types: None,
        is_asked: false,
        to_b: BTreeMap::new(),
        to_a: BTreeMap::new(),
        weights: Vec::new(),
        is_one_level: is_lowered(&a.module) == is_lowered(&b.module),
        compared: HashSet::new(),
        n_renamed: 0,
        report: Report::default(),
    };
    compare.run();
    compare.report
}

/// Whether the operators of a program have become loops.
fn is_lowered(module: &Module) -> bool {
    let is_called = |func: &Func| func.kind == FuncKind::Loops && func.is_private();
    module.funcs().any(is_called)
}

/// Compares two files of weights.
pub fn compare_weights(a: &Weights, b: &Weights, options: &Options) -> Report {
    let mut report = Report::default();
    let pairs: Vec<(String, String)> = a
        .iter()
        .filter(|(name, _)| b.get(name).is_some())
        .map(|(name, _)| (name.to_owned(), name.to_owned()))
        .collect();
    report.weights = weight_changes((a, b), pairs, options, true);
    report.judge();
    report
}

/// What functions hold, by name; a function that calls another holds what it holds.
fn contents(module: &Module, ops: &Ops<'_>) -> Contents {
    let mut found = Contents::new();
    let mut open = HashSet::new();
    for func in module.funcs() {
        content_of(func, module, ops, &mut found, &mut open);
    }
    found
}

fn content_of(
    func: &Func,
    module: &Module,
    ops: &Ops<'_>,
    found: &mut Contents,
    open: &mut HashSet<Name>,
) {
    if found.contains_key(&func.name) || !open.insert(func.name.clone()) {
        return;
    }
    let mut callees = Vec::new();
    irc_syntax::uses::for_each_expr(&func.body, &mut |expr| {
        if let ExprKind::Attr { value, name } = &expr.kind
            && value.as_name().is_some_and(|base| *base == *"cls")
        {
            callees.push(name.clone());
        }
    });
    for callee in callees {
        if let Some(callee) = module.find_func(&callee) {
            content_of(callee, module, ops, found, open);
        }
    }
    let content = match func.kind {
        FuncKind::Loops => loops::content(func),
        FuncKind::Graph | FuncKind::Local => {
            let graph = read::build(func, module, ops, &numbered_symbols(func));
            matching::content(&graph, found)
        }
    };
    found.insert(func.name.clone(), content);
}

/// Names for symbols that do not depend on how they are called.
fn numbered_symbols(func: &Func) -> Renames {
    let symbols = interface::symbols(func).into_iter().enumerate();
    symbols
        .map(|(at, name)| (name, Name::from(format!("#{at}"))))
        .collect()
}

struct Compare<'m> {
    lib: &'m Library,
    options: &'m Options,
    a: &'m Program,
    b: &'m Program,
    ops: Ops<'m>,
    a_contents: Contents,
    b_contents: Contents,
    /// Types of both programs, from when they are first asked for, if both check.
    types: Option<(Info, Info)>,
    is_asked: bool,
    /// Functions that are paired.
    to_b: BTreeMap<Name, Name>,
    to_a: BTreeMap<Name, Name>,
    /// Weights that are paired, by name.
    weights: Vec<(String, String)>,
    /// Whether both programs are on one level, so that their operators and weights may be compared.
    is_one_level: bool,
    compared: HashSet<Name>,
    n_renamed: usize,
    report: Report,
}

impl<'m> Compare<'m> {
    fn run(&mut self) {
        let (a, b) = (&self.a.module, &self.b.module);
        let mut queue = VecDeque::new();
        for func in a.funcs().filter(|func| !func.is_private()) {
            if b.find_func(&func.name)
                .is_some_and(|other| !other.is_private())
            {
                self.pair(&func.name, &func.name, &mut queue);
            }
        }
        self.pair_renamed(&mut queue, false);
        self.follow(&mut queue);
        if !self.is_one_level {
            let note = "one program is lowered to loops and the other is not: only interfaces are compared";
            self.report.notes.push(note.to_owned());
            self.lonely_funcs();
            return self.report.judge();
        }
        // What no matched operator calls: by name, then by content.
        for func in a.funcs().filter(|func| func.is_private()) {
            if b.find_func(&func.name).is_some_and(Func::is_private) {
                self.pair(&func.name, &func.name, &mut queue);
            }
        }
        self.pair_renamed(&mut queue, true);
        self.follow(&mut queue);
        self.lonely_funcs();
        self.module_attrs();
        let order: HashMap<String, usize> = a
            .funcs()
            .enumerate()
            .map(|(at, func)| (func.name.to_string(), at))
            .collect();
        self.report
            .functions
            .sort_by_key(|func| order.get(&func.name).copied());
        let pairs = std::mem::take(&mut self.weights);
        let (a, b) = (&self.a.weights, &self.b.weights);
        let changed = weight_changes((a, b), pairs, self.options, false);
        self.report.weights.extend(changed);
        if self.n_renamed > 0 && !self.options.ignore_names {
            let values = if self.n_renamed == 1 {
                "value"
            } else {
                "values"
            };
            self.report
                .notes
                .push(format!("{} {values} renamed", self.n_renamed));
        }
        self.report.judge();
    }

    fn pair(&mut self, a: &Name, b: &Name, queue: &mut VecDeque<(Name, Name)>) {
        if self.to_b.contains_key(a) || self.to_a.contains_key(b) {
            return;
        }
        self.to_b.insert(a.clone(), b.clone());
        self.to_a.insert(b.clone(), a.clone());
        queue.push_back((a.clone(), b.clone()));
    }

    /// Pairs functions of two names that hold the same.
    fn pair_renamed(&mut self, queue: &mut VecDeque<(Name, Name)>, is_private: bool) {
        let mut by_content: HashMap<u64, VecDeque<Name>> = HashMap::new();
        let (a, b) = (&self.a.module, &self.b.module);
        for func in b.funcs().filter(|func| func.is_private() == is_private) {
            if !self.to_a.contains_key(&func.name)
                && let Some(content) = self.b_contents.get(&func.name)
            {
                by_content
                    .entry(*content)
                    .or_default()
                    .push_back(func.name.clone());
            }
        }
        for func in a.funcs().filter(|func| func.is_private() == is_private) {
            if self.to_b.contains_key(&func.name) {
                continue;
            }
            let content = self.a_contents.get(&func.name);
            let found = content.and_then(|content| by_content.get_mut(content));
            if let Some(other) = found.and_then(VecDeque::pop_front) {
                self.pair(&func.name, &other, queue);
                if !is_private {
                    let mut change = Change::new(Kind::Renamed, "function", func.name.as_str());
                    change.renamed = Some(other.to_string());
                    self.report.interface.push(change.weighs(Verdict::Major));
                }
            }
        }
    }

    /// Compares paired functions, and those that they call, in order.
    fn follow(&mut self, queue: &mut VecDeque<(Name, Name)>) {
        while let Some((a, b)) = queue.pop_front() {
            if !self.compared.insert(a.clone()) {
                continue;
            }
            let funcs = (self.a.module.find_func(&a), self.b.module.find_func(&b));
            if let (Some(a), Some(b)) = funcs {
                self.funcs(a, b, queue);
            }
        }
    }

    fn funcs(&mut self, a: &'m Func, b: &'m Func, queue: &mut VecDeque<(Name, Name)>) {
        let bare = |func: &'m Func, program: &'m Program| Side {
            func,
            weights: &program.weights,
            ret: None,
        };
        let (side_a, side_b) = (bare(a, self.a), bare(b, self.b));
        let leaves = interface::pair_params(side_a, side_b);
        let renames = interface::rename_symbols(side_a, side_b, &leaves);
        let is_public = !a.is_private();
        if is_public && self.is_one_level {
            self.note_weights(side_a, side_b, &leaves);
        }
        if a.kind != b.kind {
            let mut change = Change::new(Kind::Changed, "function", a.name.as_str());
            let level = |func: &Func| {
                if func.kind == FuncKind::Loops {
                    "loops"
                } else {
                    "graph"
                }
            };
            change
                .details
                .push(Detail::fact("level", level(a), level(b)));
            self.report.interface.push(change);
            return;
        }
        let mut report = FuncReport::default();
        let mut callees = Vec::new();
        if !self.is_one_level {
            self.ask_types();
        } else if a.kind == FuncKind::Loops {
            report.changes.extend(loops::compare(a, b));
        } else {
            (report, callees) = self.graphs(a, b, &leaves, &renames);
        }
        if self.is_one_level {
            self.func_attrs(a, b, &mut report);
        }
        if !is_public {
            private_params(a, b, &leaves, &mut report);
        }
        report.name = a.name.to_string();
        // Types cost a check of both programs, so they are asked for where something differs.
        let is_equal = report.changes.is_empty()
            && (!is_public || self.a_contents.get(&a.name) == self.b_contents.get(&b.name));
        if is_public {
            let is_typed_alike = a.params.len() == b.params.len()
                && (0..a.params.len()).all(|at| param_text(a, at) == param_text(b, at))
                && a.ret.is_some() == b.ret.is_some();
            if !is_equal || !is_typed_alike {
                self.ask_types();
            }
            let ret = |types: Option<&'_ Info>, func: &Func| {
                types.and_then(|info| info.funcs.get(&func.name)?.ret.clone())
            };
            let types = self.types.as_ref();
            let (ret_a, ret_b) = (
                ret(types.map(|types| &types.0), a),
                ret(types.map(|types| &types.1), b),
            );
            let naming = Naming {
                inputs: !self.options.ignore_names,
                results: self.options.named_results && !self.options.ignore_names,
            };
            let found = interface::compare(
                Side {
                    ret: ret_a.as_ref(),
                    ..side_a
                },
                Side {
                    ret: ret_b.as_ref(),
                    ..side_b
                },
                &leaves,
                &renames,
                naming,
            );
            self.report.interface.extend(found);
        }
        if !report.changes.is_empty() {
            self.report.functions.push(report);
        }
        for (f, g) in callees {
            self.pair(&f, &g, queue);
        }
    }

    fn graphs(
        &mut self,
        a: &'m Func,
        b: &'m Func,
        leaves: &Leaves,
        renames: &Renames,
    ) -> (FuncReport, Vec<(Name, Name)>) {
        let left = read::build(a, &self.a.module, &self.ops, &Renames::new());
        let right = read::build(b, &self.b.module, &self.ops, renames);
        let matching = matching::match_graphs(
            (&left, &self.a_contents),
            (&right, &self.b_contents),
            leaves,
        );
        let mut pair = operators::Pair {
            a: &left,
            b: &right,
            leaves,
            matching: &matching,
            types: None,
        };
        let options = self.options;
        let run = |pair: &operators::Pair<'_, '_>,
                   to_b: &BTreeMap<Name, Name>,
                   to_a: &BTreeMap<Name, Name>| {
            let (mut to_b, mut to_a) = (to_b.clone(), to_a.clone());
            operators::compare(
                pair,
                options,
                &mut |f, g| match (to_b.get(f), to_a.get(g)) {
                    (None, None) => {
                        to_b.insert(f.clone(), g.clone());
                        to_a.insert(g.clone(), f.clone());
                        true
                    }
                    (Some(other), _) => other == g,
                    (None, Some(_)) => false,
                },
            )
        };
        let (mut report, found) = run(&pair, &self.to_b, &self.to_a);
        if !report.changes.is_empty() {
            self.ask_types();
            if let Some((info_a, info_b)) = &self.types {
                let types: (Option<&FuncInfo>, Option<&FuncInfo>) =
                    (info_a.funcs.get(&a.name), info_b.funcs.get(&b.name));
                if let (Some(x), Some(y)) = types {
                    pair.types = Some((x, y, renames));
                    report = run(&pair, &self.to_b, &self.to_a).0;
                }
            }
        }
        self.n_renamed += found.n_renamed;
        (report, found.callees)
    }

    /// Checks both programs, once. Where one does not check, types of values are not compared, and a note says so.
    fn ask_types(&mut self) {
        if self.is_asked {
            return;
        }
        self.is_asked = true;
        let (a, a_faults) = check::check(&self.a.module, self.lib);
        let (b, b_faults) = check::check(&self.b.module, self.lib);
        let is_bad =
            |faults: &[Diagnostic]| faults.iter().any(|fault| fault.severity == Severity::Error);
        let which = match (is_bad(&a_faults), is_bad(&b_faults)) {
            (false, false) => {
                self.types = Some((a, b));
                return;
            }
            (true, false) => "the first program does",
            (false, true) => "the second program does",
            (true, true) => "the programs do",
        };
        let note = format!("{which} not check: types of values and results are not compared");
        self.report.notes.push(note);
    }

    /// Remembers which weights are which, and notes those of new names.
    fn note_weights(&mut self, a: Side<'_>, b: Side<'_>, leaves: &Leaves) {
        let known: BTreeSet<String> = self.weights.iter().map(|pair| pair.0.clone()).collect();
        let (n_a, n_b) = (a.n_inputs(), b.n_inputs());
        for (at, param) in a.func.params.iter().enumerate().skip(n_a) {
            let name = param.name.to_string();
            match leaves.to_b[at] {
                Some(other) if other >= n_b => {
                    let new = b.func.params[other].name.to_string();
                    if known.contains(&name) {
                        continue;
                    }
                    if name != new && !self.options.ignore_names {
                        let mut change = Change::new(Kind::Renamed, "weight", name.as_str());
                        change.renamed = Some(new.clone());
                        self.report.weights.push(change);
                    }
                    self.declared_types((a, at), (b, other));
                    self.weights.push((name, new));
                }
                Some(_) => {}
                None => {
                    let mut change = Change::new(Kind::Removed, "weight", name.as_str());
                    change.note = param_text(a.func, at);
                    self.report.weights.push(change);
                }
            }
        }
        for (at, param) in b.func.params.iter().enumerate().skip(n_b) {
            if leaves.to_a[at].is_none() {
                let mut change = Change::new(Kind::Added, "weight", param.name.as_str());
                change.note = param_text(b.func, at);
                self.report.weights.push(change);
            }
        }
    }

    /// The types that two texts state of a weight, where its bytes do not tell.
    fn declared_types(&mut self, (a, x): (Side<'_>, usize), (b, y): (Side<'_>, usize)) {
        let names = (&a.func.params[x].name, &b.func.params[y].name);
        if self.a.weights.get(names.0).is_some() && self.b.weights.get(names.1).is_some() {
            return;
        }
        let (from, to) = (param_text(a.func, x), param_text(b.func, y));
        if from != to {
            let mut change = Change::new(Kind::Changed, "weight", names.0.as_str());
            change.details.push(Detail::fact("type", from, to));
            self.report.weights.push(change);
        }
    }

    fn func_attrs(&self, a: &Func, b: &Func, report: &mut FuncReport) {
        let (from, to) = (attrs(func_dict(a)), attrs(func_dict(b)));
        // What `num_input` says is in the lists of inputs and weights.
        dict_changes(
            &from,
            &to,
            &["num_input"],
            "function attribute",
            &mut report.changes,
        );
    }

    fn module_attrs(&mut self) {
        let dict = |module: &'m Module| -> BTreeMap<String, String> {
            let call = module.items.iter().find_map(|item| match item {
                irc_syntax::Item::Stmt(stmt) => match &stmt.kind {
                    irc_syntax::StmtKind::Expr(call) if call.is_call_of("I.module_attrs") => {
                        call.positional().next()
                    }
                    _ => None,
                },
                irc_syntax::Item::Func(_) => None,
            });
            attrs(call)
        };
        let (from, to) = (dict(&self.a.module), dict(&self.b.module));
        let mut changes = Vec::new();
        // Weights are compared by content; the hash of a source says nothing that the program does not.
        let skipped = ["irc.params", "irc.source"];
        dict_changes(&from, &to, &skipped, "module attribute", &mut changes);
        self.report.interface.extend(changes);
    }

    /// Functions that only one program has.
    fn lonely_funcs(&mut self) {
        let (a, b) = (&self.a.module, &self.b.module);
        let mut changes = Vec::new();
        for (kind, module, paired) in [(Kind::Removed, a, &self.to_b), (Kind::Added, b, &self.to_a)]
        {
            let counts = |func: &&Func| {
                !paired.contains_key(&func.name) && (self.is_one_level || !func.is_private())
            };
            for func in module.funcs().filter(counts) {
                let mut change = Change::new(kind, "function", func.name.as_str());
                change.verdict = match (func.is_private(), kind) {
                    (true, _) => Verdict::Patch,
                    (false, Kind::Added) => Verdict::Minor,
                    (false, _) => Verdict::Major,
                };
                if func.is_private() {
                    change.note = "private".to_owned();
                }
                changes.push(change);
            }
        }
        self.report.interface.extend(changes);
    }
}

fn param_text(func: &Func, at: usize) -> String {
    let ty = func.params[at].ty.as_ref();
    ty.map(|ty| flat(&print_expr(ty))).unwrap_or_default()
}

/// Parameters of a private function that the other does not have.
fn private_params(a: &Func, b: &Func, leaves: &Leaves, report: &mut FuncReport) {
    let sides = [
        (Kind::Removed, a, &leaves.to_b),
        (Kind::Added, b, &leaves.to_a),
    ];
    for (kind, func, paired) in sides {
        for (at, param) in func.params.iter().enumerate() {
            if paired[at].is_none() {
                let mut change = Change::new(kind, "parameter", param.name.as_str());
                change.note = param_text(func, at);
                report.changes.push(change);
            }
        }
    }
}

fn func_dict(func: &Func) -> Option<&Expr> {
    func.body.iter().find_map(|stmt| match &stmt.kind {
        irc_syntax::StmtKind::Expr(call)
            if call.is_call_of("R.func_attr") || call.is_call_of("T.func_attr") =>
        {
            call.positional().next()
        }
        _ => None,
    })
}

fn attrs(dict: Option<&Expr>) -> BTreeMap<String, String> {
    let Some(ExprKind::Dict(items)) = dict.map(|dict| &dict.kind) else {
        return BTreeMap::new();
    };
    let text = |expr: &Expr| flat(&print_expr(expr));
    let pairs = items.iter().map(|(key, value)| {
        (
            key.as_str().map_or_else(|| text(key), str::to_owned),
            text(value),
        )
    });
    pairs.collect()
}

fn dict_changes(
    from: &BTreeMap<String, String>,
    to: &BTreeMap<String, String>,
    skipped: &[&str],
    what: &str,
    changes: &mut Vec<Change>,
) {
    let keys: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    for key in keys {
        let (x, y) = (from.get(key), to.get(key));
        if x != y && !skipped.contains(&key.as_str()) {
            let mut change = Change::new(Kind::Changed, what, key.as_str());
            let detail = Detail::new(Aspect::Fact, "value", x.cloned(), y.cloned());
            change.details.push(detail);
            changes.push(change);
        }
    }
}

/// Weights that differ, the most different first. `is_all` adds those without a partner.
fn weight_changes(
    (a, b): (&Weights, &Weights),
    mut pairs: Vec<(String, String)>,
    options: &Options,
    is_all: bool,
) -> Vec<Change> {
    if options.ignore_weights {
        return Vec::new();
    }
    let mut lonely = Vec::new();
    if is_all {
        lonely = lonely_weights(a, b, &mut pairs, options);
    }
    let mut found: Vec<(f64, Change)> = Vec::new();
    for (name, new) in pairs {
        if let (Some(x), Some(y)) = (a.get(&name), b.get(&new))
            && let Some((far, mut change)) = weights::compare(&name, x, y)
        {
            change.renamed = Some(new).filter(|new| *new != name && !options.ignore_names);
            found.push((far, change));
        }
    }
    found.sort_by(|x, y| y.0.total_cmp(&x.0).then_with(|| x.1.name.cmp(&y.1.name)));
    found
        .into_iter()
        .map(|(_, change)| change)
        .chain(lonely)
        .collect()
}

/// Weights of one file only; those of equal bytes under two names are renamed.
fn lonely_weights(
    a: &Weights,
    b: &Weights,
    pairs: &mut Vec<(String, String)>,
    options: &Options,
) -> Vec<Change> {
    let key = |weight: &crate::tensor::Weight| {
        (
            weights::describe(weight),
            crate::tensor::sha256_bytes(weight.bytes()),
        )
    };
    let mut changes = Vec::new();
    let mut by_content: HashMap<(String, String), VecDeque<&str>> = HashMap::new();
    for (name, weight) in b.iter().filter(|(name, _)| a.get(name).is_none()) {
        by_content.entry(key(weight)).or_default().push_back(name);
    }
    for (name, weight) in a.iter().filter(|(name, _)| b.get(name).is_none()) {
        match by_content
            .get_mut(&key(weight))
            .and_then(VecDeque::pop_front)
        {
            Some(new) => {
                pairs.push((name.to_owned(), new.to_owned()));
                if !options.ignore_names {
                    let mut change = Change::new(Kind::Renamed, "weight", name);
                    change.renamed = Some(new.to_owned());
                    changes.push(change);
                }
            }
            None => {
                let mut change = Change::new(Kind::Removed, "weight", name);
                change.note = weights::describe(weight);
                changes.push(change);
            }
        }
    }
    let taken: BTreeSet<&str> = pairs.iter().map(|pair| pair.1.as_str()).collect();
    for (name, weight) in b.iter().filter(|(name, _)| !taken.contains(name)) {
        let mut change = Change::new(Kind::Added, "weight", name);
        change.note = weights::describe(weight);
        changes.push(change);
    }
    changes
}

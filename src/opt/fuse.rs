//! Groups bindings into private functions, each of which becomes one kernel.
//!
//!     lv = R.nn.conv2d(x, w)                     y = cls.fused_conv2d_add_relu(x, w, b)
//!     lv1 = R.add(lv, b)              →
//!     y = R.nn.relu(lv1)                         (the three bindings are the body of the private function)
//!
//! A group has one *domain*, the shape that its loops run over. Element-wise operators join the group of an operand with
//! their own shape; a reduction joins an element-wise group, and what follows it over the same domain joins
//! again, so that softmax and the norms are one group; contractions, windows and gathers start groups that element-wise
//! operators join as their epilogue; element-wise work over several slices (the gates of a cell) is one group; attention, two products and the rows between them, is one group. Values read outside their group become results of its function. Groups with equal
//! bodies share one function. Views, shapes, tuples, control flow and calls stay where they are.

mod attention;

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::{bound_names, for_each_name, names_read, substitute};
use irc_syntax::{Arg, Expr, Func, FuncKind, Item, Module, Name, Param, Stmt, StmtKind};

use super::graph::{count_uses, returned};
use super::pattern::{Pattern, pattern_of};
use super::{Changed, Pass, PassCx};
use crate::check::stage::Level;
use crate::check::{FuncInfo, Type, dims_attr, type_to_expr};
use crate::shape::{Dim, SymbolFacts};

/// The pass.
pub const PASS: Pass = Pass {
    name: "fuse",
    run,
    from: Level::Normal,
    to: Level::Fused,
    summary: "group bindings into kernels",
    args: &[],
};

/// Runs the pass on every graph function that is no group itself.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut made = Made::new(module);
    for func in module.funcs_mut() {
        if func.kind == FuncKind::Graph && func.attr("op_pattern").is_none() {
            let info = cx.info.funcs.get(&func.name).cloned().unwrap_or_default();
            fuse_block(&mut func.body, &BTreeSet::new(), &info, &mut made);
        }
    }
    let changed = !made.funcs.is_empty();
    let at = module
        .items
        .iter()
        .position(|item| matches!(item, Item::Func(_)))
        .unwrap_or(0);
    module
        .items
        .splice(at..at, made.funcs.into_iter().map(Item::Func));
    Changed::from(changed)
}

/// The functions made so far, and their printed bodies to share equal ones.
struct Made {
    names: NameSupply,
    funcs: Vec<Func>,
    by_text: BTreeMap<String, Name>,
}

impl Made {
    fn new(module: &Module) -> Self {
        Self {
            names: NameSupply::of_module(module),
            funcs: Vec::new(),
            by_text: BTreeMap::new(),
        }
    }
}

/// A set of bindings of one block that will be one function, or one statement that stays.
#[derive(Default)]
struct Group {
    members: Vec<usize>,
    deps: BTreeSet<usize>,
    pattern: Option<Pattern>,
    domain: Vec<Dim>,
    /// The shape of its reductions' results with the reduced axes kept as 1.
    reduced: Option<Vec<Dim>>,
    merged_into: Option<usize>,
}

struct Fuser<'a> {
    stmts: &'a [Stmt],
    info: &'a FuncInfo,
    groups: Vec<Group>,
    /// The group of each statement.
    of_stmt: Vec<usize>,
    /// The statement that binds a name.
    maker: BTreeMap<Name, usize>,
    /// The statements that read a statement's names.
    users: Vec<BTreeSet<usize>>,
    /// Names read by nested blocks or returned.
    escaping: BTreeSet<Name>,
}

/// Fuses a block; `outer` are names that are read outside of it.
fn fuse_block(stmts: &mut Vec<Stmt>, outer: &BTreeSet<Name>, info: &FuncInfo, made: &mut Made) {
    for at in 0..stmts.len() {
        if !matches!(stmts[at].kind, StmtKind::If { .. }) {
            continue;
        }
        // What one branch binds and the statements around read is a result of both.
        let mut outer = outer.clone();
        for stmts in [&stmts[..at], &stmts[at + 1..]] {
            outer.extend(count_uses(stmts).into_keys());
        }
        if let StmtKind::If { then, orelse, .. } = &mut stmts[at].kind {
            fuse_block(then, &outer, info, made);
            fuse_block(orelse, &outer, info, made);
        }
    }
    let mut fuser = Fuser::new(stmts, info);
    fuser.escaping.extend(outer.iter().cloned());
    for at in 0..stmts.len() {
        fuser.place(at);
    }
    fuser.join_attention();
    let order = fuser.schedule();
    let mut out = Vec::with_capacity(stmts.len());
    for group in order {
        fuser.emit(group, made, &mut out);
    }
    *stmts = out;
}

impl<'a> Fuser<'a> {
    fn new(stmts: &'a [Stmt], info: &'a FuncInfo) -> Self {
        let mut maker = BTreeMap::new();
        for (at, stmt) in stmts.iter().enumerate() {
            for name in defined(stmt) {
                maker.insert(name, at);
            }
        }
        let mut users = vec![BTreeSet::new(); stmts.len()];
        for (at, stmt) in stmts.iter().enumerate() {
            for name in count_uses(std::slice::from_ref(stmt)).into_keys() {
                if let Some(&from) = maker.get(&name) {
                    users[from].insert(at);
                }
            }
        }
        let mut escaping = BTreeSet::new();
        for value in returned(stmts) {
            for_each_name(value, &mut |name| {
                escaping.insert(name.clone());
            });
        }
        for stmt in stmts {
            if let StmtKind::If { then, orelse, .. } = &stmt.kind {
                escaping.extend(count_uses(then).into_keys());
                escaping.extend(count_uses(orelse).into_keys());
            }
        }
        Self {
            stmts,
            info,
            groups: Vec::new(),
            of_stmt: Vec::new(),
            maker,
            users,
            escaping,
        }
    }

    /// Decides the group of a statement; all statements before it have theirs.
    fn place(&mut self, at: usize) {
        let operands = self.operands(at);
        let (pattern, shape) = self.pattern_and_shape(at);
        let joined = pattern.and_then(|pattern| self.choose(at, pattern, &shape, &operands));
        let group = joined.unwrap_or_else(|| {
            self.groups.push(Group {
                pattern,
                domain: shape.clone(),
                ..Group::default()
            });
            self.groups.len() - 1
        });
        self.of_stmt.push(group);
        self.groups[group].members.push(at);
        let deps: Vec<usize> = operands
            .iter()
            .map(|&operand| self.of_stmt[operand])
            .filter(|&dep| dep != group)
            .collect();
        self.groups[group].deps.extend(deps);
        if pattern == Some(Pattern::Reduce) {
            let domain = self.operand_shape(at).unwrap_or_default();
            let kept = self.kept_shape(at, &domain);
            let group = &mut self.groups[group];
            group.pattern = Some(Pattern::Reduce);
            group.domain = domain;
            group.reduced = Some(kept);
        }
        if pattern == Some(Pattern::ElementWise) {
            self.absorb_operands(at, group, &operands);
        }
    }

    /// Statements of this block whose values a statement reads.
    fn operands(&self, at: usize) -> Vec<usize> {
        let mut operands: Vec<usize> = count_uses(std::slice::from_ref(&self.stmts[at]))
            .into_keys()
            .filter_map(|name| self.maker.get(&name).copied())
            .filter(|&from| from < at)
            .collect();
        operands.sort_unstable();
        operands.dedup();
        operands
    }

    fn pattern_and_shape(&self, at: usize) -> (Option<Pattern>, Vec<Dim>) {
        let StmtKind::Assign { target, value, .. } = &self.stmts[at].kind else {
            return (None, Vec::new());
        };
        let shape = target.as_name().and_then(|name| self.shape_of(name));
        match (pattern_of(value), shape) {
            (Some(pattern), Some(shape)) => (Some(pattern), shape),
            _ => (None, Vec::new()),
        }
    }

    fn shape_of(&self, name: &Name) -> Option<Vec<Dim>> {
        self.info.vars.get(name)?.as_tensor()?.shape.clone()
    }

    fn value(&self, at: usize) -> Option<&Expr> {
        if let StmtKind::Assign { value, .. } = &self.stmts[at].kind {
            Some(value)
        } else {
            None
        }
    }

    /// The shape of a reduction's operand.
    fn operand_shape(&self, at: usize) -> Option<Vec<Dim>> {
        self.shape_of(self.value(at)?.positional().next()?.as_name()?)
    }

    /// The domain of a reduction with its reduced axes as 1.
    fn kept_shape(&self, at: usize, domain: &[Dim]) -> Vec<Dim> {
        let axes: Option<Vec<i64>> = self.value(at).and_then(|value| {
            let axes = value
                .keyword("axis")
                .or_else(|| value.positional().nth(1))?;
            match axes.as_items() {
                Some(items) => items
                    .iter()
                    .map(|item| item.as_int().map(|axis| axis as i64))
                    .collect(),
                None => axes.as_int().map(|axis| vec![axis as i64]),
            }
        });
        let rank = domain.len() as i64;
        let is_reduced = |axis: usize| match &axes {
            Some(axes) => axes
                .iter()
                .any(|&a| (if a < 0 { a + rank } else { a }) == axis as i64),
            None => true,
        };
        domain
            .iter()
            .enumerate()
            .map(|(axis, dim)| {
                if is_reduced(axis) {
                    Dim::int(1)
                } else {
                    dim.clone()
                }
            })
            .collect()
    }

    /// The group that a statement joins, if any.
    fn choose(
        &self,
        at: usize,
        pattern: Pattern,
        shape: &[Dim],
        operands: &[usize],
    ) -> Option<usize> {
        let mut candidates: Vec<usize> = operands.iter().map(|&from| self.of_stmt[from]).collect();
        candidates.sort_by_key(|&group| (self.groups[group].pattern.map(|p| p.weight()), group));
        candidates.dedup();
        candidates.into_iter().rev().find(|&group| {
            let to = &self.groups[group];
            let fits = match (pattern, to.pattern) {
                (Pattern::ElementWise, Some(Pattern::Reduce)) => {
                    shape == to.domain || to.reduced.as_deref() == Some(shape)
                }
                (Pattern::ElementWise, Some(pattern)) => {
                    pattern.takes_epilogue() && shape == to.domain
                }
                (Pattern::Reduce, Some(Pattern::ElementWise)) => self
                    .operand_shape(at)
                    .is_some_and(|domain| domain == to.domain),
                (Pattern::Reduce, Some(Pattern::Reduce)) => {
                    self.operand_shape(at).is_some_and(|domain| {
                        domain == to.domain && Some(self.kept_shape(at, &domain)) == to.reduced
                    })
                }
                _ => false,
            };
            fits && self.stays_acyclic(group, operands)
        })
    }

    /// Whether a reader of `operands` may join `group`: none of the others may depend on the group.
    fn stays_acyclic(&self, group: usize, operands: &[usize]) -> bool {
        let others = operands
            .iter()
            .map(|&from| self.of_stmt[from])
            .filter(|&other| other != group);
        others
            .into_iter()
            .all(|other| !self.depends_on(other, group))
    }

    fn depends_on(&self, from: usize, on: usize) -> bool {
        let mut seen = BTreeSet::new();
        let mut work = vec![from];
        while let Some(group) = work.pop() {
            if group == on {
                return true;
            }
            if seen.insert(group) {
                work.extend(self.groups[group].deps.iter().map(|&dep| self.resolve(dep)));
            }
        }
        false
    }

    fn resolve(&self, mut group: usize) -> usize {
        while let Some(into) = self.groups[group].merged_into {
            group = into;
        }
        group
    }

    /// Merges element-wise groups of the same domain that only `at` reads into its group; those over parts of tensors
    /// too, where that is element-wise as well.
    fn absorb_operands(&mut self, at: usize, group: usize, operands: &[usize]) {
        for &operand in operands {
            let other = self.of_stmt[operand];
            let fits = match self.groups[other].pattern {
                Some(Pattern::ElementWise) => true,
                Some(Pattern::Gather) => {
                    let into = self.groups[group].pattern;
                    let takes = matches!(into, Some(Pattern::ElementWise | Pattern::Gather));
                    takes && self.reads_parts(other)
                }
                _ => false,
            };
            if other == group || !fits || self.groups[other].domain != self.groups[group].domain {
                continue;
            }
            let only_here = self.groups[other].members.iter().all(|&member| {
                defined(&self.stmts[member])
                    .iter()
                    .all(|name| !self.escaping.contains(name))
                    && self.users[member].iter().all(|&user| {
                        user == at
                            || self
                                .of_stmt
                                .get(user)
                                .is_some_and(|&of| of == other || of == group)
                    })
            });
            let deps = self.groups[other].deps.clone();
            let acyclic = deps.iter().all(|&dep| {
                let dep = self.resolve(dep);
                dep == group || !self.depends_on(dep, group)
            });
            if only_here && acyclic {
                self.merge(other, group);
            }
        }
    }

    /// Whether a group is element-wise but for slices whose elements lie beside each other.
    fn reads_parts(&self, group: usize) -> bool {
        self.groups[group].members.iter().all(|&member| {
            let Some(value) = self.value(member) else {
                return false;
            };
            let strides = || {
                let strides = value.keyword("strides");
                strides.or_else(|| value.positional().nth(4))
            };
            let is_slice = value.is_call_of("R.strided_slice")
                && strides().is_none_or(|strides| {
                    let items = strides.as_items().unwrap_or_default();
                    !items.is_empty() && items.iter().all(|item| item.as_int() == Some(1))
                });
            is_slice || pattern_of(value) == Some(Pattern::ElementWise)
        })
    }

    fn merge(&mut self, from: usize, into: usize) {
        let pattern = self.groups[from].pattern;
        if pattern == Some(Pattern::Gather) {
            self.groups[into].pattern = pattern;
        }
        let moved = std::mem::take(&mut self.groups[from]);
        for &member in &moved.members {
            self.of_stmt[member] = into;
        }
        self.groups[into].members.extend(moved.members);
        self.groups[into].members.sort_unstable();
        self.groups[into].deps.extend(moved.deps);
        self.groups[from].merged_into = Some(into);
        let resolved: BTreeSet<usize> = self.groups[into]
            .deps
            .iter()
            .map(|&dep| self.resolve(dep))
            .filter(|&dep| dep != into)
            .collect();
        self.groups[into].deps = resolved;
    }

    /// The live groups, each after those it depends on, otherwise in the order of their first statements.
    fn schedule(&self) -> Vec<usize> {
        let mut order = Vec::new();
        let mut done = BTreeSet::new();
        for at in 0..self.stmts.len() {
            let mut work = vec![self.of_stmt[at]];
            while let Some(&group) = work.last() {
                if done.contains(&group) {
                    work.pop();
                    continue;
                }
                let pending: Vec<usize> = self.groups[group]
                    .deps
                    .iter()
                    .map(|&dep| self.resolve(dep))
                    .filter(|dep| *dep != group && !done.contains(dep))
                    .collect();
                if pending.is_empty() {
                    done.insert(group);
                    order.push(group);
                    work.pop();
                } else {
                    work.extend(pending.into_iter().rev());
                }
            }
        }
        order
    }

    /// Writes a group out: its statements as they are, or a call of its function.
    fn emit(&self, group: usize, made: &mut Made, out: &mut Vec<Stmt>) {
        let group = &self.groups[group];
        if group.pattern.is_none() {
            out.extend(group.members.iter().map(|&at| self.stmts[at].clone()));
            return;
        }
        let inside: BTreeSet<usize> = group.members.iter().copied().collect();
        let results: Vec<Name> = group
            .members
            .iter()
            .filter(|&&at| {
                self.users[at].iter().any(|user| !inside.contains(user)) || self.escapes(at)
            })
            .flat_map(|&at| defined(&self.stmts[at]))
            .collect();
        let (func, inputs) = self.outline(group, &results);
        let name = made.share(func, &self.base_name(group));
        let mut call = Expr::call(&format!("cls.{name}"), inputs.iter().map(Expr::name));
        let last = group.members.last().map(|&at| &self.stmts[at]);
        call.span = last.and_then(|stmt| self.value_span(stmt));
        let target = match results.as_slice() {
            [one] => Expr::name(one),
            many => Expr::tuple(many.iter().map(Expr::name)),
        };
        let mut stmt = Stmt::assign(target, call).at(last.and_then(|stmt| stmt.span));
        for &at in &group.members {
            stmt.trivia
                .leading
                .extend(self.stmts[at].trivia.leading.iter().cloned());
        }
        stmt.trivia.trailing = last.and_then(|stmt| stmt.trivia.trailing.clone());
        out.push(stmt);
    }

    fn value_span(&self, stmt: &Stmt) -> Option<irc_syntax::Span> {
        if let StmtKind::Assign { value, .. } = &stmt.kind {
            value.span
        } else {
            None
        }
    }

    fn escapes(&self, at: usize) -> bool {
        defined(&self.stmts[at])
            .iter()
            .any(|name| self.escaping.contains(name))
    }

    /// The private function of a group, and the names to call it with.
    fn outline(&self, group: &Group, results: &[Name]) -> (Func, Vec<Name>) {
        let mut func = Func::new(FuncKind::Graph, "group");
        func.decorator.push(Arg {
            name: Some(Name::from("private")),
            value: Expr::bool(true),
        });
        let mut map: BTreeMap<Name, Expr> = BTreeMap::new();
        let mut inputs = Vec::new();
        let mut body = Vec::new();
        for (position, &at) in group.members.iter().enumerate() {
            let mut stmt = self.stmts[at].clone();
            stmt.trivia = irc_syntax::Trivia::default();
            let StmtKind::Assign { target, ty, value } = &mut stmt.kind else {
                continue;
            };
            *ty = None;
            for_each_name(value, &mut |name| {
                let Some(ty @ Type::Tensor(_)) = self.info.vars.get(name) else {
                    return;
                };
                if !map.contains_key(name) {
                    let param = Name::from(format!("p{}", inputs.len()));
                    map.insert(name.clone(), Expr::name(&param));
                    inputs.push(name.clone());
                    func.params.push(Param::new(param, type_to_expr(ty)));
                }
            });
            substitute(value, &map);
            for name in bound_names(target) {
                let local = Expr::name(format!("lv{position}"));
                map.insert(name, local.clone());
                *target = local;
            }
            body.push(stmt);
        }
        let types: Vec<Expr> = results
            .iter()
            .filter_map(|name| self.info.vars.get(name))
            .map(type_to_expr)
            .collect();
        let values: Vec<Expr> = results
            .iter()
            .filter_map(|name| map.get(name).cloned())
            .collect();
        let (value, ty) = match (values.as_slice(), types.as_slice()) {
            ([value], [ty]) => (value.clone(), ty.clone()),
            _ => (Expr::tuple(values), Expr::call("R.Tuple", types)),
        };
        body.push(Stmt::ret(value));
        let pattern = group.pattern.map_or(0, Pattern::op_pattern);
        func.ret = Some(ty);
        func.body = body;
        let free = super::graph::bind_free_symbols(&mut func);
        let mut attrs = vec![("op_pattern".to_owned(), Expr::int(pattern))];
        attrs.extend(
            self.facts_attr(&func, &free)
                .map(|facts| ("irc.dims".to_owned(), facts)),
        );
        let attrs = Expr::call("R.func_attr", [Expr::dict(attrs)]);
        func.body.insert(0, Stmt::expr(attrs));
        inputs.extend(free);
        (func, inputs)
    }

    /// What is known about the symbols of a group's function, beyond that an extent is not negative.
    fn facts_attr(&self, func: &Func, free: &[Name]) -> Option<Expr> {
        let mut names: BTreeSet<Name> = free.iter().cloned().collect();
        for ty in func.params.iter().filter_map(|param| param.ty.as_ref()) {
            names.extend(names_read(ty));
        }
        let facts = &self.info.facts;
        names.retain(|name| facts.symbols().any(|(known, _)| known == name) || free.contains(name));
        dims_attr(&names, facts, |name| SymbolFacts {
            min: if free.contains(name) { None } else { Some(0) },
            ..SymbolFacts::default()
        })
    }

    /// `fused_conv2d_add_relu`, or the operator's own name for a group of one.
    fn base_name(&self, group: &Group) -> String {
        let mut parts: Vec<String> = Vec::new();
        for &at in &group.members {
            let path = self
                .value(at)
                .and_then(Expr::as_call)
                .map(|(path, _)| path)
                .unwrap_or_default();
            parts.push(path.rsplit('.').next().unwrap_or("op").to_owned());
        }
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let shown = parts.iter().take(6).cloned().collect::<Vec<_>>().join("_");
        format!("fused_{shown}")
    }
}

impl Made {
    /// The name of a function with this body: an earlier one's, or a new one made of `base`.
    fn share(&mut self, mut func: Func, base: &str) -> Name {
        let text = irc_syntax::print_func(&func);
        if let Some(name) = self.by_text.get(&text) {
            return name.clone();
        }
        let name = self.names.fresh(base);
        self.by_text.insert(text, name.clone());
        func.name = name.clone();
        self.funcs.push(func);
        name
    }
}

fn defined(stmt: &Stmt) -> Vec<Name> {
    match &stmt.kind {
        StmtKind::Assign { target, .. } | StmtKind::Declare { target, .. } => bound_names(target),
        StmtKind::If { then, orelse, .. } => then.iter().chain(orelse).flat_map(defined).collect(),
        _ => Vec::new(),
    }
}

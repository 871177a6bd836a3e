//! What follows a statement of a block: which of it depends on which names, and copies of it under other names.
//!
//! In: the statements behind an `if`. A *region* is the part of them that moves into its branches: statements that have to,
//! and what these read that cannot stand before the `if`.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::{bound_names, for_each_name, for_each_read, substitute_stmt};
use irc_syntax::visit::{VisitMut, walk_func_mut};
use irc_syntax::{Expr, ExprKind, Func, Name, Stmt, StmtKind};

/// What each statement of a block reads and binds.
pub struct Tail {
    stmts: Vec<Stmt>,
    reads: Vec<BTreeSet<Name>>,
    binds: Vec<BTreeSet<Name>>,
}

/// Statements by their places in the block.
pub type Places = BTreeSet<usize>;

impl Tail {
    /// Looks at the statements of a block.
    pub fn new(stmts: Vec<Stmt>) -> Self {
        let reads = stmts.iter().map(|stmt| read(std::slice::from_ref(stmt)));
        let binds = stmts.iter().map(|stmt| bound(std::slice::from_ref(stmt)));
        Self {
            reads: reads.collect(),
            binds: binds.collect(),
            stmts,
        }
    }

    /// The statements that read any of the names, or what depends on them; with the names that these bind.
    pub fn dependents(&self, names: &BTreeSet<Name>) -> (Places, BTreeSet<Name>) {
        let (mut places, mut names) = (Places::new(), names.clone());
        for (at, reads) in self.reads.iter().enumerate() {
            if !reads.is_disjoint(&names) {
                places.insert(at);
                names.extend(self.binds[at].iter().cloned());
            }
        }
        (places, names)
    }

    /// Adds the names that only stand for any of the names.
    pub fn add_aliases(&self, names: &mut BTreeSet<Name>) {
        for stmt in &self.stmts {
            if let StmtKind::Assign { target, value, .. } = &stmt.kind
                && value.as_name().is_some_and(|name| names.contains(name))
            {
                names.extend(bound_names(target));
            }
        }
    }

    /// Whether the statement at a place does more with what it reads than to name or return it.
    pub fn is_use(&self, at: usize) -> bool {
        match self.stmts.get(at).map(|stmt| &stmt.kind) {
            Some(StmtKind::Assign { value, .. }) => value.as_name().is_none(),
            Some(StmtKind::Return(_)) | None => false,
            Some(_) => true,
        }
    }

    /// Whether the statement at a place reads any of the names.
    pub fn reads_any(&self, at: usize, names: &BTreeSet<Name>) -> bool {
        !self.reads[at].is_disjoint(names)
    }

    /// The region of statements that have to move, where `dependent` are those that depend on the `if`; and the
    /// statements that it reads and that can stand before the `if`.
    pub fn region(&self, core: &Places, dependent: &Places) -> (Places, Places) {
        let mut region = core.clone();
        let mut needed = BTreeSet::new();
        let mut extra = Places::new();
        for at in (0..self.stmts.len()).rev() {
            if !region.contains(&at) && self.binds[at].is_disjoint(&needed) {
                continue;
            }
            needed.extend(self.reads[at].iter().cloned());
            if dependent.contains(&at) {
                region.insert(at);
            } else if !region.contains(&at) {
                extra.insert(at);
            }
        }
        // Choices and loops stay behind it, or two of them could wait for each other.
        let (mut before, mut staying) = (Places::new(), BTreeSet::new());
        for at in extra {
            let is_plain = matches!(self.stmts[at].kind, StmtKind::Assign { .. });
            if is_plain && self.reads[at].is_disjoint(&staying) {
                before.insert(at);
            } else {
                region.insert(at);
                staying.extend(self.binds[at].iter().cloned());
            }
        }
        (region, before)
    }

    /// The statements at some places, in order.
    pub fn at(&self, places: &Places) -> Vec<Stmt> {
        places.iter().map(|at| self.stmts[*at].clone()).collect()
    }

    /// The statements at all other places, in order.
    pub fn without(&self, places: &Places) -> Vec<Stmt> {
        let all = self.stmts.iter().enumerate();
        all.filter(|(at, _)| !places.contains(at))
            .map(|(_, stmt)| stmt.clone())
            .collect()
    }
}

/// The names that statements read, those of functions inside included.
pub fn read(stmts: &[Stmt]) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for_each_read(stmts, &mut |expr| {
        for_each_name(expr, &mut |name| {
            names.insert(name.clone());
        });
    });
    names
}

/// The names that statements bind, those inside branches, but not inside functions, included.
pub fn bound(stmts: &[Stmt]) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for stmt in stmts {
        match &stmt.kind {
            StmtKind::Assign { target, .. } => names.extend(bound_names(target)),
            StmtKind::Func(func) => {
                names.insert(func.name.clone());
            }
            StmtKind::If { then, orelse, .. } => {
                names.extend(bound(then));
                names.extend(bound(orelse));
            }
            StmtKind::With { body, .. } => names.extend(bound(body)),
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
            | StmtKind::Error => {}
        }
    }
    names
}

/// How many statements there are, nested ones included.
pub fn count<'s>(stmts: impl IntoIterator<Item = &'s Stmt>) -> usize {
    let inner = stmts.into_iter().map(|stmt| match &stmt.kind {
        StmtKind::If { then, orelse, .. } => 1 + count(then) + count(orelse),
        StmtKind::Func(func) => 1 + count(&func.body),
        _ => 1,
    });
    inner.sum()
}

/// Gives every name that statements bind and `wanted` chooses a fresh one; says which.
pub fn rename(
    stmts: &mut [Stmt],
    names: &mut NameSupply,
    wanted: &dyn Fn(&Name) -> bool,
) -> BTreeMap<Name, Name> {
    let mut own = BTreeSet::new();
    for stmt in stmts.iter_mut() {
        Targets(&mut |name| {
            own.insert(name.clone());
        })
        .visit_stmt(stmt);
    }
    let own = own.into_iter().filter(wanted);
    let map: BTreeMap<Name, Name> = own.map(|name| (name.clone(), names.fresh(&name))).collect();
    let values = map
        .iter()
        .map(|(name, new)| (name.clone(), Expr::name(new)))
        .collect();
    for stmt in stmts {
        substitute_stmt(stmt, &values);
        Targets(&mut |name| {
            if let Some(new) = map.get(name) {
                *name = new.clone();
            }
        })
        .visit_stmt(stmt);
    }
    map
}

/// Every place where a name is bound.
struct Targets<'f>(&'f mut dyn FnMut(&mut Name));

impl VisitMut for Targets<'_> {
    fn visit_func(&mut self, func: &mut Func) {
        (self.0)(&mut func.name);
        for param in &mut func.params {
            (self.0)(&mut param.name);
        }
        walk_func_mut(self, func);
    }

    fn visit_expr(&mut self, _: &mut Expr) {}

    fn visit_target(&mut self, target: &mut Expr) {
        match &mut target.kind {
            ExprKind::Name(name) => (self.0)(name),
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                items.iter_mut().for_each(|item| self.visit_target(item));
            }
            _ => {}
        }
    }
}

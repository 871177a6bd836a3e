//! Functions over buffers: equal up to bound names, or how many lines differ.
//!
//! What loops do is a matter of every statement in order, so they are compared as text in canonical form.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use irc_syntax::visit::{walk_expr, walk_func, walk_stmt};
use irc_syntax::{Expr, ExprKind, Func, Name, Same, Stmt, Visit, print_func};
use similar::{Algorithm, ChangeTag, TextDiff};

use super::report::{Aspect, Change, Detail, Kind};

/// Of longer texts lines are only counted: to align them takes time that grows with the square.
const ALIGNED_LINES: usize = 4000;

/// What a function holds, whatever it and its variables are called.
pub(super) fn content(func: &Func) -> u64 {
    let mut numbering = Numbering {
        hasher: DefaultHasher::new(),
        names: HashMap::new(),
    };
    for param in &func.params {
        numbering.name(&param.name);
    }
    walk_func(&mut numbering, func);
    numbering.hasher.finish()
}

/// Hashes a tree; names count by where they come first.
struct Numbering {
    hasher: DefaultHasher,
    names: HashMap<Name, usize>,
}

impl Numbering {
    fn name(&mut self, name: &Name) {
        let next = self.names.len();
        let number = *self.names.entry(name.clone()).or_insert(next);
        number.hash(&mut self.hasher);
    }
}

impl Visit for Numbering {
    fn visit_stmt(&mut self, stmt: &Stmt) {
        std::mem::discriminant(&stmt.kind).hash(&mut self.hasher);
        walk_stmt(self, stmt);
        1u8.hash(&mut self.hasher);
    }

    fn visit_expr(&mut self, expr: &Expr) {
        if let Some(path) = expr.as_path()
            && path.contains('.')
        {
            return path.hash(&mut self.hasher);
        }
        std::mem::discriminant(&expr.kind).hash(&mut self.hasher);
        match &expr.kind {
            ExprKind::Name(name) => return self.name(name),
            ExprKind::Int(value) => value.hash(&mut self.hasher),
            ExprKind::Float(value) => value.to_bits().hash(&mut self.hasher),
            ExprKind::Str(text) => text.hash(&mut self.hasher),
            ExprKind::Bool(value) => value.hash(&mut self.hasher),
            ExprKind::Attr { name, .. } => name.hash(&mut self.hasher),
            ExprKind::Unary { op, .. } => op.hash(&mut self.hasher),
            ExprKind::Binary { op, .. } => op.hash(&mut self.hasher),
            ExprKind::Call { args, .. } => {
                for arg in args {
                    arg.name.as_deref().hash(&mut self.hasher);
                }
            }
            ExprKind::None
            | ExprKind::Ellipsis
            | ExprKind::Index { .. }
            | ExprKind::Slice { .. }
            | ExprKind::Tuple { .. }
            | ExprKind::List(_)
            | ExprKind::Dict(_)
            | ExprKind::IfElse { .. }
            | ExprKind::ListComp { .. }
            | ExprKind::Starred(_)
            | ExprKind::Error => {}
        }
        walk_expr(self, expr);
        2u8.hash(&mut self.hasher);
    }
}

/// How two functions differ; `None` when they are the same up to names.
pub(super) fn compare(a: &Func, b: &Func) -> Option<Change> {
    let mut renamed = b.clone();
    renamed.name = a.name.clone();
    if a.same(&renamed) {
        return None;
    }
    let (from, to) = (print_func(a), print_func(&renamed));
    let (removed, added) = if from.lines().count().max(to.lines().count()) > ALIGNED_LINES {
        (lines_beyond(&from, &to), lines_beyond(&to, &from))
    } else {
        aligned(&from, &to)
    };
    let first = |lines: &[String]| lines.first().map(|line| line.trim().to_owned());
    let mut change = Change::new(Kind::Changed, "loops", a.name.as_str());
    change.note = format!("lines: {} removed, {} added", removed.len(), added.len());
    let detail = Detail::new(Aspect::Fact, "first", first(&removed), first(&added));
    change.details.push(detail);
    Some(change)
}

/// The lines that only one text has where both are laid side by side.
fn aligned(from: &str, to: &str) -> (Vec<String>, Vec<String>) {
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Patience)
        .diff_lines(from, to);
    let of = |tag: ChangeTag| {
        let changes = diff.iter_all_changes().filter(|change| change.tag() == tag);
        changes.map(|change| change.value().to_owned()).collect()
    };
    (of(ChangeTag::Delete), of(ChangeTag::Insert))
}

/// The lines of `text` that `other` does not have as often.
fn lines_beyond(text: &str, other: &str) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for line in other.lines() {
        *counts.entry(line).or_default() += 1;
    }
    let mut beyond = Vec::new();
    for line in text.lines() {
        match counts.get_mut(line) {
            Some(count) if *count > 0 => *count -= 1,
            _ => beyond.push(line.to_owned()),
        }
    }
    beyond
}

//! Names of the text that a node's outputs get in place of those that came with `for_onnx`.
//!
//!     y_found = onnx.BatchNormalization(…)
//!     y_all = (y_found, mean, var)
//!     y = y_all[0]                            →      y names the output of the node, not y_found
//!     parts = onnx.Split(x, …)
//!     a = parts[0]                            →      a names the first output
//!
//! In: the bindings of the function that is exported, and the names that its text has. Out: names in place of others.

use std::collections::BTreeMap;

use irc_syntax::{Expr, ExprKind, Name, Stmt, StmtKind};

use super::Written;

/// Names in place of others.
#[derive(Clone, Debug, Default)]
pub struct Preferred {
    names: BTreeMap<Name, Name>,
    members: BTreeMap<(Name, usize), Name>,
}

impl Preferred {
    /// Those of a function, whose text has the names `written`.
    pub fn of(stmts: &[Stmt], written: &Written) -> Self {
        let mut found = Self::default();
        let mut tuples: BTreeMap<&Name, &[Expr]> = BTreeMap::new();
        let is_written = |name: &Name| written.names.contains(name);
        for stmt in stmts {
            let StmtKind::Assign { target, value, .. } = &stmt.kind else {
                continue;
            };
            let Some(name) = target.as_name() else {
                continue;
            };
            if let ExprKind::Tuple { items, .. } = &value.kind {
                tuples.insert(name, items);
            }
            if !is_written(name) {
                continue;
            }
            let other = match &value.kind {
                ExprKind::Name(other) => Some(other),
                ExprKind::Index { value, index } => {
                    let at = index.first().and_then(Expr::as_int);
                    let at = at.and_then(|at| usize::try_from(at).ok());
                    let (Some(tuple), Some(at)) = (value.as_name(), at) else {
                        continue;
                    };
                    match tuples.get(tuple) {
                        Some(items) => items.get(at).and_then(Expr::as_name),
                        None => {
                            let place = found.members.entry((tuple.clone(), at));
                            place.or_insert_with(|| name.clone());
                            None
                        }
                    }
                }
                _ => None,
            };
            if let Some(other) = other.filter(|other| !is_written(other)) {
                let place = found.names.entry(other.clone());
                place.or_insert_with(|| name.clone());
            }
        }
        found
    }

    /// The name in place of one.
    pub fn name<'n>(&'n self, name: &'n Name) -> &'n Name {
        self.names.get(name).unwrap_or(name)
    }

    /// The name of a member of a tuple.
    pub fn member(&self, tuple: &Name, at: usize) -> Option<&Name> {
        self.members.get(&(tuple.clone(), at))
    }
}

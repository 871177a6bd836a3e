//! Fresh names: legal, readable, and the same for the same input.
//!
//! A fresh name is the base made legal, or the base with the first free number: `conv1_bias`, `conv1_bias_1`.

use crate::ast::*;
use crate::token::is_legal_name;
use crate::visit::{Visit, walk_expr, walk_func, walk_module};
use std::collections::{HashMap, HashSet};

/// The names that are taken, and the numbers given out for each base.
#[derive(Clone, Debug, Default)]
pub struct NameSupply {
    taken: HashSet<Name>,
    next: HashMap<Name, u32>,
}

impl NameSupply {
    /// Nothing is taken.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every name of a module is taken: functions, parameters, bound and used names.
    pub fn of_module(module: &Module) -> Self {
        let mut supply = Self::new();
        if let Some(name) = &module.name {
            supply.take(name);
        }
        walk_module(&mut supply, module);
        supply
    }

    /// Every name of a function is taken, its own included.
    pub fn of_func(func: &Func) -> Self {
        let mut supply = Self::new();
        supply.visit_func(func);
        supply
    }

    /// Marks a name as taken.
    pub fn take(&mut self, name: &Name) {
        if !self.taken.contains(name) {
            self.taken.insert(name.clone());
        }
    }

    /// Whether a name is taken.
    pub fn is_taken(&self, name: &str) -> bool {
        self.taken.contains(name)
    }

    /// A name that is not taken, made from a base; it is taken from now on.
    pub fn fresh(&mut self, base: &str) -> Name {
        let base = legal_name(base);
        if self.taken.insert(base.clone()) {
            return base;
        }
        let mut number = self.next.get(&base).copied().unwrap_or(1);
        loop {
            let name = Name::from(format!("{base}_{number}"));
            number += 1;
            if self.taken.insert(name.clone()) {
                self.next.insert(base, number);
                return name;
            }
        }
    }
}

impl Visit for NameSupply {
    fn visit_func(&mut self, func: &Func) {
        self.take(&func.name);
        for param in &func.params {
            self.take(&param.name);
        }
        walk_func(self, func);
    }

    fn visit_expr(&mut self, expr: &Expr) {
        if let ExprKind::Name(name) = &expr.kind {
            self.take(name);
        }
        walk_expr(self, expr);
    }
}

/// The nearest legal name: other characters become `_`, a leading digit and a keyword get one in front.
pub fn legal_name(base: &str) -> Name {
    if is_legal_name(base) {
        return Name::from(base);
    }
    let keep = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut name: String = base.chars().map(keep).collect();
    if !is_legal_name(&name) {
        name.insert(0, '_');
    }
    Name::from(name)
}

//! Turns constants of rank 1 and more that operators read into weights, so that kernels read all of them from memory.
//!
//!     def main(x):                               def main(x, y_const):
//!         y = R.add(x, R.const([1.0, 2.0]))  →       y = R.add(x, y_const)
//!
//! Scalars stay inline: kernels have them as immediate values. Text, which no file of weights can hold, gets a binding
//! of its own, and so does every constant of a private function, which has no weights. Attributes, which are constants by
//! nature, are not operands and stay.

use std::collections::BTreeMap;

use irc_syntax::names::NameSupply;
use irc_syntax::{Expr, ExprKind, FuncKind, Module, Name, Param, Stmt, StmtKind, print_expr};

use super::{Changed, Pass, PassCx, set_num_input};
use crate::check::stage::Level;
use crate::check::{Type, type_to_expr};
use crate::shape::Dim;
use crate::tensor::{Tensor, parse_const};

/// Constants of an imported text have at most this many elements; the others are weights.
const MAX_IN_TEXT: usize = 1024;

/// The pass.
pub const PASS: Pass = Pass {
    name: "hoist_constants",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "constant operands become weights",
    args: &[],
};

/// Runs the pass on every graph function that is no group.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for func in module.funcs_mut() {
        if func.kind != FuncKind::Graph || func.attr("op_pattern").is_some() {
            continue;
        }
        let mut hoist = Hoist {
            names: NameSupply::of_func(func),
            made: Vec::new(),
            by_text: BTreeMap::new(),
            texts: Vec::new(),
            has_weights: !func.is_private(),
            has_bound: false,
            taken: cx
                .weights
                .iter()
                .map(|(name, _)| Name::from(name))
                .collect(),
        };
        for name in &hoist.taken {
            hoist.names.take(name);
        }
        hoist.block(&mut func.body);
        changed |= hoist.has_bound || !hoist.made.is_empty();
        if hoist.made.is_empty() {
            continue;
        }
        let num_input = cx.info.num_input(func);
        set_num_input(func, num_input.min(func.params.len()));
        for (name, tensor) in hoist.made {
            func.params
                .push(Param::new(&name, type_to_expr(&type_of(&tensor))));
            cx.weights.insert(name.as_str(), tensor);
        }
    }
    Changed::from(changed)
}

/// Makes weights of the constants of numbers that are bound by a name of their own and are too large for the text.
pub fn hoist_tables(module: &mut Module, cx: &mut PassCx) {
    for func in module.funcs_mut() {
        if func.kind != FuncKind::Graph || func.is_private() {
            continue;
        }
        let mut made = Vec::new();
        func.body.retain(|stmt| {
            let StmtKind::Assign { target, value, .. } = &stmt.kind else {
                return true;
            };
            let args = value.as_call().filter(|(path, _)| path == "R.const");
            let tensor = args.and_then(|(_, args)| parse_const(args).ok());
            let tensor =
                tensor.filter(|tensor| tensor.len() > MAX_IN_TEXT && tensor.strings.is_none());
            let (Some(name), Some(tensor)) = (target.as_name(), tensor) else {
                return true;
            };
            made.push((name.clone(), tensor));
            false
        });
        if made.is_empty() {
            continue;
        }
        let num_input = cx.info.num_input(func);
        set_num_input(func, num_input.min(func.params.len()));
        for (name, tensor) in made {
            let ty = type_to_expr(&type_of(&tensor));
            func.params.push(Param::new(&name, ty));
            cx.weights.insert(name.as_str(), tensor);
        }
    }
}

/// The type of a value of known content.
pub(super) fn type_of(tensor: &Tensor) -> Type {
    Type::tensor(
        tensor.dtype,
        tensor
            .shape
            .iter()
            .map(|&extent| Dim::from(extent))
            .collect(),
    )
}

/// Whether a constant is one of strings.
fn is_text(value: &Expr) -> bool {
    let args = value.as_call().map(|(_, args)| args);
    args.and_then(|args| parse_const(args).ok())
        .is_some_and(|tensor| tensor.strings.is_some())
}

struct Hoist {
    names: NameSupply,
    made: Vec<(Name, Tensor)>,
    by_text: BTreeMap<String, Name>,
    taken: Vec<Name>,
    /// Bindings of what is no weight, which go before the statement at hand.
    texts: Vec<Stmt>,
    /// Whether constants may become weights.
    has_weights: bool,
    /// Whether there has been such a binding.
    has_bound: bool,
}

impl Hoist {
    fn block(&mut self, stmts: &mut Vec<Stmt>) {
        let mut res = Vec::with_capacity(stmts.len());
        for mut stmt in std::mem::take(stmts) {
            self.statement(&mut stmt);
            res.append(&mut self.texts);
            res.push(stmt);
        }
        *stmts = res;
    }

    fn statement(&mut self, stmt: &mut Stmt) {
        match &mut stmt.kind {
            StmtKind::If { then, orelse, .. } => {
                self.block(then);
                self.block(orelse);
            }
            StmtKind::Assign { target, value, .. } => {
                let base = target
                    .as_name()
                    .map_or("const", |name| name.as_str())
                    .to_owned();
                if value.is_call_of("R.const") {
                    if self.has_weights && !is_text(value) {
                        self.operand(value, &base);
                    }
                    return;
                }
                match &mut value.kind {
                    ExprKind::Call { args, .. } => {
                        for arg in args.iter_mut().filter(|arg| arg.name.is_none()) {
                            self.operand(&mut arg.value, &base);
                        }
                    }
                    ExprKind::Tuple { items, .. } => {
                        items.iter_mut().for_each(|item| self.operand(item, &base));
                    }
                    _ => {}
                }
            }
            StmtKind::Return(Some(value)) => self.operand(value, "result"),
            _ => {}
        }
    }

    /// Replaces a constant, or the constants of a tuple of operands.
    fn operand(&mut self, value: &mut Expr, base: &str) {
        if let ExprKind::Tuple { items, .. } | ExprKind::List(items) = &mut value.kind {
            items.iter_mut().for_each(|item| self.operand(item, base));
            return;
        }
        if !value.is_call_of("R.const") {
            return;
        }
        let ExprKind::Call { args, .. } = &value.kind else {
            return;
        };
        let Ok(tensor) = parse_const(args) else {
            return;
        };
        if tensor.shape.is_empty() {
            return;
        }
        if tensor.strings.is_some() || !self.has_weights {
            self.has_bound = true;
            let name = self.names.fresh(&format!("{base}_const"));
            self.texts.push(Stmt::bind(&name, value.clone()));
            *value = Expr::name(name).at(value.span);
            return;
        }
        let text = print_expr(value);
        let name = match self.by_text.get(&text) {
            Some(name) => name.clone(),
            None => {
                let name = self.names.fresh(&format!("{base}_const"));
                self.by_text.insert(text, name.clone());
                self.made.push((name.clone(), tensor));
                name
            }
        };
        *value = Expr::name(name).at(value.span);
    }
}

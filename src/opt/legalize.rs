//! Expands every composite operator into primitives, by evaluating its function of the library.
//!
//!     y = R.nn.relu(x)      →      y = R.maximum(x, R.const(0.0, "float32"))
//!
//! Names of new values are made from the name of the result. Needs normal form; after it every call of an operator is one of
//! a primitive. A call whose template cannot be evaluated is reported at its place, all of them in one run.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::{bound_names, substitute_stmt};
use irc_syntax::{Diagnostic, Expr, ExprKind, Func, FuncKind, Item, Module, Name, Stmt, StmtKind};

use super::{Changed, Pass, PassCx};
use crate::check::expand::{Depth, Expander, Expansion};
use crate::check::prim::{self, Prim};
use crate::check::stage::Level;
use crate::check::{FuncInfo, FuncScope};

/// The pass.
pub const PASS: Pass = Pass {
    name: "legalize",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "expand composite operators into primitives",
    args: &[],
};

/// Runs the pass on every graph function.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let wanted =
        |path: &str, call: &Expr| Prim::find(path).is_none() || prim::is_library_form(path, call);
    expand_calls(module, cx, Depth::Full, &wanted)
}

/// Replaces the calls of library functions that `wanted` chooses by what they come to.
pub(super) fn expand_calls(
    module: &mut Module,
    cx: &mut PassCx,
    depth: Depth,
    wanted: &dyn Fn(&str, &Expr) -> bool,
) -> Changed {
    let mut changed = false;
    let mut made = MadeFuncs::new(module);
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph)
    {
        let info = cx.info.funcs.get(&func.name).cloned().unwrap_or_default();
        let mut expand = Expand {
            expander: Expander::new(cx.lib),
            names: NameSupply::of_func(func),
            scope: FuncScope::new(info),
            depth,
            wanted,
            made: &mut made,
            func: func.name.clone(),
            changed: false,
            diags: Vec::new(),
        };
        let body = std::mem::take(&mut func.body);
        func.body = expand.block(body);
        changed |= expand.changed;
        cx.diags.append(&mut expand.diags);
    }
    made.add_to(module);
    Changed::from(changed)
}

/// Functions that expansions made: bodies of loops.
#[derive(Clone)]
pub(super) struct MadeFuncs {
    taken: BTreeSet<Name>,
    funcs: Vec<Func>,
}

impl MadeFuncs {
    /// None yet, beside those of a module.
    pub(super) fn new(module: &Module) -> Self {
        Self {
            taken: module.funcs().map(|func| func.name.clone()).collect(),
            funcs: Vec::new(),
        }
    }

    /// A name for a function, made from that of the function that calls it.
    pub(super) fn name(&mut self, caller: &Name, base: &str) -> Name {
        let base = irc_syntax::names::legal_name(&format!("{caller}_{base}"));
        let (mut name, mut number) = (base.clone(), 0);
        while !self.taken.insert(name.clone()) {
            number += 1;
            name = Name::from(format!("{base}_{number}"));
        }
        name
    }

    /// Takes the functions of an expansion, under names of the module.
    pub(super) fn take(&mut self, expansion: &mut Expansion, caller: &Name) {
        expansion.name_funcs(&mut |name| self.name(caller, name));
        self.funcs.append(&mut expansion.funcs);
    }

    /// Takes one function, under a name of the module.
    pub(super) fn push(&mut self, func: Func) {
        self.funcs.push(func);
    }

    /// Puts them before the functions of the module.
    pub(super) fn add_to(self, module: &mut Module) {
        let at = module
            .items
            .iter()
            .position(|item| matches!(item, Item::Func(_)))
            .unwrap_or(0);
        let funcs = self.funcs.into_iter().map(Item::Func);
        module.items.splice(at..at, funcs);
    }
}

struct Expand<'a> {
    expander: Expander<'a>,
    names: NameSupply,
    scope: FuncScope,
    depth: Depth,
    wanted: &'a dyn Fn(&str, &Expr) -> bool,
    made: &'a mut MadeFuncs,
    func: Name,
    changed: bool,
    diags: Vec<Diagnostic>,
}

impl Expand<'_> {
    fn block(&mut self, stmts: Vec<Stmt>) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(stmts.len());
        for mut stmt in stmts {
            match stmt.kind {
                StmtKind::If {
                    cond,
                    then,
                    orelse,
                    else_trivia,
                } => {
                    let then = self.block(then);
                    let orelse = self.block(orelse);
                    stmt.kind = StmtKind::If {
                        cond,
                        then,
                        orelse,
                        else_trivia,
                    };
                    out.push(stmt);
                }
                StmtKind::Assign {
                    ref target,
                    ref value,
                    ..
                } => {
                    let is_wanted = value.as_call().is_some_and(|(path, _)| {
                        self.expander.library().has(&path) && (self.wanted)(&path, value)
                    });
                    if is_wanted {
                        let (target, value) = (target.clone(), value.clone());
                        self.expand(stmt, &target, &value, &mut out);
                    } else {
                        out.push(stmt);
                    }
                }
                _ => out.push(stmt),
            }
        }
        out
    }

    fn expand(&mut self, stmt: Stmt, target: &Expr, value: &Expr, out: &mut Vec<Stmt>) {
        let base = bound_names(target)
            .first()
            .map_or("lv", |name| name.as_str())
            .to_owned();
        let expansion =
            self.expander
                .expand(value, &base, self.depth, &mut self.scope, &mut self.names);
        let expansion = match (expansion, target.as_name()) {
            (Ok(mut expansion), name) => {
                self.made.take(&mut expansion, &self.func);
                match name {
                    Some(name) => expansion.bind_to(name),
                    None => expansion,
                }
            }
            (Err(diag), _) => {
                self.diags.push(diag);
                return;
            }
        };
        self.changed = true;
        for (name, ty) in expansion.types {
            self.scope.define(&name, ty);
        }
        let first = out.len();
        out.extend(expansion.stmts);
        if target.as_name().is_none() {
            self.bind_members(target, expansion.result, out);
        }
        if let Some(head) = out.get_mut(first) {
            head.trivia.leading.splice(0..0, stmt.trivia.leading);
        }
        if let (Some(last), Some(comment)) = (out.last_mut(), stmt.trivia.trailing) {
            last.trivia.trailing.get_or_insert(comment);
        }
    }

    /// `a, b = (x, y)` as two bindings, or by renaming what made x and y.
    fn bind_members(&mut self, target: &Expr, result: Expr, out: &mut Vec<Stmt>) {
        let names = bound_names(target);
        let ExprKind::Tuple { items, .. } = result.kind else {
            out.push(Stmt::assign(target.clone(), result).at(target.span));
            return;
        };
        let mut renamed: BTreeMap<Name, Expr> = BTreeMap::new();
        for (name, item) in names.iter().zip(items) {
            let made_here = item.as_name().filter(|made| {
                !renamed.contains_key(*made)
                    && out.iter().any(|stmt| {
                        matches!(&stmt.kind, StmtKind::Assign { target, .. }
                        if target.as_name() == Some(made))
                    })
                    && !names.contains(made)
            });
            let made = item.as_name().and_then(|made| self.scope.var(made));
            if let Some(ty) = made.cloned() {
                self.scope.define(name, ty);
            }
            match made_here.cloned() {
                Some(made) if !is_param(&self.scope.info, &made) => {
                    renamed.insert(made.clone(), Expr::name(name));
                    rename(out, &made, name);
                }
                _ => out.push(Stmt::bind(name, item).at(target.span)),
            }
        }
    }
}

fn is_param(info: &FuncInfo, name: &Name) -> bool {
    info.params.iter().any(|(param, _)| param == name)
}

/// Renames a value in the statements made for one call: its binding and its later reads.
fn rename(out: &mut [Stmt], from: &Name, to: &Name) {
    let map = BTreeMap::from([(from.clone(), Expr::name(to))]);
    let start = out.iter().position(|stmt| {
        matches!(&stmt.kind, StmtKind::Assign { target, .. } if target.as_name() == Some(from))
    });
    let Some(start) = start else { return };
    for stmt in &mut out[start..] {
        substitute_stmt(stmt, &map);
        if let StmtKind::Assign { target, .. } = &mut stmt.kind
            && target.as_name() == Some(from)
        {
            *target = Expr::name(to).at(target.span);
        }
    }
}

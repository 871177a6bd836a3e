//! Says imported operators in terms of `R.*`: one level of expansion of every `onnx.*` call that std does not keep.
//!
//!     y = onnx.Conv(x, w, b, strides=[2, 2], since=11)     y_conv2d = R.nn.conv2d(x, w, strides=[2, 2], …)
//!                                                     →    y = R.add(y_conv2d, y_reshape)
//!
//! Composites of `R` stay calls, so the text reads as one would write it. Operators marked `keep=True` in std stay
//! `onnx.*` calls until `legalize`. In an imported text an operator that takes several of `R` stays a call as well, where
//! nothing that follows has to see into it (`lift_calls`); the pipeline of a build lifts those too.
//!
//! A function is lifted in order, and types and small constants are followed on the way: a model's shapes, axes
//! and pads are often the end of a chain of operators on constants, which is computed here. An `if` on a known
//! condition is its branch, and what follows an `if` that gives another number of axes in each branch moves into
//! both (`lift_branches`). So this pass needs no types beforehand; it leaves those it found in `cx.info`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use irc_syntax::uses::{bound_names, for_each_expr, substitute_stmt};
use irc_syntax::{
    Diagnostic, Expr, ExprKind, Func, FuncKind, Item, Module, Name, NameSupply, Stmt, StmtKind,
};

use super::legalize::MadeFuncs;
use super::lift_calls::symbols;
use super::lift_ranks::operands;
use super::normalize::is_attribute_call;
use super::{Changed, Pass, PassCx, dead_code, graph};
use crate::check::expand::{Depth, Expander, Expansion};
use crate::check::prim::{self, Prim, Scope};
use crate::check::stage::Level;
use crate::check::{self, FuncInfo, FuncScope, Type};
use crate::interp::{Value, eval_prim};
use crate::tensor::{Tensor, parse_const, print_const};

/// Constants of up to this many elements are followed.
const MAX_FOLLOWED: usize = 1024;
/// How many statements of a function may be lifted more than once.
const MAX_REPEATED: usize = 100_000;
/// How many elements a constant in the text may have.
const MAX_INLINE: usize = 16;

/// The pass.
pub const PASS: Pass = Pass {
    name: "lift",
    run,
    from: Level::Graph,
    to: Level::Graph,
    summary: "expand imported operators into R.* calls",
    args: &[],
};

/// Which operators of an imported text become `R.*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifted {
    /// All.
    Every,
    /// Those that are one operator of `R`, and those that others have to see into.
    Plain,
}

/// Runs the pass on every graph function that calls an operator of ONNX.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    run_imported(module, cx, &BTreeMap::new(), Lifted::Every)
}

/// Runs the pass on an imported module; `origins` says what each binding was in the file.
pub fn run_imported(
    module: &mut Module,
    cx: &mut PassCx,
    origins: &BTreeMap<Name, String>,
    lifted: Lifted,
) -> Changed {
    let heads = check_heads(module, cx);
    let mut changed = false;
    let mut made = MadeFuncs::new(module);
    for func in module.funcs_mut() {
        let is_wanted = has_onnx(&func.body)
            || cx
                .info
                .funcs
                .get(&func.name)
                .is_some_and(|info| computes_unranked(&func.body, info));
        if func.kind != FuncKind::Graph || !is_wanted {
            continue;
        }
        let info = heads.funcs.get(&func.name).cloned().unwrap_or_default();
        let mut lift = Lift {
            expander: Expander::new(cx.lib),
            names: NameSupply::of_func(func),
            scope: FuncScope::new(info),
            alias: BTreeMap::new(),
            diags: Vec::new(),
            origins,
            made: &mut made,
            func: func.name.clone(),
            bodies: BTreeMap::new(),
            truths: BTreeMap::new(),
            copies: BTreeMap::new(),
            ranked: BTreeSet::new(),
            budget: MAX_REPEATED,
            lifted,
        };
        lift.scope.take(graph::names_of(func));
        let body = std::mem::take(&mut func.body);
        func.body = lift.block(body, &BTreeSet::new());
        changed = true;
        cx.diags.append(&mut lift.diags);
        cx.info.funcs.insert(func.name.clone(), lift.scope.info);
    }
    made.add_to(module);
    if changed && cx.diags.is_empty() {
        dead_code::run(module, cx);
    }
    Changed::from(changed)
}

/// The types of parameters and the facts on declared symbols: what the checker says of functions without bodies.
fn check_heads(module: &Module, cx: &PassCx) -> check::Info {
    let mut heads = module.clone();
    heads.items.retain(|item| matches!(item, Item::Func(_)));
    for func in heads.funcs_mut() {
        func.body.retain(|stmt| match &stmt.kind {
            StmtKind::Assign { value, .. } => value.is_call_of("T.int64"),
            StmtKind::Expr(value) => value.is_call_of("R.func_attr"),
            _ => false,
        });
    }
    check::check(&heads, cx.lib).0
}

fn has_onnx(stmts: &[Stmt]) -> bool {
    let mut found = false;
    for_each_expr(stmts, &mut |expr| {
        found |= expr
            .as_call()
            .is_some_and(|(path, _)| path.starts_with("onnx."));
    });
    found
        || stmts
            .iter()
            .any(|stmt| matches!(stmt.kind, StmtKind::Func(_)))
}

/// Whether an operator computes with a value whose rank is not known.
fn computes_unranked(stmts: &[Stmt], info: &FuncInfo) -> bool {
    let is_unranked = |name: &Name| {
        let ty = info.vars.get(name).and_then(Type::as_tensor);
        ty.is_some_and(|ty| ty.ndim.is_none() && ty.dtype.is_some())
    };
    let mut found = false;
    for_each_expr(stmts, &mut |expr| {
        let computes = expr.as_call().is_some_and(|(path, _)| {
            let is_operator = Prim::find(&path).is_none_or(Prim::is_plain);
            is_operator && path.starts_with("R.") && !is_attribute_call(&path)
        });
        found |= computes && operands(expr).into_iter().any(is_unranked);
    });
    found
}

pub(super) struct Lift<'a> {
    pub(super) expander: Expander<'a>,
    pub(super) names: NameSupply,
    /// The names met so far, with the values of small constants.
    pub(super) scope: FuncScope,
    /// Names that are other names.
    pub(super) alias: BTreeMap<Name, Expr>,
    pub(super) diags: Vec<Diagnostic>,
    pub(super) origins: &'a BTreeMap<Name, String>,
    pub(super) made: &'a mut MadeFuncs,
    pub(super) func: Name,
    /// Functions inside the function whose call has not been met yet: bodies of loops, and what is differentiated.
    pub(super) bodies: BTreeMap<Name, Func>,
    /// Names that are one truth value seen as another tensor: what it is, and whether it is negated.
    pub(super) truths: BTreeMap<Name, (Name, bool)>,
    /// Names of the second copy of a statement, with those of the first.
    pub(super) copies: BTreeMap<Name, Name>,
    /// Names that a choice by rank gives.
    pub(super) ranked: BTreeSet<Name>,
    /// How many statements may yet be lifted more than once.
    pub(super) budget: usize,
    /// Which operators are lifted.
    pub(super) lifted: Lifted,
}

/// What lifting changes, to go back to.
#[derive(Clone)]
pub(super) struct State {
    pub(super) scope: FuncScope,
    names: NameSupply,
    alias: BTreeMap<Name, Expr>,
    made: MadeFuncs,
    pub(super) bodies: BTreeMap<Name, Func>,
    truths: BTreeMap<Name, (Name, bool)>,
}

impl Lift<'_> {
    pub(super) fn save(&self) -> State {
        State {
            scope: self.scope.clone(),
            names: self.names.clone(),
            alias: self.alias.clone(),
            made: self.made.clone(),
            bodies: self.bodies.clone(),
            truths: self.truths.clone(),
        }
    }

    pub(super) fn restore(&mut self, state: State) {
        self.scope = state.scope;
        self.names = state.names;
        self.alias = state.alias;
        *self.made = state.made;
        self.bodies = state.bodies;
        self.truths = state.truths;
    }

    /// Forgets what names stand for in a branch that has been lifted.
    pub(super) fn leave_branch(&mut self, before: &State) {
        self.alias.clone_from(&before.alias);
        self.truths.clone_from(&before.truths);
        self.bodies.clone_from(&before.bodies);
    }

    /// A block, whose names in `live` are wanted after it.
    pub(super) fn block(&mut self, stmts: Vec<Stmt>, live: &BTreeSet<Name>) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(stmts.len());
        let mut queue = VecDeque::from(stmts);
        while let Some(mut stmt) = queue.pop_front() {
            // What is returned keeps its name: it is the output's.
            if !matches!(stmt.kind, StmtKind::If { .. } | StmtKind::Return(_)) {
                substitute_stmt(&mut stmt, &self.alias);
            }
            match stmt.kind {
                StmtKind::If { .. } => self.branch(stmt, &mut queue, live, &mut out),
                _ => self.with_ranks(stmt, &mut queue, &mut out),
            }
        }
        out
    }

    /// A statement that is no choice.
    pub(super) fn single(&mut self, stmt: Stmt, out: &mut Vec<Stmt>) {
        let StmtKind::Assign { target, value, .. } = &stmt.kind else {
            match stmt.kind {
                StmtKind::Func(func) => {
                    self.bodies.insert(func.name.clone(), *func);
                }
                _ => self.keep(stmt, out),
            }
            return;
        };
        let (target, value) = (target.clone(), value.clone());
        if self.is_open_loop(&value) {
            self.close_loop(&target, &value, out);
        } else if self.is_open_gradient(&value) {
            self.close_gradient(&target, &value, out);
        } else if self.is_wanted(&value) {
            self.expand(stmt, &target, &value, out);
        } else {
            self.keep(stmt, out);
        }
    }

    fn is_wanted(&self, value: &Expr) -> bool {
        let Some((path, _)) = value.as_call() else {
            return false;
        };
        let since = value.keyword("since").and_then(Expr::as_int);
        let since = since.and_then(|since| u32::try_from(since).ok());
        (path.starts_with("onnx.") || path.starts_with("std."))
            && self
                .expander
                .library()
                .find(&path, since)
                .is_some_and(|template| {
                    let keep = template.func.decorator_arg("keep");
                    keep.is_none_or(|keep| keep.kind != ExprKind::Bool(true))
                })
    }

    /// A statement that stays; its names get types, and a value where that is known.
    pub(super) fn keep(&mut self, mut stmt: Stmt, out: &mut Vec<Stmt>) {
        if let StmtKind::Assign { target, value, .. } = &mut stmt.kind
            && let Some(name) = target.as_name().cloned()
        {
            if let Some(tensor) = self.evaluate(value) {
                if tensor.len() <= MAX_INLINE && tensor.strings.is_none() {
                    *value = print_const(&tensor).at(value.span);
                }
                self.scope.know(&name, tensor);
            } else if let ExprKind::Name(other) = &value.kind {
                if let Some(tensor) = self.scope.known(other).cloned() {
                    self.scope.know(&name, tensor);
                }
                self.alias.insert(name.clone(), Expr::name(other));
            }
            if self.scope.var(&name).is_none() {
                let ty = self.type_of(&name, value);
                self.scope.define(&name, ty);
            }
            self.note_truth(&name, value);
        }
        out.push(stmt);
    }

    /// The type of a value; that of a composite is its expansion's, which is made for its type only.
    fn type_of(&mut self, name: &Name, value: &Expr) -> Type {
        let is_composite = value.as_call().is_some_and(|(path, _)| {
            let is_primitive = Prim::find(&path).is_some() && !prim::is_library_form(&path, value);
            !is_primitive && self.expander.library().find(&path, None).is_some()
        });
        if !is_composite {
            return self.scope.type_of(value);
        }
        let mut names = self.names.clone();
        self.expander
            .expand(
                value,
                name.as_str(),
                Depth::OneLevel,
                &mut self.scope,
                &mut names,
            )
            .map_or(Type::Error, |expansion| expansion.ty)
    }

    /// The value of a constant, or of a primitive whose operands are all known.
    fn evaluate(&self, value: &Expr) -> Option<Tensor> {
        let (path, args) = value.as_call()?;
        if path == "R.const" {
            return parse_const(args)
                .ok()
                .filter(|tensor| tensor.len() <= MAX_FOLLOWED);
        }
        let prim = Prim::find(&path).filter(|prim| is_followed(*prim))?;
        let call = prim::bind(prim, value).ok()?;
        let operands: Option<Vec<Value>> = call
            .operands()
            .into_iter()
            .map(|operand| self.operand(operand))
            .collect();
        match eval_prim(&call, &operands?, &|_| None).ok()? {
            Value::Tensor(tensor) => Some(tensor).filter(|tensor| tensor.len() <= MAX_FOLLOWED),
            _ => None,
        }
    }

    pub(super) fn operand(&self, operand: &Expr) -> Option<Value> {
        match &operand.kind {
            ExprKind::Name(name) => self.scope.known(name).cloned().map(Value::Tensor),
            ExprKind::Call { args, .. } if operand.is_call_of("R.const") => {
                parse_const(args).ok().map(Value::Tensor)
            }
            ExprKind::Int(value) => i64::try_from(*value).ok().map(Value::Int),
            ExprKind::Float(value) => Some(Value::Float(*value)),
            ExprKind::Bool(value) => Some(Value::Bool(*value)),
            ExprKind::None => Some(Value::None),
            _ => None,
        }
    }

    /// Puts what a call comes to in its place.
    pub(super) fn expand(&mut self, stmt: Stmt, target: &Expr, value: &Expr, out: &mut Vec<Stmt>) {
        let bound = bound_names(target);
        let base = bound.first().map_or("lv", |name| name.as_str()).to_owned();
        // What follows from a fault is none of its own.
        let is_faulty = |name: &&Name| self.scope.var(name) == Some(&Type::Error);
        if !self.diags.is_empty() && operands(value).iter().any(is_faulty) {
            for name in bound {
                self.scope.define(&name, Type::Error);
            }
            return;
        }
        let facts = match self.lifted {
            Lifted::Plain => Some(self.scope.info.facts.clone()),
            Lifted::Every => None,
        };
        let expansion = self.expander.expand(
            value,
            &base,
            Depth::OneLevel,
            &mut self.scope,
            &mut self.names,
        );
        self.scope
            .facts()
            .symbols()
            .for_each(|(symbol, _)| self.names.take(symbol));
        let expansion = match expansion {
            Ok(expansion)
                if facts
                    .as_ref()
                    .is_some_and(|facts| self.stays_call(value, &expansion, facts)) =>
            {
                // What came to be known on the way is of names that the text does not have.
                let facts = facts.unwrap_or_default();
                let born = std::mem::replace(&mut self.scope.info.facts, facts);
                let born = &symbols(&born) - &symbols(self.scope.facts());
                match self.in_newer(target, value, &base) {
                    Some(newer) => newer,
                    None => {
                        self.keep_call(stmt, &bound, expansion.ty, &born, out);
                        return;
                    }
                }
            }
            Ok(mut expansion) => {
                self.made.take(&mut expansion, &self.func);
                expansion
            }
            Err(mut diag) => {
                // The model is sound, and what its operator needs is known at run time only.
                if diag.code == "type-unknown" {
                    diag.code = "onnx-unsupported";
                }
                let diag = at_binding(diag, &base, value);
                let first = bound.first();
                let first = first.map(|name| self.copies.get(name).unwrap_or(name));
                let origin = first.and_then(|name| self.origins.get(name));
                self.diags.push(match origin {
                    Some(origin) => diag.note(format!("this is {origin} of the model")),
                    None => diag,
                });
                for name in bound {
                    self.scope.define(&name, Type::Error);
                }
                return;
            }
        };
        let first = out.len();
        match target.as_name() {
            Some(name) => self.take(expansion.bind_to(name), out),
            None => self.take_members(&bound, expansion, out),
        }
        if let Some(head) = out.get_mut(first) {
            head.trivia.leading.splice(0..0, stmt.trivia.leading);
        }
        if let (Some(last), Some(comment)) = (out.last_mut(), stmt.trivia.trailing) {
            last.trivia.trailing.get_or_insert(comment);
        }
    }

    /// The bindings of an expansion, each looked at for its value.
    pub(super) fn take(&mut self, expansion: Expansion, out: &mut Vec<Stmt>) {
        for (name, ty) in expansion.types {
            self.scope.define(&name, ty);
        }
        for mut stmt in expansion.stmts {
            substitute_stmt(&mut stmt, &self.alias);
            match &stmt.kind {
                // An operator of ONNX that is said in terms of another.
                StmtKind::Assign { target, value, .. } if self.is_wanted(value) => {
                    let (target, value) = (target.clone(), value.clone());
                    self.expand(stmt, &target, &value, out);
                }
                _ => self.keep(stmt, out),
            }
        }
    }

    /// `a, b = (x, y)` as two bindings.
    fn take_members(&mut self, bound: &[Name], expansion: Expansion, out: &mut Vec<Stmt>) {
        let (result, ty) = (expansion.result.clone(), expansion.ty.clone());
        self.take(expansion, out);
        let types = if let Type::Tuple(types) = ty {
            types
        } else {
            Vec::new()
        };
        for (at, name) in bound.iter().enumerate() {
            let item = match &result.kind {
                ExprKind::Tuple { items, .. } | ExprKind::List(items) => items.get(at).cloned(),
                _ => Some(Expr::index(result.clone(), [Expr::int(at as i128)])),
            };
            self.scope
                .define(name, types.get(at).cloned().unwrap_or(Type::Any));
            let item = item.unwrap_or_else(Expr::none);
            self.keep(Stmt::bind(name, item).at(result.span), out);
        }
    }
}

/// Says at which binding of the model a template's fault is; an imported text has no places yet.
fn at_binding(diag: Diagnostic, base: &str, value: &Expr) -> Diagnostic {
    let op = value.as_call().map(|(path, _)| path).unwrap_or_default();
    let message = format!("`{base} = {op}(…)`: {}", diag.message);
    if value.span.is_some() {
        diag
    } else {
        Diagnostic { message, ..diag }
    }
}

/// Plain primitives; what is a shape stays one.
fn is_followed(prim: Prim) -> bool {
    prim.is_plain() && prim != Prim::ShapeToTensor
}

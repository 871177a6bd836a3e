//! The checker's walk over a module: a type for every name, and every fault in one run.
//!
//! Graph functions are walked in order; each binding's type is that of its value, narrowed by its annotation. An
//! extent that an annotation states and that cannot be decided is a fact from there on, checked at run time.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::uses::for_each_expr;
use irc_syntax::{
    DType, Diagnostic, Expr, ExprKind, Func, FuncKind, Item, Module, Name, Span, Stmt, StmtKind,
};

use super::agree::{agree, join};
use super::expand::symbols_of;
use super::prim::{Prim, Scope};
use super::scope::GraphScope;
use super::signature::{Signature, signature, signatures};
use super::stated::{state_fact, state_facts};
use super::types::{FuncInfo, Info, TensorType, Type};
use super::{annotation, loops};
use crate::library::Library;
use crate::shape::Dim;

/// Checks a module: the types of its names, and every fault in it, by place.
pub fn check(module: &Module, lib: &Library) -> (Info, Vec<Diagnostic>) {
    let mut faults = Vec::new();
    let mut signatures = signatures(module, &mut faults);
    let outer = symbols_of_prelude(module);
    let lost = module
        .items
        .iter()
        .any(|item| matches!(item, Item::Stmt(stmt) if stmt.kind == StmtKind::Error));
    let mut info = Info::default();
    for func in in_order(module) {
        let Some(signature) = signatures.get(&func.name) else {
            continue;
        };
        let found = match func.kind {
            FuncKind::Graph | FuncKind::Local => {
                let mut walk = Walk::new(func, signature, lib, &signatures, &outer);
                walk.scope.broken = lost || is_broken(&func.body);
                walk.run(func);
                faults.append(&mut walk.scope.faults);
                walk.into_info()
            }
            FuncKind::Loops => loops::check(func, signature, &outer, &mut faults),
        };
        // What is not annotated is what the body gives.
        let unstated = signatures
            .get_mut(&func.name)
            .filter(|own| own.ret.is_none());
        if let (Some(own), Some(ret)) = (unstated, &found.ret)
            && !matches!(ret, Type::Error | Type::Any)
        {
            own.ret = Some(ret.clone());
        }
        info.funcs.entry(func.name.clone()).or_insert(found);
    }
    let place = |fault: &Diagnostic| {
        fault
            .primary
            .as_ref()
            .map(|label| (label.span.file, label.span.lo))
    };
    faults.sort_by_key(place);
    (info, faults)
}

/// The functions as written, but those without an annotated result before the functions that call them.
fn in_order(module: &Module) -> Vec<&Func> {
    let mut order = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open: Vec<(&Func, bool)> = module.funcs().map(|func| (func, false)).collect();
    open.reverse();
    while let Some((func, callees_done)) = open.pop() {
        if callees_done {
            order.push(func);
            continue;
        }
        // The place in the text tells two functions of one name apart; both are walked.
        if !seen.insert(std::ptr::from_ref(func)) {
            continue;
        }
        open.push((func, true));
        let mut called = BTreeSet::new();
        for_each_expr(&func.body, &mut |expr| {
            let path = expr.as_path();
            called.extend(path.and_then(|path| path.strip_prefix("cls.").map(Name::from)));
        });
        let unstated = module.funcs().filter(|callee| {
            callee.kind == FuncKind::Graph && callee.ret.is_none() && called.contains(&callee.name)
        });
        open.extend(unstated.map(|callee| (callee, false)));
    }
    order
}

/// Whether a statement of a body did not parse.
pub(super) fn is_broken(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Error => true,
        StmtKind::If { then, orelse, .. } => is_broken(then) || is_broken(orelse),
        StmtKind::For { body, .. } | StmtKind::While { body, .. } | StmtKind::With { body, .. } => {
            is_broken(body)
        }
        StmtKind::Func(func) => is_broken(&func.body),
        StmtKind::Assign { .. }
        | StmtKind::Declare { .. }
        | StmtKind::Expr(_)
        | StmtKind::Return(_)
        | StmtKind::Assert { .. }
        | StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Pass
        | StmtKind::Import(_) => false,
    })
}

/// `n = TypeVar("n")` before the module.
fn symbols_of_prelude(module: &Module) -> Vec<Name> {
    let symbol = |stmt: &Stmt| match &stmt.kind {
        StmtKind::Assign { target, value, .. }
            if value
                .as_call()
                .is_some_and(|(path, _)| path.ends_with("TypeVar")) =>
        {
            target.as_name().cloned()
        }
        _ => None,
    };
    module.prelude.iter().filter_map(symbol).collect()
}

/// One graph function being walked.
struct Walk<'a> {
    scope: GraphScope<'a>,
    lib: &'a Library,
    signatures: &'a BTreeMap<Name, Signature>,
    outer: &'a [Name],
    params: Vec<(Name, Type)>,
    ret: Option<Type>,
    ret_span: Option<Span>,
    num_input: usize,
    /// Extents that have to be equal, by binding.
    checks: BTreeMap<Name, Vec<(Dim, Dim)>>,
    /// Every name ever bound, branches included.
    all: BTreeMap<Name, Type>,
}

impl<'a> Walk<'a> {
    fn new(
        func: &Func,
        signature: &Signature,
        lib: &'a Library,
        signatures: &'a BTreeMap<Name, Signature>,
        outer: &'a [Name],
    ) -> Self {
        let mut walk = Self {
            scope: GraphScope::new(lib, signatures),
            lib,
            signatures,
            outer,
            params: signature.params.clone(),
            ret: signature.ret.clone(),
            ret_span: func.ret.as_ref().and_then(|ret| ret.span),
            num_input: func.params.len(),
            checks: BTreeMap::new(),
            all: BTreeMap::new(),
        };
        if let Some(count) = func.attr("num_input").and_then(Expr::as_int) {
            walk.num_input = usize::try_from(count).unwrap_or(0).min(func.params.len());
        }
        walk
    }

    fn run(&mut self, func: &Func) {
        // Names that are bound further down, too.
        let mut bound = Vec::new();
        bound_in(&func.body, &mut bound);
        self.scope.reserve(bound);
        for name in self.outer {
            self.scope.declare_symbol(name);
        }
        let mut seen: BTreeMap<&Name, Option<Span>> = BTreeMap::new();
        for (param, (name, ty)) in func.params.iter().zip(self.params.clone()) {
            if let Some(first) = seen.insert(&param.name, param.span) {
                self.scope.faults.push(
                    Diagnostic::error(
                        "duplicate-name",
                        format!("parameter `{name}` is there twice"),
                    )
                    .at(param.span, "again here")
                    .related(first, "first here"),
                );
            }
            if matches!(ty, Type::Scalar(dtype) if dtype.is_int()) {
                self.scope.declare_symbol(&name);
                self.scope.facts.set_any_sign(&name);
            }
            self.define(&name, ty);
        }
        state_facts(
            func.attr("irc.dims"),
            &mut self.scope.facts,
            &mut self.scope.faults,
        );
        self.block(&func.body);
        let pure = !func
            .decorator_arg("pure")
            .is_some_and(|pure| pure.kind == ExprKind::Bool(false));
        let forced = func.attr("relax.force_pure").is_some();
        if pure && !forced {
            for (span, callee) in std::mem::take(&mut self.scope.effects) {
                self.scope.faults.push(
                    Diagnostic::error(
                        "impure-call",
                        format!(
                            "`{}` is pure and calls `{callee}`, which has effects",
                            func.name
                        ),
                    )
                    .at(span, "this has effects")
                    .related(func.name_span, "the function")
                    .help("write `@R.function(pure=False)`", None),
                );
            }
        }
    }

    fn into_info(self) -> FuncInfo {
        let mut vars = self.all;
        for (name, ty) in self.scope.vars {
            vars.insert(name, ty);
        }
        FuncInfo {
            params: self.params,
            ret: self.ret,
            vars,
            facts: self.scope.facts,
            checks: self.checks,
            num_input: self.num_input,
        }
    }

    fn define(&mut self, name: &Name, ty: Type) {
        self.all.insert(name.clone(), ty.clone());
        self.scope.define(name, ty);
    }

    fn block(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Assign { target, ty, value } => {
                self.scope.facts.take_undecided();
                self.assign(target, ty.as_ref(), value);
                // A cast is the check itself.
                if !value.is_call_of("R.match_cast") {
                    self.note_checks(first_name(target));
                }
            }
            StmtKind::If {
                cond, then, orelse, ..
            } => self.branch(stmt, cond, then, orelse),
            StmtKind::With { context, body, .. } => {
                if !context.is_call_of("R.dataflow") {
                    self.scope.report(
                        Diagnostic::error(
                            "bad-statement",
                            "a block of a graph function is `with R.dataflow():`",
                        )
                        .at(context.span, "not a dataflow block"),
                    );
                }
                self.block(body);
            }
            StmtKind::Return(value) => {
                self.scope.facts.take_undecided();
                self.give_back(value.as_ref(), stmt.span);
                self.note_checks(Some(Name::from("return")));
            }
            StmtKind::Expr(value) => self.effect(value),
            StmtKind::Func(func) => self.inner(func),
            StmtKind::Declare { target, ty } => {
                let ty = self.scope.annotation(ty);
                let ty = ty.unwrap_or_else(|fault| self.scope.report(fault));
                if let Some(name) = target.as_name() {
                    self.define(name, ty);
                }
            }
            StmtKind::Assert { cond, .. } => {
                self.scope.type_of(cond);
            }
            StmtKind::For { .. }
            | StmtKind::While { .. }
            | StmtKind::Break
            | StmtKind::Continue => {
                self.scope.report(
                    Diagnostic::error("bad-statement", "a graph function has no loops")
                        .at(stmt.span, "a loop")
                        .help(
                            "write the loop in a `T.prim_func`, or unroll it in a library function",
                            None,
                        ),
                );
            }
            StmtKind::Pass | StmtKind::Import(_) | StmtKind::Error => {}
        }
    }

    fn note_checks(&mut self, name: Option<Name>) {
        let found = self.scope.facts.take_undecided();
        if let Some(name) = name
            && !found.is_empty()
        {
            self.checks.entry(name).or_default().extend(found);
        }
    }

    fn assign(&mut self, target: &Expr, ty: Option<&Expr>, value: &Expr) {
        if let Some(name) = target.as_name()
            && self.special(name, value)
        {
            return;
        }
        let inferred = match value.as_call() {
            Some((path, _)) if Prim::find(&path) == Some(Prim::MatchCast) => self.match_cast(value),
            _ => self.scope.type_of(value),
        };
        let ty = match ty {
            Some(annotation) => match self.scope.annotation(annotation) {
                Ok(declared) => match agree(&declared, &inferred, &mut self.scope.facts) {
                    Ok(ty) => ty,
                    Err(found) => {
                        let name = annotation_name(target);
                        self.scope.faults.push(
                            Diagnostic::error(
                                found.code,
                                format!("the annotation of {name} does not fit: {}", found.text),
                            )
                            .at(annotation.span, declared.to_string())
                            .related(value.span, inferred.to_string()),
                        );
                        declared
                    }
                },
                Err(fault) => {
                    self.scope.faults.push(fault);
                    inferred
                }
            },
            None => inferred,
        };
        self.bind(target, ty);
        if let Some(name) = target.as_name() {
            self.scope.define_constant(name, value);
        }
    }

    /// `n = T.int64(min=1)` and `cls = Module`.
    fn special(&mut self, name: &Name, value: &Expr) -> bool {
        if let Some((path, args)) = value.as_call() {
            let is_symbol = matches!(
                path.as_str(),
                "T.int64" | "T.int32" | "TypeVar" | "T.dyn" | "T.SizeVar"
            ) && value.positional().all(|arg| arg.as_str().is_some());
            if is_symbol {
                self.scope.declare_symbol(name);
                self.all.insert(name.clone(), Type::Scalar(DType::I64));
                for arg in args {
                    let key = arg.name.as_deref().unwrap_or_default();
                    state_fact(
                        name,
                        key,
                        &arg.value,
                        &mut self.scope.facts,
                        &mut self.scope.faults,
                    );
                }
                return true;
            }
        }
        // The module's own name, to call its functions by.
        if value
            .as_name()
            .is_some_and(|value| !self.scope.vars.contains_key(value))
            && **name == *"cls"
        {
            return true;
        }
        false
    }

    /// Symbols of the type are bound by the cast; what is compared with is what the value has.
    fn match_cast(&mut self, value: &Expr) -> Type {
        let bound = match super::prim::bind(Prim::MatchCast, value) {
            Ok(bound) => bound,
            Err(fault) => return self.scope.report(fault),
        };
        let (Some(operand), super::prim::Bound::Expr(wanted)) =
            (bound.operand("x"), bound.get("ty"))
        else {
            return Type::Error;
        };
        let operand_ty = self.scope.type_of(operand);
        let declared = match annotation::type_from_expr(wanted) {
            Ok(declared) => declared,
            Err(fault) => return self.scope.report(fault),
        };
        for symbol in symbols_of(&declared) {
            self.scope.declare_symbol(&symbol);
        }
        match agree(&declared, &operand_ty, &mut self.scope.facts) {
            Ok(ty) => ty,
            Err(found) => {
                let message = format!("the cast can never hold: {}", found.text);
                self.scope.faults.push(
                    Diagnostic::error(found.code, message)
                        .at(wanted.span, declared.to_string())
                        .related(operand.span, operand_ty.to_string()),
                );
                declared
            }
        }
    }

    fn bind(&mut self, target: &Expr, ty: Type) {
        match &target.kind {
            ExprKind::Name(name) => self.define(name, ty),
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                let types = match ty {
                    Type::Tuple(types) if types.len() == items.len() => types,
                    Type::Error => vec![Type::Error; items.len()],
                    Type::Any => vec![Type::Any; items.len()],
                    other => {
                        let message = format!("{} names are bound to {other}", items.len());
                        self.scope.report(
                            Diagnostic::error("type-mismatch", message)
                                .at(target.span, "bound here"),
                        );
                        vec![Type::Error; items.len()]
                    }
                };
                for (item, ty) in items.iter().zip(types) {
                    self.bind(item, ty);
                }
            }
            _ => {
                self.scope.report(
                    Diagnostic::error("bad-statement", "only names are bound in a graph function")
                        .at(target.span, "not a name"),
                );
            }
        }
    }

    fn branch(&mut self, stmt: &Stmt, cond: &Expr, then: &[Stmt], orelse: &[Stmt]) {
        let ty = self.scope.type_of(cond);
        let is_truth = match &ty {
            Type::Tensor(TensorType { dtype, ndim, .. }) => {
                dtype.is_none_or(|dtype| dtype == DType::Bool) && ndim.is_none_or(|rank| rank == 0)
            }
            Type::Scalar(dtype) => *dtype == DType::Bool,
            Type::Any | Type::Error => true,
            _ => false,
        };
        if !is_truth {
            let message = format!("a condition is a bool tensor without axes, not {ty}");
            self.scope.report(
                Diagnostic::error("type-mismatch", message).at(cond.span, "not a condition"),
            );
        }
        let before = self.scope.vars.clone();
        let facts = self.scope.facts.clone();
        let symbols = self.scope.symbols.clone();
        self.block(then);
        let is_old = |name: &Name| symbols.contains(name);
        self.scope.facts.leave_branch(&facts, &is_old);
        let left = std::mem::replace(&mut self.scope.vars, before.clone());
        let facts = self.scope.facts.clone();
        self.block(orelse);
        self.scope.facts.leave_branch(&facts, &is_old);
        let right = std::mem::replace(&mut self.scope.vars, before);
        if let (Some(a), Some(b)) = (last_bound(then), last_bound(orelse))
            && a != b
        {
            self.scope.faults.push(
                Diagnostic::error(
                    "if-names",
                    format!("the branches end in `{a}` and `{b}`, and need one name"),
                )
                .at(stmt.span, "this choice")
                .help("bind the result of both branches to the same name", None),
            );
        }
        for (name, ty) in &left {
            if let Some(other) = right.get(name) {
                let ty = if orelse.is_empty() {
                    ty.clone()
                } else {
                    join(ty, other)
                };
                self.define(name, ty);
            }
        }
    }

    fn give_back(&mut self, value: Option<&Expr>, span: Option<Span>) {
        let ty = match value {
            Some(value) => self.scope.type_of(value),
            None => Type::Void,
        };
        let Some(declared) = self.ret.clone() else {
            self.ret = Some(ty);
            return;
        };
        for symbol in symbols_of(&declared) {
            self.scope.declare_symbol(&symbol);
        }
        match agree(&declared, &ty, &mut self.scope.facts) {
            Ok(ty) => self.ret = Some(ty),
            Err(found) => {
                let message = format!("the result does not fit its annotation: {}", found.text);
                self.scope.faults.push(
                    Diagnostic::error(found.code, message)
                        .at(value.and_then(|value| value.span).or(span), ty.to_string())
                        .related(self.ret_span, "annotated here"),
                );
            }
        }
    }

    fn effect(&mut self, value: &Expr) {
        if matches!(value.kind, ExprKind::Str(_)) {
            return;
        }
        let path = value.as_call().map(|(path, _)| path).unwrap_or_default();
        match path.as_str() {
            "R.func_attr" => {}
            "R.output" => {
                for name in value.positional().cloned().collect::<Vec<_>>() {
                    self.scope.type_of(&name);
                }
            }
            _ => {
                self.scope.type_of(value);
            }
        }
    }

    /// A function inside the function sees the names around it.
    fn inner(&mut self, func: &Func) {
        let own = signature(func, &mut self.scope.faults);
        let mut walk = Walk::new(func, &own, self.lib, self.signatures, self.outer);
        for (name, ty) in &self.scope.vars {
            walk.scope.define(name, ty.clone());
        }
        for name in self.scope.symbols.clone() {
            walk.scope.declare_symbol(&name);
        }
        walk.scope.facts = self.scope.facts.clone();
        walk.scope.broken = self.scope.broken;
        walk.run(func);
        self.scope.faults.append(&mut walk.scope.faults);
        let params = own.params.into_iter().map(|param| param.1).collect();
        let ret = walk.ret.unwrap_or(Type::Any);
        self.define(&func.name, Type::Func(params, Box::new(ret)));
    }
}

/// Names that statements bind.
fn bound_in(stmts: &[Stmt], names: &mut Vec<Name>) {
    for stmt in stmts {
        match &stmt.kind {
            StmtKind::Assign { target, .. } => {
                names.extend(irc_syntax::uses::bound_names(target));
            }
            StmtKind::If { then, orelse, .. } => {
                bound_in(then, names);
                bound_in(orelse, names);
            }
            StmtKind::With { body, .. } => bound_in(body, names),
            _ => {}
        }
    }
}

fn first_name(target: &Expr) -> Option<Name> {
    match target.as_items() {
        Some(items) => items.first().and_then(first_name),
        None => target.as_name().cloned(),
    }
}

fn annotation_name(target: &Expr) -> String {
    target
        .as_name()
        .map_or_else(|| "the names".to_string(), |name| format!("`{name}`"))
}

/// The name that a branch ends with, which is the value of the choice.
fn last_bound(body: &[Stmt]) -> Option<&Name> {
    match &body.last()?.kind {
        StmtKind::Assign { target, .. } => target.as_name(),
        StmtKind::With { body, .. } => {
            let bound = body
                .iter()
                .rev()
                .find(|stmt| matches!(stmt.kind, StmtKind::Assign { .. }))?;
            last_bound(std::slice::from_ref(bound))
        }
        StmtKind::If { then, .. } => last_bound(then),
        _ => None,
    }
}

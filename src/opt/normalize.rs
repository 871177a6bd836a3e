//! One operator a binding, every name bound once, no dataflow nesting.
//!
//!     with R.dataflow():                         lv = R.matmul(a, b)
//!         y = R.nn.relu(a @ b + c)         →     lv1 = R.add(lv, c)
//!         R.output(y)                            y = R.nn.relu(lv1)
//!     return y                                   return y
//!
//! Infix operators on tensors become calls; a number beside a tensor becomes a constant of its dtype. What stands in
//! `R.shape`, in keyword arguments and in types are dims and attributes and stays as written. Aliases (`y = x`)
//! are substituted away. Needs the types of names; the result is the form that every other pass expects.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::{bound_names, substitute, substitute_stmt};
use irc_syntax::{
    Arg, BinaryOp, DType, Expr, ExprKind, Func, FuncKind, Module, Name, Stmt, StmtKind, UnaryOp,
};

use super::rewrite::rename_targets;
use super::{Changed, Pass, PassCx};
use crate::check::prim::{Prim, binary_prim, unary_prim};
use crate::check::stage::Level;
use crate::check::{FuncInfo, Type};

/// The pass.
pub const PASS: Pass = Pass {
    name: "normalize",
    run,
    from: Level::Graph,
    to: Level::Normal,
    summary: "one operator a binding, unique names",
    args: &[],
};

/// Runs the pass on every graph function.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let before = module.clone();
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph)
    {
        let info = cx.info.funcs.get(&func.name).cloned().unwrap_or_default();
        normalize_func(func, &info);
    }
    Changed::from(*module != before)
}

fn normalize_func(func: &mut Func, info: &FuncInfo) {
    let mut cx = Normalizer {
        names: NameSupply::of_func(func),
        info,
        seen: func.params.iter().map(|param| param.name.clone()).collect(),
        renames: BTreeMap::new(),
    };
    let body = std::mem::take(&mut func.body);
    func.body = cx.block(flatten_dataflow(body), None);
}

/// Takes the statements of `with R.dataflow():` blocks out of them, without `R.output`.
fn flatten_dataflow(stmts: Vec<Stmt>) -> Vec<Stmt> {
    let mut flat = Vec::with_capacity(stmts.len());
    for mut stmt in stmts {
        match stmt.kind {
            StmtKind::With { context, body, .. } if context.is_call_of("R.dataflow") => {
                let first = flat.len();
                flat.extend(flatten_dataflow(body));
                if let Some(head) = flat.get_mut(first) {
                    head.trivia
                        .leading
                        .splice(0..0, stmt.trivia.leading.drain(..));
                }
            }
            StmtKind::Expr(ref value) if value.is_call_of("R.output") => {}
            _ => flat.push(stmt),
        }
    }
    flat
}

struct Normalizer<'a> {
    names: NameSupply,
    info: &'a FuncInfo,
    /// Names bound so far.
    seen: BTreeSet<Name>,
    /// Those that stand for something else now: a later name, or what they are an alias of.
    renames: BTreeMap<Name, Expr>,
}

impl Normalizer<'_> {
    /// The normal form of a block; `keep` is a name that must stay bound at its end (the value of an `if`).
    fn block(&mut self, stmts: Vec<Stmt>, keep: Option<&[Name]>) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(stmts.len());
        for stmt in stmts {
            self.stmt(stmt, keep, &mut out);
        }
        out
    }

    fn stmt(&mut self, mut stmt: Stmt, keep: Option<&[Name]>, out: &mut Vec<Stmt>) {
        match stmt.kind {
            // `cls = Module` names the module itself; calls are written with it.
            StmtKind::Assign { ref target, .. }
                if target.as_name().is_some_and(|name| *name == *"cls") =>
            {
                out.push(stmt);
            }
            StmtKind::Assign {
                target,
                ty,
                mut value,
            } => {
                substitute(&mut value, &self.renames);
                let hint = bound_names(&target).first().cloned();
                let mut value = self.value(value, hint.as_deref(), out);
                let kept = keep.is_some_and(|keep| {
                    bound_names(&target).iter().any(|name| keep.contains(name))
                });
                if let (Some(name), true, false) = (target.as_name(), is_alias(&value), kept) {
                    self.stand_for(name, value);
                    return;
                }
                if !kept && let Some(names) = self.member_names(&target, &value) {
                    let members = Expr::tuple(names.iter().map(Expr::name));
                    let target = Expr::new(ExprKind::Tuple {
                        items: names.iter().map(Expr::name).collect(),
                        parens: false,
                    });
                    let call = Stmt::assign(target, value).at(stmt.span);
                    out.push(Stmt {
                        trivia: std::mem::take(&mut stmt.trivia),
                        ..call
                    });
                    value = members;
                }
                if kept && let Some(own) = self.own_name(&target, &value) {
                    let bound = Stmt::assign(Expr::name(&own), value).at(stmt.span);
                    out.push(Stmt {
                        trivia: std::mem::take(&mut stmt.trivia),
                        ..bound
                    });
                    value = Expr::name(&own);
                }
                let target = if kept {
                    target
                } else {
                    self.rename_target(target)
                };
                stmt.kind = StmtKind::Assign { target, ty, value };
                out.push(stmt);
            }
            StmtKind::Return(Some(mut value)) => {
                let wanted = result_names(&value);
                substitute(&mut value, &self.renames);
                let mut value = self.atom_or_tuple(value, out);
                if keep.is_none() {
                    self.keep_result_names(&wanted, &mut value, out);
                }
                stmt.kind = StmtKind::Return(Some(value));
                out.push(stmt);
            }
            StmtKind::Expr(mut value) => {
                substitute(&mut value, &self.renames);
                let value = self.value(value, None, out);
                stmt.kind = StmtKind::Expr(value);
                out.push(stmt);
            }
            StmtKind::If {
                mut cond,
                then,
                orelse,
                else_trivia,
            } => {
                substitute(&mut cond, &self.renames);
                let cond = self.atom(cond, "cond", out);
                let results = common_results(&then, &orelse);
                let outer = (self.seen.clone(), self.renames.clone());
                let then = self.block(flatten_dataflow(then), Some(&results));
                (self.seen, self.renames) = outer.clone();
                let orelse = self.block(flatten_dataflow(orelse), Some(&results));
                (self.seen, self.renames) = outer;
                for name in &results {
                    self.stand_for(name, Expr::name(name));
                }
                stmt.kind = StmtKind::If {
                    cond,
                    then,
                    orelse,
                    else_trivia,
                };
                out.push(stmt);
            }
            _ => {
                substitute_stmt(&mut stmt, &self.renames);
                out.push(stmt);
            }
        }
    }

    /// `y = x` before `return y`: what x was bound to is bound to y, since the names of results are those of the interface.
    fn keep_result_names(&self, wanted: &[Option<Name>], value: &mut Expr, out: &mut [Stmt]) {
        let found = result_names(value);
        let is_param = |name: &Name| self.info.params.iter().any(|(param, _)| param == name);
        // A symbol is no value. The value of an `if` is bound in its branches.
        let binds = |stmt: &Stmt, wanted: &Name| {
            let is_symbol = matches!(&stmt.kind, StmtKind::Assign { value, .. }
                if value.is_call_of("T.int64"));
            !is_symbol && binds_any(std::slice::from_ref(stmt), wanted)
        };
        let mut map = BTreeMap::new();
        for (new, old) in wanted.iter().zip(&found) {
            let (Some(new), Some(old)) = (new, old) else {
                continue;
            };
            if new == old {
                continue;
            }
            let n_bound = out.iter().filter(|stmt| binds(stmt, old)).count();
            let n_returned = found
                .iter()
                .filter(|other| other.as_ref() == Some(old))
                .count();
            let is_taken = is_param(new) || binds_any(out, new);
            let is_free = n_bound == 1
                && n_returned == 1
                && !wanted.contains(&Some(old.clone()))
                && !is_taken;
            if is_free {
                map.insert(old.clone(), Expr::name(new));
            }
        }
        if map.is_empty() {
            return;
        }
        substitute(value, &map);
        for stmt in out {
            substitute_stmt(stmt, &map);
            rename_targets(stmt, &map);
        }
    }

    /// Binds a name of the text to what it stands for from here on.
    fn stand_for(&mut self, name: &Name, value: Expr) {
        self.seen.insert(name.clone());
        if value.as_name() == Some(name) {
            self.renames.remove(name);
        } else {
            self.renames.insert(name.clone(), value);
        }
    }

    /// A name for what a branch computes, where the name that both branches bind has another type: the two differ in shape.
    fn own_name(&mut self, target: &Expr, value: &Expr) -> Option<Name> {
        let name = target.as_name().filter(|_| !is_alias(value))?;
        let Some(ty @ Type::Tensor(_)) = self.info.vars.get(name) else {
            return None;
        };
        let is_known = ty.as_known_tensor().is_some();
        (!is_known).then(|| self.names.fresh(name))
    }

    /// `lv_0`, `lv_1`, … for `lv = cls.f(x)` that gives a tuple: each tensor of it has a name.
    fn member_names(&mut self, target: &Expr, value: &Expr) -> Option<Vec<Name>> {
        let name = target.as_name()?;
        let (path, _) = value.as_call()?;
        let is_call = path == "R.call_tir" || path.starts_with("cls.");
        match self.info.vars.get(name) {
            Some(Type::Tuple(types)) if is_call => Some(
                (0..types.len())
                    .map(|at| self.names.fresh(&format!("{name}_{at}")))
                    .collect(),
            ),
            _ => None,
        }
    }

    /// A target whose names are bound for the first time; names bound before get fresh ones.
    fn rename_target(&mut self, mut target: Expr) -> Expr {
        let mut map = BTreeMap::new();
        for name in bound_names(&target) {
            let new = if self.seen.contains(&name) {
                self.names.fresh(&name)
            } else {
                name.clone()
            };
            self.stand_for(&name, Expr::name(&new));
            map.insert(name, Expr::name(&new));
        }
        substitute(&mut target, &map);
        target
    }

    /// The right-hand side of a binding: a call of atoms, an atom, or a tuple of atoms.
    fn value(&mut self, value: Expr, hint: Option<&str>, out: &mut Vec<Stmt>) -> Expr {
        let Expr { kind, span, trivia } = value;
        let kind = match kind {
            ExprKind::Binary { op, lhs, rhs } if self.is_tensor(&lhs) || self.is_tensor(&rhs) => {
                return self.infix(op, *lhs, *rhs, out).at(span);
            }
            ExprKind::Unary { op, value } if self.is_tensor(&value) => {
                let value = self.atom(*value, "lv", out);
                return match unary_prim(op) {
                    Some(prim) => Expr::call(prim.name(), [value]).at(span),
                    None => value,
                };
            }
            ExprKind::Call { func, mut args } => {
                let base = hint.unwrap_or("lv");
                let is_operator = func.as_path().is_some_and(|path| !is_attribute_call(&path));
                if is_operator {
                    for arg in args.iter_mut().filter(|arg| arg.name.is_none()) {
                        let old = std::mem::replace(&mut arg.value, Expr::none());
                        arg.value = self.operand(old, base, out);
                    }
                    self.type_numbers(&func, &mut args);
                }
                ExprKind::Call { func, args }
            }
            ExprKind::Tuple { items, parens } => ExprKind::Tuple {
                items: items
                    .into_iter()
                    .map(|item| self.atom(item, "lv", out))
                    .collect(),
                parens,
            },
            ExprKind::Index { value, index } => ExprKind::Index {
                value: Box::new(self.atom(*value, "lv", out)),
                index,
            },
            other => other,
        };
        Expr { kind, span, trivia }
    }

    /// A positional argument: tensors become atoms, tuples of tensors tuples of atoms, attributes stay.
    fn operand(&mut self, value: Expr, base: &str, out: &mut Vec<Stmt>) -> Expr {
        match value.kind {
            ExprKind::Tuple { items, parens } => {
                let items = items
                    .into_iter()
                    .map(|item| self.operand(item, base, out))
                    .collect();
                Expr {
                    kind: ExprKind::Tuple { items, parens },
                    span: value.span,
                    trivia: value.trivia,
                }
            }
            ExprKind::List(items) => {
                let items = items
                    .into_iter()
                    .map(|item| self.operand(item, base, out))
                    .collect();
                Expr {
                    kind: ExprKind::List(items),
                    span: value.span,
                    trivia: value.trivia,
                }
            }
            _ => self.atom(value, base, out),
        }
    }

    /// A name or constant for a value, bound to a fresh name where it is neither.
    fn atom(&mut self, value: Expr, base: &str, out: &mut Vec<Stmt>) -> Expr {
        if !self.needs_binding(&value) {
            return value;
        }
        let span = value.span;
        let value = self.value(value, None, out);
        let name = self.names.fresh(base);
        self.seen.insert(name.clone());
        out.push(Stmt::bind(&name, value).at(span));
        Expr::name(name).at(span)
    }

    fn atom_or_tuple(&mut self, value: Expr, out: &mut Vec<Stmt>) -> Expr {
        if let ExprKind::Tuple { items, parens } = value.kind {
            let items = items
                .into_iter()
                .map(|item| self.atom_or_tuple(item, out))
                .collect();
            return Expr {
                kind: ExprKind::Tuple { items, parens },
                span: value.span,
                trivia: value.trivia,
            };
        }
        self.atom(value, "gv", out)
    }

    fn needs_binding(&self, value: &Expr) -> bool {
        match &value.kind {
            ExprKind::Call { func, .. } => {
                func.as_path().is_some_and(|path| !is_attribute_call(&path))
            }
            ExprKind::Binary { lhs, rhs, .. } => self.is_tensor(lhs) || self.is_tensor(rhs),
            ExprKind::Unary { value, .. } => self.is_tensor(value),
            ExprKind::Index { value, .. } => value.as_name().is_some_and(|name| {
                matches!(
                    self.info.vars.get(name),
                    Some(Type::Tuple(_) | Type::Seq(_))
                )
            }),
            _ => false,
        }
    }

    fn is_tensor(&self, value: &Expr) -> bool {
        match &value.kind {
            ExprKind::Name(name) => matches!(self.info.vars.get(name), Some(Type::Tensor(_))),
            ExprKind::Call { func, .. } => func.as_path().is_some_and(|path| {
                path == "R.const" || (!is_attribute_call(&path) && !path.starts_with("T."))
            }),
            ExprKind::Binary { lhs, rhs, .. } => self.is_tensor(lhs) || self.is_tensor(rhs),
            ExprKind::Unary { value, .. } => self.is_tensor(value),
            ExprKind::Index { .. } => matches!(self.member(value), Some(Type::Tensor(_))),
            _ => false,
        }
    }

    /// The type of `t[1]`, where `t` is a tuple.
    fn member(&self, value: &Expr) -> Option<&Type> {
        let ExprKind::Index { value, index } = &value.kind else {
            return None;
        };
        let Type::Tuple(types) = self.info.vars.get(value.as_name()?)? else {
            return None;
        };
        types.get(usize::try_from(index.first()?.as_int()?).ok()?)
    }

    fn infix(&mut self, op: BinaryOp, lhs: Expr, rhs: Expr, out: &mut Vec<Stmt>) -> Expr {
        let dtype = self.dtype_of(&lhs).or_else(|| self.dtype_of(&rhs));
        let [lhs, rhs] = [lhs, rhs].map(|side| match &dtype {
            Some(dtype) if is_number(&side) => Expr::call("R.const", [side, Expr::str(dtype)]),
            _ => side,
        });
        let lhs = self.atom(lhs, "lv", out);
        let rhs = self.atom(rhs, "lv", out);
        match binary_prim(op) {
            Some(prim) => Expr::call(prim.name(), [lhs, rhs]),
            None => Expr::new(ExprKind::Binary {
                op,
                lhs: Box::new(lhs),
                rhs: Box::new(rhs),
            }),
        }
    }

    /// `R.add(x, 2)` → `R.add(x, R.const(2.0, "float32"))`: numbers among the operands of element-wise operators.
    fn type_numbers(&self, func: &Expr, args: &mut [Arg]) {
        let prim = func.as_path().and_then(|path| Prim::find(&path));
        let skipped = match prim {
            Some(Prim::Binary(_)) => 0,
            // The condition says nothing of the dtype.
            Some(Prim::Where) => 1,
            _ => return,
        };
        let mut operands = args.iter().skip(skipped);
        let dtype = operands.find_map(|arg| self.dtype_of(&arg.value));
        for arg in args.iter_mut().skip(skipped) {
            let (value, dtype) = match arg.value.as_call() {
                None => (&arg.value, dtype.clone()),
                // `T.float32(2)`
                Some((path, [number])) => {
                    let dtype = path.strip_prefix("T.").and_then(DType::from_name);
                    (&number.value, dtype.map(|dtype| dtype.name().to_owned()))
                }
                Some(_) => continue,
            };
            if let (true, Some(dtype)) = (is_number(value), dtype) {
                let span = arg.value.span;
                arg.value = Expr::call("R.const", [value.clone(), Expr::str(dtype)]).at(span);
            }
        }
    }

    fn dtype_of(&self, value: &Expr) -> Option<String> {
        match &value.kind {
            ExprKind::Name(name) => Some(
                self.info
                    .vars
                    .get(name)?
                    .as_tensor()?
                    .dtype?
                    .name()
                    .to_owned(),
            ),
            ExprKind::Binary { lhs, rhs, .. } => self.dtype_of(lhs).or_else(|| self.dtype_of(rhs)),
            ExprKind::Unary { value, .. } => self.dtype_of(value),
            ExprKind::Index { .. } => {
                let dtype = self.member(value)?.as_tensor()?.dtype?;
                Some(dtype.name().to_owned())
            }
            ExprKind::Call { .. } => {
                let mut args = value.positional();
                if value.is_call_of("R.const") {
                    return args.nth(1).and_then(Expr::as_str).map(str::to_owned);
                }
                args.find_map(|arg| self.dtype_of(arg))
            }
            _ => None,
        }
    }
}

/// A literal, with or without a sign.
fn is_number(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) => true,
        ExprKind::Unary {
            op: UnaryOp::Neg,
            value,
        } => is_number(value),
        _ => false,
    }
}

/// The names that a returned value has, each where it has one.
fn result_names(value: &Expr) -> Vec<Option<Name>> {
    match &value.kind {
        ExprKind::Tuple { items, .. } => items.iter().map(|item| item.as_name().cloned()).collect(),
        _ => vec![value.as_name().cloned()],
    }
}

/// Whether a statement of a block, or of one inside it, binds a name.
fn binds_any(stmts: &[Stmt], name: &Name) -> bool {
    stmts.iter().any(|stmt| match &stmt.kind {
        StmtKind::Assign { target, .. } => bound_names(target).contains(name),
        StmtKind::If { then, orelse, .. } => binds_any(then, name) || binds_any(orelse, name),
        _ => false,
    })
}

fn is_alias(value: &Expr) -> bool {
    matches!(value.kind, ExprKind::Name(_)) || value.is_call_of("R.const")
}

/// Calls that stand for attributes, types and shapes rather than for values of an operator.
pub(super) fn is_attribute_call(path: &str) -> bool {
    matches!(
        path,
        "R.shape"
            | "R.const"
            | "R.dtype"
            | "R.str"
            | "R.Tensor"
            | "R.Shape"
            | "R.Tuple"
            | "R.Any"
            | "R.Object"
            | "R.Callable"
            | "R.null_value"
            | "R.func_attr"
            | "R.prim_value"
    ) || path.starts_with("T.")
        || (path.starts_with("I.") && Prim::find(path).is_none())
}

/// Names that both branches of an `if` bind last.
pub(super) fn common_results(then: &[Stmt], orelse: &[Stmt]) -> Vec<Name> {
    let bound = |stmts: &[Stmt]| -> Vec<Name> {
        stmts
            .iter()
            .flat_map(|stmt| match &stmt.kind {
                StmtKind::Assign { target, .. } => bound_names(target),
                StmtKind::If { then, orelse, .. } => common_results(then, orelse),
                StmtKind::With { body, .. } => body
                    .iter()
                    .filter_map(|stmt| match &stmt.kind {
                        StmtKind::Assign { target, .. } => Some(bound_names(target)),
                        _ => None,
                    })
                    .flatten()
                    .collect(),
                _ => Vec::new(),
            })
            .collect()
    };
    let right = bound(orelse);
    let mut common: Vec<Name> = bound(then)
        .into_iter()
        .filter(|name| right.contains(name))
        .collect();
    common.dedup();
    common
}

//! Values inside a function as results of it.
//!
//!     def main(x):                    def main(x):
//!         h = R.nn.relu(x)      →         h = R.nn.relu(x)
//!         y = R.exp(h)                    y = R.exp(h)
//!         return y                        return (y, h, y)
//!
//! What compiled code computes on the way is seen only so. It is not always what it computes otherwise: a value that is
//! returned is not fused away. Values inside branches and of other functions stay hidden, and so do shapes and numbers.

use std::collections::BTreeSet;

use irc_syntax::uses::{bound_names, for_each_read, names_read};
use irc_syntax::{Expr, ExprKind, Func, FuncKind, Name, Span, Stmt, StmtKind};

use super::{flatten, keep_reached};
use crate::check::{FuncInfo, Info, Type};
use crate::driver::{Program, is_planned};

/// A value that a function binds, or one member of a tuple that it binds.
#[derive(Clone, PartialEq, Debug)]
pub struct Inner {
    /// The name it is bound to.
    pub name: Name,
    /// Which member of a tuple.
    pub member: Option<usize>,
    /// Where it is bound; of a choice its condition.
    pub span: Option<Span>,
    /// The names that the binding reads.
    pub reads: Vec<Name>,
}

impl Inner {
    /// The name, and the member behind a dot: `h`, `parts.1`.
    pub fn key(&self) -> String {
        match self.member {
            Some(at) => format!("{}.{at}", self.name),
            None => self.name.to_string(),
        }
    }

    fn expr(&self) -> Expr {
        let name = Expr::name(&self.name);
        match self.member {
            Some(at) => Expr::index(name, [Expr::int(at as i128)]),
            None => name,
        }
    }
}

/// The values of a function that can be results, in order.
pub fn inner_values(func: &Func, info: &FuncInfo) -> Vec<Inner> {
    let body = flatten(func.body.clone());
    let mut res: Vec<Inner> = Vec::new();
    for (at, stmt) in body.iter().enumerate() {
        let (names, span) = match &stmt.kind {
            StmtKind::Assign { target, .. } => (bound_names(target), stmt.span),
            StmtKind::If {
                cond, then, orelse, ..
            } => (chosen(then, orelse, &body[at + 1..]), cond.span),
            _ => continue,
        };
        let reads = reads_of(stmt);
        for name in names {
            // A name that is bound again is its last value.
            res.retain(|inner| inner.name != name);
            let members: Vec<Option<usize>> = match info.vars.get(&name) {
                Some(Type::Tuple(types)) => types
                    .iter()
                    .enumerate()
                    .filter(|(_, ty)| can_return(ty))
                    .map(|(at, _)| Some(at))
                    .collect(),
                Some(ty) if can_return(ty) => vec![None],
                Some(_) | None => continue,
            };
            res.extend(members.into_iter().map(|member| Inner {
                name: name.clone(),
                member,
                span,
                reads: reads.clone(),
            }));
        }
    }
    res
}

/// The names that a statement reads, in order.
pub fn reads_of(stmt: &Stmt) -> Vec<Name> {
    let mut reads: Vec<Name> = Vec::new();
    for_each_read(std::slice::from_ref(stmt), &mut |expr| {
        irc_syntax::uses::for_each_name(expr, &mut |name| {
            if !reads.contains(name) {
                reads.push(name.clone());
            }
        });
    });
    reads
}

/// The first statement that binds a name, those of branches and blocks included.
pub fn find_binding<'s>(stmts: &'s [Stmt], name: &Name) -> Option<&'s Stmt> {
    stmts.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Assign { target, .. } => bound_names(target).contains(name).then_some(stmt),
        StmtKind::If { then, orelse, .. } => {
            find_binding(then, name).or_else(|| find_binding(orelse, name))
        }
        StmtKind::With { body, .. } => find_binding(body, name),
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
        | StmtKind::Func(_)
        | StmtKind::Error => None,
    })
}

/// The names that both branches of a choice bind and something after it reads.
fn chosen(then: &[Stmt], orelse: &[Stmt], after: &[Stmt]) -> Vec<Name> {
    let bound = |stmts: &[Stmt]| -> Vec<Name> {
        let targets = stmts.iter().filter_map(|stmt| match &stmt.kind {
            StmtKind::Assign { target, .. } => Some(bound_names(target)),
            _ => None,
        });
        targets.flatten().collect()
    };
    let mut read = BTreeSet::new();
    for_each_read(after, &mut |expr| read.extend(names_read(expr)));
    let (left, right) = (bound(then), bound(orelse));
    let mut names: Vec<Name> = Vec::new();
    for name in left {
        if right.contains(&name) && read.contains(&name) && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Whether a value of a type can be a result.
fn can_return(ty: &Type) -> bool {
    match ty {
        Type::Tensor(tensor) => tensor.dtype.is_some(),
        Type::Seq(inner) | Type::Opt(inner) => can_return(inner),
        Type::Tuple(_)
        | Type::Scalar(_)
        | Type::Shape(_)
        | Type::Func(..)
        | Type::Str
        | Type::DTypeValue
        | Type::Any
        | Type::Void
        | Type::Error => false,
    }
}

/// The program with these values of a function behind its results, and how many results it has without them. Functions
/// that it does not need are gone.
///
/// # Errors
/// Why the function cannot return more.
pub fn expose(
    program: &Program,
    info: &Info,
    func: &str,
    values: &[&Inner],
) -> Result<(Program, usize), String> {
    let refusal = |why: &str| format!("the values inside `{func}` cannot be seen: {why}");
    if is_planned(&program.module) {
        return Err(refusal(super::PLANNED));
    }
    let mut program = program.clone();
    let name = Name::from(func);
    let ret = info.funcs.get(func).and_then(|info| info.ret.clone());
    keep_reached(&mut program.module, &name);
    let is_ours = |found: &&mut Func| found.name == name;
    let Some(func) = program.module.funcs_mut().find(is_ours) else {
        return Err(refusal("there is no such function"));
    };
    if func.kind != FuncKind::Graph {
        return Err(refusal("it is written in loops"));
    }
    if func.is_private() {
        return Err(refusal("compiled, it is called by its module only"));
    }
    let body = flatten(std::mem::take(&mut func.body));
    let n_returns = count_returns(&body);
    func.body = body;
    let Some(StmtKind::Return(Some(result))) = func.body.pop().map(|stmt| stmt.kind) else {
        return Err(refusal("it does not end in a result"));
    };
    if n_returns != 1 {
        return Err(refusal("it returns in several places"));
    }
    let mut items = match (result.kind, ret) {
        (ExprKind::Tuple { items, .. }, _) => items,
        (kind, Some(Type::Tuple(types))) => {
            let base = irc_syntax::NameSupply::of_func(func).fresh("results");
            func.body.push(Stmt::bind(&base, Expr::new(kind)));
            let member = |at: usize| Expr::index(Expr::name(&base), [Expr::int(at as i128)]);
            (0..types.len()).map(member).collect()
        }
        (kind, _) => vec![Expr::new(kind).at(result.span)],
    };
    let n_results = items.len();
    items.extend(values.iter().map(|value| value.expr()));
    func.ret = None;
    func.body.push(Stmt::ret(Expr::tuple(items)));
    Ok((program, n_results))
}

fn count_returns(stmts: &[Stmt]) -> usize {
    let inside = |stmt: &Stmt| match &stmt.kind {
        StmtKind::Return(_) => 1,
        StmtKind::If { then, orelse, .. } => count_returns(then) + count_returns(orelse),
        _ => 0,
    };
    stmts.iter().map(inside).sum()
}

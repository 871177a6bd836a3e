//! Reading and rewriting graph functions binding by binding; what every pass of this folder stands on.
//!
//! After `normalize` a block is a list of `name = R.op(…)`, `a, b = …`, `if`, effects and one `return`.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::{Arg, Expr, ExprKind, Func, FuncKind, Module, Name, Stmt, StmtKind};

/// Names that a target binds: `x`, or the members of `a, b`.
pub fn bound_names(target: &Expr) -> Vec<Name> {
    match &target.kind {
        ExprKind::Name(name) => vec![name.clone()],
        ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
            items.iter().flat_map(bound_names).collect()
        }
        _ => Vec::new(),
    }
}

/// Calls `visit` with every name that `expr` reads, in order; callees and keywords are not names.
pub fn for_each_name(expr: &Expr, visit: &mut impl FnMut(&Name)) {
    match &expr.kind {
        ExprKind::Name(name) => visit(name),
        ExprKind::Attr { value, .. }
            if value
                .as_name()
                .is_some_and(|name| matches!(name.as_str(), "R" | "T" | "I" | "cls")) => {}
        ExprKind::Attr { value, .. } | ExprKind::Unary { value, .. } | ExprKind::Starred(value) => {
            for_each_name(value, visit);
        }
        ExprKind::Call { args, .. } => args.iter().for_each(|arg| for_each_name(&arg.value, visit)),
        ExprKind::Index { value, index } => {
            for_each_name(value, visit);
            index.iter().for_each(|item| for_each_name(item, visit));
        }
        ExprKind::Slice { lo, hi, step } => {
            [lo, hi, step]
                .into_iter()
                .flatten()
                .for_each(|part| for_each_name(part, visit));
        }
        ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
            items.iter().for_each(|item| for_each_name(item, visit));
        }
        ExprKind::Dict(items) => items.iter().for_each(|(key, value)| {
            for_each_name(key, visit);
            for_each_name(value, visit);
        }),
        ExprKind::Binary { lhs, rhs, .. } => {
            for_each_name(lhs, visit);
            for_each_name(rhs, visit);
        }
        ExprKind::IfElse { cond, then, orelse } => {
            [cond, then, orelse]
                .into_iter()
                .for_each(|part| for_each_name(part, visit));
        }
        ExprKind::ListComp {
            element,
            target,
            iter,
            cond,
        } => {
            [element, target, iter]
                .into_iter()
                .for_each(|part| for_each_name(part, visit));
            cond.iter().for_each(|part| for_each_name(part, visit));
        }
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Str(_)
        | ExprKind::Bool(_)
        | ExprKind::None
        | ExprKind::Ellipsis
        | ExprKind::Error => {}
    }
}

/// The names that `expr` reads, sorted.
pub fn names_in(expr: &Expr) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for_each_name(expr, &mut |name| {
        names.insert(name.clone());
    });
    names
}

/// Calls `visit` with every expression that a statement evaluates, nested blocks included.
pub fn for_each_expr<'a>(stmt: &'a Stmt, visit: &mut impl FnMut(&'a Expr)) {
    match &stmt.kind {
        StmtKind::Assign { target, ty, value } => {
            if let ExprKind::Index { .. } = target.kind {
                visit(target);
            }
            ty.iter().for_each(&mut *visit);
            visit(value);
        }
        StmtKind::Declare { ty, .. } => visit(ty),
        StmtKind::Expr(value) => visit(value),
        StmtKind::If {
            cond, then, orelse, ..
        } => {
            visit(cond);
            then.iter()
                .chain(orelse)
                .for_each(|stmt| for_each_expr(stmt, visit));
        }
        StmtKind::For { iter, body, .. } => {
            visit(iter);
            body.iter().for_each(|stmt| for_each_expr(stmt, visit));
        }
        StmtKind::While { cond, body } => {
            visit(cond);
            body.iter().for_each(|stmt| for_each_expr(stmt, visit));
        }
        StmtKind::With { context, body, .. } => {
            visit(context);
            body.iter().for_each(|stmt| for_each_expr(stmt, visit));
        }
        StmtKind::Return(value) => value.iter().for_each(&mut *visit),
        StmtKind::Assert { cond, message } => {
            visit(cond);
            message.iter().for_each(&mut *visit);
        }
        StmtKind::Func(func) => func.body.iter().for_each(|stmt| for_each_expr(stmt, visit)),
        StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Pass
        | StmtKind::Import(_)
        | StmtKind::Error => {}
    }
}

/// How often each name is read in a block, nested blocks included.
pub fn count_uses(stmts: &[Stmt]) -> BTreeMap<Name, usize> {
    let mut counts = BTreeMap::new();
    for stmt in stmts {
        for_each_expr(stmt, &mut |expr| {
            for_each_name(expr, &mut |name| {
                *counts.entry(name.clone()).or_insert(0) += 1
            });
        });
    }
    counts
}

/// Replaces every name that is read in `expr` by its entry in `map`.
pub fn substitute(expr: &mut Expr, map: &BTreeMap<Name, Expr>) {
    match &mut expr.kind {
        ExprKind::Name(name) => {
            if let Some(value) = map.get(name) {
                let span = expr.span;
                *expr = value.clone();
                expr.span = span.or(expr.span);
            }
        }
        ExprKind::Attr { value, .. } | ExprKind::Unary { value, .. } | ExprKind::Starred(value) => {
            substitute(value, map);
        }
        ExprKind::Call { args, .. } => {
            args.iter_mut()
                .for_each(|arg| substitute(&mut arg.value, map));
        }
        ExprKind::Index { value, index } => {
            substitute(value, map);
            index.iter_mut().for_each(|item| substitute(item, map));
        }
        ExprKind::Slice { lo, hi, step } => {
            [lo, hi, step]
                .into_iter()
                .flatten()
                .for_each(|part| substitute(part, map));
        }
        ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
            items.iter_mut().for_each(|item| substitute(item, map));
        }
        ExprKind::Dict(items) => items.iter_mut().for_each(|(key, value)| {
            substitute(key, map);
            substitute(value, map);
        }),
        ExprKind::Binary { lhs, rhs, .. } => {
            substitute(lhs, map);
            substitute(rhs, map);
        }
        ExprKind::IfElse { cond, then, orelse } => {
            [cond, then, orelse]
                .into_iter()
                .for_each(|part| substitute(part, map));
        }
        ExprKind::ListComp {
            element,
            iter,
            cond,
            ..
        } => {
            [element, iter]
                .into_iter()
                .for_each(|part| substitute(part, map));
            cond.iter_mut().for_each(|part| substitute(part, map));
        }
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Str(_)
        | ExprKind::Bool(_)
        | ExprKind::None
        | ExprKind::Ellipsis
        | ExprKind::Error => {}
    }
}

/// [`substitute`] in every expression of a statement, nested blocks included; targets keep their names.
pub fn substitute_stmt(stmt: &mut Stmt, map: &BTreeMap<Name, Expr>) {
    let block =
        |stmts: &mut Vec<Stmt>| stmts.iter_mut().for_each(|stmt| substitute_stmt(stmt, map));
    match &mut stmt.kind {
        StmtKind::Assign { target, ty, value } => {
            if let ExprKind::Index { .. } = target.kind {
                substitute(target, map);
            }
            ty.iter_mut().for_each(|ty| substitute(ty, map));
            substitute(value, map);
        }
        StmtKind::Declare { ty, .. } => substitute(ty, map),
        StmtKind::Expr(value) => substitute(value, map),
        StmtKind::If {
            cond, then, orelse, ..
        } => {
            substitute(cond, map);
            block(then);
            block(orelse);
        }
        StmtKind::For { iter, body, .. } => {
            substitute(iter, map);
            block(body);
        }
        StmtKind::While { cond, body } => {
            substitute(cond, map);
            block(body);
        }
        StmtKind::With { context, body, .. } => {
            substitute(context, map);
            block(body);
        }
        StmtKind::Return(value) => value.iter_mut().for_each(|value| substitute(value, map)),
        StmtKind::Assert { cond, message } => {
            substitute(cond, map);
            message
                .iter_mut()
                .for_each(|message| substitute(message, map));
        }
        StmtKind::Func(func) => block(&mut func.body),
        StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Pass
        | StmtKind::Import(_)
        | StmtKind::Error => {}
    }
}

/// The members of the value a block returns: one name, or the elements of a tuple.
pub fn returned(stmts: &[Stmt]) -> Vec<&Expr> {
    let Some(StmtKind::Return(Some(value))) = stmts.last().map(|stmt| &stmt.kind) else {
        return Vec::new();
    };
    match &value.kind {
        ExprKind::Tuple { items, .. } => items.iter().collect(),
        _ => vec![value],
    }
}

/// Whether a call only computes: everything but calls for an effect.
pub fn is_pure(value: &Expr) -> bool {
    value.as_call().is_none_or(|(path, _)| {
        !matches!(
            path.as_str(),
            "R.print" | "R.assert_op" | "R.call_packed" | "R.output"
        ) && !path.starts_with("R.memory.")
            && !path.starts_with("R.builtin.")
    })
}

/// The positional arguments of a call, to change.
pub fn args_mut(value: &mut Expr) -> &mut [Arg] {
    if let ExprKind::Call { args, .. } = &mut value.kind {
        args
    } else {
        &mut []
    }
}

/// Runs `rewrite` on the body of every graph function and on the blocks inside it, innermost first.
pub fn for_each_block(module: &mut Module, rewrite: &mut impl FnMut(&Name, &mut Vec<Stmt>)) {
    fn walk(name: &Name, stmts: &mut Vec<Stmt>, rewrite: &mut impl FnMut(&Name, &mut Vec<Stmt>)) {
        for stmt in stmts.iter_mut() {
            if let StmtKind::If { then, orelse, .. } = &mut stmt.kind {
                walk(name, then, rewrite);
                walk(name, orelse, rewrite);
            }
        }
        rewrite(name, stmts);
    }
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph)
    {
        let name = func.name.clone();
        walk(&name, &mut func.body, rewrite);
    }
}

/// Every name that a function binds or declares, parameters included.
pub fn names_of(func: &Func) -> BTreeSet<Name> {
    fn walk(stmts: &[Stmt], names: &mut BTreeSet<Name>) {
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::Assign { target, .. } | StmtKind::Declare { target, .. } => {
                    names.extend(bound_names(target));
                }
                StmtKind::If { then, orelse, .. } => {
                    walk(then, names);
                    walk(orelse, names);
                }
                StmtKind::For { target, body, .. } => {
                    names.extend(bound_names(target));
                    walk(body, names);
                }
                StmtKind::While { body, .. } | StmtKind::With { body, .. } => walk(body, names),
                StmtKind::Func(func) => {
                    names.insert(func.name.clone());
                }
                StmtKind::Expr(_)
                | StmtKind::Return(_)
                | StmtKind::Assert { .. }
                | StmtKind::Break
                | StmtKind::Continue
                | StmtKind::Pass
                | StmtKind::Import(_)
                | StmtKind::Error => {}
            }
        }
    }
    let mut names: BTreeSet<Name> = func.params.iter().map(|param| param.name.clone()).collect();
    walk(&func.body, &mut names);
    names
}

/// Makes parameters of the symbols that a function reads and that no dim of a parameter is, and returns them in order:
/// a call has to pass them.
pub fn bind_free_symbols(func: &mut Func) -> Vec<Name> {
    let mut bound = names_of(func);
    let mut read = BTreeSet::new();
    for param in &func.params {
        let Some(ty) = &param.ty else { continue };
        let dims = ty
            .positional()
            .next()
            .and_then(Expr::as_items)
            .unwrap_or_default();
        bound.extend(dims.iter().filter_map(|dim| dim.as_name().cloned()));
        read.extend(names_in(ty));
    }
    for stmt in &func.body {
        for_each_expr(stmt, &mut |expr| read.extend(names_in(expr)));
    }
    read.extend(func.ret.iter().flat_map(names_in));
    let free: Vec<Name> = read
        .into_iter()
        .filter(|name| !bound.contains(name))
        .collect();
    for name in &free {
        func.params
            .push(irc_syntax::Param::new(name, Expr::path("T.int64")));
    }
    free
}

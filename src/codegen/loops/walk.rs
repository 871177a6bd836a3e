//! Questions about statements: which names they use, and how a local array is indexed.

use std::collections::BTreeSet;

use irc_syntax::{Expr, ExprKind, Name, Stmt, StmtKind};

/// Calls `found` for every expression directly inside a statement, and `inner` for every nested list of statements.
pub fn parts<'s>(
    stmt: &'s Stmt,
    found: &mut dyn FnMut(&'s Expr),
    inner: &mut dyn FnMut(&'s [Stmt]),
) {
    match &stmt.kind {
        StmtKind::Assign { target, ty, value } => {
            found(target);
            if let Some(ty) = ty {
                found(ty);
            }
            found(value);
        }
        StmtKind::Declare { target, ty } => {
            found(target);
            found(ty);
        }
        StmtKind::Expr(value) => found(value),
        StmtKind::If {
            cond, then, orelse, ..
        } => {
            found(cond);
            inner(then);
            inner(orelse);
        }
        StmtKind::For { target, iter, body } => {
            found(target);
            found(iter);
            inner(body);
        }
        StmtKind::While { cond, body } => {
            found(cond);
            inner(body);
        }
        StmtKind::With {
            context,
            target,
            body,
        } => {
            found(context);
            if let Some(target) = target {
                found(target);
            }
            inner(body);
        }
        StmtKind::Return(value) => {
            if let Some(value) = value {
                found(value);
            }
        }
        StmtKind::Assert { cond, message } => {
            found(cond);
            if let Some(message) = message {
                found(message);
            }
        }
        StmtKind::Func(func) => inner(&func.body),
        StmtKind::Break
        | StmtKind::Continue
        | StmtKind::Pass
        | StmtKind::Import(_)
        | StmtKind::Error => {}
    }
}

/// Calls `found` for every expression inside an expression, itself first.
pub fn exprs<'e>(expr: &'e Expr, found: &mut dyn FnMut(&'e Expr)) {
    found(expr);
    match &expr.kind {
        ExprKind::Attr { value, .. } | ExprKind::Unary { value, .. } | ExprKind::Starred(value) => {
            exprs(value, found)
        }
        ExprKind::Call { func, args } => {
            exprs(func, found);
            for arg in args {
                exprs(&arg.value, found);
            }
        }
        ExprKind::Index { value, index } => {
            exprs(value, found);
            for idx in index {
                exprs(idx, found);
            }
        }
        ExprKind::Slice { lo, hi, step } => {
            for part in [lo, hi, step].into_iter().flatten() {
                exprs(part, found);
            }
        }
        ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
            for item in items {
                exprs(item, found);
            }
        }
        ExprKind::Dict(items) => {
            for (key, value) in items {
                exprs(key, found);
                exprs(value, found);
            }
        }
        ExprKind::Binary { lhs, rhs, .. } => {
            exprs(lhs, found);
            exprs(rhs, found);
        }
        ExprKind::IfElse { cond, then, orelse } => {
            for part in [cond, then, orelse] {
                exprs(part, found);
            }
        }
        ExprKind::ListComp {
            element,
            target,
            iter,
            cond,
        } => {
            for part in [element, target, iter] {
                exprs(part, found);
            }
            if let Some(cond) = cond {
                exprs(cond, found);
            }
        }
        ExprKind::Name(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Str(_)
        | ExprKind::Bool(_)
        | ExprKind::None
        | ExprKind::Ellipsis
        | ExprKind::Error => {}
    }
}

/// Whether an expression mentions one of some names.
pub fn mentions(expr: &Expr, names: &[Name]) -> bool {
    let mut res = false;
    exprs(expr, &mut |part| {
        res |= part.as_name().is_some_and(|name| names.contains(name));
    });
    res
}

/// The names that statements mention, bound inside or not.
pub fn names_of(stmts: &[Stmt], names: &mut BTreeSet<Name>) {
    for stmt in stmts {
        let mut lists: Vec<&[Stmt]> = Vec::new();
        parts(
            stmt,
            &mut |expr| {
                exprs(expr, &mut |part| names.extend(part.as_name().cloned()));
            },
            &mut |list| lists.push(list),
        );
        for list in lists {
            names_of(list, names);
        }
    }
}

/// Whether statements leave the loop around them early.
pub fn leaves_loop(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| match &stmt.kind {
        StmtKind::Break | StmtKind::Continue => true,
        StmtKind::Expr(call) => {
            call.is_call_of("T.break_loop") || call.is_call_of("T.continue_loop")
        }
        StmtKind::If { then, orelse, .. } => leaves_loop(then) || leaves_loop(orelse),
        StmtKind::With { body, .. } => leaves_loop(body),
        // A jump inside an inner loop leaves that one.
        StmtKind::For { .. } | StmtKind::While { .. } => false,
        StmtKind::Assign { .. }
        | StmtKind::Declare { .. }
        | StmtKind::Return(_)
        | StmtKind::Assert { .. }
        | StmtKind::Pass
        | StmtKind::Import(_)
        | StmtKind::Func(_)
        | StmtKind::Error => false,
    })
}

/// Whether every use of a local array is an element with constant indices, given the variables that are constants.
pub fn has_constant_indices(stmts: &[Stmt], array: &Name, constants: &mut Vec<Name>) -> bool {
    stmts.iter().all(|stmt| {
        if let StmtKind::For { target, iter, body } = &stmt.kind {
            if is_array_use_bad(iter, array, constants) {
                return false;
            }
            let callee = iter.as_call().map(|(path, _)| path).unwrap_or_default();
            let mut used = BTreeSet::new();
            if callee == "T.parallel" {
                names_of(body, &mut used);
                if used.contains(array) {
                    return false;
                }
            }
            let n_before = constants.len();
            let unrolled = (callee == "T.unroll" || callee == "T.vectorized")
                && super::nest::constant_trips(iter).is_some_and(super::nest::is_unrolled)
                && !leaves_loop(body);
            if unrolled {
                constants.extend(target.as_name().cloned());
            }
            let good = has_constant_indices(body, array, constants);
            constants.truncate(n_before);
            return good;
        }
        if let StmtKind::With { body, .. } = &stmt.kind
            && super::block::is_kernel(body)
        {
            // A kernel takes buffers of the code around it by address.
            let mut used = BTreeSet::new();
            names_of(body, &mut used);
            return !used.contains(array);
        }
        let mut good = true;
        let mut lists: Vec<&[Stmt]> = Vec::new();
        parts(
            stmt,
            &mut |expr| good &= !is_array_use_bad(expr, array, constants),
            &mut |list| lists.push(list),
        );
        good && lists
            .into_iter()
            .all(|list| has_constant_indices(list, array, constants))
    })
}

/// Whether an expression uses an array in another way than by constant indices.
fn is_array_use_bad(expr: &Expr, array: &Name, constants: &[Name]) -> bool {
    // Regions say what is read and written; they are not uses.
    if expr.is_call_of("T.reads") || expr.is_call_of("T.writes") {
        return false;
    }
    let mut uses = 0usize;
    let mut good = 0usize;
    exprs(expr, &mut |part| {
        uses += usize::from(part.as_name() == Some(array));
        if let ExprKind::Index { value, index } = &part.kind
            && value.as_name() == Some(array)
        {
            good += usize::from(index.iter().all(|idx| is_constant(idx, constants)));
        }
    });
    uses != good
}

fn is_constant(expr: &Expr, constants: &[Name]) -> bool {
    match &expr.kind {
        ExprKind::Int(_) => true,
        ExprKind::Name(name) => constants.contains(name),
        ExprKind::Binary { lhs, rhs, .. } => {
            is_constant(lhs, constants) && is_constant(rhs, constants)
        }
        ExprKind::Call { .. } => {
            (expr.is_call_of("T.int64") || expr.is_call_of("T.int32"))
                && expr.positional().all(|arg| is_constant(arg, constants))
        }
        _ => false,
    }
}

/// Whether two expressions are written alike.
pub fn same(a: &Expr, b: &Expr) -> bool {
    let all =
        |a: &[Expr], b: &[Expr]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b));
    match (&a.kind, &b.kind) {
        (ExprKind::Name(a), ExprKind::Name(b)) => a == b,
        (ExprKind::Int(a), ExprKind::Int(b)) => a == b,
        (ExprKind::Attr { value: a, name: an }, ExprKind::Attr { value: b, name: bn }) => {
            an == bn && same(a, b)
        }
        (ExprKind::Unary { op: ao, value: a }, ExprKind::Unary { op: bo, value: b }) => {
            ao == bo && same(a, b)
        }
        (
            ExprKind::Binary {
                op: ao,
                lhs: al,
                rhs: ar,
            },
            ExprKind::Binary {
                op: bo,
                lhs: bl,
                rhs: br,
            },
        ) => ao == bo && same(al, bl) && same(ar, br),
        (
            ExprKind::Index {
                value: av,
                index: ai,
            },
            ExprKind::Index {
                value: bv,
                index: bi,
            },
        ) => same(av, bv) && all(ai, bi),
        (ExprKind::Call { func: af, args: aa }, ExprKind::Call { func: bf, args: ba }) => {
            same(af, bf)
                && aa.len() == ba.len()
                && aa
                    .iter()
                    .zip(ba)
                    .all(|(a, b)| a.name == b.name && same(&a.value, &b.value))
        }
        (ExprKind::Str(a), ExprKind::Str(b)) => a == b,
        _ => false,
    }
}

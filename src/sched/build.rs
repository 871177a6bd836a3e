//! Small builders of scheduled text: loops, kernel regions, parallel nests.

use irc_syntax::names::NameSupply;
use irc_syntax::{BinaryOp, Expr, Name, Stmt, StmtKind, Trivia};

use super::nest::int_of;

/// `for var in call(extent): body`
fn for_stmt(var: &Name, iter: Expr, body: Vec<Stmt>) -> Stmt {
    Stmt::new(StmtKind::For {
        target: Expr::name(var),
        iter,
        body,
    })
}

/// `for var in range(extent): body`
pub fn serial(var: &Name, extent: Expr, body: Vec<Stmt>) -> Stmt {
    for_stmt(var, Expr::call("range", [extent]), body)
}

/// `for var in range(lo, hi): body`
pub fn serial_from(var: &Name, lo: Expr, hi: Expr, body: Vec<Stmt>) -> Stmt {
    for_stmt(var, Expr::call("range", [lo, hi]), body)
}

/// `for var in T.vectorized(lanes): body`
pub fn vectorized(var: &Name, lanes: i64, body: Vec<Stmt>) -> Stmt {
    for_stmt(var, Expr::call("T.vectorized", [Expr::int(lanes)]), body)
}

/// `for var in T.unroll(extent): body`; the body itself with a zero for one round.
pub fn unrolled(var: &Name, extent: i64, body: Vec<Stmt>) -> Stmt {
    for_stmt(var, Expr::call("T.unroll", [Expr::int(extent)]), body)
}

/// `if cond: body`
pub fn guarded(cond: Option<Expr>, body: Vec<Stmt>) -> Vec<Stmt> {
    let Some(cond) = cond else { return body };
    let orelse = Vec::new();
    vec![Stmt::new(StmtKind::If {
        cond,
        then: body,
        orelse,
        else_trivia: Trivia::default(),
    })]
}

/// A kernel region.
pub fn region(name: &str, body: Vec<Stmt>) -> Stmt {
    let attrs = Expr::dict([("irc.kernel".to_owned(), Expr::bool(true))]);
    let mut inner = vec![Stmt::expr(Expr::call("T.sblock_attr", [attrs]))];
    inner.extend(body);
    Stmt::new(StmtKind::With {
        context: Expr::call("T.sblock", [Expr::str(name)]),
        target: None,
        body: inner,
    })
}

/// `a + b`, folded where it can be.
pub fn add(a: Expr, b: Expr) -> Expr {
    match (int_of(&a), int_of(&b)) {
        (Some(a), Some(b)) => Expr::int(a + b),
        (Some(0), _) => b,
        (_, Some(0)) => a,
        _ => Expr::binary(BinaryOp::Add, a, b),
    }
}

/// `a * b`, folded where it can be.
pub fn mul(a: Expr, b: i64) -> Expr {
    match (int_of(&a), b) {
        (Some(a), b) => Expr::int(a * b),
        (None, 1) => a,
        _ => Expr::binary(BinaryOp::Mul, a, Expr::int(b)),
    }
}

/// `a * b`, folded where it can be.
pub fn product(a: Expr, b: Expr) -> Expr {
    match (int_of(&a), int_of(&b)) {
        (_, Some(b)) => mul(a, b),
        (Some(1), None) => b,
        _ => Expr::binary(BinaryOp::Mul, a, b),
    }
}

/// `a < b`
pub fn less(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::Lt, a, b)
}

/// `(a + b - 1) // b`
pub fn ceil_div(a: &Expr, b: i64) -> Expr {
    match int_of(a) {
        Some(a) => Expr::int((a + b - 1).div_euclid(b)),
        None if b == 1 => a.clone(),
        None => {
            let sum = Expr::binary(BinaryOp::Add, a.clone(), Expr::int(b - 1));
            Expr::binary(BinaryOp::FloorDiv, sum, Expr::int(b))
        }
    }
}

/// `a // b`
pub fn floor_div(a: &Expr, b: i64) -> Expr {
    match int_of(a) {
        Some(a) => Expr::int(a.div_euclid(b)),
        None if b == 1 => a.clone(),
        None => Expr::binary(BinaryOp::FloorDiv, a.clone(), Expr::int(b)),
    }
}

/// `T.min(a, b)`
pub fn min(a: Expr, b: Expr) -> Expr {
    match (int_of(&a), int_of(&b)) {
        (Some(a), Some(b)) => Expr::int(a.min(b)),
        _ => Expr::call("T.min", [a, b]),
    }
}

/// One parallel loop over all levels, whose variables are bound inside it; serial without levels. Levels of one round
/// become `var = 0`.
pub fn parallel(names: &mut NameSupply, levels: Vec<(Name, Expr)>, body: Vec<Stmt>) -> Vec<Stmt> {
    let (ones, levels): (Vec<_>, Vec<_>) = levels
        .into_iter()
        .partition(|(_, extent)| int_of(extent) == Some(1));
    let mut inner: Vec<Stmt> = ones
        .into_iter()
        .map(|(var, _)| Stmt::bind(var, Expr::int(0)))
        .collect();
    match levels.as_slice() {
        [] => {
            inner.extend(body);
            inner
        }
        [(var, extent)] => {
            inner.extend(body);
            vec![for_stmt(
                var,
                Expr::call("T.parallel", [extent.clone()]),
                inner,
            )]
        }
        _ => {
            let task = names.fresh("task");
            // The last level varies fastest.
            let mut rest = Expr::name(&task);
            let mut binds = Vec::new();
            for (at, (var, extent)) in levels.iter().enumerate().rev() {
                let value = match at {
                    0 => rest.clone(),
                    _ => Expr::binary(BinaryOp::Mod, rest.clone(), extent.clone()),
                };
                binds.push(Stmt::bind(var, value));
                rest = match (int_of(extent), &rest) {
                    (Some(extent), rest) => floor_div(rest, extent),
                    (None, rest) => Expr::binary(BinaryOp::FloorDiv, rest.clone(), extent.clone()),
                };
            }
            inner.extend(binds);
            inner.extend(body);
            let total = levels
                .iter()
                .map(|(_, extent)| extent.clone())
                .reduce(product)
                .unwrap_or_else(|| Expr::int(1));
            vec![for_stmt(&task, Expr::call("T.parallel", [total]), inner)]
        }
    }
}

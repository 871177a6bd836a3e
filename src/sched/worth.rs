//! What the rounds of parallel loops are worth: a loop of little work runs faster on one thread than others can be told of it.
//!
//!     for i in T.parallel(n):            →      for i in T.parallel(n, annotations={"irc.work": 700}):
//!         … 100 products and sums                   …
//!
//! `irc.work` is about what a round takes, in hundredths of a nanosecond on a current core. It may mention what is bound
//! around the loop, such as symbols of shapes. The pool multiplies it by the number of rounds, which may be known only
//! then, and decides (`codegen/runtime/pool`). A loop without it is always shared out.

use irc_syntax::uses::{for_each_subexpr, mentions};
use irc_syntax::visit::{walk_expr, walk_stmt_mut};
use irc_syntax::{
    Arg, BinaryOp, Expr, ExprKind, Name, Stmt, StmtKind, Visit, VisitMut, print_expr,
};

use super::parallelize::OPEN_EXTENT;
use super::tile::has_long_call;
use crate::shape::Dim;
use crate::target::WORK;

/// What one lane of a vector operation takes.
const LANE: i64 = 1;
/// What an operation that is no vector's takes.
const SCALAR: i64 = 16;
/// What one lane of a function of many instructions takes.
const LONG_LANE: i64 = 48;
/// How many rounds a loop makes whose bounds are computed inside the parallel one.
const OPEN_ROUNDS: i64 = 8;
/// Formulas longer than this are numbers instead: what they are for symbols of a likely size.
const TEXT_LENGTH: usize = 60;

/// Notes in each parallel loop of a statement what its rounds are worth.
pub fn note_work(stmt: &mut Stmt) {
    Noting.visit_stmt(stmt);
}

struct Noting;

impl VisitMut for Noting {
    fn visit_stmt(&mut self, stmt: &mut Stmt) {
        if let StmtKind::For { target, iter, body } = &mut stmt.kind
            && iter.is_call_of("T.parallel")
            && iter.keyword("annotations").is_none()
        {
            let mut count = Count {
                inner: target.as_name().cloned().into_iter().collect(),
            };
            if let Some(work) = count.body(body, SCALAR)
                && let ExprKind::Call { args, .. } = &mut iter.kind
            {
                let noted = Expr::dict([(WORK.to_owned(), formula(&work))]);
                args.push(Arg {
                    name: Some(Name::from("annotations")),
                    value: noted,
                });
            }
        }
        walk_stmt_mut(self, stmt);
    }
}

/// The text of some work.
fn formula(work: &Dim) -> Expr {
    let expr = work.to_expr();
    if !work.overflows() && print_expr(&expr).len() <= TEXT_LENGTH {
        return expr;
    }
    let likely = work.eval(&|_| Some(OPEN_EXTENT));
    Expr::int(likely.unwrap_or(i64::from(i32::MAX)))
}

/// A walk that adds up. `None` where the text does not bound a loop.
struct Count {
    /// Names bound inside the loop, which formulas cannot mention.
    inner: Vec<Name>,
}

impl Count {
    /// The work of statements, an operation of which takes `each`.
    fn body(&mut self, stmts: &[Stmt], each: i64) -> Option<Dim> {
        let n_inner = self.inner.len();
        let mut sum = Dim::int(0);
        for stmt in stmts {
            sum = &sum + &self.stmt(stmt, each)?;
        }
        self.inner.truncate(n_inner);
        Some(sum)
    }

    fn stmt(&mut self, stmt: &Stmt, each: i64) -> Option<Dim> {
        Some(match &stmt.kind {
            StmtKind::Assign { target, value, .. } => {
                self.inner.extend(target.as_name().cloned());
                match is_declaration(value) {
                    true => Dim::int(0),
                    false => Dim::int(operations(target, value) * each),
                }
            }
            StmtKind::If { then, orelse, .. } => {
                &self.body(then, each)? + &self.body(orelse, each)?
            }
            StmtKind::For { target, iter, body } => {
                let rounds = self.rounds(iter);
                let vars = target.as_items().unwrap_or(std::slice::from_ref(target));
                let n_inner = self.inner.len();
                self.inner
                    .extend(vars.iter().filter_map(|var| var.as_name().cloned()));
                let each = if iter.is_call_of("T.vectorized") {
                    LANE
                } else {
                    each
                };
                let work = self.body(body, each);
                self.inner.truncate(n_inner);
                &rounds * &work?
            }
            StmtKind::While { .. } => return None,
            // What a reduction starts from is once a result.
            StmtKind::With { context, .. } if context.is_call_of("T.init") => Dim::int(0),
            StmtKind::With { body, .. } => self.body(body, each)?,
            StmtKind::Assert { .. } => Dim::int(each),
            StmtKind::Expr(_)
            | StmtKind::Declare { .. }
            | StmtKind::Return(_)
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Pass
            | StmtKind::Import(_)
            | StmtKind::Func(_)
            | StmtKind::Error => Dim::int(0),
        })
    }

    /// How many rounds a loop makes, about.
    fn rounds(&self, iter: &Expr) -> Dim {
        let args: Vec<&Expr> = iter.positional().collect();
        if iter.is_call_of("T.grid") {
            return args
                .iter()
                .fold(Dim::int(1), |all, extent| &all * &self.up_to(None, extent));
        }
        match args.as_slice() {
            [hi] => self.up_to(None, hi),
            [lo, hi, ..] => self.up_to(Some(lo), hi),
            [] => Dim::int(1),
        }
    }

    /// The way from `lo` to `hi`; of several bounds the least that is known.
    fn up_to(&self, lo: Option<&Expr>, hi: &Expr) -> Dim {
        let ends: Vec<&Expr> = match hi.is_call_of("T.min") {
            true => hi.positional().collect(),
            false => vec![hi],
        };
        let lengths = ends.iter().flat_map(|end| {
            let apart = lo.map(|lo| Expr::binary(BinaryOp::Sub, (*end).clone(), lo.clone()));
            [
                apart.and_then(|apart| self.closed(&apart)),
                self.closed(end),
            ]
        });
        let known: Vec<Dim> = lengths.flatten().collect();
        let least = known.iter().filter_map(Dim::as_int).min();
        match least {
            Some(least) => Dim::int(least.max(0)),
            None => {
                let likely = if has_rest(hi) { 1 } else { OPEN_ROUNDS };
                known.into_iter().next().unwrap_or_else(|| Dim::int(likely))
            }
        }
    }

    /// A formula of what is bound around the loop, and no rest of a division.
    fn closed(&self, expr: &Expr) -> Option<Dim> {
        let dim = Dim::from_expr(expr).ok()?;
        let is_open = has_rest(expr) || mentions(&dim.to_expr(), |name| self.inner.contains(name));
        (!is_open).then_some(dim)
    }
}

/// Whether a number is what some division leaves, which is little.
fn has_rest(expr: &Expr) -> bool {
    let mut found = false;
    for_each_subexpr(expr, &mut |part| {
        let ExprKind::Binary { op, .. } = &part.kind else {
            return;
        };
        found |= *op == BinaryOp::Mod;
    });
    found
}

/// Lanes' worth of one store: its arithmetic, where a product that is added counts with the sum, and twice its accesses.
fn operations(target: &Expr, value: &Expr) -> i64 {
    let mut found = Operations::default();
    found.visit_expr(value);
    let stores = i64::from(matches!(target.kind, ExprKind::Index { .. }));
    // Sums of a register tile read and write registers.
    let kept = if found.sums > 0 && found.products > 0 {
        2
    } else {
        0
    };
    let long = if has_long_call(value) { LONG_LANE } else { 0 };
    let accesses = (2 * (found.reads + stores) - kept).max(0);
    (found.sums.max(found.products) + found.others + accesses + long).max(1)
}

/// Operations of a value by kind.
#[derive(Default)]
struct Operations {
    sums: i64,
    products: i64,
    others: i64,
    reads: i64,
}

impl Visit for Operations {
    fn visit_expr(&mut self, expr: &Expr) {
        match &expr.kind {
            // Indices are no work.
            ExprKind::Index { .. } => {
                self.reads += 1;
                return;
            }
            ExprKind::Binary { op, .. } => match op {
                BinaryOp::Add | BinaryOp::Sub => self.sums += 1,
                BinaryOp::Mul => self.products += 1,
                _ => self.others += 1,
            },
            ExprKind::Call { .. } => {
                let path = expr.as_call().map(|(path, _)| path).unwrap_or_default();
                let plain = ["T.float", "T.int", "T.uint", "T.bfloat", "T.bool", "T.Cast"];
                self.others += i64::from(!plain.iter().any(|start| path.starts_with(start)));
            }
            _ => {}
        }
        walk_expr(self, expr);
    }
}

/// Whether a value declares something, or places a block's axis: no work.
fn is_declaration(value: &Expr) -> bool {
    let path = value.as_call().map(|(path, _)| path).unwrap_or_default();
    path.starts_with("T.axis.")
        || path.starts_with("T.alloc_")
        || matches!(path.as_str(), "T.sblock_alloc_buffer" | "T.match_buffer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use irc_syntax::{SourceMap, parse};

    /// The annotation of the first loop of a text.
    fn work(text: &str) -> String {
        let text = format!("@I.ir_module\nclass Module:\n    @T.prim_func\n    def f({text}");
        let (module, faults) = parse(&mut SourceMap::new(), "text", &text);
        assert!(faults.is_empty(), "{faults:?}");
        let mut body = module.find_func("f").expect("there").body.clone();
        body.iter_mut().for_each(note_work);
        let iter = body.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::For { iter, .. } => Some(iter.clone()),
            _ => None,
        });
        print_expr(&iter.expect("a loop"))
    }

    #[test]
    fn a_round_is_worth_its_vectors() {
        let found = work(
            r#"x: T.Buffer((n, 100), "float32"), y: T.Buffer((n, 100), "float32")):
        n = T.int64()
        for i in T.parallel(n):
            for jo in range(7):
                for vi in T.vectorized(16):
                    if jo * 16 + vi < 100:
                        y[i, jo * 16 + vi] = x[i, jo * 16 + vi] + T.float32(1)
"#,
        );
        assert_eq!(found, r#"T.parallel(n, annotations={"irc.work": 560})"#);
    }

    #[test]
    fn symbols_stay_and_chunks_are_whole() {
        let found = work(
            r#"x: T.Buffer((n, m), "float32"), y: T.Buffer((n, m), "float32")):
        n = T.int64()
        m = T.int64()
        for task in T.parallel(n):
            for i in range(task * 8, T.min(task * 8 + 8, n)):
                for j in range(m):
                    y[i, j] = x[i, j]
"#,
        );
        assert_eq!(found, r#"T.parallel(n, annotations={"irc.work": m * 512})"#);
    }

    #[test]
    fn a_loop_without_bound_has_none() {
        let found = work(
            r#"x: T.Buffer((8,), "float32")):
        for i in T.parallel(8):
            while x[i] < T.float32(1):
                x[i] = x[i] + T.float32(1)
"#,
        );
        assert_eq!(found, "T.parallel(8)");
    }
}

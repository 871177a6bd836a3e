//! Questions about statements: whether they leave a loop, and how a local array is indexed.

use irc_syntax::uses::{for_each_subexpr, mentioned};
use irc_syntax::visit::walk_stmt;
use irc_syntax::{Expr, ExprKind, Name, Stmt, StmtKind, Visit};

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
pub fn has_constant_indices(stmts: &[Stmt], array: &Name, constants: Vec<Name>) -> bool {
    let mut uses = ArrayUses {
        array,
        constants,
        all_constant: true,
    };
    uses.visit_body(stmts);
    uses.all_constant
}

struct ArrayUses<'a> {
    array: &'a Name,
    constants: Vec<Name>,
    all_constant: bool,
}

impl Visit for ArrayUses<'_> {
    fn visit_stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::For { target, iter, body } => {
                self.visit_expr(iter);
                let callee = iter.as_call().map(|(path, _)| path).unwrap_or_default();
                if callee == "T.parallel" && mentioned(body).contains(self.array) {
                    self.all_constant = false;
                }
                let n_before = self.constants.len();
                let unrolled = (callee == "T.unroll" || callee == "T.vectorized")
                    && super::nest::constant_trips(iter).is_some_and(super::nest::is_unrolled)
                    && !leaves_loop(body);
                if unrolled {
                    self.constants.extend(target.as_name().cloned());
                }
                self.visit_body(body);
                self.constants.truncate(n_before);
            }
            // A kernel takes buffers of the code around it by address.
            StmtKind::With { body, .. } if super::block::is_kernel(body) => {
                self.all_constant &= !mentioned(body).contains(self.array);
            }
            _ => walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &Expr) {
        self.all_constant &= !is_array_use_bad(expr, self.array, &self.constants);
    }
}

/// Whether an expression uses an array in another way than by constant indices.
fn is_array_use_bad(expr: &Expr, array: &Name, constants: &[Name]) -> bool {
    // Regions say what is read and written; they are not uses.
    if expr.is_call_of("T.reads") || expr.is_call_of("T.writes") {
        return false;
    }
    let mut uses = 0usize;
    let mut good = 0usize;
    for_each_subexpr(expr, &mut |part| {
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

//! Takes rows of a table before computing on them, not after.
//!
//!     w = R.multiply(q, scale)                       q_take = R.take(q, ids, axis=0)
//!     y = R.take(w, ids, axis=0)              →      scale_take = R.take(scale, ids, axis=0)
//!                                                    y = R.multiply(q_take, scale_take)
//!
//! The table of a quantized embedding is so dequantized row by row, never as a whole. The table is made by element-wise
//! operators from tensors of known extents, is large, has no other reader, and is not known to be smaller than what
//! is taken from it. An operand that has extent 1 where rows are taken is broadcast as before.

use std::collections::BTreeMap;

use irc_syntax::names::NameSupply;
use irc_syntax::{Expr, ExprKind, FuncKind, Module, Name, Stmt, StmtKind};

use super::graph::count_uses;
use super::{Changed, Pass, PassCx};
use crate::check::FuncInfo;
use crate::check::prim::{self, Prim};
use crate::check::stage::Level;
use crate::shape::Dim;
use crate::tensor::parse_const;

/// Tables of fewer elements are computed faster than a kernel starts.
const MIN_TABLE: i64 = 1 << 14;

/// The pass.
pub const PASS: Pass = Pass {
    name: "take_first",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "take rows of a table before computing on them",
    args: &[],
};

/// Runs the pass on every block of every graph function.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for func in module.funcs_mut() {
        let Some(info) = cx
            .info
            .funcs
            .get(&func.name)
            .filter(|_| func.kind == FuncKind::Graph)
        else {
            continue;
        };
        let mut rewrite = Rewrite {
            info,
            uses: count_uses(&func.body),
            names: NameSupply::of_func(func),
            made_by: BTreeMap::new(),
            changed: false,
        };
        rewrite.block(&mut func.body);
        changed |= rewrite.changed;
    }
    Changed::from(changed)
}

struct Rewrite<'a> {
    info: &'a FuncInfo,
    uses: BTreeMap<Name, usize>,
    names: NameSupply,
    /// The element-wise values in sight.
    made_by: BTreeMap<Name, Expr>,
    changed: bool,
}

/// How a take reads its table.
struct Take {
    table: Name,
    index: Expr,
    index_rank: usize,
    axis: usize,
    mode: Option<Expr>,
}

impl Rewrite<'_> {
    fn block(&mut self, stmts: &mut Vec<Stmt>) {
        let mut kept = Vec::with_capacity(stmts.len());
        for mut stmt in std::mem::take(stmts) {
            match &mut stmt.kind {
                StmtKind::If { then, orelse, .. } => {
                    let outside = self.made_by.clone();
                    self.block(then);
                    self.made_by.clone_from(&outside);
                    self.block(orelse);
                    self.made_by = outside;
                }
                StmtKind::Assign { target, value, .. } => {
                    if let Some(name) = target.as_name().filter(|_| is_element_wise(value)) {
                        self.made_by.insert(name.clone(), value.clone());
                    }
                    if let Some((takes, new)) = self.taken(value) {
                        kept.extend(takes);
                        *value = new.at(value.span);
                        self.changed = true;
                    }
                }
                _ => {}
            }
            kept.push(stmt);
        }
        *stmts = kept;
    }

    fn shape(&self, name: &Name) -> Option<&[Dim]> {
        self.info.vars.get(name)?.as_tensor()?.shape.as_deref()
    }

    /// A take of a computed table as takes of what the table is computed from, and the computation.
    fn taken(&mut self, value: &Expr) -> Option<(Vec<Stmt>, Expr)> {
        let take = self.take_of(value)?;
        let table = self.made_by.get(&take.table)?.clone();
        let shape = self.shape(&take.table)?.to_vec();
        let index = take.index.as_name().and_then(|name| self.shape(name))?;
        let extents = shape.iter().map(Dim::as_int).collect::<Option<Vec<_>>>()?;
        let elements = extents.iter().fold(1i64, |n, len| n.saturating_mul(*len));
        let rows: Dim = index.iter().product();
        let takes_more = rows.as_int().is_some_and(|rows| rows >= extents[take.axis]);
        if elements < MIN_TABLE || takes_more || self.uses.get(&take.table) != Some(&1) {
            return None;
        }
        self.operands_taken(&take, &table, &shape)
    }

    fn take_of(&self, value: &Expr) -> Option<Take> {
        let (path, _) = value.as_call()?;
        if Prim::find(&path)? != Prim::Take {
            return None;
        }
        let call = prim::bind(Prim::Take, value).ok()?;
        let table = call.operand("x")?.as_name()?.clone();
        let index = call.operand("indices")?.clone();
        let index_rank = self.shape(index.as_name()?)?.len();
        let rank = i64::try_from(self.shape(&table)?.len()).ok()?;
        let axis = call.opt_int("axis")?;
        let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok()?;
        Some(Take {
            table,
            index,
            index_rank,
            axis,
            mode: value.keyword("mode").cloned(),
        })
    }

    fn operands_taken(
        &mut self,
        take: &Take,
        table: &Expr,
        shape: &[Dim],
    ) -> Option<(Vec<Stmt>, Expr)> {
        let mut new = table.clone();
        let ExprKind::Call { args, .. } = &mut new.kind else {
            return None;
        };
        let mut made = Vec::new();
        for arg in args.iter_mut().filter(|arg| arg.name.is_none()) {
            let Some(name) = arg.value.as_name().cloned() else {
                if !is_scalar(&arg.value) {
                    return None;
                }
                continue;
            };
            let own = self.shape(&name)?.to_vec();
            let Some(axis) = take.axis.checked_sub(shape.len() - own.len()) else {
                continue;
            };
            let value = if own[axis] == shape[take.axis] {
                self.row_of(&name, axis, take)
            } else if own[axis].as_int() == Some(1) && take.index_rank == 1 {
                continue;
            } else if own[axis].as_int() == Some(1) {
                let ones = std::iter::repeat_n(Dim::int(1), take.index_rank);
                let dims = own[..axis].iter().cloned().chain(ones);
                let dims = dims.chain(own[axis + 1..].iter().cloned());
                let dims = Expr::list(dims.map(|dim| dim.to_expr()));
                let shape = Expr::call("R.shape", [dims]);
                Expr::call("R.reshape", [Expr::name(&name), shape])
            } else {
                return None;
            };
            let fresh = self.names.fresh(&format!("{name}_take"));
            // What is taken from may be computed itself.
            let value = match self.taken(&value) {
                Some((takes, value)) => {
                    made.extend(takes);
                    value
                }
                None => value,
            };
            made.push(Stmt::bind(&fresh, value));
            arg.value = Expr::name(fresh);
        }
        Some((made, new))
    }

    fn row_of(&self, name: &Name, axis: usize, take: &Take) -> Expr {
        let call = Expr::call("R.take", [Expr::name(name), take.index.clone()])
            .with("axis", Expr::int(axis as i128));
        match &take.mode {
            Some(mode) => call.with("mode", mode.clone()),
            None => call,
        }
    }
}

fn is_element_wise(value: &Expr) -> bool {
    let prim = value.as_call().and_then(|(path, _)| Prim::find(&path));
    matches!(
        prim,
        Some(Prim::Unary(_) | Prim::Binary(_) | Prim::Where | Prim::Astype)
    )
}

/// A constant of rank 0, or an attribute given by position.
fn is_scalar(value: &Expr) -> bool {
    match value.as_call() {
        Some((path, args)) if path == "R.const" => {
            parse_const(args).is_ok_and(|tensor| tensor.shape.is_empty())
        }
        Some(_) => false,
        None => true,
    }
}

//! What a prim_func computes and moves, as formulas of its symbols: the numbers of a profile.
//!
//!     y[i, j] = y[i, j] + a[i, k] * b[k, j]    for i < n, j < 64, k < 32    →    2*n*64*32 operations
//!
//! An operation is arithmetic, a comparison or a function on values; indices, conditions and conversions are none. The
//! bytes are those of the parameters, each element once, or as often as it is accessed where that is less. The pass notes
//! them in the attributes of functions in modules that are built for a profile; loops that are scheduled already are
//! counted as they stand, with what a tile computes beyond the edge.

use std::collections::BTreeMap;

use irc_syntax::uses::mentions;
use irc_syntax::{
    BinaryOp, Expr, ExprKind, Func, FuncKind, Module, Name, Stmt, StmtKind, print_expr,
};

use super::nest::buffers_of;
use crate::check::stage::Level;
use crate::opt::{Changed, Pass, PassCx, set_func_attr};
use crate::shape::{Dim, Facts};

/// The pass.
pub const PASS: Pass = Pass {
    name: "costs",
    run,
    from: Level::Loops,
    to: Level::Loops,
    summary: "note what each prim_func computes and moves, for profiles",
    args: &[],
};

/// The attribute that holds them.
pub const ATTR: &str = "irc.cost";

/// Formulas of a prim_func's symbols.
#[derive(Clone, PartialEq, Debug)]
pub struct Cost {
    /// Operations; `None` where the text does not tell.
    pub operations: Option<Dim>,
    /// Bytes read or written.
    pub bytes: Option<Dim>,
}

fn run(module: &mut Module, _cx: &mut PassCx) -> Changed {
    if module.attr(crate::target::PROFILE).is_none() {
        return Changed::No;
    }
    let mut changed = false;
    for func in module.funcs_mut() {
        if func.kind == FuncKind::Loops && func.attr(ATTR).is_none() {
            let cost = cost_of(func);
            let items = [("bytes", &cost.bytes), ("operations", &cost.operations)];
            let items = items.into_iter().filter_map(|(key, dim)| {
                let text = print_expr(&dim.as_ref()?.to_expr());
                Some((key.to_owned(), Expr::str(text)))
            });
            set_func_attr(func, ATTR, Expr::dict(items));
            changed = true;
        }
    }
    Changed::from(changed)
}

/// What is noted in a prim_func, or else what its text says.
pub fn noted_cost(func: &Func) -> Cost {
    let Some(ExprKind::Dict(items)) = func.attr(ATTR).map(|noted| &noted.kind) else {
        return cost_of(func);
    };
    let dim = |key: &str| {
        let item = items.iter().find(|(name, _)| name.as_str() == Some(key));
        let text = item?.1.as_str()?;
        Dim::from_expr(&irc_syntax::parse_expr_str(text).ok()?).ok()
    };
    Cost {
        operations: dim("operations"),
        bytes: dim("bytes"),
    }
}

/// What the text of a prim_func says.
pub fn cost_of(func: &Func) -> Cost {
    let mut count = Count {
        rounds: Some(Dim::int(1)),
        operations: Some(Dim::int(0)),
        accesses: BTreeMap::new(),
        inner: Vec::new(),
    };
    count.body(&func.body);
    let buffers = buffers_of(func);
    let mut facts = Facts::default();
    let extents = buffers.values().flat_map(|(_, shape)| shape);
    for name in extents
        .filter_map(|extent| Some(Dim::from_expr(extent).ok()?.symbols()))
        .flatten()
    {
        // A kernel that computes nothing takes no time either.
        facts.narrow(name, Some(1), None);
    }
    let mut bytes = Some(Dim::int(0));
    for param in &func.params {
        let Some((dtype, shape)) = buffers.get(&param.name) else {
            continue;
        };
        let size = shape.iter().try_fold(Dim::int(1), |size, extent| {
            Some(&size * &Dim::from_expr(extent).ok()?)
        });
        let accesses = count.accesses.get(&param.name);
        let moved = match accesses {
            None => Some(Dim::int(0)),
            Some(None) => size,
            Some(Some(accesses)) => size.map(|size| match facts.prove_le(&size, accesses) {
                Some(true) => size,
                _ => Dim::min(&size, accesses),
            }),
        };
        bytes = bytes
            .zip(moved)
            .map(|(all, moved)| &all + &(&moved * &Dim::int(dtype.bytes() as i64)));
    }
    Cost {
        operations: count.operations.filter(|dim| !dim.overflows()),
        bytes: bytes.filter(|dim| !dim.overflows()),
    }
}

/// A walk that counts. `None` is a number that the text does not tell.
struct Count {
    /// How often the statement is executed.
    rounds: Option<Dim>,
    operations: Option<Dim>,
    accesses: BTreeMap<Name, Option<Dim>>,
    /// Variables of the loops around, which formulas cannot mention.
    inner: Vec<Name>,
}

impl Count {
    fn body(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Assign { target, value, .. } => {
                if let ExprKind::Index { value, .. } = &target.kind {
                    self.access(value);
                }
                if !is_declaration(value) {
                    self.value(value);
                }
            }
            StmtKind::If { then, orelse, .. } => {
                self.body(then);
                self.body(orelse);
            }
            StmtKind::For { target, iter, body } => {
                let rounds = self.rounds.clone();
                let n_inner = self.inner.len();
                let extent = self.extent_of(iter);
                self.rounds = rounds.clone().zip(extent).map(|(a, b)| &a * &b);
                let vars = target.as_items().unwrap_or(std::slice::from_ref(target));
                self.inner
                    .extend(vars.iter().filter_map(|var| var.as_name().cloned()));
                self.body(body);
                self.inner.truncate(n_inner);
                self.rounds = rounds;
            }
            StmtKind::While { body, .. } => {
                let rounds = self.rounds.take();
                self.body(body);
                self.rounds = rounds;
            }
            // What a reduction starts from is once a result.
            StmtKind::With { context, .. } if context.is_call_of("T.init") => {}
            StmtKind::With { body, .. } => self.body(body),
            StmtKind::Expr(_)
            | StmtKind::Declare { .. }
            | StmtKind::Return(_)
            | StmtKind::Assert { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Pass
            | StmtKind::Import(_)
            | StmtKind::Func(_)
            | StmtKind::Error => {}
        }
    }

    /// How many rounds a loop makes.
    fn extent_of(&self, iter: &Expr) -> Option<Dim> {
        let args: Vec<&Expr> = iter.positional().collect();
        if iter.is_call_of("T.grid") {
            return args.iter().try_fold(Dim::int(1), |all, extent| {
                Some(&all * &self.formula(extent)?)
            });
        }
        match args.as_slice() {
            [extent] => self.formula(extent),
            [lo, hi] => self.between(lo, hi),
            _ => None,
        }
    }

    /// A formula of the function's symbols alone.
    fn formula(&self, expr: &Expr) -> Option<Dim> {
        let is_open = mentions(expr, |name| self.inner.contains(name));
        Dim::from_expr(expr).ok().filter(|_| !is_open)
    }

    /// `hi - lo`; of a chunk `c * 8 .. T.min(c * 8 + 8, n)` its whole length, but no more than `n`.
    fn between(&self, lo: &Expr, hi: &Expr) -> Option<Dim> {
        let start = Dim::from_expr(lo).ok()?;
        let length = |hi: &Expr| {
            let length = &Dim::from_expr(hi).ok()? - &start;
            let is_open = length
                .symbols()
                .iter()
                .any(|name| self.inner.contains(name));
            (!is_open).then_some(length)
        };
        if let Some(length) = length(hi) {
            return Some(length);
        }
        let ends: Vec<&Expr> = hi.positional().filter(|_| hi.is_call_of("T.min")).collect();
        let chunk = ends.iter().find_map(|end| length(end))?;
        let most = ends.iter().filter_map(|end| self.formula(end));
        Some(most.fold(chunk, |least, end| Dim::min(&least, &end)))
    }

    fn access(&mut self, buffer: &Expr) {
        if let Some(name) = buffer.as_name() {
            let all = self
                .accesses
                .entry(name.clone())
                .or_insert(Some(Dim::int(0)));
            *all = all
                .take()
                .zip(self.rounds.as_ref())
                .map(|(all, more)| &all + more);
        }
    }

    fn operation(&mut self) {
        self.operations = self
            .operations
            .take()
            .zip(self.rounds.as_ref())
            .map(|(all, more)| &all + more);
    }

    fn value(&mut self, expr: &Expr) {
        match &expr.kind {
            // Indices are no work of the kernel.
            ExprKind::Index { value, .. } => self.access(value),
            ExprKind::Binary { op, lhs, rhs } => {
                if !matches!(op, BinaryOp::And | BinaryOp::Or) {
                    self.operation();
                }
                self.value(lhs);
                self.value(rhs);
            }
            ExprKind::Unary { value, .. } => self.value(value),
            ExprKind::Call { args, .. } => {
                let path = expr.as_call().map(|(path, _)| path).unwrap_or_default();
                let short = path.strip_prefix("T.").unwrap_or(&path);
                let is_choice = short == "if_then_else" || short == "Select";
                let is_plain = is_choice
                    || matches!(
                        short,
                        "Cast"
                            | "cast"
                            | "reinterpret"
                            | "bool"
                            | "infinity"
                            | "max_value"
                            | "min_value"
                    )
                    || ["int", "uint", "float", "bfloat", "axis."]
                        .iter()
                        .any(|start| short.starts_with(start));
                if !is_plain {
                    self.operation();
                }
                for arg in args.iter().skip(usize::from(is_choice)) {
                    self.value(&arg.value);
                }
            }
            ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
                items.iter().for_each(|item| self.value(item));
            }
            ExprKind::Name(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Str(_)
            | ExprKind::Bool(_)
            | ExprKind::None
            | ExprKind::Ellipsis
            | ExprKind::Attr { .. }
            | ExprKind::Slice { .. }
            | ExprKind::Dict(_)
            | ExprKind::IfElse { .. }
            | ExprKind::ListComp { .. }
            | ExprKind::Starred(_)
            | ExprKind::Error => {}
        }
    }
}

/// Whether a value declares something, or places a block's axis: no work.
fn is_declaration(value: &Expr) -> bool {
    let path = value.as_call().map(|(path, _)| path).unwrap_or_default();
    path.starts_with("T.axis.")
        || path.starts_with("T.alloc_")
        || matches!(
            path.as_str(),
            "T.sblock_alloc_buffer" | "T.match_buffer" | "T.int64" | "T.int32"
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use irc_syntax::{SourceMap, parse};

    fn cost(body: &str) -> (String, String) {
        let text = format!("@I.ir_module\nclass Module:\n    @T.prim_func\n    def f({body}");
        let (module, faults) = parse(&mut SourceMap::new(), "text", &text);
        assert!(faults.is_empty(), "{faults:?}");
        let cost = cost_of(module.find_func("f").expect("there"));
        let text = |dim: Option<Dim>| dim.map_or("?".to_owned(), |dim| print_expr(&dim.to_expr()));
        (text(cost.operations), text(cost.bytes))
    }

    #[test]
    fn a_product_of_matrices() {
        let found = cost(
            r#"a: T.Buffer((n, 32), "float32"), b: T.Buffer((32, 64), "float32"), y: T.Buffer((n, 64), "float32")):
        n = T.int64()
        for i, j, k in T.grid(n, 64, 32):
            with T.sblock("y"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[v_i, v_j] = T.float32(0)
                y[v_i, v_j] = y[v_i, v_j] + a[v_i, v_k] * b[v_k, v_j]
"#,
        );
        assert_eq!(found, ("n * 4096".to_owned(), "n * 384 + 8192".to_owned()));
    }

    #[test]
    fn few_rows_of_a_table_are_moved() {
        let found = cost(
            r#"t: T.Buffer((1000, 8), "float32"), i: T.Buffer((3,), "int64"), y: T.Buffer((3, 8), "float32")):
        for r, c in T.grid(3, 8):
            y[r, c] = t[i[r], c]
"#,
        );
        assert_eq!(found, ("0".to_owned(), "192".to_owned()));
    }

    #[test]
    fn chunks_count_whole_and_loops_without_bound_not_at_all() {
        let found = cost(
            r#"x: T.Buffer((100,), "float32")):
        for c in T.parallel(13):
            for i in range(c * 8, T.min(c * 8 + 8, 100)):
                x[i] = T.exp(x[i])
"#,
        );
        assert_eq!(found, ("104".to_owned(), "400".to_owned()));
        let found = cost(
            r#"x: T.Buffer((100,), "float32")):
        while x[0] < T.float32(1):
            x[0] = x[0] + T.float32(1)
"#,
        );
        assert_eq!(found, ("?".to_owned(), "400".to_owned()));
    }
}

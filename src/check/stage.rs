//! The levels of the one tree, as predicates.
//!
//! A level says what a module may contain; each includes what the ones before it may, in part. Passes state the
//! level they leave a module at, and the runner of passes holds them to it with [`verify`].

use std::collections::BTreeSet;

use irc_syntax::{
    Diagnostic, Expr, ExprKind, Func, FuncKind, Module, Name, Span, Stmt, StmtKind, Visit, visit,
};

use super::prim::Prim;

/// What a module is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Operators on tensors, nested and annotated as written.
    Graph,
    /// One operator a binding; arguments are names, constants, shapes and attributes.
    Normal,
    /// Every computation is a call of a group, a private function of operators that become one prim_func.
    Fused,
    /// Every computation is a prim_func of serial loops, called by `R.call_tir`.
    Loops,
    /// Prim_funcs with loop kinds, tiles and kernel regions.
    Scheduled,
    /// Kernels are called on placed tensors.
    Planned,
}

impl Level {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Normal => "normal form",
            Self::Fused => "fused",
            Self::Loops => "loops",
            Self::Scheduled => "scheduled",
            Self::Planned => "planned",
        }
    }
}

/// What in a module is not of a level, by place. Loop-level functions among `given` came with the program: they may be
/// scheduled already, and in any way.
pub fn verify(module: &Module, level: Level, given: &BTreeSet<Name>) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    for func in module.funcs() {
        match func.kind {
            // A group is lowered as a whole.
            FuncKind::Graph if level == Level::Fused && func.attr("op_pattern").is_some() => {
                graph_body(&func.body, Level::Normal, &mut faults);
            }
            FuncKind::Graph | FuncKind::Local => graph_body(&func.body, level, &mut faults),
            FuncKind::Loops if given.contains(&func.name) => {}
            FuncKind::Loops => prim_func(func, level, &mut faults),
        }
    }
    faults
}

fn fault(level: Level, span: Option<Span>, message: String) -> Diagnostic {
    Diagnostic::error("level", message).at(span, format!("not of level {}", level.name()))
}

fn graph_body(body: &[Stmt], level: Level, faults: &mut Vec<Diagnostic>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Assign { value, .. } | StmtKind::Expr(value) => {
                graph_value(value, level, faults)
            }
            StmtKind::If {
                cond, then, orelse, ..
            } => {
                plain_argument(cond, level, faults);
                graph_body(then, level, faults);
                graph_body(orelse, level, faults);
            }
            StmtKind::With { body, .. } => graph_body(body, level, faults),
            StmtKind::Return(Some(value)) => plain_argument(value, level, faults),
            StmtKind::Func(func) => graph_body(&func.body, level, faults),
            StmtKind::For { .. }
            | StmtKind::While { .. }
            | StmtKind::Break
            | StmtKind::Continue => {
                faults.push(fault(
                    level,
                    stmt.span,
                    "a graph function has no loops".to_string(),
                ));
            }
            StmtKind::Declare { .. }
            | StmtKind::Return(None)
            | StmtKind::Assert { .. }
            | StmtKind::Pass
            | StmtKind::Import(_)
            | StmtKind::Error => {}
        }
    }
}

/// Forms of the graph level that move no data or call what computes.
const STRUCTURAL: [&str; 20] = [
    "R.builtin.alloc_tensor",
    "R.call_dps_packed",
    "R.call_packed",
    "R.call_pure_packed",
    "R.call_tir",
    "R.call_tir_inplace",
    "R.const",
    "R.func_attr",
    "R.match_cast",
    "R.memory.alloc_storage",
    "R.memory.alloc_tensor",
    "R.memory.kill_storage",
    "R.memory.kill_tensor",
    "R.output",
    "R.reshape",
    "R.shape",
    "R.shape_of",
    "R.shape_to_tensor",
    "R.tensor_to_shape",
    "R.tuple",
];

fn graph_value(value: &Expr, level: Level, faults: &mut Vec<Diagnostic>) {
    if level == Level::Graph {
        return;
    }
    let Some((path, args)) = value.as_call() else {
        return plain_argument(value, level, faults);
    };
    if !matches!(path.as_str(), "R.match_cast" | "R.func_attr") {
        for arg in args {
            plain_argument(&arg.value, level, faults);
        }
    }
    if level < Level::Fused || path.starts_with("cls.") || path.starts_with("T.") {
        return;
    }
    let call_tir = matches!(path.as_str(), "R.call_tir" | "R.call_tir_inplace");
    let stays = Prim::find(&path).is_some_and(Prim::stays_in_graph);
    if !stays && !STRUCTURAL.contains(&path.as_str()) {
        faults.push(fault(
            level,
            value.span,
            format!("`{path}` is still an operator"),
        ));
    } else if call_tir && level == Level::Planned {
        faults.push(fault(
            level,
            value.span,
            format!("the results of `{path}` have no place"),
        ));
    }
}

/// In normal form an argument is a name, constant, shape, member of a tuple, or attribute literal.
fn plain_argument(value: &Expr, level: Level, faults: &mut Vec<Diagnostic>) {
    if level == Level::Graph {
        return;
    }
    match &value.kind {
        ExprKind::Tuple { items, .. } | ExprKind::List(items) => {
            items
                .iter()
                .for_each(|item| plain_argument(item, level, faults));
        }
        ExprKind::Call { .. } => {
            let path = value.as_call().map(|(path, _)| path).unwrap_or_default();
            let is_type = [
                "R.Tensor",
                "R.Tuple",
                "R.Shape",
                "R.Seq",
                "R.Opt",
                "R.Any",
                "R.Callable",
            ]
            .contains(&path.as_str());
            let is_literal = path.starts_with("T.")
                || matches!(
                    path.as_str(),
                    "R.const"
                        | "R.shape"
                        | "R.str"
                        | "R.dtype"
                        | "R.prim_value"
                        | "R.tuple"
                        | "R.null_value"
                );
            if !is_type && !is_literal {
                faults.push(fault(
                    level,
                    value.span,
                    format!("`{path}` stands inside another expression"),
                ));
            }
        }
        // Arithmetic of dims; on tensors it would be an operator, which the types tell.
        ExprKind::Binary { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Name(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Str(_)
        | ExprKind::Bool(_)
        | ExprKind::None
        | ExprKind::Attr { .. }
        | ExprKind::Index { .. }
        | ExprKind::Dict(_)
        | ExprKind::Error => {}
        ExprKind::Ellipsis
        | ExprKind::Slice { .. }
        | ExprKind::IfElse { .. }
        | ExprKind::ListComp { .. }
        | ExprKind::Starred(_) => {
            faults.push(fault(
                level,
                value.span,
                "this is for library functions".to_string(),
            ));
        }
    }
}

fn prim_func(func: &Func, level: Level, faults: &mut Vec<Diagnostic>) {
    if level < Level::Loops {
        return;
    }
    let mut regions = Regions { level, faults };
    visit::walk_func(&mut regions, func);
}

/// Looks for what the schedule makes: loop kinds, and kernel regions, `T.sblock_attr({"irc.kernel": True})` in a block.
struct Regions<'f> {
    level: Level,
    faults: &'f mut Vec<Diagnostic>,
}

impl Visit for Regions<'_> {
    fn visit_stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::With { body, .. } if body.iter().any(is_kernel_mark) => {
                if self.level == Level::Loops {
                    let message = "a kernel region stands before the schedule".to_string();
                    self.faults.push(fault(self.level, stmt.span, message));
                }
                return kernel_region(body, self.level, self.faults);
            }
            StmtKind::For { iter, .. } if self.level == Level::Loops => {
                let path = iter.as_call().map(|(path, _)| path).unwrap_or_default();
                if !matches!(path.as_str(), "range" | "T.serial" | "T.grid") {
                    let message = format!("`{path}` stands before the schedule");
                    self.faults.push(fault(self.level, iter.span, message));
                }
            }
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }
}

fn is_kernel_mark(stmt: &Stmt) -> bool {
    let StmtKind::Expr(call) = &stmt.kind else {
        return false;
    };
    let Some(ExprKind::Dict(items)) = call.positional().next().map(|attrs| &attrs.kind) else {
        return false;
    };
    items.iter().any(|(key, value)| {
        key.as_str() == Some("irc.kernel") && value.kind == ExprKind::Bool(true)
    })
}

/// A kernel region has serial, unrolled and vectorized loops, stores, local arrays, and conditions.
fn kernel_region(body: &[Stmt], level: Level, faults: &mut Vec<Diagnostic>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::For { iter, body, .. } => {
                let path = iter.as_call().map(|(path, _)| path).unwrap_or_default();
                if !matches!(
                    path.as_str(),
                    "range" | "T.serial" | "T.unroll" | "T.vectorized" | "T.grid"
                ) {
                    let message = format!("a kernel region has no `{path}`");
                    faults.push(fault(level, iter.span, message));
                }
                kernel_region(body, level, faults);
            }
            StmtKind::If { then, orelse, .. } => {
                kernel_region(then, level, faults);
                kernel_region(orelse, level, faults);
            }
            StmtKind::With { context, body, .. } => {
                if body.iter().any(is_kernel_mark) {
                    let message = "a kernel region stands inside another".to_string();
                    faults.push(fault(level, context.span, message));
                }
                kernel_region(body, level, faults);
            }
            StmtKind::While { .. } | StmtKind::Return(_) | StmtKind::Break | StmtKind::Continue => {
                let message = "a kernel region has loops of known length only".to_string();
                faults.push(fault(level, stmt.span, message));
            }
            StmtKind::Assign { .. }
            | StmtKind::Declare { .. }
            | StmtKind::Expr(_)
            | StmtKind::Assert { .. }
            | StmtKind::Pass
            | StmtKind::Import(_)
            | StmtKind::Func(_)
            | StmtKind::Error => {}
        }
    }
}

//! A prim_func of the lowering as a list of nests, and what primitives ask of them.
//!
//!     for ax0, ax1 in T.grid(n, 64):                        Nest { loops: [ax0 < n, ax1 < 64], body: [y[ax0, ax1] = …] }
//!         with T.sblock("y"):                          →
//!             v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
//!             y[v_ax0, v_ax1] = …
//!
//! A nest has one block whose axes are its loops, one to one; block variables are replaced by loop variables, and loops
//! of extent 1 by zeros. Anything else stays a statement and is scheduled as it is written.

use std::collections::BTreeMap;

use irc_syntax::uses::mentions;
use irc_syntax::visit::{walk_expr, walk_expr_mut, walk_stmt};
use irc_syntax::{DType, Expr, ExprKind, Func, Name, Stmt, StmtKind, Visit, VisitMut};

use crate::shape::Dim;

/// Types of the buffers in scope.
pub type Buffers = BTreeMap<Name, (DType, Vec<Expr>)>;

/// One loop of a nest.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Its variable.
    pub var: Name,
    /// Its extent; it begins at 0.
    pub extent: Expr,
    /// Whether it reduces.
    pub reduces: bool,
}

impl Loop {
    /// The extent, where it is a number.
    pub fn len(&self) -> Option<i64> {
        int_of(&self.extent)
    }
}

/// Perfectly nested loops around one block.
#[derive(Clone, Debug)]
pub struct Nest {
    /// The block's name.
    pub name: String,
    /// Outermost first.
    pub loops: Vec<Loop>,
    /// What runs before the reduction of an element; empty without one.
    pub init: Vec<Stmt>,
    /// What runs for every element.
    pub body: Vec<Stmt>,
}

/// A part of a function's body.
#[derive(Clone, Debug)]
pub enum Part {
    /// A nest that primitives understand.
    Nest(Nest),
    /// Anything else.
    Stmt(Stmt),
}

/// The integer that an expression is: `64`, `T.int64(64)`.
pub fn int_of(expr: &Expr) -> Option<i64> {
    if let Some((path, [arg])) = expr.as_call()
        && (path == "T.int64" || path == "T.int32")
    {
        return int_of(&arg.value);
    }
    i64::try_from(expr.as_int()?).ok()
}

/// The parts of a function's body, in order.
pub fn parts_of(func: &Func) -> Vec<Part> {
    func.body
        .iter()
        .map(|stmt| nest_of(stmt).map_or_else(|| Part::Stmt(stmt.clone()), Part::Nest))
        .collect()
}

/// Reads one nest.
fn nest_of(stmt: &Stmt) -> Option<Nest> {
    let mut loops: Vec<(Name, Expr)> = Vec::new();
    let mut at = stmt;
    while let StmtKind::For { target, iter, body } = &at.kind {
        let (path, _) = iter.as_call()?;
        let extents: Vec<&Expr> = iter.positional().collect();
        let vars = target.as_items().unwrap_or(std::slice::from_ref(target));
        let plain = path == "T.grid" || path == "range" && extents.len() == 1;
        if !plain || vars.len() != extents.len() || iter.keyword("annotations").is_some() {
            return None;
        }
        for (var, extent) in vars.iter().zip(extents) {
            loops.push((var.as_name()?.clone(), extent.clone()));
        }
        let [inner] = body.as_slice() else {
            return None;
        };
        at = inner;
    }
    let StmtKind::With { context, body, .. } = &at.kind else {
        return None;
    };
    let (path, args) = context.as_call()?;
    if path != "T.sblock" || loops.is_empty() {
        return None;
    }
    let name = args.first()?.value.as_str()?.to_owned();
    block_of(name, loops, body)
}

fn block_of(name: String, loops: Vec<(Name, Expr)>, block: &[Stmt]) -> Option<Nest> {
    let mut map: BTreeMap<Name, Expr> = BTreeMap::new();
    let mut reduced: Vec<Name> = Vec::new();
    let (mut init, mut body) = (Vec::new(), Vec::new());
    for stmt in block {
        match &stmt.kind {
            StmtKind::Assign { target, value, .. } if is_axis(value) => {
                for (var, bound, reduces) in axes_of(target, value)? {
                    // Each loop is one axis.
                    if map.values().any(|other| other.as_name() == Some(&bound)) {
                        return None;
                    }
                    if reduces {
                        reduced.push(bound.clone());
                    }
                    map.insert(var, Expr::name(bound));
                }
            }
            StmtKind::With {
                context,
                body: inner,
                ..
            } if context.is_call_of("T.init") => {
                init.extend(inner.iter().cloned());
            }
            StmtKind::Expr(call) if call.is_call_of("T.reads") || call.is_call_of("T.writes") => {}
            StmtKind::Assign { .. } | StmtKind::If { .. } | StmtKind::Assert { .. } => {
                body.push(stmt.clone());
            }
            _ => return None,
        }
    }
    let bound_all = loops
        .iter()
        .all(|(var, _)| map.values().any(|value| value.as_name() == Some(var)));
    let has_init = !init.is_empty();
    if !bound_all || map.len() != loops.len() || has_init == reduced.is_empty() {
        return None;
    }
    let mut ones = BTreeMap::new();
    let mut kept = Vec::new();
    for (var, extent) in loops {
        if int_of(&extent) == Some(1) {
            ones.insert(var, Expr::int(0));
        } else {
            let reduces = reduced.contains(&var);
            kept.push(Loop {
                var,
                extent,
                reduces,
            });
        }
    }
    for stmt in init.iter_mut().chain(&mut body) {
        replace(stmt, &map);
        replace(stmt, &ones);
    }
    Some(Nest {
        name,
        loops: kept,
        init,
        body,
    })
}

fn is_axis(value: &Expr) -> bool {
    value
        .as_call()
        .is_some_and(|(path, _)| path.starts_with("T.axis."))
}

/// Block variables, the loops they are bound to, and whether they reduce.
fn axes_of(target: &Expr, value: &Expr) -> Option<Vec<(Name, Name, bool)>> {
    let (path, args) = value.as_call()?;
    let [first, bound] = args else { return None };
    match path.as_str() {
        "T.axis.remap" => {
            let kinds = first.value.as_str()?.chars();
            let vars = target.as_items().unwrap_or(std::slice::from_ref(target));
            kinds
                .zip(vars)
                .zip(bound.value.as_items()?)
                .map(|((kind, var), bound)| {
                    Some((
                        var.as_name()?.clone(),
                        bound.as_name()?.clone(),
                        kind == 'R',
                    ))
                })
                .collect()
        }
        "T.axis.spatial" | "T.axis.reduce" => Some(vec![(
            target.as_name()?.clone(),
            bound.value.as_name()?.clone(),
            path == "T.axis.reduce",
        )]),
        _ => None,
    }
}

struct Replace<'a>(&'a BTreeMap<Name, Expr>);

impl VisitMut for Replace<'_> {
    fn visit_expr(&mut self, expr: &mut Expr) {
        let found = expr.as_name().and_then(|name| self.0.get(name));
        match found {
            Some(value) => *expr = value.clone(),
            None => walk_expr_mut(self, expr),
        }
    }
}

/// Replaces names in a statement.
pub fn replace(stmt: &mut Stmt, map: &BTreeMap<Name, Expr>) {
    Replace(map).visit_stmt(stmt);
}

/// Statements with names replaced.
pub fn replaced(stmts: &[Stmt], map: &BTreeMap<Name, Expr>) -> Vec<Stmt> {
    let mut res = stmts.to_vec();
    res.iter_mut().for_each(|stmt| replace(stmt, map));
    res
}

/// One access to a buffer.
#[derive(Clone, Debug)]
pub struct Access {
    /// The buffer.
    pub buffer: Name,
    /// Its indices.
    pub index: Vec<Expr>,
    /// Whether it is stored to.
    pub stores: bool,
}

#[derive(Default)]
struct Accesses(Vec<Access>);

impl Accesses {
    fn push(&mut self, expr: &Expr, stores: bool) {
        if let ExprKind::Index { value, index } = &expr.kind
            && let Some(buffer) = value.as_name()
        {
            let index = match index.as_slice() {
                [only] if only.as_items().is_some_and(<[Expr]>::is_empty) => Vec::new(),
                index => index.to_vec(),
            };
            self.0.push(Access {
                buffer: buffer.clone(),
                index,
                stores,
            });
        }
    }
}

impl Visit for Accesses {
    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let StmtKind::Assign { target, value, .. } = &stmt.kind {
            // The type of a `let` is no access.
            self.visit_target(target);
            self.visit_expr(value);
        } else {
            walk_stmt(self, stmt);
        }
    }

    fn visit_target(&mut self, target: &Expr) {
        self.push(target, true);
        walk_expr(self, target);
    }

    fn visit_expr(&mut self, expr: &Expr) {
        self.push(expr, false);
        walk_expr(self, expr);
    }
}

/// Every access in statements, in written order.
pub fn accesses(stmts: &[Stmt]) -> Vec<Access> {
    let mut found = Accesses::default();
    stmts.iter().for_each(|stmt| found.visit_stmt(stmt));
    found.0
}

/// How an address moves with a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Not at all.
    Still,
    /// By one element.
    One,
    /// In another way.
    Other,
}

/// How the address of an access moves with a loop variable. Axes of extent 1 at the end of a buffer do not count.
pub fn step_of(access: &Access, var: &Name, buffers: &Buffers) -> Step {
    let shape = buffers.get(&access.buffer).map(|(_, shape)| shape);
    let is_unit = |at: usize| {
        shape
            .and_then(|shape| shape.get(at))
            .is_some_and(|extent| int_of(extent) == Some(1))
    };
    let mut index = access.index.as_slice();
    while index.len() > 1 && is_unit(index.len() - 1) {
        index = &index[..index.len() - 1];
    }
    let Some((last, outer)) = index.split_last() else {
        return Step::Still;
    };
    if outer.iter().any(|expr| mentions(expr, |name| name == var)) {
        return Step::Other;
    }
    if !mentions(last, |name| name == var) {
        return Step::Still;
    }
    match Dim::from_expr(last) {
        Ok(dim) if !(&dim - &Dim::sym(var)).symbols().contains(var) => Step::One,
        _ => Step::Other,
    }
}

/// The buffers of a function: parameters and what its body declares at its head.
pub fn buffers_of(func: &Func) -> Buffers {
    let mut res = BTreeMap::new();
    let params = func
        .params
        .iter()
        .filter_map(|param| Some((&param.name, param.ty.as_ref()?)));
    let declared = func.body.iter().filter_map(|stmt| match &stmt.kind {
        StmtKind::Assign { target, value, .. } => Some((target.as_name()?, value)),
        _ => None,
    });
    for (name, call) in params.chain(declared) {
        let is_buffer = ["T.Buffer", "T.sblock_alloc_buffer", "T.alloc_buffer"]
            .iter()
            .any(|path| call.is_call_of(path));
        if !is_buffer {
            continue;
        }
        let args: Vec<&Expr> = call.positional().collect();
        let shape = args
            .first()
            .and_then(|shape| shape.as_items())
            .unwrap_or_default()
            .to_vec();
        let dtype = args.get(1).copied().or_else(|| call.keyword("dtype"));
        let dtype = dtype
            .and_then(Expr::as_str)
            .map_or(Some(DType::F32), DType::from_name);
        if let Some(dtype) = dtype {
            res.insert(name.clone(), (dtype, shape));
        }
    }
    res
}

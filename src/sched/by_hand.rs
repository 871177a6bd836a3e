//! Schedules by hand: primitives that an author applies to one block of a prim_func, each with its conditions.
//!
//!     for i, j in T.grid(n, 64):                                       for i in range(n):
//!         with T.sblock("y"):                    split(y, j, 8)            for j_0 in range(8):
//!             v_i, v_j = T.axis.remap("SS", [i, j])    →                       for j_1 in range(8):
//!             y[v_i, v_j] = …                                                      with T.sblock("y"):
//!                                                                                     v_i = T.axis.spatial(n, i)
//!                                                                                     v_j = T.axis.spatial(64, j_0 * 8 + j_1)
//!                                                                                     y[v_i, v_j] = …
//!
//! `split(B, L, f)`, `fuse(B, L, M)`, `reorder(B, L, M, …)`, `tile(B, L, f, M, g, …)`, `vectorize(B, L)`, `unroll(B, L)`,
//! `parallel(B, L)`. B is a block, or a prim_func with one block; L is the variable of a loop around it. Names of new loops
//! are TVM's: `L_0`, `L_1`, `L_M_fused`. A primitive checks its conditions whole, and a refusal names the loop that stands
//! against it. A function that was scheduled by hand has the attribute `tirx.is_scheduled`, and is built as it is written.
//! Source: the schedule primitives of TVM's TensorIR (Feng et al., ASPLOS 2023).

use std::collections::BTreeMap;

use irc_syntax::names::NameSupply;
use irc_syntax::uses::{mentions, names_read};
use irc_syntax::{
    BinaryOp, Diagnostic, Expr, ExprKind, Func, FuncKind, Module, Name, Span, Stmt, StmtKind,
    parse_expr_str,
};

use super::build::ceil_div;
use super::nest::{int_of, replace};
use crate::opt::set_func_attr;
use crate::shape::{Dim, Facts};

/// The attribute of functions that are scheduled.
pub const SCHEDULED: &str = "tirx.is_scheduled";

/// The most iterations that are unrolled.
const MAX_UNROLL: i64 = 64;

/// A primitive and what it is applied to.
#[derive(Clone, Debug)]
pub struct Primitive {
    name: String,
    block: String,
    args: Vec<Expr>,
    text: String,
}

impl Primitive {
    /// Reads `tile(matmul, i, 8)`.
    ///
    /// # Errors
    /// The text is no call of a primitive on a block.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let fault = |why: String| Diagnostic::error("schedule-primitive", why);
        let expr = parse_expr_str(text).map_err(|_| {
            fault(format!(
                "`{text}` is not of the form `split(block, loop, 8)`"
            ))
        })?;
        let ExprKind::Call { func, args } = &expr.kind else {
            return Err(fault(format!(
                "`{text}` is not of the form `split(block, loop, 8)`"
            )));
        };
        let name = func.as_path().unwrap_or_default();
        let known = [
            "fuse",
            "parallel",
            "reorder",
            "split",
            "tile",
            "unroll",
            "vectorize",
        ];
        if !known.contains(&name.as_str()) {
            let known = known.join(", ");
            return Err(fault(format!(
                "there is no primitive `{name}`; there are: {known}"
            )));
        }
        let mut args = args.iter().map(|arg| arg.value.clone());
        let block = args.next().and_then(|block| block.as_path());
        Ok(Self {
            block: block.ok_or_else(|| fault(format!("`{text}` names no block")))?,
            args: args.collect(),
            name,
            text: text.to_owned(),
        })
    }
}

/// One loop around the block, outermost first.
#[derive(Clone, Debug)]
struct Around {
    var: Name,
    /// `range`, `T.parallel`, `T.vectorized`, `T.unroll`.
    kind: String,
    extent: Expr,
    span: Option<Span>,
}

impl Around {
    fn to_stmt(&self, body: Vec<Stmt>) -> Stmt {
        Stmt::new(StmtKind::For {
            target: Expr::name(&self.var),
            iter: Expr::call(&self.kind, [self.extent.clone()]),
            body,
        })
        .at(self.span)
    }

    fn is_serial(&self) -> bool {
        self.kind == "range"
    }
}

/// A block with the loops right around it.
struct Target {
    loops: Vec<Around>,
    block: Stmt,
    facts: Facts,
    names: NameSupply,
    text: String,
}

/// Applies a primitive.
///
/// # Errors
/// No block or loop has the name, or a condition does not hold; the module is as it was then.
pub fn apply(
    module: &mut Module,
    facts: &BTreeMap<Name, Facts>,
    primitive: &Primitive,
) -> Result<(), Diagnostic> {
    let (at, path) = find_block(module, primitive)?;
    let func = module.funcs_mut().nth(at);
    let Some(func) = func else { return Ok(()) };
    let names = NameSupply::of_func(func);
    let facts = facts.get(&func.name).cloned().unwrap_or_default();
    let Some(stmt) = stmt_at(&mut func.body, &path) else {
        return Ok(());
    };
    let (loops, block) = open_nest(stmt.clone());
    let mut target = Target {
        loops,
        block,
        facts,
        names,
        text: primitive.text.clone(),
    };
    target.run(primitive)?;
    *stmt = target.close();
    set_func_attr(func, SCHEDULED, Expr::bool(true));
    Ok(())
}

/// The function and the place of the outermost statement of the nest around a block.
fn find_block(module: &Module, primitive: &Primitive) -> Result<(usize, Vec<usize>), Diagnostic> {
    let wanted = primitive.block.as_str();
    let mut all = Vec::new();
    for (at, func) in module.funcs().enumerate() {
        if func.kind == FuncKind::Loops {
            find_in(func, at, &func.body, &mut Vec::new(), &mut all);
        }
    }
    let named = |(_, _, func, block): &&(usize, Vec<usize>, Name, String)| {
        block == wanted || format!("{func}.{block}") == wanted || func.as_str() == wanted
    };
    let found: Vec<_> = all.iter().filter(named).collect();
    match found.as_slice() {
        [(at, path, ..)] => Ok((*at, path.clone())),
        found => {
            let (what, list) = match found {
                [] => ("no block has the name", all.iter().collect::<Vec<_>>()),
                many => ("several blocks have the name", many.to_vec()),
            };
            let list: Vec<String> = list
                .iter()
                .map(|(_, _, func, block)| format!("{func}.{block}"))
                .collect();
            let message = format!("{what} `{wanted}`: {}", list.join(", "));
            Err(Diagnostic::error("schedule-block", message))
        }
    }
}

/// Collects the blocks of a body, each with the path to the nest around it.
fn find_in(
    func: &Func,
    at: usize,
    stmts: &[Stmt],
    path: &mut Vec<usize>,
    all: &mut Vec<(usize, Vec<usize>, Name, String)>,
) {
    for (index, stmt) in stmts.iter().enumerate() {
        path.push(index);
        let (mut inner, mut name) = (stmt, None);
        loop {
            match &inner.kind {
                StmtKind::For { body, .. } if body.len() == 1 => inner = &body[0],
                StmtKind::With { context, .. } => {
                    name = context.positional().next().and_then(Expr::as_str);
                    name = name.filter(|_| context.is_call_of("T.sblock"));
                    break;
                }
                _ => break,
            }
        }
        match (name, &stmt.kind) {
            (Some(name), _) => all.push((at, path.clone(), func.name.clone(), name.to_owned())),
            (None, StmtKind::For { body, .. } | StmtKind::With { body, .. }) => {
                find_in(func, at, body, path, all);
            }
            _ => {}
        }
        path.pop();
    }
}

fn stmt_at<'s>(stmts: &'s mut [Stmt], path: &[usize]) -> Option<&'s mut Stmt> {
    let (first, rest) = path.split_first()?;
    let stmt = stmts.get_mut(*first)?;
    if rest.is_empty() {
        return Some(stmt);
    }
    match &mut stmt.kind {
        StmtKind::For { body, .. } | StmtKind::With { body, .. } => stmt_at(body, rest),
        _ => None,
    }
}

/// The loops around a block, one by one, and the block.
fn open_nest(mut stmt: Stmt) -> (Vec<Around>, Stmt) {
    let mut loops = Vec::new();
    loop {
        match stmt.kind {
            StmtKind::For {
                target,
                iter,
                mut body,
            } if body.len() == 1 => {
                let (kind, args) = iter
                    .as_call()
                    .map_or((String::new(), Vec::new()), |(path, args)| {
                        (path, args.iter().map(|arg| arg.value.clone()).collect())
                    });
                let vars = irc_syntax::uses::bound_names(&target);
                let kind = match kind.as_str() {
                    "T.grid" | "T.serial" => "range".to_owned(),
                    _ => kind,
                };
                let span = iter.span;
                for (var, extent) in vars.into_iter().zip(args) {
                    loops.push(Around {
                        var,
                        kind: kind.clone(),
                        extent,
                        span,
                    });
                }
                match body.pop() {
                    Some(inner) => stmt = inner,
                    None => return (loops, Stmt::new(StmtKind::Return(None))),
                }
            }
            kind => {
                stmt.kind = kind;
                return (loops, stmt);
            }
        }
    }
}

impl Target {
    fn run(&mut self, primitive: &Primitive) -> Result<(), Diagnostic> {
        let args = primitive.args.as_slice();
        match (primitive.name.as_str(), args) {
            ("split", [var, factor]) => self.split(self.find(var)?, self.factor(factor)?).map(drop),
            ("fuse", [a, b]) => self.fuse(self.find(a)?, self.find(b)?),
            ("reorder", vars) if vars.len() > 1 => {
                let order: Result<Vec<usize>, _> = vars.iter().map(|var| self.find(var)).collect();
                self.reorder(&order?)
            }
            ("tile", args) if !args.is_empty() && args.len() % 2 == 0 => self.tile(args),
            ("vectorize", [var]) => self.annotate(self.find(var)?, "T.vectorized"),
            ("unroll", [var]) => self.annotate(self.find(var)?, "T.unroll"),
            ("parallel", [var]) => self.annotate(self.find(var)?, "T.parallel"),
            _ => {
                let message = format!(
                    "`{}` has arguments that `{}` does not take",
                    self.text, primitive.name
                );
                Err(Diagnostic::error("schedule-primitive", message))
            }
        }
    }

    fn close(self) -> Stmt {
        self.loops
            .iter()
            .rev()
            .fold(self.block, |inner, around| around.to_stmt(vec![inner]))
    }

    /// A refusal at a loop.
    fn refuse(&self, at: usize, why: impl std::fmt::Display) -> Diagnostic {
        let (message, span) = match self.loops.get(at) {
            Some(around) => (
                format!("`{}`: the loop `{}` {why}", self.text, around.var),
                around.span,
            ),
            None => (format!("`{}`: {why}", self.text), self.block.span),
        };
        Diagnostic::error("schedule-refused", message).at(span, "this loop")
    }

    fn find(&self, var: &Expr) -> Result<usize, Diagnostic> {
        let name = var.as_name();
        let at = self
            .loops
            .iter()
            .position(|around| Some(&around.var) == name);
        at.ok_or_else(|| {
            let loops: Vec<&str> = self
                .loops
                .iter()
                .map(|around| around.var.as_str())
                .collect();
            let wanted = irc_syntax::print_expr(var);
            let message = format!(
                "`{}`: no loop around the block has the variable `{wanted}`; there are: {}",
                self.text,
                loops.join(", ")
            );
            Diagnostic::error("schedule-block", message).at(self.block.span, "this block")
        })
    }

    fn factor(&self, factor: &Expr) -> Result<i64, Diagnostic> {
        let factor = int_of(factor).filter(|factor| *factor > 0);
        factor.ok_or_else(|| {
            let message = format!("`{}`: a factor is a number of at least 1", self.text);
            Diagnostic::error("schedule-primitive", message)
        })
    }

    /// A loop of `factor` inside one that counts by it. Where the extent is no multiple, the block asks for the rest.
    fn split(&mut self, at: usize, factor: i64) -> Result<(Name, Name), Diagnostic> {
        let around = self.loops[at].clone();
        if !around.is_serial() {
            return Err(self.refuse(at, format!("is one of {} already", around.kind)));
        }
        let (outer, inner) = (
            self.names.fresh(&format!("{}_0", around.var)),
            self.names.fresh(&format!("{}_1", around.var)),
        );
        let value = Expr::binary(
            BinaryOp::Add,
            Expr::binary(BinaryOp::Mul, Expr::name(&outer), Expr::int(factor)),
            Expr::name(&inner),
        );
        let extent = Dim::from_expr(&around.extent).ok();
        let divides = |dim: &Dim| self.facts.multiple_of(dim) % factor == 0;
        let has_rest = !extent.as_ref().is_some_and(divides);
        let steps = match extent.as_ref().and_then(Dim::as_int) {
            Some(extent) => Expr::int((extent + factor - 1) / factor),
            None => ceil_div(&around.extent, factor),
        };
        self.substitute(&around.var, &value);
        if has_rest {
            self.guard(Expr::binary(BinaryOp::Lt, value, around.extent.clone()));
        }
        let made = [(&outer, steps), (&inner, Expr::int(factor))].map(|(var, extent)| Around {
            var: var.clone(),
            extent,
            ..around.clone()
        });
        self.loops.splice(at..=at, made);
        Ok((outer, inner))
    }

    /// One loop for two that are nested directly.
    fn fuse(&mut self, a: usize, b: usize) -> Result<(), Diagnostic> {
        if b != a + 1 {
            return Err(self.refuse(b, format!("is not right inside `{}`", self.loops[a].var)));
        }
        let (outer, inner) = (self.loops[a].clone(), self.loops[b].clone());
        for (at, around) in [(a, &outer), (b, &inner)] {
            if !around.is_serial() {
                return Err(self.refuse(at, format!("is one of {} already", around.kind)));
            }
        }
        if mentions(&inner.extent, |name| *name == outer.var) {
            return Err(self.refuse(b, format!("has an extent that depends on `{}`", outer.var)));
        }
        let var = self
            .names
            .fresh(&format!("{}_{}_fused", outer.var, inner.var));
        let part = |op| Expr::binary(op, Expr::name(&var), inner.extent.clone());
        self.substitute(&outer.var, &part(BinaryOp::FloorDiv));
        self.substitute(&inner.var, &part(BinaryOp::Mod));
        let extent = Expr::binary(BinaryOp::Mul, outer.extent.clone(), inner.extent.clone());
        let extent = Dim::from_expr(&extent).map_or(extent, |dim| dim.to_expr());
        self.loops.splice(
            a..=b,
            [Around {
                var,
                extent,
                ..outer
            }],
        );
        Ok(())
    }

    /// These loops in this order, in the places that they have together.
    fn reorder(&mut self, order: &[usize]) -> Result<(), Diagnostic> {
        let mut places = order.to_vec();
        places.sort_unstable();
        if places.windows(2).any(|pair| pair[0] == pair[1]) {
            let message = format!("`{}`: a loop is named twice", self.text);
            return Err(Diagnostic::error("schedule-primitive", message));
        }
        let mut loops = self.loops.clone();
        for (place, from) in places.iter().zip(order) {
            loops[*place] = self.loops[*from].clone();
        }
        // What an extent depends on has to be known around it.
        for (at, around) in loops.iter().enumerate() {
            let late = loops[at..]
                .iter()
                .find(|other| mentions(&around.extent, |name| *name == other.var));
            if let Some(late) = late {
                let place = self.loops.iter().position(|other| other.var == around.var);
                let why = format!(
                    "has an extent that depends on `{}`, which would be inside it",
                    late.var
                );
                return Err(self.refuse(place.unwrap_or(at), why));
            }
        }
        self.loops = loops;
        Ok(())
    }

    /// Splits each loop, and puts the inner parts inside all outer ones.
    fn tile(&mut self, args: &[Expr]) -> Result<(), Diagnostic> {
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        for pair in args.chunks(2) {
            let (at, factor) = (self.find(&pair[0])?, self.factor(&pair[1])?);
            let (a, b) = self.split(at, factor)?;
            outer.push(a);
            inner.push(b);
        }
        let place = |var: &Name| self.loops.iter().position(|around| around.var == *var);
        let order: Vec<usize> = outer.iter().chain(&inner).filter_map(place).collect();
        self.reorder(&order)
    }

    /// Makes a loop one of another kind.
    fn annotate(&mut self, at: usize, kind: &str) -> Result<(), Diagnostic> {
        let around = self.loops[at].clone();
        if !around.is_serial() {
            return Err(self.refuse(at, format!("is one of {} already", around.kind)));
        }
        let extent = int_of(&around.extent);
        if kind != "T.parallel" && extent.is_none() {
            return Err(self.refuse(at, "has no constant extent: split it by one"));
        }
        if kind == "T.unroll" && extent.is_some_and(|extent| extent > MAX_UNROLL) {
            return Err(self.refuse(at, format!("has more than {MAX_UNROLL} iterations")));
        }
        if kind != "T.unroll" {
            if let Some(axis) = self.reduced_by(&around.var) {
                return Err(self.refuse(
                    at,
                    format!("is one of the sum over `{axis}`: its iterations write to one place"),
                ));
            }
            if let Some(other) = self.loops.iter().find(|other| other.kind == kind) {
                return Err(self.refuse(at, format!("cannot be {kind} with `{}`", other.var)));
            }
        }
        if kind == "T.vectorized" && at + 1 != self.loops.len() {
            let inner = &self.loops[at + 1].var;
            return Err(self.refuse(at, format!("is not the innermost: `{inner}` is inside it")));
        }
        self.loops[at].kind = kind.to_owned();
        Ok(())
    }

    /// The axis of the block that reduces and depends on a variable.
    fn reduced_by(&self, var: &Name) -> Option<Name> {
        let StmtKind::With { body, .. } = &self.block.kind else {
            return None;
        };
        for stmt in body {
            let StmtKind::Assign { target, value, .. } = &stmt.kind else {
                continue;
            };
            let is_reduced = value.is_call_of("T.axis.reduce") || value.is_call_of("T.axis.R");
            let bound = value.positional().nth(1);
            if is_reduced && bound.is_some_and(|bound| names_read(bound).contains(var)) {
                return target.as_name().cloned();
            }
            if !value.is_call_of("T.axis.remap") {
                continue;
            }
            let kinds = value
                .positional()
                .next()
                .and_then(Expr::as_str)
                .unwrap_or_default();
            let bound = bound.and_then(Expr::as_items).unwrap_or_default();
            let axes = irc_syntax::uses::bound_names(target);
            for ((kind, bound), axis) in kinds.chars().zip(bound).zip(axes) {
                if kind == 'R' && names_read(bound).contains(var) {
                    return Some(axis);
                }
            }
        }
        None
    }

    /// Puts a value in the place of a loop's variable, in the block and in the extents of loops.
    fn substitute(&mut self, var: &Name, value: &Expr) {
        let map = BTreeMap::from([(var.clone(), value.clone())]);
        self.spell_axes();
        replace(&mut self.block, &map);
        for around in &mut self.loops {
            irc_syntax::uses::substitute(&mut around.extent, &map);
        }
    }

    /// `v_i, v_k = T.axis.remap("SR", [i, k])` axis by axis: only those may be bound to more than a variable.
    fn spell_axes(&mut self) {
        let extents: BTreeMap<Name, Expr> = self
            .loops
            .iter()
            .map(|around| (around.var.clone(), around.extent.clone()))
            .collect();
        let StmtKind::With { body, .. } = &mut self.block.kind else {
            return;
        };
        let mut spelled = Vec::with_capacity(body.len());
        for stmt in body.drain(..) {
            let axes = match &stmt.kind {
                StmtKind::Assign { target, value, .. } if value.is_call_of("T.axis.remap") => {
                    spell(target, value, &extents)
                }
                _ => None,
            };
            match axes {
                Some(axes) => spelled.extend(axes.into_iter().map(|axis| axis.at(stmt.span))),
                None => spelled.push(stmt),
            }
        }
        *body = spelled;
    }

    /// The block runs only where a condition holds.
    fn guard(&mut self, condition: Expr) {
        let StmtKind::With { body, .. } = &mut self.block.kind else {
            return;
        };
        let is_axis = |stmt: &Stmt| match &stmt.kind {
            StmtKind::Assign { value, .. } => value
                .as_call()
                .is_some_and(|(path, _)| path.starts_with("T.axis.")),
            StmtKind::Expr(call) => call.is_call_of("T.where"),
            _ => false,
        };
        // A block has one condition.
        let there = body.iter().position(|stmt| match &stmt.kind {
            StmtKind::Expr(call) => call.is_call_of("T.where"),
            _ => false,
        });
        let (at, condition) = match there {
            Some(at) => match body.remove(at).kind {
                StmtKind::Expr(call) => {
                    let old = call.positional().next().cloned();
                    let both = old.map(|old| Expr::binary(BinaryOp::And, old, condition.clone()));
                    (at, both.unwrap_or(condition))
                }
                _ => (at, condition),
            },
            None => {
                let end = body.iter().position(|stmt| !is_axis(stmt));
                (end.unwrap_or(body.len()), condition)
            }
        };
        body.insert(at, Stmt::expr(Expr::call("T.where", [condition])));
    }
}

/// The axes of a remap, one a statement.
fn spell(target: &Expr, value: &Expr, extents: &BTreeMap<Name, Expr>) -> Option<Vec<Stmt>> {
    let kinds = value.positional().next()?.as_str()?;
    let bound = value.positional().nth(1)?.as_items()?;
    let axes = irc_syntax::uses::bound_names(target);
    kinds
        .chars()
        .zip(bound)
        .zip(axes)
        .map(|((kind, bound), axis)| {
            let path = if kind == 'R' {
                "T.axis.reduce"
            } else {
                "T.axis.spatial"
            };
            let extent = extents.get(bound.as_name()?)?.clone();
            Some(Stmt::bind(axis, Expr::call(path, [extent, bound.clone()])))
        })
        .collect()
}

//! Blocks: `with T.sblock("name")`, axes, `T.where`, `T.init`, kernel regions.

use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use irc_syntax::same::is_identical_expr;
use irc_syntax::uses::{for_each_subexpr, mentions};
use irc_syntax::{Expr, ExprKind, Name, Span, Stmt, StmtKind};

use crate::codegen::expr::Index;
use crate::codegen::lower::{Binding, Lower, Res, unsupported};

/// Sorts the loop expressions that axes are bound to into reduction axes and others.
pub fn split_axes<'s>(value: &'s Expr, reduce: &mut Vec<&'s Expr>, other: &mut Vec<&'s Expr>) {
    let Some((path, args)) = value.as_call() else {
        return;
    };
    match (&*path, args) {
        ("T.axis.reduce" | "T.axis.R", [_, expr]) => reduce.push(&expr.value),
        ("T.axis.spatial" | "T.axis.S" | "T.axis.scan" | "T.axis.opaque", [_, expr]) => {
            other.push(&expr.value);
        }
        ("T.axis.remap", [kinds, exprs]) => {
            let kinds = kinds.value.as_str().unwrap_or_default();
            for (kind, expr) in kinds
                .chars()
                .zip(exprs.value.as_items().unwrap_or_default())
            {
                if kind == 'R' {
                    reduce.push(expr)
                } else {
                    other.push(expr)
                }
            }
        }
        _ => {}
    }
}

/// The elements that a block updates once for every round of loops that do not choose them: `(buffer, index, place)`.
/// `None` where the block does anything else.
#[allow(clippy::type_complexity)]
pub fn reduction_targets(
    body: &[Stmt],
    loop_vars: &[Name],
) -> Option<Vec<(Name, Vec<Expr>, Option<Span>)>> {
    let mut hidden: Vec<Name> = loop_vars.to_vec();
    let mut targets: Vec<(Name, Vec<Expr>, Option<Span>)> = Vec::new();
    let mut values = Vec::new();
    for stmt in body {
        match &stmt.kind {
            StmtKind::Expr(call) if call.is_call_of("T.where") => return None,
            StmtKind::Expr(call) if is_remark(call) => {}
            StmtKind::With { context, .. } if context.is_call_of("T.init") => {}
            StmtKind::Assign { target, value, .. } => match &target.kind {
                ExprKind::Index {
                    value: buffer,
                    index,
                } => {
                    let name = buffer.as_name()?.clone();
                    if index
                        .iter()
                        .any(|idx| mentions(idx, |name| hidden.contains(name)))
                    {
                        return None;
                    }
                    targets.push((name, index.clone(), stmt.span));
                    values.push(value);
                }
                _ => {
                    let mut reduce = Vec::new();
                    split_axes(value, &mut reduce, &mut Vec::new());
                    let names = target.as_items().unwrap_or(std::slice::from_ref(target));
                    let is_axis = value
                        .as_call()
                        .is_some_and(|(path, _)| path.starts_with("T.axis."));
                    if !is_axis || !reduce.is_empty() {
                        hidden.extend(axis_names(names, value, is_axis));
                    }
                    if !is_axis {
                        values.push(value);
                    }
                }
            },
            _ => return None,
        }
    }
    // Every other use of a target must be the same element.
    let mut good = true;
    for value in values {
        for_each_subexpr(value, &mut |part| {
            if let ExprKind::Index {
                value: buffer,
                index,
            } = &part.kind
                && let Some((_, wanted, _)) = targets
                    .iter()
                    .find(|(name, ..)| Some(name) == buffer.as_name())
            {
                good &= wanted.len() == index.len()
                    && wanted
                        .iter()
                        .zip(index)
                        .all(|(a, b)| is_identical_expr(a, b));
            }
        });
    }
    for (idx, (name, ..)) in targets.iter().enumerate() {
        good &= targets[..idx].iter().all(|(other, ..)| other != name);
    }
    good.then_some(targets)
}

/// The reduction axes among the names of an axis statement; every name of another statement.
fn axis_names(names: &[Expr], value: &Expr, is_axis: bool) -> Vec<Name> {
    let kinds = match value.as_call() {
        Some((path, args)) if path == "T.axis.remap" => args
            .first()
            .and_then(|arg| arg.value.as_str())
            .map(str::to_owned),
        _ => None,
    };
    names
        .iter()
        .enumerate()
        .filter(|(idx, _)| {
            !is_axis
                || kinds
                    .as_ref()
                    .is_none_or(|kinds| kinds.chars().nth(*idx) == Some('R'))
        })
        .filter_map(|(_, name)| name.as_name().cloned())
        .collect()
}

/// Whether a call only says something about its block.
fn is_remark(call: &Expr) -> bool {
    call.is_call_of("T.reads")
        || call.is_call_of("T.writes")
        || call.is_call_of("T.sblock_attr")
        || call.is_call_of("T.block_attr")
}

/// Whether a block is marked for the kernel emitter.
pub fn is_kernel(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| {
        let StmtKind::Expr(call) = &stmt.kind else {
            return false;
        };
        if !call.is_call_of("T.sblock_attr") && !call.is_call_of("T.block_attr") {
            return false;
        }
        let Some(ExprKind::Dict(items)) = call.positional().next().map(|arg| &arg.kind) else {
            return false;
        };
        items.iter().any(|(key, value)| {
            key.as_str() == Some("irc.kernel")
                && (value.kind == ExprKind::Bool(true)
                    || value.as_int() == Some(1)
                    || value
                        .positional()
                        .any(|arg| arg.kind == ExprKind::Bool(true)))
        })
    })
}

impl Lower<'_, '_> {
    /// `with context: …`
    pub fn with_block(&mut self, context: &Expr, target: Option<&Expr>, body: &[Stmt]) -> Res<()> {
        let path = context.as_call().map(|(path, _)| path).unwrap_or_default();
        match &*path {
            "T.sblock" | "T.block" => {
                let name = context.positional().next().and_then(Expr::as_str);
                self.block(name.unwrap_or_default(), body)
            }
            "T.init" => Err(unsupported(
                context.span,
                "`T.init` stands at the head of a block",
            )),
            "T.attr" | "T.launch_thread" | "T.allocate" if target.is_none() => self.scoped(body),
            "T.attr" => self.scoped(body),
            _ => Err(unsupported(
                context.span,
                format!("`with {path}` cannot be compiled"),
            )),
        }
    }

    fn block(&mut self, name: &str, body: &[Stmt]) -> Res<()> {
        let scope = self.scope.clone();
        let skip_init = std::mem::replace(&mut self.skip_init, false);
        let done = if is_kernel(body) {
            self.kernel_region(name, body)?
        } else {
            false
        };
        if !done {
            self.plain_block(body, skip_init)?;
        }
        self.skip_init = skip_init;
        self.scope = scope;
        Ok(())
    }

    fn plain_block(&mut self, body: &[Stmt], skip_init: bool) -> Res<()> {
        let mut reduce_starts = Vec::new();
        let n_head = body.iter().take_while(|stmt| is_head(stmt)).count();
        let (head, rest) = body.split_at(n_head);
        let mut predicate = None;
        for stmt in head {
            match &stmt.kind {
                StmtKind::Assign { target, value, .. } => {
                    let one = std::slice::from_ref(target);
                    let names = target.as_items().unwrap_or(one);
                    self.bind_axes_noting(names, value, &mut reduce_starts)?;
                }
                StmtKind::Expr(call) if call.is_call_of("T.where") => {
                    predicate = call.positional().next();
                }
                _ => {}
            }
        }
        let join = self.b.create_block();
        if let Some(predicate) = predicate {
            let inside = self.b.create_block();
            let cond = self.condition(predicate)?;
            self.b.ins().brif(cond, inside, &[], join, &[]);
            self.b.switch_to_block(inside);
            self.b.seal_block(inside);
        }
        // What the block allocates may be used by its init.
        let n_allocs = rest.iter().take_while(|stmt| is_alloc(stmt)).count();
        for (idx, stmt) in rest[..n_allocs].iter().enumerate() {
            self.statements_with(std::slice::from_ref(stmt), &rest[idx + 1..])?;
        }
        let rest = &rest[n_allocs..];
        let (inits, work): (Vec<&Stmt>, Vec<&Stmt>) = rest.iter().partition(|stmt| is_init(stmt));
        if !skip_init && !inits.is_empty() {
            self.init_when_first(&inits, &reduce_starts)?;
        }
        if inits.is_empty() {
            self.scoped(rest)?;
        } else {
            let work: Vec<Stmt> = work.into_iter().cloned().collect();
            self.scoped(&work)?;
        }
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(join);
        self.b.seal_block(join);
        Ok(())
    }

    /// Runs `T.init` in the first round of every reduction axis.
    fn init_when_first(&mut self, inits: &[&Stmt], starts: &[(Index, Index)]) -> Res<()> {
        let mut first = None;
        for &(value, start) in starts {
            let (value, start) = (self.index_value(value), self.index_value(start));
            let here = self.b.ins().icmp(IntCC::Equal, value, start);
            first = Some(match first {
                None => here,
                Some(others) => self.b.ins().band(others, here),
            });
        }
        let join = self.b.create_block();
        if let Some(first) = first {
            let inside = self.b.create_block();
            self.b.ins().brif(first, inside, &[], join, &[]);
            self.b.switch_to_block(inside);
            self.b.seal_block(inside);
        }
        for init in inits {
            if let StmtKind::With { body, .. } = &init.kind {
                self.scoped(body)?;
            }
        }
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(join);
        self.b.seal_block(join);
        Ok(())
    }

    /// Runs `T.init` of a block before its reduction loops; axes of these loops stay unbound.
    pub fn init_before(&mut self, body: &[Stmt], loop_vars: &[Name]) -> Res<()> {
        let mut predicate = None;
        for stmt in body {
            match &stmt.kind {
                StmtKind::Assign { target, value, .. } => {
                    let one = std::slice::from_ref(target);
                    let names = target.as_items().unwrap_or(one);
                    self.bind_outer_axes(names, value, loop_vars)?;
                }
                StmtKind::Expr(call) if call.is_call_of("T.where") => {
                    predicate = call.positional().next();
                }
                _ => {}
            }
        }
        let join = self.b.create_block();
        if let Some(predicate) = predicate {
            let inside = self.b.create_block();
            let cond = self.condition(predicate)?;
            self.b.ins().brif(cond, inside, &[], join, &[]);
            self.b.switch_to_block(inside);
            self.b.seal_block(inside);
        }
        for stmt in body {
            if let StmtKind::With { context, body, .. } = &stmt.kind
                && context.is_call_of("T.init")
            {
                self.scoped(body)?;
            }
        }
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(join);
        self.b.seal_block(join);
        Ok(())
    }

    /// Binds those axes of a statement that do not depend on some loops.
    fn bind_outer_axes(&mut self, names: &[Expr], value: &Expr, loop_vars: &[Name]) -> Res<()> {
        let Some((path, args)) = value.as_call() else {
            return Ok(());
        };
        if !path.starts_with("T.axis.") {
            return Ok(());
        }
        let exprs: Vec<&Expr> = match args {
            [_, exprs] if path == "T.axis.remap" => {
                exprs.value.as_items().unwrap_or_default().iter().collect()
            }
            [_, expr] => vec![&expr.value],
            _ => Vec::new(),
        };
        for (name, expr) in names.iter().zip(exprs) {
            if let Some(name) = name.as_name()
                && !mentions(expr, |name| loop_vars.contains(name))
            {
                self.bind_axis(name, expr)?;
            }
        }
        Ok(())
    }

    /// `v_i, v_k = T.axis.remap("SR", [i, k])`
    pub fn bind_axes(&mut self, names: &[Expr], value: &Expr) -> Res<()> {
        self.bind_axes_noting(names, value, &mut Vec::new())
    }

    /// The same; answers value and first value of every reduction axis.
    fn bind_axes_noting(
        &mut self,
        names: &[Expr],
        value: &Expr,
        reduce: &mut Vec<(Index, Index)>,
    ) -> Res<()> {
        let fault = || unsupported(value.span, "this is not a block axis");
        let (path, args) = value.as_call().ok_or_else(fault)?;
        let zero = Index {
            run: None,
            add: 0,
            natural: true,
        };
        if path == "T.axis.remap" {
            let [kinds, exprs] = args else {
                return Err(fault());
            };
            let kinds = kinds.value.as_str().ok_or_else(fault)?;
            let exprs = exprs.value.as_items().ok_or_else(fault)?;
            if exprs.len() != names.len() || kinds.len() != names.len() {
                return Err(fault());
            }
            for ((name, expr), kind) in names.iter().zip(exprs).zip(kinds.chars()) {
                let index = self.bind_axis(name.as_name().ok_or_else(fault)?, expr)?;
                if kind == 'R' {
                    reduce.push((index, zero));
                }
            }
            return Ok(());
        }
        let ([name], [dom, expr]) = (names, args) else {
            return Err(fault());
        };
        let index = self.bind_axis(name.as_name().ok_or_else(fault)?, &expr.value)?;
        if path == "T.axis.reduce" || path == "T.axis.R" {
            let start = match dom.value.as_items() {
                Some([lo, _]) => self.index(lo)?,
                _ => zero,
            };
            reduce.push((index, start));
        }
        Ok(())
    }

    fn bind_axis(&mut self, name: &Name, expr: &Expr) -> Res<Index> {
        let dtype = self.int_dtype(expr);
        let index = self.index(expr)?;
        let binding = match index.run {
            None => Binding::Const(index.add, dtype),
            Some(_) => {
                let v = self.index_value(index);
                Binding::Index {
                    v,
                    dtype,
                    natural: index.natural,
                }
            }
        };
        self.scope.insert(name.clone(), binding);
        Ok(index)
    }
}

/// Whether a statement belongs to the head of a block: axes, predicate, remarks.
fn is_head(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Assign { value, .. } => value
            .as_call()
            .is_some_and(|(path, _)| path.starts_with("T.axis.")),
        StmtKind::Expr(call) => is_remark(call) || call.is_call_of("T.where"),
        _ => false,
    }
}

fn is_alloc(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Assign { value, .. } => {
            value.is_call_of("T.sblock_alloc_buffer")
                || value.is_call_of("T.alloc_buffer")
                || value.is_call_of("T.match_buffer")
        }
        StmtKind::Expr(call) => is_remark(call),
        _ => false,
    }
}

fn is_init(stmt: &Stmt) -> bool {
    matches!(&stmt.kind, StmtKind::With { context, .. } if context.is_call_of("T.init"))
}

//! Loops: `range`, `T.grid`, `T.serial`, `T.unroll`, `T.vectorized`, `T.parallel`, `T.thread_binding`.
//!
//! Perfectly nested loops are lowered as one nest, so that a reduction at the bottom can be seen from above: where the
//! innermost loops of a nest are exactly the reduction axes of its block, `T.init` runs once before them (an empty
//! reduction gives the initial value) and the reduced element lives in a variable until they end:
//!
//!     for i, k in T.grid(n, m):                         for i in range(n):
//!         with T.sblock("s"):                               acc = 0.0
//!             v_i, v_k = T.axis.remap("SR", [i, k])   →     for k in range(m):
//!             with T.init():                                    acc = acc + x[i, k]
//!                 s[v_i] = 0.0                              s[i] = acc
//!             s[v_i] = s[v_i] + x[v_i, v_k]

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value};
use irc_syntax::same::is_identical_expr;
use irc_syntax::uses::mentions;
use irc_syntax::{DType, Expr, ExprKind, Name, Span, Stmt, StmtKind};

use super::walk;
use crate::codegen::lower::{Binding, Extent, LoopExit, Lower, Promoted, Res, unsupported};
use crate::target::{TURNS, WORK};

/// How a loop runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopKind {
    /// One round after the other.
    Serial,
    /// As copies of its body.
    Unroll,
    /// As one vector operation a statement, or as copies.
    Vectorized,
    /// On the pool.
    Parallel,
}

/// One loop over one variable.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The variable.
    pub var: Name,
    /// First value; 0 when `None`.
    pub lo: Option<Expr>,
    /// One past the last value.
    pub hi: Expr,
    /// Step; 1 when `None`.
    pub step: Option<Expr>,
    /// How it runs.
    pub kind: LoopKind,
    /// What a round of a parallel loop is worth, where that is noted.
    pub work: Option<Expr>,
    /// Whether every other run of a parallel loop goes backwards.
    pub turns: bool,
    /// Where it is written.
    pub span: Option<Span>,
}

/// Whether a loop of so many rounds is copied out.
pub fn is_unrolled(trips: i64) -> bool {
    (0..=64).contains(&trips)
}

fn kind_of(path: &str) -> Option<LoopKind> {
    Some(match path {
        "range" | "T.serial" | "T.grid" | "T.thread_binding" => LoopKind::Serial,
        "T.unroll" => LoopKind::Unroll,
        "T.vectorized" => LoopKind::Vectorized,
        "T.parallel" => LoopKind::Parallel,
        _ => return None,
    })
}

/// The number of rounds of a loop with constant bounds.
pub fn constant_trips(iter: &Expr) -> Option<i64> {
    let number = |expr: &Expr| constant(expr);
    let args: Vec<&Expr> = iter.positional().collect();
    let (lo, hi) = match args.as_slice() {
        [hi] => (0, number(hi)?),
        [lo, hi] => (number(lo)?, number(hi)?),
        _ => return None,
    };
    if iter
        .keyword("step")
        .is_some_and(|step| constant(step) != Some(1))
    {
        return None;
    }
    Some((hi - lo).max(0))
}

/// The number that a literal is, with or without a dtype.
pub fn constant(expr: &Expr) -> Option<i64> {
    if let Some(value) = expr.as_int() {
        return i64::try_from(value).ok();
    }
    match &expr.kind {
        ExprKind::Call { args, .. } if expr.is_call_of("T.int64") || expr.is_call_of("T.int32") => {
            match args.as_slice() {
                [arg] => constant(&arg.value),
                _ => None,
            }
        }
        _ => None,
    }
}

/// What the annotations of a loop say.
fn noted<'a>(iter: &'a Expr, what: &str) -> Option<&'a Expr> {
    let ExprKind::Dict(items) = &iter.keyword("annotations")?.kind else {
        return None;
    };
    let item = items.iter().find(|(key, _)| key.as_str() == Some(what));
    item.map(|(_, value)| value)
}

/// Reads the loops of one `for`.
fn read_loops(target: &Expr, iter: &Expr, span: Option<Span>, loops: &mut Vec<Loop>) -> Res<()> {
    let fault = || unsupported(span, "this loop cannot be compiled");
    let (path, _) = iter.as_call().ok_or_else(fault)?;
    let kind = kind_of(&path).ok_or_else(fault)?;
    let args: Vec<&Expr> = iter.positional().collect();
    if path == "T.grid" {
        let one = std::slice::from_ref(target);
        let vars = target.as_items().unwrap_or(one);
        if vars.len() != args.len() {
            return Err(fault());
        }
        for (var, extent) in vars.iter().zip(args) {
            loops.push(Loop {
                var: var.as_name().ok_or_else(fault)?.clone(),
                lo: None,
                hi: extent.clone(),
                step: None,
                kind,
                work: None,
                turns: false,
                span,
            });
        }
        return Ok(());
    }
    let (lo, hi, step) = match args.as_slice() {
        [hi] => (None, *hi, None),
        [lo, hi] => (Some(*lo), *hi, None),
        [lo, hi, step] => (Some(*lo), *hi, Some(*step)),
        _ => return Err(fault()),
    };
    let step = step.or(iter.keyword("step"));
    loops.push(Loop {
        var: target.as_name().ok_or_else(fault)?.clone(),
        lo: lo.filter(|expr| constant(expr) != Some(0)).cloned(),
        hi: hi.clone(),
        step: step.filter(|expr| constant(expr) != Some(1)).cloned(),
        kind,
        work: noted(iter, WORK).cloned(),
        turns: noted(iter, TURNS).is_some_and(|noted| matches!(noted.kind, ExprKind::Bool(true))),
        span,
    });
    Ok(())
}

/// The block at the bottom of a nest, and what its reduction needs.
struct Reduction<'s> {
    body: &'s [Stmt],
    vars: Vec<Name>,
}

/// Loops of a nest that are all of one reduction, from some loop on.
fn find_reduction<'s>(loops: &[Loop], body: &'s [Stmt]) -> Option<(usize, Reduction<'s>)> {
    let [
        Stmt {
            kind: StmtKind::With { context, body, .. },
            ..
        },
    ] = body
    else {
        return None;
    };
    let is_block = context.is_call_of("T.sblock") || context.is_call_of("T.block");
    let has_init = body.iter().any(
        |stmt| matches!(&stmt.kind, StmtKind::With { context, .. } if context.is_call_of("T.init")),
    );
    if !is_block || !has_init {
        return None;
    }
    let mut reduce_exprs = Vec::new();
    let mut other_exprs = Vec::new();
    for stmt in body {
        match &stmt.kind {
            StmtKind::Assign { value, .. } => {
                super::block::split_axes(value, &mut reduce_exprs, &mut other_exprs);
            }
            StmtKind::Expr(call) if call.is_call_of("T.where") => other_exprs.push(call),
            _ => {}
        }
    }
    let is_reduce = |var: &Name| {
        reduce_exprs
            .iter()
            .any(|expr| mentions(expr, |name| name == var))
    };
    let first = loops.iter().position(|level| is_reduce(&level.var))?;
    let tail = &loops[first..];
    let vars: Vec<Name> = tail.iter().map(|level| level.var.clone()).collect();
    let good = tail.iter().all(|level| is_reduce(&level.var) && level.kind != LoopKind::Parallel)
        // Nothing but reduction axes may depend on these loops.
        && !other_exprs.iter().any(|expr| mentions(expr, |name| vars.contains(name)))
        // The first round of the nest must be the first round of every axis.
        && reduce_exprs.iter().all(|expr| expr.as_name().is_some() || constant(expr).is_some())
        && tail.iter().all(|level| level.lo.is_none());
    good.then_some((first, Reduction { body, vars }))
}

impl Lower<'_, '_> {
    /// Lowers a `for` and what is perfectly nested in it.
    pub fn for_loop(
        &mut self,
        target: &Expr,
        iter: &Expr,
        body: &[Stmt],
        span: Option<Span>,
    ) -> Res<()> {
        let mut loops = Vec::new();
        read_loops(target, iter, span, &mut loops)?;
        let mut body = body;
        while let [
            Stmt {
                kind:
                    StmtKind::For {
                        target,
                        iter,
                        body: inner,
                    },
                span,
                ..
            },
        ] = body
        {
            read_loops(target, iter, *span, &mut loops)?;
            body = inner;
        }
        let reduction = if self.skip_init {
            None
        } else {
            find_reduction(&loops, body)
        };
        let scope = self.scope.clone();
        self.nest(
            &loops,
            body,
            reduction.as_ref().map(|(first, red)| (*first, red)),
        )?;
        self.scope = scope;
        Ok(())
    }

    fn nest(
        &mut self,
        loops: &[Loop],
        body: &[Stmt],
        reduction: Option<(usize, &Reduction<'_>)>,
    ) -> Res<()> {
        if let Some((0, red)) = reduction {
            return self.reduce(loops, body, red);
        }
        let Some((level, inner)) = loops.split_first() else {
            return self.scoped(body);
        };
        let reduction = reduction.map(|(first, red)| (first - 1, red));
        match level.kind {
            LoopKind::Parallel if !self.in_parallel => {
                return self.parallel_loop(level, inner, body);
            }
            LoopKind::Unroll | LoopKind::Vectorized => {
                if let Some((lo, hi)) = self.constant_bounds(level, body)? {
                    return self.unrolled(level, lo, hi, inner, body, reduction);
                }
            }
            LoopKind::Serial | LoopKind::Parallel => {}
        }
        self.serial(level, &mut |lower| lower.nest(inner, body, reduction))
    }

    /// The body of a parallel loop, in the function that the pool runs.
    pub fn nest_inside(&mut self, loops: &[Loop], body: &[Stmt]) -> Res<()> {
        let reduction = find_reduction(loops, body);
        self.nest(
            loops,
            body,
            reduction.as_ref().map(|(first, red)| (*first, red)),
        )
    }

    /// The bounds of a loop that is copied out.
    fn constant_bounds(&mut self, level: &Loop, body: &[Stmt]) -> Res<Option<(i64, i64)>> {
        if level.step.is_some() || walk::leaves_loop(body) {
            return Ok(None);
        }
        let lo = match &level.lo {
            None => Extent::Const(0),
            Some(expr) => self.extent_of(expr)?,
        };
        let (Extent::Const(lo), Extent::Const(hi)) = (lo, self.extent_of(&level.hi)?) else {
            return Ok(None);
        };
        Ok(is_unrolled((hi - lo).max(0)).then_some((lo, hi)))
    }

    fn unrolled(
        &mut self,
        level: &Loop,
        lo: i64,
        hi: i64,
        inner: &[Loop],
        body: &[Stmt],
        reduction: Option<(usize, &Reduction<'_>)>,
    ) -> Res<()> {
        let dtype = self.loop_dtype(level);
        for value in lo..hi {
            self.scope
                .insert(level.var.clone(), Binding::Const(value, dtype));
            self.nest(inner, body, reduction)?;
        }
        Ok(())
    }

    /// The dtype of a loop variable: that of its extent.
    fn loop_dtype(&self, level: &Loop) -> DType {
        self.int_dtype(&level.hi)
    }

    /// The dtype of an integer expression, by its looks.
    pub fn int_dtype(&self, expr: &Expr) -> DType {
        match &expr.kind {
            ExprKind::Int(_) => DType::I32,
            ExprKind::Name(name) => match self.scope.get(name) {
                Some(Binding::Value(val)) => val.dtype,
                Some(
                    Binding::Index { dtype, .. }
                    | Binding::Const(_, dtype)
                    | Binding::Var(_, dtype),
                ) => *dtype,
                Some(Binding::Buffer(_)) | None => DType::I64,
            },
            ExprKind::Binary { lhs, rhs, .. } => {
                let (a, c) = (self.int_dtype(lhs), self.int_dtype(rhs));
                if a.bits() >= c.bits() { a } else { c }
            }
            ExprKind::Call { .. } if expr.is_call_of("T.int32") => DType::I32,
            _ => DType::I64,
        }
    }

    /// A loop at run time. The body is lowered once, with the variable in scope.
    pub fn serial(&mut self, level: &Loop, body: &mut dyn FnMut(&mut Self) -> Res<()>) -> Res<()> {
        let dtype = self.loop_dtype(level);
        let (lo, natural) = match &level.lo {
            None => (self.i64(0), true),
            Some(expr) => {
                let index = self.index(expr)?;
                (self.index_value(index), index.natural)
            }
        };
        let hi = self.index(&level.hi)?;
        let hi = self.index_value(hi);
        let step = match &level.step {
            None => self.i64(1),
            Some(expr) => {
                let index = self.index(expr)?;
                if index.run.is_some() || index.add <= 0 {
                    return Err(unsupported(level.span, "a step is a positive constant"));
                }
                self.i64(index.add)
            }
        };
        self.serial_range(&level.var, dtype, natural, [lo, hi, step], body)
    }

    /// `for var in range(lo, hi, step)` over registers.
    pub fn serial_range(
        &mut self,
        var: &Name,
        dtype: DType,
        natural: bool,
        [lo, hi, step]: [Value; 3],
        body: &mut dyn FnMut(&mut Self) -> Res<()>,
    ) -> Res<()> {
        let (inside, latch, exit) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let v = self.b.append_block_param(inside, I64);
        let any = self.b.ins().icmp(IntCC::SignedLessThan, lo, hi);
        self.b
            .ins()
            .brif(any, inside, &[BlockArg::from(lo)], exit, &[]);
        self.b.switch_to_block(inside);
        self.scope
            .insert(var.clone(), Binding::Index { v, dtype, natural });
        self.loops.push(LoopExit {
            on_break: exit,
            on_continue: latch,
        });
        body(self)?;
        self.loops.pop();
        self.b.ins().jump(latch, &[]);
        self.b.switch_to_block(latch);
        self.b.seal_block(latch);
        let next = self.b.ins().iadd(v, step);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, next, hi);
        self.b
            .ins()
            .brif(more, inside, &[BlockArg::from(next)], exit, &[]);
        self.b.seal_block(inside);
        self.b.switch_to_block(exit);
        self.b.seal_block(exit);
        Ok(())
    }

    /// The innermost loops of a nest, all of one reduction.
    fn reduce(&mut self, loops: &[Loop], body: &[Stmt], red: &Reduction<'_>) -> Res<()> {
        let scope = self.scope.clone();
        self.init_before(red.body, &red.vars)?;
        let n_promoted = self.promoted.len();
        let targets = self.promote(red)?;
        self.skip_init = true;
        self.nest(loops, body, None)?;
        self.skip_init = false;
        self.promoted.truncate(n_promoted);
        for (buffer, index, operand_var, dtype, span) in targets {
            let v = self.b.use_var(operand_var);
            let operand =
                crate::codegen::arith::Operand::Val(crate::codegen::arith::Val { v, dtype });
            self.store(&buffer, &index, operand, span)?;
        }
        self.scope = scope;
        Ok(())
    }

    /// Loads every element that the reduction updates into a variable, where nothing else can reach it.
    #[allow(clippy::type_complexity)]
    fn promote(
        &mut self,
        red: &Reduction<'_>,
    ) -> Res<
        Vec<(
            Name,
            Vec<Expr>,
            cranelift_frontend::Variable,
            DType,
            Option<Span>,
        )>,
    > {
        let mut res = Vec::new();
        let Some(targets) = super::block::reduction_targets(red.body, &red.vars) else {
            return Ok(res);
        };
        // A predicate decides whether the element is written at all.
        for (buffer, index, span) in targets {
            let val = self.load(&buffer, &index, span)?;
            let ty = self.register(val.dtype, span)?;
            let var = self.b.declare_var(ty);
            self.b.def_var(var, val.v);
            res.push((buffer, index, var, val.dtype, span));
        }
        for (buffer, index, var, dtype, _) in &res {
            self.promoted.push(Promoted {
                buffer: buffer.clone(),
                index: index.clone(),
                var: *var,
                dtype: *dtype,
            });
        }
        Ok(res)
    }

    /// The variable of a promoted element.
    pub fn find_promoted(
        &self,
        buffer: &Name,
        index: &[Expr],
    ) -> Option<(cranelift_frontend::Variable, DType)> {
        self.promoted
            .iter()
            .rev()
            .find(|item| {
                item.buffer == *buffer
                    && item.index.len() == index.len()
                    && item
                        .index
                        .iter()
                        .zip(index)
                        .all(|(a, b)| is_identical_expr(a, b))
            })
            .map(|item| (item.var, item.dtype))
    }
}

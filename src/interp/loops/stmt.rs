//! Statements of the loop level, compiled to closures over the machine.

use irc_syntax::{DType, Expr, ExprKind, Name, Span, Stmt, StmtKind};

use super::expr::{Code, IntCode, Typed, with_index};
use super::machine::{Machine, Ran, Stop, View};
use super::scalar::{store_float, store_int};
use super::{Compiler, Place, shape_of};
use crate::interp::RunError;
use crate::tensor::parse_const_buffer;

/// Compiled statements.
pub(super) type Run = Box<dyn Fn(&mut Machine) -> Ran>;

/// Compiled statements that run one after the other.
pub(super) fn sequence(mut parts: Vec<Run>) -> Run {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return only;
    }
    Box::new(move |m| parts.iter().try_for_each(|part| part(m)))
}

/// One loop over one variable.
pub(super) struct Loop {
    pub(super) var: Name,
    pub(super) lo: Typed,
    pub(super) hi: Typed,
    pub(super) step: i64,
}

impl Compiler {
    /// Compiles the statements of one block; names bound among them end with it.
    pub(super) fn body(&mut self, stmts: &[Stmt]) -> Result<Run, RunError> {
        let scope = self.scope.clone();
        let parts = self.statements(stmts);
        self.scope = scope;
        Ok(sequence(parts?))
    }

    /// Compiles statements in order; the names they bind stay.
    pub(super) fn statements(&mut self, stmts: &[Stmt]) -> Result<Vec<Run>, RunError> {
        let mut parts = Vec::new();
        for (at, stmt) in stmts.iter().enumerate() {
            // The rest of the block runs under the block's predicate.
            if let StmtKind::Expr(call) = &stmt.kind
                && call.is_call_of("T.where")
                && let Some(cond) = call.positional().next()
            {
                let cond = self.expr(cond)?.into_truth();
                let rest = sequence(self.statements(&stmts[at + 1..])?);
                parts.push(Box::new(
                    move |m: &mut Machine| {
                        if cond(m)? != 0 { rest(m) } else { Ok(()) }
                    },
                ) as Run);
                return Ok(parts);
            }
            let part = self.statement(stmt).map_err(|error| error.at(stmt.span))?;
            parts.extend(part);
        }
        Ok(parts)
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<Option<Run>, RunError> {
        Ok(match &stmt.kind {
            StmtKind::Assign { target, ty, value } => {
                self.assign(target, ty.as_ref(), value, stmt.span)?
            }
            StmtKind::Declare { target, ty } => {
                if let (Some(name), Some(dtype)) = (target.as_name(), scalar_type(ty)) {
                    self.slot(name, dtype);
                }
                None
            }
            StmtKind::Expr(expr) => self.effect(expr)?,
            StmtKind::If {
                cond, then, orelse, ..
            } => {
                let cond = self.expr(cond)?.into_truth();
                let (then, orelse) = (self.body(then)?, self.body(orelse)?);
                Some(Box::new(
                    move |m| if cond(m)? != 0 { then(m) } else { orelse(m) },
                ))
            }
            StmtKind::For { target, iter, body } => Some(self.for_loop(target, iter, body)?),
            StmtKind::While { cond, body } => {
                let cond = self.expr(cond)?.into_truth();
                let body = self.body(body)?;
                Some(Box::new(move |m| {
                    while cond(m)? != 0 {
                        match body(m) {
                            Ok(()) | Err(Stop::Continue) => {}
                            Err(Stop::Break) => break,
                            Err(stop) => return Err(stop),
                        }
                    }
                    Ok(())
                }))
            }
            StmtKind::With { context, body, .. } => match context.as_call() {
                Some((path, _)) if path == "T.sblock" || path == "T.block" => {
                    Some(self.block(body)?)
                }
                // An init away from its block runs whenever it is met.
                _ => Some(self.body(body)?),
            },
            StmtKind::Return(_) => Some(Box::new(|_| Err(Stop::Return))),
            StmtKind::Assert { cond, message } => {
                let cond = self.expr(cond)?.into_truth();
                let text = message
                    .as_ref()
                    .and_then(assert_text)
                    .unwrap_or_else(|| "assertion".to_owned());
                let span = stmt.span;
                Some(Box::new(move |m| {
                    if cond(m)? != 0 {
                        return Ok(());
                    }
                    Err(RunError::value_error(text.clone()).at(span).into())
                }))
            }
            StmtKind::Break => Some(Box::new(|_| Err(Stop::Break))),
            StmtKind::Continue => Some(Box::new(|_| Err(Stop::Continue))),
            StmtKind::Pass | StmtKind::Import(_) => None,
            StmtKind::Func(_) | StmtKind::Error => {
                return Err(RunError::type_error(
                    "this statement has no meaning in a prim_func",
                ));
            }
        })
    }

    /// A call for its effect.
    fn effect(&mut self, expr: &Expr) -> Result<Option<Run>, RunError> {
        let Some((path, _)) = expr.as_call() else {
            return Ok(None);
        };
        match path.as_str() {
            "T.func_attr" | "T.reads" | "T.writes" | "T.sblock_attr" | "T.block_attr"
            | "T.attr" | "T.assume" | "T.prefetch" => Ok(None),
            "T.break_loop" => Ok(Some(Box::new(|_| Err(Stop::Break)))),
            "T.continue_loop" => Ok(Some(Box::new(|_| Err(Stop::Continue)))),
            "T.evaluate" => match expr.positional().next() {
                Some(inner) if inner.as_call().is_some() => self.effect(inner),
                _ => Ok(None),
            },
            path if self.can_call(path) => self.call_other(path, expr).map(Some),
            _ => {
                let code = self.expr(expr)?.into_float();
                Ok(Some(Box::new(move |m| code(m).map(drop))))
            }
        }
    }

    fn assign(
        &mut self,
        target: &Expr,
        ty: Option<&Expr>,
        value: &Expr,
        span: Option<Span>,
    ) -> Result<Option<Run>, RunError> {
        if let ExprKind::Index {
            value: buffer,
            index,
        } = &target.kind
        {
            return self.store(buffer, index, value, span).map(Some);
        }
        if let Some(names) = target.as_items() {
            return self.remap(names, value).map(Some);
        }
        let name = target
            .as_name()
            .ok_or_else(|| RunError::type_error("this cannot be assigned to"))?;
        if let Some((path, args)) = value.as_call() {
            let plain = path.strip_prefix("T.").unwrap_or(&path);
            match plain {
                "alloc_buffer" | "sblock_alloc_buffer" | "alloc_local" | "alloc_shared" => {
                    return self.allocate(name, value).map(Some);
                }
                "allocate_const" => return self.constant(name, value).map(Some),
                "decl_buffer" => return self.view(name, value).map(Some),
                // A handle's buffer is there already.
                "match_buffer" if self.scope.contains_key(name) => return Ok(None),
                "match_buffer" => return self.view(name, value).map(Some),
                "axis.spatial" | "axis.reduce" | "axis.S" | "axis.R" | "axis.scan"
                | "axis.opaque" => {
                    let bound = value.positional().nth(1).ok_or_else(|| {
                        RunError::type_error("an axis without the value it is bound to")
                    })?;
                    return self.bind(name, bound).map(Some);
                }
                "axis.remap" => return self.remap(std::slice::from_ref(target), value).map(Some),
                // `n = T.int64()` declares a symbol, which has its value from the signature.
                _ if args.iter().all(|arg| arg.name.is_some())
                    && DType::from_name(plain).is_some() =>
                {
                    return Ok(None);
                }
                _ => {}
            }
        }
        let dtype = ty.and_then(scalar_type);
        self.set_scalar(name, value, dtype).map(Some)
    }

    /// `x = e`, `x: T.let[T.float32] = e`; a name in scope keeps its slot and dtype.
    fn set_scalar(
        &mut self,
        name: &Name,
        value: &Expr,
        dtype: Option<DType>,
    ) -> Result<Run, RunError> {
        let value = self.expr(value)?;
        let (slot, dtype) = match (self.scope.get(name), dtype) {
            (Some(Place::Int(slot, own) | Place::Float(slot, own)), None) => (*slot, *own),
            (_, dtype) => {
                let dtype = dtype.unwrap_or(value.dtype);
                (self.slot(name, dtype), dtype)
            }
        };
        Ok(match value.cast(dtype).code {
            Code::Int(code) => Box::new(move |m| {
                m.slots[slot] = code(m)? as u64;
                Ok(())
            }),
            Code::Float(code) => Box::new(move |m| {
                m.slots[slot] = code(m)?.to_bits();
                Ok(())
            }),
        })
    }

    /// Binds an axis of a block: a new name, whatever was in scope.
    pub(super) fn bind(&mut self, name: &Name, value: &Expr) -> Result<Run, RunError> {
        let value = self.expr(value)?;
        let dtype = value.dtype;
        let code = value.into_int();
        let slot = self.slot(name, dtype);
        Ok(Box::new(move |m| {
            m.slots[slot] = code(m)? as u64;
            Ok(())
        }))
    }

    /// `v_i, v_j = T.axis.remap("SR", [i, j])`, and plain tuples of scalars.
    fn remap(&mut self, names: &[Expr], value: &Expr) -> Result<Run, RunError> {
        let fault = || RunError::type_error("names and values differ in number");
        let values = match value.as_call() {
            Some((path, args)) if path == "T.axis.remap" => args
                .get(1)
                .and_then(|arg| arg.value.as_items())
                .ok_or_else(fault)?,
            _ => value.as_items().ok_or_else(fault)?,
        };
        if names.len() != values.len() {
            return Err(fault());
        }
        let mut parts = Vec::with_capacity(names.len());
        for (name, value) in names.iter().zip(values) {
            parts.push(self.bind(name.as_name().ok_or_else(fault)?, value)?);
        }
        Ok(sequence(parts))
    }

    fn store(
        &mut self,
        buffer: &Expr,
        index: &[Expr],
        value: &Expr,
        span: Option<Span>,
    ) -> Result<Run, RunError> {
        let (buffer, dtype) = self.buffer(buffer)?;
        let index = self.indices(index)?;
        Ok(match self.expr(value)?.cast(dtype).code {
            Code::Int(code) => Box::new(move |m| {
                let value = code(m)?;
                let index = evaluate(&index, m)?;
                store_int(m.element_mut(buffer, &index.0[..index.1], span)?, value);
                Ok(())
            }),
            Code::Float(code) => Box::new(move |m| {
                let value = code(m)?;
                let index = evaluate(&index, m)?;
                store_float(
                    dtype,
                    m.element_mut(buffer, &index.0[..index.1], span)?,
                    value,
                );
                Ok(())
            }),
        })
    }

    pub(super) fn decl_dtype(&self, call: &Expr, at: usize) -> Result<DType, RunError> {
        match call.keyword("dtype").or_else(|| call.positional().nth(at)) {
            Some(expr) => expr
                .as_str()
                .and_then(DType::from_name)
                .ok_or_else(|| RunError::type_error("a buffer of no known dtype").at(expr.span)),
            None => Ok(DType::F32),
        }
    }

    fn allocate(&mut self, name: &Name, call: &Expr) -> Result<Run, RunError> {
        let dims = self.indices(&shape_of(call, 0))?;
        let dtype = self.decl_dtype(call, 1)?;
        let buffer = self.new_buffer(name, dtype);
        Ok(Box::new(move |m| {
            let dims = dims.iter().map(|dim| dim(m)).collect::<Ran<_>>()?;
            m.allocate(buffer, dtype, dims)
        }))
    }

    /// `t = T.allocate_const([1, 2, 3], "int32", [3])`
    fn constant(&mut self, name: &Name, call: &Expr) -> Result<Run, RunError> {
        let tensor =
            parse_const_buffer(call).map_err(|fault| RunError::from(fault).at(call.span))?;
        let buffer = self.new_buffer(name, tensor.dtype);
        Ok(Box::new(move |m| m.load(buffer, &tensor)))
    }

    /// `T.decl_buffer(shape, dtype, data=A.data, strides=…, elem_offset=…)` and `T.match_buffer(A[lo:hi, …], …)`.
    fn view(&mut self, name: &Name, call: &Expr) -> Result<Run, RunError> {
        let is_match = call.is_call_of("T.match_buffer");
        let skip = usize::from(is_match);
        let dtype = self.decl_dtype(call, skip + 1)?;
        let dims = self.indices(&shape_of(call, skip))?;
        let source = if is_match {
            call.positional().next()
        } else {
            call.keyword("data")
        };
        let Some(source) = source else {
            return self.allocate(name, call);
        };
        let (of, corner) = match &source.kind {
            ExprKind::Attr { value, .. } => (self.buffer(value)?.0, Vec::new()),
            ExprKind::Index { value, index } => {
                let corner = index.iter().map(|expr| match &expr.kind {
                    ExprKind::Slice { lo: Some(lo), .. } => Ok(self.expr(lo)?.into_int()),
                    ExprKind::Slice { .. } => Ok(Box::new(|_: &Machine| Ok(0i64)) as IntCode),
                    _ => Ok(self.expr(expr)?.into_int()),
                });
                let corner = corner.collect::<Result<Vec<_>, RunError>>()?;
                (self.buffer(value)?.0, corner)
            }
            _ => (self.buffer(source)?.0, Vec::new()),
        };
        let strides = match call.keyword("strides").and_then(Expr::as_items) {
            Some(items) if !items.is_empty() && !is_match => Some(self.indices(items)?),
            _ => None,
        };
        let offset = match call.keyword("elem_offset") {
            Some(expr) if !is_match => Some(self.expr(expr)?.into_int()),
            _ => None,
        };
        let buffer = self.new_buffer(name, dtype);
        Ok(Box::new(move |m| {
            let base = m.view(of)?.clone();
            let dims: Vec<i64> = dims.iter().map(|dim| dim(m)).collect::<Ran<_>>()?;
            let mut start = base.offset;
            for (code, stride) in corner.iter().zip(&base.strides) {
                start += code(m)? * stride;
            }
            if let Some(offset) = &offset {
                start += offset(m)?;
            }
            let strides = match &strides {
                Some(strides) => strides.iter().map(|code| code(m)).collect::<Ran<_>>()?,
                // A matched region keeps the strides of its innermost axes.
                None if is_match && !corner.is_empty() => {
                    let skipped = base.strides.len().saturating_sub(dims.len());
                    base.strides[skipped..].to_vec()
                }
                None => super::machine::row_major(&dims),
            };
            m.views[buffer] = Some(View {
                storage: base.storage,
                dtype,
                dims,
                strides,
                offset: start,
            });
            Ok(())
        }))
    }

    /// The loops that a `for` statement stands for, outermost first; none for what is not known.
    pub(super) fn loops(&mut self, target: &Expr, iter: &Expr) -> Result<Vec<Loop>, RunError> {
        let fault = || RunError::type_error("this loop has no known form").at(iter.span);
        let (path, args) = iter.as_call().ok_or_else(fault)?;
        let vars: Vec<Name> = match target.as_items() {
            Some(items) => items
                .iter()
                .map(|item| item.as_name().cloned().ok_or_else(fault))
                .collect::<Result<_, _>>()?,
            None => vec![target.as_name().cloned().ok_or_else(fault)?],
        };
        let positional: Vec<&Expr> = args
            .iter()
            .filter(|arg| arg.name.is_none())
            .map(|arg| &arg.value)
            .collect();
        let zero = || Typed {
            dtype: DType::I32,
            weak: true,
            code: Code::Int(Box::new(|_| Ok(0))),
        };
        if path == "T.grid" {
            if positional.len() != vars.len() {
                return Err(fault());
            }
            let pairs = vars.into_iter().zip(positional);
            return pairs
                .map(|(var, extent)| {
                    Ok(Loop {
                        var,
                        lo: zero(),
                        hi: self.expr(extent)?,
                        step: 1,
                    })
                })
                .collect();
        }
        let known = matches!(
            path.as_str(),
            "range" | "T.serial" | "T.parallel" | "T.vectorized" | "T.unroll" | "T.thread_binding"
        );
        let [var] = vars.as_slice() else {
            return Err(fault());
        };
        if !known {
            return Err(fault());
        }
        let step = match iter.keyword("step").or(positional.get(2).copied()) {
            Some(step) => step
                .as_int()
                .and_then(|step| i64::try_from(step).ok())
                .filter(|&step| step != 0)
                .ok_or_else(fault)?,
            None => 1,
        };
        let (lo, hi) = match positional.as_slice() {
            [hi] => (zero(), self.expr(hi)?),
            [lo, hi, ..] => (self.expr(lo)?, self.expr(hi)?),
            [] => return Err(fault()),
        };
        Ok(vec![Loop {
            var: var.clone(),
            lo,
            hi,
            step,
        }])
    }

    fn for_loop(&mut self, target: &Expr, iter: &Expr, body: &[Stmt]) -> Result<Run, RunError> {
        if let Some(run) = self.reduction_nest(target, iter, body)? {
            return Ok(run);
        }
        let scope = self.scope.clone();
        let loops = self.loops(target, iter)?;
        let heads: Vec<Head> = loops.into_iter().map(|each| self.head(each)).collect();
        let inner = self.body(body);
        self.scope = scope;
        let mut run = inner?;
        for head in heads.into_iter().rev() {
            run = head.around(run);
        }
        Ok(run)
    }

    /// Gives a loop's variable its slot.
    pub(super) fn head(&mut self, each: Loop) -> Head {
        let dtype = match (each.lo.weak, each.hi.weak) {
            (true, _) => each.hi.dtype,
            (false, true) => each.lo.dtype,
            _ if each.lo.dtype.bits() < each.hi.dtype.bits() => each.hi.dtype,
            _ => each.lo.dtype,
        };
        let slot = self.slot(&each.var, dtype);
        Head {
            slot,
            lo: each.lo.into_int(),
            hi: each.hi.into_int(),
            step: each.step,
        }
    }
}

/// A compiled loop without its body.
pub(super) struct Head {
    pub(super) slot: usize,
    pub(super) lo: IntCode,
    pub(super) hi: IntCode,
    pub(super) step: i64,
}

impl Head {
    /// The loop around a body.
    pub(super) fn around(self, body: Run) -> Run {
        let Self { slot, lo, hi, step } = self;
        Box::new(move |m| {
            let (mut at, hi) = (lo(m)?, hi(m)?);
            while if step > 0 { at < hi } else { hi < at } {
                m.slots[slot] = at as u64;
                match body(m) {
                    Ok(()) | Err(Stop::Continue) => {}
                    Err(Stop::Break) => break,
                    Err(stop) => return Err(stop),
                }
                at += step;
            }
            Ok(())
        })
    }
}

/// Evaluated indices of up to eight axes.
fn evaluate(index: &[IntCode], machine: &Machine) -> Ran<([i64; 8], usize)> {
    with_index(index, machine, |values| {
        let mut fixed = [0; 8];
        let Some(place) = fixed.get_mut(..values.len()) else {
            return Err(RunError::type_error("more than eight axes").into());
        };
        place.copy_from_slice(values);
        Ok((fixed, values.len()))
    })
}

/// The dtype of `T.int32`, `T.let[T.int32]`.
pub(super) fn scalar_type(ty: &Expr) -> Option<DType> {
    match &ty.kind {
        ExprKind::Index { index, .. } => scalar_type(index.first()?),
        ExprKind::Call { func, .. } => scalar_type(func),
        _ => DType::from_name(ty.as_path()?.strip_prefix("T.")?),
    }
}

/// The text of an assertion: a string, or `("Kind", ["part", …])`.
fn assert_text(message: &Expr) -> Option<String> {
    if let Some(text) = message.as_str() {
        return Some(text.to_owned());
    }
    let parts = message.as_items()?.get(1)?.as_items()?;
    Some(parts.iter().filter_map(Expr::as_str).collect())
}

//! Identities on tensors, read off types: values that are others, and chains that are one step.
//!
//!     a = R.reshape(x, R.shape([4, 6]))
//!     b = R.reshape(a, R.shape([24]))      →     b = R.reshape(x, R.shape([24]))
//!     c = R.astype(b, "float32")                 (b is float32 already, so c is b)
//!     return c                                   return b
//!
//! A tensor whose content the checker knows (a shape computation that came out constant) becomes `R.const`; members
//! of a known tuple are used directly. One walk in order; each law stands beside its rewrite.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::uses::{bound_names, substitute_stmt};
use irc_syntax::{DType, Expr, ExprKind, Module, Name, Span, Stmt, StmtKind, print_expr};

use super::graph::for_each_block;
use super::log::Log;
use super::{Changed, Pass, PassCx};
use crate::check::prim::{self, Binary, BoundCall, Prim, Unary};
use crate::check::stage::Level;
use crate::check::{Info, Type};
use crate::shape::Dim;

/// The pass.
pub const PASS: Pass = Pass {
    name: "simplify",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "algebraic identities on tensors",
    args: &[],
};

/// Runs the pass on every block of every graph function that is no group.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    let (info, log) = (&cx.info, &cx.log);
    let groups: BTreeSet<Name> = module
        .funcs()
        .filter(|func| func.attr("op_pattern").is_some())
        .map(|func| func.name.clone())
        .collect();
    for_each_block(module, &mut |func, stmts| {
        if groups.contains(func) {
            return;
        }
        let mut walk = Simplify {
            info,
            log,
            func,
            defs: BTreeMap::new(),
            map: BTreeMap::new(),
        };
        changed |= walk.block(stmts);
    });
    Changed::from(changed)
}

struct Simplify<'a> {
    info: &'a Info,
    log: &'a Log,
    func: &'a Name,
    /// What each name of the block was bound to.
    defs: BTreeMap<Name, Expr>,
    /// Names that stand for other values from here on.
    map: BTreeMap<Name, Expr>,
}

/// What a binding turned out to be.
enum Rewrite {
    /// Another value.
    Alias(Expr),
    /// The same value, computed another way.
    Value(Expr),
}

impl std::fmt::Display for Rewrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Alias(other) => write!(f, "it is `{}`", print_expr(other)),
            Self::Value(value) => write!(f, "it is computed as `{}`", print_expr(value)),
        }
    }
}

impl Simplify<'_> {
    fn block(&mut self, stmts: &mut Vec<Stmt>) -> bool {
        let mut changed = false;
        let mut kept = Vec::with_capacity(stmts.len());
        let read_here = super::graph::count_uses(stmts);
        for mut stmt in stmts.drain(..) {
            if !self.map.is_empty() {
                substitute_stmt(&mut stmt, &self.map);
            }
            if let StmtKind::Assign { target, value, .. } = &mut stmt.kind {
                if self.forward_tuple(target, value, stmt.span) {
                    changed = true;
                    continue;
                }
                if let Some(name) = target.as_name().cloned() {
                    let found = self.rewrite(&name, value).filter(|found| {
                        // A name that only an enclosing block reads is the value of a branch and stays bound.
                        let may =
                            !matches!(found, Rewrite::Alias(_)) || read_here.contains_key(&name);
                        may && self.log.allows(&name, stmt.span, || found.to_string())
                    });
                    match found {
                        Some(Rewrite::Alias(other)) => {
                            self.map.insert(name, other);
                            changed = true;
                            continue;
                        }
                        None => {}
                        Some(Rewrite::Value(new)) => {
                            *value = new.at(value.span);
                            changed = true;
                        }
                    }
                    self.defs.insert(name, value.clone());
                }
            }
            kept.push(stmt);
        }
        *stmts = kept;
        changed
    }

    /// `a, b = (x, y)`: a is x and b is y.
    fn forward_tuple(&mut self, target: &Expr, value: &Expr, span: Option<Span>) -> bool {
        let ExprKind::Tuple { .. } = target.kind else {
            return false;
        };
        let source = match value.as_name() {
            Some(name) => self.defs.get(name),
            None => Some(value),
        };
        let Some(ExprKind::Tuple { items, .. }) = source.map(|value| &value.kind) else {
            return false;
        };
        let names = bound_names(target);
        let all_atoms = names.len() == items.len() && items.iter().all(is_atom);
        let allows = |name: &Name| {
            self.log
                .allows(name, span, || "its members are known".into())
        };
        if !all_atoms || !names.first().is_some_and(allows) {
            return false;
        }
        let items = items.clone();
        self.map.extend(names.into_iter().zip(items));
        true
    }

    fn ty(&self, value: &Expr) -> Option<&Type> {
        self.info.funcs.get(self.func)?.vars.get(value.as_name()?)
    }

    fn shape(&self, value: &Expr) -> Option<&[Dim]> {
        self.ty(value)?.as_tensor()?.shape.as_deref()
    }

    fn dtype(&self, value: &Expr) -> Option<DType> {
        self.ty(value)?.as_tensor()?.dtype
    }

    fn rewrite(&self, name: &Name, value: &Expr) -> Option<Rewrite> {
        if let ExprKind::Index {
            value: tuple,
            index,
        } = &value.kind
        {
            // (x, y)[1] = y
            let ExprKind::Tuple { items, .. } = &self.defs.get(tuple.as_name()?)?.kind else {
                return None;
            };
            let at = usize::try_from(index.first()?.as_int()?).ok()?;
            let item = items.get(at)?;
            return is_atom(item).then(|| Rewrite::Alias(item.clone()));
        }
        let (path, _) = value.as_call()?;
        let prim = Prim::find(&path)?;
        if prim != Prim::Const
            && let Some(constant) = self.known_content(name)
        {
            return Some(Rewrite::Alias(constant));
        }
        let call = prim::bind(prim, value).ok()?;
        let result = self
            .info
            .funcs
            .get(self.func)?
            .vars
            .get(name)?
            .as_tensor()?;
        let shape = result.shape.as_deref();
        let x = call.operands().first().map(|&x| x.clone())?;
        let same_shape = shape.is_some() && self.shape(&x) == shape;
        match prim {
            // A cast to its own dtype, a reshape or broadcast to its own shape: x.
            Prim::Astype if self.dtype(&x).is_some() && self.dtype(&x) == result.dtype => {
                Some(Rewrite::Alias(x))
            }
            Prim::Reshape | Prim::BroadcastTo if same_shape => Some(Rewrite::Alias(x)),
            Prim::Reshape => self.reshape_of_reshape(&x, value),
            Prim::PermuteDims => self.permute(&call, &x, shape?),
            Prim::StridedSlice if same_shape && call.ints("strides").iter().all(|&s| s == 1) => {
                // A slice with unit steps of the whole extent: x.
                let steps = call.opt_dims("strides").unwrap_or(&[]);
                steps
                    .iter()
                    .all(|step| step.as_int() == Some(1))
                    .then_some(Rewrite::Alias(x))
            }
            Prim::Concat if call.operands().len() == 1 && x.as_name().is_some() => {
                // Concatenating one tensor: x.
                same_shape.then_some(Rewrite::Alias(x))
            }
            Prim::Reduce(_) => {
                // A reduction over extents of 1 that keeps them: x.
                (same_shape && call.bool("keepdims")).then_some(Rewrite::Alias(x))
            }
            Prim::Binary(op) => self.neutral(op, &call, shape?),
            Prim::Unary(Unary::Negative) => {
                // -(-x) = x
                let inner = self.def_of(&x, Prim::Unary(Unary::Negative))?;
                Some(Rewrite::Alias(inner.operand("x")?.clone()))
            }
            _ => None,
        }
    }

    /// `R.const([…])` for an integer tensor of constant content.
    fn known_content(&self, name: &Name) -> Option<Expr> {
        let tensor = self
            .info
            .funcs
            .get(self.func)?
            .vars
            .get(name)?
            .as_tensor()?;
        let (dtype, shape) = (tensor.dtype?, tensor.shape.as_ref()?);
        let content: Option<Vec<i64>> = tensor.value.as_ref()?.iter().map(Dim::as_int).collect();
        let content = content?;
        if content.len() > 16 {
            return None;
        }
        let number = |value: &i64| match dtype {
            DType::Bool => Expr::bool(*value != 0),
            _ if dtype.is_float() => Expr::float(*value as f64),
            _ => Expr::int(*value),
        };
        let content = match (shape.len(), content.as_slice()) {
            (0, [one]) => number(one),
            (1, many) => Expr::list(many.iter().map(number)),
            _ => return None,
        };
        Some(Expr::call("R.const", [content, Expr::str(dtype.name())]))
    }

    fn def_of(&self, value: &Expr, wanted: Prim) -> Option<BoundCall> {
        let def = self.defs.get(value.as_name()?)?;
        let (path, _) = def.as_call()?;
        let prim = Prim::find(&path).filter(|prim| *prim == wanted)?;
        prim::bind(prim, def).ok()
    }

    /// reshape(reshape(x, s), t) = reshape(x, t)
    fn reshape_of_reshape(&self, x: &Expr, value: &Expr) -> Option<Rewrite> {
        let inner = self.def_of(x, Prim::Reshape)?;
        let source = inner
            .operand("x")
            .filter(|source| source.as_name().is_some())?
            .clone();
        let mut new = value.clone();
        let ExprKind::Call { args, .. } = &mut new.kind else {
            return None;
        };
        args.first_mut()?.value = source;
        Some(Rewrite::Value(new))
    }

    fn permute(&self, call: &BoundCall, x: &Expr, shape: &[Dim]) -> Option<Rewrite> {
        let rank = shape.len();
        let axes = permutation(call, rank)?;
        // The identity: x.
        if axes.iter().enumerate().all(|(at, &axis)| at == axis) {
            return Some(Rewrite::Alias(x.clone()));
        }
        // permute(permute(x, p), q) = permute(x, p ∘ q)
        if let Some(inner) = self.def_of(x, Prim::PermuteDims) {
            let first = permutation(&inner, rank)?;
            let composed: Vec<usize> = axes.iter().map(|&axis| first[axis]).collect();
            let source = inner.operand("x")?.clone();
            if composed.iter().enumerate().all(|(at, &axis)| at == axis) {
                return Some(Rewrite::Alias(source));
            }
            let axes = Expr::list(composed.iter().map(|&axis| Expr::int(axis as i128)));
            return Some(Rewrite::Value(
                Expr::call("R.permute_dims", [source]).with("axes", axes),
            ));
        }
        if let Some(source) = self.back_in_order(x, &axes) {
            return Some(Rewrite::Value(view(&source, shape)));
        }
        // Axes of extent 1 may go anywhere: no byte moves.
        let from = self.shape(x)?;
        let moving: Vec<usize> = axes
            .iter()
            .copied()
            .filter(|&axis| from[axis].as_int() != Some(1))
            .collect();
        if moving.is_sorted() {
            return Some(Rewrite::Value(view(x, shape)));
        }
        None
    }

    /// The source `x` of `permute(reshape(permute(x, p), s), q)`, where the reshape only brings or drops axes of extent 1
    /// and the others come out in the order they have in `x`: then no byte moves.
    fn back_in_order(&self, value: &Expr, axes: &[usize]) -> Option<Expr> {
        let reshape = self.def_of(value, Prim::Reshape)?;
        let permuted = reshape.operand("x")?;
        let permute = self.def_of(permuted, Prim::PermuteDims)?;
        let source = permute.operand("x")?;
        let (from, to) = (self.shape(permuted)?, self.shape(value)?);
        let first = permutation(&permute, from.len())?;
        let long = |dims: &[Dim]| -> Vec<usize> {
            let is_long = |&axis: &usize| dims[axis].as_int() != Some(1);
            (0..dims.len()).filter(is_long).collect()
        };
        let (before, after) = (long(from), long(to));
        let same = before.len() == after.len()
            && before.iter().zip(&after).all(|(&a, &b)| from[a] == to[b]);
        if !same {
            return None;
        }
        let place = |axis: &usize| after.iter().position(|other| other == axis);
        let order = axes.iter().filter_map(place).map(|at| first[before[at]]);
        order.is_sorted().then(|| source.clone())
    }

    /// x + 0 = x - 0 = x, x * 1 = x / 1 = x, where the constant does not widen x.
    fn neutral(&self, op: Binary, call: &BoundCall, shape: &[Dim]) -> Option<Rewrite> {
        let (a, b) = (call.operand("a")?, call.operand("b")?);
        let is = |value: &Expr, wanted: f64| scalar_constant(value) == Some(wanted);
        let keeps = |value: &Expr| self.shape(value) == Some(shape);
        let is_float = self
            .dtype(a)
            .or_else(|| self.dtype(b))
            .is_some_and(DType::is_float);
        let kept = match op {
            // 0.0 + -0.0 is 0.0, so adding zero is only neutral for integers.
            Binary::Add if !is_float && is(b, 0.0) && keeps(a) => a,
            Binary::Add if !is_float && is(a, 0.0) && keeps(b) => b,
            Binary::Subtract if is(b, 0.0) && keeps(a) => a,
            Binary::Multiply | Binary::Divide if is(b, 1.0) && keeps(a) => a,
            Binary::Multiply if is(a, 1.0) && keeps(b) => b,
            _ => return None,
        };
        Some(Rewrite::Alias(kept.clone()))
    }
}

/// The bytes of a value with other extents.
fn view(value: &Expr, shape: &[Dim]) -> Expr {
    let dims = Expr::list(shape.iter().map(Dim::to_expr));
    Expr::call("R.reshape", [value.clone(), Expr::call("R.shape", [dims])])
}

fn is_atom(value: &Expr) -> bool {
    value.as_name().is_some() || value.is_call_of("R.const")
}

/// The number of a constant of one element.
fn scalar_constant(value: &Expr) -> Option<f64> {
    if !value.is_call_of("R.const") {
        return None;
    }
    let mut number = value.positional().next()?;
    while let Some([one]) = number.as_items() {
        number = one;
    }
    match &number.kind {
        ExprKind::Float(value) => Some(*value),
        _ => number.as_int().map(|value| value as f64),
    }
}

/// The axes of a permutation, counted from the front.
fn permutation(call: &BoundCall, rank: usize) -> Option<Vec<usize>> {
    let Some(axes) = call.opt_ints("axes") else {
        return Some((0..rank).rev().collect());
    };
    axes.iter()
        .map(|&axis| usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok())
        .collect::<Option<Vec<usize>>>()
        .filter(|axes| axes.len() == rank && axes.iter().all(|&axis| axis < rank))
}

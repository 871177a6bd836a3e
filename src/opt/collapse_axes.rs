//! Merges neighbouring axes of a group that all its tensors walk together.
//!
//!     def add_relu(p0: (1, 56, 56, 64), p1: (64,)):    →    def add_relu(p0: (3136, 64), p1: (64,)):
//!
//! Fewer and longer loops: an element-wise group over equal shapes becomes one loop, the rows of a matrix product over
//! an image one axis, whatever the image's sides. Two axes merge where every tensor has both whole or neither. The call
//! is given views (`R.reshape`) of its operands, and its results are viewed in their own shapes again.

use std::collections::BTreeMap;

use irc_syntax::names::NameSupply;
use irc_syntax::uses::bound_names;
use irc_syntax::{Expr, ExprKind, Func, FuncKind, Module, Name, Stmt, StmtKind};

use super::graph::returned;
use super::{Changed, Pass, PassCx};
use crate::check::prim::{self, BoundCall, Prim};
use crate::check::stage::Level;
use crate::check::{FuncInfo, Type, type_to_expr};
use crate::shape::Dim;

/// The pass.
pub const PASS: Pass = Pass {
    name: "collapse_axes",
    run,
    from: Level::Fused,
    to: Level::Fused,
    summary: "merge axes that are walked together",
    args: &[],
};

/// Runs the pass on every group function and on the calls of it.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut collapsed: BTreeMap<Name, Collapsed> = BTreeMap::new();
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph)
    {
        if func.attr("op_pattern").is_none() {
            continue;
        }
        let info = cx.info.funcs.get(&func.name).cloned().unwrap_or_default();
        if let Some((new, signature)) = collapse(func, &info) {
            collapsed.insert(func.name.clone(), signature);
            *func = new;
        }
    }
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph)
    {
        let info = cx.info.funcs.get(&func.name).cloned().unwrap_or_default();
        let mut names = NameSupply::of_func(func);
        let body = std::mem::take(&mut func.body);
        func.body = rewrite_calls(body, &info, &collapsed, &mut names);
    }
    Changed::from(!collapsed.is_empty())
}

/// The shapes that a collapsed function takes and gives.
struct Collapsed {
    /// One shape a parameter; none for a scalar.
    params: Vec<Option<Vec<Dim>>>,
    /// Symbols that the new shapes no longer bind, passed after all else.
    symbols: Vec<Name>,
    results: Vec<Vec<Dim>>,
}

/// Which axes of the domain merge: `merged[i]` says that axis `i` merges into axis `i - 1`.
struct Plan {
    domain: Vec<Dim>,
    merged: Vec<bool>,
}

impl Plan {
    /// The shape of a tensor of the group after merging; its axes align with the domain's last ones.
    fn shape(&self, shape: &[Dim]) -> Vec<Dim> {
        let skip = self.domain.len() - shape.len();
        let mut out: Vec<Dim> = Vec::new();
        for (axis, extent) in shape.iter().enumerate() {
            match out.last_mut() {
                Some(last) if self.merged[skip + axis] => *last = &*last * extent,
                _ => out.push(extent.clone()),
            }
        }
        out
    }

    /// Where an axis of the domain went.
    fn axis(&self, axis: usize) -> usize {
        axis - self.merged[..=axis]
            .iter()
            .filter(|&&merged| merged)
            .count()
    }
}

/// The part of a call's operands that walks the domain, and whether the call can be rewritten at all.
fn walks_domain(call: &BoundCall) -> Option<Vec<Expr>> {
    match call.prim {
        Prim::Unary(_) | Prim::Binary(_) | Prim::Where | Prim::Astype | Prim::Reinterpret => {}
        Prim::Reduce(_) if call.bool("keepdims") => {}
        Prim::BroadcastTo => {}
        Prim::Matmul => return Some(vec![call.operand("a")?.clone()]),
        _ => return None,
    }
    Some(call.operands().into_iter().cloned().collect())
}

fn collapse(func: &Func, info: &FuncInfo) -> Option<(Func, Collapsed)> {
    let shape_of = |name: &Name| info.vars.get(name)?.as_tensor()?.shape.clone();
    let mut calls: Vec<(Name, BoundCall)> = Vec::new();
    let mut domain: Vec<Dim> = Vec::new();
    let mut matrix: Option<Name> = None;
    for stmt in &func.body {
        let StmtKind::Assign { target, value, .. } = &stmt.kind else {
            continue;
        };
        let prim = Prim::find(&value.as_call()?.0)?;
        let call = prim::bind(prim, value).ok()?;
        let name = target.as_name()?.clone();
        let walked = match prim {
            Prim::Reduce(_) => shape_of(call.operand("x")?.as_name()?)?,
            _ => shape_of(&name)?,
        };
        if prim == Prim::Matmul {
            let b = call.operand("b")?.as_name()?.clone();
            if shape_of(&b)?.len() != 2 || matrix.replace(b).is_some() {
                return None;
            }
        }
        if walked.len() > domain.len()
            || (walked.len() == domain.len() && is_wider(&walked, &domain))
        {
            domain = walked;
        }
        calls.push((name, call));
    }
    let rank = domain.len();
    if rank < 2 {
        return None;
    }
    let mut merged = vec![true; rank];
    merged[0] = false;
    if matrix.is_some() {
        // The last axis of the operand is summed over and that of the result is another.
        merged[rank - 1] = false;
    }
    for (name, call) in &calls {
        let operands = walks_domain(call)?;
        if matches!(call.prim, Prim::Reduce(_)) && long_axes(call, &domain).is_empty() {
            return None;
        }
        let names = operands.iter().filter_map(Expr::as_name).chain([name]);
        for tensor in names {
            let shape = shape_of(tensor)?;
            if shape.len() > rank {
                return None;
            }
            let is_left_operand = call.prim == Prim::Matmul && tensor != name;
            forbid(&mut merged, &domain, &shape, is_left_operand)?;
        }
    }
    if !merged.contains(&true) {
        return None;
    }
    let plan = Plan { domain, merged };
    Some(rewrite(func, info, &plan, matrix.as_ref()))
}

/// Whether a shape has more whole axes: an extent where the other has 1.
fn is_wider(a: &[Dim], b: &[Dim]) -> bool {
    a.iter()
        .zip(b)
        .any(|(a, b)| a.as_int() != Some(1) && b.as_int() == Some(1))
}

/// Keeps axes apart that a tensor does not walk together. `None` for a tensor that is no part of the domain.
fn forbid(merged: &mut [bool], domain: &[Dim], shape: &[Dim], is_left_operand: bool) -> Option<()> {
    let rank = domain.len();
    let skip = rank - shape.len();
    // Whether the tensor walks an axis or repeats along it; an axis of extent 1 goes with the one before it.
    let mut walks: Vec<Option<bool>> = Vec::with_capacity(rank);
    for (axis, walked) in domain.iter().enumerate() {
        let extent = axis.checked_sub(skip).map(|at| &shape[at]);
        let state = if is_left_operand && axis == rank - 1 {
            Some(true)
        } else if walked.as_int() == Some(1) {
            walks.last().copied().flatten()
        } else if extent == Some(walked) {
            Some(true)
        } else if extent.is_none_or(|extent| extent.as_int() == Some(1)) {
            Some(false)
        } else {
            return None;
        };
        walks.push(state);
    }
    for axis in 1..rank {
        if walks[axis - 1].is_some() && walks[axis] != walks[axis - 1] {
            merged[axis] = false;
        }
    }
    Some(())
}

fn rewrite(func: &Func, info: &FuncInfo, plan: &Plan, matrix: Option<&Name>) -> (Func, Collapsed) {
    let mut new = func.clone();
    let shape_of = |name: &Name| -> Vec<Dim> {
        let shape = info
            .vars
            .get(name)
            .and_then(Type::as_known_tensor)
            .map(|(_, shape)| shape.to_vec());
        let shape = shape.unwrap_or_default();
        if Some(name) == matrix {
            shape
        } else {
            plan.shape(&shape)
        }
    };
    let retype = |name: &Name| {
        let dtype = info
            .vars
            .get(name)
            .and_then(Type::as_tensor)
            .and_then(|tensor| tensor.dtype);
        dtype.map(|dtype| type_to_expr(&Type::tensor(dtype, shape_of(name))))
    };
    for param in &mut new.params {
        param.ty = retype(&param.name).or(param.ty.take());
    }
    for stmt in &mut new.body {
        let StmtKind::Assign { target, value, .. } = &mut stmt.kind else {
            continue;
        };
        let Some(name) = target.as_name() else {
            continue;
        };
        rewrite_call(value, &shape_of(name), plan);
    }
    let names: Vec<Name> = returned(&new.body)
        .into_iter()
        .filter_map(|value| value.as_name().cloned())
        .collect();
    let types: Vec<Expr> = names.iter().filter_map(retype).collect();
    new.ret = match types.as_slice() {
        [one] => Some(one.clone()),
        _ => Some(Expr::call("R.Tuple", types)),
    };
    let is_tensor = |name: &Name| {
        info.vars
            .get(name)
            .and_then(Type::as_known_tensor)
            .is_some()
    };
    let params = func
        .params
        .iter()
        .map(|param| is_tensor(&param.name).then(|| shape_of(&param.name)))
        .collect();
    let symbols = super::graph::bind_free_symbols(&mut new);
    let results = names.iter().map(shape_of).collect();
    (
        new,
        Collapsed {
            params,
            symbols,
            results,
        },
    )
}

/// Attributes that speak of shapes and axes.
fn rewrite_call(value: &mut Expr, shape: &[Dim], plan: &Plan) {
    let Some(prim) = value.as_call().and_then(|(path, _)| Prim::find(&path)) else {
        return;
    };
    let Ok(call) = prim::bind(prim, value) else {
        return;
    };
    match prim {
        Prim::BroadcastTo => {
            let Some(x) = call.operand("x").cloned() else {
                return;
            };
            let dims = Expr::list(shape.iter().map(Dim::to_expr));
            *value =
                Expr::call("R.broadcast_to", [x, Expr::call("R.shape", [dims])]).at(value.span);
        }
        Prim::Reduce(_) => {
            let Some(x) = call.operand("x").cloned() else {
                return;
            };
            let mut axes: Vec<usize> = long_axes(&call, &plan.domain)
                .into_iter()
                .map(|axis| plan.axis(axis))
                .collect();
            axes.sort_unstable();
            axes.dedup();
            let axes = Expr::list(axes.into_iter().map(|axis| Expr::int(axis as i128)));
            *value = Expr::call(prim.name(), [x])
                .with("axis", axes)
                .with("keepdims", Expr::bool(true))
                .at(value.span);
        }
        _ => {}
    }
}

/// The axes of a reduction, but for those of extent 1: these may have merged with axes that are not reduced.
fn long_axes(call: &BoundCall, domain: &[Dim]) -> Vec<usize> {
    let rank = domain.len();
    let axes: Vec<usize> = match call.opt_ints("axis") {
        Some(axes) => axes
            .iter()
            .map(|&axis| if axis < 0 { axis + rank as i64 } else { axis })
            .filter_map(|axis| usize::try_from(axis).ok())
            .collect(),
        None => (0..rank).collect(),
    };
    let is_long = |axis: &usize| {
        domain
            .get(*axis)
            .is_some_and(|extent| extent.as_int() != Some(1))
    };
    axes.into_iter().filter(is_long).collect()
}

fn reshape(value: &Expr, shape: &[Dim]) -> Expr {
    let dims = Expr::list(shape.iter().map(Dim::to_expr));
    Expr::call("R.reshape", [value.clone(), Expr::call("R.shape", [dims])])
}

/// Views around the calls of collapsed functions.
fn rewrite_calls(
    stmts: Vec<Stmt>,
    info: &FuncInfo,
    collapsed: &BTreeMap<Name, Collapsed>,
    names: &mut NameSupply,
) -> Vec<Stmt> {
    let mut out = Vec::with_capacity(stmts.len());
    for mut stmt in stmts {
        if let StmtKind::If { then, orelse, .. } = &mut stmt.kind {
            *then = rewrite_calls(std::mem::take(then), info, collapsed, names);
            *orelse = rewrite_calls(std::mem::take(orelse), info, collapsed, names);
        }
        let StmtKind::Assign { target, value, .. } = &mut stmt.kind else {
            out.push(stmt);
            continue;
        };
        let callee = value
            .as_call()
            .and_then(|(path, _)| collapsed.get(path.strip_prefix("cls.")?));
        let Some(callee) = callee else {
            out.push(stmt);
            continue;
        };
        let shape_of = |name: &Name| {
            info.vars
                .get(name)
                .and_then(Type::as_known_tensor)
                .map(|(_, shape)| shape)
        };
        for (arg, shape) in super::graph::args_mut(value).iter_mut().zip(&callee.params) {
            let (Some(name), Some(shape)) = (arg.value.as_name().cloned(), shape) else {
                continue;
            };
            if shape_of(&name) != Some(shape.as_slice()) {
                let view = names.fresh(&format!("{name}_view"));
                out.push(Stmt::bind(&view, reshape(&arg.value, shape)).at(stmt.span));
                arg.value = Expr::name(view);
            }
        }
        if let ExprKind::Call { args, .. } = &mut value.kind {
            let symbols = callee.symbols.iter().map(Expr::name);
            args.extend(symbols.map(|value| irc_syntax::Arg { name: None, value }));
        }
        let results = bound_names(target);
        let mut views = Vec::new();
        let mut fresh: Vec<Name> = Vec::new();
        for (name, shape) in results.iter().zip(&callee.results) {
            let own = shape_of(name).map(<[Dim]>::to_vec).unwrap_or_default();
            if own == *shape {
                fresh.push(name.clone());
                continue;
            }
            let flat = names.fresh(&format!("{name}_flat"));
            views.push(Stmt::bind(name, reshape(&Expr::name(&flat), &own)).at(stmt.span));
            fresh.push(flat);
        }
        *target = match fresh.as_slice() {
            [one] => Expr::name(one),
            many => Expr::new(ExprKind::Tuple {
                items: many.iter().map(Expr::name).collect(),
                parens: true,
            }),
        };
        out.push(stmt);
        out.extend(views);
    }
    out
}

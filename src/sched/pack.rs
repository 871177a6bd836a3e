//! Schedules every prim_func of a module, and packs the weights that tiles read in panels.
//!
//!     y = R.call_tir(cls.matmul, (x, w), …)      →      y = R.call_tir(cls.matmul, (x, w_packed), …)
//!
//! A weight is packed when every call of the function passes one; the packed tensor is a new weight, and the old one goes
//! when nothing reads it any more. Functions that are called with different things keep their weights as they are. What a
//! loop hands to its body is followed: the call of the loop then hands the packed weight.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::mentioned;
use irc_syntax::visit::{walk_expr, walk_expr_mut, walk_func, walk_func_mut};
use irc_syntax::{Expr, ExprKind, Func, FuncKind, Module, Name, Param, Visit, VisitMut};

use super::Target;
use super::auto::schedule_func;
use super::build::ceil_div;
use super::by_hand::SCHEDULED;
use super::nest::buffers_of;
use super::packing::Packing;
use super::panels::pack;
use super::turns::{called_in_loops, note_turns};
use crate::check::stage::Level;
use crate::opt::graph::{CAPTURED, bodies_first, items_mut, loop_call};
use crate::opt::{Changed, Pass, PassCx};
use crate::target::Cpu;
use crate::tensor::Weights;

/// The pass.
pub const PASS: Pass = Pass {
    name: "schedule",
    run,
    from: Level::Loops,
    to: Level::Scheduled,
    summary: "tile, vectorize and parallelize loops",
    args: &[],
};

/// Runs the pass on every prim_func. Instruction sets that the kernel emitter has no code for keep block form.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let target = match cx.target.cpu {
        Cpu::Portable | Cpu::V2 => return Changed::No,
        Cpu::V3 => Target::AVX2,
        Cpu::V4 => Target::AVX512,
    };
    let target = Target {
        exact: cx.target.exact,
        ..target
    };
    let inputs: BTreeMap<Name, usize> = cx
        .info
        .funcs
        .iter()
        .map(|(name, info)| (name.clone(), info.num_input))
        .collect();
    let num_input = |func: &Func| inputs.get(&func.name).copied().unwrap_or(func.params.len());
    Changed::from(schedule(module, cx.weights, &num_input, target))
}

/// Schedules and packs; gives whether anything changed.
fn schedule(
    module: &mut Module,
    weights: &mut Weights,
    num_input: &dyn Fn(&Func) -> usize,
    target: Target,
) -> bool {
    let constant = constant_params(module, weights, num_input);
    let mut packings: BTreeMap<Name, Vec<(usize, Packing)>> = BTreeMap::new();
    let mut changed = false;
    let in_loops = called_in_loops(module);
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Loops)
    {
        if func.attr(SCHEDULED).is_some() {
            continue;
        }
        let before = func.body.clone();
        let packable = constant.params.get(&func.name).cloned().unwrap_or_default();
        let buffers = buffers_of(func);
        let made = schedule_func(func, &packable, target);
        if in_loops.contains(&func.name) {
            note_turns(func, &made, &buffers);
        }
        changed |= before != func.body;
        for packing in made {
            let at = func
                .params
                .iter()
                .position(|param| param.name == packing.param);
            if let Some(at) = at.filter(|&at| retype(func, at, &packing).is_some()) {
                packings
                    .entry(func.name.clone())
                    .or_default()
                    .push((at, packing));
            }
        }
    }
    let mut bodies = BTreeMap::new();
    let mut shared = BTreeMap::new();
    // Bodies before the functions that run them.
    for name in constant.order.iter().rev().filter(|_| !packings.is_empty()) {
        if let Some(func) = module.funcs_mut().find(|func| func.name == *name) {
            let fixed = num_input(func);
            let body = repack_calls(func, weights, &packings, &bodies, &mut shared, fixed);
            bodies.insert(name.clone(), body);
        }
    }
    // Functions may share a weight, so it goes when the last of them is done without it.
    let replaced: BTreeSet<Name> = shared.into_keys().map(|(name, _)| name).collect();
    let public = module
        .funcs()
        .filter(|func| func.kind == FuncKind::Graph && !func.is_private());
    let kept: BTreeSet<&Name> = public
        .flat_map(|func| func.params.iter().map(|param| &param.name))
        .collect();
    weights.retain(|name| {
        let name = Name::from(name);
        !replaced.contains(&name) || kept.contains(&name)
    });
    changed
}

/// Gives a parameter the type of its packed form.
pub(super) fn retype(func: &mut Func, at: usize, packing: &Packing) -> Option<()> {
    let ty = func.params.get(at)?.ty.clone()?;
    let args: Vec<&Expr> = ty.positional().collect();
    let shape = packed_extents(args.first()?.as_items()?, packing)?;
    let dtype = args
        .get(1)
        .copied()
        .cloned()
        .unwrap_or_else(|| Expr::str("float32"));
    func.params.get_mut(at)?.ty = Some(Expr::call("T.Buffer", [Expr::tuple(shape), dtype]));
    Some(())
}

/// For each prim_func the parameters that may be packed.
pub(super) fn weight_params(module: &Module, cx: &PassCx) -> BTreeMap<Name, BTreeSet<Name>> {
    constant_params(module, cx.weights, &|func| cx.info.num_input(func)).params
}

/// What is constant: for each prim_func the parameters that every call passes a weight for, and the functions of the graph
/// level, each after those that call it.
struct Constant {
    params: BTreeMap<Name, BTreeSet<Name>>,
    order: Vec<Name>,
}

/// Follows the weights of public functions into calls of prim_funcs, through what loops hand to their bodies.
fn constant_params(
    module: &Module,
    weights: &Weights,
    num_input: &dyn Fn(&Func) -> usize,
) -> Constant {
    let mut order = bodies_first(module);
    order.reverse();
    let mut calls = Calls {
        module,
        own: BTreeSet::new(),
        open: BTreeMap::new(),
        seen: BTreeSet::new(),
    };
    for func in order.iter().filter_map(|name| module.find_func(name)) {
        let own = func
            .params
            .iter()
            .map(|param| param.name.clone())
            .enumerate();
        let open = calls.open.get(&func.name);
        calls.own = match func.is_private() {
            true => own
                .filter(|(at, _)| {
                    calls.seen.contains(&func.name) && open.is_none_or(|open| !open.contains(at))
                })
                .map(|(_, name)| name)
                .collect(),
            false => own
                .skip(num_input(func))
                .map(|(_, name)| name)
                .filter(|name| weights.get(name).is_some())
                .collect(),
        };
        walk_func(&mut calls, func);
    }
    let Calls { open, seen, .. } = calls;
    let params = seen
        .into_iter()
        .filter_map(|name| {
            let func = module.find_func(&name)?;
            let open = open.get(&name)?;
            let params = func
                .params
                .iter()
                .enumerate()
                .filter(|(at, _)| !open.contains(at));
            Some((name, params.map(|(_, param)| param.name.clone()).collect()))
        })
        .collect();
    Constant { params, order }
}

/// Calls and loops of a function: which parameters of what they call are not constant.
struct Calls<'a> {
    module: &'a Module,
    own: BTreeSet<Name>,
    open: BTreeMap<Name, BTreeSet<usize>>,
    seen: BTreeSet<Name>,
}

impl Calls<'_> {
    /// A call that passes values for the parameters from `first` on; the others are not constant.
    fn pass(&mut self, callee: Name, first: usize, values: &[Expr]) {
        let Some(func) = self.module.find_func(&callee) else {
            return;
        };
        self.seen.insert(callee.clone());
        let open = self.open.entry(callee).or_default();
        for at in 0..func.params.len() {
            let value = at.checked_sub(first).and_then(|at| values.get(at));
            let is_weight = value
                .and_then(Expr::as_name)
                .is_some_and(|name| self.own.contains(name));
            if !is_weight {
                open.insert(at);
            }
        }
    }
}

impl Visit for Calls<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        if let Some((callee, args)) = call_tir(expr) {
            self.pass(callee, 0, args);
        } else if let Some(call) = loop_call(expr) {
            self.pass(call.body, call.first, call.captured);
        } else if let Some((path, _)) = expr.as_call()
            && let Some(name) = path.strip_prefix("cls.")
        {
            self.pass(Name::from(name), 0, &[]);
        }
        walk_expr(self, expr);
    }
}

/// The callee and the tensors of `R.call_tir(cls.f, (a, b), …)`.
pub(super) fn call_tir(expr: &Expr) -> Option<(Name, &[Expr])> {
    let (path, args) = expr.as_call()?;
    if path != "R.call_tir" {
        return None;
    }
    let [callee, tensors, ..] = args else {
        return None;
    };
    let name = callee.value.as_path()?;
    Some((
        Name::from(name.strip_prefix("cls.")?),
        tensors.value.as_items()?,
    ))
}

/// What became of a loop body's captured values.
#[derive(Default)]
struct Recaptured {
    /// The parameters that are gone.
    gone: BTreeSet<usize>,
    /// New ones at the end: which parameter's value they are, and how packed.
    packed: Vec<(usize, Packing)>,
}

/// Passes packed weights to prim_funcs and loop bodies. The bodies that `func` runs are done already.
fn repack_calls(
    func: &mut Func,
    weights: &mut Weights,
    packings: &BTreeMap<Name, Vec<(usize, Packing)>>,
    bodies: &BTreeMap<Name, Recaptured>,
    shared: &mut BTreeMap<(Name, String), Name>,
    num_input: usize,
) -> Recaptured {
    let mut names = NameSupply::of_func(func);
    let own = names.clone();
    for (name, _) in weights.iter() {
        names.take(&Name::from(name));
    }
    let mut repack = Repack {
        packings,
        bodies,
        is_body: func.is_private(),
        params: func.params.clone(),
        weights,
        names,
        own,
        shared,
        made: BTreeMap::new(),
        added: Vec::new(),
        packed: Vec::new(),
    };
    walk_func_mut(&mut repack, func);
    let Repack {
        made,
        added,
        packed,
        ..
    } = repack;
    func.params.extend(added);
    let replaced: BTreeSet<Name> = made.into_keys().map(|(name, _)| name).collect();
    let used = mentioned(&func.body);
    let fixed = if func.is_private() { 0 } else { num_input };
    let (mut at, mut gone) = (0, BTreeSet::new());
    func.params.retain(|param| {
        let goes = at >= fixed && replaced.contains(&param.name) && !used.contains(&param.name);
        gone.extend(goes.then_some(at));
        at += 1;
        !goes
    });
    Recaptured { gone, packed }
}

struct Repack<'a> {
    packings: &'a BTreeMap<Name, Vec<(usize, Packing)>>,
    bodies: &'a BTreeMap<Name, Recaptured>,
    /// Whether weights are parameters that the caller packs.
    is_body: bool,
    params: Vec<Param>,
    weights: &'a mut Weights,
    names: NameSupply,
    /// The names of the function before.
    own: NameSupply,
    /// What other functions have packed already.
    shared: &'a mut BTreeMap<(Name, String), Name>,
    /// The packed form of a weight, by how it is packed.
    made: BTreeMap<(Name, String), Name>,
    added: Vec<Param>,
    packed: Vec<(usize, Packing)>,
}

impl VisitMut for Repack<'_> {
    fn visit_expr(&mut self, expr: &mut Expr) {
        walk_expr_mut(self, expr);
        self.recapture(expr);
        let Some(packings) = call_tir(expr).and_then(|(callee, _)| self.packings.get(&callee))
        else {
            return;
        };
        let Some(items) = items_mut(expr, 1) else {
            return;
        };
        for (at, packing) in packings {
            if let Some(name) = items.get(*at).and_then(Expr::as_name).cloned()
                && let Some(packed) = self.packed(&name, packing)
                && let Some(place) = items.get_mut(*at)
            {
                *place = Expr::name(packed);
            }
        }
    }
}

impl Repack<'_> {
    /// Hands to a loop's body what it takes now.
    fn recapture(&mut self, expr: &mut Expr) {
        let Some(call) = loop_call(expr) else {
            return;
        };
        let (first, bodies) = (call.first, self.bodies);
        let Some(body) = bodies.get(&call.body) else {
            return;
        };
        let Some(items) = items_mut(expr, CAPTURED) else {
            return;
        };
        let mut kept: Vec<Expr> = Vec::new();
        for (at, item) in items.iter().enumerate() {
            if !body.gone.contains(&(first + at)) {
                kept.push(item.clone());
            }
        }
        for (at, packing) in &body.packed {
            let name = at
                .checked_sub(first)
                .and_then(|at| items.get(at))
                .and_then(Expr::as_name);
            let packed = name.cloned().and_then(|name| self.packed(&name, packing));
            kept.extend(packed.map(Expr::name));
        }
        *items = kept;
    }

    /// The packed form of a weight, made when it is first asked for.
    fn packed(&mut self, name: &Name, packing: &Packing) -> Option<Name> {
        let how = format!(
            "{:?} {} {} {:?}",
            packing.axes, packing.lanes, packing.pairs, packing.winograd
        );
        let key = (name.clone(), how);
        if let Some(done) = self.made.get(&key) {
            return Some(done.clone());
        }
        let shared = self.shared.get(&key).filter(|shared| {
            let (is_own, is_taken) = (!self.is_body, self.own.is_taken(shared.as_str()));
            is_own && !is_taken
        });
        let fresh = match shared {
            Some(shared) => shared.clone(),
            None => self.names.fresh(&format!("{name}_packed")),
        };
        let ty = if self.is_body {
            let at = self.params.iter().position(|param| param.name == *name)?;
            let ty = packed_type(self.params[at].ty.as_ref()?, packing)?;
            self.packed.push((at, packing.clone()));
            ty
        } else {
            if self.weights.get(&fresh).is_none() {
                let weight = pack(self.weights.get(name)?, packing)?;
                self.weights.insert(fresh.as_str(), weight);
            }
            let weight = self.weights.get(&fresh)?;
            let dims = weight.shape.iter().map(|&extent| Expr::int(extent as i128));
            self.shared.insert(key.clone(), fresh.clone());
            Expr::call("R.Tensor", [Expr::tuple(dims)])
                .with("dtype", Expr::str(weight.dtype.name()))
        };
        self.added.push(Param::new(&fresh, ty));
        self.made.insert(key, fresh.clone());
        Some(fresh)
    }
}

/// The type of a packed tensor.
fn packed_type(ty: &Expr, packing: &Packing) -> Option<Expr> {
    let mut new = ty.clone();
    let shape = packed_extents(ty.positional().next()?.as_items()?, packing)?;
    let ExprKind::Call { args, .. } = &mut new.kind else {
        return None;
    };
    args.first_mut()?.value = Expr::tuple(shape);
    Some(new)
}

/// The extents of a packed weight's buffer, as text.
fn packed_extents(shape: &[Expr], packing: &Packing) -> Option<Vec<Expr>> {
    let (panel, rest) = packing.axes.split_first()?;
    let mut res = vec![ceil_div(shape.get(*panel)?, packing.lanes)];
    if let Some(m) = packing.winograd {
        let places = i64::try_from((m + 2) * (m + 2)).ok()?;
        res.extend([Expr::int(places), shape.get(*rest.last()?)?.clone()]);
    } else {
        for axis in rest {
            res.push(shape.get(*axis)?.clone());
        }
    }
    if packing.pairs {
        let depth = res.pop()?;
        res.push(ceil_div(&depth, 2));
    }
    res.push(Expr::int(packing.lanes));
    res.extend(packing.pairs.then(|| Expr::int(2)));
    Some(res)
}

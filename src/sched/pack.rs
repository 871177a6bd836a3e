//! Schedules every prim_func of a module, and packs the weights that tiles read in panels.
//!
//!     y = R.call_tir(cls.matmul, (x, w), …)      →      y = R.call_tir(cls.matmul, (x, w_packed), …)
//!
//! A weight is packed when every call of the function passes one; the packed tensor is a new weight, and the old one goes
//! when nothing reads it any more. Functions that are called with different things keep their weights as they are.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::mentioned;
use irc_syntax::visit::{walk_expr, walk_expr_mut, walk_func, walk_func_mut};
use irc_syntax::{
    DType, Expr, ExprKind, Func, FuncKind, Item, Module, Name, Param, Visit, VisitMut,
};

use super::Target;
use super::auto::schedule_func;
use super::tile::{Packing, packed_extents, packed_shape};
use crate::check::stage::Level;
use crate::opt::{Changed, Pass, PassCx};
use crate::target::Cpu;
use crate::tensor::{Tensor, Weights};

/// The pass.
pub const PASS: Pass = Pass {
    name: "schedule",
    run,
    from: Level::Loops,
    to: Level::Scheduled,
    summary: "tile, vectorize and parallelize loops",
};

/// Runs the pass on every prim_func. Instruction sets that the kernel emitter has no code for keep block form.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let target = match cx.target.cpu {
        Cpu::Portable | Cpu::V2 => return Changed::No,
        Cpu::V3 => Target::AVX2,
        Cpu::V4 => Target::AVX512,
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
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Loops)
    {
        let before = func.body.clone();
        let packable = constant.get(&func.name).cloned().unwrap_or_default();
        let made = schedule_func(func, &packable, target);
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
    if !packings.is_empty() {
        for item in &mut module.items {
            if let Item::Func(func) = item
                && func.kind == FuncKind::Graph
            {
                repack_calls(func, weights, &packings, num_input(func));
            }
        }
    }
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
    constant_params(module, cx.weights, &|func| num_input(func, cx))
}

fn num_input(func: &Func, cx: &PassCx) -> usize {
    let info = cx.info.funcs.get(&func.name);
    info.map_or(func.params.len(), |info| info.num_input)
}

/// For each prim_func the parameters that every call passes a weight for, and passes once.
fn constant_params(
    module: &Module,
    weights: &Weights,
    num_input: &dyn Fn(&Func) -> usize,
) -> BTreeMap<Name, BTreeSet<Name>> {
    struct Calls<'a> {
        module: &'a Module,
        own: BTreeSet<Name>,
        open: BTreeMap<Name, BTreeSet<usize>>,
        seen: BTreeSet<Name>,
    }
    impl Visit for Calls<'_> {
        fn visit_expr(&mut self, expr: &Expr) {
            if let Some((callee, args)) = call_tir(expr)
                && let Some(func) = self.module.find_func(&callee)
            {
                self.seen.insert(callee.clone());
                let open = self.open.entry(callee).or_default();
                for at in 0..func.params.len() {
                    let is_weight = args
                        .get(at)
                        .and_then(Expr::as_name)
                        .is_some_and(|name| self.own.contains(name));
                    if !is_weight {
                        open.insert(at);
                    }
                }
            }
            walk_expr(self, expr);
        }
    }
    let mut calls = Calls {
        module,
        own: BTreeSet::new(),
        open: BTreeMap::new(),
        seen: BTreeSet::new(),
    };
    for func in module.funcs().filter(|func| func.kind == FuncKind::Graph) {
        let own = func
            .params
            .iter()
            .skip(num_input(func))
            .map(|param| param.name.clone());
        calls.own = own
            .filter(|name| !func.is_private() && weights.get(name).is_some())
            .collect();
        walk_func(&mut calls, func);
    }
    let Calls { open, seen, .. } = calls;
    seen.into_iter()
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
        .collect()
}

/// The callee and the tensors of `R.call_tir(cls.f, (a, b), …)`.
fn call_tir(expr: &Expr) -> Option<(Name, &[Expr])> {
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

fn repack_calls(
    func: &mut Func,
    weights: &mut Weights,
    packings: &BTreeMap<Name, Vec<(usize, Packing)>>,
    num_input: usize,
) {
    let mut names = NameSupply::of_func(func);
    for (name, _) in weights.iter() {
        names.take(&Name::from(name));
    }
    let mut repack = Repack {
        packings,
        weights,
        names,
        made: BTreeMap::new(),
        added: Vec::new(),
    };
    walk_func_mut(&mut repack, func);
    let Repack { made, added, .. } = repack;
    func.params.extend(added);
    let replaced: BTreeSet<Name> = made.into_keys().map(|(name, _)| name).collect();
    let used = mentioned(&func.body);
    let mut at = 0;
    func.params.retain(|param| {
        at += 1;
        let gone = at > num_input && replaced.contains(&param.name) && !used.contains(&param.name);
        !gone
    });
    weights.retain(|name| !replaced.contains(name) || used.contains(name));
}

struct Repack<'a> {
    packings: &'a BTreeMap<Name, Vec<(usize, Packing)>>,
    weights: &'a mut Weights,
    names: NameSupply,
    /// The packed form of a weight, by how it is packed.
    made: BTreeMap<(Name, String), Name>,
    added: Vec<Param>,
}

impl VisitMut for Repack<'_> {
    fn visit_expr(&mut self, expr: &mut Expr) {
        walk_expr_mut(self, expr);
        let Some(packings) = call_tir(expr).and_then(|(callee, _)| self.packings.get(&callee))
        else {
            return;
        };
        let ExprKind::Call { args, .. } = &mut expr.kind else {
            return;
        };
        let Some(tensors) = args.get_mut(1) else {
            return;
        };
        let (ExprKind::Tuple { items, .. } | ExprKind::List(items)) = &mut tensors.value.kind
        else {
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
    /// The packed form of a weight, made when it is first asked for.
    fn packed(&mut self, name: &Name, packing: &Packing) -> Option<Name> {
        let how = format!("{:?} {}", packing.axes, packing.lanes);
        if let Some(done) = self.made.get(&(name.clone(), how.clone())) {
            return Some(done.clone());
        }
        let tensor = pack(&self.weights.get(name)?.tensor(), packing)?;
        let fresh = self.names.fresh(&format!("{name}_packed"));
        let dims = tensor.shape.iter().map(|&extent| Expr::int(extent as i128));
        let ty = Expr::call("R.Tensor", [Expr::tuple(dims)])
            .with("dtype", Expr::str(tensor.dtype.name()));
        self.added.push(Param::new(&fresh, ty));
        self.weights.insert(fresh.as_str(), tensor);
        self.made.insert((name.clone(), how), fresh.clone());
        Some(fresh)
    }
}

/// Rearranges a weight into panels, filled up with zeros.
pub(super) fn pack(tensor: &Tensor, packing: &Packing) -> Option<Tensor> {
    let shape = packed_shape(&tensor.shape, packing)?;
    if tensor.dtype == DType::Str {
        return None;
    }
    let size = tensor.dtype.bytes();
    let lanes = usize::try_from(packing.lanes).ok()?;
    let (panel, rest) = packing.axes.split_first()?;
    let mut strides = vec![1usize; tensor.shape.len()];
    for at in (1..strides.len()).rev() {
        strides[at - 1] = strides[at] * tensor.shape[at];
    }
    let columns = *tensor.shape.get(*panel)?;
    let depth: usize = rest.iter().map(|&axis| tensor.shape[axis]).product();
    // Where each place of the reduction begins in the original.
    let mut offsets = vec![0usize; depth];
    for (at, offset) in offsets.iter_mut().enumerate() {
        let mut place = at;
        for &axis in rest.iter().rev() {
            *offset += place % tensor.shape[axis] * strides[axis];
            place /= tensor.shape[axis];
        }
    }
    let step = strides[*panel];
    let mut data = vec![0u8; shape.iter().product::<usize>() * size];
    for first in (0..columns).step_by(lanes) {
        let width = lanes.min(columns - first);
        for (at, offset) in offsets.iter().enumerate() {
            let to = ((first / lanes * depth + at) * lanes) * size;
            if step == 1 {
                let from = (offset + first) * size;
                data[to..to + width * size]
                    .copy_from_slice(&tensor.data[from..from + width * size]);
                continue;
            }
            for lane in 0..width {
                let from = (offset + (first + lane) * step) * size;
                let to = to + lane * size;
                data[to..to + size].copy_from_slice(&tensor.data[from..from + size]);
            }
        }
    }
    Tensor::new(tensor.dtype, shape, data)
}

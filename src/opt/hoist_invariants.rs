//! Computes before a loop what its body would compute alike in every iteration.
//!
//!     def body(i, h, w, x):                                   def body(i, h, x, v):
//!         v = R.permute_dims(w)                                   y = R.matmul(h, v)
//!         y = R.matmul(h, v)                           →          …
//!         …
//!     y = I.while_loop(cls.body, n, None, (h,), (w, x), …)    v = R.permute_dims(w)
//!                                                             y = I.while_loop(cls.body, n, None, (h,), (x, v), …)
//!
//! Moved is what depends on captured tensors only, cannot fail, and is not larger than what it was made from; what the body
//! then does not read is captured no more. Weights among them fold then (`fold_constants`) and are packed (`schedule`). Inner
//! loops come first, so that values leave all of them.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::{mentioned, names_read, substitute};
use irc_syntax::{Expr, Func, FuncKind, Module, Name, Param, Stmt, StmtKind};

use super::graph::{bodies_first, items_mut, loop_call};
use super::{Changed, Pass, PassCx};
use crate::check::prim::Prim;
use crate::check::stage::Level;
use crate::check::{Type, type_to_expr};

/// The pass.
pub const PASS: Pass = Pass {
    name: "hoist_invariants",
    run,
    from: Level::Normal,
    to: Level::Normal,
    summary: "compute before a loop what is the same in every iteration",
    args: &[],
};

/// Runs the pass on the body of every loop.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut types: BTreeMap<Name, BTreeMap<Name, Type>> = BTreeMap::new();
    for (name, info) in &cx.info.funcs {
        let tensors = info.vars.iter().filter(|(_, ty)| ty.as_tensor().is_some());
        let tensors = tensors.map(|(name, ty)| (name.clone(), ty.clone()));
        types.insert(name.clone(), tensors.collect());
    }
    let mut changed = false;
    for body in bodies_first(module) {
        let Some(first) = first_captured(module, &body) else {
            continue;
        };
        let known = types.get(&body).cloned().unwrap_or_default();
        let Some(func) = module.funcs_mut().find(|func| func.name == body) else {
            continue;
        };
        let Some(moved) = take_invariants(func, first, &known) else {
            continue;
        };
        changed = true;
        for func in module
            .funcs_mut()
            .filter(|func| func.kind == FuncKind::Graph)
        {
            let mut names = NameSupply::of_func(func);
            for (name, _) in cx.weights.iter() {
                names.take(&Name::from(name));
            }
            let mut site = Site {
                body: &body,
                moved: &moved,
                names,
                types: types.entry(func.name.clone()).or_default(),
            };
            site.block(&mut func.body);
        }
    }
    Changed::from(changed)
}

/// What leaves a loop's body.
struct Moved {
    /// The parameters of the body, and how many of them are not captured.
    params: Vec<Name>,
    first: usize,
    /// The bindings, in order.
    bindings: Vec<(Name, Expr)>,
    /// Those that the body goes on reading, with their types.
    captured: Vec<(Name, Type)>,
    /// The parameters that the body does not read any more.
    gone: BTreeSet<usize>,
}

/// The parameter from which on a body's values are captured, where all that mentions it is calls of loops that agree.
fn first_captured(module: &Module, body: &Name) -> Option<usize> {
    let func = module.find_func(body).filter(|func| func.is_private())?;
    let path = format!("cls.{body}");
    let (mut found, mut agree) = (None, true);
    for caller in module.funcs() {
        irc_syntax::uses::for_each_expr(&caller.body, &mut |expr| {
            if let Some(call) = loop_call(expr).filter(|call| call.body == *body) {
                agree &= found.is_none_or(|first| first == call.first)
                    && call.first + call.captured.len() == func.params.len();
                found = Some(call.first);
            } else if expr.as_call().is_some_and(|(callee, args)| {
                let is_body = |expr: &Expr| expr.as_path().as_deref() == Some(&path);
                callee == path || args.iter().any(|arg| is_body(&arg.value))
            }) {
                agree = false;
            }
        });
    }
    found.filter(|_| agree)
}

/// Takes the bindings out of a body that depend on captured tensors only, and gives it those that it still reads.
fn take_invariants(func: &mut Func, first: usize, types: &BTreeMap<Name, Type>) -> Option<Moved> {
    let params: Vec<Name> = func.params.iter().map(|param| param.name.clone()).collect();
    let mut known: BTreeSet<Name> = params.iter().skip(first).cloned().collect();
    known.retain(|name| types.contains_key(name));
    let mut bindings: Vec<(Name, Expr)> = Vec::new();
    let mut is_work = false;
    let mut kept = Vec::with_capacity(func.body.len());
    for stmt in &func.body {
        if let StmtKind::Assign { target, value, .. } = &stmt.kind
            && let Some(name) = target.as_name()
            && is_invariant(name, value, &known, types)
        {
            is_work |= !value.is_call_of("R.reshape");
            known.insert(name.clone());
            bindings.push((name.clone(), value.clone()));
        } else {
            kept.push(stmt.clone());
        }
    }
    let read = mentioned(&kept);
    let captured: Vec<(Name, Type)> = bindings
        .iter()
        .filter(|(name, _)| read.contains(name))
        .filter_map(|(name, _)| Some((name.clone(), types.get(name)?.clone())))
        .collect();
    if !is_work || captured.is_empty() {
        return None;
    }
    func.body = kept;
    // A parameter with symbolic dims may be what binds them.
    let is_fixed = |name: &Name| types.get(name).is_some_and(is_fixed);
    let gone: BTreeSet<usize> = (first..params.len())
        .filter(|&at| !read.contains(&params[at]) && is_fixed(&params[at]))
        .collect();
    let mut at = 0;
    func.params.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
    for (name, ty) in &captured {
        func.params.push(Param::new(name, type_to_expr(ty)));
    }
    Some(Moved {
        params,
        first,
        bindings,
        captured,
        gone,
    })
}

/// Whether a type is that of a tensor whose dims are numbers.
fn is_fixed(ty: &Type) -> bool {
    let shape = ty.as_tensor().and_then(|ty| ty.shape.as_ref());
    shape.is_some_and(|shape| shape.iter().all(|dim| dim.as_int().is_some()))
}

/// Whether a binding is the same in every iteration, cannot fail, and is worth a tensor of its own.
fn is_invariant(
    name: &Name,
    value: &Expr,
    known: &BTreeSet<Name>,
    types: &BTreeMap<Name, Type>,
) -> bool {
    let Some(prim) = value.as_call().and_then(|(path, _)| Prim::find(&path)) else {
        return false;
    };
    let names = names_read(value);
    if names.is_empty() || !names.iter().all(|name| known.contains(name)) {
        return false;
    }
    let shape = |name: &Name| types.get(name)?.as_tensor()?.shape.clone();
    match prim {
        Prim::Unary(_) | Prim::Binary(_) | Prim::Where | Prim::Astype => {
            let own = shape(name);
            own.is_some() && names.iter().any(|name| shape(name) == own)
        }
        Prim::PermuteDims
        | Prim::Reshape
        | Prim::StridedSlice
        | Prim::Concat
        | Prim::Reduce(_)
        | Prim::Matmul
        | Prim::Conv(_)
        | Prim::ConvTranspose(_) => shape(name).is_some(),
        _ => false,
    }
}

/// A function that may run the loop.
struct Site<'a> {
    body: &'a Name,
    moved: &'a Moved,
    names: NameSupply,
    types: &'a mut BTreeMap<Name, Type>,
}

impl Site<'_> {
    fn block(&mut self, stmts: &mut Vec<Stmt>) {
        let mut out = Vec::with_capacity(stmts.len());
        for mut stmt in std::mem::take(stmts) {
            match &mut stmt.kind {
                StmtKind::If { then, orelse, .. } => {
                    self.block(then);
                    self.block(orelse);
                }
                StmtKind::Assign { value, .. } => out.extend(self.before(value)),
                _ => {}
            }
            out.push(stmt);
        }
        *stmts = out;
    }

    /// What goes in front of the loop; the loop captures it.
    fn before(&mut self, value: &mut Expr) -> Vec<Stmt> {
        let Some(call) = loop_call(value).filter(|call| call.body == *self.body) else {
            return Vec::new();
        };
        let moved = self.moved;
        let captured = moved.params.iter().skip(moved.first).cloned();
        let mut map: BTreeMap<Name, Expr> = captured.zip(call.captured.iter().cloned()).collect();
        let mut stmts = Vec::new();
        for (name, binding) in &moved.bindings {
            let mut binding = binding.clone();
            substitute(&mut binding, &map);
            let fresh = self.names.fresh(name.as_str());
            map.insert(name.clone(), Expr::name(&fresh));
            stmts.push(Stmt::bind(&fresh, binding));
            // Dims that are numbers mean the same here.
            let captured = moved.captured.iter().find(|(other, _)| other == name);
            if let Some((_, ty)) = captured.filter(|(_, ty)| is_fixed(ty)) {
                self.types.insert(fresh, ty.clone());
            }
        }
        if let Some(items) = items_mut(value, super::graph::CAPTURED) {
            let mut at = moved.first;
            items.retain(|_| {
                at += 1;
                !moved.gone.contains(&(at - 1))
            });
            let added = moved.captured.iter();
            items.extend(added.filter_map(|(name, _)| map.get(name).cloned()));
        }
        stmts
    }
}

//! Gives every tensor of a graph function its place: results to the caller, all others to shared storages.
//!
//!     y = R.call_tir(cls.f, (x,), out_ty=…)          storage = R.memory.alloc_storage(R.shape([256]), 0, "global", "uint8")
//!     z = R.call_tir(cls.g, (y,), out_ty=…)     →    y = R.memory.alloc_tensor(storage, 0, R.shape([64]), "float32")
//!     return z                                       cls.f(x, y)
//!                                                    z = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), 0)
//!                                                    cls.g(y, z)
//!                                                    return z
//!
//! A storage is free again after the last read of every tensor in it; views (`R.reshape`, aliases) count as reads of
//! what they show. A tensor takes the free storage that fits best: sizes are compared by proof, so a symbolic
//! one is shared where it is known to suffice, or grown where the new size is known to be the larger. Storages whose
//! size is known from the inputs are made at the head of the function. Blocks of `if` have storages of their own.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::bound_names;
use irc_syntax::{DType, Diagnostic, Expr, Func, FuncKind, Module, Name, Stmt, StmtKind};

use super::graph::{count_uses, kernel_views, returned};
use super::{Changed, Pass, PassCx};
use crate::check::stage::Level;
use crate::check::{FuncInfo, Type};
use crate::shape::Dim;

/// Kernels read and write whole vectors from aligned addresses.
const ALIGNMENT: i64 = 64;

/// The pass.
pub const PASS: Pass = Pass {
    name: "plan_memory",
    run,
    from: Level::Scheduled,
    to: Level::Planned,
    summary: "place every tensor",
};

/// Runs the pass on every graph function.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut changed = false;
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph)
    {
        let info = cx.info.funcs.get(&func.name).cloned().unwrap_or_default();
        match plan_func(func, &info) {
            Ok(planned) => changed |= planned,
            Err(diag) => cx.diags.push(diag),
        }
    }
    Changed::from(changed)
}

/// Bytes that tensors share in turn.
struct Storage {
    name: Name,
    bytes: Dim,
    /// Where the first tensor in it is made: position in the block, for storages that cannot be at the head.
    at: usize,
    free: bool,
}

struct Planner<'a> {
    info: &'a FuncInfo,
    names: NameSupply,
    /// Symbols that the signature binds.
    known: BTreeSet<Name>,
    head: Vec<Stmt>,
}

fn plan_func(func: &mut Func, info: &FuncInfo) -> Result<bool, Diagnostic> {
    let mut known = BTreeSet::new();
    for (_, ty) in &info.params {
        if let Some(shape) = ty.as_tensor().and_then(|tensor| tensor.shape.as_ref()) {
            known.extend(shape.iter().filter_map(Dim::as_sym).cloned());
        }
        if let Type::Shape(Some(dims)) = ty {
            known.extend(dims.iter().filter_map(Dim::as_sym).cloned());
        }
    }
    known.extend(
        info.params
            .iter()
            .filter(|(_, ty)| matches!(ty, Type::Scalar(_)))
            .map(|(name, _)| name.clone()),
    );
    let mut planner = Planner {
        info,
        names: NameSupply::of_func(func),
        known,
        head: Vec::new(),
    };
    let before = func.body.clone();
    let results: BTreeSet<Name> = returned(&func.body)
        .into_iter()
        .filter_map(|value| value.as_name().cloned())
        .collect();
    let body = std::mem::take(&mut func.body);
    let (start, body): (Vec<Stmt>, Vec<Stmt>) = split_head(body);
    let body = planner.block(body, &results)?;
    func.body = start;
    func.body.extend(planner.head);
    func.body.extend(body);
    Ok(func.body != before)
}

/// Attributes, symbols and `cls = Module` stay first.
fn split_head(body: Vec<Stmt>) -> (Vec<Stmt>, Vec<Stmt>) {
    let is_head = |stmt: &Stmt| match &stmt.kind {
        StmtKind::Expr(value) => value.is_call_of("R.func_attr"),
        StmtKind::Assign { target, value, .. } => {
            target.as_name().is_some_and(|name| *name == *"cls")
                || value.as_call().is_some_and(|(path, _)| path == "T.int64")
        }
        _ => false,
    };
    let at = body
        .iter()
        .position(|stmt| !is_head(stmt))
        .unwrap_or(body.len());
    let mut start = body;
    let rest = start.split_off(at);
    (start, rest)
}

impl Planner<'_> {
    fn block(
        &mut self,
        stmts: Vec<Stmt>,
        results: &BTreeSet<Name>,
    ) -> Result<Vec<Stmt>, Diagnostic> {
        let last_read = last_reads(&stmts);
        let shown = shown_results(&stmts, results);
        let mut storages: Vec<Storage> = Vec::new();
        let mut held: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut out: Vec<(usize, Stmt)> = Vec::new();
        for (at, stmt) in stmts.into_iter().enumerate() {
            match stmt.kind {
                StmtKind::If {
                    cond,
                    then,
                    orelse,
                    else_trivia,
                } => {
                    let then = self.block(then, &BTreeSet::new())?;
                    let orelse = self.block(orelse, &BTreeSet::new())?;
                    let kind = StmtKind::If {
                        cond,
                        then,
                        orelse,
                        else_trivia,
                    };
                    out.push((at, Stmt { kind, ..stmt }));
                }
                StmtKind::Assign {
                    ref target,
                    ref value,
                    ..
                } if value.is_call_of("R.call_tir") => {
                    let mut outs = Vec::new();
                    for name in bound_names(target) {
                        if let Some(result) = shown.get(&name) {
                            // The result is made first, and what the kernel writes is a view of it.
                            let alloc = self.result(result)?;
                            out.push((at, Stmt::bind(result, alloc).at(stmt.span)));
                            let (_, shape) = self.tensor(&name)?;
                            let view =
                                Expr::call("R.reshape", [Expr::name(result), shape_value(&shape)]);
                            out.push((at, Stmt::bind(&name, view).at(stmt.span)));
                            outs.push(Expr::name(&name));
                            continue;
                        }
                        let alloc = if results.contains(&name) {
                            self.result(&name)?
                        } else {
                            let until = last_read.get(&name).copied().unwrap_or(at);
                            let (storage, alloc) = self.place(&name, at, &mut storages)?;
                            held.entry(until).or_default().push(storage);
                            alloc
                        };
                        out.push((at, Stmt::bind(&name, alloc).at(stmt.span)));
                        outs.push(Expr::name(&name));
                    }
                    let call = direct_call(value, outs)?;
                    let mut effect = Stmt::expr(call).at(stmt.span);
                    effect.trivia = stmt.trivia.clone();
                    out.push((at, effect));
                }
                StmtKind::Assign { ref target, .. }
                    if target
                        .as_name()
                        .is_some_and(|name| shown.values().any(|result| result == name)) => {}
                _ => out.push((at, stmt)),
            }
            for storage in held.remove(&at).into_iter().flatten() {
                storages[storage].free = true;
            }
        }
        Ok(self.with_storages(storages, out))
    }

    /// Statements with the storages made where their sizes are first known.
    fn with_storages(&mut self, storages: Vec<Storage>, stmts: Vec<(usize, Stmt)>) -> Vec<Stmt> {
        let mut late: BTreeMap<usize, Vec<Stmt>> = BTreeMap::new();
        for storage in storages {
            let size = Expr::call("R.shape", [Expr::list([storage.bytes.to_expr()])]);
            let args = [size, Expr::int(0), Expr::str("global"), Expr::str("uint8")];
            let stmt = Stmt::bind(&storage.name, Expr::call("R.memory.alloc_storage", args));
            if storage
                .bytes
                .symbols()
                .iter()
                .all(|symbol| self.known.contains(symbol))
            {
                self.head.push(stmt);
            } else {
                late.entry(storage.at).or_default().push(stmt);
            }
        }
        let mut out = Vec::with_capacity(stmts.len());
        for (at, stmt) in stmts {
            out.extend(late.remove(&at).into_iter().flatten());
            out.push(stmt);
        }
        out
    }

    fn tensor(&self, name: &Name) -> Result<(DType, Vec<Dim>), Diagnostic> {
        let known = self.info.vars.get(name).and_then(Type::as_known_tensor);
        known
            .map(|(dtype, shape)| (dtype, shape.to_vec()))
            .ok_or_else(|| {
                Diagnostic::error(
                    "unknown-shape",
                    format!("the shape of `{name}` is not known, so it has no place"),
                )
            })
    }

    /// `R.builtin.alloc_tensor(R.shape([…]), R.dtype("float32"), 0)`.
    fn result(&self, name: &Name) -> Result<Expr, Diagnostic> {
        let (dtype, shape) = self.tensor(name)?;
        let dtype = Expr::call("R.dtype", [Expr::str(dtype.name())]);
        Ok(Expr::call(
            "R.builtin.alloc_tensor",
            [shape_value(&shape), dtype, Expr::int(0)],
        ))
    }

    /// A storage for a tensor, and `R.memory.alloc_tensor(storage, 0, R.shape([…]), "float32")`.
    fn place(
        &mut self,
        name: &Name,
        at: usize,
        storages: &mut Vec<Storage>,
    ) -> Result<(usize, Expr), Diagnostic> {
        let (dtype, shape) = self.tensor(name)?;
        let bytes = &shape.iter().product::<Dim>() * &Dim::int(dtype.bytes() as i64);
        let bytes = &bytes.ceil_div(&Dim::int(ALIGNMENT)) * &Dim::int(ALIGNMENT);
        let chosen = self.choose(&bytes, storages).unwrap_or_else(|| {
            let name = self.names.fresh("storage");
            storages.push(Storage {
                name,
                bytes: bytes.clone(),
                at,
                free: true,
            });
            storages.len() - 1
        });
        let storage = &mut storages[chosen];
        storage.free = false;
        if self.info.facts.prove_le(&bytes, &storage.bytes) != Some(true) {
            storage.bytes = bytes;
        }
        let place = Expr::name(&storage.name);
        let args = [
            place,
            Expr::int(0),
            shape_value(&shape),
            Expr::str(dtype.name()),
        ];
        Ok((chosen, Expr::call("R.memory.alloc_tensor", args)))
    }

    /// The free storage that fits best: the least that suffices, or else the greatest that may grow.
    fn choose(&self, bytes: &Dim, storages: &[Storage]) -> Option<usize> {
        let facts = &self.info.facts;
        let mut best: Option<(usize, bool)> = None;
        for (at, storage) in storages
            .iter()
            .enumerate()
            .filter(|(_, storage)| storage.free)
        {
            let suffices = facts.prove_le(bytes, &storage.bytes) == Some(true);
            let grows = facts.prove_le(&storage.bytes, bytes) == Some(true)
                && storage.bytes.symbols() == bytes.symbols();
            if !suffices && !grows {
                continue;
            }
            let better = match best {
                None => true,
                Some((old, old_suffices)) => match (old_suffices, suffices) {
                    (true, false) => false,
                    (false, true) => true,
                    (true, true) => {
                        facts.prove_lt(&storage.bytes, &storages[old].bytes) == Some(true)
                    }
                    (false, false) => {
                        facts.prove_lt(&storages[old].bytes, &storage.bytes) == Some(true)
                    }
                },
            };
            if better {
                best = Some((at, suffices));
            }
        }
        best.map(|(at, _)| at)
    }
}

fn shape_value(shape: &[Dim]) -> Expr {
    Expr::call("R.shape", [Expr::list(shape.iter().map(Dim::to_expr))])
}

/// Results that are views of what a kernel writes, by the name that the kernel writes; the first where there are several.
fn shown_results(stmts: &[Stmt], results: &BTreeSet<Name>) -> BTreeMap<Name, Name> {
    let views = kernel_views(stmts, |value| value.is_call_of("R.call_tir"), |_, _| true);
    let mut shown = BTreeMap::new();
    for stmt in stmts {
        if let StmtKind::Assign { target, .. } = &stmt.kind
            && let Some(name) = target.as_name().filter(|name| results.contains(*name))
            && let Some(root) = views.get(name).filter(|root| !results.contains(*root))
        {
            shown.entry(root.clone()).or_insert_with(|| name.clone());
        }
    }
    shown
}

/// `cls.f(a, b, out)` of `R.call_tir(cls.f, (a, b), …)`.
fn direct_call(value: &Expr, outs: Vec<Expr>) -> Result<Expr, Diagnostic> {
    let fault = || {
        Diagnostic::error("bad-call", "`R.call_tir` takes a function and a tuple")
            .at(value.span, "here")
    };
    let mut args = value.positional();
    let callee = args.next().and_then(Expr::as_path).ok_or_else(fault)?;
    let inputs = match args.next() {
        Some(inputs) => inputs
            .as_items()
            .map_or_else(|| vec![inputs.clone()], <[Expr]>::to_vec),
        None => return Err(fault()),
    };
    Ok(Expr::call(&callee, inputs.into_iter().chain(outs)).at(value.span))
}

/// The last statement of a block that reads each name, directly or through a view of it.
fn last_reads(stmts: &[Stmt]) -> BTreeMap<Name, usize> {
    let mut shows: BTreeMap<Name, Vec<Name>> = BTreeMap::new();
    let mut last: BTreeMap<Name, usize> = BTreeMap::new();
    for (at, stmt) in stmts.iter().enumerate() {
        let reads: Vec<Name> = count_uses(std::slice::from_ref(stmt)).into_keys().collect();
        // A branch may read what it binds, so a name may show itself.
        let mut work = reads.clone();
        while let Some(name) = work.pop() {
            if last.insert(name.clone(), at) != Some(at) {
                work.extend(shows.get(&name).into_iter().flatten().cloned());
            }
        }
        if let StmtKind::Assign { target, value, .. } = &stmt.kind
            && !value.is_call_of("R.call_tir")
        {
            for name in bound_names(target) {
                shows.insert(name, reads.clone());
            }
        }
        // What an `if` binds may be anything that its branches read.
        if let StmtKind::If { then, orelse, .. } = &stmt.kind {
            for inner in then.iter().chain(orelse) {
                if let StmtKind::Assign { target, .. } = &inner.kind {
                    for name in bound_names(target) {
                        shows.insert(name, reads.clone());
                    }
                }
            }
        }
    }
    last
}

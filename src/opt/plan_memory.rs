//! Gives every tensor of a graph function its place: results to the caller, all others to shared storages.
//!
//!     y = R.call_tir(cls.f, (x,), out_ty=…)          storage = R.memory.alloc_storage(R.shape([256]), 0, "global", "uint8")
//!     z = R.call_tir(cls.g, (y,), out_ty=…)     →    y = R.memory.alloc_tensor(storage, 0, R.shape([64]), "float32")
//!     return z                                       cls.f(x, y)
//!                                                    z = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), 0)
//!                                                    cls.g(y, z)
//!                                                    return z
//!
//! A tensor is alive from the kernel that writes it to the last read; views (`R.reshape`, aliases) count as reads of what
//! they show. Tensors whose size is known from the inputs share one storage, made at the head of the function, each at an
//! offset that nothing alive at the same time reaches into (`pack`); offsets are formulas where sizes are. Small ones of
//! known size have a storage of their own beside symbolic ones, so that formulas stay short. The others go, the largest
//! first, to the smallest storage whose tensors are dead by then; it is made where the first of them is, as large as the
//! largest, by proof or by `T.max`, and all of them have the same symbols. Blocks of `if` have storages of their own.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::bound_names;
use irc_syntax::{DType, Diagnostic, Expr, Func, FuncKind, Module, Name, Stmt, StmtKind};

use self::pack::{Block, overlap, pack};
use super::graph::{count_uses, kernel_views, returned};
use super::{Changed, Pass, PassCx};
use crate::check::stage::Level;
use crate::check::{FuncInfo, Type};
use crate::shape::Dim;

mod pack;

/// Kernels read and write whole vectors from aligned addresses.
const ALIGNMENT: i64 = 64;

/// The pass.
pub const PASS: Pass = Pass {
    name: "plan_memory",
    run,
    from: Level::Scheduled,
    to: Level::Planned,
    summary: "place every tensor",
    args: &[],
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

/// What an extent is taken for that is not known, the most usual first.
const USUAL: [i64; 4] = [64, 1024, 16, 1 << 16];

/// Bytes of a tensor of known size that goes apart from those of symbolic sizes.
const SMALL: i64 = 64 * 1024;

/// Bytes that tensors share in turn.
struct Storage {
    name: Name,
    bytes: Dim,
    /// Where the first tensor in it is made: position in the block, for storages that cannot be at the head.
    at: usize,
    /// When its tensors are alive.
    taken: Vec<(usize, usize)>,
}

/// A tensor that wants a place.
struct Wanted {
    name: Name,
    dtype: DType,
    shape: Vec<Dim>,
    bytes: Dim,
    /// The bytes if symbols are as guessed, for each guess.
    sizes: Vec<i64>,
    /// The statements that it is alive at.
    alive: (usize, usize),
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
        let mut wanted = Vec::new();
        for (at, stmt) in stmts.iter().enumerate() {
            if let StmtKind::Assign { target, value, .. } = &stmt.kind
                && value.is_call_of("R.call_tir")
            {
                for name in bound_names(target) {
                    if !shown.contains_key(&name) && !results.contains(&name) {
                        let until = last_read.get(&name).copied().unwrap_or(at);
                        wanted.push(self.wanted(name, (at, until))?);
                    }
                }
            }
        }
        let (storages, mut places) = self.places(wanted);
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
                        let alloc = match places.remove(&name) {
                            Some(place) => place,
                            None => self.result(&name)?,
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

    fn wanted(&self, name: Name, alive: (usize, usize)) -> Result<Wanted, Diagnostic> {
        let (dtype, shape) = self.tensor(&name)?;
        let bytes = &shape.iter().product::<Dim>() * &Dim::int(dtype.bytes() as i64);
        let bytes = &bytes.ceil_div(&Dim::int(ALIGNMENT)) * &Dim::int(ALIGNMENT);
        let size = |usual: i64| {
            let symbol = |name: &Name| {
                let facts = self.info.facts.get(name);
                let least = usual.max(facts.min.unwrap_or(usual));
                Some(facts.max.map_or(least, |most| least.min(most)))
            };
            bytes.eval(&symbol).unwrap_or(i64::MAX).max(0)
        };
        let sizes = USUAL.map(size).to_vec();
        Ok(Wanted {
            name,
            dtype,
            shape,
            bytes,
            sizes,
            alive,
        })
    }

    /// The storages of a block, and `R.memory.alloc_tensor(storage, offset, R.shape([…]), "float32")` for each tensor.
    fn places(&mut self, wanted: Vec<Wanted>) -> (Vec<Storage>, BTreeMap<Name, Expr>) {
        let mut places = BTreeMap::new();
        let mut place = |tensor: &Wanted, storage: &Name, offset: &Dim| {
            let args = [
                Expr::name(storage),
                offset.to_expr(),
                shape_value(&tensor.shape),
                Expr::str(tensor.dtype.name()),
            ];
            let call = Expr::call("R.memory.alloc_tensor", args);
            places.insert(tensor.name.clone(), call);
        };
        let mut storages: Vec<Storage> = Vec::new();
        let (early, mut late): (Vec<Wanted>, Vec<Wanted>) = wanted
            .into_iter()
            .partition(|tensor| tensor.bytes.symbols().is_subset(&self.known));
        let (symbolic, numbers): (Vec<Wanted>, Vec<Wanted>) = early
            .into_iter()
            .partition(|tensor| tensor.bytes.as_int().is_none_or(|bytes| bytes > SMALL));
        let groups = if symbolic
            .iter()
            .all(|tensor| tensor.bytes.as_int().is_some())
        {
            vec![symbolic.into_iter().chain(numbers).collect()]
        } else {
            vec![symbolic, numbers]
        };
        for tensors in groups {
            let blocks: Vec<Block> = tensors.iter().map(|tensor| self.block_of(tensor)).collect();
            for stack in pack(&blocks, &self.info.facts) {
                let name = self.names.fresh("storage");
                for (at, offset) in stack.places {
                    place(&tensors[at], &name, &offset);
                }
                storages.push(Storage {
                    name,
                    bytes: stack.bytes,
                    at: 0,
                    taken: Vec::new(),
                });
            }
        }
        late.sort_by_key(|tensor| std::cmp::Reverse(tensor.sizes[0]));
        let n_early = storages.len();
        for tensor in &late {
            // The storages were made for ever smaller tensors: the last that is free fits best.
            let free = storages[n_early..]
                .iter()
                .rposition(|storage| Self::is_free(storage, tensor));
            let at = free.map_or_else(
                || {
                    storages.push(Storage {
                        name: self.names.fresh("storage"),
                        bytes: tensor.bytes.clone(),
                        at: tensor.alive.0,
                        taken: Vec::new(),
                    });
                    storages.len() - 1
                },
                |at| n_early + at,
            );
            let storage = &mut storages[at];
            storage.taken.push(tensor.alive);
            storage.at = storage.at.min(tensor.alive.0);
            storage.bytes = self.larger(&storage.bytes, &tensor.bytes);
            place(tensor, &storage.name, &Dim::int(0));
        }
        (storages, places)
    }

    fn block_of(&self, tensor: &Wanted) -> Block {
        // What would be negative is a fault that the program reports; until then it is nothing.
        let zero = Dim::int(0);
        let is_size = self.info.facts.prove_le(&zero, &tensor.bytes) == Some(true);
        Block {
            bytes: if is_size {
                tensor.bytes.clone()
            } else {
                Dim::max(&tensor.bytes, &zero)
            },
            guesses: tensor.sizes.clone(),
            alive: tensor.alive,
        }
    }

    /// Whether a tensor may go to a storage: nothing is alive there, and the size is known where the storage is made.
    fn is_free(storage: &Storage, tensor: &Wanted) -> bool {
        storage.bytes.symbols() == tensor.bytes.symbols()
            && storage
                .taken
                .iter()
                .all(|&taken| !overlap(taken, tensor.alive))
    }

    fn larger(&self, a: &Dim, b: &Dim) -> Dim {
        let facts = &self.info.facts;
        match (facts.prove_le(b, a), facts.prove_le(a, b)) {
            (Some(true), _) => a.clone(),
            (_, Some(true)) => b.clone(),
            _ => Dim::max(a, b),
        }
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

//! Turns every group of `fuse` into a prim_func, one block a value that is kept, and its calls into `R.call_tir`.
//!
//!     @R.function(private=True)                  @T.prim_func(private=True)
//!     def add_relu(p0, p1):                      def add_relu(p0: T.Buffer(…), p1: …, lv1: …):
//!         lv0 = R.add(p0, p1)             →          for ax0, ax1 in T.grid(n, 64):
//!         lv1 = R.maximum(lv0, 0)                        with T.sblock("lv1"):
//!         return lv1                                         v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
//!                                                            lv1[v_ax0, v_ax1] = T.max(p0[…] + p1[…], 0)
//!
//! A value is *kept* (given a buffer) when it is a result, a reduction, a contraction, or read by several blocks;
//! all others are element expressions (`element.rs`) written where they are read, bound by `T.let` when read twice.
//! Indices are built as `Dim`s over loop variables, so they come out in normal form. Loops run in the order that
//! the operators define; making them fast is `sched`'s business.

mod contract;
mod element;
mod index;
mod opaque;
mod reduce;
mod suppress;
mod symbols;
mod window;

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::names::NameSupply;
use irc_syntax::uses::{bound_names, for_each_read, names_read};
use irc_syntax::{
    Arg, DType, Diagnostic, Expr, ExprKind, Func, FuncKind, Item, Module, Name, Param, Stmt,
    StmtKind,
};

use super::graph::returned;
use super::{Changed, Pass, PassCx};
use crate::check::prim::{self, BoundCall, Prim};
use crate::check::stage::Level;
use crate::check::{FuncInfo, Type, type_to_expr};
use crate::shape::Dim;

/// The pass.
pub const PASS: Pass = Pass {
    name: "lower",
    run,
    from: Level::Fused,
    to: Level::Loops,
    summary: "turn groups into loops",
    args: &[],
};

/// Runs the pass on every group function and on the calls of it.
pub fn run(module: &mut Module, cx: &mut PassCx) -> Changed {
    let mut lowered: BTreeMap<Name, Lowered> = BTreeMap::new();
    if symbols::rename(module, &cx.info, is_group)
        && let Err(diags) = cx.recheck(module)
    {
        cx.diags.extend(diags);
        return Changed::Yes;
    }
    for item in &mut module.items {
        let Item::Func(func) = item else { continue };
        if !is_group(func) {
            continue;
        }
        let info = cx.info.funcs.get(&func.name).cloned().unwrap_or_default();
        match lower_func(func, &info) {
            Ok((prim_func, call)) => {
                lowered.insert(func.name.clone(), call);
                *func = prim_func;
            }
            Err(diag) => cx.diags.push(diag),
        }
    }
    for func in module
        .funcs_mut()
        .filter(|func| func.kind == FuncKind::Graph)
    {
        let info = cx.info.funcs.get(&func.name).cloned().unwrap_or_default();
        rewrite_calls(&mut func.body, &info, &lowered);
    }
    Changed::from(!lowered.is_empty())
}

/// Whether `fuse` made the function.
fn is_group(func: &Func) -> bool {
    func.kind == FuncKind::Graph && func.attr("op_pattern").is_some()
}

/// What a call of a lowered function needs besides its tensors.
struct Lowered {
    /// Symbols that no buffer binds, passed as scalars, in order.
    scalars: Vec<Name>,
    /// The symbolic shape of each parameter, to find what a symbol is at a call.
    params: Vec<Vec<Dim>>,
}

/// `y = cls.f(a, b)` → `y = R.call_tir(cls.f, (a, b), out_ty=R.Tensor(…))`.
fn rewrite_calls(stmts: &mut [Stmt], info: &FuncInfo, lowered: &BTreeMap<Name, Lowered>) {
    for stmt in stmts {
        match &mut stmt.kind {
            StmtKind::If { then, orelse, .. } => {
                rewrite_calls(then, info, lowered);
                rewrite_calls(orelse, info, lowered);
            }
            StmtKind::Assign { target, value, .. } => {
                let Some((path, args)) = value.as_call() else {
                    continue;
                };
                let Some(callee) = path.strip_prefix("cls.").and_then(|name| lowered.get(name))
                else {
                    continue;
                };
                let tensors: Vec<Expr> = args.iter().map(|arg| arg.value.clone()).collect();
                let scalars = callee.scalars_at(&tensors, info);
                let types: Vec<Expr> = bound_names(target)
                    .iter()
                    .filter_map(|name| info.vars.get(name))
                    .map(type_to_expr)
                    .collect();
                let out_ty = match types.as_slice() {
                    [one] => one.clone(),
                    _ => Expr::list(types),
                };
                let span = value.span;
                let args = Expr::tuple(tensors.into_iter().chain(scalars));
                *value = Expr::call("R.call_tir", [Expr::path(&path), args])
                    .with("out_ty", out_ty)
                    .at(span);
            }
            _ => {}
        }
    }
}

impl Lowered {
    /// The caller's dims for the callee's scalar symbols.
    fn scalars_at(&self, tensors: &[Expr], info: &FuncInfo) -> Vec<Expr> {
        let mut map: BTreeMap<&Name, Dim> = BTreeMap::new();
        for (dims, tensor) in self.params.iter().zip(tensors) {
            let shape = tensor
                .as_name()
                .and_then(|name| info.vars.get(name)?.as_tensor()?.shape.as_ref());
            for (dim, actual) in dims.iter().zip(shape.into_iter().flatten()) {
                if let Some(symbol) = dim.as_sym() {
                    map.insert(symbol, actual.clone());
                }
            }
        }
        self.scalars
            .iter()
            .map(|name| {
                map.get(name)
                    .cloned()
                    .unwrap_or_else(|| Dim::sym(name))
                    .to_expr()
            })
            .collect()
    }
}

/// The state of lowering one function.
pub(super) struct Lower<'a> {
    /// The primitive call that makes each name.
    calls: BTreeMap<Name, (Prim, BoundCall)>,
    info: &'a FuncInfo,
    /// Values that have a buffer of this name: parameters, results and kept intermediates.
    kept: BTreeMap<Name, Name>,
    names: NameSupply,
    body: Vec<Stmt>,
}

/// An element being built inside one block: lets made so far, by value and index.
#[derive(Default)]
pub(super) struct Block {
    lets: BTreeMap<(Name, String), Expr>,
    stmts: Vec<Stmt>,
    /// Inside a branch that may not be taken nothing may move out of it.
    conditional: usize,
}

fn lower_func(func: &Func, info: &FuncInfo) -> Result<(Func, Lowered), Diagnostic> {
    let mut lower = Lower {
        calls: BTreeMap::new(),
        info,
        kept: func
            .params
            .iter()
            .map(|param| (param.name.clone(), param.name.clone()))
            .collect(),
        names: NameSupply::of_func(func),
        body: Vec::new(),
    };
    let mut order = Vec::new();
    for stmt in &func.body {
        let StmtKind::Assign { target, value, .. } = &stmt.kind else {
            continue;
        };
        let (Some(name), Some((path, _))) = (target.as_name(), value.as_call()) else {
            continue;
        };
        let prim = Prim::find(&path).ok_or_else(|| not_lowered(func, &path))?;
        lower
            .calls
            .insert(name.clone(), (prim, prim::bind(prim, value)?));
        order.push(name.clone());
    }
    let results: Vec<Name> = returned(&func.body)
        .into_iter()
        .filter_map(|value| value.as_name().cloned())
        .collect();
    let keep = lower.choose_kept(&order, &results);
    for name in &order {
        if !keep.contains(name) {
            continue;
        }
        lower.kept.insert(name.clone(), name.clone());
        if !results.contains(name) {
            let (dtype, shape) = lower.tensor(name)?;
            lower.alloc(name, dtype, &shape);
        }
        lower.materialize(name)?;
    }
    Ok(lower.finish(func, &results))
}

fn not_lowered(func: &Func, path: &str) -> Diagnostic {
    Diagnostic::error(
        "not-lowered",
        format!("`{path}` in `{}` has no loops", func.name),
    )
    .at(func.name_span, "in this group")
}

impl Block {
    /// A block whose elements are read under a condition.
    fn conditional() -> Self {
        Self {
            conditional: 1,
            ..Self::default()
        }
    }
}

impl Lower<'_> {
    /// Names that get a buffer.
    fn choose_kept(&self, order: &[Name], results: &[Name]) -> BTreeSet<Name> {
        let mut keep: BTreeSet<Name> = results.iter().cloned().collect();
        for name in order {
            let (prim, call) = &self.calls[name];
            if !element::is_inline(*prim) {
                keep.insert(name.clone());
            }
            // A product reads each element of its operands many times.
            if matches!(prim, Prim::Matmul | Prim::Conv(_) | Prim::ConvTranspose(_)) {
                let operands = call.operands().into_iter().filter_map(Expr::as_name);
                keep.extend(
                    operands
                        .filter(|name| self.calls.contains_key(*name))
                        .cloned(),
                );
            }
        }
        // A costly value read by blocks of different kept values would be computed once in each.
        for name in order.iter().rev() {
            if keep.contains(name) || !element::is_costly(self.calls[name].0) {
                continue;
            }
            let mut blocks = BTreeSet::new();
            self.reading_blocks(name, order, &keep, &mut blocks);
            if blocks.len() > 1 {
                keep.insert(name.clone());
            }
        }
        keep
    }

    /// The kept values whose blocks read `name` directly or through values that are not kept.
    fn reading_blocks(
        &self,
        name: &Name,
        order: &[Name],
        keep: &BTreeSet<Name>,
        blocks: &mut BTreeSet<Name>,
    ) {
        for user in order {
            let reads = self.calls[user]
                .1
                .operands()
                .iter()
                .any(|arg| arg.as_name() == Some(name));
            if reads && keep.contains(user) {
                blocks.insert(user.clone());
            } else if reads {
                self.reading_blocks(user, order, keep, blocks);
            }
        }
    }

    /// Dtype and extents of a value of the group.
    fn tensor(&self, name: &Name) -> Result<(DType, Vec<Dim>), Diagnostic> {
        self.info
            .vars
            .get(name)
            .and_then(Type::as_known_tensor)
            .map(|(dtype, shape)| (dtype, shape.to_vec()))
            .ok_or_else(|| {
                Diagnostic::error(
                    "unknown-shape",
                    format!("the shape of `{name}` is not known"),
                )
            })
    }

    /// Dtype and extents of an operand: a name, or a constant.
    fn operand(&self, value: &Expr) -> Result<(DType, Vec<Dim>), Diagnostic> {
        match value.as_name() {
            Some(name) => self.tensor(name),
            None => element::const_dtype(value)
                .map(|dtype| (dtype, Vec::new()))
                .ok_or_else(|| Diagnostic::error("unknown-shape", "an operand is no tensor")),
        }
    }

    /// `name = T.sblock_alloc_buffer((…), "dtype")` at the head of the function.
    fn alloc(&mut self, name: &Name, dtype: DType, shape: &[Dim]) {
        let shape = Expr::tuple(shape.iter().map(Dim::to_expr));
        let value = Expr::call("T.sblock_alloc_buffer", [shape, Expr::str(dtype.name())]);
        self.body.push(Stmt::bind(name, value));
    }

    /// The dims of a shape value.
    fn shape_value(&self, name: &Name) -> Option<Vec<Dim>> {
        if let Some(Type::Shape(dims)) = self.info.vars.get(name) {
            dims.clone()
        } else {
            None
        }
    }

    /// The block or loops that fill the buffer of a kept value.
    fn materialize(&mut self, name: &Name) -> Result<(), Diagnostic> {
        let (prim, call) = self.calls[name].clone();
        if element::is_inline(prim) {
            return element::materialize(self, name, prim, &call);
        }
        match prim {
            Prim::Reduce(_) => reduce::materialize(self, name, prim, &call),
            Prim::Argmax | Prim::Argmin => reduce::materialize_arg(self, name, prim, &call),
            Prim::Concat => element::materialize_concat(self, name, &call),
            Prim::Matmul => contract::materialize_matmul(self, name, &call),
            Prim::Conv(_) => contract::materialize_conv(self, name, &call),
            Prim::ConvTranspose(_) => contract::materialize_conv_transpose(self, name, &call),
            Prim::MaxPool(_) | Prim::AvgPool(_) => window::materialize(self, name, prim, &call),
            _ => opaque::materialize(self, name, &call),
        }
    }

    /// `for ax… in T.grid(…): with T.sblock(name): v_ax… = T.axis.remap(…); body`. `axes` are the block
    /// variables with their extents and whether they reduce. Nothing stands around a block without axes.
    fn push_block(&mut self, name: &str, axes: &[Axis], body: Vec<Stmt>) {
        let mut inner = Vec::new();
        let loops: Vec<Name> = axes
            .iter()
            .map(|axis| Name::from(axis.var.strip_prefix("v_").unwrap_or(&axis.var).to_owned()))
            .collect();
        match axes {
            [] => {}
            [axis] => {
                let kind = if axis.reduces {
                    "T.axis.reduce"
                } else {
                    "T.axis.spatial"
                };
                let value = Expr::call(kind, [axis.extent.to_expr(), Expr::name(&loops[0])]);
                inner.push(Stmt::bind(axis.var.as_str(), value));
            }
            _ => {
                let kinds: String = axes
                    .iter()
                    .map(|axis| if axis.reduces { 'R' } else { 'S' })
                    .collect();
                let target = Expr::new(ExprKind::Tuple {
                    items: axes
                        .iter()
                        .map(|axis| Expr::name(axis.var.as_str()))
                        .collect(),
                    parens: false,
                });
                let vars = Expr::list(loops.iter().map(Expr::name));
                inner.push(Stmt::assign(
                    target,
                    Expr::call("T.axis.remap", [Expr::str(kinds), vars]),
                ));
            }
        }
        inner.extend(body);
        let block = Stmt::new(StmtKind::With {
            context: Expr::call("T.sblock", [Expr::str(name)]),
            target: None,
            body: inner,
        });
        let extents: Vec<Expr> = axes.iter().map(|axis| axis.extent.to_expr()).collect();
        self.body.push(nest(&loops, extents, vec![block]));
    }

    /// A block that holds `place = start` before the first round of its reduction, and `place = next` after `body` in each.
    fn push_reduction(
        &mut self,
        name: &Name,
        axes: &[Axis],
        (place, start, next): (Expr, Expr, Expr),
        mut body: Vec<Stmt>,
    ) {
        body.insert(0, init(vec![Stmt::assign(place.clone(), start)]));
        body.push(Stmt::assign(place, next));
        self.push_block(name, axes, body);
    }

    /// A block that stores one value at an index.
    fn push_store(
        &mut self,
        block_name: &str,
        axes: &[Axis],
        place: Expr,
        value: Expr,
        mut body: Vec<Stmt>,
    ) {
        body.push(Stmt::assign(place, value));
        self.push_block(block_name, axes, body);
    }

    /// Block variables for a shape: `v_ax0`, `v_ax1`, …, spatial.
    fn axes(shape: &[Dim]) -> Vec<Axis> {
        shape
            .iter()
            .enumerate()
            .map(|(position, extent)| Axis::spatial(format!("v_ax{position}"), extent.clone()))
            .collect()
    }

    fn finish(self, func: &Func, results: &[Name]) -> (Func, Lowered) {
        let mut prim = Func::new(FuncKind::Loops, &func.name);
        prim.decorator.push(Arg {
            name: Some(Name::from("private")),
            value: Expr::bool(true),
        });
        let mut bound = BTreeSet::new();
        let mut params = Vec::new();
        let mut scalar_params = BTreeSet::new();
        let inputs = func.params.iter().map(|param| &param.name);
        for name in inputs.clone().chain(results) {
            let Some((dtype, shape)) = self.info.vars.get(name).and_then(Type::as_known_tensor)
            else {
                // A scalar parameter: a symbol that no buffer binds.
                prim.params.push(Param::new(name, Expr::path("T.int64")));
                scalar_params.insert(name.clone());
                continue;
            };
            bound.extend(shape.iter().filter_map(Dim::as_sym).cloned());
            prim.params
                .push(Param::new(name, buffer_type(dtype, shape)));
        }
        for name in inputs {
            let shape = self.info.vars.get(name).and_then(Type::as_known_tensor);
            params.push(shape.map_or_else(Vec::new, |(_, shape)| shape.to_vec()));
        }
        let free = free_symbols(&self.body, &prim);
        let scalars: Vec<Name> = free
            .into_iter()
            .filter(|name| !bound.contains(name))
            .collect();
        let at = func.params.len();
        for (offset, name) in scalars.iter().enumerate() {
            prim.params
                .insert(at + offset, Param::new(name, Expr::path("T.int64")));
        }
        let pattern = func.attr("op_pattern").cloned();
        let mut attrs = vec![
            (
                "op_pattern".to_owned(),
                pattern.unwrap_or_else(|| Expr::int(8)),
            ),
            ("tirx.noalias".to_owned(), Expr::bool(true)),
        ];
        let facts = func.attr("irc.dims").cloned();
        attrs.extend(facts.map(|facts| ("irc.dims".to_owned(), facts)));
        let attrs = Expr::call("T.func_attr", [Expr::dict(attrs)]);
        prim.body = vec![Stmt::expr(attrs)];
        bound.retain(|name| !scalar_params.contains(name));
        prim.body.extend(
            bound
                .iter()
                .map(|name| Stmt::bind(name, Expr::call("T.int64", []))),
        );
        prim.body.extend(self.body);
        (prim, Lowered { scalars, params })
    }
}

/// Names read in a prim_func that it neither binds nor has as a parameter, and dims of its buffers: its symbols.
fn free_symbols(body: &[Stmt], prim: &Func) -> BTreeSet<Name> {
    let mut probe = Func::new(FuncKind::Loops, "probe");
    probe.params = prim.params.clone();
    probe.body = body.to_vec();
    let bound = super::graph::names_of(&probe);
    let mut free = BTreeSet::new();
    let mut visit = |expr: &Expr| free.extend(names_read(expr));
    for_each_read(body, &mut visit);
    for param in &prim.params {
        param.ty.iter().for_each(&mut visit);
    }
    free.retain(|name| !bound.contains(name) && !matches!(name.as_str(), "T" | "R" | "I" | "cls"));
    free
}

/// `T.Buffer((…), "dtype")`.
fn buffer_type(dtype: DType, shape: &[Dim]) -> Expr {
    let dims = Expr::tuple(shape.iter().map(Dim::to_expr));
    Expr::call("T.Buffer", [dims, Expr::str(dtype.name())])
}

/// A block variable.
#[derive(Clone)]
pub(super) struct Axis {
    var: String,
    extent: Dim,
    reduces: bool,
}

impl Axis {
    fn spatial(var: impl Into<String>, extent: Dim) -> Self {
        Self {
            var: var.into(),
            extent,
            reduces: false,
        }
    }

    fn reduce(var: impl Into<String>, extent: Dim) -> Self {
        Self {
            var: var.into(),
            extent,
            reduces: true,
        }
    }

    fn dim(&self) -> Dim {
        Dim::sym(self.var.as_str())
    }
}

/// `for a, b in T.grid(x, y): body`, or the body's one statement when there are no loops.
fn nest(vars: &[Name], extents: Vec<Expr>, mut body: Vec<Stmt>) -> Stmt {
    let (target, iter) = match (vars, extents.as_slice()) {
        ([], _) if body.len() == 1 => return body.remove(0),
        ([var], [extent]) => (Expr::name(var), Expr::call("range", [extent.clone()])),
        _ => (
            Expr::new(ExprKind::Tuple {
                items: vars.iter().map(Expr::name).collect(),
                parens: false,
            }),
            Expr::call("T.grid", extents),
        ),
    };
    Stmt::new(StmtKind::For { target, iter, body })
}

/// `buffer[i, j]`; `buffer[()]` for rank 0.
fn access(buffer: &Name, index: &[Dim]) -> Expr {
    Expr::index(Expr::name(buffer), index.iter().map(Dim::to_expr))
}

/// `with T.init(): body`.
fn init(body: Vec<Stmt>) -> Stmt {
    Stmt::new(StmtKind::With {
        context: Expr::call("T.init", []),
        target: None,
        body,
    })
}

/// The operand of a call by its slot's name.
fn operand(call: &BoundCall, slot: &str) -> Expr {
    call.operand(slot).cloned().unwrap_or_else(Expr::none)
}

/// A constant of a dtype as TIR writes it.
fn constant(dtype: DType, value: Expr) -> Expr {
    Expr::call(&format!("T.{}", dtype.name()), [value])
}

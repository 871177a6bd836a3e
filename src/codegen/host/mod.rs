//! The graph level: one planned `@R.function` in, one Cranelift function that places tensors and calls prim_funcs out.
//!
//! Tensors are pointers and extents. `R.memory.alloc_storage` whose size follows from the inputs comes out of the one
//! workspace of the call, others are made when they are reached; `R.builtin.alloc_tensor` is a result when it can be
//! traced to the `return`, and memory of the call otherwise. `R.reshape` and names are views. `R.call_tir` is taken as
//! well and allocates its outputs, so a module can be compiled before memory is planned.
//!
//! A function that others of the module call has a second form, `irc.<func>.inner`, that writes pointers and extents of
//! its results to an array instead of asking for the caller's memory.

mod bind;
mod call;
mod control;
mod data;
mod image;
mod object;
mod result;
mod string;
mod string_text;
mod value;

use std::collections::BTreeMap;

use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{Function, InstBuilder, MemFlagsData, Value};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::Linkage;
use irc_syntax::{DType, Expr, Func, FuncKind, Module, Name, Span, Stmt, StmtKind};

use super::arith::Val;
use super::lower::{Binding, Extent, Lower, Res, unsupported};
use super::object::Assembler;
use crate::check::{Info, Type, body_of, type_from_expr};
use crate::shape::Dim;
use crate::tensor::Weights;

use result::{Leaf, flatten_type, has_object};
pub use value::{HostTensor, HostValue};

/// What all graph functions of a module share.
pub struct Program<'m> {
    /// The module.
    pub module: &'m Module,
    /// Its types.
    pub info: &'m Info,
    /// The weights.
    pub weights: &'m Weights,
    /// The names of the table `irc_weights`, in order.
    pub table: Vec<String>,
    /// Helper prim_funcs that have been made, by name.
    pub helpers: Vec<String>,
    /// The bytes of the workspace of a call of each function, over the symbols of its signature.
    pub workspaces: BTreeMap<Name, Dim>,
}

/// Where results go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// To the caller of the shared object.
    Entry,
    /// To another graph function.
    Inner,
}

/// A graph function being lowered.
struct Host<'a, 'f, 'm> {
    lower: Lower<'a, 'f>,
    program: &'a mut Program<'m>,
    form: Form,
    /// The function's name.
    func: Name,
    /// What it returns, where that is known.
    ret: Option<Type>,
    /// The runtime's record of the call.
    call: Value,
    /// Where results of an inner function go.
    results: Option<Value>,
    values: BTreeMap<Name, HostValue>,
    /// Which allocation is which result: by name and member, the result and its extents as returned.
    outputs: BTreeMap<(Name, Option<usize>), (usize, Option<Expr>)>,
    /// Results that are in place already.
    placed: BTreeMap<usize, Value>,
    /// The next free byte of the workspace, and where it is.
    workspace: Option<Value>,
    /// Byte offsets of storages inside the workspace.
    storages: BTreeMap<Name, Extent>,
    /// Whether the function has returned.
    returned: bool,
}

/// Declares the symbol of a graph function in one of its forms.
pub fn declare(asm: &mut Assembler, name: &str, form: Form) -> Res<cranelift_module::FuncId> {
    match form {
        Form::Entry => asm.declare(&format!("irc.{name}"), Linkage::Local, &[I64, I64], &[I32]),
        Form::Inner => asm.declare(
            &format!("irc.{name}.inner"),
            Linkage::Local,
            &[I64, I64, I64],
            &[I32],
        ),
    }
}

/// Lowers a graph function into the object.
///
/// # Errors
/// What cannot be compiled, at its place.
pub fn lower(asm: &mut Assembler, program: &mut Program<'_>, func: &Func, form: Form) -> Res<()> {
    let id = declare(asm, &func.name, form)?;
    let line = asm.lines.line(func.name_span);
    asm.start_at(id, line);
    let mut body: Function = asm.begin(id);
    let mut cx = FunctionBuilderContext::new();
    let builder = FunctionBuilder::new(&mut body, &mut cx);
    let lower = Lower::new(asm, builder, &format!("irc.{}", func.name));
    let params: Vec<Value> = lower.b.block_params(lower.entry).to_vec();
    let mut host = Host {
        lower,
        program,
        form,
        func: func.name.clone(),
        ret: None,
        call: params[0],
        results: params.get(2).copied(),
        values: BTreeMap::new(),
        outputs: BTreeMap::new(),
        placed: BTreeMap::new(),
        workspace: None,
        storages: BTreeMap::new(),
        returned: false,
    };
    host.ret = host.return_type(func, None).ok();
    host.bind_params(func, params[1])?;
    if form == Form::Entry {
        host.go_to_version(func, params[1])?;
    }
    let has_objects = host.ret.as_ref().is_some_and(has_object);
    if form == Form::Entry && !has_objects {
        host.find_outputs(&func.body);
    }
    host.make_workspace(&func.body)?;
    host.statements(&func.body)?;
    if !host.returned {
        return Err(unsupported(
            func.name_span,
            format!("`{}` returns nothing", func.name),
        ));
    }
    host.lower.finish()?;
    asm.define(id, body);
    Ok(())
}

/// The number of leading parameters that callers pass.
pub fn num_input(func: &Func) -> usize {
    func.attr("num_input")
        .and_then(super::loops::constant)
        .and_then(|n| usize::try_from(n).ok())
        .map_or(func.params.len(), |n| n.min(func.params.len()))
}

/// The names of graph functions that other graph functions call.
pub fn inner_functions(module: &Module) -> Vec<Name> {
    let graphs: Vec<&Name> = module
        .funcs()
        .filter(|func| func.kind == FuncKind::Graph)
        .map(|func| &func.name)
        .collect();
    let mut res: Vec<Name> = Vec::new();
    for func in module.funcs().filter(|func| func.kind == FuncKind::Graph) {
        irc_syntax::uses::for_each_expr(&func.body, &mut |expr| {
            let Some((path, _)) = expr.as_call() else {
                return;
            };
            if let Some(body) = body_of(expr)
                && graphs.contains(&&body)
                && !res.contains(&body)
            {
                res.push(body);
            }
            let name = path.rsplit('.').next().unwrap_or_default();
            if let Some(callee) = graphs.iter().find(|graph| ***graph == *name)
                && !path.starts_with("R.")
                && !path.starts_with("T.")
                && !res.contains(callee)
            {
                res.push((*callee).clone());
            }
        });
    }
    res
}

impl Host<'_, '_, '_> {
    /// Binds inputs, weights and the symbols of the signature.
    fn bind_params(&mut self, func: &Func, args: Value) -> Res<()> {
        let n_inputs = num_input(func);
        let mut compound = Vec::new();
        for (idx, param) in func.params.iter().enumerate() {
            let span = param.span;
            let ty = match self.param_type(func, idx) {
                Some(ty) => ty,
                None => return Err(unsupported(span, format!("`{}` has no type", param.name))),
            };
            if idx >= n_inputs {
                let value = self.weight(&param.name, span)?;
                self.values.insert(param.name.clone(), value);
                continue;
            }
            let at = 16 * idx as i32;
            let flags = MemFlagsData::trusted();
            let data = self.lower.b.ins().load(I64, flags, args, at);
            let value = match ty {
                ty if object::is_object(&ty) => HostValue::Object { object: data, ty },
                Type::Tensor(tensor) => {
                    let dtype = tensor
                        .dtype
                        .ok_or_else(|| unsupported(span, "an input has a known element type"))?;
                    let ndim = tensor
                        .ndim
                        .ok_or_else(|| unsupported(span, "an input has a known rank"))?;
                    let shape = self.lower.b.ins().load(I64, flags, args, at + 8);
                    let mut dims = Vec::with_capacity(ndim);
                    for axis in 0..ndim {
                        let known = tensor.shape.as_ref().and_then(|shape| shape.get(axis));
                        if let Some(value) = known.and_then(|dim| dim.as_int()) {
                            dims.push(Extent::Const(value));
                            continue;
                        }
                        let v = self.lower.b.ins().load(I64, flags, shape, 8 * axis as i32);
                        dims.push(Extent::Run(v));
                        match known {
                            Some(dim) if dim.as_sym().is_some() => {
                                if let Some(name) = dim.as_sym() {
                                    self.bind_symbol(name, v);
                                }
                            }
                            Some(dim) => compound.push((dim.clone(), v)),
                            None => {}
                        }
                    }
                    HostValue::Tensor(HostTensor { data, dtype, dims })
                }
                Type::Scalar(dtype) => self.scalar_param(&param.name, dtype, data),
                Type::Shape(Some(dims)) => {
                    let shape = self.lower.b.ins().load(I64, flags, args, at + 8);
                    let mut extents = Vec::new();
                    for (axis, dim) in dims.iter().enumerate() {
                        let v = self.lower.b.ins().load(I64, flags, shape, 8 * axis as i32);
                        if let Some(name) = dim.as_sym() {
                            self.bind_symbol(name, v);
                        }
                        extents.push(Extent::Run(v));
                    }
                    HostValue::Shape(extents)
                }
                _ => {
                    return Err(unsupported(
                        span,
                        format!("`{}` cannot be passed", param.name),
                    ));
                }
            };
            self.values.insert(param.name.clone(), value);
        }
        for (dim, v) in compound {
            self.solve(&dim, v);
        }
        Ok(())
    }

    fn param_type(&self, func: &Func, idx: usize) -> Option<Type> {
        let param = &func.params[idx];
        let info = self.program.info.funcs.get(&func.name);
        let known = info.and_then(|info| info.vars.get(&param.name));
        match known {
            Some(Type::Error | Type::Any) | None => type_from_expr(param.ty.as_ref()?).ok(),
            Some(ty) => Some(ty.clone()),
        }
    }

    /// The first binding of a symbol; later ones have been checked against it.
    fn bind_symbol(&mut self, name: &Name, v: Value) {
        self.lower
            .scope
            .entry(name.clone())
            .or_insert(Binding::Index {
                v,
                dtype: DType::I64,
                natural: true,
            });
    }

    /// Finds the one unknown symbol of a linear dim from its value.
    fn solve(&mut self, dim: &crate::shape::Dim, v: Value) {
        let mut unknown = dim
            .symbols()
            .into_iter()
            .filter(|name| !self.lower.scope.contains_key(name));
        let (Some(name), None) = (unknown.next(), unknown.next()) else {
            return;
        };
        let at = |value: i64| dim.eval(&|sym| (*sym == name).then_some(value));
        let (Some(zero), Some(one), Some(two)) = (at(0), at(1), at(2)) else {
            return;
        };
        let slope = one - zero;
        if slope <= 0 || two - one != slope {
            return;
        }
        let rest = self.lower.b.ins().iadd_imm_s(v, -zero);
        let slope = self.lower.i64(slope);
        let solved = self.lower.b.ins().sdiv(rest, slope);
        self.bind_symbol(&name, solved);
    }

    /// A scalar comes as 64 bits: an integer, or the bits of a float64.
    fn scalar_param(&mut self, name: &Name, dtype: DType, bits: Value) -> HostValue {
        let b = &mut self.lower.b;
        let v = if dtype.is_float() {
            let double = b.ins().bitcast(F64, MemFlagsData::new(), bits);
            super::cast::cast(b, double, DType::F64, dtype)
        } else {
            super::cast::cast(b, bits, DType::I64, dtype)
        };
        let binding = if dtype == DType::I64 {
            Binding::Index {
                v,
                dtype,
                natural: false,
            }
        } else {
            Binding::Value(Val { v, dtype })
        };
        self.lower.scope.insert(name.clone(), binding);
        HostValue::Scalar(Val { v, dtype })
    }

    /// A weight: its address out of the table.
    fn weight(&mut self, name: &Name, span: Option<Span>) -> Res<HostValue> {
        let weight = self.program.weights.get(name).ok_or_else(|| {
            unsupported(span, format!("there is no weight `{name}`"))
                .help("name the file of weights in `I.module_attrs`", None)
        })?;
        let (dtype, shape) = (weight.dtype, weight.shape.clone());
        let position = match self
            .program
            .table
            .iter()
            .position(|known| **known == **name)
        {
            Some(position) => position,
            None => {
                self.program.table.push(name.to_string());
                self.program.table.len() - 1
            }
        };
        let id = self
            .lower
            .asm
            .declare_data("irc_weights", Linkage::Import, true)?;
        let data = self.lower.asm.data_ref(id, self.lower.b.func);
        let table = self.lower.b.ins().symbol_value(I64, data);
        let flags = MemFlagsData::trusted().with_readonly();
        let pointer = self
            .lower
            .b
            .ins()
            .load(I64, flags, table, 8 * position as i32);
        let dims = shape
            .iter()
            .map(|&extent| Extent::Const(extent as i64))
            .collect();
        Ok(HostValue::Tensor(HostTensor {
            data: pointer,
            dtype,
            dims,
        }))
    }

    /// Adds up the storages whose size is known now and asks for the workspace.
    fn make_workspace(&mut self, body: &[Stmt]) -> Res<()> {
        let mut sizes = Vec::new();
        collect_storages(body, &mut sizes);
        let mut total = Extent::Const(0);
        let (mut formula, line) = (Dim::int(0), Dim::int(64));
        for (name, size) in sizes {
            let Ok(dim) = Dim::from_expr(size) else {
                continue;
            };
            if !dim
                .symbols()
                .iter()
                .all(|sym| self.lower.scope.contains_key(sym))
            {
                continue;
            }
            let bytes = self.extent(size)?;
            self.storages.insert(name.clone(), total);
            let rounded = &(&dim + &Dim::int(63)).floor_div(&line) * &line;
            formula = &formula + &rounded;
            let rounded = self.round_up(bytes);
            total = self.add_extents(total, rounded);
        }
        if total == Extent::Const(0) {
            return Ok(());
        }
        if self.form == Form::Entry {
            let func = self.func.clone();
            self.program.workspaces.insert(func, formula);
        }
        let bytes = self.lower.extent(total);
        let name = if self.form == Form::Entry {
            "irc_workspace"
        } else {
            "irc_alloc"
        };
        let pointer = self
            .lower
            .call_runtime(name, &[I64, I64], &[I64], &[self.call, bytes])?;
        self.lower.require_pointer(pointer);
        self.workspace = Some(pointer);
        Ok(())
    }

    /// A size rounded up to whole cache lines.
    fn round_up(&mut self, bytes: Extent) -> Extent {
        match bytes {
            Extent::Const(value) => Extent::Const((value + 63) & !63),
            Extent::Run(value) => {
                let more = self.lower.b.ins().iadd_imm_s(value, 63);
                Extent::Run(self.lower.b.ins().band_imm_s(more, -64))
            }
        }
    }

    fn add_extents(&mut self, a: Extent, c: Extent) -> Extent {
        match (a, c) {
            (Extent::Const(a), Extent::Const(c)) => Extent::Const(a + c),
            _ => {
                let (a, c) = (self.lower.extent(a), self.lower.extent(c));
                Extent::Run(self.lower.b.ins().iadd(a, c))
            }
        }
    }

    /// The value of a dim expression.
    fn extent(&mut self, expr: &Expr) -> Res<Extent> {
        let dim = Dim::from_expr(expr)?;
        if let Some(value) = dim.as_int() {
            return Ok(Extent::Const(value));
        }
        let index = self.lower.index(&dim.to_expr())?;
        Ok(Extent::Run(self.lower.index_value(index)))
    }

    /// The extents of `R.shape([…])`, `[…]` or `(…)`.
    fn extents(&mut self, expr: &Expr) -> Res<Vec<Extent>> {
        let list = match expr.as_call() {
            Some((path, args)) if path == "R.shape" => args.first().map(|arg| &arg.value),
            _ => Some(expr),
        };
        if let Some(name) = expr.as_name()
            && let Some(HostValue::Shape(dims)) = self.values.get(name)
        {
            return Ok(dims.clone());
        }
        let items = list
            .and_then(Expr::as_items)
            .ok_or_else(|| unsupported(expr.span, "this is not a shape"))?
            .to_vec();
        items.iter().map(|item| self.extent(item)).collect()
    }

    /// The number of bytes of a tensor.
    fn bytes(&mut self, dtype: DType, dims: &[Extent]) -> Value {
        let len = self.lower.product(dims);
        let bytes = self
            .lower
            .extent_mul(len, Extent::Const(dtype.bytes() as i64));
        self.lower.extent(bytes)
    }

    /// Memory that lives until the call ends.
    fn alloc(&mut self, dtype: DType, dims: &[Extent]) -> Res<Value> {
        let bytes = self.bytes(dtype, dims);
        let pointer =
            self.lower
                .call_runtime("irc_alloc", &[I64, I64], &[I64], &[self.call, bytes])?;
        self.lower.require_pointer(pointer);
        Ok(pointer)
    }

    /// Memory for a tensor that a statement binds: the caller's where it is a result.
    fn alloc_bound(
        &mut self,
        name: Option<&Name>,
        member: Option<usize>,
        dtype: DType,
        dims: &[Extent],
    ) -> Res<Value> {
        let key = name.map(|name| (name.clone(), member));
        let Some((idx, shape)) = key.and_then(|key| self.outputs.get(&key).cloned()) else {
            return self.alloc(dtype, dims);
        };
        let dims = match shape {
            None => dims.to_vec(),
            Some(shape) => match self.extents(&shape) {
                Ok(dims) => dims,
                // The result is seen in a shape that is not known yet; it is copied at the end.
                Err(_) => return self.alloc(dtype, dims),
            },
        };
        let pointer = self.output(idx, &dims)?;
        self.placed.insert(idx, pointer);
        Ok(pointer)
    }

    /// Asks for the memory of a result.
    fn output(&mut self, idx: usize, dims: &[Extent]) -> Res<Value> {
        let values: Vec<Value> = dims.iter().map(|&dim| self.lower.extent(dim)).collect();
        let array = self.lower.stack_array(&values);
        let idx = self.lower.i64(idx as i64);
        let pointer = self.lower.call_runtime(
            "irc_output",
            &[I64, I64, I64],
            &[I64],
            &[self.call, idx, array],
        )?;
        self.lower.require_pointer(pointer);
        Ok(pointer)
    }

    /// Copies a tensor's bytes.
    fn copy(&mut self, to: Value, tensor: &HostTensor) -> Res<()> {
        let bytes = self.bytes(tensor.dtype, &tensor.dims);
        let id = self
            .lower
            .asm
            .declare("memcpy", Linkage::Import, &[I64, I64, I64], &[I64])?;
        self.lower.call(id, &[to, tensor.data, bytes]);
        Ok(())
    }

    /// A value as a tensor: scalars and shapes are stored first.
    fn as_tensor(&mut self, value: HostValue, span: Option<Span>) -> Res<HostTensor> {
        match value {
            HostValue::Tensor(tensor) => Ok(tensor),
            HostValue::Scalar(val) => {
                let pointer = self.alloc(val.dtype, &[])?;
                let raw = super::cast::to_memory(&mut self.lower.b, val.v, val.dtype);
                self.lower
                    .b
                    .ins()
                    .store(MemFlagsData::trusted(), raw, pointer, 0);
                Ok(HostTensor {
                    data: pointer,
                    dtype: val.dtype,
                    dims: Vec::new(),
                })
            }
            HostValue::Shape(dims) => {
                let len = Extent::Const(dims.len() as i64);
                let pointer = self.alloc(DType::I64, &[len])?;
                for (idx, &dim) in dims.iter().enumerate() {
                    let dim = self.lower.extent(dim);
                    self.lower
                        .b
                        .ins()
                        .store(MemFlagsData::trusted(), dim, pointer, 8 * idx as i32);
                }
                Ok(HostTensor {
                    data: pointer,
                    dtype: DType::I64,
                    dims: vec![len],
                })
            }
            HostValue::Object {
                object,
                ty: Type::Tensor(held),
            } => self.open_record(object, &held, &held, span),
            HostValue::Object { .. }
            | HostValue::Tuple(_)
            | HostValue::Storage(_)
            | HostValue::Nothing => Err(unsupported(span, "this is not a tensor")),
        }
    }
}

/// Every storage of a body, inside branches too, with its size.
fn collect_storages<'s>(body: &'s [Stmt], sizes: &mut Vec<(&'s Name, &'s Expr)>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Assign { target, value, .. }
                if value.is_call_of("R.memory.alloc_storage") =>
            {
                let size = value
                    .positional()
                    .next()
                    .and_then(|shape| match shape.as_call() {
                        Some((_, args)) => args.first()?.value.as_items()?.first(),
                        None => shape.as_items()?.first(),
                    });
                if let (Some(name), Some(size)) = (target.as_name(), size) {
                    sizes.push((name, size));
                }
            }
            StmtKind::With { body, .. } => collect_storages(body, sizes),
            StmtKind::If { then, orelse, .. } => {
                collect_storages(then, sizes);
                collect_storages(orelse, sizes);
            }
            _ => {}
        }
    }
}

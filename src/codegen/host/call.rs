//! Calls of prim_funcs and graph functions.

use std::collections::BTreeMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F64, I8, I32, I64};
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, Value};
use irc_syntax::{DType, Expr, ExprKind, Func, FuncKind, Name, Span};

use super::object::is_object;
use super::{Form, Host, HostTensor, HostValue, Leaf, flatten_type};
use crate::check::{TensorType, Type, type_from_expr};
use crate::codegen::PROFILE;
use crate::codegen::arith::Val;
use crate::codegen::cast;
use crate::codegen::loops::{self, PrimParam};
use crate::codegen::lower::{Extent, Res, unsupported};
use crate::opt::specialize::versions_of;
use crate::shape::Dim;

impl Host<'_, '_, '_> {
    /// `cls.f(…)`: a prim_func with its outputs, or a graph function.
    pub fn call_other(&mut self, expr: &Expr, path: &str, name: Option<&Name>) -> Res<HostValue> {
        let short = path.rsplit('.').next().unwrap_or(path);
        let module = self.program.module;
        let is_member = !path.starts_with("R.");
        match module.find_func(short).filter(|_| is_member) {
            Some(func) if func.kind == FuncKind::Loops => {
                let args = expr
                    .positional()
                    .map(|arg| self.value(arg, None))
                    .collect::<Res<_>>()?;
                let result = expr.positional().last().and_then(Expr::as_name);
                self.call_prim_for(func, args, result, expr.span)?;
                Ok(HostValue::Nothing)
            }
            Some(func) => self.call_graph(func, expr),
            None if path.starts_with("T.") => {
                let _ = name;
                Ok(HostValue::Scalar(self.lower.value(expr)?))
            }
            None => Err(unsupported(
                expr.span,
                format!("`{path}` has to be legalized before code generation"),
            )),
        }
    }

    /// The callee and the arguments of `R.call_tir(cls.f, (a, b), out_ty=…)`.
    fn tir_parts(&mut self, expr: &Expr) -> Res<(&'_ Func, Vec<HostValue>, Vec<TensorType>, bool)> {
        let fault = |what: &str| unsupported(expr.span, format!("`R.call_tir` {what}"));
        let args: Vec<&Expr> = expr.positional().collect();
        let path = args
            .first()
            .and_then(|callee| callee.as_path())
            .ok_or_else(|| fault("names its function"))?;
        let short = path.rsplit('.').next().unwrap_or(&path);
        let func = self
            .program
            .module
            .find_func(short)
            .filter(|func| func.kind == FuncKind::Loops)
            .ok_or_else(|| fault(&format!("finds no prim_func `{short}`")))?;
        let mut values = Vec::new();
        if let Some(list) = args.get(1) {
            let one = std::slice::from_ref(*list);
            for item in list.as_items().unwrap_or(one) {
                let value = self.value(item, None)?;
                values.push(value);
            }
        }
        let ty = expr
            .keyword("out_ty")
            .or(expr.keyword("out_sinfo"))
            .ok_or_else(|| fault("needs `out_ty`"))?;
        let (types, is_list) = match &ty.kind {
            ExprKind::List(items) => (
                items
                    .iter()
                    .map(type_from_expr)
                    .collect::<Result<Vec<_>, _>>()?,
                true,
            ),
            _ => match type_from_expr(ty)? {
                Type::Tuple(items) => (items, true),
                other => (vec![other], false),
            },
        };
        let mut tensors = Vec::new();
        for ty in types {
            match ty {
                Type::Tensor(tensor) => tensors.push(tensor),
                _ => return Err(fault("gives tensors")),
            }
        }
        if let Some(vars) = expr.keyword("tir_vars") {
            for dim in self.extents(vars)? {
                let v = self.lower.extent(dim);
                values.push(HostValue::Scalar(Val {
                    v,
                    dtype: DType::I64,
                }));
            }
        }
        Ok((func, values, tensors, is_list))
    }

    fn out_tensor(
        &mut self,
        ty: &TensorType,
        name: Option<&Name>,
        member: Option<usize>,
        span: Option<Span>,
    ) -> Res<HostTensor> {
        let dtype = ty
            .dtype
            .ok_or_else(|| unsupported(span, "an output has a known element type"))?;
        let shape = ty
            .shape
            .as_ref()
            .ok_or_else(|| unsupported(span, "an output has known extents"))?;
        let dims = shape
            .iter()
            .map(|dim| self.extent(&dim.to_expr()))
            .collect::<Res<Vec<_>>>()?;
        let data = self.alloc_bound(name, member, dtype, &dims)?;
        Ok(HostTensor { data, dtype, dims })
    }

    /// `R.call_tir`: allocates the outputs and calls.
    pub fn call_tir(&mut self, expr: &Expr, name: Option<&Name>) -> Res<HostValue> {
        let (func, mut values, types, is_list) = self.tir_parts(expr)?;
        let func = func.clone();
        let n_vars = expr.keyword("tir_vars").map_or(0, |_| {
            values
                .iter()
                .rev()
                .take_while(|value| matches!(value, HostValue::Scalar(_)))
                .count()
        });
        let vars = values.split_off(values.len() - n_vars);
        let mut outs = Vec::new();
        for (idx, ty) in types.iter().enumerate() {
            let out = self.out_tensor(ty, name, is_list.then_some(idx), expr.span)?;
            outs.push(HostValue::Tensor(out));
        }
        values.extend(outs.iter().cloned());
        values.extend(vars);
        self.call_prim_for(&func, values, name, expr.span)?;
        Ok(match outs.pop() {
            Some(only) if !is_list => only,
            Some(last) => {
                outs.push(last);
                HostValue::Tuple(outs)
            }
            None => HostValue::Nothing,
        })
    }

    /// `R.call_tir_inplace`: inputs that become outputs are copied first, since others may read them.
    pub fn call_tir_inplace(&mut self, expr: &Expr) -> Res<HostValue> {
        let (func, mut values, types, is_list) = self.tir_parts(expr)?;
        let func = func.clone();
        let indices: Vec<i128> = expr
            .keyword("inplace_indices")
            .and_then(Expr::as_items)
            .map(|items| items.iter().filter_map(Expr::as_int).collect())
            .unwrap_or_default();
        let mut outs = Vec::new();
        for (idx, ty) in types.iter().enumerate() {
            let out = self.out_tensor(ty, None, None, expr.span)?;
            let source = indices.get(idx).and_then(|&at| usize::try_from(at).ok());
            match source.and_then(|at| values.get(at).cloned().map(|value| (at, value))) {
                Some((at, value)) => {
                    let tensor = self.as_tensor(value, expr.span)?;
                    self.copy(out.data, &tensor)?;
                    values[at] = HostValue::Tensor(out.clone());
                }
                None => values.push(HostValue::Tensor(out.clone())),
            }
            outs.push(HostValue::Tensor(out));
        }
        self.call_prim(&func, values, expr.span)?;
        Ok(match outs.as_slice() {
            [only] if !is_list => only.clone(),
            _ => HostValue::Tuple(outs),
        })
    }

    /// Calls a prim_func with one value a parameter.
    pub fn call_prim(
        &mut self,
        func: &Func,
        values: Vec<HostValue>,
        span: Option<Span>,
    ) -> Res<()> {
        self.call_prim_for(func, values, None, span)
    }

    /// Calls a prim_func with one value a parameter. `place` names the tensor that it computes.
    fn call_prim_for(
        &mut self,
        func: &Func,
        values: Vec<HostValue>,
        place: Option<&Name>,
        span: Option<Span>,
    ) -> Res<()> {
        let sig = loops::prim_sig(func)?;
        let mut flat = Vec::new();
        for value in values {
            // A shape argument is one scalar an extent.
            match value {
                HostValue::Shape(dims) => {
                    for dim in dims {
                        let v = self.lower.extent(dim);
                        flat.push(HostValue::Scalar(Val {
                            v,
                            dtype: DType::I64,
                        }));
                    }
                }
                other => other.flatten(&mut flat),
            }
        }
        if flat.len() != sig.params.len() {
            return Err(unsupported(
                span,
                format!(
                    "`{}` takes {} values, not {}",
                    func.name,
                    sig.params.len(),
                    flat.len()
                ),
            ));
        }
        let mut args = Vec::new();
        let mut dims: BTreeMap<Name, Value> = BTreeMap::new();
        let mut compound = Vec::new();
        for ((name, param), value) in sig.params.iter().zip(flat) {
            match param {
                PrimParam::Scalar(dtype) => args.push(self.scalar_arg(value, *dtype, span)?),
                PrimParam::Buffer(decl) => {
                    let tensor = self.as_tensor(value, span)?;
                    if tensor.dims.len() != decl.shape.len() || tensor.dtype != decl.dtype {
                        return Err(unsupported(
                            span,
                            format!("`{name}` of `{}` is another kind of tensor", func.name),
                        ));
                    }
                    for (expr, &dim) in decl.shape.iter().zip(&tensor.dims) {
                        self.bind_dim(expr, dim, &mut dims, &mut compound)?;
                    }
                    if let Some(sym) = decl.elem_offset.as_ref().and_then(Expr::as_name) {
                        let zero = self.lower.i64(0);
                        dims.entry(sym.clone()).or_insert(zero);
                    }
                    if let Some(strides) = &decl.strides {
                        let real = self.lower.row_major(&tensor.dims);
                        for (expr, stride) in strides.iter().zip(real) {
                            self.bind_dim(expr, stride, &mut dims, &mut compound)?;
                        }
                    }
                    args.push(tensor.data);
                }
            }
        }
        for (dim, value) in compound {
            self.solve_dim(&dim, value, &mut dims);
        }
        let mut sizes = Vec::new();
        for sym in &sig.dims {
            let value = dims.get(sym).copied().ok_or_else(|| {
                unsupported(
                    span,
                    format!("dim `{sym}` of `{}` follows from no argument", func.name),
                )
            })?;
            sizes.push(value);
        }
        args.extend(&sizes);
        let id = loops::declare(self.lower.asm, func)?;
        let hook = match self.program.module.attr(PROFILE) {
            Some(_) => {
                let scalars = sig
                    .params
                    .iter()
                    .zip(&args)
                    .filter_map(|((name, param), &value)| {
                        matches!(param, PrimParam::Scalar(DType::I64)).then_some((name, value))
                    });
                let symbols = sig.dims.iter().zip(sizes).chain(scalars).collect();
                Some(self.profile_args(func, place, symbols)?)
            }
            None => None,
        };
        self.call_hook(hook.as_deref(), 0)?;
        let status = self.lower.call(id, &args);
        self.lower.check_status(status);
        self.call_hook(hook.as_deref(), 1)
    }

    /// What the profile's hook is told of a call, but for the phase.
    fn profile_args(
        &mut self,
        func: &Func,
        place: Option<&Name>,
        symbols: Vec<(&Name, Value)>,
    ) -> Res<Vec<Value>> {
        let place = match place {
            Some(tensor) => format!("{}/{tensor}", self.func),
            None => self.func.to_string(),
        };
        let (names, sizes): (Vec<&str>, Vec<Value>) = symbols
            .into_iter()
            .map(|(name, size)| (name.as_str(), size))
            .unzip();
        Ok(vec![
            self.lower.text(&func.name)?,
            self.lower.text(&place)?,
            self.lower.text(&names.join(","))?,
            self.lower.stack_array(&sizes),
        ])
    }

    fn call_hook(&mut self, args: Option<&[Value]>, phase: i64) -> Res<()> {
        if let Some(args) = args {
            let mut args = args.to_vec();
            args.push(self.lower.i64(phase));
            self.lower
                .call_runtime("irc_profile", &[I64; 5], &[], &args)?;
        }
        Ok(())
    }

    /// Notes what an extent says about the callee's symbols.
    fn bind_dim(
        &mut self,
        expr: &Expr,
        extent: Extent,
        dims: &mut BTreeMap<Name, Value>,
        compound: &mut Vec<(Dim, Extent)>,
    ) -> Res<()> {
        let dim = Dim::from_expr(expr)?;
        if let Some(sym) = dim.as_sym() {
            let value = self.lower.extent(extent);
            dims.entry(sym.clone()).or_insert(value);
        } else if dim.as_int().is_none() {
            compound.push((dim, extent));
        }
        Ok(())
    }

    /// Finds the one unknown symbol of a linear dim.
    fn solve_dim(&mut self, dim: &Dim, extent: Extent, dims: &mut BTreeMap<Name, Value>) {
        let mut unknown = dim
            .symbols()
            .into_iter()
            .filter(|sym| !dims.contains_key(sym));
        let (Some(sym), None) = (unknown.next(), unknown.next()) else {
            return;
        };
        if dim.symbols().len() != 1 {
            return;
        }
        let at = |value: i64| dim.eval(&|name| (*name == sym).then_some(value));
        let (Some(zero), Some(one), Some(two)) = (at(0), at(1), at(2)) else {
            return;
        };
        let slope = one - zero;
        if slope <= 0 || two - one != slope {
            return;
        }
        let value = self.lower.extent(extent);
        let rest = self.lower.b.ins().iadd_imm_s(value, -zero);
        let slope = self.lower.i64(slope);
        let solved = self.lower.b.ins().sdiv(rest, slope);
        dims.insert(sym, solved);
    }

    /// A scalar in the type that a prim_func takes it in; the one element of a tensor serves too.
    fn scalar_arg(&mut self, value: HostValue, dtype: DType, span: Option<Span>) -> Res<Value> {
        let val = match value {
            HostValue::Scalar(val) => val,
            other => {
                let tensor = self.as_tensor(other, span)?;
                let zero = self.lower.i64(0);
                self.load_element(&tensor, zero, span)?
            }
        };
        let v = cast::cast(&mut self.lower.b, val.v, val.dtype, dtype);
        let passed = match loops::argument_type(dtype) {
            F64 => DType::F64,
            F32 => DType::F32,
            I32 => DType::I32,
            _ => return Ok(v),
        };
        Ok(cast::cast(&mut self.lower.b, v, dtype, passed))
    }

    /// Goes on in the version of a function that is made for its sizes, if there is one.
    pub fn go_to_version(&mut self, func: &Func, args: Value) -> Res<()> {
        for (version, sizes) in versions_of(func) {
            let is_there = self.program.module.find_func(&version).is_some();
            if !is_there || sizes.is_empty() {
                let message = format!("`{}` has no version `{version}`", func.name);
                return Err(unsupported(func.name_span, message));
            }
            let (here, next) = (self.lower.b.create_block(), self.lower.b.create_block());
            let mut fits = self.lower.b.ins().iconst(I8, 1);
            for (name, size) in sizes {
                let value = self.extent(&Expr::name(&name))?;
                let value = self.lower.extent(value);
                let size = self.lower.i64(size);
                let same = self.lower.b.ins().icmp(IntCC::Equal, value, size);
                fits = self.lower.b.ins().band(fits, same);
            }
            self.lower.b.ins().brif(fits, here, &[], next, &[]);
            self.lower.b.switch_to_block(here);
            self.lower.b.seal_block(here);
            let id = super::declare(self.lower.asm, &version, Form::Entry)?;
            let status = self.lower.call(id, &[self.call, args]);
            let exit = self.lower.exit;
            self.lower.b.ins().jump(exit, &[BlockArg::from(status)]);
            self.lower.b.switch_to_block(next);
            self.lower.b.seal_block(next);
        }
        Ok(())
    }

    /// Calls the inner form of a graph function.
    fn call_graph(&mut self, func: &Func, expr: &Expr) -> Res<HostValue> {
        let span = expr.span;
        let values: Vec<HostValue> = expr
            .positional()
            .map(|arg| self.value(arg, None))
            .collect::<Res<_>>()?;
        let n_inputs = super::num_input(func).min(values.len());
        let mut records = Vec::new();
        for (idx, value) in values.into_iter().enumerate().take(n_inputs) {
            let ty = match func.params.get(idx) {
                Some(_) => self.param_type(func, idx).unwrap_or(Type::Any),
                None => return Err(unsupported(span, "this call passes too many values")),
            };
            let value = self.coerce(value, &ty, span)?;
            let (data, shape) = self.argument(value, &ty, span)?;
            records.push(data);
            records.push(shape);
        }
        let ty = self.return_type(func, span)?;
        let mut leaves = Vec::new();
        flatten_type(&ty, &mut leaves).ok_or_else(|| {
            unsupported(
                span,
                format!("the type of what `{}` returns is not known", func.name),
            )
        })?;
        let n_words: usize = leaves.iter().map(Leaf::words).sum();
        let args = self.lower.stack_array(&records);
        let slot = self.lower.stack(8 * n_words as u32, 8);
        let results = self.lower.b.ins().stack_addr(I64, slot, 0);
        let id = super::declare(self.lower.asm, &func.name, Form::Inner)?;
        let status = self.lower.call(id, &[self.call, args, results]);
        self.lower.check_status(status);
        let mut at = 0;
        Ok(self.read_results(&ty, results, &mut at))
    }

    /// The type of what a graph function returns.
    pub fn return_type(&self, func: &Func, span: Option<Span>) -> Res<Type> {
        let known = self
            .program
            .info
            .funcs
            .get(&func.name)
            .and_then(|info| info.ret.clone());
        if let Some(ty) = known.filter(|ty| !matches!(ty, Type::Error | Type::Any)) {
            return Ok(ty);
        }
        match &func.ret {
            Some(expr) => type_from_expr(expr),
            None => Err(unsupported(
                span,
                format!("`{}` has no result type", func.name),
            )),
        }
    }

    fn read_results(&mut self, ty: &Type, results: Value, at: &mut i32) -> HostValue {
        if let Type::Tuple(items) = ty {
            return HostValue::Tuple(
                items
                    .iter()
                    .map(|item| self.read_results(item, results, at))
                    .collect(),
            );
        }
        let value = self.load_value(ty, results, *at);
        let mut leaves = Vec::new();
        if flatten_type(ty, &mut leaves).is_some() {
            *at += 8 * leaves.iter().map(Leaf::words).sum::<usize>() as i32;
        }
        value
    }

    /// The value of a type whose words stand at a place.
    pub fn load_value(&mut self, ty: &Type, base: Value, at: i32) -> HostValue {
        let flags = MemFlagsData::trusted();
        let word = |host: &mut Self, at: i32| host.lower.b.ins().load(I64, flags, base, at);
        match ty {
            ty if is_object(ty) => HostValue::Object {
                object: word(self, at),
                ty: ty.clone(),
            },
            Type::Tensor(tensor) => {
                let data = word(self, at);
                let dims = (0..tensor.ndim.unwrap_or(0))
                    .map(|axis| Extent::Run(word(self, at + 8 * (1 + axis as i32))))
                    .collect();
                HostValue::Tensor(HostTensor {
                    data,
                    dtype: tensor.dtype.unwrap_or(DType::F32),
                    dims,
                })
            }
            Type::Scalar(dtype) => HostValue::Tensor(HostTensor {
                data: word(self, at),
                dtype: *dtype,
                dims: Vec::new(),
            }),
            Type::Shape(dims) => {
                let data = word(self, at);
                let n_dims = dims.as_ref().map_or(0, Vec::len);
                let dims = (0..n_dims)
                    .map(|idx| {
                        Extent::Run(self.lower.b.ins().load(I64, flags, data, 8 * idx as i32))
                    })
                    .collect();
                HostValue::Shape(dims)
            }
            Type::Seq(_)
            | Type::Opt(_)
            | Type::Tuple(_)
            | Type::Func(..)
            | Type::Str
            | Type::DTypeValue
            | Type::Any
            | Type::Void
            | Type::Error => HostValue::Nothing,
        }
    }

    /// `data` and `shape` of one argument of a graph function, whose parameter has a type.
    pub fn argument(
        &mut self,
        value: HostValue,
        ty: &Type,
        span: Option<Span>,
    ) -> Res<(Value, Value)> {
        let zero = self.lower.i64(0);
        match value {
            HostValue::Object { object, .. } => Ok((object, zero)),
            HostValue::Scalar(val) if matches!(ty, Type::Scalar(_)) => {
                let bits = if val.dtype.is_float() {
                    let double = cast::cast(&mut self.lower.b, val.v, val.dtype, DType::F64);
                    self.lower.b.ins().bitcast(I64, MemFlagsData::new(), double)
                } else {
                    cast::cast(&mut self.lower.b, val.v, val.dtype, DType::I64)
                };
                Ok((bits, zero))
            }
            other if matches!(ty, Type::Scalar(_)) => {
                let tensor = self.as_tensor(other, span)?;
                let zero = self.lower.i64(0);
                let val = self.load_element(&tensor, zero, span)?;
                self.argument(HostValue::Scalar(val), ty, span)
            }
            HostValue::Shape(dims) if matches!(ty, Type::Shape(_)) => {
                let values: Vec<Value> = dims.iter().map(|&dim| self.lower.extent(dim)).collect();
                Ok((zero, self.lower.stack_array(&values)))
            }
            other => {
                let tensor = self.as_tensor(other, span)?;
                let values: Vec<Value> = tensor
                    .dims
                    .iter()
                    .map(|&dim| self.lower.extent(dim))
                    .collect();
                Ok((tensor.data, self.lower.stack_array(&values)))
            }
        }
    }
}

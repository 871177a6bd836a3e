//! Statements and values of planned graph functions.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, Value};
use irc_syntax::{DType, Expr, ExprKind, Name, Span, Stmt, StmtKind};

use super::object::is_object;
use super::{Host, HostTensor, HostValue};
use crate::check::prim::Prim;
use crate::check::{Type, type_from_expr};
use crate::codegen::arith::Val;
use crate::codegen::cast;
use crate::codegen::lower::{Binding, Extent, Res, unsupported};
use crate::tensor::parse_const;

impl Host<'_, '_, '_> {
    /// Lowers statements in order.
    pub fn statements(&mut self, stmts: &[Stmt]) -> Res<()> {
        for stmt in stmts {
            if self.returned {
                return Ok(());
            }
            let outer = self.lower.at_line_of(stmt);
            self.statement(stmt)?;
            self.lower.b.set_srcloc(outer);
        }
        Ok(())
    }

    fn statement(&mut self, stmt: &Stmt) -> Res<()> {
        match &stmt.kind {
            StmtKind::Assign { target, value, .. } => self.assign(target, value),
            StmtKind::Expr(expr) => self.effect(expr),
            StmtKind::If {
                cond, then, orelse, ..
            } => self.branch(cond, then, orelse, stmt.span),
            StmtKind::With { body, .. } => self.statements(body),
            StmtKind::Return(value) => self.return_value(value.as_ref(), stmt.span),
            StmtKind::Assert { cond, message } => {
                let cond = self.lower.condition(cond)?;
                let text = message.as_ref().and_then(Expr::as_str);
                let text = text.unwrap_or("an assertion of the model does not hold");
                self.lower.require(cond, "RuntimeError", text)
            }
            StmtKind::Pass | StmtKind::Declare { .. } | StmtKind::Import(_) => Ok(()),
            StmtKind::For { .. }
            | StmtKind::While { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Func(_)
            | StmtKind::Error => Err(unsupported(
                stmt.span,
                "this statement cannot be compiled at the graph level",
            )),
        }
    }

    fn assign(&mut self, target: &Expr, value: &Expr) -> Res<()> {
        if is_declaration(value) {
            return Ok(());
        }
        if let Some(name) = target.as_name() {
            // `cls = Module`
            if value.as_name().is_some_and(|value| {
                !self.values.contains_key(value) && self.program.module.name.as_ref() == Some(value)
            }) {
                return Ok(());
            }
            let value = self.value(value, Some(name))?;
            self.bind(name, value);
            return Ok(());
        }
        let names = target
            .as_items()
            .ok_or_else(|| unsupported(target.span, "this cannot be assigned to"))?;
        let HostValue::Tuple(items) = self.value(value, None)? else {
            return Err(unsupported(value.span, "this value has no members"));
        };
        if items.len() != names.len() {
            return Err(unsupported(
                target.span,
                "the number of names does not match",
            ));
        }
        for (name, item) in names.iter().zip(items) {
            if let Some(name) = name.as_name() {
                self.bind(name, item);
            }
        }
        Ok(())
    }

    /// Gives a name its value, and the symbols of its type theirs.
    fn bind(&mut self, name: &Name, value: HostValue) {
        if let Some(ty) = self.known_type(name) {
            self.bind_new_symbols(&value, &ty);
        }
        if let HostValue::Scalar(val) = &value {
            self.bind_scalar(name, *val);
        }
        self.values.insert(name.clone(), value);
    }

    /// What the checker says of a name.
    pub(super) fn known_type(&self, name: &Name) -> Option<Type> {
        self.program
            .info
            .funcs
            .get(&self.func)?
            .vars
            .get(name)
            .cloned()
    }

    /// Binds symbols that a type brings in: the sizes of results that depend on values.
    fn bind_new_symbols(&mut self, value: &HostValue, ty: &Type) {
        match (value, ty) {
            (HostValue::Tensor(tensor), Type::Tensor(ty)) => {
                let shape = ty.shape.as_deref().unwrap_or_default();
                for (&dim, known) in tensor.dims.iter().zip(shape) {
                    self.bind_new_symbol(dim, known);
                }
            }
            (HostValue::Shape(dims), Type::Shape(Some(known))) => {
                for (&dim, known) in dims.iter().zip(known) {
                    self.bind_new_symbol(dim, known);
                }
            }
            (HostValue::Tuple(items), Type::Tuple(types)) => {
                for (item, ty) in items.iter().zip(types) {
                    self.bind_new_symbols(item, ty);
                }
            }
            _ => {}
        }
    }

    fn bind_new_symbol(&mut self, dim: Extent, known: &crate::shape::Dim) {
        if let Some(name) = known.as_sym()
            && !self.lower.scope.contains_key(name)
        {
            let v = self.lower.extent(dim);
            self.bind_symbol(name, v);
        }
    }

    /// Makes a scalar known to dim expressions.
    fn bind_scalar(&mut self, name: &Name, val: Val) {
        let binding = if val.dtype == DType::I64 {
            Binding::Index {
                v: val.v,
                dtype: val.dtype,
                natural: false,
            }
        } else {
            Binding::Value(val)
        };
        self.lower.scope.insert(name.clone(), binding);
    }

    /// A call for its effect.
    fn effect(&mut self, expr: &Expr) -> Res<()> {
        let Some((path, _)) = expr.as_call() else {
            return Ok(());
        };
        match &*path {
            "R.func_attr"
            | "R.output"
            | "R.print"
            | "R.vm.kill_object"
            | "R.memory.kill_tensor"
            | "R.memory.kill_storage" => Ok(()),
            "R.assert_op" => {
                let cond = expr
                    .positional()
                    .next()
                    .ok_or_else(|| unsupported(expr.span, "`R.assert_op` needs a condition"))?;
                let value = self.value(cond, None)?;
                let cond = self.truth(value, cond.span)?;
                let text = expr.keyword("format").and_then(|arg| match arg.as_call() {
                    Some((_, args)) => args.first().and_then(|arg| arg.value.as_str()),
                    None => arg.as_str(),
                });
                let text = text
                    .unwrap_or("an assertion of the model does not hold")
                    .to_owned();
                self.lower.require(cond, "AssertionError", &text)
            }
            _ => self.value(expr, None).map(|_| ()),
        }
    }

    /// The value of an expression; `name` is what it is bound to.
    pub fn value(&mut self, expr: &Expr, name: Option<&Name>) -> Res<HostValue> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Name(source) => self.named(source, span),
            ExprKind::Tuple { items, .. } => {
                let items = items
                    .iter()
                    .map(|item| self.value(item, None))
                    .collect::<Res<_>>()?;
                Ok(HostValue::Tuple(items))
            }
            ExprKind::Index { value, index } => self.member(value, index, span),
            ExprKind::Call { .. } => self.call_value(expr, name),
            ExprKind::Str(_) | ExprKind::None => Ok(HostValue::Nothing),
            _ => self.scalar(expr),
        }
    }

    fn scalar(&mut self, expr: &Expr) -> Res<HostValue> {
        // A plain integer of the graph level is an int64.
        if let Some(value) = expr.as_int() {
            let v = self.lower.i64(value as i64);
            return Ok(HostValue::Scalar(Val {
                v,
                dtype: DType::I64,
            }));
        }
        Ok(HostValue::Scalar(self.lower.value(expr)?))
    }

    fn named(&mut self, name: &Name, span: Option<Span>) -> Res<HostValue> {
        if let Some(value) = self.values.get(name) {
            return Ok(value.clone());
        }
        match self.lower.scope.get(name) {
            Some(Binding::Index { v, dtype, .. }) => Ok(HostValue::Scalar(Val {
                v: *v,
                dtype: *dtype,
            })),
            Some(Binding::Value(val)) => Ok(HostValue::Scalar(*val)),
            _ => Err(unsupported(
                span,
                format!("`{name}` is not known to code generation"),
            )),
        }
    }

    fn member(&mut self, value: &Expr, index: &[Expr], span: Option<Span>) -> Res<HostValue> {
        let owner = self.value(value, None)?;
        let at = match index {
            [idx] => idx.as_int().and_then(|idx| usize::try_from(idx).ok()),
            _ => None,
        };
        match (owner, at) {
            (HostValue::Tuple(items), Some(at)) => items
                .get(at)
                .cloned()
                .ok_or_else(|| unsupported(span, format!("there is no member {at}"))),
            (HostValue::Shape(dims), Some(at)) => {
                let dim = *dims
                    .get(at)
                    .ok_or_else(|| unsupported(span, format!("there is no dim {at}")))?;
                let v = self.lower.extent(dim);
                Ok(HostValue::Scalar(Val {
                    v,
                    dtype: DType::I64,
                }))
            }
            (HostValue::Tensor(tensor), _) => self.read_element(&tensor, index, span),
            _ => Err(unsupported(span, "this value has no members")),
        }
    }

    /// `t[i]`, `t[()]`: one element of a small tensor, read at run time.
    fn read_element(
        &mut self,
        tensor: &HostTensor,
        index: &[Expr],
        span: Option<Span>,
    ) -> Res<HostValue> {
        if index.len() != tensor.dims.len() {
            return Err(unsupported(
                span,
                "an element is read with one index an axis",
            ));
        }
        let strides = self.lower.row_major(&tensor.dims);
        let mut at = self.lower.i64(0);
        for (idx, stride) in index.iter().zip(strides) {
            let idx = self.extent(idx)?;
            let term = self.lower.extent_mul(idx, stride);
            let term = self.lower.extent(term);
            at = self.lower.b.ins().iadd(at, term);
        }
        Ok(HostValue::Scalar(self.load_element(tensor, at, span)?))
    }

    /// The element of a number.
    pub fn load_element(&mut self, tensor: &HostTensor, at: Value, span: Option<Span>) -> Res<Val> {
        let ty = self.lower.memory(tensor.dtype, span)?;
        let size = self.lower.i64(i64::from(ty.bytes()));
        let offset = self.lower.b.ins().imul(at, size);
        let address = self.lower.b.ins().iadd(tensor.data, offset);
        let raw = self
            .lower
            .b
            .ins()
            .load(ty, MemFlagsData::trusted(), address, 0);
        let v = cast::from_memory(&mut self.lower.b, raw, tensor.dtype);
        Ok(Val {
            v,
            dtype: tensor.dtype,
        })
    }

    fn call_value(&mut self, expr: &Expr, name: Option<&Name>) -> Res<HostValue> {
        let span = expr.span;
        let (path, _) = expr
            .as_call()
            .ok_or_else(|| unsupported(span, "this callee cannot be compiled"))?;
        let args: Vec<&Expr> = expr.positional().collect();
        let arg = |idx: usize| {
            args.get(idx)
                .copied()
                .ok_or_else(|| unsupported(span, format!("`{path}` needs more arguments")))
        };
        match &*path {
            "R.memory.alloc_storage" => self.alloc_storage(expr, name),
            "R.memory.alloc_tensor" => {
                let storage = self.value(arg(0)?, None)?;
                let HostValue::Storage(base) = storage else {
                    return Err(unsupported(span, "tensors are placed in storages"));
                };
                let offset = self.extent(arg(1)?)?;
                let dims = self.extents(arg(2)?)?;
                let dtype = self.graph_dtype(arg(3)?)?;
                let offset = self.lower.extent(offset);
                let data = self.lower.b.ins().iadd(base, offset);
                Ok(HostValue::Tensor(HostTensor { data, dtype, dims }))
            }
            "R.builtin.alloc_tensor" => {
                let dims = self.extents(arg(0)?)?;
                let dtype = self.graph_dtype(arg(1)?)?;
                let data = self.alloc_bound(name, None, dtype, &dims)?;
                Ok(HostValue::Tensor(HostTensor { data, dtype, dims }))
            }
            "R.reshape" => self.reshape(arg(0)?, expr.keyword("shape").map_or_else(|| arg(1), Ok)?),
            "R.call_tir" => self.call_tir(expr, name),
            "R.call_tir_inplace" => self.call_tir_inplace(expr),
            "R.const" => self.constant(expr),
            "R.shape" => Ok(HostValue::Shape(self.extents(expr)?)),
            "R.tuple" => Ok(HostValue::Tuple(
                args.iter()
                    .map(|item| self.value(item, None))
                    .collect::<Res<_>>()?,
            )),
            "R.shape_of" => {
                let value = self.value(arg(0)?, None)?;
                Ok(HostValue::Shape(self.as_tensor(value, span)?.dims))
            }
            "R.shape_to_tensor" => {
                let value = self.value(arg(0)?, None)?;
                Ok(HostValue::Tensor(self.as_tensor(value, span)?))
            }
            "R.tensor_to_shape" => self.tensor_to_shape(arg(0)?),
            "R.match_cast" => self.match_cast(arg(0)?, arg(1)?),
            "R.prim_value" | "R.dataflow_identity" => self.value(arg(0)?, name),
            "R.str" | "R.dtype" | "R.null_value" => Ok(HostValue::Nothing),
            "R.nonzero" => self.nonzero(arg(0)?, span),
            "R.unique" => {
                let keys = [
                    "sorted",
                    "return_index",
                    "return_inverse",
                    "return_counts",
                    "axis",
                ];
                let mut flags = [None; 5];
                for (at, key) in keys.into_iter().enumerate() {
                    flags[at] = expr.keyword(key).or(args.get(at + 1).copied());
                }
                self.unique(arg(0)?, &flags, span)
            }
            "R.call_pure_packed" | "R.call_packed" => self.call_packed(&args, span),
            "I.while_loop" => self.while_loop(expr),
            path => match Prim::find(path) {
                Some(Prim::Text(op)) => self.text(op, expr),
                Some(Prim::DecodeImage) => self.decode_image(expr),
                Some(found) if found.is_control() => self.object_prim(found, expr, name),
                _ => self.call_other(expr, path, name),
            },
        }
    }

    /// Functions of TVM's runtime that its texts call by name.
    fn call_packed(&mut self, args: &[&Expr], span: Option<Span>) -> Res<HostValue> {
        let symbol = args
            .first()
            .and_then(|arg| arg.as_str())
            .unwrap_or_default();
        match (symbol, &args[args.len().min(1)..]) {
            ("vm.builtin.tensor_to_shape", [tensor]) => self.tensor_to_shape(tensor),
            ("relax.run.nonzero", [x]) => self.nonzero(x, span),
            ("relax.run.unique", [x, flags @ ..]) => {
                let flag = |at: usize| flags.get(at).copied();
                self.unique(x, &[flag(0), flag(1), flag(2), flag(3), flag(4)], span)
            }
            ("vm.builtin.reshape", [x, shape]) => self.reshape(x, shape),
            _ => Err(unsupported(
                span,
                format!("there is no packed function `{symbol}`"),
            )),
        }
    }

    fn alloc_storage(&mut self, expr: &Expr, name: Option<&Name>) -> Res<HostValue> {
        let placed = name.and_then(|name| self.storages.get(name)).copied();
        if let (Some(offset), Some(base)) = (placed, self.workspace) {
            let offset = self.lower.extent(offset);
            return Ok(HostValue::Storage(self.lower.b.ins().iadd(base, offset)));
        }
        let shape = expr
            .positional()
            .next()
            .ok_or_else(|| unsupported(expr.span, "a storage needs a size"))?;
        let dims = self.extents(shape)?;
        Ok(HostValue::Storage(self.alloc(DType::U8, &dims)?))
    }

    /// `"float32"`, `R.dtype("float32")`
    fn graph_dtype(&self, expr: &Expr) -> Res<DType> {
        match expr.as_call() {
            Some((path, args)) if path == "R.dtype" => match args.first() {
                Some(arg) => self.lower.dtype_of(&arg.value),
                None => Err(unsupported(expr.span, "this is not an element type")),
            },
            _ => self.lower.dtype_of(expr),
        }
    }

    /// The same bytes in another shape; one extent may be -1.
    fn reshape(&mut self, x: &Expr, shape: &Expr) -> Res<HostValue> {
        let value = self.value(x, None)?;
        let tensor = self.as_tensor(value, x.span)?;
        let mut dims = self.extents(shape)?;
        if let Some(at) = dims.iter().position(|dim| *dim == Extent::Const(-1)) {
            let others: Vec<Extent> = dims
                .iter()
                .copied()
                .filter(|dim| *dim != Extent::Const(-1))
                .collect();
            let whole = self.lower.product(&tensor.dims);
            let part = self.lower.product(&others);
            dims[at] = match (whole, part) {
                (Extent::Const(whole), Extent::Const(part)) if part != 0 => {
                    Extent::Const(whole / part)
                }
                _ => {
                    let (whole, part) = (self.lower.extent(whole), self.lower.extent(part));
                    Extent::Run(crate::codegen::arith::index_div(
                        &mut self.lower.b,
                        whole,
                        part,
                        None,
                    ))
                }
            };
        }
        self.require_same_size(&tensor.dims, &dims)?;
        Ok(HostValue::Tensor(HostTensor { dims, ..tensor }))
    }

    /// A view must not reach beyond its tensor; sizes that are known are the checker's business.
    fn require_same_size(&mut self, from: &[Extent], to: &[Extent]) -> Res<()> {
        let (from, to) = (self.lower.product(from), self.lower.product(to));
        if let (Extent::Const(a), Extent::Const(c)) = (from, to)
            && a == c
        {
            return Ok(());
        }
        let (from, to) = (self.lower.extent(from), self.lower.extent(to));
        let same = self.lower.b.ins().icmp(IntCC::Equal, from, to);
        self.lower.require(
            same,
            "ValueError",
            "a reshape changes the number of elements",
        )
    }

    fn constant(&mut self, expr: &Expr) -> Res<HostValue> {
        let (_, args) = expr
            .as_call()
            .ok_or_else(|| unsupported(expr.span, "this is not a constant"))?;
        let tensor =
            parse_const(args).map_err(|fault| unsupported(expr.span, fault.to_string()))?;
        let data = match &tensor.strings {
            Some(strings) => self.lower.string_table(strings)?,
            None => self.lower.constant(&tensor.data)?,
        };
        let dims = tensor
            .shape
            .iter()
            .map(|&extent| Extent::Const(extent as i64))
            .collect();
        Ok(HostValue::Tensor(HostTensor {
            data,
            dtype: tensor.dtype,
            dims,
        }))
    }

    /// The elements of an integer tensor of rank 0 or 1 as extents. Its length has to be known.
    fn tensor_to_shape(&mut self, expr: &Expr) -> Res<HostValue> {
        let value = self.value(expr, None)?;
        if let HostValue::Shape(dims) = value {
            return Ok(HostValue::Shape(dims));
        }
        let tensor = self.as_tensor(value, expr.span)?;
        let len = match tensor.dims.as_slice() {
            [] => 1,
            [Extent::Const(len)] => *len,
            _ => {
                return Err(unsupported(
                    expr.span,
                    "a shape is made of a tensor whose length is known",
                ));
            }
        };
        let mut dims = Vec::new();
        for at in 0..len {
            let at = self.lower.i64(at);
            let val = self.load_element(&tensor, at, expr.span)?;
            dims.push(Extent::Run(cast::cast(
                &mut self.lower.b,
                val.v,
                val.dtype,
                DType::I64,
            )));
        }
        Ok(HostValue::Shape(dims))
    }

    /// Binds symbols that have no value yet and checks what has one.
    fn match_cast(&mut self, value: &Expr, ty: &Expr) -> Res<HostValue> {
        let held = self.value(value, None)?;
        let ty = type_from_expr(ty)?;
        // Dims that are written out have names for a message.
        let written = value
            .positional()
            .next()
            .filter(|_| value.is_call_of("R.shape"));
        let written = written.and_then(Expr::as_items).unwrap_or_default();
        self.match_type(held, &ty, written, value.span)
    }

    fn match_type(
        &mut self,
        held: HostValue,
        ty: &Type,
        written: &[Expr],
        span: Option<Span>,
    ) -> Res<HostValue> {
        match (held, ty) {
            (HostValue::Tensor(mut tensor), Type::Tensor(want)) => {
                if want.dtype.is_some_and(|dtype| dtype != tensor.dtype)
                    || want.ndim.is_some_and(|ndim| ndim != tensor.dims.len())
                {
                    return Err(unsupported(span, "the value never has this type"));
                }
                if let Some(shape) = &want.shape {
                    self.match_dims(&mut tensor.dims, shape, &[])?;
                }
                Ok(HostValue::Tensor(tensor))
            }
            (HostValue::Shape(mut dims), Type::Shape(want)) => {
                if let Some(want) = want {
                    if want.len() != dims.len() {
                        return Err(unsupported(span, "the value never has this type"));
                    }
                    self.match_dims(&mut dims, want, written)?;
                }
                Ok(HostValue::Shape(dims))
            }
            (HostValue::Tuple(items), Type::Tuple(types)) if items.len() == types.len() => {
                let items = items
                    .into_iter()
                    .zip(types)
                    .map(|(item, ty)| self.match_type(item, ty, &[], span))
                    .collect::<Res<_>>()?;
                Ok(HostValue::Tuple(items))
            }
            (held @ HostValue::Object { .. }, ty) => match self.coerce(held, ty, span)? {
                held @ HostValue::Object { .. } => Ok(held),
                // Its extents have not been looked at.
                tensor => self.match_type(tensor, ty, &[], span),
            },
            (held, _) => Ok(held),
        }
    }

    fn match_dims(
        &mut self,
        dims: &mut [Extent],
        want: &[crate::shape::Dim],
        written: &[Expr],
    ) -> Res<()> {
        for (axis, (dim, want)) in dims.iter_mut().zip(want).enumerate() {
            if let Some(name) = want.as_sym()
                && !self.lower.scope.contains_key(name)
            {
                let v = self.lower.extent(*dim);
                let zero = self.lower.i64(0);
                let natural = self
                    .lower
                    .b
                    .ins()
                    .icmp(IntCC::SignedGreaterThanOrEqual, v, zero);
                let text = format!("`{name}` is negative");
                self.lower.require(natural, "ValueError", &text)?;
                self.lower.scope.insert(
                    name.clone(),
                    Binding::Index {
                        v,
                        dtype: DType::I64,
                        natural: true,
                    },
                );
                continue;
            }
            let known = self.extent(&want.to_expr())?;
            if known == *dim {
                continue;
            }
            let (have, known_value) = (self.lower.extent(*dim), self.lower.extent(known));
            let same = self.lower.b.ins().icmp(IntCC::Equal, have, known_value);
            let text = match written.get(axis).filter(|have| have.as_int().is_none()) {
                Some(have) => super::object::not_equal(have, want),
                None => format!("an extent that has to be `{want}` is another number"),
            };
            self.lower.require(same, "ValueError", &text)?;
            *dim = known;
        }
        Ok(())
    }

    /// `if c: … else: …`; a name that both branches bind is the value.
    fn branch(
        &mut self,
        cond: &Expr,
        then: &[Stmt],
        orelse: &[Stmt],
        span: Option<Span>,
    ) -> Res<()> {
        let held = self.value(cond, None)?;
        let cond = self.truth(held, cond.span)?;
        let b = &mut self.lower.b;
        let (yes, no, join) = (b.create_block(), b.create_block(), b.create_block());
        let ends = [b.create_block(), b.create_block()];
        b.ins().brif(cond, yes, &[], no, &[]);
        let outer = (self.values.clone(), self.lower.scope.clone());
        let outputs = std::mem::take(&mut self.outputs);
        let mut inner = Vec::new();
        for (idx, (block, body)) in [(yes, then), (no, orelse)].into_iter().enumerate() {
            self.lower.b.switch_to_block(block);
            self.lower.b.seal_block(block);
            self.statements(body)?;
            if self.returned {
                return Err(unsupported(span, "a branch cannot return"));
            }
            self.describe_results(body, span)?;
            self.lower.b.ins().jump(ends[idx], &[]);
            self.lower.b.seal_block(ends[idx]);
            inner.push(std::mem::replace(&mut self.values, outer.0.clone()));
            self.lower.scope = outer.1.clone();
        }
        self.outputs = outputs;
        let (Some(second), Some(first)) = (inner.pop(), inner.pop()) else {
            return Ok(());
        };
        let mut args: [Vec<BlockArg>; 2] = [Vec::new(), Vec::new()];
        let mut merged = Vec::new();
        for (name, a) in &first {
            let Some(c) = second.get(name).filter(|c| outer.0.get(name) != Some(*c)) else {
                continue;
            };
            if let Some(value) = self.merge(a, c, join, &mut args)? {
                merged.push((name.clone(), value));
            }
        }
        for (end, args) in ends.into_iter().zip(&args) {
            self.lower.b.switch_to_block(end);
            self.lower.b.ins().jump(join, args);
        }
        self.lower.b.switch_to_block(join);
        self.lower.b.seal_block(join);
        self.values.extend(merged);
        Ok(())
    }

    /// Makes values of a branch that are described at run time behind it ones that are.
    fn describe_results(&mut self, body: &[Stmt], span: Option<Span>) -> Res<()> {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Assign { target, .. } => {
                    let Some(name) = target.as_name() else {
                        continue;
                    };
                    let ty = self.known_type(name).filter(is_object);
                    if let (Some(ty), Some(value)) = (ty, self.values.get(name).cloned()) {
                        let value = self.coerce(value, &ty, span)?;
                        self.values.insert(name.clone(), value);
                    }
                }
                StmtKind::With { body, .. } => self.describe_results(body, span)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// One value of two branches: what differs becomes a parameter of the join.
    fn merge(
        &mut self,
        a: &HostValue,
        c: &HostValue,
        join: cranelift_codegen::ir::Block,
        args: &mut [Vec<BlockArg>; 2],
    ) -> Res<Option<HostValue>> {
        Ok(match (a, c) {
            (HostValue::Tensor(a), HostValue::Tensor(c))
                if a.dtype == c.dtype && a.dims.len() == c.dims.len() =>
            {
                args[0].push(a.data.into());
                args[1].push(c.data.into());
                let data = self.lower.b.append_block_param(join, I64);
                let dims = self.merge_dims(&a.dims, &c.dims, join, args);
                Some(HostValue::Tensor(HostTensor {
                    data,
                    dtype: a.dtype,
                    dims,
                }))
            }
            (HostValue::Shape(a), HostValue::Shape(c)) if a.len() == c.len() => {
                Some(HostValue::Shape(self.merge_dims(a, c, join, args)))
            }
            (HostValue::Scalar(a), HostValue::Scalar(c)) if a.dtype == c.dtype => {
                args[0].push(a.v.into());
                args[1].push(c.v.into());
                let ty = cast::register_type(a.dtype).unwrap_or(I8);
                let v = self.lower.b.append_block_param(join, ty);
                Some(HostValue::Scalar(Val { v, dtype: a.dtype }))
            }
            (HostValue::Tuple(a), HostValue::Tuple(c)) if a.len() == c.len() => {
                let mut items = Vec::new();
                for (a, c) in a.iter().zip(c) {
                    let Some(item) = self.merge(a, c, join, args)? else {
                        return Ok(None);
                    };
                    items.push(item);
                }
                Some(HostValue::Tuple(items))
            }
            (HostValue::Nothing, HostValue::Nothing) => Some(HostValue::Nothing),
            (HostValue::Object { object: a, ty }, HostValue::Object { object: c, .. }) => {
                args[0].push((*a).into());
                args[1].push((*c).into());
                Some(HostValue::Object {
                    object: self.lower.b.append_block_param(join, I64),
                    ty: ty.clone(),
                })
            }
            _ => None,
        })
    }

    fn merge_dims(
        &mut self,
        a: &[Extent],
        c: &[Extent],
        join: cranelift_codegen::ir::Block,
        args: &mut [Vec<BlockArg>; 2],
    ) -> Vec<Extent> {
        let mut dims = Vec::with_capacity(a.len());
        for (&a, &c) in a.iter().zip(c) {
            if a == c {
                dims.push(a);
                continue;
            }
            for (args, extent) in args.iter_mut().zip([a, c]) {
                let value = match extent {
                    Extent::Const(value) => self.lower.early_i64(value),
                    Extent::Run(value) => value,
                };
                args.push(value.into());
            }
            dims.push(Extent::Run(self.lower.b.append_block_param(join, I64)));
        }
        dims
    }
}

/// `n = T.int64()`, `n = T.int64(min=1)`: declarations of dims.
fn is_declaration(value: &Expr) -> bool {
    (value.is_call_of("T.int64") || value.is_call_of("T.int32") || value.is_call_of("T.Var"))
        && value.positional().next().is_none()
}

//! Buffers: declaration, addresses, loads and stores.
//!
//! `T.Buffer`, `T.match_buffer`, `T.decl_buffer`, `T.alloc_buffer`, `T.sblock_alloc_buffer`, `T.alloc_local`. Without
//! strides a buffer is row-major. Local arrays of up to [`MAX_REGISTERS`] elements whose indices are all constants
//! after unrolling become variables; small static ones are on the stack, others on the heap.

use std::rc::Rc;

use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use irc_syntax::{DType, Expr, ExprKind, Name, Span};

use crate::codegen::arith::{Operand, Val};
use crate::codegen::cast;
use crate::codegen::expr::Index;
use crate::codegen::lower::{Binding, Buffer, Extent, Lower, Res, Storage, unsupported};
use crate::target::MAX_STACK_BUFFER;
use crate::tensor::parse_const_buffer;

/// The largest local array kept in variables.
pub const MAX_REGISTERS: i64 = 64;
/// Run-time extents of buffers that checked functions allocate are below this.
const MAX_CHECKED_EXTENT: i64 = 1 << 31;

/// The parts of a buffer's declaration.
pub struct BufferDecl {
    /// Extents.
    pub shape: Vec<Expr>,
    /// Element type.
    pub dtype: DType,
    /// Strides in elements.
    pub strides: Option<Vec<Expr>>,
    /// Where the first element is, in elements from the pointer.
    pub elem_offset: Option<Expr>,
    /// The pointer.
    pub data: Option<Expr>,
}

/// Reads `(shape, dtype, strides=, elem_offset=, data=)` of a declaring call; `skip` leading arguments are passed over.
pub fn read_decl(call: &Expr, skip: usize) -> Res<BufferDecl> {
    let fault = |what: &str| unsupported(call.span, format!("a buffer declaration {what}"));
    let positional: Vec<&Expr> = call.positional().skip(skip).collect();
    let shape_expr = call
        .keyword("shape")
        .or(positional.first().copied())
        .ok_or_else(|| fault("needs a shape"))?;
    let shape = match shape_expr.as_items() {
        Some(items) => items.to_vec(),
        None => vec![shape_expr.clone()],
    };
    let dtype_expr = call.keyword("dtype").or(positional.get(1).copied());
    let dtype = match dtype_expr {
        None => DType::F32,
        Some(expr) => {
            let text = match &expr.kind {
                ExprKind::Str(text) => text.clone(),
                _ => expr
                    .as_path()
                    .unwrap_or_default()
                    .trim_start_matches("T.")
                    .to_owned(),
            };
            DType::from_name(&text).ok_or_else(|| fault("has an unknown element type"))?
        }
    };
    let given = |key: &str| {
        call.keyword(key)
            .filter(|expr| expr.kind != ExprKind::None)
            .cloned()
    };
    let strides = given("strides")
        .and_then(|expr| expr.as_items().map(<[Expr]>::to_vec))
        .filter(|items| !items.is_empty());
    Ok(BufferDecl {
        shape,
        dtype,
        strides,
        elem_offset: given("elem_offset"),
        data: given("data"),
    })
}

impl Lower<'_, '_> {
    /// An extent expression; a compound dim may be quoted.
    pub fn extent_of(&mut self, expr: &Expr) -> Res<Extent> {
        if let ExprKind::Str(text) = &expr.kind {
            let inner = irc_syntax::parse_expr_str(text)
                .map_err(|_| unsupported(expr.span, format!("`{text}` is not a dim")))?;
            return self.extent_of(&inner);
        }
        let index = self.index(expr)?;
        if index.run.is_none() {
            return Ok(Extent::Const(index.add));
        }
        Ok(Extent::Run(self.index_value(index)))
    }

    /// Brings a buffer at a pointer into scope.
    pub fn bind_buffer(&mut self, name: &Name, decl: &BufferDecl, pointer: Value) -> Res<()> {
        let ty = self.memory(decl.dtype, None)?;
        let mut base = pointer;
        if let Some(offset) = &decl.elem_offset {
            let offset = self.extent_of(offset)?;
            let bytes = self.extent_mul(offset, Extent::Const(i64::from(ty.bytes())));
            if bytes != Extent::Const(0) {
                let bytes = self.extent(bytes);
                base = self.b.ins().iadd(base, bytes);
            }
        }
        self.bind_storage(name, decl, Storage::Memory(base))
    }

    fn bind_storage(&mut self, name: &Name, decl: &BufferDecl, storage: Storage) -> Res<()> {
        let mut shape = Vec::with_capacity(decl.shape.len());
        for extent in &decl.shape {
            shape.push(self.extent_of(extent)?);
        }
        let strides = match &decl.strides {
            None => self.row_major(&shape),
            Some(exprs) => {
                let mut strides = Vec::with_capacity(exprs.len());
                for stride in exprs {
                    strides.push(self.extent_of(stride)?);
                }
                strides
            }
        };
        let buffer = Buffer {
            dtype: decl.dtype,
            storage,
            shape_exprs: decl.shape.clone(),
            shape,
            strides,
            stride_exprs: decl.strides.clone(),
        };
        self.scope
            .insert(name.clone(), Binding::Buffer(Rc::new(buffer)));
        Ok(())
    }

    /// Allocates a buffer and brings it into scope; `registers` says that every index of it is a constant.
    pub fn alloc_buffer(&mut self, name: &Name, decl: &BufferDecl, registers: bool) -> Res<()> {
        let ty = self.memory(decl.dtype, None)?;
        let mut shape = Vec::new();
        for extent in &decl.shape {
            shape.push(self.extent_of(extent)?);
        }
        match self.product(&shape) {
            Extent::Const(len) if registers && (0..=MAX_REGISTERS).contains(&len) => {
                let register = self.register(decl.dtype, None)?;
                let vars: Rc<[_]> = (0..len).map(|_| self.b.declare_var(register)).collect();
                for &var in vars.iter() {
                    // What is read before it is written must be something.
                    let Some(zero) = cast::constant_int(&mut self.b, 0, decl.dtype) else {
                        break;
                    };
                    self.b.def_var(var, zero);
                }
                self.bind_storage(name, decl, Storage::Registers(vars))
            }
            Extent::Const(len) if len.saturating_mul(i64::from(ty.bytes())) <= MAX_STACK_BUFFER => {
                let bytes = len.max(0) * i64::from(ty.bytes());
                let slot = self.stack(bytes as u32, if bytes >= 16 { 16 } else { 8 });
                let base = self.b.ins().stack_addr(I64, slot, 0);
                self.bind_buffer(name, decl, base)
            }
            len => {
                for &extent in &shape {
                    // No product of two such extents wraps.
                    if let Extent::Run(extent) = extent {
                        let bound = self.i64(MAX_CHECKED_EXTENT);
                        self.check_below(extent, bound);
                    }
                }
                let bytes = self.extent_mul(len, Extent::Const(i64::from(ty.bytes())));
                let bytes = self.extent(bytes);
                let (pointer, _) = self.heap_alloc(bytes)?;
                self.bind_buffer(name, decl, pointer)
            }
        }
    }

    /// `t = T.allocate_const([1, 2, 3], "int32", [3])`: a buffer in read-only data.
    pub(super) fn constant_buffer(&mut self, name: &Name, call: &Expr) -> Res<()> {
        let tensor = parse_const_buffer(call)
            .map_err(|fault| unsupported(call.span, format!("`T.allocate_const`: {}", fault.0)))?;
        let decl = BufferDecl {
            shape: tensor
                .shape
                .iter()
                .map(|&dim| Expr::int(dim as i128))
                .collect(),
            dtype: tensor.dtype,
            strides: None,
            elem_offset: None,
            data: None,
        };
        let pointer = self.constant(&tensor.data)?;
        self.bind_buffer(name, &decl, pointer)
    }

    /// The pointer to the first element of a buffer.
    pub fn pointer_of(&mut self, name: &Name, span: Option<Span>) -> Res<Value> {
        match &self.buffer(name, span)?.storage {
            Storage::Memory(base) => Ok(*base),
            Storage::Registers(_) => Err(unsupported(
                span,
                format!("`{name}` is in registers and has no address"),
            )),
        }
    }

    /// The number of an element, split into a register and a constant.
    fn element(&mut self, buffer: &Buffer, index: &[Expr], span: Option<Span>) -> Res<Index> {
        if index.len() != buffer.strides.len() {
            return Err(unsupported(
                span,
                format!(
                    "{} indices for a buffer of rank {}",
                    index.len(),
                    buffer.strides.len()
                ),
            ));
        }
        let mut sum = Index {
            run: None,
            add: 0,
            natural: true,
        };
        for (axis, (idx, &stride)) in index.iter().zip(&buffer.strides).enumerate() {
            let position = self.index(idx)?;
            if self.checked.is_some()
                && let Some(&extent) = buffer.shape.get(axis)
            {
                self.check_index(position, extent);
            }
            let stride = match stride {
                Extent::Const(value) => Index {
                    run: None,
                    add: value,
                    natural: true,
                },
                Extent::Run(value) => Index {
                    run: Some(value),
                    add: 0,
                    natural: true,
                },
            };
            let term = self.index_mul(position, stride);
            sum.run = match (sum.run, term.run) {
                (Some(a), Some(c)) => Some(self.b.ins().iadd(a, c)),
                (a, c) => a.or(c),
            };
            sum.add = sum.add.wrapping_add(term.add);
        }
        Ok(sum)
    }

    fn check_index(&mut self, position: Index, extent: Extent) {
        if let (None, Extent::Const(extent)) = (position.run, extent)
            && (0..extent).contains(&position.add)
        {
            return;
        }
        let value = self.index_value(position);
        let bound = self.extent(extent);
        self.check_below(value, bound);
    }

    /// The address of an element: a register and a displacement.
    pub fn address(
        &mut self,
        name: &Name,
        index: &[Expr],
        span: Option<Span>,
    ) -> Res<(Value, i32, DType)> {
        let buffer = self.buffer(name, span)?;
        let base = self.pointer_of(name, span)?;
        let size = i64::from(self.memory(buffer.dtype, span)?.bytes());
        let element = self.element(&buffer, index, span)?;
        let mut address = base;
        if let Some(run) = element.run {
            let bytes = match size {
                1 => run,
                _ => self
                    .b
                    .ins()
                    .ishl_imm_u(run, i64::from(size.trailing_zeros())),
            };
            address = self.b.ins().iadd(base, bytes);
        }
        let displacement = element.add.wrapping_mul(size);
        if let Ok(small) = i32::try_from(displacement) {
            return Ok((address, small, buffer.dtype));
        }
        Ok((
            self.b.ins().iadd_imm_s(address, displacement),
            0,
            buffer.dtype,
        ))
    }

    fn register_idx(
        &mut self,
        name: &Name,
        buffer: &Buffer,
        index: &[Expr],
        span: Option<Span>,
    ) -> Res<usize> {
        let element = self.element(buffer, index, span)?;
        if element.run.is_some() || element.add < 0 {
            return Err(unsupported(
                span,
                format!("`{name}` is indexed by a run-time value"),
            ));
        }
        Ok(element.add as usize)
    }

    /// `name[index]`
    pub fn load(&mut self, name: &Name, index: &[Expr], span: Option<Span>) -> Res<Val> {
        if let Some((var, dtype)) = self.find_promoted(name, index) {
            return Ok(Val {
                v: self.b.use_var(var),
                dtype,
            });
        }
        let buffer = self.buffer(name, span)?;
        if let Storage::Registers(vars) = &buffer.storage {
            let idx = self.register_idx(name, &buffer, index, span)?;
            let var = *vars
                .get(idx)
                .ok_or_else(|| unsupported(span, format!("`{name}` has no element {idx}")))?;
            return Ok(Val {
                v: self.b.use_var(var),
                dtype: buffer.dtype,
            });
        }
        let (address, offset, dtype) = self.address(name, index, span)?;
        let ty = self.memory(dtype, span)?;
        let raw = self
            .b
            .ins()
            .load(ty, MemFlagsData::trusted(), address, offset);
        Ok(Val {
            v: cast::from_memory(&mut self.b, raw, dtype),
            dtype,
        })
    }

    /// `name[index] = value`
    pub fn store(
        &mut self,
        name: &Name,
        index: &[Expr],
        value: Operand,
        span: Option<Span>,
    ) -> Res<()> {
        if let Some((var, dtype)) = self.find_promoted(name, index) {
            let value = self.convert(value, dtype, span)?;
            self.b.def_var(var, value);
            return Ok(());
        }
        let buffer = self.buffer(name, span)?;
        let value = self.convert(value, buffer.dtype, span)?;
        if let Storage::Registers(vars) = &buffer.storage {
            let idx = self.register_idx(name, &buffer, index, span)?;
            let var = *vars
                .get(idx)
                .ok_or_else(|| unsupported(span, format!("`{name}` has no element {idx}")))?;
            self.b.def_var(var, value);
            return Ok(());
        }
        let (address, offset, dtype) = self.address(name, index, span)?;
        let raw = cast::to_memory(&mut self.b, value, dtype);
        self.b
            .ins()
            .store(MemFlagsData::trusted(), raw, address, offset);
        Ok(())
    }
}

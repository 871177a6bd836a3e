//! What lowering of either level works with: the function under construction, names in scope, runtime calls.

use std::collections::BTreeMap;
use std::rc::Rc;

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{
    self, Block, BlockArg, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind,
    Value,
};
use cranelift_frontend::{FunctionBuilder, Variable};
use cranelift_module::{FuncId, Linkage};
use irc_syntax::{DType, Diagnostic, Expr, Name, Span, Stmt};

use super::arith::{Operand, Val, to_index};
use super::object::Assembler;
use super::{Cpu, cast};

/// Lowering stops at the first thing it cannot do in a function.
pub type Res<T> = Result<T, Diagnostic>;

/// What code generation cannot do, at its place.
pub fn unsupported(span: Option<Span>, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error("unsupported-code", message).at(span, "")
}

/// Where the elements of a buffer are.
#[derive(Clone, Debug)]
pub enum Storage {
    /// Behind a pointer to the first element.
    Memory(Value),
    /// In one variable an element, for small local arrays with constant indices.
    Registers(Rc<[Variable]>),
}

/// A buffer in scope.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Element type.
    pub dtype: DType,
    /// Where it is.
    pub storage: Storage,
    /// Extents as written.
    pub shape_exprs: Vec<Expr>,
    /// Extents as constants or i64 registers.
    pub shape: Vec<Extent>,
    /// Strides in elements.
    pub strides: Vec<Extent>,
    /// Strides as written, where they are not row-major.
    pub stride_exprs: Option<Vec<Expr>>,
}

/// A number of elements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Extent {
    /// Known now.
    Const(i64),
    /// Known at run time, an i64.
    Run(Value),
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Binding {
    /// A value.
    Value(Val),
    /// An integer kept in 64 bits: loop variables, dims, block axes.
    Index {
        /// The i64.
        v: Value,
        /// Its dtype in the text.
        dtype: DType,
        /// Whether it is known not to be negative.
        natural: bool,
    },
    /// A number: variables of unrolled loops.
    Const(i64, DType),
    /// A scalar that is assigned to.
    Var(Variable, DType),
    /// A buffer.
    Buffer(Rc<Buffer>),
}

/// The block jumps of the loop around a statement.
#[derive(Clone, Copy)]
pub struct LoopExit {
    /// Where `break` goes.
    pub on_break: Block,
    /// Where `continue` goes.
    pub on_continue: Block,
}

/// A buffer element that lives in a variable while a reduction runs.
pub struct Promoted {
    /// The buffer's name.
    pub buffer: Name,
    /// The element, as written.
    pub index: Vec<Expr>,
    /// Where it lives.
    pub var: Variable,
    /// Its dtype.
    pub dtype: DType,
}

/// A function being lowered.
pub struct Lower<'a, 'f> {
    /// The object.
    pub asm: &'a mut Assembler,
    /// The body.
    pub b: FunctionBuilder<'f>,
    /// The symbol of the function.
    pub symbol: String,
    /// Names in scope.
    pub scope: BTreeMap<Name, Binding>,
    /// Answers the status: its parameter is an i32.
    pub exit: Block,
    /// Pointers to free before the function returns, null where there is none.
    pub heap: Vec<StackSlot>,
    /// Loops around.
    pub loops: Vec<LoopExit>,
    /// Reduction targets in registers.
    pub promoted: Vec<Promoted>,
    /// Whether this is the body of a parallel loop.
    pub in_parallel: bool,
    /// The block that runs once at the start.
    pub entry: Block,
    /// The first instruction of it.
    first: ir::Inst,
    /// Blocks whose `T.init` has been run before their reduction loops.
    pub skip_init: bool,
    /// Indices are checked against their axis, and this is the error for one outside (`irc.checked`).
    pub checked: Option<String>,
    /// Where such an index leads to.
    outside: Option<Block>,
}

impl<'a, 'f> Lower<'a, 'f> {
    /// Starts a body; the parameters of the entry block are those of the signature.
    pub fn new(asm: &'a mut Assembler, b: FunctionBuilder<'f>, symbol: &str) -> Self {
        let mut b = b;
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        let exit = b.create_block();
        b.append_block_param(exit, I32);
        b.switch_to_block(entry);
        b.seal_block(entry);
        let mark = b.ins().iconst(I64, 0);
        let first = b.func.dfg.value_def(mark).unwrap_inst();
        Self {
            asm,
            b,
            symbol: symbol.to_owned(),
            scope: BTreeMap::new(),
            exit,
            heap: Vec::new(),
            loops: Vec::new(),
            promoted: Vec::new(),
            in_parallel: false,
            entry,
            first,
            skip_init: false,
            checked: None,
            outside: None,
        }
    }

    /// The line that the code at hand belongs to.
    pub fn line(&self) -> Option<u32> {
        let place = self.b.srcloc();
        (!place.is_default()).then(|| place.bits())
    }

    /// Lets the code to come belong to the line of a statement; answers what it belonged to so far.
    pub fn at_line_of(&mut self, stmt: &Stmt) -> ir::SourceLoc {
        let outer = self.b.srcloc();
        if let Some(line) = self.asm.lines.line(stmt.span) {
            self.b.set_srcloc(ir::SourceLoc::new(line));
        }
        outer
    }

    /// Whether the target multiplies and adds in one instruction.
    pub fn fma(&self) -> bool {
        self.asm.cpu >= Cpu::V3
    }

    /// Ends the body: falls through with status 0, frees, returns.
    pub fn finish(mut self) -> Res<()> {
        let zero = self.b.ins().iconst(I32, 0);
        self.b.ins().jump(self.exit, &[zero.into()]);
        if let (Some(block), Some(message)) = (self.outside, self.checked.take()) {
            self.b.switch_to_block(block);
            self.b.seal_block(block);
            self.raise("ValueError", &message)?;
        }
        self.b.switch_to_block(self.exit);
        self.b.seal_block(self.exit);
        let status = self.b.block_params(self.exit)[0];
        for slot in std::mem::take(&mut self.heap) {
            self.free_slot(slot)?;
        }
        self.b.ins().return_(&[status]);
        let config = self.asm.frontend_config();
        self.b.finalize(config);
        Ok(())
    }

    /// An i64 constant.
    pub fn i64(&mut self, value: i64) -> Value {
        self.b.ins().iconst(I64, value)
    }

    /// The register of an extent.
    pub fn extent(&mut self, extent: Extent) -> Value {
        match extent {
            Extent::Const(value) => self.i64(value),
            Extent::Run(value) => value,
        }
    }

    /// The product of two extents.
    pub fn extent_mul(&mut self, a: Extent, b: Extent) -> Extent {
        match (a, b) {
            (Extent::Const(a), Extent::Const(b)) => Extent::Const(a.wrapping_mul(b)),
            (Extent::Const(1), other) | (other, Extent::Const(1)) => other,
            _ => {
                let (a, b) = (self.extent(a), self.extent(b));
                Extent::Run(self.b.ins().imul(a, b))
            }
        }
    }

    /// The product of extents.
    pub fn product(&mut self, extents: &[Extent]) -> Extent {
        extents.iter().fold(Extent::Const(1), |res, &extent| {
            self.extent_mul(res, extent)
        })
    }

    /// Row-major strides of a shape.
    pub fn row_major(&mut self, shape: &[Extent]) -> Vec<Extent> {
        let mut strides = vec![Extent::Const(1); shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = self.extent_mul(strides[axis], shape[axis]);
        }
        strides
    }

    /// The memory type and size of a dtype.
    pub fn memory(&self, dtype: DType, span: Option<Span>) -> Res<ir::Type> {
        cast::memory_type(dtype)
            .ok_or_else(|| unsupported(span, format!("`{dtype}` values cannot be compiled")))
    }

    /// The register type of a dtype.
    pub fn register(&self, dtype: DType, span: Option<Span>) -> Res<ir::Type> {
        cast::register_type(dtype)
            .ok_or_else(|| unsupported(span, format!("`{dtype}` values cannot be compiled")))
    }

    /// Jumps to the exit with a status when it is not 0.
    pub fn check_status(&mut self, status: Value) {
        let next = self.b.create_block();
        self.b
            .ins()
            .brif(status, self.exit, &[BlockArg::from(status)], next, &[]);
        self.b.switch_to_block(next);
        self.b.seal_block(next);
    }

    /// Leaves with an error unless a condition holds.
    pub fn require(&mut self, cond: Value, kind: &str, message: &str) -> Res<()> {
        let (bad, good) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(cond, good, &[], bad, &[]);
        self.b.switch_to_block(bad);
        self.b.seal_block(bad);
        self.raise(kind, message)?;
        self.b.switch_to_block(good);
        self.b.seal_block(good);
        Ok(())
    }

    /// In a checked function, leaves with its error unless `0 <= value < bound`.
    pub fn check_below(&mut self, value: Value, bound: Value) {
        if self.checked.is_none() {
            return;
        }
        let outside = match self.outside {
            Some(block) => block,
            None => {
                let block = self.b.create_block();
                self.b.set_cold_block(block);
                self.outside = Some(block);
                block
            }
        };
        let inside = self.b.create_block();
        let fits = self.b.ins().icmp(IntCC::UnsignedLessThan, value, bound);
        self.b.ins().brif(fits, inside, &[], outside, &[]);
        self.b.switch_to_block(inside);
        self.b.seal_block(inside);
    }

    /// Raises an error and leaves; the current block is closed.
    pub fn raise(&mut self, kind: &str, message: &str) -> Res<()> {
        let kind = self.text(kind)?;
        let message = self.text(message)?;
        let status = self.call_runtime("irc_raise", &[I64, I64], &[I32], &[kind, message])?;
        self.b.ins().jump(self.exit, &[status.into()]);
        Ok(())
    }

    /// Leaves with status -1 when a pointer is null: its maker has raised the error.
    pub fn require_pointer(&mut self, pointer: Value) {
        let next = self.b.create_block();
        let status = self.b.ins().iconst(I32, 0xffff_ffff);
        self.b
            .ins()
            .brif(pointer, next, &[], self.exit, &[BlockArg::from(status)]);
        self.b.switch_to_block(next);
        self.b.seal_block(next);
    }

    /// The address of text with a zero byte behind it.
    pub fn text(&mut self, text: &str) -> Res<Value> {
        let id = self.asm.c_text(text)?;
        let data = self.asm.data_ref(id, self.b.func);
        Ok(self.b.ins().symbol_value(I64, data))
    }

    /// The address of read-only bytes.
    pub fn constant(&mut self, bytes: &[u8]) -> Res<Value> {
        let id = self.asm.constant(bytes)?;
        let data = self.asm.data_ref(id, self.b.func);
        Ok(self.b.ins().symbol_value(I64, data))
    }

    /// Calls what the runtime defines; functions without a result give the constant 0.
    pub fn call_runtime(
        &mut self,
        name: &str,
        params: &[ir::Type],
        returns: &[ir::Type],
        args: &[Value],
    ) -> Res<Value> {
        // Whoever defines it in this object makes the declaration local.
        let id = self.asm.declare(name, Linkage::Import, params, returns)?;
        Ok(self.call(id, args))
    }

    /// Calls a declared function.
    pub fn call(&mut self, id: FuncId, args: &[Value]) -> Value {
        let callee = self.asm.func_ref(id, self.b.func);
        let call = self.b.ins().call(callee, args);
        match self.b.inst_results(call).first() {
            Some(&res) => res,
            None => self.b.ins().iconst(I32, 0),
        }
    }

    /// A stack slot of a size; `align` is a power of two.
    pub fn stack(&mut self, bytes: u32, align: u8) -> StackSlot {
        self.b.create_sized_stack_slot(StackSlotData::new(
            StackSlotKind::ExplicitSlot,
            bytes.max(1),
            align.trailing_zeros() as u8,
        ))
    }

    /// The address of a new stack array that holds values of eight bytes.
    pub fn stack_array(&mut self, values: &[Value]) -> Value {
        let slot = self.stack(8 * values.len() as u32, 8);
        let base = self.b.ins().stack_addr(I64, slot, 0);
        for (idx, &value) in values.iter().enumerate() {
            self.b
                .ins()
                .store(MemFlagsData::trusted(), value, base, 8 * idx as i32);
        }
        base
    }

    /// Memory of the heap, freed by [`Self::free_slot`] of the answered slot or at the exit.
    pub fn heap_alloc(&mut self, bytes: Value) -> Res<(Value, StackSlot)> {
        let slot = self.stack(8, 8);
        // The exit may be reached before the allocation.
        let mut cursor = self.entry_cursor();
        let zero = cursor.ins().iconst(I64, 0);
        cursor.ins().stack_store(I64, zero, slot, 0);
        // A jump out of an inner block may have left the last round's allocation.
        self.free_slot(slot)?;
        let pointer = self.call_runtime("irc_scratch", &[I64], &[I64], &[bytes])?;
        self.require_pointer(pointer);
        self.b.ins().stack_store(I64, pointer, slot, 0);
        self.heap.push(slot);
        Ok((pointer, slot))
    }

    /// Where code that runs first goes.
    fn entry_cursor(&mut self) -> FuncCursor<'_> {
        FuncCursor::new(self.b.func).at_inst(self.first)
    }

    /// An i64 constant that is known in every block.
    pub fn early_i64(&mut self, value: i64) -> Value {
        self.entry_cursor().ins().iconst(I64, value)
    }

    /// Frees what a slot holds and clears it.
    pub fn free_slot(&mut self, slot: StackSlot) -> Res<()> {
        let pointer = self.b.ins().stack_load(I64, I64, slot, 0);
        let id = self
            .asm
            .declare("irc_scratch_free", Linkage::Import, &[I64], &[])?;
        self.call(id, &[pointer]);
        let zero = self.i64(0);
        self.b.ins().stack_store(I64, zero, slot, 0);
        Ok(())
    }

    /// Looks a name up.
    pub fn binding(&self, name: &Name, span: Option<Span>) -> Res<Binding> {
        self.scope
            .get(name)
            .cloned()
            .ok_or_else(|| unsupported(span, format!("`{name}` is not known to code generation")))
    }

    /// The buffer of a name.
    pub fn buffer(&self, name: &Name, span: Option<Span>) -> Res<Rc<Buffer>> {
        match self.binding(name, span)? {
            Binding::Buffer(buffer) => Ok(buffer),
            Binding::Value(_) | Binding::Index { .. } | Binding::Const(..) | Binding::Var(..) => {
                Err(unsupported(span, format!("`{name}` is not a buffer")))
            }
        }
    }

    /// An operand as a register of a dtype.
    pub fn convert(&mut self, operand: Operand, to: DType, span: Option<Span>) -> Res<Value> {
        let fault = || unsupported(span, format!("`{to}` values cannot be compiled"));
        match operand {
            Operand::Int(value) => cast::constant_int(&mut self.b, value, to).ok_or_else(fault),
            Operand::Float(value) => cast::constant_float(&mut self.b, value, to).ok_or_else(fault),
            Operand::Val(val) if val.dtype == to => Ok(val.v),
            Operand::Val(val) if cast::is_opaque(val.dtype) || cast::is_opaque(to) => {
                let message = format!("`{}` does not become `{to}`", val.dtype);
                Err(unsupported(span, message))
            }
            Operand::Val(val) => {
                self.register(val.dtype, span)?;
                self.register(to, span)?;
                Ok(cast::cast(&mut self.b, val.v, val.dtype, to))
            }
        }
    }

    /// An operand in its own dtype: int32 and float32 for numbers without one.
    pub fn settle(&mut self, operand: Operand, span: Option<Span>) -> Res<Val> {
        let dtype = match operand {
            Operand::Val(val) => return Ok(val),
            Operand::Int(value) if i32::try_from(value).is_err() => DType::I64,
            Operand::Int(_) => DType::I32,
            Operand::Float(_) => DType::F32,
        };
        Ok(Val {
            v: self.convert(operand, dtype, span)?,
            dtype,
        })
    }

    /// An operand in its own dtype, which has arithmetic.
    pub fn number(&mut self, operand: Operand, span: Option<Span>) -> Res<Val> {
        let val = self.settle(operand, span)?;
        if cast::is_opaque(val.dtype) {
            let message = format!("`{}` has no arithmetic", val.dtype);
            return Err(unsupported(span, message));
        }
        Ok(val)
    }

    /// An operand as a condition.
    pub fn truth(&mut self, operand: Operand, span: Option<Span>) -> Res<Value> {
        match operand {
            Operand::Int(value) => Ok(self.b.ins().iconst(I8, i64::from(value != 0))),
            Operand::Val(val) if val.dtype == DType::Bool => Ok(val.v),
            Operand::Val(_) | Operand::Float(_) => self.convert(operand, DType::Bool, span),
        }
    }

    /// An operand as an i64.
    pub fn index_of(&mut self, operand: Operand, span: Option<Span>) -> Res<Value> {
        match operand {
            Operand::Val(val) if !val.dtype.is_float() => Ok(to_index(&mut self.b, val)),
            Operand::Int(_) | Operand::Float(_) | Operand::Val(_) => {
                self.convert(operand, DType::I64, span)
            }
        }
    }
}

//! A small structured notation over Cranelift's function builder, for the functions that irc itself puts into an
//! object.
//!
//! [`define`] opens a function; inside it [`Emit`] offers arithmetic on `i64`, loads and stores, calls by name, and
//! `if` and loops as closures. The name of a callee says where it comes from: `irc_…` is in the object, `TVMFFI…`
//! is a weak import that may be absent, everything else is the C library's. The first fault is kept and reported by
//! [`define`], so that bodies read without error handling.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F64, I32, I64};
use cranelift_codegen::ir::{
    AbiParam, AtomicRmwOp, Block, InstBuilder, MemFlagsData, Signature, StackSlotData,
    StackSlotKind, Type, Value,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use cranelift_module::Linkage;
use irc_syntax::{DType, Diagnostic};

use crate::codegen::{Assembler, Cpu};

/// A function under construction.
pub struct Emit<'a> {
    asm: &'a mut Assembler,
    b: FunctionBuilder<'a>,
    params: Vec<Value>,
    fault: Option<Diagnostic>,
    /// Whether the current block has ended with a return.
    ended: bool,
}

/// Defines a function of a name; `body` writes it.
///
/// # Errors
/// A name inside is used with two meanings.
pub fn define(
    asm: &mut Assembler,
    name: &str,
    linkage: Linkage,
    params: &[Type],
    returns: &[Type],
    body: impl FnOnce(&mut Emit<'_>),
) -> Result<(), Diagnostic> {
    let id = asm.declare(name, linkage, params, returns)?;
    let mut func = asm.begin(id);
    let config = asm.frontend_config();
    let mut cx = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut func, &mut cx);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let params = b.block_params(entry).to_vec();
    let mut f = Emit {
        asm: &mut *asm,
        b,
        params,
        fault: None,
        ended: false,
    };
    body(&mut f);
    if !f.ended {
        let zeros: Vec<Value> = returns.iter().map(|&ty| f.b.ins().iconst(ty, 0)).collect();
        f.ret(&zeros);
    }
    let Emit { mut b, fault, .. } = f;
    b.seal_all_blocks();
    b.finalize(config);
    asm.define(id, func);
    fault.map_or(Ok(()), Err)
}

fn flags() -> MemFlagsData {
    MemFlagsData::trusted()
}

impl Emit<'_> {
    /// What code is made for.
    pub fn cpu(&self) -> Cpu {
        self.asm.cpu
    }

    /// Whether the target is x86-64.
    pub fn is_x86(&self) -> bool {
        self.asm.is_x86()
    }

    /// The i-th parameter.
    pub fn param(&self, i: usize) -> Value {
        self.params[i]
    }

    /// A constant.
    pub fn int(&mut self, value: i64) -> Value {
        self.b.ins().iconst(I64, value)
    }

    /// A 32-bit constant.
    pub fn int32(&mut self, value: i32) -> Value {
        self.b.ins().iconst(I32, i64::from(value))
    }

    /// The address of text with a zero byte behind it.
    pub fn text(&mut self, text: &str) -> Value {
        match self.asm.c_text(text) {
            Ok(id) => {
                let global = self.asm.data_ref(id, self.b.func);
                self.b.ins().symbol_value(I64, global)
            }
            Err(fault) => self.failed(fault),
        }
    }

    /// The address of writable data of a name, which is the object's own or the linker's.
    pub fn data(&mut self, name: &str, linkage: Linkage) -> Value {
        self.data_of(name, linkage, true)
    }

    /// The address of data of a name.
    pub fn data_of(&mut self, name: &str, linkage: Linkage, writable: bool) -> Value {
        match self.asm.declare_data(name, linkage, writable) {
            Ok(id) => {
                let global = self.asm.data_ref(id, self.b.func);
                self.b.ins().symbol_value(I64, global)
            }
            Err(fault) => self.failed(fault),
        }
    }

    fn failed(&mut self, fault: Diagnostic) -> Value {
        self.fault.get_or_insert(fault);
        self.int(0)
    }

    /// The address of `bytes` of the stack.
    pub fn stack(&mut self, bytes: u32) -> Value {
        let slot = self.b.create_sized_stack_slot(StackSlotData::new(
            StackSlotKind::ExplicitSlot,
            bytes,
            4,
        ));
        self.b.ins().stack_addr(I64, slot, 0)
    }

    /// The `i64` at an address.
    pub fn load(&mut self, base: Value, offset: i32) -> Value {
        self.b.ins().load(I64, flags(), base, offset)
    }

    /// The `i32` at an address, as it is.
    pub fn load32(&mut self, base: Value, offset: i32) -> Value {
        self.b.ins().load(I32, flags(), base, offset)
    }

    /// The `i32` at an address, with its sign.
    pub fn load32s(&mut self, base: Value, offset: i32) -> Value {
        self.b.ins().sload32(flags(), base, offset)
    }

    /// The byte at an address.
    pub fn load8(&mut self, base: Value, offset: i32) -> Value {
        self.b.ins().uload8(I64, flags(), base, offset)
    }

    /// Stores a value of any type.
    pub fn store(&mut self, value: Value, base: Value, offset: i32) {
        self.b.ins().store(flags(), value, base, offset);
    }

    /// Stores the low byte of a value.
    pub fn store8(&mut self, value: Value, base: Value, offset: i32) {
        self.b.ins().istore8(flags(), value, base, offset);
    }

    /// `a + b`
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().iadd(a, b)
    }

    /// `a + constant`
    pub fn offset(&mut self, a: Value, constant: i64) -> Value {
        self.b.ins().iadd_imm_s(a, constant)
    }

    /// `a - b`
    pub fn sub(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().isub(a, b)
    }

    /// `a * b`
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().imul(a, b)
    }

    /// `a * constant`
    pub fn scale(&mut self, a: Value, constant: i64) -> Value {
        let constant = self.int(constant);
        self.mul(a, constant)
    }

    /// `a / b` of non-negative values.
    pub fn div(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().udiv(a, b)
    }

    /// `a % b` of non-negative values.
    pub fn rem(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().urem(a, b)
    }

    /// `a & constant`
    pub fn and(&mut self, a: Value, constant: i64) -> Value {
        let constant = self.int(constant);
        self.b.ins().band(a, constant)
    }

    /// `a | b`
    pub fn or(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().bor(a, b)
    }

    /// `a << bits`
    pub fn shl(&mut self, a: Value, bits: i64) -> Value {
        let bits = self.int(bits);
        self.b.ins().ishl(a, bits)
    }

    /// `a >> bits` without sign.
    pub fn shr(&mut self, a: Value, bits: i64) -> Value {
        let bits = self.int(bits);
        self.b.ins().ushr(a, bits)
    }

    /// The number of ones.
    pub fn popcount(&mut self, a: Value) -> Value {
        self.b.ins().popcnt(a)
    }

    /// The high 64 bits of the product of two unsigned values.
    pub fn high(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().umulhi(a, b)
    }

    /// `a / b` and `a % b` rounded down; both 0 where `b` is.
    pub fn floor_div_mod(&mut self, a: Value, b: Value) -> (Value, Value) {
        let (zero, one) = (self.int(0), self.int(1));
        let undefined = self.is_zero(b);
        // -1 is taken apart because the smallest value divided by it traps.
        let minus = self.cmp_int(IntCC::Equal, b, -1);
        let special = self.either(undefined, minus);
        let divisor = self.select(special, one, b);
        let (quotient, rest) = (self.b.ins().sdiv(a, divisor), self.b.ins().srem(a, divisor));
        let signs = self.b.ins().bxor(rest, divisor);
        let opposed = self.cmp_int(IntCC::SignedLessThan, signs, 0);
        let uneven = self.is_set(rest);
        let lower = self.both(opposed, uneven);
        let (below, moved) = (self.offset(quotient, -1), self.add(rest, divisor));
        let (quotient, rest) = (
            self.select(lower, below, quotient),
            self.select(lower, moved, rest),
        );
        let negated = self.sub(zero, a);
        let quotient = self.select(minus, negated, quotient);
        (self.select(undefined, zero, quotient), rest)
    }

    /// The larger of two signed values.
    pub fn max(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().smax(a, b)
    }

    /// An integer as `f64`.
    pub fn float_of(&mut self, a: Value) -> Value {
        self.b.ins().fcvt_from_sint(F64, a)
    }

    /// The `f32` at an address, as `f64`.
    pub fn load_f32(&mut self, base: Value, offset: i32) -> Value {
        let value = self.b.ins().load(F32, flags(), base, offset);
        self.b.ins().fpromote(F64, value)
    }

    /// A truth value as 0 or 1.
    pub fn low_bit(&mut self, a: Value) -> Value {
        self.b.ins().uextend(I64, a)
    }

    /// A number as a prim_func takes it, from the 64 bits that an entry keeps.
    pub fn scalar(&mut self, bits: Value, dtype: DType) -> Value {
        if dtype.is_float() {
            let wide = self.b.ins().bitcast(F64, MemFlagsData::new(), bits);
            return if dtype == DType::F64 {
                wide
            } else {
                self.b.ins().fdemote(F32, wide)
            };
        }
        if dtype.bits() == 64 {
            bits
        } else {
            self.low32(bits)
        }
    }

    /// The smaller of two signed values.
    pub fn min(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().smin(a, b)
    }

    /// The low 32 bits.
    pub fn low32(&mut self, a: Value) -> Value {
        self.b.ins().ireduce(I32, a)
    }

    /// A 32-bit value with its sign.
    pub fn wide(&mut self, a: Value) -> Value {
        self.b.ins().sextend(I64, a)
    }

    /// Whether `a cc b`.
    pub fn cmp(&mut self, cc: IntCC, a: Value, b: Value) -> Value {
        self.b.ins().icmp(cc, a, b)
    }

    /// Whether `a cc constant`.
    pub fn cmp_int(&mut self, cc: IntCC, a: Value, constant: i64) -> Value {
        let ty = self.b.func.dfg.value_type(a);
        let constant = self.b.ins().iconst(ty, constant);
        self.b.ins().icmp(cc, a, constant)
    }

    /// Whether `a` is zero.
    pub fn is_zero(&mut self, a: Value) -> Value {
        self.cmp_int(IntCC::Equal, a, 0)
    }

    /// Whether `a` is not zero.
    pub fn is_set(&mut self, a: Value) -> Value {
        self.cmp_int(IntCC::NotEqual, a, 0)
    }

    /// Whether both hold.
    pub fn both(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().band(a, b)
    }

    /// Whether one holds.
    pub fn either(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().bor(a, b)
    }

    /// `a` if the condition holds, else `b`.
    pub fn select(&mut self, cond: Value, a: Value, b: Value) -> Value {
        self.b.ins().select(cond, a, b)
    }

    /// A variable with its first value.
    pub fn var(&mut self, value: Value) -> Variable {
        let ty = self.b.func.dfg.value_type(value);
        let var = self.b.declare_var(ty);
        self.b.def_var(var, value);
        var
    }

    /// The value of a variable.
    pub fn get(&mut self, var: Variable) -> Value {
        self.b.use_var(var)
    }

    /// Gives a variable another value.
    pub fn set(&mut self, var: Variable, value: Value) {
        self.b.def_var(var, value);
    }

    /// Leaves the function.
    pub fn ret(&mut self, values: &[Value]) {
        self.b.ins().return_(values);
        self.ended = true;
    }

    /// Leaves the function with a 32-bit status.
    pub fn ret_status(&mut self, status: i32) {
        let status = self.int32(status);
        self.ret(&[status]);
    }

    fn goto(&mut self, block: Block) {
        if !self.ended {
            self.b.ins().jump(block, &[]);
        }
    }

    fn start(&mut self, block: Block) {
        self.b.switch_to_block(block);
        self.ended = false;
    }

    /// `if cond { then }`
    pub fn if_(&mut self, cond: Value, then: impl FnOnce(&mut Self)) {
        self.if_else(cond, then, |_| {});
    }

    /// `if cond { then } else { orelse }`
    pub fn if_else(
        &mut self,
        cond: Value,
        then: impl FnOnce(&mut Self),
        orelse: impl FnOnce(&mut Self),
    ) {
        let (yes, no, end) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        self.b.ins().brif(cond, yes, &[], no, &[]);
        self.start(yes);
        then(self);
        self.goto(end);
        self.start(no);
        orelse(self);
        self.goto(end);
        self.start(end);
    }

    /// `while cond { body }`
    pub fn while_(&mut self, cond: impl FnOnce(&mut Self) -> Value, body: impl FnOnce(&mut Self)) {
        let (head, inner, end) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        self.goto(head);
        self.start(head);
        let cond = cond(self);
        self.b.ins().brif(cond, inner, &[], end, &[]);
        self.start(inner);
        body(self);
        self.goto(head);
        self.start(end);
    }

    /// `for i in 0..n { body(i) }`
    pub fn for_(&mut self, n: Value, body: impl FnOnce(&mut Self, Value)) {
        let zero = self.int(0);
        let i = self.var(zero);
        self.while_(
            |f| {
                let i = f.get(i);
                f.cmp(IntCC::SignedLessThan, i, n)
            },
            |f| {
                let at = f.get(i);
                body(f, at);
                let at = f.get(i);
                let next = f.offset(at, 1);
                f.set(i, next);
            },
        );
    }

    /// The address of a function of a name; null for a weak import that is absent.
    pub fn func_addr(&mut self, name: &str, params: &[Type], returns: &[Type]) -> Value {
        match self.asm.declare(name, linkage_of(name), params, returns) {
            Ok(id) => {
                let func = self.asm.func_ref(id, self.b.func);
                self.b.ins().func_addr(I64, func)
            }
            Err(fault) => self.failed(fault),
        }
    }

    fn call(&mut self, name: &str, args: &[Value], returns: &[Type]) -> Option<Value> {
        let params: Vec<Type> = args
            .iter()
            .map(|&arg| self.b.func.dfg.value_type(arg))
            .collect();
        match self.asm.declare(name, linkage_of(name), &params, returns) {
            Ok(id) => {
                let func = self.asm.func_ref(id, self.b.func);
                let call = self.b.ins().call(func, args);
                self.b.inst_results(call).first().copied()
            }
            Err(fault) => {
                self.failed(fault);
                None
            }
        }
    }

    /// A call without a result.
    pub fn call_void(&mut self, name: &str, args: &[Value]) {
        self.call(name, args, &[]);
    }

    /// A call with an `i64` or pointer result.
    pub fn call_i64(&mut self, name: &str, args: &[Value]) -> Value {
        self.call(name, args, &[I64]).unwrap_or_else(|| self.int(0))
    }

    /// A call with an `i32` result.
    pub fn call_i32(&mut self, name: &str, args: &[Value]) -> Value {
        self.call(name, args, &[I32])
            .unwrap_or_else(|| self.int32(0))
    }

    /// A call of the function at an address; the result is the first of `returns`, or 0.
    pub fn call_addr(&mut self, callee: Value, args: &[Value], returns: &[Type]) -> Value {
        let mut sig = Signature::new(self.asm.call_conv());
        for &arg in args {
            sig.params
                .push(AbiParam::new(self.b.func.dfg.value_type(arg)));
        }
        sig.returns
            .extend(returns.iter().map(|&ty| AbiParam::new(ty)));
        let sig = self.b.import_signature(sig);
        let call = self.b.ins().call_indirect(sig, callee, args);
        match self.b.inst_results(call).first() {
            Some(&value) => value,
            None => self.int(0),
        }
    }

    /// Writes formatted text of at most `size` bytes to `at`, as C's `snprintf`. Every argument takes 64 bits.
    pub fn format(&mut self, at: Value, size: i64, format: &str, args: &[Value]) {
        let (size, format) = (self.int(size), self.text(format));
        let mut all = vec![at, size, format];
        all.extend(args);
        // One declaration cannot serve calls with different numbers of arguments, so the call goes by address.
        let callee = self.func_addr("snprintf", &[I64, I64, I64], &[I32]);
        self.call_addr(callee, &all, &[I32]);
    }

    /// `old = *at; *at = old op value; old`, in one step.
    pub fn atomic(&mut self, op: AtomicRmwOp, at: Value, value: Value) -> Value {
        let ty = self.b.func.dfg.value_type(value);
        self.b.ins().atomic_rmw(ty, flags(), op, at, value)
    }

    /// `old = *at; if old == expected { *at = value }; old`, in one step.
    pub fn compare_exchange(&mut self, at: Value, expected: Value, value: Value) -> Value {
        self.b.ins().atomic_cas(flags(), at, expected, value)
    }

    /// A load that sees what others stored before.
    pub fn atomic_load(&mut self, ty: Type, at: Value) -> Value {
        self.b.ins().atomic_load(ty, flags(), at)
    }

    /// A store that others see after what was stored before.
    pub fn atomic_store(&mut self, value: Value, at: Value) {
        self.b.ins().atomic_store(flags(), value, at);
    }
}

fn linkage_of(name: &str) -> Linkage {
    if name.starts_with("irc") {
        Linkage::Local
    } else if name.starts_with("TVMFFI") {
        Linkage::Preemptible
    } else {
        Linkage::Import
    }
}

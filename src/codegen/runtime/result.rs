//! Results: tensors and arrays as TVM-FFI objects made without its library, or the caller's own tensors.
//!
//! An object is one block: 16 zero bytes that newer versions of TVM-FFI may look at, the object's head, its body, and
//! for a tensor its shape, its strides and, 64-aligned, its data.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{AtomicRmwOp, Value};
use cranelift_module::Linkage;
use irc_syntax::Diagnostic;

use super::emit::{Emit, define as func};
use super::error::{raise, raise_format};
use super::{MAX_BYTES, call, state, state_addr};
use crate::codegen::Assembler;
use crate::codegen::entry::emit_any;
use crate::codegen::entry::layout::{self, dl};

/// TVM-FFI's type index of a tensor object.
pub const TENSOR_TYPE: i64 = 70;
/// TVM-FFI's type index of an array object.
pub const ARRAY_TYPE: i64 = 71;
/// Where the `DLTensor` begins in a tensor object.
pub const TENSOR_BODY: i64 = 24;

/// The least type index of an object; smaller ones are values.
const FIRST_OBJECT_TYPE: i64 = 64;

/// Zero bytes before an object.
const FRONT: i64 = 16;
/// One strong reference, and the weak one that all strong ones share.
const ONE_REFERENCE: i64 = 1 << 32 | 1;
const ONE_WEAK: i64 = 1 << 32;
const DESTROY: i64 = 1;
const FREE: i64 = 2;

/// Defines the functions of this file.
pub fn define(asm: &mut Assembler) -> Result<(), Diagnostic> {
    func(
        asm,
        "irc_output",
        Linkage::Local,
        &[I64, I64, I64],
        &[I64],
        emit_output,
    )?;
    func(
        asm,
        "irc_tensor_new",
        Linkage::Local,
        &[I64, I64, I64, I64],
        &[I64],
        emit_tensor_new,
    )?;
    func(
        asm,
        "irc_tensor_delete",
        Linkage::Local,
        &[I64, I32],
        &[],
        |f| {
            emit_free(f);
        },
    )?;
    func(
        asm,
        "irc_array_new",
        Linkage::Local,
        &[I64, I64],
        &[I64],
        emit_array_new,
    )?;
    func(
        asm,
        "irc_array_blank",
        Linkage::Local,
        &[I64],
        &[I64],
        emit_array_blank,
    )?;
    func(
        asm,
        "irc_array_delete",
        Linkage::Local,
        &[I64, I32],
        &[],
        |f| {
            let (object, flags) = (f.param(0), f.param(1));
            let flags = f.wide(flags);
            let destroy = f.and(flags, DESTROY);
            f.if_(destroy, |f| {
                let (data, size) = (f.load(object, 24), f.load(object, 32));
                f.for_(size, |f, i| {
                    let at = f.scale(i, 16);
                    let at = f.add(data, at);
                    let (kind, element) = (f.load32s(at, 0), f.load(at, 8));
                    let is_object =
                        f.cmp_int(IntCC::SignedGreaterThanOrEqual, kind, FIRST_OBJECT_TYPE);
                    f.if_(is_object, |f| f.call_void("irc_release", &[element]));
                });
            });
            emit_free(f);
        },
    )?;
    func(
        asm,
        "irc_release",
        Linkage::Local,
        &[I64],
        &[],
        emit_release,
    )
}

/// Frees the block of an object when the flags say so.
pub(super) fn emit_free(f: &mut Emit<'_>) {
    let (object, flags) = (f.param(0), f.param(1));
    let flags = f.wide(flags);
    let free = f.and(flags, FREE);
    f.if_(free, |f| {
        let block = f.offset(object, -FRONT);
        f.call_void("free", &[block]);
    });
}

/// `irc_release(object)`: drops one strong reference, as TVM-FFI's own code does.
fn emit_release(f: &mut Emit<'_>) {
    let object = f.param(0);
    let none = f.is_zero(object);
    f.if_(none, |f| f.ret(&[]));
    let minus_one = f.int(-1);
    let old = f.atomic(AtomicRmwOp::Add, object, minus_one);
    let deleter = f.load(object, 16);
    let only = f.cmp_int(IntCC::Equal, old, ONE_REFERENCE);
    f.if_(only, |f| {
        let both = f.int32((DESTROY | FREE) as i32);
        f.call_addr(deleter, &[object, both], &[]);
        f.ret(&[]);
    });
    let strong = f.and(old, 0xffff_ffff);
    let last = f.cmp_int(IntCC::Equal, strong, 1);
    f.if_(last, |f| {
        let destroy = f.int32(DESTROY as i32);
        f.call_addr(deleter, &[object, destroy], &[]);
        let minus_weak = f.int(-ONE_WEAK);
        let old = f.atomic(AtomicRmwOp::Add, object, minus_weak);
        let unseen = f.cmp_int(IntCC::Equal, old, ONE_WEAK);
        f.if_(unseen, |f| {
            let free = f.int32(FREE as i32);
            f.call_addr(deleter, &[object, free], &[]);
        });
    });
}

/// Writes the head of an object, and the zeros before it; answers the object.
pub(super) fn emit_head(f: &mut Emit<'_>, block: Value, type_index: i64, deleter: &str) -> Value {
    let (zero, references, index) = (f.int(0), f.int(ONE_REFERENCE), f.int(type_index));
    f.store(zero, block, 0);
    f.store(zero, block, 8);
    let object = f.offset(block, FRONT);
    f.store(references, object, 0);
    f.store(index, object, 8);
    let deleter = f.func_addr(deleter, &[I64, I32], &[]);
    f.store(deleter, object, 16);
    object
}

/// `irc_tensor_new(dtype, bytes of an element, rank, dims) -> object`, or null with an error raised.
fn emit_tensor_new(f: &mut Emit<'_>) {
    let (dtype, element, rank, dims) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let bytes = f.var(element);
    f.for_(rank, |f, i| {
        let at = f.scale(i, 8);
        let at = f.add(dims, at);
        let dim = f.load(at, 0);
        let so_far = f.get(bytes);
        let product = f.mul(so_far, dim);
        f.set(bytes, product);
        let negative = f.cmp_int(IntCC::SignedLessThan, dim, 0);
        // Both factors are below 2^47 or the product is looked at as a float would be: by its high half.
        let (huge, high) = (
            f.cmp_int(IntCC::SignedGreaterThan, product, MAX_BYTES),
            f.high(so_far, dim),
        );
        let wrapped = f.is_set(high);
        let bad = f.either(negative, huge);
        let bad = f.either(bad, wrapped);
        f.if_(bad, |f| {
            raise_format(
                f,
                "MemoryError",
                "a result has the impossible extent %lld",
                &[dim],
            );
            let null = f.int(0);
            f.ret(&[null]);
        });
    });
    let bytes = f.get(bytes);
    let dims_bytes = f.scale(rank, 16);
    let head = f.offset(dims_bytes, FRONT + TENSOR_BODY + layout::DL_BYTES + 63);
    let head = f.and(head, -64);
    let all = f.add(head, bytes);
    let block = f.call_i64("irc_malloc", &[all]);
    let missing = f.is_zero(block);
    f.if_(missing, |f| f.ret(&[block]));
    let object = emit_head(f, block, TENSOR_TYPE, "irc_tensor_delete");
    let tensor = f.offset(object, TENSOR_BODY);
    let data = f.add(block, head);
    f.store(data, tensor, dl::DATA);
    let (cpu, zero) = (f.int(1), f.int(0));
    f.store(cpu, tensor, dl::DEVICE_TYPE);
    f.store(zero, tensor, dl::BYTE_OFFSET);
    let (rank32, dtype32) = (f.low32(rank), f.low32(dtype));
    f.store(rank32, tensor, dl::NDIM);
    f.store(dtype32, tensor, dl::DTYPE);
    let shape = f.offset(tensor, layout::DL_BYTES);
    let rank_bytes = f.scale(rank, 8);
    let strides = f.add(shape, rank_bytes);
    f.store(shape, tensor, dl::SHAPE);
    f.store(strides, tensor, dl::STRIDES);
    let one = f.int(1);
    let stride = f.var(one);
    f.for_(rank, |f, i| {
        let last = f.offset(rank, -1);
        let axis = f.sub(last, i);
        let at = f.scale(axis, 8);
        let (from, to_shape, to_stride) = (f.add(dims, at), f.add(shape, at), f.add(strides, at));
        let (dim, this) = (f.load(from, 0), f.get(stride));
        f.store(dim, to_shape, 0);
        f.store(this, to_stride, 0);
        let next = f.mul(this, dim);
        f.set(stride, next);
    });
    f.ret(&[object]);
}

/// `irc_array_new(slots of results, n) -> object` with the objects of the slots; null with an error raised.
fn emit_array_new(f: &mut Emit<'_>) {
    let (outs, n) = (f.param(0), f.param(1));
    let object = f.call_i64("irc_array_blank", &[n]);
    let missing = f.is_zero(object);
    f.if_(missing, |f| f.ret(&[object]));
    let elements = f.load(object, 24);
    f.for_(n, |f, i| {
        let at = f.scale(i, 16);
        let (from, to) = (f.add(outs, at), f.add(elements, at));
        let object = f.load(from, 8);
        emit_any(f, object, to);
    });
    f.ret(&[object]);
}

/// `irc_array_blank(n) -> object` whose elements are nothing; null with an error raised.
fn emit_array_blank(f: &mut Emit<'_>) {
    let n = f.param(0);
    let elements_bytes = f.scale(n, 16);
    let all = f.offset(elements_bytes, FRONT + 24 + 32);
    let block = f.call_i64("irc_malloc", &[all]);
    let missing = f.is_zero(block);
    f.if_(missing, |f| f.ret(&[block]));
    let object = emit_head(f, block, ARRAY_TYPE, "irc_array_delete");
    let (elements, zero) = (f.offset(object, 24 + 32), f.int(0));
    f.store(elements, object, 24);
    f.store(n, object, 32);
    f.store(n, object, 40);
    f.store(zero, object, 48);
    f.for_(n, |f, i| {
        let at = f.scale(i, 16);
        let to = f.add(elements, at);
        f.store(zero, to, 0);
        f.store(zero, to, 8);
    });
    f.ret(&[object]);
}

/// `irc_output(call, index, dims) -> ptr`
fn emit_output(f: &mut Emit<'_>) {
    let (record, index, dims) = (f.param(0), f.param(1), f.param(2));
    let func = f.load(record, call::FUNC);
    let (params, n_in) = (
        f.load(func, layout::func::PARAMS),
        f.load(func, layout::func::N_IN),
    );
    let position = f.add(n_in, index);
    let at = f.scale(position, layout::PARAM_BYTES);
    let param = f.add(params, at);
    let outs = f.load(record, call::OUTS);
    let at = f.scale(index, call::OUT_BYTES);
    let out = f.add(outs, at);
    let given = f.load(out, 0);
    let rank = f.load(param, layout::param::RANK);
    f.if_(given, |f| {
        let shape = f.load(given, dl::SHAPE);
        f.for_(rank, |f, axis| {
            let at = f.scale(axis, 8);
            let (have, want) = (f.add(shape, at), f.add(dims, at));
            let (have, want) = (f.load(have, 0), f.load(want, 0));
            let differs = f.cmp(IntCC::NotEqual, have, want);
            f.if_(differs, |f| {
                let (name, who) = (
                    f.load(func, layout::func::NAME),
                    f.load(param, layout::param::NAME),
                );
                let text = "%s: `%s.shape[%lld]` is %lld, and the result has %lld there";
                raise_format(f, "ValueError", text, &[name, who, axis, have, want]);
                let null = f.int(0);
                f.ret(&[null]);
            });
        });
        let (data, offset) = (f.load(given, dl::DATA), f.load(given, dl::BYTE_OFFSET));
        let data = f.add(data, offset);
        let state = state_addr(f);
        let nothing = f.offset(state, i64::from(state::NOTHING));
        let data = f.select(data, data, nothing);
        f.ret(&[data]);
    });
    let made = f.load(out, 8);
    f.if_(made, |f| {
        raise(f, "RuntimeError", "a result was made twice");
        let null = f.int(0);
        f.ret(&[null]);
    });
    let dtype = f.load(param, layout::param::RESULT_DTYPE);
    let element = f.load(param, layout::param::ELEMENT);
    let object = f.call_i64("irc_tensor_new", &[dtype, element, rank, dims]);
    let missing = f.is_zero(object);
    f.if_(missing, |f| f.ret(&[object]));
    f.store(object, out, 8);
    let data = f.load(object, TENSOR_BODY as i32 + dl::DATA);
    f.ret(&[data]);
}

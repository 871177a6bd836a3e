//! Strings as TVM-FFI knows them: a string, or arrays of arrays of strings, as many deep as the tensor has axes.
//!
//! Arguments that come so are read in place; results go out so, since no one reads a `Tensor` of strings there. Strings of up
//! to seven bytes stand in the `TVMFFIAny` itself, which is how that library has them.

use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_module::Linkage;
use irc_syntax::Diagnostic;

use super::emit::{Emit, define as func};
use super::result::emit_head;
use super::string::STRING_WORD;
use super::{ARRAY_TYPE, MAX_BYTES, TENSOR_BODY, TENSOR_TYPE};
use crate::codegen::Assembler;
use crate::codegen::entry::layout::{DL_BYTES, any, dl};

/// Offsets behind the head of arrays and strings: where their content is, and how much.
const CONTENT: i32 = 24;
const SIZE: i32 = 32;
/// Bytes that fit a `TVMFFIAny`.
const SMALL: i64 = 7;
/// Where a short string says its length.
const SMALL_SIZE: i32 = 4;

/// Defines the functions of this file.
pub fn define(asm: &mut Assembler) -> Result<(), Diagnostic> {
    let mut local = |name: &str, n: usize, body: fn(&mut Emit<'_>)| {
        func(asm, name, Linkage::Local, &vec![I64; n], &[I64], body)
    };
    local("irc_nested_take", 3, emit_take)?;
    local("irc_nested_read", 5, emit_read)?;
    local("irc_nested_give", 1, emit_give)?;
    local("irc_nested_give_all", 1, emit_give_all)?;
    local("irc_nested_write", 4, emit_write)
}

/// `irc_nested_take(call, any, rank) -> DLTensor` in memory of the call; null where it is no such array.
fn emit_take(f: &mut Emit<'_>) {
    let (record, value, rank) = (f.param(0), f.param(1), f.param(2));
    let null = f.int(0);
    let bytes = f.scale(rank, 8);
    let bytes = f.offset(bytes, DL_BYTES);
    let tensor = f.call_i64("irc_alloc", &[record, bytes]);
    let missing = f.is_zero(tensor);
    f.if_(missing, |f| f.ret(&[null]));
    let dims = f.offset(tensor, DL_BYTES);
    let one = f.int(1);
    let (at, count) = (f.var(value), f.var(one));
    f.for_(rank, |f, axis| {
        let here = f.get(at);
        let to = f.scale(axis, 8);
        let to = f.add(dims, to);
        let zero = f.int(0);
        f.store(zero, to, 0);
        let so_far = f.get(count);
        // Behind an axis without elements there is nothing to look at.
        f.if_(so_far, |f| {
            let kind = f.load32s(here, any::TYPE);
            let other = f.cmp_int(IntCC::NotEqual, kind, ARRAY_TYPE);
            f.if_(other, |f| f.ret(&[zero]));
            let object = f.load(here, any::VALUE);
            let (first, size) = (f.load(object, CONTENT), f.load(object, SIZE));
            f.store(size, to, 0);
            f.set(at, first);
            // One array may stand in many places, so that there are more strings than memory could hold.
            let (next, high) = (f.mul(so_far, size), f.high(so_far, size));
            let wrapped = f.is_set(high);
            let huge = f.cmp_int(IntCC::UnsignedGreaterThan, next, MAX_BYTES >> 4);
            let bad = f.either(wrapped, huge);
            f.if_(bad, |f| f.ret(&[zero]));
            f.set(count, next);
        });
    });
    let count = f.get(count);
    let bytes = f.scale(count, 16);
    let elements = f.call_i64("irc_alloc", &[record, bytes]);
    let missing = f.is_zero(elements);
    f.if_(missing, |f| f.ret(&[null]));
    f.if_(count, |f| {
        let zero = f.int(0);
        let end = f.call_i64("irc_nested_read", &[value, zero, rank, dims, elements]);
        let bad = f.is_zero(end);
        f.if_(bad, |f| f.ret(&[zero]));
    });
    let (cpu, rank32, word) = (f.int(dl::CPU), f.low32(rank), f.int32(STRING_WORD as i32));
    f.store(elements, tensor, dl::DATA);
    f.store(cpu, tensor, dl::DEVICE_TYPE);
    f.store(rank32, tensor, dl::NDIM);
    f.store(word, tensor, dl::DTYPE);
    f.store(dims, tensor, dl::SHAPE);
    f.store(null, tensor, dl::STRIDES);
    f.store(null, tensor, dl::BYTE_OFFSET);
    f.ret(&[tensor]);
}

/// `irc_nested_read(any, axis, rank, dims, to) -> behind what it wrote`; null where arrays differ in length or depth.
fn emit_read(f: &mut Emit<'_>) {
    let (value, axis, rank) = (f.param(0), f.param(1), f.param(2));
    let (dims, to) = (f.param(3), f.param(4));
    let (kind, object) = (f.load32s(value, any::TYPE), f.load(value, any::VALUE));
    let null = f.int(0);
    let is_leaf = f.cmp(IntCC::Equal, axis, rank);
    f.if_(is_leaf, |f| {
        let end = f.offset(to, 16);
        let write = |f: &mut Emit<'_>, bytes: Value, size: Value| {
            f.store(bytes, to, 0);
            f.store(size, to, 8);
            f.ret(&[end]);
        };
        let is_string = f.cmp_int(IntCC::Equal, kind, any::STR);
        f.if_(is_string, |f| {
            let (bytes, size) = (f.load(object, CONTENT), f.load(object, SIZE));
            write(f, bytes, size);
        });
        let is_small = f.cmp_int(IntCC::Equal, kind, any::SMALL_STR);
        f.if_(is_small, |f| {
            let bytes = f.offset(value, i64::from(any::VALUE));
            let size = f.load32s(value, SMALL_SIZE);
            write(f, bytes, size);
        });
        let is_raw = f.cmp_int(IntCC::Equal, kind, any::RAW_STR);
        f.if_(is_raw, |f| {
            let size = f.call_i64("strlen", &[object]);
            write(f, object, size);
        });
        f.ret(&[null]);
    });
    let other = f.cmp_int(IntCC::NotEqual, kind, ARRAY_TYPE);
    f.if_(other, |f| f.ret(&[null]));
    let (first, size) = (f.load(object, CONTENT), f.load(object, SIZE));
    let wanted = f.scale(axis, 8);
    let wanted = f.add(dims, wanted);
    let wanted = f.load(wanted, 0);
    let differs = f.cmp(IntCC::NotEqual, size, wanted);
    f.if_(differs, |f| f.ret(&[null]));
    let next = f.var(to);
    let deeper = f.offset(axis, 1);
    f.for_(size, |f, i| {
        let at = f.scale(i, any::BYTES);
        let (at, to) = (f.add(first, at), f.get(next));
        let end = f.call_i64("irc_nested_read", &[at, deeper, rank, dims, to]);
        let bad = f.is_zero(end);
        f.if_(bad, |f| f.ret(&[null]));
        f.set(next, end);
    });
    let end = f.get(next);
    f.ret(&[end]);
}

/// `irc_nested_give_all(any) -> status`: the same for the members of an array of results, or for one result.
fn emit_give_all(f: &mut Emit<'_>) {
    let value = f.param(0);
    let kind = f.load32s(value, any::TYPE);
    let is_array = f.cmp_int(IntCC::Equal, kind, ARRAY_TYPE);
    f.if_(is_array, |f| {
        let object = f.load(value, any::VALUE);
        let (first, size) = (f.load(object, CONTENT), f.load(object, SIZE));
        f.for_(size, |f, i| {
            let at = f.scale(i, any::BYTES);
            let at = f.add(first, at);
            let status = f.call_i64("irc_nested_give", &[at]);
            f.if_(status, |f| f.ret(&[status]));
        });
        let good = f.int(0);
        f.ret(&[good]);
    });
    let status = f.call_i64("irc_nested_give", &[value]);
    f.ret(&[status]);
}

/// `irc_nested_give(any) -> status`: puts arrays of strings in the place of a tensor of them; others stay.
fn emit_give(f: &mut Emit<'_>) {
    let value = f.param(0);
    let (kind, good, bad) = (f.load32s(value, any::TYPE), f.int(0), f.int(-1));
    let other = f.cmp_int(IntCC::NotEqual, kind, TENSOR_TYPE);
    f.if_(other, |f| f.ret(&[good]));
    let object = f.load(value, any::VALUE);
    let tensor = f.offset(object, TENSOR_BODY);
    let word = f.load32(tensor, dl::DTYPE);
    let other = f.cmp_int(IntCC::NotEqual, word, STRING_WORD);
    f.if_(other, |f| f.ret(&[good]));
    let elements = f.load(tensor, dl::DATA);
    let end = f.call_i64("irc_nested_write", &[tensor, good, elements, value]);
    let missing = f.is_zero(end);
    f.if_(missing, |f| f.ret(&[bad]));
    f.call_void("irc_release", &[object]);
    f.ret(&[good]);
}

/// `irc_nested_write(tensor, axis, element, any) -> the element behind`; null, with `any` as it was, where there is no memory.
fn emit_write(f: &mut Emit<'_>) {
    let (tensor, axis, element, to) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let (null, rank) = (f.int(0), f.load32s(tensor, dl::NDIM));
    let is_leaf = f.cmp(IntCC::Equal, axis, rank);
    f.if_(is_leaf, |f| {
        let (bytes, size) = (f.load(element, 0), f.load(element, 8));
        let end = f.offset(element, 16);
        let is_small = f.cmp_int(IntCC::SignedLessThanOrEqual, size, SMALL);
        f.if_(is_small, |f| {
            let (kind, size32) = (f.int(any::SMALL_STR), f.low32(size));
            f.store(kind, to, any::TYPE);
            f.store(size32, to, SMALL_SIZE);
            let zero = f.int(0);
            f.store(zero, to, any::VALUE);
            let place = f.offset(to, i64::from(any::VALUE));
            f.call_i64("memcpy", &[place, bytes, size]);
            f.ret(&[end]);
        });
        let all = f.offset(size, 16 + 24 + 16 + 1);
        let block = f.call_i64("irc_malloc", &[all]);
        let missing = f.is_zero(block);
        f.if_(missing, |f| f.ret(&[null]));
        let object = emit_head(f, block, any::STR, "irc_tensor_delete");
        let place = f.offset(object, 24 + 16);
        f.store(place, object, CONTENT);
        f.store(size, object, SIZE);
        f.call_i64("memcpy", &[place, bytes, size]);
        let (last, zero) = (f.add(place, size), f.int(0));
        f.store8(zero, last, 0);
        let kind = f.int(any::STR);
        f.store(kind, to, any::TYPE);
        f.store(object, to, any::VALUE);
        f.ret(&[end]);
    });
    let (shape, at) = (f.load(tensor, dl::SHAPE), f.scale(axis, 8));
    let extent = f.add(shape, at);
    let extent = f.load(extent, 0);
    let object = f.call_i64("irc_array_blank", &[extent]);
    let missing = f.is_zero(object);
    f.if_(missing, |f| f.ret(&[null]));
    let first = f.load(object, CONTENT);
    let next = f.var(element);
    let deeper = f.offset(axis, 1);
    f.for_(extent, |f, i| {
        let at = f.scale(i, any::BYTES);
        let (at, from) = (f.add(first, at), f.get(next));
        let end = f.call_i64("irc_nested_write", &[tensor, deeper, from, at]);
        let missing = f.is_zero(end);
        f.if_(missing, |f| {
            f.call_void("irc_release", &[object]);
            f.ret(&[null]);
        });
        f.set(next, end);
    });
    let kind = f.int(ARRAY_TYPE);
    f.store(kind, to, any::TYPE);
    f.store(object, to, any::VALUE);
    let end = f.get(next);
    f.ret(&[end]);
}

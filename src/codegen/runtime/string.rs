//! Strings at the boundary: an element is `{ const char *bytes; int64_t length; }`, of DLPack's dtype `{3, 128, 1}`.
//!
//! Those of arguments belong to the caller. During a call strings point into arguments, constants and memory of the call;
//! when it ends, the bytes of each result are copied into one block of `malloc`, in the order of the elements, so
//! that the address of the first element's bytes is the block: `free(elements[0].bytes)` ends them.

use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_module::Linkage;
use irc_syntax::Diagnostic;

use super::emit::{Emit, define as func};
use super::error::raise_format;
use super::memory::{HEADER, KEPT, MARK};
use super::result::emit_free;
use super::{MAX_BYTES, TENSOR_BODY};
use crate::codegen::Assembler;
use crate::codegen::entry::layout::dl;

/// The `DLDataType` of a string, as 32 bits.
pub const STRING_WORD: i64 = 3 | 128 << 8 | 1 << 16;
/// Bytes of an element.
const ELEMENT: i64 = 16;

/// Defines the functions of this file.
pub fn define(asm: &mut Assembler) -> Result<(), Diagnostic> {
    let local = Linkage::Local;
    func(asm, "irc_strings_count", local, &[I64], &[I64], emit_count)?;
    func(
        asm,
        "irc_strings_faulty",
        local,
        &[I64],
        &[I64],
        emit_faulty,
    )?;
    func(asm, "irc_strings_own", local, &[I64], &[I32], emit_own)?;
    func(asm, "irc_strings_hand_over", local, &[I64], &[I32], |f| {
        let object = f.param(0);
        let tensor = f.offset(object, TENSOR_BODY);
        let status = f.call_i32("irc_strings_own", &[tensor]);
        f.if_(status, |f| f.ret(&[status]));
        let deleter = f.func_addr("irc_strings_delete", &[I64, I32], &[]);
        f.store(deleter, object, 16);
        f.ret_status(0);
    })?;
    func(asm, "irc_strings_alloc", local, &[I64, I64], &[I64], |f| {
        let (record, bytes) = (f.param(0), f.param(1));
        let data = f.call_i64("irc_alloc", &[record, bytes]);
        f.if_(data, |f| {
            let (kept, block) = (f.int(KEPT), f.offset(data, -HEADER));
            f.store(kept, block, MARK);
        });
        f.ret(&[data]);
    })?;
    let params = [I64, I32];
    func(asm, "irc_strings_delete", local, &params, &[], |f| {
        let (object, flags) = (f.param(0), f.param(1));
        let flags = f.wide(flags);
        let destroy = f.and(flags, 1);
        f.if_(destroy, |f| {
            let tensor = f.offset(object, TENSOR_BODY);
            let count = f.call_i64("irc_strings_count", &[tensor]);
            f.if_(count, |f| {
                let elements = f.load(tensor, dl::DATA);
                let block = f.load(elements, 0);
                f.call_void("free", &[block]);
            });
        });
        emit_free(f);
    })
}

/// `irc_strings_count(tensor) -> n`
fn emit_count(f: &mut Emit<'_>) {
    let tensor = f.param(0);
    let (rank, shape, one) = (
        f.load32s(tensor, dl::NDIM),
        f.load(tensor, dl::SHAPE),
        f.int(1),
    );
    let count = f.var(one);
    f.for_(rank, |f, axis| {
        let at = f.scale(axis, 8);
        let at = f.add(shape, at);
        let (extent, so_far) = (f.load(at, 0), f.get(count));
        let next = f.mul(so_far, extent);
        f.set(count, next);
    });
    let count = f.get(count);
    f.ret(&[count]);
}

/// The first element of a tensor, and their number.
fn elements(f: &mut Emit<'_>, tensor: Value) -> (Value, Value) {
    let count = f.call_i64("irc_strings_count", &[tensor]);
    let (data, offset) = (f.load(tensor, dl::DATA), f.load(tensor, dl::BYTE_OFFSET));
    (f.add(data, offset), count)
}

fn element(f: &mut Emit<'_>, first: Value, i: Value) -> Value {
    let at = f.scale(i, ELEMENT);
    f.add(first, at)
}

/// `irc_strings_faulty(tensor) -> i`: the first element that is no string, or -1.
fn emit_faulty(f: &mut Emit<'_>) {
    let tensor = f.param(0);
    let (first, count) = elements(f, tensor);
    f.for_(count, |f, i| {
        let at = element(f, first, i);
        let (bytes, length) = (f.load(at, 0), f.load(at, 8));
        let beyond = f.cmp_int(IntCC::UnsignedGreaterThan, length, MAX_BYTES);
        let (none, some) = (f.is_zero(bytes), f.is_set(length));
        let missing = f.both(none, some);
        let bad = f.either(beyond, missing);
        f.if_(bad, |f| f.ret(&[i]));
    });
    let none = f.int(-1);
    f.ret(&[none]);
}

/// `irc_strings_own(tensor) -> status`: copies the bytes of all elements into one block.
fn emit_own(f: &mut Emit<'_>) {
    let tensor = f.param(0);
    let (first, count) = elements(f, tensor);
    let empty = f.is_zero(count);
    f.if_(empty, |f| f.ret_status(0));
    let zero = f.int(0);
    let total = f.var(zero);
    f.for_(count, |f, i| {
        let at = element(f, first, i);
        let (length, so_far) = (f.load(at, 8), f.get(total));
        let sum = f.add(so_far, length);
        let limit = f.int(MAX_BYTES);
        let too_many = f.cmp_int(IntCC::UnsignedGreaterThan, sum, MAX_BYTES);
        let sum = f.select(too_many, limit, sum);
        f.set(total, sum);
    });
    let total = f.get(total);
    let all = f.offset(total, 1);
    let block = f.call_i64("malloc", &[all]);
    let missing = f.is_zero(block);
    f.if_(missing, |f| {
        let text = "no memory for strings of %lld bytes";
        raise_format(f, "MemoryError", text, &[total]);
        f.ret_status(-1);
    });
    let to = f.var(block);
    f.for_(count, |f, i| {
        let at = element(f, first, i);
        let (bytes, length, here) = (f.load(at, 0), f.load(at, 8), f.get(to));
        f.if_(length, |f| {
            f.call_i64("memcpy", &[here, bytes, length]);
        });
        f.store(here, at, 0);
        let next = f.add(here, length);
        f.set(to, next);
    });
    f.ret_status(0);
}

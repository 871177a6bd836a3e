//! Sequences, optionals and tensors of any rank at the boundary.
//!
//! A sequence is a TVM-FFI array of tensors, an optional None or its value. Coming in they become objects of the runtime
//! (`runtime/object`) over the caller's bytes; going out every tensor is a new one. They are returned only: no
//! argument can be written in their place.

use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_module::Linkage;
use irc_syntax::Diagnostic;

use super::check::{check, element, slot, tensor_of};
use super::layout::{PARAM_BYTES, any, dl, func, param};
use super::refuse::emit_wrong_dtype;
use crate::codegen::Assembler;
use crate::codegen::runtime::emit::{Emit, define};
use crate::codegen::runtime::error::{raise, raise_format};
use crate::codegen::runtime::object::{ITEMS, record};
use crate::codegen::runtime::{ARRAY_TYPE, TENSOR_BODY, call};

/// Where an array object has its elements, and their number.
const ELEMENTS: i32 = 24;
const SIZE: i32 = 32;

/// Defines the functions of this file.
pub fn define_objects(asm: &mut Assembler) -> Result<(), Diagnostic> {
    let local = Linkage::Local;
    let four = [I64, I64, I64, I64];
    define(asm, "irc_check_object", local, &four, &[I32], emit_object)?;
    define(asm, "irc_record_of", local, &four, &[I64], emit_record)?;
    let three = [I64, I64, I64];
    define(
        asm,
        "irc_check_element",
        local,
        &three,
        &[I32],
        emit_element,
    )?;
    define(
        asm,
        "irc_output_record",
        local,
        &three,
        &[I32],
        emit_output_record,
    )?;
    define(
        asm,
        "irc_output_seq",
        local,
        &three,
        &[I32],
        emit_output_seq,
    )
}

/// `irc_check_object(func, frame, index, arg) -> status`
fn emit_object(f: &mut Emit<'_>) {
    let (desc, frame, index, arg) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let params = f.load(desc, func::PARAMS);
    let param = element(f, params, index, PARAM_BYTES);
    let n_in = f.load(desc, func::N_IN);
    let is_result = f.cmp(IntCC::SignedGreaterThanOrEqual, index, n_in);
    f.if_(is_result, |f| {
        let (name, who) = (f.load(desc, func::NAME), f.load(param, param::NAME));
        let text = "%s: `%s` is returned, and cannot be written into an argument";
        raise_format(f, "TypeError", text, &[name, who]);
        f.ret_status(-1);
    });
    let to = slot(f, desc, frame, index);
    let zero = f.int(0);
    f.store(zero, to, 0);
    f.store(zero, to, 8);
    let (kind, came) = (f.load(param, param::KIND), f.load32s(arg, any::TYPE));
    let [opt_tensor, opt_seq, seq] = [param::OPT_TENSOR, param::OPT_SEQ, param::SEQ]
        .map(|wanted| f.cmp_int(IntCC::Equal, kind, wanted));
    let is_optional = f.either(opt_tensor, opt_seq);
    let is_none = f.cmp_int(IntCC::Equal, came, any::NONE);
    let nothing = f.both(is_optional, is_none);
    f.if_(nothing, |f| f.ret_status(0));
    let wants_seq = f.either(opt_seq, seq);
    f.if_else(
        wants_seq,
        |f| {
            let other = f.cmp_int(IntCC::NotEqual, came, ARRAY_TYPE);
            f.if_(other, |f| {
                let status = f.call_i32("irc_wrong_kind", &[desc, param, index, came]);
                f.ret(&[status]);
            });
            let array = f.load(arg, any::VALUE);
            let (items, n) = (f.load(array, ELEMENTS), f.load(array, SIZE));
            let seq = f.call_i64("irc_seq_new", &[frame, n]);
            let missing = f.is_zero(seq);
            f.if_(missing, |f| f.ret_status(-1));
            f.for_(n, |f, i| {
                let item = element(f, items, i, any::BYTES);
                let object = f.call_i64("irc_record_of", &[desc, frame, index, item]);
                let missing = f.is_zero(object);
                f.if_(missing, |f| f.ret_status(-1));
                let place = element(f, seq, i, 8);
                f.store(object, place, ITEMS);
            });
            f.store(seq, to, 0);
        },
        |f| {
            let object = f.call_i64("irc_record_of", &[desc, frame, index, arg]);
            let missing = f.is_zero(object);
            f.if_(missing, |f| f.ret_status(-1));
            f.store(object, to, 0);
        },
    );
    f.ret_status(0);
}

/// `irc_record_of(func, frame, index, any) -> record` over a tensor's own bytes; null with an error raised.
fn emit_record(f: &mut Emit<'_>) {
    let (desc, frame, index, arg) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let params = f.load(desc, func::PARAMS);
    let param = element(f, params, index, PARAM_BYTES);
    let (came, value) = (f.load32s(arg, any::TYPE), f.load(arg, any::VALUE));
    let null = f.int(0);
    let tensor = tensor_of(f, came, value);
    let tensor = f.get(tensor);
    let missing = f.is_zero(tensor);
    f.if_(missing, |f| {
        f.call_i32("irc_wrong_kind", &[desc, param, index, came]);
        f.ret(&[null]);
    });
    let status = f.call_i32("irc_check_element", &[desc, index, tensor]);
    f.if_(status, |f| f.ret(&[null]));
    let rank = f.load32s(tensor, dl::NDIM);
    let bytes = f.scale(rank, 8);
    let bytes = f.offset(bytes, i64::from(record::DIMS));
    let made = f.call_i64("irc_alloc", &[frame, bytes]);
    let missing = f.is_zero(made);
    f.if_(missing, |f| f.ret(&[made]));
    f.store(rank, made, record::RANK);
    let (data, offset) = (f.load(tensor, dl::DATA), f.load(tensor, dl::BYTE_OFFSET));
    let data = f.add(data, offset);
    f.store(data, made, record::DATA);
    let shape = f.load(tensor, dl::SHAPE);
    let to = f.offset(made, i64::from(record::DIMS));
    let bytes = f.scale(rank, 8);
    f.call_i64("memcpy", &[to, shape, bytes]);
    f.ret(&[made]);
}

/// `irc_check_element(func, index, tensor) -> status`: dtype, device and layout.
fn emit_element(f: &mut Emit<'_>) {
    let (desc, index, tensor) = (f.param(0), f.param(1), f.param(2));
    let params = f.load(desc, func::PARAMS);
    let param = element(f, params, index, PARAM_BYTES);
    let (name, who) = (f.load(desc, func::NAME), f.load(param, param::NAME));
    let ty = f.load(param, param::TYPE);
    let (have, want) = (f.load32(tensor, dl::DTYPE), f.load32(param, param::DTYPE));
    let differs = f.cmp(IntCC::NotEqual, have, want);
    f.if_(differs, |f| {
        emit_wrong_dtype(f, (name, index, who, ty), tensor);
    });
    let device = f.load32s(tensor, dl::DEVICE_TYPE);
    let elsewhere = f.cmp_int(IntCC::NotEqual, device, dl::CPU);
    f.if_(elsewhere, |f| {
        let text = "%s: argument %lld `%s` is on a device of type %lld, wanted is the CPU";
        raise_format(f, "ValueError", text, &[name, index, who, device]);
        f.ret_status(-1);
    });
    let status = f.call_i32("irc_check_layout", &[desc, index, tensor]);
    check(f, status);
    f.ret_status(0);
}

/// The description and the slot of the index-th result.
fn result_of(f: &mut Emit<'_>, record: Value, index: Value) -> (Value, Value) {
    let func = f.load(record, call::FUNC);
    let (params, n_in) = (f.load(func, func::PARAMS), f.load(func, func::N_IN));
    let position = f.add(n_in, index);
    let param = element(f, params, position, PARAM_BYTES);
    let outs = f.load(record, call::OUTS);
    let out = element(f, outs, index, call::OUT_BYTES);
    (param, out)
}

/// A new tensor object with the contents of a record. Raises and returns -1 where there is none.
fn tensor_object(f: &mut Emit<'_>, param: Value, object: Value) -> Value {
    let (dtype, bytes) = (
        f.load(param, param::RESULT_DTYPE),
        f.load(param, param::ELEMENT),
    );
    let rank = f.load(object, record::RANK);
    let dims = f.offset(object, i64::from(record::DIMS));
    let made = f.call_i64("irc_tensor_new", &[dtype, bytes, rank, dims]);
    let missing = f.is_zero(made);
    f.if_(missing, |f| f.ret_status(-1));
    let size = f.var(bytes);
    f.for_(rank, |f, axis| {
        let dim = element(f, dims, axis, 8);
        let (dim, so_far) = (f.load(dim, 0), f.get(size));
        let product = f.mul(so_far, dim);
        f.set(size, product);
    });
    let (size, from) = (f.get(size), f.load(object, record::DATA));
    let to = f.load(made, TENSOR_BODY as i32 + dl::DATA);
    f.call_i64("memcpy", &[to, from, size]);
    made
}

/// `irc_output_record(call, index, record) -> status`; null is an optional without a value.
fn emit_output_record(f: &mut Emit<'_>) {
    let (record, index, object) = (f.param(0), f.param(1), f.param(2));
    let (param, out) = result_of(f, record, index);
    let nothing = f.is_zero(object);
    f.if_(nothing, |f| f.ret_status(0));
    let made = tensor_object(f, param, object);
    f.store(made, out, 8);
    f.ret_status(0);
}

/// `irc_output_seq(call, index, sequence) -> status`; null is an optional without a value.
fn emit_output_seq(f: &mut Emit<'_>) {
    let (record, index, seq) = (f.param(0), f.param(1), f.param(2));
    let (param, out) = result_of(f, record, index);
    let nothing = f.is_zero(seq);
    f.if_(nothing, |f| f.ret_status(0));
    let n = f.load(seq, 0);
    // The array is made first, so that what fails behind it is released with it.
    let bytes = f.scale(n, call::OUT_BYTES);
    let slots = f.call_i64("irc_alloc", &[record, bytes]);
    let missing = f.is_zero(slots);
    f.if_(missing, |f| f.ret_status(-1));
    let zero = f.int(0);
    f.for_(n, |f, i| {
        let slot = element(f, slots, i, call::OUT_BYTES);
        f.store(zero, slot, 8);
    });
    let array = f.call_i64("irc_array_new", &[slots, n]);
    let missing = f.is_zero(array);
    f.if_(missing, |f| f.ret_status(-1));
    f.store(array, out, 8);
    let elements = f.load(array, ELEMENTS);
    f.for_(n, |f, i| {
        let item = element(f, seq, i, 8);
        let item = f.load(item, ITEMS);
        let made = tensor_object(f, param, item);
        let (to, kind) = (element(f, elements, i, any::BYTES), f.int(any::TENSOR));
        f.store(kind, to, any::TYPE);
        f.store(made, to, any::VALUE);
    });
    f.ret_status(0);
}

/// Writes one result as a TVM-FFI value: what its object says it is, or None.
pub fn emit_any(f: &mut Emit<'_>, object: Value, to: Value) {
    let none = f.int(any::NONE);
    f.store(none, to, any::TYPE);
    f.store(object, to, any::VALUE);
    f.if_(object, |f| {
        let kind = f.load32(object, 8);
        f.store(kind, to, any::TYPE);
    });
}

/// Raises unless every result is there; an optional may be absent.
pub fn emit_results_made(f: &mut Emit<'_>, desc: Value, outs: Value) {
    let (n_in, n_out) = (f.load(desc, func::N_IN), f.load(desc, func::N_OUT));
    let params = f.load(desc, func::PARAMS);
    f.for_(n_out, |f, i| {
        let out = element(f, outs, i, call::OUT_BYTES);
        let position = f.add(n_in, i);
        let param = element(f, params, position, PARAM_BYTES);
        let (object, kind) = (f.load(out, 8), f.load(param, param::KIND));
        let missing = f.is_zero(object);
        let needed = {
            let tensor = f.cmp_int(IntCC::NotEqual, kind, param::OPT_TENSOR);
            let seq = f.cmp_int(IntCC::NotEqual, kind, param::OPT_SEQ);
            f.both(tensor, seq)
        };
        let missing = f.both(missing, needed);
        f.if_(missing, |f| {
            raise(f, "RuntimeError", "a result was not made");
            f.ret_status(-1);
        });
    });
}

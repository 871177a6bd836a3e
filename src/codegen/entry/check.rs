//! `irc_call`: checks the arguments of a call against the description of the function, runs it, hands out results.
//!
//! One piece of code serves every function of the object; what differs is data. The order of the checks is the order
//! in which each protects the next: number of arguments; for each tensor kind, dtype, rank, device, dims, strides,
//! data; then ranges of symbols and compound dims. Every refusal names the function, the argument, what came and
//! what was wanted.

use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_frontend::Variable;
use cranelift_module::Linkage;
use irc_syntax::Diagnostic;

use super::layout::{
    DIM_BYTES, PARAM_BYTES, SYMBOL_BYTES, any, dim, dl, frame, func, param, symbol,
};
use super::object;
use super::refuse::{emit_kind_name, emit_wrong_dtype, emit_wrong_kind};
use crate::codegen::Assembler;
use crate::codegen::runtime::emit::{Emit, define};
use crate::codegen::runtime::error::raise_format;
use crate::codegen::runtime::level;
use crate::codegen::runtime::{ARRAY_TYPE, MAX_BYTES, STRING_WORD, TENSOR_BODY, call};

/// Defines the functions of this file.
pub fn define_checks(asm: &mut Assembler) -> Result<(), Diagnostic> {
    let local = Linkage::Local;
    define(
        asm,
        "irc_call",
        local,
        &[I64, I64, I32, I64, I64],
        &[I32],
        emit_call,
    )?;
    define(
        asm,
        "irc_call_run",
        local,
        &[I64, I64, I64, I64, I64],
        &[I32],
        emit_run,
    )?;
    define(
        asm,
        "irc_call_bind",
        local,
        &[I64, I64, I64, I64],
        &[I32],
        emit_call_bind,
    )?;
    define(
        asm,
        "irc_call_shapes",
        local,
        &[I64, I64, I64, I64, I64],
        &[I32],
        emit_shapes,
    )?;
    define(
        asm,
        "irc_bind",
        local,
        &[I64, I64, I64, I64],
        &[I32],
        emit_bind,
    )?;
    define(
        asm,
        "irc_check_number",
        local,
        &[I64, I64, I64, I64],
        &[I32],
        emit_number,
    )?;
    define(
        asm,
        "irc_check_shape",
        local,
        &[I64, I64, I64, I64],
        &[I32],
        emit_shape,
    )?;
    define(
        asm,
        "irc_check_tensor",
        local,
        &[I64, I64, I64, I64],
        &[I32],
        emit_tensor,
    )?;
    define(
        asm,
        "irc_check_layout",
        local,
        &[I64, I64, I64],
        &[I32],
        emit_layout,
    )?;
    define(
        asm,
        "irc_check_dims",
        local,
        &[I64, I64, I64, I64, I64],
        &[I32],
        emit_dims,
    )?;
    define(
        asm,
        "irc_check_facts",
        local,
        &[I64, I64],
        &[I32],
        emit_facts,
    )?;
    define(
        asm,
        "irc_wrong_kind",
        local,
        &[I64, I64, I64, I64],
        &[I32],
        emit_wrong_kind,
    )?;
    define(asm, "irc_kind_name", local, &[I64], &[I64], emit_kind_name)
}

/// `base + index * bytes`
pub(super) fn element(f: &mut Emit<'_>, base: Value, index: Value, bytes: i64) -> Value {
    let at = f.scale(index, bytes);
    f.add(base, at)
}

/// The `DLTensor` that an argument of a kind and a value holds; null where it holds none.
pub(super) fn tensor_of(f: &mut Emit<'_>, came: Value, value: Value) -> Variable {
    let null = f.int(0);
    let tensor = f.var(null);
    let plain = f.cmp_int(IntCC::Equal, came, any::DL_TENSOR);
    f.if_(plain, |f| f.set(tensor, value));
    let object = f.cmp_int(IntCC::Equal, came, any::TENSOR);
    f.if_(object, |f| {
        let body = f.offset(value, TENSOR_BODY);
        f.set(tensor, body);
    });
    tensor
}

/// The part of the frame whose offset stands in the function's description.
fn part(f: &mut Emit<'_>, func: Value, frame: Value, which: i32) -> Value {
    let offset = f.load(func, which);
    f.add(frame, offset)
}

/// Leaves with the status when it is not 0.
pub(super) fn check(f: &mut Emit<'_>, status: Value) {
    f.if_(status, |f| f.ret(&[status]));
}

/// `irc_call(func, args, n, result, frame) -> status`; 0, or a code of [`crate::codegen::runtime::error::STATUS`].
fn emit_call(f: &mut Emit<'_>) {
    let (desc, args, n, result, frame) =
        (f.param(0), f.param(1), f.param(2), f.param(3), f.param(4));
    let (zero, n) = (f.int(0), f.wide(n));
    for offset in [call::WORKSPACE, call::BLOCKS] {
        f.store(zero, frame, offset);
    }
    f.store(desc, frame, call::FUNC);
    let outs = part(f, desc, frame, frame::OUTS);
    f.store(outs, frame, call::OUTS);
    let n_out = f.load(desc, func::N_OUT);
    f.for_(n_out, |f, i| {
        let out = element(f, outs, i, call::OUT_BYTES);
        f.store(zero, out, 0);
        f.store(zero, out, 8);
    });
    f.call_void("irc_pool_enter", &[]);
    let status = f.call_i32("irc_call_run", &[desc, args, n, result, frame]);
    f.call_void("irc_pool_leave", &[]);
    f.call_void("irc_call_end", &[frame]);
    f.if_(status, |f| {
        f.for_(n_out, |f, i| {
            let out = element(f, outs, i, call::OUT_BYTES);
            let object = f.load(out, 8);
            f.call_void("irc_release", &[object]);
        });
        let status = f.call_i32("irc_report", &[]);
        f.ret(&[status]);
    });
    f.ret_status(0);
}

/// `irc_call_bind(func, args, n, frame) -> status`: all checks of a call.
fn emit_call_bind(f: &mut Emit<'_>) {
    let (desc, args, n, frame) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let (n_in, n_out) = (f.load(desc, func::N_IN), f.load(desc, func::N_OUT));
    let all = f.add(n_in, n_out);
    let inputs_only = f.cmp(IntCC::Equal, n, n_in);
    let with_outputs = f.cmp(IntCC::Equal, n, all);
    let fits = f.either(inputs_only, with_outputs);
    f.if_else(
        fits,
        |_| {},
        |f| {
            let (name, usage) = (f.load(desc, func::NAME), f.load(desc, func::USAGE));
            let text =
                "%s: %lld arguments, wanted are %lld (%s), or %lld with the results to write";
            raise_format(f, "TypeError", text, &[name, n, n_in, usage, all]);
            f.ret_status(-1);
        },
    );
    let binders = part(f, desc, frame, frame::BINDERS);
    let symbols = part(f, desc, frame, frame::SYMBOLS);
    let (n_symbols, zero) = (f.load(desc, func::N_SYMBOLS), f.int(0));
    f.for_(n_symbols, |f, i| {
        let (symbol, binder) = (element(f, symbols, i, 8), element(f, binders, i, 8));
        f.store(zero, symbol, 0);
        f.store(zero, binder, 0);
    });
    f.for_(n, |f, i| {
        let arg = element(f, args, i, any::BYTES);
        let status = f.call_i32("irc_bind", &[desc, frame, i, arg]);
        check(f, status);
    });
    let status = f.call_i32("irc_check_facts", &[desc, frame]);
    f.ret(&[status]);
}

/// `irc_call_run(func, args, n, result, frame) -> status`, with an error raised when it is not 0.
fn emit_run(f: &mut Emit<'_>) {
    let (desc, args, n, result, frame) =
        (f.param(0), f.param(1), f.param(2), f.param(3), f.param(4));
    level::require(f);
    let status = f.call_i32("irc_call_bind", &[desc, args, n, frame]);
    check(f, status);
    let status = f.call_i32("irc_params_ready", &[]);
    check(f, status);
    let (host, argv) = (f.load(desc, func::HOST), part(f, desc, frame, frame::ARGS));
    let status = f.call_addr(host, &[frame, argv], &[I32]);
    check(f, status);
    emit_own_strings(f, desc, frame);
    let n_in = f.load(desc, func::N_IN);
    let with_outputs = f.cmp(IntCC::NotEqual, n, n_in);
    f.if_(with_outputs, |f| f.ret_status(0));
    emit_result(f, desc, frame, result);
    f.ret_status(0);
}

/// Gives results of strings bytes of their own.
fn emit_own_strings(f: &mut Emit<'_>, desc: Value, frame: Value) {
    let (outs, params) = (
        part(f, desc, frame, frame::OUTS),
        f.load(desc, func::PARAMS),
    );
    let (n_in, n_out) = (f.load(desc, func::N_IN), f.load(desc, func::N_OUT));
    f.for_(n_out, |f, i| {
        let position = f.add(n_in, i);
        let param = element(f, params, position, PARAM_BYTES);
        let dtype = f.load(param, param::DTYPE);
        let strings = f.cmp_int(IntCC::Equal, dtype, STRING_WORD);
        f.if_(strings, |f| {
            let out = element(f, outs, i, call::OUT_BYTES);
            let (given, made) = (f.load(out, 0), f.load(out, 8));
            f.if_(given, |f| {
                let status = f.call_i32("irc_strings_own", &[given]);
                check(f, status);
            });
            f.if_(made, |f| {
                let status = f.call_i32("irc_strings_hand_over", &[made]);
                check(f, status);
            });
        });
    });
}

/// Hands the results to the caller.
fn emit_result(f: &mut Emit<'_>, desc: Value, frame: Value, result: Value) {
    let outs = part(f, desc, frame, frame::OUTS);
    let n_out = f.load(desc, func::N_OUT);
    object::emit_results_made(f, desc, outs);
    let form = f.load(desc, func::RESULT);
    let single = f.cmp_int(IntCC::Equal, form, func::RESULT_TENSOR);
    f.if_(single, |f| {
        let object = f.load(outs, 8);
        object::emit_any(f, object, result);
    });
    let array = f.cmp_int(IntCC::Equal, form, func::RESULT_ARRAY);
    f.if_(array, |f| {
        let object = f.call_i64("irc_array_new", &[outs, n_out]);
        let missing = f.is_zero(object);
        f.if_(missing, |f| f.ret_status(-1));
        let kind = f.int(ARRAY_TYPE);
        f.store(kind, result, any::TYPE);
        f.store(object, result, any::VALUE);
    });
}

/// `irc_bind(func, frame, index, arg) -> status`: checks one argument and notes it for the function.
fn emit_bind(f: &mut Emit<'_>) {
    let (desc, frame, index, arg) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let params = f.load(desc, func::PARAMS);
    let param = element(f, params, index, PARAM_BYTES);
    let kind = f.load(param, param::KIND);
    let route = |f: &mut Emit<'_>, wanted: i64, checker: &str| {
        let same = f.cmp_int(IntCC::Equal, kind, wanted);
        f.if_(same, |f| {
            let status = f.call_i32(checker, &[desc, frame, index, arg]);
            f.ret(&[status]);
        });
    };
    route(f, param::TENSOR, "irc_check_tensor");
    route(f, param::SHAPE, "irc_check_shape");
    for kind in [
        param::SEQ,
        param::OPT_TENSOR,
        param::OPT_SEQ,
        param::ANY_RANK,
    ] {
        route(f, kind, "irc_check_object");
    }
    let status = f.call_i32("irc_check_number", &[desc, frame, index, arg]);
    f.ret(&[status]);
}

/// The place of the index-th argument of the function.
pub(super) fn slot(f: &mut Emit<'_>, desc: Value, frame: Value, index: Value) -> Value {
    let argv = part(f, desc, frame, frame::ARGS);
    element(f, argv, index, 16)
}

/// `irc_check_number(func, frame, index, arg) -> status`
fn emit_number(f: &mut Emit<'_>) {
    let (desc, frame, index, arg) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let params = f.load(desc, func::PARAMS);
    let param = element(f, params, index, PARAM_BYTES);
    let (wanted, came) = (f.load(param, param::KIND), f.load32s(arg, any::TYPE));
    let value = f.load(arg, any::VALUE);
    let to = slot(f, desc, frame, index);
    let zero = f.int(0);
    f.store(zero, to, 8);
    let is_int = f.cmp_int(IntCC::Equal, came, any::INT);
    let is_bool = f.cmp_int(IntCC::Equal, came, any::BOOL);
    let whole = f.either(is_int, is_bool);
    let wants_float = f.cmp_int(IntCC::Equal, wanted, param::FLOAT);
    f.if_else(
        wants_float,
        |f| {
            let is_float = f.cmp_int(IntCC::Equal, came, any::FLOAT);
            f.if_(is_float, |f| {
                f.store(value, to, 0);
                f.ret_status(0);
            });
            f.if_(whole, |f| {
                let float = f.float_of(value);
                f.store(float, to, 0);
                f.ret_status(0);
            });
        },
        |f| {
            f.if_(whole, |f| {
                f.store(value, to, 0);
                f.ret_status(0);
            });
        },
    );
    let status = f.call_i32("irc_wrong_kind", &[desc, param, index, came]);
    f.ret(&[status]);
}

/// `irc_check_shape(func, frame, index, arg) -> status`
fn emit_shape(f: &mut Emit<'_>) {
    let (desc, frame, index, arg) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let params = f.load(desc, func::PARAMS);
    let param = element(f, params, index, PARAM_BYTES);
    let (came, object) = (f.load32s(arg, any::TYPE), f.load(arg, any::VALUE));
    let other = f.cmp_int(IntCC::NotEqual, came, any::SHAPE);
    f.if_(other, |f| {
        let status = f.call_i32("irc_wrong_kind", &[desc, param, index, came]);
        f.ret(&[status]);
    });
    let (dims, rank) = (f.load(object, 24), f.load(object, 32));
    let to = slot(f, desc, frame, index);
    let zero = f.int(0);
    f.store(zero, to, 0);
    f.store(dims, to, 8);
    let status = f.call_i32("irc_check_dims", &[desc, frame, index, rank, dims]);
    f.ret(&[status]);
}

/// `irc_check_tensor(func, frame, index, arg) -> status`
fn emit_tensor(f: &mut Emit<'_>) {
    let (desc, frame, index, arg) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let params = f.load(desc, func::PARAMS);
    let param = element(f, params, index, PARAM_BYTES);
    let (came, value) = (f.load32s(arg, any::TYPE), f.load(arg, any::VALUE));
    let tensor = tensor_of(f, came, value);
    let wanted = f.load(param, param::DTYPE);
    let strings = f.cmp_int(IntCC::Equal, wanted, STRING_WORD);
    let unread = f.get(tensor);
    let unread = f.is_zero(unread);
    let nested = f.both(strings, unread);
    f.if_(nested, |f| {
        let rank = f.load(param, param::RANK);
        let read = f.call_i64("irc_nested_take", &[frame, arg, rank]);
        f.set(tensor, read);
    });
    let tensor = f.get(tensor);
    let missing = f.is_zero(tensor);
    f.if_(missing, |f| {
        let status = f.call_i32("irc_wrong_kind", &[desc, param, index, came]);
        f.ret(&[status]);
    });
    let (name, who) = (f.load(desc, func::NAME), f.load(param, param::NAME));
    let ty = f.load(param, param::TYPE);
    let (have, want) = (f.load32(tensor, dl::DTYPE), f.load32(param, param::DTYPE));
    let differs = f.cmp(IntCC::NotEqual, have, want);
    f.if_(differs, |f| {
        emit_wrong_dtype(f, (name, index, who, ty), tensor)
    });
    let device = f.load32s(tensor, dl::DEVICE_TYPE);
    let elsewhere = f.cmp_int(IntCC::NotEqual, device, dl::CPU);
    f.if_(elsewhere, |f| {
        let text = "%s: argument %lld `%s` is on a device of type %lld, wanted is the CPU";
        raise_format(f, "ValueError", text, &[name, index, who, device]);
        f.ret_status(-1);
    });
    let (rank, shape) = (f.load32s(tensor, dl::NDIM), f.load(tensor, dl::SHAPE));
    let is_input = {
        let n_in = f.load(desc, func::N_IN);
        f.cmp(IntCC::SignedLessThan, index, n_in)
    };
    let status = f.call_i32("irc_check_dims", &[desc, frame, index, rank, shape]);
    check(f, status);
    let status = f.call_i32("irc_check_layout", &[desc, index, tensor]);
    check(f, status);
    f.if_else(
        is_input,
        |f| {
            emit_check_strings(f, (name, index, who), param, tensor);
            let (data, offset) = (f.load(tensor, dl::DATA), f.load(tensor, dl::BYTE_OFFSET));
            let data = f.add(data, offset);
            let to = slot(f, desc, frame, index);
            f.store(data, to, 0);
            f.store(shape, to, 8);
        },
        |f| {
            let outs = part(f, desc, frame, frame::OUTS);
            let n_in = f.load(desc, func::N_IN);
            let result = f.sub(index, n_in);
            let out = element(f, outs, result, call::OUT_BYTES);
            f.store(tensor, out, 0);
        },
    );
    f.ret_status(0);
}

/// Every string of an argument has bytes.
fn emit_check_strings(
    f: &mut Emit<'_>,
    (name, index, who): (Value, Value, Value),
    param: Value,
    tensor: Value,
) {
    let dtype = f.load(param, param::DTYPE);
    let strings = f.cmp_int(IntCC::Equal, dtype, STRING_WORD);
    f.if_(strings, |f| {
        let faulty = f.call_i64("irc_strings_faulty", &[tensor]);
        let bad = f.cmp_int(IntCC::SignedGreaterThanOrEqual, faulty, 0);
        f.if_(bad, |f| {
            let text = "%s: argument %lld `%s` has no string as element %lld";
            raise_format(f, "ValueError", text, &[name, index, who, faulty]);
            f.ret_status(-1);
        });
    });
}

/// `irc_check_layout(func, index, tensor) -> status`: strides are those of row-major order, and data is there.
fn emit_layout(f: &mut Emit<'_>) {
    let (desc, index, tensor) = (f.param(0), f.param(1), f.param(2));
    let params = f.load(desc, func::PARAMS);
    let param = element(f, params, index, PARAM_BYTES);
    let (name, who) = (f.load(desc, func::NAME), f.load(param, param::NAME));
    let rank = f.load32s(tensor, dl::NDIM);
    let (shape, strides) = (f.load(tensor, dl::SHAPE), f.load(tensor, dl::STRIDES));
    let (one, bytes) = (f.int(1), f.load(param, param::ELEMENT));
    let count = f.var(one);
    f.for_(rank, |f, i| {
        let extent = element(f, shape, i, 8);
        let (extent, so_far) = (f.load(extent, 0), f.get(count));
        let (next, high) = (f.mul(so_far, extent), f.high(so_far, extent));
        let wrapped = f.is_set(high);
        let all = f.mul(next, bytes);
        let huge = f.cmp_int(IntCC::UnsignedGreaterThan, all, MAX_BYTES);
        let huge_count = f.cmp_int(IntCC::UnsignedGreaterThan, next, MAX_BYTES);
        let bad = f.either(wrapped, huge);
        let bad = f.either(bad, huge_count);
        f.if_(bad, |f| {
            let text = "%s: argument %lld `%s` claims more elements than memory can hold";
            raise_format(f, "ValueError", text, &[name, index, who]);
            f.ret_status(-1);
        });
        f.set(count, next);
    });
    let count = f.get(count);
    let empty = f.is_zero(count);
    f.if_(empty, |f| f.ret_status(0));
    let data = f.load(tensor, dl::DATA);
    let missing = f.is_zero(data);
    f.if_(missing, |f| {
        let text = "%s: argument %lld `%s` has no data, wanted are %lld elements";
        raise_format(f, "ValueError", text, &[name, index, who, count]);
        f.ret_status(-1);
    });
    let given = f.is_set(strides);
    f.if_(given, |f| {
        let stride = f.var(one);
        f.for_(rank, |f, i| {
            let last = f.offset(rank, -1);
            let axis = f.sub(last, i);
            let (extent, have) = (element(f, shape, axis, 8), element(f, strides, axis, 8));
            let (extent, have, want) = (f.load(extent, 0), f.load(have, 0), f.get(stride));
            // The stride of an axis of one element is never used.
            let used = f.cmp_int(IntCC::NotEqual, extent, 1);
            let differs = f.cmp(IntCC::NotEqual, have, want);
            let bad = f.both(used, differs);
            f.if_(bad, |f| {
                let text = "%s: argument %lld `%s` is not compact: axis %lld has stride %lld, wanted is %lld";
                raise_format(f, "ValueError", text, &[name, index, who, axis, have, want]);
                f.ret_status(-1);
            });
            let next = f.mul(want, extent);
            f.set(stride, next);
        });
    });
    f.ret_status(0);
}

/// `irc_check_dims(func, frame, index, rank, dims) -> status`: numbers must agree, symbols are bound.
fn emit_dims(f: &mut Emit<'_>) {
    let (desc, frame, index, rank, dims) =
        (f.param(0), f.param(1), f.param(2), f.param(3), f.param(4));
    let params = f.load(desc, func::PARAMS);
    let param = element(f, params, index, PARAM_BYTES);
    let (name, who) = (f.load(desc, func::NAME), f.load(param, param::NAME));
    let (ty, wanted) = (f.load(param, param::TYPE), f.load(param, param::RANK));
    let differs = f.cmp(IntCC::NotEqual, rank, wanted);
    f.if_(differs, |f| {
        let text = "%s: argument %lld `%s` has %lld dims, wanted are %lld: %s";
        raise_format(f, "ValueError", text, &[name, index, who, rank, wanted, ty]);
        f.ret_status(-1);
    });
    let descs = f.load(param, param::DIMS);
    f.for_(rank, |f, axis| {
        let (at, rule) = (
            element(f, dims, axis, 8),
            element(f, descs, axis, DIM_BYTES),
        );
        let (have, kind, value) = (
            f.load(at, 0),
            f.load(rule, dim::KIND),
            f.load(rule, dim::VALUE),
        );
        let negative = f.cmp_int(IntCC::SignedLessThan, have, 0);
        f.if_(negative, |f| {
            let text = "%s: `%s.shape[%lld]` is %lld";
            raise_format(f, "ValueError", text, &[name, who, axis, have]);
            f.ret_status(-1);
        });
        let is_const = f.cmp_int(IntCC::Equal, kind, dim::CONST);
        f.if_(is_const, |f| {
            let differs = f.cmp(IntCC::NotEqual, have, value);
            f.if_(differs, |f| {
                let text = "%s: `%s.shape[%lld]` is %lld, wanted is %lld: %s";
                raise_format(f, "ValueError", text, &[name, who, axis, have, value, ty]);
                f.ret_status(-1);
            });
        });
        let is_linear = f.cmp_int(IntCC::Equal, kind, dim::LINEAR);
        f.if_(is_linear, |f| {
            emit_symbol(
                f,
                (desc, frame),
                (index, axis),
                (name, who, ty),
                (have, rule),
            );
        });
    });
    f.ret_status(0);
}

/// Binds the symbol of a dim `a * symbol + b`, or compares it with what it is bound to.
fn emit_symbol(
    f: &mut Emit<'_>,
    (desc, frame): (Value, Value),
    (index, axis): (Value, Value),
    (name, who, ty): (Value, Value, Value),
    (have, rule): (Value, Value),
) {
    let number = f.load(rule, dim::VALUE);
    let (factor, term) = (f.load(rule, dim::FACTOR), f.load(rule, dim::TERM));
    let symbols = part(f, desc, frame, frame::SYMBOLS);
    let binders = part(f, desc, frame, frame::BINDERS);
    let (value_at, binder_at) = (
        element(f, symbols, number, 8),
        element(f, binders, number, 8),
    );
    let binder = f.load(binder_at, 0);
    let fresh = f.is_zero(binder);
    f.if_else(
        fresh,
        |f| {
            let rest = f.sub(have, term);
            let negative = f.cmp_int(IntCC::SignedLessThan, rest, 0);
            let left = f.rem(rest, factor);
            let uneven = f.is_set(left);
            let bad = f.either(negative, uneven);
            f.if_(bad, |f| {
                let text = "%s: `%s.shape[%lld]` is %lld, which does not fit %s";
                raise_format(f, "ValueError", text, &[name, who, axis, have, ty]);
                f.ret_status(-1);
            });
            let value = f.div(rest, factor);
            f.store(value, value_at, 0);
            let place = f.shl(index, 8);
            let place = f.or(place, axis);
            let place = f.offset(place, 1);
            f.store(place, binder_at, 0);
        },
        |f| {
            let value = f.load(value_at, 0);
            let want = f.mul(value, factor);
            let want = f.add(want, term);
            let differs = f.cmp(IntCC::NotEqual, have, want);
            f.if_(differs, |f| {
                let descs = f.load(desc, func::SYMBOLS);
                let at = element(f, descs, number, SYMBOL_BYTES);
                let symbol = f.load(at, symbol::NAME);
                let place = f.offset(binder, -1);
                let (first, first_axis) = (f.shr(place, 8), f.and(place, 0xff));
                let params = f.load(desc, func::PARAMS);
                let at = element(f, params, first, PARAM_BYTES);
                let first = f.load(at, param::NAME);
                let text = "%s: `%s.shape[%lld]` is %lld, wanted is %lld: `%s` is %lld by `%s.shape[%lld]`";
                let args = [name, who, axis, have, want, symbol, value, first, first_axis];
                raise_format(f, "ValueError", text, &args);
                f.ret_status(-1);
            });
        },
    );
}

/// `irc_check_facts(func, frame) -> status`: ranges and divisibility of symbols, and compound dims.
fn emit_facts(f: &mut Emit<'_>) {
    let (desc, frame) = (f.param(0), f.param(1));
    let name = f.load(desc, func::NAME);
    let (symbols, descs) = (
        part(f, desc, frame, frame::SYMBOLS),
        f.load(desc, func::SYMBOLS),
    );
    let binders = part(f, desc, frame, frame::BINDERS);
    let n_symbols = f.load(desc, func::N_SYMBOLS);
    f.for_(n_symbols, |f, i| {
        let (at, facts) = (
            element(f, symbols, i, 8),
            element(f, descs, i, SYMBOL_BYTES),
        );
        // A symbol of results alone has no value yet, and 0 breaks no rule but a minimum.
        let (value, who) = (f.load(at, 0), f.load(facts, symbol::NAME));
        let (min, max) = (f.load(facts, symbol::MIN), f.load(facts, symbol::MAX));
        let binder = element(f, binders, i, 8);
        let binder = f.load(binder, 0);
        let (low, bound) = (f.cmp(IntCC::SignedLessThan, value, min), f.is_set(binder));
        let low = f.both(low, bound);
        f.if_(low, |f| {
            let text = "%s: `%s` is %lld, wanted is at least %lld";
            raise_format(f, "ValueError", text, &[name, who, value, min]);
            f.ret_status(-1);
        });
        let high = f.cmp(IntCC::SignedGreaterThan, value, max);
        f.if_(high, |f| {
            let text = "%s: `%s` is %lld, wanted is at most %lld";
            raise_format(f, "ValueError", text, &[name, who, value, max]);
            f.ret_status(-1);
        });
        let multiple = f.load(facts, symbol::MULTIPLE_OF);
        let rest = f.rem(value, multiple);
        f.if_(rest, |f| {
            let text = "%s: `%s` is %lld, wanted is a multiple of %lld";
            raise_format(f, "ValueError", text, &[name, who, value, multiple]);
            f.ret_status(-1);
        });
    });
    let evaluate = f.load(desc, func::DIMS);
    let none = f.is_zero(evaluate);
    f.if_(none, |f| f.ret_status(0));
    let dims = part(f, desc, frame, frame::DIMS);
    f.call_addr(evaluate, &[symbols, dims], &[]);
    let (n_in, argv) = (f.load(desc, func::N_IN), part(f, desc, frame, frame::ARGS));
    let params = f.load(desc, func::PARAMS);
    f.for_(n_in, |f, i| {
        let (arg, param) = (element(f, argv, i, 16), element(f, params, i, PARAM_BYTES));
        let (shape, rules) = (f.load(arg, 8), f.load(param, param::DIMS));
        let rank = f.load(param, param::RANK);
        f.for_(rank, |f, axis| {
            let (at, rule) = (
                element(f, shape, axis, 8),
                element(f, rules, axis, DIM_BYTES),
            );
            let kind = f.load(rule, dim::KIND);
            let compound = f.cmp_int(IntCC::Equal, kind, dim::COMPOUND);
            f.if_(compound, |f| {
                let place = f.load(rule, dim::VALUE);
                let want = element(f, dims, place, 8);
                let (have, want) = (f.load(at, 0), f.load(want, 0));
                let differs = f.cmp(IntCC::NotEqual, have, want);
                f.if_(differs, |f| {
                    let (who, ty) = (f.load(param, param::NAME), f.load(param, param::TYPE));
                    let text = "%s: `%s.shape[%lld]` is %lld, wanted is %lld: %s";
                    raise_format(f, "ValueError", text, &[name, who, axis, have, want, ty]);
                    f.ret_status(-1);
                });
            });
        });
    });
    f.ret_status(0);
}

/// `irc_call_shapes(func, args, n, frame, shapes) -> status`: fills one array a result with its dims, -1 where a dim
/// is known only by running.
fn emit_shapes(f: &mut Emit<'_>) {
    let (desc, args, n) = (f.param(0), f.param(1), f.param(2));
    let (frame, shapes) = (f.param(3), f.param(4));
    let status = f.call_i32("irc_call_bind", &[desc, args, n, frame]);
    f.if_(status, |f| {
        let status = f.call_i32("irc_report", &[]);
        f.ret(&[status]);
    });
    let (n_in, n_out) = (f.load(desc, func::N_IN), f.load(desc, func::N_OUT));
    let (params, symbols) = (
        f.load(desc, func::PARAMS),
        part(f, desc, frame, frame::SYMBOLS),
    );
    let compound = part(f, desc, frame, frame::DIMS);
    f.for_(n_out, |f, i| {
        let position = f.add(n_in, i);
        let (param, shape) = (
            element(f, params, position, PARAM_BYTES),
            element(f, shapes, i, 8),
        );
        let (rules, shape) = (f.load(param, param::DIMS), f.load(shape, 0));
        let rank = f.load(param, param::RANK);
        f.for_(rank, |f, axis| {
            let (rule, to) = (
                element(f, rules, axis, DIM_BYTES),
                element(f, shape, axis, 8),
            );
            let (kind, value) = (f.load(rule, dim::KIND), f.load(rule, dim::VALUE));
            let unknown = f.int(-1);
            f.store(unknown, to, 0);
            let is_const = f.cmp_int(IntCC::Equal, kind, dim::CONST);
            f.if_(is_const, |f| f.store(value, to, 0));
            let is_linear = f.cmp_int(IntCC::Equal, kind, dim::LINEAR);
            f.if_(is_linear, |f| {
                let symbol = element(f, symbols, value, 8);
                let symbol = f.load(symbol, 0);
                let (factor, term) = (f.load(rule, dim::FACTOR), f.load(rule, dim::TERM));
                let product = f.mul(symbol, factor);
                let sum = f.add(product, term);
                f.store(sum, to, 0);
            });
            let is_compound = f.cmp_int(IntCC::Equal, kind, dim::COMPOUND);
            f.if_(is_compound, |f| {
                let from = element(f, compound, value, 8);
                let value = f.load(from, 0);
                f.store(value, to, 0);
            });
        });
    });
    f.ret_status(0);
}

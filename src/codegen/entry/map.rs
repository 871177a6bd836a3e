//! Maps at the boundary of TVM-FFI.
//!
//! Inside, a map is two tensors, its keys and its values, and so it is in C. The attribute `irc.maps` of a function says which
//! parameters and results are such pairs:
//!
//!     R.func_attr({"irc.maps": {"inputs": {"x": 0}, "results": {"z": 1}}})
//!
//! Parameters 0 and 1 are then the keys and values of the map `x`, and results 1 and 2 are the keys and rows of values of `z`,
//! a list of maps. A caller passes a map (a `dict` of Python) in the place of both; tensors are taken too. Results become maps
//! where the library of TVM-FFI is loaded, by whose functions maps are read and made; without it they stay tensors.

use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_frontend::Variable;
use cranelift_module::Linkage;
use irc_syntax::{DType, Diagnostic};

use super::describe::{Entry, Kind};
use super::layout::{DL_BYTES, any, dl};
use crate::codegen::Assembler;
use crate::codegen::runtime::emit::{Emit, define};
use crate::codegen::runtime::error::{raise, raise_format};
use crate::codegen::runtime::{ARRAY_TYPE, STRING_WORD, TENSOR_BODY};

/// Where an array or string object has its content, and its size.
const CONTENT: i32 = 24;
const SIZE: i32 = 32;
/// Type indices of maps, and the least one of objects.
const MAP: i64 = 72;
const DICT: i64 = 76;
const FIRST_OBJECT: i64 = 64;
/// Where a short string says its length.
const SMALL_SIZE: i32 = 4;
/// `DLDataType`s of numbers.
const INT64_WORD: i64 = 64 << 8 | 1 << 16;
const FLOAT32_WORD: i64 = 2 | 32 << 8 | 1 << 16;
const FLOAT64_WORD: i64 = 2 | 64 << 8 | 1 << 16;
/// For each entry of a map: two elements of 16 bytes, and room for two short strings.
const ENTRY_BYTES: i64 = 48;
/// More entries than memory holds.
const MAX_ENTRIES: i64 = 1 << 40;

/// Whether keys or values of a dtype can be passed in a map.
pub fn can_pass(dtype: DType) -> bool {
    matches!(dtype, DType::Str | DType::I64 | DType::F32 | DType::F64)
}

/// Defines what the entries of functions with maps call.
pub fn define_maps(asm: &mut Assembler) -> Result<(), Diagnostic> {
    let mut local = |name: &str, n: usize, body: fn(&mut Emit<'_>)| {
        define(asm, name, Linkage::Local, &vec![I64; n], &[I64], body)
    };
    local("irc_map_function", 2, emit_function)?;
    local("irc_map_element", 4, emit_element)?;
    local("irc_map_take", 4, emit_take)?;
    local("irc_map_give", 3, emit_give)
}

/// `irc_map_function(name, length) -> function`, one reference to it; null where there is none.
fn emit_function(f: &mut Emit<'_>) {
    let (name, length, null) = (f.param(0), f.param(1), f.int(0));
    let find = f.func_addr("TVMFFIFunctionGetGlobal", &[I64, I64], &[I32]);
    let missing = f.is_zero(find);
    f.if_(missing, |f| f.ret(&[null]));
    let (text, out) = (f.stack(16), f.stack(8));
    f.store(name, text, 0);
    f.store(length, text, 8);
    f.store(null, out, 0);
    f.call_addr(find, &[text, out], &[I32]);
    let function = f.load(out, 0);
    f.ret(&[function]);
}

/// A function of TVM-FFI by its name.
fn function(f: &mut Emit<'_>, name: &str) -> Value {
    let (text, length) = (f.text(name), f.int(name.len() as i64));
    f.call_i64("irc_map_function", &[text, length])
}

/// Calls a function of TVM-FFI; what it answers lies at `result`. Its own error is what is reported.
fn call(f: &mut Emit<'_>, function: Value, args: Value, n: Value, result: Value) -> Value {
    let zero = f.int(0);
    f.store(zero, result, 0);
    f.store(zero, result, 8);
    let n = f.low32(n);
    let run = f.func_addr("TVMFFIFunctionCall", &[I64, I64, I32, I64], &[I32]);
    f.call_addr(run, &[function, args, n, result], &[I32])
}

/// Gives up a value that a call answered.
fn release(f: &mut Emit<'_>, value: Value) {
    let kind = f.load32s(value, any::TYPE);
    let is_object = f.cmp_int(IntCC::SignedGreaterThanOrEqual, kind, FIRST_OBJECT);
    f.if_(is_object, |f| {
        let object = f.load(value, any::VALUE);
        f.call_void("irc_release", &[object]);
    });
}

/// `irc_map_element(any, dtype, to, room) -> status`: one key or value as an element; a short string is copied to `room`.
fn emit_element(f: &mut Emit<'_>) {
    let (value, word, to, room) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let (kind, payload, good) = (
        f.load32s(value, any::TYPE),
        f.load(value, any::VALUE),
        f.int(0),
    );
    let is_text = f.cmp_int(IntCC::Equal, word, STRING_WORD);
    f.if_(is_text, |f| {
        let is_string = f.cmp_int(IntCC::Equal, kind, any::STR);
        f.if_(is_string, |f| {
            let (bytes, size) = (f.load(payload, CONTENT), f.load(payload, SIZE));
            f.store(bytes, to, 0);
            f.store(size, to, 8);
            f.ret(&[good]);
        });
        let is_small = f.cmp_int(IntCC::Equal, kind, any::SMALL_STR);
        f.if_(is_small, |f| {
            let size = f.load32s(value, SMALL_SIZE);
            f.store(payload, room, 0);
            f.store(room, to, 0);
            f.store(size, to, 8);
            f.ret(&[good]);
        });
        raise_format(
            f,
            "TypeError",
            "a map has a value of type %lld, wanted is a string",
            &[kind],
        );
        let bad = f.int(-1);
        f.ret(&[bad]);
    });
    let [is_int, is_bool, is_float] =
        [any::INT, any::BOOL, any::FLOAT].map(|kind_of| f.cmp_int(IntCC::Equal, kind, kind_of));
    let is_whole = f.either(is_int, is_bool);
    let is_int64 = f.cmp_int(IntCC::Equal, word, INT64_WORD);
    let fits = f.both(is_int64, is_whole);
    f.if_(fits, |f| {
        f.store(payload, to, 0);
        f.ret(&[good]);
    });
    let wants_float = f.is_zero(is_int64);
    let is_number = f.either(is_whole, is_float);
    let fits = f.both(wants_float, is_number);
    f.if_(fits, |f| {
        f.if_(is_whole, |f| {
            let wide = f.float_of(payload);
            f.store(wide, to, 0);
        });
        f.if_(is_float, |f| f.store(payload, to, 0));
        let is_short = f.cmp_int(IntCC::Equal, word, FLOAT32_WORD);
        f.if_(is_short, |f| {
            let bits = f.load(to, 0);
            let short = f.scalar(bits, DType::F32);
            f.store(short, to, 0);
        });
        f.ret(&[good]);
    });
    raise_format(
        f,
        "TypeError",
        "a map has a value of type %lld, wanted is a number",
        &[kind],
    );
    let bad = f.int(-1);
    f.ret(&[bad]);
}

/// The number of entries of a map, and the function that walks it, one reference; returns null where it cannot be read.
fn emit_open(f: &mut Emit<'_>, map: Value, kind: Value) -> (Value, Value) {
    let null = f.int(0);
    let is_dict = f.cmp_int(IntCC::Equal, kind, DICT);
    let (count, iterate) = (f.var(null), f.var(null));
    f.if_else(
        is_dict,
        |f| {
            let (size, walk) = (
                function(f, "ffi.DictSize"),
                function(f, "ffi.DictForwardIterFunctor"),
            );
            f.set(count, size);
            f.set(iterate, walk);
        },
        |f| {
            let (size, walk) = (
                function(f, "ffi.MapSize"),
                function(f, "ffi.MapForwardIterFunctor"),
            );
            f.set(count, size);
            f.set(iterate, walk);
        },
    );
    let (count, iterate) = (f.get(count), f.get(iterate));
    let (no_count, no_walk) = (f.is_zero(count), f.is_zero(iterate));
    let absent = f.either(no_count, no_walk);
    f.if_(absent, |f| {
        raise(
            f,
            "TypeError",
            "a map is passed, and the library of TVM-FFI that knows maps is not loaded",
        );
        f.ret(&[null]);
    });
    let (one, result, walker) = (f.int(1), f.stack(16), f.stack(16));
    let failed = call(f, count, map, one, result);
    f.call_void("irc_release", &[count]);
    let n = f.load(result, any::VALUE);
    let also_failed = call(f, iterate, map, one, walker);
    f.call_void("irc_release", &[iterate]);
    let failed = f.wide(failed);
    let also_failed = f.wide(also_failed);
    let failed = f.or(failed, also_failed);
    let huge = f.cmp_int(IntCC::UnsignedGreaterThan, n, MAX_ENTRIES);
    let failed = f.is_set(failed);
    let bad = f.either(failed, huge);
    f.if_(bad, |f| {
        raise(f, "RuntimeError", "a map could not be read");
        f.ret(&[null]);
    });
    (n, f.load(walker, any::VALUE))
}

/// Writes the i-th key (part 0) or value (part 1) of a walk as an element; returns null from the function where it cannot.
fn emit_part(
    f: &mut Emit<'_>,
    (walk, part): (Value, i64),
    (first, word, i): (Value, Value, Value),
    room: Value,
    block: Value,
) {
    let (one, null) = (f.int(1), f.int(0));
    // Elements lie close together: 16 bytes for a string, 8 or 4 for a number.
    let is_text = f.cmp_int(IntCC::Equal, word, STRING_WORD);
    let is_short = f.cmp_int(IntCC::Equal, word, FLOAT32_WORD);
    let (wide, short) = (f.scale(i, 8), f.scale(i, 4));
    let narrow = f.select(is_short, short, wide);
    let step = f.scale(i, 16);
    let at = f.select(is_text, step, narrow);
    let at = f.add(first, at);
    let (command, number) = (f.stack(16), f.int(part));
    let whole = f.int(any::INT);
    f.store(whole, command, any::TYPE);
    f.store(number, command, any::VALUE);
    let element = f.stack(16);
    let failed = call(f, walk, command, one, element);
    let failed = f.wide(failed);
    // A number of four bytes is written with four behind it, which the next one takes.
    let made = f.stack(16);
    let status = f.call_i64("irc_map_element", &[element, word, made, room]);
    release(f, element);
    let bad = f.or(failed, status);
    f.if_(bad, |f| {
        raise(f, "RuntimeError", "a map could not be read");
        f.call_void("irc_release", &[walk]);
        f.call_void("irc_free", &[block]);
        f.ret(&[null]);
    });
    let size = {
        let (text, long, short) = (f.int(16), f.int(8), f.int(4));
        let number = f.select(is_short, short, long);
        f.select(is_text, text, number)
    };
    f.call_i64("memcpy", &[at, made, size]);
}

/// `irc_map_take(any, key dtype, value dtype, to) -> block`: a map as two tensors, of which `to` gets the two arguments. The
/// caller frees the block; null with an error raised.
fn emit_take(f: &mut Emit<'_>) {
    let (map, key_word, value_word, to) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let (kind, null) = (f.load32s(map, any::TYPE), f.int(0));
    let (n, walk) = emit_open(f, map, kind);
    let bytes = f.scale(n, ENTRY_BYTES);
    let head = 2 * DL_BYTES + 16;
    let bytes = f.offset(bytes, head);
    let block = f.call_i64("irc_malloc", &[bytes]);
    let missing = f.is_zero(block);
    f.if_(missing, |f| f.ret(&[block]));
    let dims = f.offset(block, 2 * DL_BYTES);
    f.store(n, dims, 0);
    let keys = f.offset(block, head);
    let half = f.scale(n, 16);
    let values = f.add(keys, half);
    let rooms = f.add(values, half);
    let one = f.int(1);
    f.for_(n, |f, i| {
        let room = f.scale(i, 16);
        let room = f.add(rooms, room);
        for (part, first, word) in [(0, keys, key_word), (1, values, value_word)] {
            let room = f.offset(room, 8 * part);
            emit_part(f, (walk, part), (first, word, i), room, block);
        }
        let (command, number, whole) = (f.stack(16), f.int(2), f.int(any::INT));
        f.store(whole, command, any::TYPE);
        f.store(number, command, any::VALUE);
        let last = f.offset(n, -1);
        let goes_on = f.cmp(IntCC::SignedLessThan, i, last);
        f.if_(goes_on, |f| {
            let next = f.stack(16);
            call(f, walk, command, one, next);
        });
    });
    f.call_void("irc_release", &[walk]);
    for (at, data, word) in [(0, keys, key_word), (DL_BYTES, values, value_word)] {
        let tensor = f.offset(block, at);
        let (cpu, rank, word32) = (f.int(dl::CPU), f.int32(1), f.low32(word));
        f.store(data, tensor, dl::DATA);
        f.store(cpu, tensor, dl::DEVICE_TYPE);
        f.store(rank, tensor, dl::NDIM);
        f.store(word32, tensor, dl::DTYPE);
        f.store(dims, tensor, dl::SHAPE);
        f.store(null, tensor, dl::STRIDES);
        f.store(null, tensor, dl::BYTE_OFFSET);
        let place = if at == 0 { 0 } else { any::BYTES as i32 };
        let kind = f.int(any::DL_TENSOR);
        f.store(kind, to, place + any::TYPE);
        f.store(tensor, to, place + any::VALUE);
    }
    f.ret(&[block]);
}

/// Writes k keys, an array of strings or a tensor, as every second argument.
fn emit_keys(f: &mut Emit<'_>, (are_texts, object): (Value, Value), k: Value, args: Value) {
    let (key_object, key_tensor) = (object, f.offset(object, TENSOR_BODY));
    f.for_(k, |f, i| {
        let at = f.scale(i, 2 * any::BYTES);
        let to = f.add(args, at);
        f.if_else(
            are_texts,
            |f| {
                let (all, at) = (f.load(key_object, CONTENT), f.scale(i, any::BYTES));
                let key = f.add(all, at);
                let (head, payload) = (f.load(key, 0), f.load(key, any::VALUE));
                f.store(head, to, 0);
                f.store(payload, to, any::VALUE);
            },
            |f| {
                let (all, at) = (f.load(key_tensor, dl::DATA), f.scale(i, 8));
                let key = f.add(all, at);
                let (kind, key) = (f.int(any::INT), f.load(key, 0));
                f.store(kind, to, any::TYPE);
                f.store(key, to, any::VALUE);
            },
        );
    });
}

/// `irc_map_give(keys, values, maker) -> array`: a map of the keys for each row of values; null with an error raised.
fn emit_give(f: &mut Emit<'_>) {
    let (keys, values, maker, null) = (f.param(0), f.param(1), f.param(2), f.int(0));
    let object = f.load(values, any::VALUE);
    let tensor = f.offset(object, TENSOR_BODY);
    let (shape, data, word) = (
        f.load(tensor, dl::SHAPE),
        f.load(tensor, dl::DATA),
        f.load32(tensor, dl::DTYPE),
    );
    let (n, k) = (f.load(shape, 0), f.load(shape, 8));
    let (key_kind, key_object) = (f.load32s(keys, any::TYPE), f.load(keys, any::VALUE));
    let are_texts = f.cmp_int(IntCC::Equal, key_kind, ARRAY_TYPE);
    let size = f.var(null);
    let pairs = f.scale(k, 2 * any::BYTES);
    let args = f.call_i64("irc_malloc", &[pairs]);
    let missing = f.is_zero(args);
    f.if_(missing, |f| f.ret(&[null]));
    let key_tensor = f.offset(key_object, TENSOR_BODY);
    f.if_else(
        are_texts,
        |f| {
            let n = f.load(key_object, SIZE);
            f.set(size, n);
        },
        |f| {
            let shape = f.load(key_tensor, dl::SHAPE);
            let n = f.load(shape, 0);
            f.set(size, n);
        },
    );
    let size = f.get(size);
    let differs = f.cmp(IntCC::NotEqual, size, k);
    f.if_(differs, |f| {
        let text = "%lld keys of a map stand beside %lld values";
        raise_format(f, "ValueError", text, &[size, k]);
        f.call_void("irc_free", &[args]);
        f.ret(&[null]);
    });
    emit_keys(f, (are_texts, key_object), k, args);
    let array = f.call_i64("irc_array_blank", &[n]);
    let missing = f.is_zero(array);
    f.if_(missing, |f| {
        f.call_void("irc_free", &[args]);
        f.ret(&[null]);
    });
    let (all, n_args) = (f.load(array, CONTENT), f.scale(k, 2));
    let is_short = f.cmp_int(IntCC::Equal, word, FLOAT32_WORD);
    let is_whole = f.cmp_int(IntCC::Equal, word, INT64_WORD);
    f.for_(n, |f, row| {
        let first = f.mul(row, k);
        f.for_(k, |f, i| {
            let (at, place) = (f.add(first, i), f.scale(i, 2 * any::BYTES));
            let to = f.add(args, place);
            let to = f.offset(to, any::BYTES);
            let (whole, float) = (f.int(any::INT), f.int(any::FLOAT));
            let kind = f.select(is_whole, whole, float);
            f.store(kind, to, any::TYPE);
            f.if_else(
                is_short,
                |f| {
                    let at = f.scale(at, 4);
                    let at = f.add(data, at);
                    let value = f.load_f32(at, 0);
                    f.store(value, to, any::VALUE);
                },
                |f| {
                    let at = f.scale(at, 8);
                    let at = f.add(data, at);
                    let value = f.load(at, 0);
                    f.store(value, to, any::VALUE);
                },
            );
        });
        let at = f.scale(row, any::BYTES);
        let to = f.add(all, at);
        let failed = call(f, maker, args, n_args, to);
        f.if_(failed, |f| {
            raise(f, "RuntimeError", "a map could not be made");
            f.call_void("irc_free", &[args]);
            f.call_void("irc_release", &[array]);
            f.ret(&[null]);
        });
    });
    f.call_void("irc_free", &[args]);
    f.ret(&[array]);
}

/// The dtype of a parameter or result as 32 bits.
fn word(kind: Kind) -> i64 {
    match kind {
        Kind::Tensor(DType::Str) => STRING_WORD,
        Kind::Tensor(DType::I64) => INT64_WORD,
        Kind::Tensor(DType::F64) => FLOAT64_WORD,
        Kind::Tensor(_)
        | Kind::Scalar(_)
        | Kind::Shape
        | Kind::Seq(_)
        | Kind::OptTensor(_)
        | Kind::OptSeq(_)
        | Kind::AnyRank(_) => FLOAT32_WORD,
    }
}

/// `__tvm_ffi_f` of a function with maps, around `inner`, which takes and gives tensors.
pub fn emit_wrapper(f: &mut Emit<'_>, entry: &Entry, inner: &str) {
    let (handle, args, n, result) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let n = f.wide(n);
    let n_maps = entry.maps.inputs.len();
    let most = entry.inputs.len() + entry.outputs.len();
    let too_many = f.cmp_int(IntCC::SignedGreaterThan, n, most as i64);
    f.if_(too_many, |f| {
        // The count is at fault, and the inner entry says so.
        let n = f.low32(n);
        let status = f.call_i32(inner, &[handle, args, n, result]);
        f.ret(&[status]);
    });
    let all = f.stack(any::BYTES as u32 * (most + n_maps + 1) as u32);
    let blocks = f.stack(8 * n_maps.max(1) as u32);
    let zero = f.int(0);
    for at in 0..n_maps {
        f.store(zero, blocks, 8 * at as i32);
    }
    // How many arguments have been looked at, and how many there are in their place.
    let (from, to, bad) = (f.var(zero), f.var(zero), f.var(zero));
    let mut position = 0;
    while position < entry.inputs.len() {
        let map = entry.maps.inputs.iter().position(|(_, at)| *at == position);
        let (at, place) = (f.get(from), f.get(to));
        let is_left = f.cmp(IntCC::SignedLessThan, at, n);
        f.if_(is_left, |f| {
            let (at_bytes, place_bytes) = (f.scale(at, any::BYTES), f.scale(place, any::BYTES));
            let (arg, into) = (f.add(args, at_bytes), f.add(all, place_bytes));
            let step = f.offset(at, 1);
            f.set(from, step);
            let copy = |f: &mut Emit<'_>| {
                copy_any(f, arg, into);
                let next = f.offset(place, 1);
                f.set(to, next);
            };
            let Some(map) = map else {
                copy(f);
                return;
            };
            let kind = f.load32s(arg, any::TYPE);
            let [is_map, is_dict] = [MAP, DICT].map(|wanted| f.cmp_int(IntCC::Equal, kind, wanted));
            let is_map = f.either(is_map, is_dict);
            f.if_else(
                is_map,
                |f| {
                    let words = [position, position + 1].map(|at| {
                        let kind = entry.inputs.get(at).map_or(Kind::Shape, |slot| slot.kind);
                        f.int(word(kind))
                    });
                    let block = f.call_i64("irc_map_take", &[arg, words[0], words[1], into]);
                    f.store(block, blocks, 8 * map as i32);
                    let (failed, so_far) = (f.is_zero(block), f.get(bad));
                    let failed = f.low_bit(failed);
                    let failed = f.or(so_far, failed);
                    f.set(bad, failed);
                    let next = f.offset(place, 2);
                    f.set(to, next);
                },
                |f| {
                    // Keys and values as tensors: the values are the next argument.
                    copy(f);
                    let (at, place) = (f.get(from), f.get(to));
                    let is_left = f.cmp(IntCC::SignedLessThan, at, n);
                    f.if_(is_left, |f| {
                        let (at_bytes, place_bytes) =
                            (f.scale(at, any::BYTES), f.scale(place, any::BYTES));
                        let (arg, into) = (f.add(args, at_bytes), f.add(all, place_bytes));
                        copy_any(f, arg, into);
                        let (at, place) = (f.offset(at, 1), f.offset(place, 1));
                        f.set(from, at);
                        f.set(to, place);
                    });
                },
            );
        });
        position += if map.is_some() { 2 } else { 1 };
    }
    let all = All {
        args,
        n,
        from,
        to,
        bad,
        all,
        blocks,
    };
    emit_inner(f, entry, inner, &all);
    emit_results(f, entry, result);
    f.ret_status(0);
}

/// What a wrapper has: the caller's arguments and those in their place, how far it is in both, and the maps' blocks.
struct All {
    args: Value,
    n: Value,
    from: Variable,
    to: Variable,
    bad: Variable,
    all: Value,
    blocks: Value,
}

/// Calls the entry of tensors and frees the blocks; returns where that failed.
fn emit_inner(f: &mut Emit<'_>, entry: &Entry, inner: &str, given: &All) {
    let (handle, result) = (f.param(0), f.param(3));
    let (args, n, all, blocks) = (given.args, given.n, given.all, given.blocks);
    let (from, to, bad) = (given.from, given.to, given.bad);
    // What is left is written into.
    let (at, place) = (f.get(from), f.get(to));
    let rest = f.sub(n, at);
    f.for_(rest, |f, i| {
        let (at, place) = (f.add(at, i), f.add(place, i));
        let (at, place) = (f.scale(at, any::BYTES), f.scale(place, any::BYTES));
        let (arg, into) = (f.add(args, at), f.add(all, place));
        copy_any(f, arg, into);
    });
    let n = f.add(place, rest);
    let (failed, minus) = (f.get(bad), f.int32(-1));
    let minus = f.wide(minus);
    let status = f.var(minus);
    f.if_else(
        failed,
        |f| {
            f.call_i32("irc_report", &[]);
        },
        |f| {
            let n = f.low32(n);
            let inner = f.call_i32(inner, &[handle, all, n, result]);
            let inner = f.wide(inner);
            f.set(status, inner);
        },
    );
    for at in 0..entry.maps.inputs.len() {
        let block = f.load(blocks, 8 * at as i32);
        f.call_void("irc_free", &[block]);
    }
    let status = f.get(status);
    f.if_(status, |f| f.ret_status(-1));
}

fn copy_any(f: &mut Emit<'_>, from: Value, to: Value) {
    let (head, payload) = (f.load(from, 0), f.load(from, 8));
    f.store(head, to, 0);
    f.store(payload, to, 8);
}

/// Puts lists of maps in the place of their keys and values, where results are returned and the library is there.
fn emit_results(f: &mut Emit<'_>, entry: &Entry, result: Value) {
    if entry.maps.results.is_empty() {
        return;
    }
    let kind = f.load32s(result, any::TYPE);
    let is_returned = f.cmp_int(IntCC::Equal, kind, ARRAY_TYPE);
    f.if_(is_returned, |f| {
        let maker = function(f, "ffi.Map");
        let missing = f.is_zero(maker);
        f.if_(missing, |f| f.ret_status(0));
        let array = f.load(result, any::VALUE);
        let all = f.load(array, CONTENT);
        let mut places: Vec<usize> = entry.maps.results.iter().map(|(_, at)| *at).collect();
        places.sort_unstable();
        for &place in places.iter().rev() {
            let keys = f.offset(all, any::BYTES * place as i64);
            let values = f.offset(keys, any::BYTES);
            let maps = f.call_i64("irc_map_give", &[keys, values, maker]);
            let missing = f.is_zero(maps);
            f.if_(missing, |f| {
                f.call_void("irc_release", &[maker]);
                let zero = f.int(0);
                f.call_void("irc_release", &[array]);
                f.store(zero, result, any::TYPE);
                f.store(zero, result, any::VALUE);
                f.call_i32("irc_report", &[]);
                f.ret_status(-1);
            });
            release(f, keys);
            release(f, values);
            let kind = f.int(ARRAY_TYPE);
            f.store(kind, keys, any::TYPE);
            f.store(maps, keys, any::VALUE);
            // What stands behind moves up.
            let size = f.load(array, SIZE);
            let first = f.int(place as i64 + 2);
            let behind = f.sub(size, first);
            f.for_(behind, |f, i| {
                let at = f.scale(i, any::BYTES);
                let to = f.add(values, at);
                let from = f.offset(to, any::BYTES);
                copy_any(f, from, to);
            });
            let size = f.offset(size, -1);
            f.store(size, array, SIZE);
        }
        f.call_void("irc_release", &[maker]);
        if entry.outputs.len() - entry.maps.results.len() == 1 {
            // The only result stands for itself.
            copy_any(f, all, result);
            let none = f.int(any::NONE);
            f.store(none, all, any::TYPE);
            f.call_void("irc_release", &[array]);
        }
    });
}

//! Weights beside the library: the file is mapped at the first call, and shared between processes.
//!
//! The linker fills `irc_weights_info` (see `link`); where it says that the weights are embedded there is nothing to do.

use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_module::Linkage;
use irc_syntax::Diagnostic;

use super::emit::{Emit, define as func};
use super::error::{raise, raise_format};
use super::{state, state_addr};
use crate::codegen::Assembler;
use crate::codegen::entry::layout::any;

/// The first bytes of a params file. Then come, as `u64`, the number of bytes after the header, and their sha256.
pub const PARAMS_MAGIC: [u8; 8] = *b"IRCPARM1";

/// Where the weights begin in a params file: page-aligned, so that they are mapped.
pub const PARAMS_HEADER_BYTES: u64 = 4096;

// Offsets in `irc_weights_info`.
const N_WEIGHTS: i32 = 0;
const BESIDE: i32 = 8;
const BYTES: i32 = 16;
const DIGEST: i32 = 24;
const OFFSETS: i64 = 56;

const PATH_BYTES: i64 = 4096;

/// Defines the functions of this file.
pub fn define(asm: &mut Assembler) -> Result<(), Diagnostic> {
    func(
        asm,
        "irc_params_ready",
        Linkage::Local,
        &[],
        &[I32],
        emit_ready,
    )?;
    func(
        asm,
        "irc_params_beside",
        Linkage::Local,
        &[],
        &[I32],
        emit_beside,
    )?;
    func(
        asm,
        "irc_params_map",
        Linkage::Local,
        &[I64, I64],
        &[I32],
        emit_map,
    )?;
    func(
        asm,
        "net_load_params",
        Linkage::Export,
        &[I64],
        &[I32],
        |f| {
            let (path, any_hash) = (f.param(0), f.int(0));
            let status = f.call_i32("irc_params_map", &[path, any_hash]);
            f.if_(status, |f| {
                let status = f.call_i32("irc_report", &[]);
                f.ret(&[status]);
            });
            f.ret_status(0);
        },
    )?;
    let params = [I64, I64, I32, I64];
    func(
        asm,
        "__tvm_ffi_load_params",
        Linkage::Export,
        &params,
        &[I32],
        emit_ffi_load,
    )
}

fn info(f: &mut Emit<'_>) -> Value {
    f.data("irc_weights_info", Linkage::Import)
}

/// `irc_params_ready() -> status`: maps the file beside the library unless the weights are there.
fn emit_ready(f: &mut Emit<'_>) {
    let info = info(f);
    let beside = f.load(info, BESIDE);
    let embedded = f.is_zero(beside);
    f.if_(embedded, |f| f.ret_status(0));
    let n_weights = f.load(info, N_WEIGHTS);
    let none = f.is_zero(n_weights);
    f.if_(none, |f| f.ret_status(0));
    let table = f.data("irc_weights", Linkage::Import);
    let first = f.atomic_load(I64, table);
    f.if_(first, |f| f.ret_status(0));
    // One thread maps, the others wait for it.
    let state = state_addr(f);
    let lock = f.offset(state, i64::from(state::MAPPING));
    let (free, taken) = (f.int(0), f.int(1));
    f.while_(
        |f| f.compare_exchange(lock, free, taken),
        |f| {
            f.call_i32("sched_yield", &[]);
        },
    );
    let zero = f.int32(0);
    let status = f.var(zero);
    let first = f.atomic_load(I64, table);
    let still = f.is_zero(first);
    f.if_(still, |f| {
        let outcome = f.call_i32("irc_params_beside", &[]);
        f.set(status, outcome);
    });
    f.atomic_store(free, lock);
    let status = f.get(status);
    f.ret(&[status]);
}

/// `irc_params_beside() -> status`: maps `net.params` beside `net.so`.
fn emit_beside(f: &mut Emit<'_>) {
    // `Dl_info` is four pointers; the first is the path of the library.
    let found = f.stack(32);
    let here = info(f);
    let known = f.call_i32("dladdr", &[here, found]);
    let unknown = f.is_zero(known);
    f.if_(unknown, |f| {
        raise(
            f,
            "RuntimeError",
            "the library cannot find its own path, so `load_params` must be called",
        );
        f.ret_status(-1);
    });
    let library = f.load(found, 0);
    let length = f.call_i64("strlen", &[library]);
    let suffix = f.text(".so");
    let stem = f.offset(length, -3);
    let stem_is_some = f.cmp_int(IntCC::SignedGreaterThan, stem, 0);
    let kept = f.var(length);
    f.if_(stem_is_some, |f| {
        let end = f.add(library, stem);
        let order = f.call_i32("strcmp", &[end, suffix]);
        let same = f.is_zero(order);
        f.if_(same, |f| f.set(kept, stem));
    });
    let path = f.stack(PATH_BYTES as u32);
    let kept = f.get(kept);
    f.format(path, PATH_BYTES, "%.*s.params", &[kept, library]);
    let same_hash = f.int(1);
    let status = f.call_i32("irc_params_map", &[path, same_hash]);
    f.ret(&[status]);
}

/// `irc_params_map(path, same hash wanted) -> status`: maps a file and points the table into it.
fn emit_map(f: &mut Emit<'_>) {
    const READ_CLOSE_ON_EXEC: i32 = 0x80000;
    const SEEK_END: i32 = 2;
    const READ: i32 = 1;
    const SHARED: i32 = 1;
    let (path, same_hash) = (f.param(0), f.param(1));
    let how = f.int32(READ_CLOSE_ON_EXEC);
    let file = f.call_i32("open", &[path, how]);
    let missing = f.cmp_int(IntCC::SignedLessThan, file, 0);
    f.if_(missing, |f| {
        raise_format(
            f,
            "RuntimeError",
            "the weights `%s` cannot be opened",
            &[path],
        );
        f.ret_status(-1);
    });
    let (zero, end) = (f.int(0), f.int32(SEEK_END));
    let size = f.call_i64("lseek", &[file, zero, end]);
    let (protection, kind) = (f.int32(READ), f.int32(SHARED));
    let info = info(f);
    let bytes = f.load(info, BYTES);
    let wanted = f.offset(bytes, PARAMS_HEADER_BYTES as i64);
    let whole = f.cmp(IntCC::Equal, size, wanted);
    let base = f.int(-1);
    let base = f.var(base);
    f.if_(whole, |f| {
        let mapped = f.call_i64("mmap", &[zero, size, protection, kind, file, zero]);
        f.set(base, mapped);
    });
    f.call_i32("close", &[file]);
    let base = f.get(base);
    let refused = f.cmp_int(IntCC::Equal, base, -1);
    f.if_(refused, |f| {
        let text = "the weights `%s` have %lld bytes, and %lld are wanted";
        raise_format(f, "ValueError", text, &[path, size, wanted]);
        f.ret_status(-1);
    });
    let magic = f.load(base, 0);
    let mut differs = f.cmp_int(IntCC::NotEqual, magic, i64::from_le_bytes(PARAMS_MAGIC));
    for word in 0..4 {
        let (have, want) = (f.load(base, 16 + 8 * word), f.load(info, DIGEST + 8 * word));
        let other = f.cmp(IntCC::NotEqual, have, want);
        let checked = f.is_set(same_hash);
        let other = f.both(other, checked);
        differs = f.either(differs, other);
    }
    f.if_(differs, |f| {
        f.call_i32("munmap", &[base, size]);
        raise_format(
            f,
            "ValueError",
            "`%s` does not hold the weights of this library",
            &[path],
        );
        f.ret_status(-1);
    });
    let table = f.data("irc_weights", Linkage::Import);
    let n_weights = f.load(info, N_WEIGHTS);
    // The first pointer says that all are there, so it is written last.
    f.for_(n_weights, |f, i| {
        let last = f.offset(n_weights, -1);
        let at = f.sub(last, i);
        let at = f.scale(at, 8);
        let offsets = f.offset(info, OFFSETS);
        let (from, to) = (f.add(offsets, at), f.add(table, at));
        let offset = f.load(from, 0);
        let addr = f.add(base, offset);
        let addr = f.offset(addr, PARAMS_HEADER_BYTES as i64);
        f.atomic_store(addr, to);
    });
    f.ret_status(0);
}

/// `__tvm_ffi_load_params(handle, args, n, result) -> status`: takes one string.
fn emit_ffi_load(f: &mut Emit<'_>) {
    let (args, n) = (f.param(1), f.param(2));
    let one = f.cmp_int(IntCC::Equal, n, 1);
    f.if_(one, |f| {
        let kind = f.load32(args, any::TYPE);
        let payload = f.load(args, any::VALUE);
        let small = f.cmp_int(IntCC::Equal, kind, any::SMALL_STR);
        let raw = f.cmp_int(IntCC::Equal, kind, any::RAW_STR);
        let string = f.cmp_int(IntCC::Equal, kind, any::STR);
        let null = f.int(0);
        let path = f.var(null);
        f.if_(small, |f| {
            let inline = f.offset(args, i64::from(any::VALUE));
            f.set(path, inline);
        });
        f.if_(raw, |f| f.set(path, payload));
        f.if_(string, |f| {
            let text = f.load(payload, 24);
            f.set(path, text);
        });
        let path = f.get(path);
        f.if_(path, |f| {
            let status = f.call_i32("net_load_params", &[path]);
            f.if_(status, |f| f.ret_status(-1));
            f.ret_status(0);
        });
    });
    raise(
        f,
        "TypeError",
        "load_params: takes the path of a params file as a string",
    );
    f.call_i32("irc_report", &[]);
    f.ret_status(-1);
}

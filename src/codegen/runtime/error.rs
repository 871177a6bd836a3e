//! Errors: one slot a thread holds the kind and the text of what went wrong last.
//!
//! `irc_raise` fills the slot unless it is pending already; `irc_report` hands a pending error to TVM-FFI where that is
//! loaded, and answers a status code for C. `net_last_error` gives C the text.

use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_module::Linkage;
use irc_syntax::Diagnostic;

use super::emit::{Emit, define as func};
use super::{state, state_addr};
use crate::codegen::Assembler;

/// Offset of the kind in a slot.
pub const KIND: i64 = 0;
/// Bytes of a kind.
pub const KIND_BYTES: i64 = 32;
/// Offset of the text.
pub const TEXT: i64 = 32;
/// Bytes of a text.
pub const TEXT_BYTES: i64 = 2016;
/// Offset of the mark of an error that has not been reported.
pub const PENDING: i32 = 2048;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 2056;

/// The status codes of the C interface, by the first letter of the kind.
pub const STATUS: [(&str, i32); 5] = [
    ("TypeError", 1),
    ("ValueError", 2),
    ("IndexError", 3),
    ("RuntimeError", 4),
    ("MemoryError", 5),
];

/// Makes the key of the slots.
pub fn emit_load(f: &mut Emit<'_>) {
    let state = state_addr(f);
    let key = f.offset(state, i64::from(state::KEY));
    let free = f.func_addr("free", &[I64], &[]);
    let status = f.call_i32("pthread_key_create", &[key, free]);
    let good = f.is_zero(status);
    f.if_(good, |f| {
        let (state, one) = (state_addr(f), f.int(1));
        f.store(one, state, state::HAS_KEY);
    });
}

/// Gives the key back. The slots of other threads stay with the C library.
pub fn emit_unload(f: &mut Emit<'_>) {
    let state = state_addr(f);
    let has_key = f.load(state, state::HAS_KEY);
    f.if_(has_key, |f| {
        let state = state_addr(f);
        let key = f.load32(state, state::KEY);
        let slot = f.call_i64("pthread_getspecific", &[key]);
        f.call_void("free", &[slot]);
        let state = state_addr(f);
        let key = f.load32(state, state::KEY);
        f.call_i32("pthread_key_delete", &[key]);
    });
}

/// Defines the functions of this file.
pub fn define(asm: &mut Assembler) -> Result<(), Diagnostic> {
    func(asm, "irc_slot", Linkage::Local, &[], &[I64], emit_slot)?;
    func(asm, "irc_raise", Linkage::Local, &[I64, I64], &[I32], |f| {
        let slot = f.call_i64("irc_slot", &[]);
        let pending = f.load(slot, PENDING);
        let fresh = f.is_zero(pending);
        f.if_(fresh, |f| {
            let (kind, text, one) = (f.param(0), f.param(1), f.int(1));
            let to = f.offset(slot, KIND);
            f.format(to, KIND_BYTES, "%s", &[kind]);
            let to = f.offset(slot, TEXT);
            f.format(to, TEXT_BYTES, "%s", &[text]);
            f.store(one, slot, PENDING);
        });
        f.ret_status(-1);
    })?;
    func(asm, "irc_report", Linkage::Local, &[], &[I32], emit_report)?;
    func(asm, "net_last_error", Linkage::Export, &[], &[I64], |f| {
        let slot = f.call_i64("irc_slot", &[]);
        let text = f.offset(slot, TEXT);
        f.ret(&[text]);
    })
}

/// `irc_slot() -> slot`: the slot of this thread, never null.
fn emit_slot(f: &mut Emit<'_>) {
    let state = state_addr(f);
    let has_key = f.load(state, state::HAS_KEY);
    f.if_(has_key, |f| {
        let key = f.load32(state, state::KEY);
        let slot = f.call_i64("pthread_getspecific", &[key]);
        let known = f.is_set(slot);
        f.if_(known, |f| f.ret(&[slot]));
        let (one, bytes) = (f.int(1), f.int(SLOT_BYTES as i64));
        let slot = f.call_i64("calloc", &[one, bytes]);
        let made = f.is_set(slot);
        f.if_(made, |f| {
            let status = f.call_i32("pthread_setspecific", &[key, slot]);
            let kept = f.is_zero(status);
            f.if_(kept, |f| f.ret(&[slot]));
            f.call_void("free", &[slot]);
        });
    });
    let shared = f.offset(state, i64::from(state::SHARED_SLOT));
    f.ret(&[shared]);
}

/// `irc_report() -> status`: what an entry answers after a failure.
fn emit_report(f: &mut Emit<'_>) {
    // TVM-FFI takes a failure without an error for one of its own and crashes.
    raise(f, "RuntimeError", "the function failed without saying why");
    let slot = f.call_i64("irc_slot", &[]);
    let zero = f.int(0);
    f.store(zero, slot, PENDING);
    let (kind, text) = (f.offset(slot, KIND), f.offset(slot, TEXT));
    let set = f.func_addr("TVMFFIErrorSetRaisedFromCStr", &[I64, I64], &[]);
    let present = f.is_set(set);
    f.if_(present, |f| {
        f.call_addr(set, &[kind, text], &[]);
    });
    let first = f.load8(slot, KIND as i32);
    for (kind, status) in STATUS {
        let same = f.cmp_int(IntCC::Equal, first, i64::from(kind.as_bytes()[0]));
        f.if_(same, |f| f.ret_status(status));
    }
    f.ret_status(4);
}

/// Raises an error of fixed text.
pub fn raise(f: &mut Emit<'_>, kind: &str, text: &str) {
    let (kind, text) = (f.text(kind), f.text(text));
    f.call_i32("irc_raise", &[kind, text]);
}

/// Raises an error of formatted text.
pub fn raise_format(f: &mut Emit<'_>, kind: &str, format: &str, args: &[Value]) {
    let text = f.stack(1024);
    f.format(text, 1024, format, args);
    let kind = f.text(kind);
    f.call_i32("irc_raise", &[kind, text]);
}

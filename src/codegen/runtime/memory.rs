//! Memory: 64-aligned blocks, blocks that end with their call, and the workspace that the next call uses again.
//!
//! A block has a header of 64 bytes: the next block of the call, its bytes and its mark (see `object`), or the capacity
//! of a workspace. A workspace is
//! taken from, and put back into, a row of spare ones by single exchanges, so any number of calls may run at once.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AtomicRmwOp, Value};
use cranelift_module::Linkage;
use irc_syntax::Diagnostic;

use super::emit::{Emit, define as func};
use super::error::raise_format;
use super::{MAX_BYTES, call, state, state_addr};
use crate::codegen::Assembler;

/// Bytes before the data of a block.
pub const HEADER: i64 = 64;
/// Where the header says how many bytes of data a block has.
pub const BYTES: i32 = 8;
/// Where the header says whether a loop keeps the block.
pub const MARK: i32 = 16;
/// The bit of a mark that no loop takes away.
pub const KEPT: i64 = 2;

/// Defines the functions of this file.
pub fn define(asm: &mut Assembler) -> Result<(), Diagnostic> {
    func(asm, "irc_malloc", Linkage::Local, &[I64], &[I64], |f| {
        let bytes = f.param(0);
        let too_large = f.cmp_int(IntCC::UnsignedGreaterThan, bytes, MAX_BYTES);
        f.if_(too_large, |f| {
            raise_format(
                f,
                "MemoryError",
                "a buffer of %lld bytes cannot be had",
                &[bytes],
            );
            let null = f.int(0);
            f.ret(&[null]);
        });
        // `aligned_alloc` wants a multiple of the alignment; no size at all still gets an address.
        let rounded = f.offset(bytes, 127);
        let (rounded, align) = (f.and(rounded, -64), f.int(64));
        let block = f.call_i64("aligned_alloc", &[align, rounded]);
        let missing = f.is_zero(block);
        f.if_(missing, |f| {
            raise_format(
                f,
                "MemoryError",
                "no memory for a buffer of %lld bytes",
                &[bytes],
            );
        });
        f.ret(&[block]);
    })?;
    func(asm, "irc_free", Linkage::Local, &[I64], &[], |f| {
        let block = f.param(0);
        f.call_void("free", &[block]);
    })?;
    func(asm, "irc_block", Linkage::Local, &[I64], &[I64], |f| {
        // The size is looked at before the header is added, so that the sum cannot wrap.
        let bytes = f.param(0);
        let limit = f.int(MAX_BYTES);
        let bytes = {
            let negative = f.cmp_int(IntCC::SignedLessThan, bytes, 0);
            let too_large = f.cmp_int(IntCC::SignedGreaterThan, bytes, MAX_BYTES);
            let bad = f.either(negative, too_large);
            f.select(bad, limit, bytes)
        };
        let all = f.offset(bytes, HEADER);
        let block = f.call_i64("irc_malloc", &[all]);
        f.ret(&[block]);
    })?;
    func(asm, "irc_alloc", Linkage::Local, &[I64, I64], &[I64], |f| {
        let (record, bytes) = (f.param(0), f.param(1));
        let block = f.call_i64("irc_block", &[bytes]);
        let missing = f.is_zero(block);
        f.if_(missing, |f| f.ret(&[block]));
        let next = f.load(record, call::BLOCKS);
        let zero = f.int(0);
        f.store(next, block, 0);
        f.store(bytes, block, BYTES);
        f.store(zero, block, MARK);
        f.store(block, record, call::BLOCKS);
        let data = f.offset(block, HEADER);
        f.ret(&[data]);
    })?;
    func(
        asm,
        "irc_workspace",
        Linkage::Local,
        &[I64, I64],
        &[I64],
        emit_workspace,
    )?;
    func(
        asm,
        "irc_call_end",
        Linkage::Local,
        &[I64],
        &[],
        emit_call_end,
    )
}

/// `irc_workspace(call, bytes) -> ptr`
fn emit_workspace(f: &mut Emit<'_>) {
    let (record, bytes) = (f.param(0), f.param(1));
    let null = f.int(0);
    let found = f.var(null);
    let n_slots = f.int(state::SPARE_SLOTS);
    f.for_(n_slots, |f, i| {
        let slot = spare(f, i);
        let block = f.atomic(AtomicRmwOp::Xchg, slot, null);
        let some = f.is_set(block);
        f.if_(some, |f| {
            let capacity = f.load(block, 0);
            let fits = f.cmp(IntCC::SignedGreaterThanOrEqual, capacity, bytes);
            f.if_else(
                fits,
                |f| {
                    f.store(block, record, call::WORKSPACE);
                    let data = f.offset(block, HEADER);
                    f.ret(&[data]);
                },
                // Too small for this call, so the larger one takes its place.
                |f| f.call_void("free", &[block]),
            );
        });
    });
    let block = f.call_i64("irc_block", &[bytes]);
    f.set(found, block);
    let block = f.get(found);
    let missing = f.is_zero(block);
    f.if_(missing, |f| f.ret(&[block]));
    f.store(bytes, block, 0);
    f.store(block, record, call::WORKSPACE);
    let data = f.offset(block, HEADER);
    f.ret(&[data]);
}

/// The address of the i-th place for a spare workspace.
fn spare(f: &mut Emit<'_>, i: Value) -> Value {
    let state = state_addr(f);
    let bytes = f.scale(i, 8);
    let base = f.offset(state, i64::from(state::SPARE));
    f.add(base, bytes)
}

/// `irc_call_end(call)`: gives back what the call held.
fn emit_call_end(f: &mut Emit<'_>) {
    let record = f.param(0);
    let first = f.load(record, call::BLOCKS);
    let block = f.var(first);
    f.while_(
        |f| {
            let block = f.get(block);
            f.is_set(block)
        },
        |f| {
            let this = f.get(block);
            let next = f.load(this, 0);
            f.set(block, next);
            f.call_void("free", &[this]);
        },
    );
    let workspace = f.load(record, call::WORKSPACE);
    let none = f.is_zero(workspace);
    f.if_(none, |f| f.ret(&[]));
    let null = f.int(0);
    let n_slots = f.int(state::SPARE_SLOTS);
    f.for_(n_slots, |f, i| {
        let slot = spare(f, i);
        let old = f.compare_exchange(slot, null, workspace);
        let placed = f.is_zero(old);
        f.if_(placed, |f| f.ret(&[]));
    });
    f.call_void("free", &[workspace]);
}

/// Frees the spare workspaces.
pub fn emit_unload(f: &mut Emit<'_>) {
    let null = f.int(0);
    let n_slots = f.int(state::SPARE_SLOTS);
    f.for_(n_slots, |f, i| {
        let slot = spare(f, i);
        let block = f.atomic(AtomicRmwOp::Xchg, slot, null);
        f.call_void("free", &[block]);
    });
}

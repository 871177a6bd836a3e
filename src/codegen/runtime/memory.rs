//! Memory: 64-aligned blocks, blocks that end with their call, and the workspace that the next call uses again.
//!
//! A block has a header of 64 bytes: the next block of the call, its bytes and its mark (see `object`), or the capacity
//! of a workspace. A workspace is
//! taken from, and put back into, a row of spare ones by single exchanges, so any number of calls may run at once.
//! So are the buffers of tasks: a thread then writes to the same pages task after task, and the allocator, which keeps
//! memory for each thread, is not asked.

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
/// Bytes of a task's buffer that is kept for the next task at most.
const MAX_KEPT_SCRATCH: i64 = 4 << 20;
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
        "irc_scratch",
        Linkage::Local,
        &[I64],
        &[I64],
        emit_scratch,
    )?;
    func(
        asm,
        "irc_scratch_free",
        Linkage::Local,
        &[I64],
        &[],
        emit_scratch_free,
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
    let block = take_spare(f, state::SPARE, bytes);
    let missing = f.is_zero(block);
    f.if_(missing, |f| f.ret(&[block]));
    f.store(block, record, call::WORKSPACE);
    let data = f.offset(block, HEADER);
    f.ret(&[data]);
}

/// `irc_scratch(bytes) -> ptr`
fn emit_scratch(f: &mut Emit<'_>) {
    let bytes = f.param(0);
    let block = take_spare(f, state::SCRATCH, bytes);
    let missing = f.is_zero(block);
    f.if_(missing, |f| f.ret(&[block]));
    let data = f.offset(block, HEADER);
    f.ret(&[data]);
}

/// `irc_scratch_free(ptr)`
fn emit_scratch_free(f: &mut Emit<'_>) {
    let data = f.param(0);
    let none = f.is_zero(data);
    f.if_(none, |f| f.ret(&[]));
    let block = f.offset(data, -HEADER);
    let capacity = f.load(block, BYTES);
    let large = f.cmp_int(IntCC::SignedGreaterThan, capacity, MAX_KEPT_SCRATCH);
    f.if_(large, |f| {
        f.call_void("free", &[block]);
        f.ret(&[]);
    });
    put_back(f, state::SCRATCH, block);
    f.ret(&[]);
}

/// A spare block of a row, or a new one: null when there is no memory, and the error is raised.
fn take_spare(f: &mut Emit<'_>, row: i32, bytes: Value) -> Value {
    let null = f.int(0);
    let found = f.var(null);
    let n_slots = f.int(state::SPARE_SLOTS);
    f.for_(n_slots, |f, i| {
        let missing = f.get(found);
        let missing = f.is_zero(missing);
        f.if_(missing, |f| {
            let slot = spare(f, row, i);
            let block = f.atomic(AtomicRmwOp::Xchg, slot, null);
            let some = f.is_set(block);
            f.if_(some, |f| {
                let capacity = f.load(block, BYTES);
                let fits = f.cmp(IntCC::UnsignedGreaterThanOrEqual, capacity, bytes);
                f.if_else(
                    fits,
                    |f| f.set(found, block),
                    // Too small, so the larger one takes its place.
                    |f| f.call_void("free", &[block]),
                );
            });
        });
    });
    let block = f.get(found);
    let missing = f.is_zero(block);
    f.if_(missing, |f| {
        let block = f.call_i64("irc_block", &[bytes]);
        f.set(found, block);
        let some = f.is_set(block);
        f.if_(some, |f| f.store(bytes, block, BYTES));
    });
    f.get(found)
}

/// Puts a block into a row of spare ones, or frees it where the row is full.
fn put_back(f: &mut Emit<'_>, row: i32, block: Value) {
    let null = f.int(0);
    let n_slots = f.int(state::SPARE_SLOTS);
    f.for_(n_slots, |f, i| {
        let slot = spare(f, row, i);
        let old = f.compare_exchange(slot, null, block);
        let placed = f.is_zero(old);
        f.if_(placed, |f| f.ret(&[]));
    });
    f.call_void("free", &[block]);
}

/// The address of the i-th place of a row of spare blocks.
fn spare(f: &mut Emit<'_>, row: i32, i: Value) -> Value {
    let state = state_addr(f);
    let bytes = f.scale(i, 8);
    let base = f.offset(state, i64::from(row));
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
    put_back(f, state::SPARE, workspace);
}

/// Frees the spare blocks.
pub fn emit_unload(f: &mut Emit<'_>) {
    let null = f.int(0);
    // One row lies behind the other.
    let n_slots = f.int(2 * state::SPARE_SLOTS);
    f.for_(n_slots, |f, i| {
        let slot = spare(f, state::SPARE, i);
        let block = f.atomic(AtomicRmwOp::Xchg, slot, null);
        f.call_void("free", &[block]);
    });
}

//! Values that are described at run time, and memory that a loop gives back between its iterations.
//!
//! A *record* is a tensor whose rank is known at run time: `[rank, data, dims…]` and, unless the caller owns them, its
//! bytes in the same block. A *sequence* is `[n, record…]`. Neither changes once it is made, so both are shared. An
//! optional is one of them, or null. All of them are blocks of the call (see `memory`).
//!
//! A loop remembers the newest block at its start. After an iteration it marks the blocks that hold what lives on, and
//! sweeps the others that are newer: whatever a body allocates, the loop holds what it carries and what it collects.
//! The bytes of strings, which no tensor but another block points to, stay until the call ends.

use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_module::Linkage;
use irc_syntax::Diagnostic;

use super::call;
use super::emit::{Emit, define as func};
use super::error::{raise, raise_format};
use super::memory::{BYTES, HEADER, KEPT, MARK};
use crate::codegen::Assembler;

/// Offsets in a record.
pub mod record {
    #![allow(missing_docs)]
    pub const RANK: i32 = 0;
    pub const DATA: i32 = 8;
    pub const DIMS: i32 = 16;
}

/// Where the items of a sequence begin; their number stands before.
pub const ITEMS: i32 = 8;

/// Records that are joined have at most this many axes.
pub const MAX_RANK: usize = 60;

/// Defines the functions of this file.
pub fn define(asm: &mut Assembler) -> Result<(), Diagnostic> {
    let mut local = |name: &str, n: usize, returns: bool, body: fn(&mut Emit<'_>)| {
        let returns: &[_] = if returns { &[I64] } else { &[] };
        func(asm, name, Linkage::Local, &vec![I64; n], returns, body)
    };
    local("irc_mark", 3, false, emit_mark)?;
    local("irc_mark_record", 1, false, |f| {
        let object = f.param(0);
        f.if_(object, |f| mark_block(f, object));
    })?;
    local("irc_mark_seq", 1, false, |f| {
        let seq = f.param(0);
        f.if_(seq, |f| {
            mark_block(f, seq);
            let n = f.load(seq, 0);
            f.for_(n, |f, i| {
                let item = item(f, seq, i);
                let item = f.load(item, 0);
                mark_block(f, item);
            });
        });
    })?;
    local("irc_sweep", 2, false, emit_sweep)?;
    local("irc_box", 5, true, emit_box)?;
    local("irc_seq_new", 2, true, emit_seq_new)?;
    local("irc_seq_insert", 5, true, emit_seq_insert)?;
    local("irc_seq_erase", 4, true, emit_seq_erase)?;
    local("irc_seq_at", 2, true, |f| {
        let (seq, position) = (f.param(0), f.param(1));
        let n = f.load(seq, 0);
        let last = f.offset(n, -1);
        let at = checked_position(f, position, n, last);
        let item = item(f, seq, at);
        let record = f.load(item, 0);
        f.ret(&[record]);
    })?;
    local("irc_seq_join", 6, true, emit_seq_join)
}

/// The address of the i-th item of a sequence.
fn item(f: &mut Emit<'_>, seq: Value, i: Value) -> Value {
    let at = f.scale(i, 8);
    let at = f.add(seq, at);
    f.offset(at, i64::from(ITEMS))
}

/// Says that a block whose data begin at `data` lives on.
fn mark_block(f: &mut Emit<'_>, data: Value) {
    let one = f.int(1);
    let block = f.offset(data, -HEADER);
    let mark = f.load(block, MARK);
    let mark = f.or(mark, one);
    f.store(mark, block, MARK);
}

/// `irc_mark(call, until, ptr)`: marks the block newer than `until` that `ptr` points into, if there is one.
fn emit_mark(f: &mut Emit<'_>) {
    let (record, until, pointer) = (f.param(0), f.param(1), f.param(2));
    let first = f.load(record, call::BLOCKS);
    let block = f.var(first);
    f.while_(
        |f| {
            let block = f.get(block);
            f.cmp(IntCC::NotEqual, block, until)
        },
        |f| {
            let this = f.get(block);
            let offset = f.sub(pointer, this);
            let offset = f.offset(offset, -HEADER);
            // A tensor without elements still points to the first byte.
            let bytes = f.load(this, BYTES);
            let one = f.int(1);
            let bytes = f.max(bytes, one);
            let inside = f.cmp(IntCC::UnsignedLessThan, offset, bytes);
            f.if_(inside, |f| {
                let mark = f.load(this, MARK);
                let mark = f.or(mark, one);
                f.store(mark, this, MARK);
                f.ret(&[]);
            });
            let next = f.load(this, 0);
            f.set(block, next);
        },
    );
}

/// `irc_sweep(call, until)`: frees the blocks newer than `until` that are not marked, and takes the marks away.
fn emit_sweep(f: &mut Emit<'_>) {
    let (record, until) = (f.param(0), f.param(1));
    // The word that points to the block: of the call, or of the block before, whose first word it is.
    let start = f.offset(record, i64::from(call::BLOCKS));
    let link = f.var(start);
    f.while_(
        |f| {
            let link = f.get(link);
            let block = f.load(link, 0);
            f.cmp(IntCC::NotEqual, block, until)
        },
        |f| {
            let this = f.get(link);
            let block = f.load(this, 0);
            let marked = f.load(block, MARK);
            f.if_else(
                marked,
                |f| {
                    let kept = f.and(marked, KEPT);
                    f.store(kept, block, MARK);
                    f.set(link, block);
                },
                |f| {
                    let next = f.load(block, 0);
                    f.store(next, this, 0);
                    f.call_void("free", &[block]);
                },
            );
        },
    );
}

/// `irc_box(call, rank, dims, data, bytes) -> record`, a copy; without `data` its bytes are not set.
fn emit_box(f: &mut Emit<'_>) {
    let (call, rank, dims) = (f.param(0), f.param(1), f.param(2));
    let (data, bytes) = (f.param(3), f.param(4));
    let head = f.scale(rank, 8);
    let head = f.offset(head, i64::from(record::DIMS) + 63);
    let head = f.and(head, -64);
    let negative = f.cmp_int(IntCC::SignedLessThan, bytes, 0);
    let all = f.add(head, bytes);
    let all = f.select(negative, bytes, all);
    let object = f.call_i64("irc_alloc", &[call, all]);
    let missing = f.is_zero(object);
    f.if_(missing, |f| f.ret(&[object]));
    let own = f.add(object, head);
    f.store(rank, object, record::RANK);
    f.store(own, object, record::DATA);
    let to = f.offset(object, i64::from(record::DIMS));
    copy_words(f, to, dims, rank);
    f.if_(data, |f| {
        f.call_i64("memcpy", &[own, data, bytes]);
    });
    f.ret(&[object]);
}

fn copy_words(f: &mut Emit<'_>, to: Value, from: Value, n: Value) {
    let bytes = f.scale(n, 8);
    f.call_i64("memcpy", &[to, from, bytes]);
}

/// `irc_seq_new(call, n) -> sequence` whose items are not set.
fn emit_seq_new(f: &mut Emit<'_>) {
    let (call, n) = (f.param(0), f.param(1));
    let bytes = f.scale(n, 8);
    let bytes = f.offset(bytes, i64::from(ITEMS));
    let seq = f.call_i64("irc_alloc", &[call, bytes]);
    let missing = f.is_zero(seq);
    f.if_(missing, |f| f.ret(&[seq]));
    f.store(n, seq, 0);
    f.ret(&[seq]);
}

/// A position from 0 to `last`, counted from `n` where it is negative. Raises and returns null for any other.
fn checked_position(f: &mut Emit<'_>, position: Value, n: Value, last: Value) -> Value {
    let negative = f.cmp_int(IntCC::SignedLessThan, position, 0);
    let counted = f.add(position, n);
    let at = f.select(negative, counted, position);
    let before = f.cmp_int(IntCC::SignedLessThan, at, 0);
    let behind = f.cmp(IntCC::SignedGreaterThan, at, last);
    let outside = f.either(before, behind);
    f.if_(outside, |f| {
        let text = "position %lld is out of range of a sequence of %lld";
        raise_format(f, "IndexError", text, &[position, n]);
        let null = f.int(0);
        f.ret(&[null]);
    });
    at
}

/// `irc_seq_insert(call, seq, record, position, has position) -> sequence`
fn emit_seq_insert(f: &mut Emit<'_>) {
    let (call, seq, record) = (f.param(0), f.param(1), f.param(2));
    let (position, given) = (f.param(3), f.param(4));
    let n = f.load(seq, 0);
    let position = f.select(given, position, n);
    let at = checked_position(f, position, n, n);
    let more = f.offset(n, 1);
    let made = f.call_i64("irc_seq_new", &[call, more]);
    let missing = f.is_zero(made);
    f.if_(missing, |f| f.ret(&[made]));
    let zero = f.int(0);
    let (from, to) = (item(f, seq, zero), item(f, made, zero));
    copy_words(f, to, from, at);
    let place = item(f, made, at);
    f.store(record, place, 0);
    let (from, to, rest) = (item(f, seq, at), f.offset(place, 8), f.sub(n, at));
    copy_words(f, to, from, rest);
    f.ret(&[made]);
}

/// `irc_seq_erase(call, seq, position, has position) -> sequence`
fn emit_seq_erase(f: &mut Emit<'_>) {
    let (call, seq) = (f.param(0), f.param(1));
    let (position, given) = (f.param(2), f.param(3));
    let n = f.load(seq, 0);
    let last = f.offset(n, -1);
    let position = f.select(given, position, last);
    let at = checked_position(f, position, n, last);
    let made = f.call_i64("irc_seq_new", &[call, last]);
    let missing = f.is_zero(made);
    f.if_(missing, |f| f.ret(&[made]));
    let zero = f.int(0);
    let (from, to) = (item(f, seq, zero), item(f, made, zero));
    copy_words(f, to, from, at);
    let (from, to, rest) = (item(f, seq, at), item(f, made, at), f.sub(last, at));
    let from = f.offset(from, 8);
    copy_words(f, to, from, rest);
    f.ret(&[made]);
}

/// `irc_seq_join(call, seq, axis, is new, bytes of an element, rank) -> record`
fn emit_seq_join(f: &mut Emit<'_>) {
    let (call, seq, axis) = (f.param(0), f.param(1), f.param(2));
    let (is_new, element, rank) = (f.param(3), f.param(4), f.param(5));
    let n = f.load(seq, 0);
    let empty = f.is_zero(n);
    f.if_(empty, |f| {
        raise(
            f,
            "ValueError",
            "the elements of an empty sequence are joined",
        );
        let null = f.int(0);
        f.ret(&[null]);
    });
    let zero = f.int(0);
    let first = item(f, seq, zero);
    let first = f.load(first, 0);
    let is_old = f.is_zero(is_new);
    let total = total_extent(f, seq, first, axis, is_old, rank);
    // Everything before the axis, and everything behind it.
    let (one, dims) = (f.int(1), f.stack(8 * (MAX_RANK as u32 + 1)));
    let (outer, inner) = (f.var(one), f.var(element));
    f.for_(rank, |f, j| {
        let dim = dim_of(f, first, j);
        let before = f.cmp(IntCC::SignedLessThan, j, axis);
        let at_axis = f.cmp(IntCC::Equal, j, axis);
        let is_axis = f.both(at_axis, is_old);
        let so_far = f.get(outer);
        let grown = f.mul(so_far, dim);
        let grown = f.select(before, grown, so_far);
        f.set(outer, grown);
        let so_far = f.get(inner);
        let grown = f.mul(so_far, dim);
        let skipped = f.either(before, is_axis);
        let grown = f.select(skipped, so_far, grown);
        f.set(inner, grown);
        // A new axis moves those behind it.
        let moved = f.add(j, is_new);
        let place = f.select(before, j, moved);
        let place = f.scale(place, 8);
        let place = f.add(dims, place);
        f.store(dim, place, 0);
    });
    let place = f.scale(axis, 8);
    let place = f.add(dims, place);
    f.store(total, place, 0);
    let (outer, inner) = (f.get(outer), f.get(inner));
    let row = f.mul(total, inner);
    let bytes = f.mul(outer, row);
    let out_rank = f.add(rank, is_new);
    let made = f.call_i64("irc_box", &[call, out_rank, dims, zero, bytes]);
    let missing = f.is_zero(made);
    f.if_(missing, |f| f.ret(&[made]));
    let to = f.load(made, record::DATA);
    let to = f.var(to);
    f.for_(n, |f, i| {
        let part = item(f, seq, i);
        let part = f.load(part, 0);
        let extent = f.var(one);
        f.if_(is_old, |f| {
            let dim = dim_of(f, part, axis);
            f.set(extent, dim);
        });
        let extent = f.get(extent);
        let chunk = f.mul(extent, inner);
        let (from, base) = (f.load(part, record::DATA), f.get(to));
        f.for_(outer, |f, o| {
            let (skip, back) = (f.mul(o, row), f.mul(o, chunk));
            let (to, from) = (f.add(base, skip), f.add(from, back));
            f.call_i64("memcpy", &[to, from, chunk]);
        });
        let next = f.add(base, chunk);
        f.set(to, next);
    });
    f.ret(&[made]);
}

fn dim_of(f: &mut Emit<'_>, object: Value, axis: Value) -> Value {
    let at = f.scale(axis, 8);
    let at = f.add(object, at);
    f.load(at, record::DIMS)
}

/// The extent of the joined axis. Raises and returns null where elements differ elsewhere.
fn total_extent(
    f: &mut Emit<'_>,
    seq: Value,
    first: Value,
    axis: Value,
    is_old: Value,
    rank: Value,
) -> Value {
    let (n, zero) = (f.load(seq, 0), f.int(0));
    let start = f.select(is_old, zero, n);
    let total = f.var(start);
    f.for_(n, |f, i| {
        let part = item(f, seq, i);
        let part = f.load(part, 0);
        let own = f.load(part, record::RANK);
        let differs = f.cmp(IntCC::NotEqual, own, rank);
        f.if_(differs, |f| {
            let text = "element %lld of a joined sequence has %lld axes, not %lld";
            raise_format(f, "ValueError", text, &[i, own, rank]);
            let null = f.int(0);
            f.ret(&[null]);
        });
        f.for_(rank, |f, j| {
            let (dim, wanted) = (dim_of(f, part, j), dim_of(f, first, j));
            let at_axis = f.cmp(IntCC::Equal, j, axis);
            let is_axis = f.both(at_axis, is_old);
            f.if_else(
                is_axis,
                |f| {
                    let so_far = f.get(total);
                    let sum = f.add(so_far, dim);
                    f.set(total, sum);
                },
                |f| {
                    let differs = f.cmp(IntCC::NotEqual, dim, wanted);
                    f.if_(differs, |f| {
                        let text =
                            "element %lld of a joined sequence has the extent %lld, not %lld";
                        raise_format(f, "ValueError", text, &[i, dim, wanted]);
                        let null = f.int(0);
                        f.ret(&[null]);
                    });
                },
            );
        });
    });
    f.get(total)
}

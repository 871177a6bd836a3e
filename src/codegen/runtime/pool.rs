//! Threads: `irc_parallel_for` splits a range into chunks that the caller and the workers of one pool claim.
//!
//! A job is one 64-bit ticket: its number, and the first and the end of the chunks that are left. Whoever moves a bound
//! owns the chunk there; a worker that comes late fails to move it and touches nothing. A fixed split would wait for the
//! slowest core; claimed chunks do not. The caller claims from the front and workers from the back, so that on two cores
//! much of what a loop reads was written by the same core in the loop before.
//!
//! One job runs at a time: a caller that finds the pool taken, or is itself a chunk, runs its range alone. How a range is
//! split depends on the number of threads; what is computed does not, because chunks share nothing.
//!
//! Handing a job to a thread that spins takes less than a microsecond, to one that sleeps tens of them. So a loop that
//! says it is worth little runs on the caller, and while all workers sleep each call first runs alone as much as waking them
//! takes. Workers spin after a job for as long as a call is likely to bring another one, then sleep on a futex.
//!
//! The pool lives in a page that the kernel zeroes in a forked child, so a child starts its own. `IRC_NUM_THREADS`
//! sets the number of threads; otherwise it is what affinity and the cgroup's quota allow.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{AtomicRmwOp, Value};
use cranelift_module::Linkage;
use irc_syntax::Diagnostic;

use super::emit::{Emit, define as func};
use super::{error, state, state_addr};
use crate::codegen::Assembler;
use crate::codegen::kernel::Kernel;

const PAGE: i64 = 4096;
const MAX_WORKERS: i64 = 190;
/// Rounds of waiting before a worker sleeps between calls; some tens of microseconds.
const SPINS: i64 = 2000;
/// The same during a call, which is likely to bring another job.
const CALL_SPINS: i64 = 3 * SPINS;
const CHUNKS_PER_THREAD: i64 = 16;
/// What a chunk is worth at the least, in the units of `irc.work`.
const CHUNK_WORK: i64 = 1 << 16;
/// What a loop is worth at the least that others are told of.
const LEAST_WORK: i64 = 1 << 18;
/// What loops of a call are worth before sleeping workers are woken for it.
const WAKE_WORK: i64 = 1 << 22;

// Offsets in the page. What is written often has a cache line of its own.
const LOCK: i64 = 0;
const STARTED: i32 = 8;
const N_WORKERS: i32 = 16;
const STOP: i64 = 24;
const DEBT: i32 = 32;
const ACTIVE: i64 = 40;
const WAKE: i64 = 64;
const SLEEPERS: i64 = 68;
const TICKET: i64 = 128;
const BODY: i32 = 192;
const CLOSURE: i32 = 200;
const COUNT: i32 = 208;
const CHUNKS: i32 = 216;
const DONE: i64 = 256;
const WAITER: i64 = 260;
const STATUS: i64 = 320;
const KIND: i64 = 328;
const TEXT: i64 = KIND + error::KIND_BYTES;
const THREADS: i64 = 2560;

/// Numbers of the kernel's system calls, on x86-64 and on aarch64.
const FUTEX: (i64, i64) = (202, 98);
const GET_AFFINITY: (i64, i64) = (204, 123);

fn system_call(f: &mut Emit<'_>, (x86, aarch64): (i64, i64)) -> Value {
    let number = if f.is_x86() { x86 } else { aarch64 };
    f.int(number)
}

/// Maps the page of the pool.
pub fn emit_load(f: &mut Emit<'_>) {
    const READ_WRITE: i32 = 3;
    const PRIVATE_ANONYMOUS: i32 = 0x22;
    const WIPE_ON_FORK: i32 = 18;
    let (null, bytes) = (f.int(0), f.int(PAGE));
    let (protection, kind, no_file) =
        (f.int32(READ_WRITE), f.int32(PRIVATE_ANONYMOUS), f.int32(-1));
    let page = f.call_i64("mmap", &[null, bytes, protection, kind, no_file, null]);
    let mapped = f.cmp_int(IntCC::NotEqual, page, -1);
    f.if_(mapped, |f| {
        let advice = f.int32(WIPE_ON_FORK);
        f.call_i32("madvise", &[page, bytes, advice]);
        let state = state_addr(f);
        f.store(page, state, state::POOL);
    });
}

/// Defines the functions of this file.
pub fn define(asm: &mut Assembler) -> Result<(), Diagnostic> {
    define_pause(asm)?;
    func(
        asm,
        "irc_parallel_for",
        Linkage::Local,
        &[I64, I64, I64, I64],
        &[I32],
        emit_parallel_for,
    )?;
    func(
        asm,
        "irc_pool_run",
        Linkage::Local,
        &[I64, I64, I64, I64, I64],
        &[I32],
        emit_run,
    )?;
    func(asm, "irc_pool_work", Linkage::Local, &[I64], &[], |f| {
        emit_work(f, End::Front)
    })?;
    func(asm, "irc_pool_help", Linkage::Local, &[I64], &[], |f| {
        emit_work(f, End::Back)
    })?;
    func(asm, "irc_pool_enter", Linkage::Local, &[], &[], |f| {
        emit_active(f, 1)
    })?;
    func(asm, "irc_pool_leave", Linkage::Local, &[], &[], |f| {
        emit_active(f, -1)
    })?;
    func(
        asm,
        "irc_pool_worker",
        Linkage::Local,
        &[I64],
        &[I64],
        emit_worker,
    )?;
    func(
        asm,
        "irc_pool_start",
        Linkage::Local,
        &[I64],
        &[],
        emit_start,
    )?;
    func(asm, "irc_pool_stop", Linkage::Local, &[], &[], emit_stop)?;
    func(
        asm,
        "irc_thread_count",
        Linkage::Local,
        &[],
        &[I64],
        emit_thread_count,
    )?;
    func(asm, "irc_quota", Linkage::Local, &[], &[I64], emit_quota)
}

/// `irc_pause()`: tells the core that this thread spins.
fn define_pause(asm: &mut Assembler) -> Result<(), Diagnostic> {
    let id = asm.declare("irc_pause", Linkage::Local, &[], &[])?;
    let code: &[u8] = if asm.is_x86() {
        &[0xf3, 0x90, 0xc3]
    } else {
        // yield; ret
        &[0x3f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6]
    };
    asm.define_raw(
        id,
        &Kernel {
            code: code.to_vec(),
            ..Default::default()
        },
    )
}

/// The address of a field of the page.
fn field(f: &mut Emit<'_>, page: Value, offset: i64) -> Value {
    f.offset(page, offset)
}

/// Sleeps while the word at `at` is `value`, or wakes all that sleep there.
fn futex(f: &mut Emit<'_>, at: Value, wait_for: Option<Value>) {
    const WAIT_PRIVATE: i64 = 128;
    const WAKE_PRIVATE: i64 = 129;
    let number = system_call(f, FUTEX);
    let (op, value) = match wait_for {
        Some(value) => (f.int(WAIT_PRIVATE), f.wide(value)),
        None => (f.int(WAKE_PRIVATE), f.int(i64::from(i32::MAX))),
    };
    let null = f.int(0);
    let callee = f.func_addr("syscall", &[I64], &[I64]);
    f.call_addr(callee, &[number, at, op, value, null], &[I64]);
}

/// `irc_pool_enter()` and `irc_pool_leave()`: a call begins or ends.
fn emit_active(f: &mut Emit<'_>, by: i32) {
    let state = state_addr(f);
    let page = f.load(state, state::POOL);
    let has_page = f.is_set(page);
    f.if_(has_page, |f| {
        if by > 0 {
            let none = f.int(0);
            f.store(none, page, DEBT);
        }
        let (active, by) = (field(f, page, ACTIVE), f.int32(by));
        f.atomic(AtomicRmwOp::Add, active, by);
    });
}

/// `irc_parallel_for(body, closure, n, work) -> status`
fn emit_parallel_for(f: &mut Emit<'_>) {
    let (body, closure, n, work) = (f.param(0), f.param(1), f.param(2), f.param(3));
    let nothing = f.cmp_int(IntCC::SignedLessThanOrEqual, n, 0);
    f.if_(nothing, |f| f.ret_status(0));
    let state = state_addr(f);
    let page = f.load(state, state::POOL);
    let several = f.cmp_int(IntCC::SignedGreaterThan, n, 1);
    let has_page = f.is_set(page);
    let worth = f.cmp_int(IntCC::SignedGreaterThanOrEqual, work, LEAST_WORK);
    let usable = f.both(several, has_page);
    let usable = f.both(usable, worth);
    f.if_(usable, |f| {
        let lock = field(f, page, LOCK);
        let (free, taken) = (f.int32(0), f.int32(1));
        let old = f.compare_exchange(lock, free, taken);
        let ours = f.is_zero(old);
        f.if_(ours, |f| {
            let awake = emit_is_awake(f, page, work);
            f.if_(awake, |f| {
                let started = f.load(page, STARTED);
                let fresh = f.is_zero(started);
                f.if_(fresh, |f| f.call_void("irc_pool_start", &[page]));
                let n_workers = f.load(page, N_WORKERS);
                let shared = f.is_set(n_workers);
                f.if_(shared, |f| {
                    let status = f.call_i32("irc_pool_run", &[page, body, closure, n, work]);
                    f.ret(&[status]);
                });
            });
            f.atomic_store(free, lock);
        });
    });
    let zero = f.int(0);
    let status = f.call_addr(body, &[closure, zero, n], &[I32]);
    f.ret(&[status]);
}

/// Whether some worker is awake, or the loops of this call are worth waking them; with the lock held.
fn emit_is_awake(f: &mut Emit<'_>, page: Value, work: Value) -> Value {
    let sleepers_at = field(f, page, SLEEPERS);
    let sleepers = f.atomic_load(I32, sleepers_at);
    let (sleepers, n_workers) = (f.wide(sleepers), f.load(page, N_WORKERS));
    let any = f.cmp(IntCC::SignedLessThan, sleepers, n_workers);
    let any = f.var(any);
    let none = f.get(any);
    let none = f.is_zero(none);
    f.if_(none, |f| {
        let most = f.int(WAKE_WORK);
        let (debt, more) = (f.load(page, DEBT), f.min(work, most));
        let debt = f.add(debt, more);
        f.store(debt, page, DEBT);
        let due = f.cmp_int(IntCC::SignedGreaterThanOrEqual, debt, WAKE_WORK);
        f.set(any, due);
    });
    f.get(any)
}

/// `irc_pool_run(page, body, closure, n, work) -> status`, with the lock held, which it gives back.
fn emit_run(f: &mut Emit<'_>) {
    let (page, n, work) = (f.param(0), f.param(3), f.param(4));
    let (body, closure) = (f.param(1), f.param(2));
    let zero32 = f.int32(0);
    f.store(body, page, BODY);
    f.store(closure, page, CLOSURE);
    f.store(n, page, COUNT);
    for word in [DONE, WAITER, STATUS] {
        f.store(zero32, page, word as i32);
    }
    let n_workers = f.load(page, N_WORKERS);
    let n_threads = f.offset(n_workers, 1);
    let most = f.scale(n_threads, CHUNKS_PER_THREAD);
    let size = f.int(CHUNK_WORK);
    let worth = f.div(work, size);
    let worth = f.max(worth, n_threads);
    let most = f.min(most, worth);
    let n_chunks = f.min(n, most);
    f.store(n_chunks, page, CHUNKS);
    let ticket_at = field(f, page, TICKET);
    let old = f.atomic_load(I64, ticket_at);
    let number = f.shr(old, 32);
    let number = f.offset(number, 1);
    let (number, end) = (f.shl(number, 32), f.shl(n_chunks, 16));
    let ticket = f.or(number, end);
    // From here on workers may claim chunks.
    f.atomic_store(ticket, ticket_at);
    let (wake, sleepers_at) = (field(f, page, WAKE), field(f, page, SLEEPERS));
    let one32 = f.int32(1);
    f.atomic(AtomicRmwOp::Add, wake, one32);
    let sleepers = f.atomic_load(I32, sleepers_at);
    f.if_(sleepers, |f| futex(f, wake, None));
    f.call_void("irc_pool_work", &[page]);
    emit_wait(f, page, n_chunks);
    let status = f.load32(page, STATUS as i32);
    f.if_(status, |f| {
        let (kind, text) = (field(f, page, KIND), field(f, page, TEXT));
        f.call_i32("irc_raise", &[kind, text]);
    });
    let lock = field(f, page, LOCK);
    f.atomic_store(zero32, lock);
    f.ret(&[status]);
}

/// Waits until every chunk is done.
fn emit_wait(f: &mut Emit<'_>, page: Value, n_chunks: Value) {
    let done_at = field(f, page, DONE);
    let n_chunks = f.low32(n_chunks);
    let zero = f.int(0);
    let spins = f.var(zero);
    f.while_(
        |f| {
            let done = f.atomic_load(I32, done_at);
            f.cmp(IntCC::NotEqual, done, n_chunks)
        },
        |f| {
            let count = f.get(spins);
            let more = f.offset(count, 1);
            f.set(spins, more);
            let patient = f.cmp_int(IntCC::SignedLessThan, count, SPINS);
            f.if_else(
                patient,
                |f| f.call_void("irc_pause", &[]),
                |f| {
                    let (waiter, one) = (field(f, page, WAITER), f.int32(1));
                    f.atomic_store(one, waiter);
                    let done = f.atomic_load(I32, done_at);
                    let open = f.cmp(IntCC::NotEqual, done, n_chunks);
                    f.if_(open, |f| futex(f, done_at, Some(done)));
                },
            );
        },
    );
}

/// Where a thread claims chunks.
#[derive(Clone, Copy)]
enum End {
    Front,
    Back,
}

/// `irc_pool_work(page)` and `irc_pool_help(page)`: claims chunks until there are none.
fn emit_work(f: &mut Emit<'_>, from: End) {
    let page = f.param(0);
    let ticket_at = field(f, page, TICKET);
    let first = f.int(1);
    let open = f.var(first);
    f.while_(
        |f| f.get(open),
        |f| {
            let ticket = f.atomic_load(I64, ticket_at);
            let next = f.and(ticket, 0xffff);
            let end = f.shr(ticket, 16);
            let end = f.and(end, 0xffff);
            let is_open = f.cmp(IntCC::UnsignedLessThan, next, end);
            f.if_else(
                is_open,
                |f| {
                    // What is read here belongs to the ticket if the ticket can still be moved on.
                    let body = f.load(page, BODY);
                    let closure = f.load(page, CLOSURE);
                    let n = f.load(page, COUNT);
                    let chunks = f.load(page, CHUNKS);
                    let (moved, mine) = match from {
                        End::Front => (f.offset(ticket, 1), next),
                        End::Back => (f.offset(ticket, -(1 << 16)), f.offset(end, -1)),
                    };
                    let seen = f.compare_exchange(ticket_at, ticket, moved);
                    let ours = f.cmp(IntCC::Equal, seen, ticket);
                    f.if_(ours, |f| {
                        emit_chunk(f, page, (body, closure), (n, mine, chunks))
                    });
                },
                |f| {
                    let closed = f.int(0);
                    f.set(open, closed);
                },
            );
        },
    );
}

/// Runs one chunk and counts it.
fn emit_chunk(
    f: &mut Emit<'_>,
    page: Value,
    (body, closure): (Value, Value),
    (n, next, chunks): (Value, Value, Value),
) {
    // `n * next` would overflow for ranges above 2^47; the quotient and the rest are split apart.
    let (size, rest) = (f.div(n, chunks), f.rem(n, chunks));
    let bound = |f: &mut Emit<'_>, index: Value| {
        let (whole, part) = (f.mul(size, index), f.min(rest, index));
        f.add(whole, part)
    };
    let lo = bound(f, next);
    let after = f.offset(next, 1);
    let hi = bound(f, after);
    let status_at = field(f, page, STATUS);
    let before = f.atomic_load(I32, status_at);
    let good = f.is_zero(before);
    f.if_(good, |f| {
        let status = f.call_addr(body, &[closure, lo, hi], &[I32]);
        f.if_(status, |f| {
            let none = f.int32(0);
            let old = f.compare_exchange(status_at, none, status);
            let first = f.is_zero(old);
            f.if_(first, |f| emit_keep_error(f, page));
        });
    });
    let (done_at, one) = (field(f, page, DONE), f.int32(1));
    f.atomic(AtomicRmwOp::Add, done_at, one);
    let waiter_at = field(f, page, WAITER);
    let waiter = f.atomic_load(I32, waiter_at);
    f.if_(waiter, |f| futex(f, done_at, None));
}

/// Moves the error of this thread to the job, whose caller raises it again.
fn emit_keep_error(f: &mut Emit<'_>, page: Value) {
    let slot = f.call_i64("irc_slot", &[]);
    let (kind, text) = (f.offset(slot, error::KIND), f.offset(slot, error::TEXT));
    let to = field(f, page, KIND);
    f.format(to, error::KIND_BYTES, "%s", &[kind]);
    let to = field(f, page, TEXT);
    f.format(to, error::TEXT_BYTES, "%s", &[text]);
    let none = f.int(0);
    f.store(none, slot, error::PENDING);
}

/// `irc_pool_worker(page) -> null`: the life of a worker.
fn emit_worker(f: &mut Emit<'_>) {
    let page = f.param(0);
    let (wake, stop) = (field(f, page, WAKE), field(f, page, STOP));
    let (sleepers, active) = (field(f, page, SLEEPERS), field(f, page, ACTIVE));
    let alive = f.int(1);
    let alive = f.var(alive);
    f.while_(
        |f| f.get(alive),
        |f| {
            let seen = f.atomic_load(I32, wake);
            f.call_void("irc_pool_help", &[page]);
            let zero = f.int(0);
            let spins = f.var(zero);
            f.while_(
                |f| {
                    let now = f.atomic_load(I32, wake);
                    let same = f.cmp(IntCC::Equal, now, seen);
                    let count = f.get(spins);
                    let active = f.atomic_load(I32, active);
                    let active = f.is_set(active);
                    let (long, short) = (f.int(CALL_SPINS), f.int(SPINS));
                    let most = f.select(active, long, short);
                    let patient = f.cmp(IntCC::SignedLessThan, count, most);
                    f.both(same, patient)
                },
                |f| {
                    f.call_void("irc_pause", &[]);
                    let count = f.get(spins);
                    let more = f.offset(count, 1);
                    f.set(spins, more);
                },
            );
            let stopped = f.atomic_load(I32, stop);
            f.if_(stopped, |f| {
                let null = f.int(0);
                f.ret(&[null]);
            });
            let (one, minus_one) = (f.int32(1), f.int32(-1));
            f.atomic(AtomicRmwOp::Add, sleepers, one);
            let now = f.atomic_load(I32, wake);
            let same = f.cmp(IntCC::Equal, now, seen);
            f.if_(same, |f| futex(f, wake, Some(seen)));
            f.atomic(AtomicRmwOp::Add, sleepers, minus_one);
        },
    );
}

/// `irc_pool_start(page)`: starts the workers; with the lock held.
fn emit_start(f: &mut Emit<'_>) {
    const SET_MASK: i32 = 2;
    const SIGNAL_SET_BYTES: i64 = 128;
    let page = f.param(0);
    let one = f.int(1);
    f.store(one, page, STARTED);
    let n_threads = f.call_i64("irc_thread_count", &[]);
    let wanted = f.offset(n_threads, -1);
    let limit = f.int(MAX_WORKERS);
    let wanted = f.min(wanted, limit);
    // Signals are the host program's: workers take none.
    let (all, old) = (
        f.stack(SIGNAL_SET_BYTES as u32),
        f.stack(SIGNAL_SET_BYTES as u32),
    );
    let (ones, bytes, how) = (f.int32(255), f.int(SIGNAL_SET_BYTES), f.int32(SET_MASK));
    f.call_i64("memset", &[all, ones, bytes]);
    f.call_i32("pthread_sigmask", &[how, all, old]);
    let worker = f.func_addr("irc_pool_worker", &[I64], &[I64]);
    f.for_(wanted, |f, i| {
        let at = f.scale(i, 8);
        let threads = field(f, page, THREADS);
        let thread = f.add(threads, at);
        let null = f.int(0);
        let status = f.call_i32("pthread_create", &[thread, null, worker, page]);
        // The caller does what missing workers would have done.
        let good = f.is_zero(status);
        f.if_(good, |f| {
            let count = f.load(page, N_WORKERS);
            let same = f.cmp(IntCC::Equal, count, i);
            f.if_(same, |f| {
                let more = f.offset(count, 1);
                f.store(more, page, N_WORKERS);
            });
        });
    });
    let null = f.int(0);
    f.call_i32("pthread_sigmask", &[how, old, null]);
}

/// `irc_pool_stop()`: ends the workers, before their code is unmapped.
fn emit_stop(f: &mut Emit<'_>) {
    let state = state_addr(f);
    let page = f.load(state, state::POOL);
    let none = f.is_zero(page);
    f.if_(none, |f| f.ret(&[]));
    let (stop, wake, one) = (field(f, page, STOP), field(f, page, WAKE), f.int32(1));
    f.atomic_store(one, stop);
    f.atomic(AtomicRmwOp::Add, wake, one);
    futex(f, wake, None);
    let n_workers = f.load(page, N_WORKERS);
    f.for_(n_workers, |f, i| {
        let at = f.scale(i, 8);
        let threads = field(f, page, THREADS);
        let at = f.add(threads, at);
        let (thread, null) = (f.load(at, 0), f.int(0));
        f.call_i32("pthread_join", &[thread, null]);
    });
    let (null, bytes) = (f.int(0), f.int(PAGE));
    let state = state_addr(f);
    f.store(null, state, state::POOL);
    f.call_i32("munmap", &[page, bytes]);
}

/// `irc_thread_count() -> n`: how many threads may run at once, at least 1.
fn emit_thread_count(f: &mut Emit<'_>) {
    const AFFINITY_BYTES: i64 = 128;
    let name = f.text("IRC_NUM_THREADS");
    let text = f.call_i64("getenv", &[name]);
    let one = f.int(1);
    let is_set = f.is_set(text);
    f.if_(is_set, |f| {
        let (null, ten) = (f.int(0), f.int32(10));
        let n = f.call_i64("strtol", &[text, null, ten]);
        let sensible = f.cmp_int(IntCC::SignedGreaterThan, n, 0);
        f.if_(sensible, |f| f.ret(&[n]));
    });
    let mask = f.stack(AFFINITY_BYTES as u32);
    let (zero, zero32, bytes) = (f.int(0), f.int32(0), f.int(AFFINITY_BYTES));
    f.call_i64("memset", &[mask, zero32, bytes]);
    let number = system_call(f, GET_AFFINITY);
    let callee = f.func_addr("syscall", &[I64], &[I64]);
    f.call_addr(callee, &[number, zero, bytes, mask], &[I64]);
    let count = f.var(zero);
    let n_words = f.int(AFFINITY_BYTES / 8);
    f.for_(n_words, |f, i| {
        let at = f.scale(i, 8);
        let at = f.add(mask, at);
        let word = f.load(at, 0);
        let ones = f.popcount(word);
        let sum = f.get(count);
        let sum = f.add(sum, ones);
        f.set(count, sum);
    });
    let quota = f.call_i64("irc_quota", &[]);
    let limited = f.cmp_int(IntCC::SignedGreaterThan, quota, 0);
    let count = f.get(count);
    let less = f.min(count, quota);
    let count = f.select(limited, less, count);
    let some = f.cmp_int(IntCC::SignedGreaterThan, count, 0);
    let count = f.select(some, count, one);
    f.ret(&[count]);
}

/// `irc_quota() -> n`: the cores that the cgroup grants, rounded up; 0 without a limit.
fn emit_quota(f: &mut Emit<'_>) {
    const READ_CLOSE_ON_EXEC: i32 = 0x80000;
    const TEXT_BYTES: i64 = 63;
    let none = f.int(0);
    let path = f.text("/sys/fs/cgroup/cpu.max");
    let how = f.int32(READ_CLOSE_ON_EXEC);
    let file = f.call_i32("open", &[path, how]);
    let missing = f.cmp_int(IntCC::SignedLessThan, file, 0);
    f.if_(missing, |f| f.ret(&[none]));
    let (text, bytes) = (f.stack(64), f.int(TEXT_BYTES));
    let n_read = f.call_i64("read", &[file, text, bytes]);
    f.call_i32("close", &[file]);
    let empty = f.cmp_int(IntCC::SignedLessThanOrEqual, n_read, 0);
    f.if_(empty, |f| f.ret(&[none]));
    let end = f.add(text, n_read);
    f.store8(none, end, 0);
    // `200000 100000`, or `max 100000`.
    let (rest, ten) = (f.stack(8), f.int32(10));
    let quota = f.call_i64("strtol", &[text, rest, ten]);
    let after = f.load(rest, 0);
    let period = f.call_i64("strtol", &[after, none, ten]);
    let has_quota = f.cmp_int(IntCC::SignedGreaterThan, quota, 0);
    let has_period = f.cmp_int(IntCC::SignedGreaterThan, period, 0);
    let limited = f.both(has_quota, has_period);
    f.if_(limited, |f| {
        let sum = f.add(quota, period);
        let sum = f.offset(sum, -1);
        let cores = f.div(sum, period);
        f.ret(&[cores]);
    });
    f.ret(&[none]);
}

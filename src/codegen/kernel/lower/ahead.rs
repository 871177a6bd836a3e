//! Prefetches of panels: the lines that a tile's loop reads soon.
//!
//! ```text
//! loop i3 = 768 {                                loop i3 = 768 {
//!   f4 = load f32 [i1]                 →           prefetch [i1 + 2048]
//!   …                                              f4 = load f32 [i1]
//!   i1 = add i1 64                                 …
//! }
//! ```
//!
//! A panel that is larger than the first cache comes from the second for each tile, and for the first tile from memory;
//! the processor's own prefetching leaves some of the way uncovered. Loops that do little with each line wait for memory
//! whatever they ask for, and are left alone.

use super::super::vir::{Elem, Inst, Mem, Reg};

/// How far ahead, in bytes.
const AHEAD: i32 = 2048;
/// A line of the cache.
const LINE: i64 = 64;
/// Panels of fewer bytes stay in the first cache.
const LEAST: i64 = 24 * 1024;
/// Products of vectors with each line.
const LEAST_PRODUCTS: i64 = 8;

/// Puts prefetches into the body of a loop of `rounds` rounds, each of which moves pointers by `steps` bytes. A vector
/// has so many `lanes`.
pub(super) fn prefetch_panels(body: &mut Vec<Inst>, steps: &[(Reg, i64)], rounds: i64, lanes: i64) {
    let products = body
        .iter()
        .filter(|inst| matches!(inst, Inst::Fma { .. }))
        .count() as i64;
    for &(pointer, step) in steps {
        let reads = body
            .iter()
            .filter(|inst| loads_from(inst, pointer).is_some());
        let is_stream = step > 0 && step % LINE == 0 && reads.count() as i64 * lanes * 4 == step;
        let is_large = step.saturating_mul(rounds) > LEAST;
        if !is_stream || !is_large || products < LEAST_PRODUCTS * (step / LINE) {
            continue;
        }
        let mut res = Vec::with_capacity(body.len() + (step / LINE) as usize);
        for inst in std::mem::take(body) {
            if let Some(at) = loads_from(&inst, pointer)
                && i64::from(at) % LINE == 0
            {
                res.push(Inst::Prefetch {
                    mem: Mem::at(pointer, at + AHEAD),
                });
            }
            res.push(inst);
        }
        *body = res;
    }
}

/// The offset of a load of a whole vector through a pointer.
fn loads_from(inst: &Inst, pointer: Reg) -> Option<i32> {
    match inst {
        Inst::Load {
            elem: Elem::F32,
            mem,
            mask: None,
            ..
        } if mem.base == pointer && mem.index.is_none() => Some(mem.disp),
        _ => None,
    }
}

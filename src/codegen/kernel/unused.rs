//! Instructions whose results nothing reads.
//!
//! ```text
//! d5 = toint f4               f7 = add f4 f6
//! d6 = sub d5 d2       →      store f32 [i0] f7
//! f7 = add f4 f6
//! store f32 [i0] f7
//! ```

use super::vir::{Func, Inst};

/// Takes out what computes or loads a register that is read nowhere. What is stored stays the same.
pub fn remove_unused(func: &mut Func) {
    let mut reads = vec![0_u32; func.types.len()];
    count(&func.body, &mut reads);
    while sweep(&mut func.body, &mut reads) {}
}

fn count(body: &[Inst], reads: &mut [u32]) {
    for inst in body {
        inst.each_src(|reg| reads[reg.0 as usize] += 1);
        match inst {
            Inst::Loop { body, .. } => count(body, reads),
            Inst::If { then, orelse, .. } => {
                count(then, reads);
                count(orelse, reads);
            }
            _ => {}
        }
    }
}

/// Goes backwards, so that what only a removed instruction read goes with it. Whether anything went.
fn sweep(body: &mut Vec<Inst>, reads: &mut [u32]) -> bool {
    let mut any = false;
    let mut kept = Vec::with_capacity(body.len());
    for mut inst in std::mem::take(body).into_iter().rev() {
        match &mut inst {
            Inst::Loop { body, .. } => any |= sweep(body, reads),
            Inst::If { then, orelse, .. } => {
                any |= sweep(orelse, reads);
                any |= sweep(then, reads);
            }
            Inst::Store { .. } | Inst::StoreOne { .. } | Inst::Prefetch { .. } | Inst::Line(_) => {}
            Inst::Arg { dst, .. }
            | Inst::Const { dst, .. }
            | Inst::Move { dst, .. }
            | Inst::Int { dst, .. }
            | Inst::Splat { dst, .. }
            | Inst::Iota { dst }
            | Inst::Lanes { dst, .. }
            | Inst::Un { dst, .. }
            | Inst::Bin { dst, .. }
            | Inst::Fma { dst, .. }
            | Inst::Cmp { dst, .. }
            | Inst::Select { dst, .. }
            | Inst::Load { dst, .. }
            | Inst::Broadcast { dst, .. }
            | Inst::Reduce { dst, .. } => {
                if reads[dst.0 as usize] == 0 {
                    inst.each_src(|reg| reads[reg.0 as usize] -= 1);
                    any = true;
                    continue;
                }
            }
        }
        kept.push(inst);
    }
    kept.reverse();
    *body = kept;
    any
}

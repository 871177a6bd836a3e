//! Instructions whose results nothing reads.
//!
//! ```text
//! d5 = toint f4               f7 = add f4 f6
//! d6 = sub d5 d2       →      store f32 [i0] f7
//! f7 = add f4 f6
//! store f32 [i0] f7
//! ```

use super::vir::{Func, Inst, Reg};

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
            inst => {
                let unread = |reg: &Reg| reads[reg.0 as usize] == 0;
                if inst.dst().as_ref().is_some_and(unread) {
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

//! Loads again what registers have no room for.
//!
//! ```text
//! f1 = load f32 [i0]                    f1 = load f32 [i0]
//! f2 = fma f1 f9 f2                     f2 = fma f1 f9 f2
//! …                                →    …
//! f3 = fma f1 f8 f3                     f7 = load f32 [i0]
//!                                       f3 = fma f7 f8 f3
//! ```
//!
//! A value that was loaded once and is read in several places may find no register in between. It is cheaper to read it
//! again from where it came than to write it to the frame first. Needs the reads in the block of the load, and in
//! between no store and no change of the address. Tests: `tests.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::codegen::kernel::vir::{Func, Inst, Mem, Reg};

/// Gives every read of the registers in `spilled` that can have it a load of its own. Says whether any could.
pub fn reload(func: &mut Func, spilled: &BTreeSet<Reg>) -> bool {
    let mut uses = Uses::default();
    uses.count(&func.body);
    let mut body = std::mem::take(&mut func.body);
    let changed = in_block(func, &mut body, spilled, &uses);
    func.body = body;
    changed
}

/// How often registers are written and read.
#[derive(Default)]
struct Uses {
    writes: BTreeMap<Reg, u32>,
    reads: BTreeMap<Reg, u32>,
}

impl Uses {
    fn count(&mut self, block: &[Inst]) {
        for inst in block {
            inst.each_src(|reg| *self.reads.entry(reg).or_default() += 1);
            if let Some(dst) = inst.dst() {
                *self.writes.entry(dst).or_default() += 1;
            }
            match inst {
                Inst::Loop { body, .. } => self.count(body),
                Inst::If { then, orelse, .. } => {
                    self.count(then);
                    self.count(orelse);
                }
                _ => {}
            }
        }
    }
}

fn in_block(func: &mut Func, block: &mut Vec<Inst>, spilled: &BTreeSet<Reg>, uses: &Uses) -> bool {
    let mut changed = false;
    for inst in block.iter_mut() {
        match inst {
            Inst::Loop { body, .. } => changed |= in_block(func, body, spilled, uses),
            Inst::If { then, orelse, .. } => {
                changed |= in_block(func, then, spilled, uses);
                changed |= in_block(func, orelse, spilled, uses);
            }
            _ => {}
        }
    }
    let again: BTreeSet<Reg> = block
        .iter()
        .enumerate()
        .filter_map(|(at, inst)| Some((at, loaded(inst)?)))
        .filter(|(at, (reg, mem))| {
            spilled.contains(reg)
                && uses.writes.get(reg) == Some(&1)
                && is_reloadable(&block[at + 1..], *reg, mem, uses)
        })
        .map(|(_, (reg, _))| reg)
        .collect();
    if again.is_empty() {
        return changed;
    }
    let mut loads: BTreeMap<Reg, Inst> = BTreeMap::new();
    let mut res = Vec::with_capacity(block.len());
    for mut inst in block.drain(..) {
        if let Some((reg, _)) = loaded(&inst)
            && again.contains(&reg)
        {
            loads.insert(reg, inst);
            continue;
        }
        let mut wanted = BTreeSet::new();
        inst.each_src(|reg| {
            if again.contains(&reg) {
                wanted.insert(reg);
            }
        });
        for reg in wanted {
            let Some(load) = loads.get(&reg) else {
                continue;
            };
            func.types.push(func.ty(reg));
            let fresh = Reg(func.types.len() as u32 - 1);
            let mut load = load.clone();
            if let Inst::Load { dst, .. } | Inst::Broadcast { dst, .. } = &mut load {
                *dst = fresh;
            }
            res.push(load);
            read_instead(&mut inst, reg, fresh);
        }
        res.push(inst);
    }
    *block = res;
    true
}

/// What a load of all lanes reads, and where to.
fn loaded(inst: &Inst) -> Option<(Reg, Mem)> {
    match inst {
        Inst::Load {
            dst,
            mem,
            mask: None,
            ..
        }
        | Inst::Broadcast { dst, mem, .. } => Some((*dst, *mem)),
        _ => None,
    }
}

/// Whether all reads of a register come before the block stores anything, branches, or changes the address, and not
/// all of them at once.
fn is_reloadable(block: &[Inst], reg: Reg, mem: &Mem, uses: &Uses) -> bool {
    let mut reads = 0;
    let mut last = 0;
    for (at, inst) in block.iter().enumerate() {
        inst.each_src(|src| {
            if src == reg {
                reads += 1;
                last = at;
            }
        });
        let moves = inst.dst().is_some_and(|dst| {
            let mut moves = false;
            mem.each_src(&mut |part| moves |= part == dst);
            moves
        });
        let ends = matches!(
            inst,
            Inst::Store { .. } | Inst::StoreOne { .. } | Inst::Loop { .. } | Inst::If { .. }
        );
        if moves || ends {
            break;
        }
    }
    // An instruction has up to three operands, each with a load in front of it.
    uses.reads.get(&reg) == Some(&reads) && last >= 3
}

/// Lets an instruction on vectors read another register.
fn read_instead(inst: &mut Inst, from: Reg, to: Reg) {
    let change = |reg: &mut Reg| {
        if *reg == from {
            *reg = to;
        }
    };
    match inst {
        Inst::Un { a, .. } => change(a),
        Inst::Bin { a, b, .. } | Inst::Cmp { a, b, .. } => {
            change(a);
            change(b);
        }
        Inst::Fma { a, b, c, .. } => {
            change(a);
            change(b);
            change(c);
        }
        Inst::Select { mask, a, b, .. } => {
            change(mask);
            change(a);
            change(b);
        }
        Inst::Store { src, .. } | Inst::StoreOne { src, .. } | Inst::Reduce { src, .. } => {
            change(src);
        }
        Inst::Arg { .. }
        | Inst::Const { .. }
        | Inst::Move { .. }
        | Inst::Int { .. }
        | Inst::Splat { .. }
        | Inst::Iota { .. }
        | Inst::Lanes { .. }
        | Inst::Load { .. }
        | Inst::Broadcast { .. }
        | Inst::Prefetch { .. }
        | Inst::Line(_)
        | Inst::Loop { .. }
        | Inst::If { .. } => {}
    }
}

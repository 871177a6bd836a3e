//! Instruction selection: vector IR with places for its registers to machine instructions.
//!
//! Most vector instructions take their last operand from memory, so a constant or a spilled value costs nothing there;
//! elsewhere it is loaded into a scratch register. Scratch registers are taken from the allocator only for the
//! instructions that turn out to need them, so that a value spilled around a loop costs the loop no register: the
//! emitter starts with none, notes what was missing, and tries again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Code, Code::*, MemoryOperand, Register};

use super::alloc::{self, Allocation, Class, Limits, Loc};
use super::asm::{Asm, BadForm, Cond, Opnd};
use super::reload::reload;
use crate::codegen::debug::FrameStep;
use crate::codegen::kernel::vir::{CmpOp, Elem, Func, Inst, Reg, Src, Ty};

/// The vector instruction set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// AVX2, FMA, F16C: 16 registers of 8 lanes, masks are vectors.
    V3,
    /// AVX-512 F, BW, DQ, VL: 32 registers of 16 lanes, masks in k1 to k7.
    V4,
}

pub(super) type Done = Result<(), BadForm>;

/// rax is the emitter's own, rdi holds the arguments, rbp the frame.
pub(super) const INTS: [Register; 12] = [
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::RBX,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
const FIRST_SAVED: usize = 7;

/// Frame slots for a division: rdx, the divisor, the quotient.
pub(super) const DIVISION_SLOTS: u32 = 3;

/// The code of a function.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// Instructions and literals.
    pub bytes: Vec<u8>,
    /// Offsets from which on the code comes from a line, in order.
    pub rows: Vec<(u32, u32)>,
    /// What the code does to its frame, by the offset behind the instruction.
    pub frame: Vec<(u32, FrameStep)>,
}

/// Rounds of placing registers after which one more scratch register is set aside for all of a function.
const ROUNDS: u32 = 12;

/// The code of a function; `None` when it cannot be emitted.
pub fn emit(func: &Func, isa: Isa) -> Option<Emitted> {
    let mut func = Cow::Borrowed(func);
    let mut need = Need::default();
    for round in 1.. {
        let limits = limits(isa, &need);
        let alloc = placed(&mut func, limits, isa, &mut need);
        let mut emitter = Emitter {
            func: &func,
            isa,
            limits,
            alloc,
            need: need.clone(),
            asm: Asm::new(),
            at: 0,
            frame: 0,
            rows: Vec::new(),
            steps: Vec::new(),
        };
        match emitter.function() {
            Ok(()) if emitter.need == need => {
                let (rows, frame) = (emitter.rows, emitter.steps);
                let (bytes, _) = emitter.asm.finish();
                return Some(Emitted { bytes, rows, frame });
            }
            Ok(()) => {
                need = emitter.need;
                if round % ROUNDS == 0 {
                    need.everywhere += 1;
                }
            }
            Err(BadForm(form)) => {
                debug_assert!(false, "{form}");
                return None;
            }
        }
        if need.everywhere > 4 {
            return None;
        }
    }
    None
}

/// Registers that instructions need for operands that live in memory.
#[derive(Clone, Default, PartialEq, Eq)]
struct Need {
    /// Vectors, by position.
    at: BTreeMap<u32, u8>,
    /// Vectors at every position.
    everywhere: u8,
    /// Masks at every position.
    masks: u8,
}

/// The registers left to allocate.
fn limits(isa: Isa, need: &Need) -> Limits {
    let (vec, mask) = match isa {
        Isa::V3 => (16, 0),
        Isa::V4 => (32, 7 - need.masks),
    };
    Limits {
        int: 12,
        vec: vec - need.everywhere,
        mask,
    }
}

/// Places for the registers of a function, in which what found none is loaded again where it can be.
fn placed(func: &mut Cow<'_, Func>, limits: Limits, isa: Isa, need: &mut Need) -> Allocation {
    let temps = |inst: &Inst| temps(inst, isa);
    loop {
        let alloc = alloc::allocate(func, limits, &temps, &need.at);
        let spilled: BTreeSet<Reg> = (0u32..)
            .map(Reg)
            .zip(&alloc.locs)
            .filter(|&(reg, loc)| {
                matches!(loc, Loc::Slot(_)) && matches!(func.ty(reg), Ty::F32 | Ty::I32)
            })
            .map(|(reg, _)| reg)
            .collect();
        if spilled.is_empty() || !reload(func.to_mut(), &spilled) {
            return alloc;
        }
        // The instructions have other positions now.
        need.at.clear();
    }
}

/// Vector registers that an instruction needs besides its operands.
fn temps(inst: &Inst, isa: Isa) -> u8 {
    match (inst, isa) {
        (Inst::Reduce { .. }, _) => 1,
        (
            Inst::Store {
                elem: Elem::I8 | Elem::U8 | Elem::I16,
                ..
            },
            Isa::V3,
        ) => 2,
        (
            Inst::Load {
                elem: Elem::I8Pair,
                mask: Some(_),
                ..
            },
            Isa::V4,
        ) => 1,
        (
            Inst::Store {
                elem: Elem::F16,
                mask: Some(_),
                ..
            },
            Isa::V3,
        ) => 1,
        (
            Inst::StoreOne {
                elem: Elem::F16, ..
            },
            _,
        ) => 1,
        _ => 0,
    }
}

pub(super) struct Emitter<'a> {
    pub(super) func: &'a Func,
    pub(super) isa: Isa,
    limits: Limits,
    alloc: Allocation,
    /// What was set aside, and what turns out to be missing: then the code is of no use.
    need: Need,
    pub(super) asm: Asm,
    /// The position of the instruction at hand, as the allocator counts.
    at: u32,
    frame: u32,
    rows: Vec<(u32, u32)>,
    steps: Vec<(u32, FrameStep)>,
}

impl Emitter<'_> {
    fn function(&mut self) -> Done {
        let saved: Vec<Register> = (FIRST_SAVED..INTS.len())
            .filter(|n| self.alloc.used_ints >> n & 1 == 1)
            .map(|n| INTS[n])
            .collect();
        for &reg in &saved {
            self.asm.ins(Push_r64, &[reg.into()])?;
            self.step(FrameStep::Push(general(reg)));
        }
        let [ints, vecs, masks] = self.alloc.slots;
        let ints = ints
            + if has_division(&self.func.body) {
                DIVISION_SLOTS
            } else {
                0
            };
        let frame = (vecs * self.vec_bytes() + (ints + masks) * 8).next_multiple_of(64);
        self.frame = frame;
        if frame > 0 {
            self.asm.ins(Push_r64, &[Register::RBP.into()])?;
            self.step(FrameStep::Push(general(Register::RBP)));
            self.asm
                .ins(Mov_r64_rm64, &[Register::RBP.into(), Register::RSP.into()])?;
            self.step(FrameStep::SetFrame);
            self.asm.ins(
                Sub_rm64_imm32,
                &[Register::RSP.into(), (frame as i32).into()],
            )?;
            self.asm
                .ins(And_rm64_imm8, &[Register::RSP.into(), (-64).into()])?;
        }
        let func = self.func;
        self.block(&func.body)?;
        if frame > 0 {
            self.asm
                .ins(Mov_r64_rm64, &[Register::RSP.into(), Register::RBP.into()])?;
            self.asm.ins(Pop_r64, &[Register::RBP.into()])?;
            self.step(FrameStep::PopFrame);
        }
        for &reg in saved.iter().rev() {
            self.asm.ins(Pop_r64, &[reg.into()])?;
            self.step(FrameStep::Pop(general(reg)));
        }
        self.asm.ins(VEX_Vzeroupper, &[])?;
        self.asm.ins(Retnq, &[])?;
        Ok(())
    }

    /// What the last instruction did to the frame.
    fn step(&mut self, step: FrameStep) {
        self.steps.push((self.asm.len(), step));
    }

    fn block(&mut self, block: &[Inst]) -> Done {
        for inst in block {
            self.inst(inst)?;
        }
        Ok(())
    }

    // tidy: table
    fn inst(&mut self, inst: &Inst) -> Done {
        match inst {
            Inst::Loop {
                counter,
                count,
                body,
            } => return self.repeat(*counter, *count, body),
            Inst::If {
                op,
                a,
                b,
                then,
                orelse,
            } => {
                return self.choose(*op, (*a, *b), then, orelse);
            }
            Inst::Arg { dst, slot } => self.arg(*dst, *slot)?,
            Inst::Const { dst, bits } => self.constant(*dst, *bits)?,
            Inst::Move { dst, src } => self.set_int(*dst, *src)?,
            Inst::Int { op, dst, a, b } => self.int(*op, *dst, *a, *b)?,
            Inst::Splat { dst, src } => self.splat(*dst, *src)?,
            Inst::Iota { dst } => self.iota(*dst)?,
            Inst::Lanes { dst, count } => self.lanes(*dst, *count)?,
            Inst::Un { op, dst, a } => self.unary(*op, *dst, *a)?,
            Inst::Bin { op, dst, a, b } => self.binary(*op, *dst, *a, *b)?,
            Inst::Fma { neg, dst, a, b, c } => self.fma(*neg, *dst, [*a, *b, *c])?,
            Inst::Cmp { op, dst, a, b } => self.compare(*op, *dst, *a, *b)?,
            Inst::Select { dst, mask, a, b } => self.select(*dst, *mask, *a, *b)?,
            Inst::Load {
                dst,
                elem,
                mem,
                mask: None,
            } => self.load(*dst, *elem, mem)?,
            Inst::Load {
                dst,
                elem,
                mem,
                mask: Some(mask),
            } => {
                self.load_masked(*dst, *elem, mem, *mask)?;
            }
            Inst::Broadcast { dst, elem, mem } => self.broadcast(*dst, *elem, mem)?,
            Inst::Store {
                elem,
                mem,
                src,
                mask: None,
            } => self.store(*elem, mem, *src)?,
            Inst::Store {
                elem,
                mem,
                src,
                mask: Some(mask),
            } => {
                self.store_masked(*elem, mem, *src, *mask)?;
            }
            Inst::StoreOne { elem, mem, src } => self.store_one(*elem, mem, *src)?,
            Inst::Prefetch { mem } => self.prefetch(mem)?,
            Inst::Reduce { op, dst, src } => self.reduce(*op, *dst, *src)?,
            Inst::Line(line) => {
                if self.rows.last().is_none_or(|row| row.1 != *line) {
                    self.rows.push((self.asm.len(), *line));
                }
            }
        }
        self.at += 1;
        Ok(())
    }

    fn repeat(&mut self, counter: Reg, count: Src, body: &[Inst]) -> Done {
        let (head, end) = (self.asm.label(), self.asm.label());
        self.set_int(counter, count)?;
        if !matches!(count, Src::Imm(count) if count > 0) {
            match self.loc(counter) {
                Loc::Reg(n) => {
                    let reg = INTS[n as usize];
                    self.asm.ins(Test_rm64_r64, &[reg.into(), reg.into()])?;
                }
                _ => {
                    let counter = self.int_rm(counter)?;
                    self.asm.ins(Cmp_rm64_imm8, &[counter, 0.into()])?;
                }
            }
            self.asm.branch(Cond::Le, end);
        }
        self.at += 1;
        self.asm.align(32);
        self.asm.bind(head);
        self.block(body)?;
        let counter = self.int_rm(counter)?;
        self.asm.ins(Dec_rm64, &[counter])?;
        self.asm.branch(Cond::Ne, head);
        self.asm.bind(end);
        self.at += 1;
        Ok(())
    }

    fn choose(&mut self, op: CmpOp, sides: (Src, Src), then: &[Inst], orelse: &[Inst]) -> Done {
        let (other, end) = (self.asm.label(), self.asm.label());
        let op = self.compare_ints(op, sides.0, sides.1)?;
        let unless = match op {
            CmpOp::Eq => Cond::Ne,
            CmpOp::Ne => Cond::Eq,
            CmpOp::Lt => Cond::Ge,
            CmpOp::Le => Cond::Gt,
            CmpOp::Gt => Cond::Le,
            CmpOp::Ge => Cond::Lt,
        };
        self.asm.branch(unless, other);
        self.at += 1;
        self.block(then)?;
        self.at += 1;
        if !orelse.is_empty() {
            self.asm.jump(end);
        }
        self.asm.bind(other);
        self.block(orelse)?;
        self.at += 1;
        self.asm.bind(end);
        Ok(())
    }

    // Places.

    pub(super) fn loc(&self, reg: Reg) -> Loc {
        self.alloc.locs[reg.0 as usize]
    }

    fn class(&self, reg: Reg) -> Class {
        self.limits.class(self.func.ty(reg))
    }

    pub(super) fn vec_bytes(&self) -> u32 {
        match self.isa {
            Isa::V3 => 32,
            Isa::V4 => 64,
        }
    }

    /// One of two codes, by instruction set.
    pub(super) fn pick(&self, v3: Code, v4: Code) -> Code {
        match self.isa {
            Isa::V3 => v3,
            Isa::V4 => v4,
        }
    }

    pub(super) fn vector(&self, n: u8) -> Register {
        let first = self.pick_reg(Register::YMM0, Register::ZMM0);
        first + u32::from(n)
    }

    fn pick_reg(&self, v3: Register, v4: Register) -> Register {
        match self.isa {
            Isa::V3 => v3,
            Isa::V4 => v4,
        }
    }

    /// The n-th temporary of the instruction at hand.
    pub(super) fn temp(&self, n: usize) -> Result<Register, BadForm> {
        let reg = self
            .alloc
            .temps
            .get(&self.at)
            .and_then(|temps| temps.get(n));
        reg.map(|&reg| self.vector(reg))
            .ok_or_else(|| BadForm(format!("no temporary {n}")))
    }

    /// The n-th scratch register of vectors.
    pub(super) fn scratch(&mut self, n: u8) -> Register {
        if n < self.need.everywhere {
            return self.vector(self.limits.vec + n);
        }
        let n = n - self.need.everywhere;
        match self.alloc.scratch.get(&self.at) {
            Some(regs) if usize::from(n) < regs.len() => self.vector(regs[usize::from(n)]),
            _ => {
                let need = self.need.at.entry(self.at).or_default();
                *need = (*need).max(n + 1);
                self.vector(0)
            }
        }
    }

    fn scratch_mask(&mut self, n: u8) -> Register {
        self.need.masks = self.need.masks.max(n + 1);
        Register::K1 + u32::from(self.limits.mask + n).min(6)
    }

    pub(super) fn slot(&self, class: Class, n: u32) -> MemoryOperand {
        let [ints, vecs, masks] = self.alloc.slots;
        let at = match class {
            Class::Vec => n * self.vec_bytes(),
            Class::Int => vecs * self.vec_bytes() + n * 8,
            Class::Mask => vecs * self.vec_bytes() + (ints + n) * 8,
        };
        let _ = masks;
        address(Register::RSP, at as i32)
    }

    /// A frame slot for the steps of a division.
    pub(super) fn division_slot(&self, n: u32) -> MemoryOperand {
        let [ints, vecs, masks] = self.alloc.slots;
        address(
            Register::RSP,
            (vecs * self.vec_bytes() + (ints + masks + n) * 8) as i32,
        )
    }

    /// A vector as the last operand of an instruction.
    pub(super) fn vec_rm(&mut self, reg: Reg) -> Result<Opnd, BadForm> {
        Ok(match self.loc(reg) {
            Loc::Reg(n) => self.vector(n).into(),
            Loc::Slot(n) => self.slot(Class::Vec, n).into(),
            Loc::Pool(bits) => self.splat_literal(bits),
            Loc::Arg(_) | Loc::Nowhere => return Err(homeless(reg)),
        })
    }

    /// A literal with the same bits in all lanes.
    pub(super) fn splat_literal(&mut self, bits: u32) -> Opnd {
        let lanes = self.vec_bytes() as usize / 4;
        self.asm.literal(bits.to_le_bytes().repeat(lanes))
    }

    /// A vector in a register: its own, or the n-th scratch register.
    pub(super) fn vec_in(&mut self, reg: Reg, n: u8) -> Result<Register, BadForm> {
        if let Loc::Reg(n) = self.loc(reg) {
            return Ok(self.vector(n));
        }
        let scratch = self.scratch(n);
        let from = self.vec_rm(reg)?;
        self.move_vec(scratch, from)?;
        Ok(scratch)
    }

    /// Where to compute a vector: its register, or the n-th scratch register.
    pub(super) fn vec_out(&mut self, reg: Reg, n: u8) -> Register {
        match self.loc(reg) {
            Loc::Reg(n) => self.vector(n),
            _ => self.scratch(n),
        }
    }

    /// Writes a computed vector to where it lives.
    pub(super) fn vec_done(&mut self, reg: Reg, from: Register) -> Done {
        if let Loc::Slot(n) = self.loc(reg) {
            let code = self.pick(VEX_Vmovaps_ymmm256_ymm, EVEX_Vmovaps_zmmm512_k1z_zmm);
            let slot = self.slot(Class::Vec, n);
            self.asm.ins(code, &[slot.into(), from.into()])?;
        }
        Ok(())
    }

    pub(super) fn move_vec(&mut self, to: Register, from: Opnd) -> Done {
        if matches!(from, Opnd::Reg(from) if from == to) {
            return Ok(());
        }
        let code = self.pick(VEX_Vmovaps_ymm_ymmm256, EVEX_Vmovaps_zmm_k1z_zmmm512);
        self.asm.ins(code, &[to.into(), from])?;
        Ok(())
    }

    pub(super) fn is_k(&self, reg: Reg) -> bool {
        self.class(reg) == Class::Mask
    }

    /// An AVX-512 mask in a register.
    pub(super) fn mask_in(&mut self, reg: Reg, n: u8) -> Result<Register, BadForm> {
        match self.loc(reg) {
            Loc::Reg(n) => Ok(Register::K1 + u32::from(n)),
            Loc::Slot(slot) => {
                let (to, from) = (self.scratch_mask(n), self.slot(Class::Mask, slot));
                self.asm.ins(VEX_Kmovw_kr_km16, &[to.into(), from.into()])?;
                Ok(to)
            }
            Loc::Pool(bits) => {
                let to = self.scratch_mask(n);
                self.constant_mask(to, bits)?;
                Ok(to)
            }
            Loc::Arg(_) | Loc::Nowhere => Err(homeless(reg)),
        }
    }

    pub(super) fn constant_mask(&mut self, to: Register, bits: u32) -> Done {
        let code = if bits == 0 {
            VEX_Kxorw_kr_kr_kr
        } else {
            VEX_Kxnorw_kr_kr_kr
        };
        self.asm.ins(code, &[to.into(), to.into(), to.into()])?;
        Ok(())
    }

    pub(super) fn mask_out(&mut self, reg: Reg, n: u8) -> Register {
        match self.loc(reg) {
            Loc::Reg(n) => Register::K1 + u32::from(n),
            _ => self.scratch_mask(n),
        }
    }

    pub(super) fn mask_done(&mut self, reg: Reg, from: Register) -> Done {
        if let Loc::Slot(n) = self.loc(reg) {
            let slot = self.slot(Class::Mask, n);
            self.asm
                .ins(VEX_Kmovw_m16_kr, &[slot.into(), from.into()])?;
        }
        Ok(())
    }
}

fn homeless(reg: Reg) -> BadForm {
    BadForm(format!("no place for vector {}", reg.0))
}

/// The number of a general purpose register in instructions.
fn general(reg: Register) -> u8 {
    (reg as u32 - Register::RAX as u32) as u8
}

/// The low half of a general purpose register.
pub(super) fn low32(reg: Register) -> Register {
    Register::EAX + (reg as u32 - Register::RAX as u32)
}

fn has_division(block: &[Inst]) -> bool {
    use crate::codegen::kernel::vir::IntOp;
    block.iter().any(|inst| match inst {
        Inst::Int { op, .. } => matches!(op, IntOp::Div | IntOp::Mod),
        Inst::Loop { body, .. } => has_division(body),
        Inst::If { then, orelse, .. } => has_division(then) || has_division(orelse),
        _ => false,
    })
}

/// `[base + disp]`
pub(super) fn address(base: Register, disp: i32) -> MemoryOperand {
    MemoryOperand::with_base_displ_size(base, i64::from(disp), u32::from(disp != 0))
}

/// The low quarter or half of a vector register.
pub(super) fn xmm(reg: Register) -> Register {
    Register::XMM0 + number(reg)
}

/// The low half of a vector register of 512 bits.
pub(super) fn ymm(reg: Register) -> Register {
    Register::YMM0 + number(reg)
}

fn number(reg: Register) -> u32 {
    let reg = reg as u32;
    if reg >= Register::ZMM0 as u32 {
        reg - Register::ZMM0 as u32
    } else {
        reg - Register::YMM0 as u32
    }
}

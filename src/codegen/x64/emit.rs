//! Instruction selection: vector IR with places for its registers to machine instructions.
//!
//! Most vector instructions take their last operand from memory, so a constant or a spilled value costs nothing there;
//! elsewhere it is loaded into a scratch register. Scratch registers are taken from the allocator only when a function
//! turns out to need them: the emitter starts with none and tries again with one more.

use iced_x86::{Code, Code::*, MemoryOperand, Register};

use super::alloc::{self, Allocation, Class, Limits, Loc};
use super::asm::{Asm, BadForm, Cond, Opnd};
use crate::codegen::kernel::vir::{BinOp, CmpOp, Elem, Func, Inst, Reg, Src, Ty, UnOp};

/// The vector instruction set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// AVX2, FMA, F16C: 16 registers of 8 lanes, masks are vectors.
    V3,
    /// AVX-512 F, BW, DQ, VL: 32 registers of 16 lanes, masks in k1 to k7.
    V4,
}

/// Why a function did not come out.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It needs one more scratch register.
    Scratch,
    /// The emitter asked for something that there is not.
    Form(BadForm),
}

impl From<BadForm> for Trouble {
    fn from(form: BadForm) -> Self {
        Self::Form(form)
    }
}

pub(super) type Done = Result<(), Trouble>;

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

/// The bytes of a function and the length of its instructions; `None` when it cannot be emitted.
pub fn emit(func: &Func, isa: Isa) -> Option<(Vec<u8>, usize)> {
    for scratch in 0..=4 {
        let limits = match isa {
            Isa::V3 => Limits {
                int: 12,
                vec: 16 - scratch,
                mask: 0,
            },
            Isa::V4 => Limits {
                int: 12,
                vec: 32 - scratch,
                mask: 7 - scratch.min(2),
            },
        };
        let temps = |inst: &Inst| temps(inst, isa);
        let alloc = alloc::allocate(func, limits, &temps);
        let mut emitter = Emitter {
            func,
            isa,
            limits,
            alloc,
            scratch,
            asm: Asm::new(),
            at: 0,
            frame: 0,
        };
        match emitter.function() {
            Ok(()) => return Some(emitter.asm.finish()),
            Err(Trouble::Scratch) => {}
            Err(Trouble::Form(form)) => {
                debug_assert!(false, "{form:?}");
                return None;
            }
        }
    }
    None
}

/// Vector registers that an instruction needs besides its operands.
fn temps(inst: &Inst, isa: Isa) -> u8 {
    match (inst, isa) {
        (Inst::Reduce { .. }, _) => 1,
        (
            Inst::Store {
                elem: Elem::I8 | Elem::U8,
                ..
            },
            Isa::V3,
        ) => 2,
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
    scratch: u8,
    pub(super) asm: Asm,
    /// The position of the instruction at hand, as the allocator counts.
    at: u32,
    frame: u32,
}

impl Emitter<'_> {
    fn function(&mut self) -> Done {
        let saved: Vec<Register> = (FIRST_SAVED..INTS.len())
            .filter(|n| self.alloc.used_ints >> n & 1 == 1)
            .map(|n| INTS[n])
            .collect();
        for &reg in &saved {
            self.asm.ins(Push_r64, &[reg.into()])?;
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
            self.asm
                .ins(Mov_r64_rm64, &[Register::RBP.into(), Register::RSP.into()])?;
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
        }
        for &reg in saved.iter().rev() {
            self.asm.ins(Pop_r64, &[reg.into()])?;
        }
        self.asm.ins(VEX_Vzeroupper, &[])?;
        self.asm.ins(Retnq, &[])?;
        Ok(())
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
            Inst::Reduce { op, dst, src } => self.reduce(*op, *dst, *src)?,
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
    pub(super) fn temp(&self, n: usize) -> Result<Register, Trouble> {
        let reg = self
            .alloc
            .temps
            .get(&self.at)
            .and_then(|temps| temps.get(n));
        reg.map(|&reg| self.vector(reg)).ok_or(Trouble::Scratch)
    }

    /// The n-th scratch register of vectors.
    pub(super) fn scratch(&self, n: u8) -> Result<Register, Trouble> {
        if n >= self.scratch {
            return Err(Trouble::Scratch);
        }
        Ok(self.vector(self.limits.vec + n))
    }

    fn scratch_mask(&self, n: u8) -> Result<Register, Trouble> {
        if n >= self.scratch.min(2) {
            return Err(Trouble::Scratch);
        }
        Ok(Register::K1 + u32::from(self.limits.mask + n))
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
    pub(super) fn vec_rm(&mut self, reg: Reg) -> Result<Opnd, Trouble> {
        Ok(match self.loc(reg) {
            Loc::Reg(n) => self.vector(n).into(),
            Loc::Slot(n) => self.slot(Class::Vec, n).into(),
            Loc::Pool(bits) => self.splat_literal(bits),
            Loc::Arg(_) | Loc::Nowhere => return Err(Trouble::Scratch),
        })
    }

    /// A literal with the same bits in all lanes.
    pub(super) fn splat_literal(&mut self, bits: u32) -> Opnd {
        let lanes = self.vec_bytes() as usize / 4;
        self.asm.literal(bits.to_le_bytes().repeat(lanes))
    }

    /// A vector in a register: its own, or the n-th scratch register.
    pub(super) fn vec_in(&mut self, reg: Reg, n: u8) -> Result<Register, Trouble> {
        if let Loc::Reg(n) = self.loc(reg) {
            return Ok(self.vector(n));
        }
        let scratch = self.scratch(n)?;
        let from = self.vec_rm(reg)?;
        self.move_vec(scratch, from)?;
        Ok(scratch)
    }

    /// Where to compute a vector: its register, or the n-th scratch register.
    pub(super) fn vec_out(&self, reg: Reg, n: u8) -> Result<Register, Trouble> {
        match self.loc(reg) {
            Loc::Reg(n) => Ok(self.vector(n)),
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

    fn is_k(&self, reg: Reg) -> bool {
        self.class(reg) == Class::Mask
    }

    /// An AVX-512 mask in a register.
    pub(super) fn mask_in(&mut self, reg: Reg, n: u8) -> Result<Register, Trouble> {
        match self.loc(reg) {
            Loc::Reg(n) => Ok(Register::K1 + u32::from(n)),
            Loc::Slot(slot) => {
                let (to, from) = (self.scratch_mask(n)?, self.slot(Class::Mask, slot));
                self.asm.ins(VEX_Kmovw_kr_km16, &[to.into(), from.into()])?;
                Ok(to)
            }
            Loc::Pool(bits) => {
                let to = self.scratch_mask(n)?;
                self.constant_mask(to, bits)?;
                Ok(to)
            }
            Loc::Arg(_) | Loc::Nowhere => Err(Trouble::Scratch),
        }
    }

    fn constant_mask(&mut self, to: Register, bits: u32) -> Done {
        let code = if bits == 0 {
            VEX_Kxorw_kr_kr_kr
        } else {
            VEX_Kxnorw_kr_kr_kr
        };
        self.asm.ins(code, &[to.into(), to.into(), to.into()])?;
        Ok(())
    }

    pub(super) fn mask_out(&self, reg: Reg, n: u8) -> Result<Register, Trouble> {
        match self.loc(reg) {
            Loc::Reg(n) => Ok(Register::K1 + u32::from(n)),
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

    // Values.

    fn constant(&mut self, dst: Reg, bits: u32) -> Done {
        match self.loc(dst) {
            Loc::Nowhere | Loc::Pool(_) => return Ok(()),
            Loc::Reg(_) | Loc::Slot(_) | Loc::Arg(_) => {}
        }
        if self.is_k(dst) {
            let to = self.mask_out(dst, 0)?;
            self.constant_mask(to, bits)?;
            return self.mask_done(dst, to);
        }
        let to = self.vec_out(dst, 0)?;
        match bits {
            0 => {
                let code = self.pick(
                    VEX_Vxorps_ymm_ymm_ymmm256,
                    EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
                );
                self.asm.ins(code, &[to.into(), to.into(), to.into()])?;
            }
            bits => {
                let from = self.splat_literal(bits);
                self.move_vec(to, from)?;
            }
        }
        self.vec_done(dst, to)
    }

    fn iota(&mut self, dst: Reg) -> Done {
        let to = self.vec_out(dst, 0)?;
        let from = self.iota_literal();
        self.move_vec(to, from)?;
        self.vec_done(dst, to)
    }

    fn iota_literal(&mut self) -> Opnd {
        let lanes = self.vec_bytes() / 4;
        self.asm
            .literal((0..lanes).flat_map(u32::to_le_bytes).collect())
    }

    fn splat(&mut self, dst: Reg, src: Reg) -> Done {
        let from = low32(self.int_in(src)?);
        let to = self.vec_out(dst, 0)?;
        self.splat_int(to, from)?;
        self.vec_done(dst, to)
    }

    fn splat_int(&mut self, to: Register, from: Register) -> Done {
        match self.isa {
            Isa::V3 => {
                let low = xmm(to);
                self.asm
                    .ins(VEX_Vmovd_xmm_rm32, &[low.into(), from.into()])?;
                self.asm
                    .ins(VEX_Vpbroadcastd_ymm_xmmm32, &[to.into(), low.into()])?;
            }
            Isa::V4 => {
                self.asm
                    .ins(EVEX_Vpbroadcastd_zmm_k1z_r32, &[to.into(), from.into()])?;
            }
        }
        Ok(())
    }

    fn lanes(&mut self, dst: Reg, count: Reg) -> Done {
        let from = low32(self.int_in(count)?);
        match self.isa {
            Isa::V3 => {
                let to = self.vec_out(dst, 0)?;
                self.splat_int(to, from)?;
                let iota = self.iota_literal();
                self.asm
                    .ins(VEX_Vpcmpgtd_ymm_ymm_ymmm256, &[to.into(), to.into(), iota])?;
                self.vec_done(dst, to)
            }
            Isa::V4 => {
                let to = self.mask_out(dst, 0)?;
                // bzhi keeps the low `count` bits; the mask wants 16 of them.
                let ones = self.asm.literal(u32::MAX.to_le_bytes().to_vec());
                self.asm.ins(
                    VEX_Bzhi_r32_rm32_r32,
                    &[Register::EAX.into(), ones, from.into()],
                )?;
                self.asm
                    .ins(VEX_Kmovw_kr_r32, &[to.into(), Register::EAX.into()])?;
                self.mask_done(dst, to)
            }
        }
    }

    fn unary(&mut self, op: UnOp, dst: Reg, a: Reg) -> Done {
        if self.is_k(dst) {
            let (to, from) = (self.mask_out(dst, 0)?, self.mask_in(a, 1)?);
            match op {
                UnOp::Not => self.asm.ins(VEX_Knotw_kr_kr, &[to.into(), from.into()])?,
                _ if to == from => {}
                _ => self
                    .asm
                    .ins(VEX_Korw_kr_kr_kr, &[to.into(), from.into(), from.into()])?,
            }
            return self.mask_done(dst, to);
        }
        let to = self.vec_out(dst, 0)?;
        let round = |e: &mut Self, mode: i32| -> Done {
            let code = e.pick(
                VEX_Vroundps_ymm_ymmm256_imm8,
                EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae,
            );
            let from = e.vec_rm(a)?;
            Ok(e.asm.ins(code, &[to.into(), from, (mode | 8).into()])?)
        };
        let plain = |e: &mut Self, v3: Code, v4: Code| -> Done {
            let (code, from) = (e.pick(v3, v4), e.vec_rm(a)?);
            Ok(e.asm.ins(code, &[to.into(), from])?)
        };
        match op {
            UnOp::Copy => {
                let from = self.vec_rm(a)?;
                self.move_vec(to, from)?;
            }
            UnOp::Sqrt => plain(
                self,
                VEX_Vsqrtps_ymm_ymmm256,
                EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er,
            )?,
            UnOp::ToInt => {
                plain(
                    self,
                    VEX_Vcvttps2dq_ymm_ymmm256,
                    EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae,
                )?;
            }
            UnOp::ToFloat => {
                plain(
                    self,
                    VEX_Vcvtdq2ps_ymm_ymmm256,
                    EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er,
                )?;
            }
            UnOp::RoundHalf => {
                let from = self.vec_in(a, 1)?;
                self.round_half(to, from)?;
            }
            UnOp::Round => round(self, 0)?,
            UnOp::Floor => round(self, 1)?,
            UnOp::Ceil => round(self, 2)?,
            UnOp::Trunc => round(self, 3)?,
            UnOp::Not => {
                let from = self.vec_in(a, 1)?;
                self.invert(to, from)?;
            }
        }
        self.vec_done(dst, to)
    }

    fn invert(&mut self, to: Register, from: Register) -> Done {
        let ones = self.splat_literal(u32::MAX);
        let code = self.pick(
            VEX_Vpxor_ymm_ymm_ymmm256,
            EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
        );
        self.asm.ins(code, &[to.into(), from.into(), ones])?;
        Ok(())
    }

    fn binary(&mut self, op: BinOp, dst: Reg, a: Reg, b: Reg) -> Done {
        if self.is_k(dst) {
            let code = match op {
                BinOp::And => VEX_Kandw_kr_kr_kr,
                BinOp::Or => VEX_Korw_kr_kr_kr,
                BinOp::Xor => VEX_Kxorw_kr_kr_kr,
                BinOp::AndNot => VEX_Kandnw_kr_kr_kr,
                _ => return Err(Trouble::Form(BadForm(format!("{op:?} of masks")))),
            };
            let (to, x, y) = (
                self.mask_out(dst, 0)?,
                self.mask_in(a, 0)?,
                self.mask_in(b, 1)?,
            );
            self.asm.ins(code, &[to.into(), x.into(), y.into()])?;
            return self.mask_done(dst, to);
        }
        let code = self.binary_code(op, self.func.ty(dst))?;
        let commutes = matches!(
            op,
            BinOp::Add | BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Xor
        );
        let in_reg = |e: &Self, reg: Reg| matches!(e.loc(reg), Loc::Reg(_));
        let (a, b) = if commutes && !in_reg(self, a) && in_reg(self, b) {
            (b, a)
        } else {
            (a, b)
        };
        let x = self.vec_in(a, 0)?;
        let y = self.vec_rm(b)?;
        let to = self.vec_out(dst, 0)?;
        self.asm.ins(code, &[to.into(), x.into(), y])?;
        self.vec_done(dst, to)
    }

    // tidy: table
    pub(super) fn binary_code(&self, op: BinOp, ty: Ty) -> Result<Code, Trouble> {
        let float = ty == Ty::F32;
        Ok(match (op, float) {
            (BinOp::Add, true) => self.pick(
                VEX_Vaddps_ymm_ymm_ymmm256,
                EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
            ),
            (BinOp::Add, false) => self.pick(
                VEX_Vpaddd_ymm_ymm_ymmm256,
                EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
            ),
            (BinOp::Sub, true) => self.pick(
                VEX_Vsubps_ymm_ymm_ymmm256,
                EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
            ),
            (BinOp::Sub, false) => self.pick(
                VEX_Vpsubd_ymm_ymm_ymmm256,
                EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
            ),
            (BinOp::Mul, true) => self.pick(
                VEX_Vmulps_ymm_ymm_ymmm256,
                EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
            ),
            (BinOp::Mul, false) => self.pick(
                VEX_Vpmulld_ymm_ymm_ymmm256,
                EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32,
            ),
            (BinOp::Div, _) => self.pick(
                VEX_Vdivps_ymm_ymm_ymmm256,
                EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
            ),
            (BinOp::Min, true) => self.pick(
                VEX_Vminps_ymm_ymm_ymmm256,
                EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
            ),
            (BinOp::Min, false) => self.pick(
                VEX_Vpminsd_ymm_ymm_ymmm256,
                EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
            ),
            (BinOp::Max, true) => self.pick(
                VEX_Vmaxps_ymm_ymm_ymmm256,
                EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
            ),
            (BinOp::Max, false) => self.pick(
                VEX_Vpmaxsd_ymm_ymm_ymmm256,
                EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
            ),
            // The same bits, but a float result is used by float units: staying there saves a cycle.
            (BinOp::And, true) => self.pick(
                VEX_Vandps_ymm_ymm_ymmm256,
                EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
            ),
            (BinOp::And, false) => self.pick(
                VEX_Vpand_ymm_ymm_ymmm256,
                EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
            ),
            (BinOp::Or, true) => {
                self.pick(VEX_Vorps_ymm_ymm_ymmm256, EVEX_Vpord_zmm_k1z_zmm_zmmm512b32)
            }
            (BinOp::Or, false) => {
                self.pick(VEX_Vpor_ymm_ymm_ymmm256, EVEX_Vpord_zmm_k1z_zmm_zmmm512b32)
            }
            (BinOp::Xor, true) => self.pick(
                VEX_Vxorps_ymm_ymm_ymmm256,
                EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
            ),
            (BinOp::Xor, false) => self.pick(
                VEX_Vpxor_ymm_ymm_ymmm256,
                EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
            ),
            (BinOp::AndNot, true) => self.pick(
                VEX_Vandnps_ymm_ymm_ymmm256,
                EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32,
            ),
            (BinOp::AndNot, false) => self.pick(
                VEX_Vpandn_ymm_ymm_ymmm256,
                EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32,
            ),
            (BinOp::Shl, _) => self.pick(
                VEX_Vpsllvd_ymm_ymm_ymmm256,
                EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
            ),
            (BinOp::Shr, _) => self.pick(
                VEX_Vpsrlvd_ymm_ymm_ymmm256,
                EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
            ),
            (BinOp::Sar, _) => self.pick(
                VEX_Vpsravd_ymm_ymm_ymmm256,
                EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
            ),
        })
    }

    /// The three orders of operands of the fused instructions let any source be overwritten and any be in memory.
    fn fma(&mut self, neg: bool, dst: Reg, [a, b, c]: [Reg; 3]) -> Done {
        let code = |e: &Self, order: u8| match (order, neg) {
            (132, false) => e.pick(
                VEX_Vfmadd132ps_ymm_ymm_ymmm256,
                EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
            ),
            (132, true) => e.pick(
                VEX_Vfnmadd132ps_ymm_ymm_ymmm256,
                EVEX_Vfnmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
            ),
            (213, false) => e.pick(
                VEX_Vfmadd213ps_ymm_ymm_ymmm256,
                EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            ),
            (213, true) => e.pick(
                VEX_Vfnmadd213ps_ymm_ymm_ymmm256,
                EVEX_Vfnmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            ),
            (_, false) => e.pick(
                VEX_Vfmadd231ps_ymm_ymm_ymmm256,
                EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
            ),
            (_, true) => e.pick(
                VEX_Vfnmadd231ps_ymm_ymm_ymmm256,
                EVEX_Vfnmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
            ),
        };
        let reg = |e: &Self, reg: Reg| match e.loc(reg) {
            Loc::Reg(n) => Some(e.vector(n)),
            _ => None,
        };
        // A factor in memory is the second one.
        let (a, b) = if reg(self, a).is_none() {
            (b, a)
        } else {
            (a, b)
        };
        let to = self.vec_out(dst, 0)?;
        let held = matches!(self.loc(dst), Loc::Reg(_));
        if held && reg(self, c) == Some(to) {
            let (x, y) = (self.vec_in(a, 0)?, self.vec_rm(b)?);
            self.asm.ins(code(self, 231), &[to.into(), x.into(), y])?;
        } else if held && (reg(self, a) == Some(to) || reg(self, b) == Some(to)) {
            let b = if reg(self, a) == Some(to) { b } else { a };
            match (reg(self, b), reg(self, c)) {
                // to = b * to + c
                (Some(y), _) => {
                    let z = self.vec_rm(c)?;
                    self.asm.ins(code(self, 213), &[to.into(), y.into(), z])?;
                }
                // to = to * b + c
                (None, _) => {
                    let (z, y) = (self.vec_in(c, 0)?, self.vec_rm(b)?);
                    self.asm.ins(code(self, 132), &[to.into(), z.into(), y])?;
                }
            }
        } else {
            let n = u8::from(!held);
            let x = self.vec_in(a, n)?;
            let from = self.vec_rm(c)?;
            self.move_vec(to, from)?;
            let y = self.vec_rm(b)?;
            self.asm.ins(code(self, 231), &[to.into(), x.into(), y])?;
        }
        self.vec_done(dst, to)
    }

    fn compare(&mut self, op: CmpOp, dst: Reg, a: Reg, b: Reg) -> Done {
        let float = self.func.ty(a) == Ty::F32;
        match self.isa {
            Isa::V4 => {
                let (x, y) = (self.vec_in(a, 0)?, self.vec_rm(b)?);
                let to = self.mask_out(dst, 0)?;
                let (code, imm) = if float {
                    (
                        EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae,
                        float_predicate(op),
                    )
                } else {
                    (EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, int_predicate(op))
                };
                self.asm.ins(code, &[to.into(), x.into(), y, imm.into()])?;
                self.mask_done(dst, to)
            }
            Isa::V3 if float => {
                let (x, y) = (self.vec_in(a, 0)?, self.vec_rm(b)?);
                let to = self.vec_out(dst, 0)?;
                let imm = float_predicate(op);
                let code = VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
                self.asm.ins(code, &[to.into(), x.into(), y, imm.into()])?;
                self.vec_done(dst, to)
            }
            Isa::V3 => {
                let (code, a, b, negated) = match op {
                    CmpOp::Eq => (VEX_Vpcmpeqd_ymm_ymm_ymmm256, a, b, false),
                    CmpOp::Ne => (VEX_Vpcmpeqd_ymm_ymm_ymmm256, a, b, true),
                    CmpOp::Gt => (VEX_Vpcmpgtd_ymm_ymm_ymmm256, a, b, false),
                    CmpOp::Le => (VEX_Vpcmpgtd_ymm_ymm_ymmm256, a, b, true),
                    CmpOp::Lt => (VEX_Vpcmpgtd_ymm_ymm_ymmm256, b, a, false),
                    CmpOp::Ge => (VEX_Vpcmpgtd_ymm_ymm_ymmm256, b, a, true),
                };
                let (x, y) = (self.vec_in(a, 0)?, self.vec_rm(b)?);
                let to = self.vec_out(dst, 0)?;
                self.asm.ins(code, &[to.into(), x.into(), y])?;
                if negated {
                    self.invert(to, to)?;
                }
                self.vec_done(dst, to)
            }
        }
    }

    fn select(&mut self, dst: Reg, mask: Reg, a: Reg, b: Reg) -> Done {
        match self.isa {
            Isa::V3 => {
                let (no, yes) = (self.vec_in(b, 0)?, self.vec_rm(a)?);
                let mask = self.vec_in(mask, 1)?;
                let to = self.vec_out(dst, 0)?;
                let code = VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
                self.asm
                    .ins(code, &[to.into(), no.into(), yes, mask.into()])?;
                self.vec_done(dst, to)
            }
            Isa::V4 => {
                let (no, yes) = (self.vec_in(b, 0)?, self.vec_rm(a)?);
                let mask = self.mask_in(mask, 0)?;
                let to = self.vec_out(dst, 0)?;
                let code = EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32;
                self.asm.blended(code, mask, &[to.into(), no.into(), yes])?;
                self.vec_done(dst, to)
            }
        }
    }

    /// Halves are exchanged and joined until all lanes hold the same.
    fn reduce(&mut self, op: BinOp, dst: Reg, src: Reg) -> Done {
        let code = self.binary_code(op, self.func.ty(dst))?;
        let temp = self.temp(0)?;
        let to = self.vec_out(dst, 0)?;
        let mut from = self.vec_in(src, 0)?;
        let wide = EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8;
        let steps: &[(Code, i32)] = match self.isa {
            Isa::V3 => &[
                (VEX_Vperm2f128_ymm_ymm_ymmm256_imm8, 0x01),
                (VEX_Vshufps_ymm_ymm_ymmm256_imm8, 0x4E),
                (VEX_Vshufps_ymm_ymm_ymmm256_imm8, 0xB1),
            ],
            Isa::V4 => &[
                (wide, 0x4E),
                (wide, 0xB1),
                (EVEX_Vshufps_zmm_k1z_zmm_zmmm512b32_imm8, 0x4E),
                (EVEX_Vshufps_zmm_k1z_zmm_zmmm512b32_imm8, 0xB1),
            ],
        };
        for &(shuffle, how) in steps {
            self.asm.ins(
                shuffle,
                &[temp.into(), from.into(), from.into(), how.into()],
            )?;
            self.asm.ins(code, &[to.into(), from.into(), temp.into()])?;
            from = to;
        }
        self.vec_done(dst, to)
    }
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

fn float_predicate(op: CmpOp) -> i32 {
    match op {
        CmpOp::Eq => 0x00,
        CmpOp::Ne => 0x04,
        CmpOp::Lt => 0x11,
        CmpOp::Le => 0x12,
        CmpOp::Gt => 0x1E,
        CmpOp::Ge => 0x1D,
    }
}

fn int_predicate(op: CmpOp) -> i32 {
    match op {
        CmpOp::Eq => 0,
        CmpOp::Lt => 1,
        CmpOp::Le => 2,
        CmpOp::Ne => 4,
        CmpOp::Ge => 5,
        CmpOp::Gt => 6,
    }
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

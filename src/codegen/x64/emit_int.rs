//! Integers: arguments, copies, arithmetic, comparisons, addresses. rax is free between instructions; a value that
//! lives in memory passes through it.

use iced_x86::{Code, Code::*, MemoryOperand, Register};

use super::alloc::{Class, Loc};
use super::asm::{BadForm, Cond, Opnd};
use super::emit::{DIVISION_SLOTS, Done, Emitter, INTS, address};
use crate::codegen::kernel::vir::{CmpOp, IntOp, Mem, Reg, Src};

const RAX: Register = Register::RAX;

impl Emitter<'_> {
    /// An integer as the last operand of an instruction.
    pub(super) fn int_rm(&mut self, reg: Reg) -> Result<Opnd, BadForm> {
        match self.loc(reg) {
            Loc::Reg(n) => Ok(INTS[n as usize].into()),
            Loc::Slot(n) => Ok(self.slot(Class::Int, n).into()),
            Loc::Arg(slot) => Ok(address(Register::RDI, slot as i32 * 8).into()),
            Loc::Pool(_) | Loc::Nowhere => Err(BadForm(format!("no place for integer {}", reg.0))),
        }
    }

    /// An integer in its register, or in rax.
    pub(super) fn int_in(&mut self, reg: Reg) -> Result<Register, BadForm> {
        if let Loc::Reg(n) = self.loc(reg) {
            return Ok(INTS[n as usize]);
        }
        let from = self.int_rm(reg)?;
        self.asm.ins(Mov_r64_rm64, &[RAX.into(), from])?;
        Ok(RAX)
    }

    fn int_out(&self, reg: Reg) -> Register {
        match self.loc(reg) {
            Loc::Reg(n) => INTS[n as usize],
            _ => RAX,
        }
    }

    fn int_done(&mut self, reg: Reg, from: Register) -> Done {
        if let Loc::Slot(n) = self.loc(reg) {
            let slot = self.slot(Class::Int, n);
            self.asm.ins(Mov_rm64_r64, &[slot.into(), from.into()])?;
        }
        Ok(())
    }

    pub(super) fn arg(&mut self, dst: Reg, slot: u32) -> Done {
        match self.loc(dst) {
            Loc::Nowhere | Loc::Arg(_) => return Ok(()),
            Loc::Reg(_) | Loc::Slot(_) | Loc::Pool(_) => {}
        }
        let to = self.int_out(dst);
        let from = address(Register::RDI, slot as i32 * 8);
        self.asm.ins(Mov_r64_rm64, &[to.into(), from.into()])?;
        self.int_done(dst, to)
    }

    fn move_imm(&mut self, to: Register, imm: i64) -> Done {
        if let Ok(imm) = i32::try_from(imm) {
            self.asm.ins(Mov_rm64_imm32, &[to.into(), imm.into()])?;
        } else {
            self.asm.wide_imm(to, imm)?;
        }
        Ok(())
    }

    pub(super) fn set_int(&mut self, dst: Reg, src: Src) -> Done {
        if self.loc(dst) == Loc::Nowhere {
            return Ok(());
        }
        match src {
            Src::Imm(imm) => {
                let to = self.int_out(dst);
                self.move_imm(to, imm)?;
                self.int_done(dst, to)
            }
            Src::Reg(src) => {
                let to = self.int_out(dst);
                let from = self.int_rm(src)?;
                if !matches!(from, Opnd::Reg(from) if from == to) {
                    self.asm.ins(Mov_r64_rm64, &[to.into(), from])?;
                }
                self.int_done(dst, to)
            }
        }
    }

    pub(super) fn int(&mut self, op: IntOp, dst: Reg, a: Src, b: Src) -> Done {
        let commutes = matches!(op, IntOp::Add | IntOp::Mul | IntOp::Min | IntOp::Max);
        let (a, b) = match (a, b) {
            (Src::Imm(x), Src::Imm(y)) => return self.set_int(dst, Src::Imm(fold(op, x, y))),
            // Only a commutative operation may have its constant on the left for free.
            (Src::Imm(_), Src::Reg(_)) if commutes => (b, a),
            // What is about to be overwritten comes first.
            (Src::Reg(x), Src::Reg(y))
                if commutes && x != dst && (y == dst || self.same_place(y, dst)) =>
            {
                (b, a)
            }
            other => other,
        };
        match op {
            IntOp::Div | IntOp::Mod => return self.divide(op, dst, a, b),
            IntOp::Add => {
                if let (Src::Reg(x), Some(imm)) = (a, small(b)) {
                    return self.add_imm(dst, x, imm);
                }
            }
            IntOp::Sub => {
                if let (Src::Reg(x), Some(imm)) = (a, small(b).and_then(i32::checked_neg)) {
                    return self.add_imm(dst, x, imm);
                }
            }
            IntOp::Mul => {
                if let (Src::Reg(x), Some(imm)) = (a, small(b)) {
                    let (to, from) = (self.int_out(dst), self.int_rm(x)?);
                    if imm > 0 && imm & (imm - 1) == 0 {
                        if !matches!(from, Opnd::Reg(from) if from == to) {
                            self.asm.ins(Mov_r64_rm64, &[to.into(), from])?;
                        }
                        let by = imm.trailing_zeros() as i32;
                        self.asm.ins(Shl_rm64_imm8, &[to.into(), by.into()])?;
                        return self.int_done(dst, to);
                    }
                    self.asm
                        .ins(Imul_r64_rm64_imm32, &[to.into(), from, imm.into()])?;
                    return self.int_done(dst, to);
                }
            }
            IntOp::Min | IntOp::Max => {}
        }
        // The result may not overwrite the right operand before it is read: then it is made in rax.
        let clash = matches!(b, Src::Reg(y) if y == dst || self.same_place(y, dst));
        let to = if clash { RAX } else { self.int_out(dst) };
        match (a, b) {
            (Src::Reg(x), Src::Imm(imm)) if op != IntOp::Sub => {
                self.move_imm(RAX, imm)?;
                let other = self.int_rm(x)?;
                self.apply(op, RAX, other)?;
                if to != RAX {
                    self.asm.ins(Mov_r64_rm64, &[to.into(), RAX.into()])?;
                }
            }
            _ => {
                match a {
                    Src::Imm(imm) => self.move_imm(to, imm)?,
                    Src::Reg(x) => {
                        let from = self.int_rm(x)?;
                        if !matches!(from, Opnd::Reg(from) if from == to) {
                            self.asm.ins(Mov_r64_rm64, &[to.into(), from])?;
                        }
                    }
                }
                let other = match b {
                    Src::Reg(y) => self.int_rm(y)?,
                    Src::Imm(imm) => self.asm.literal(imm.to_le_bytes().to_vec()),
                };
                self.apply(op, to, other)?;
            }
        }
        if clash && let Loc::Reg(n) = self.loc(dst) {
            self.asm
                .ins(Mov_r64_rm64, &[INTS[n as usize].into(), RAX.into()])?;
        }
        self.int_done(dst, to)
    }

    fn same_place(&self, a: Reg, b: Reg) -> bool {
        self.loc(a) == self.loc(b) && matches!(self.loc(a), Loc::Reg(_))
    }

    /// `to = to op other`
    fn apply(&mut self, op: IntOp, to: Register, other: Opnd) -> Done {
        match op {
            IntOp::Add => self.asm.ins(Add_r64_rm64, &[to.into(), other])?,
            IntOp::Sub => self.asm.ins(Sub_r64_rm64, &[to.into(), other])?,
            IntOp::Mul => self.asm.ins(Imul_r64_rm64, &[to.into(), other])?,
            IntOp::Min => {
                self.asm.ins(Cmp_r64_rm64, &[to.into(), other])?;
                self.asm.ins(Cmovg_r64_rm64, &[to.into(), other])?;
            }
            IntOp::Max => {
                self.asm.ins(Cmp_r64_rm64, &[to.into(), other])?;
                self.asm.ins(Cmovl_r64_rm64, &[to.into(), other])?;
            }
            IntOp::Div | IntOp::Mod => {}
        }
        Ok(())
    }

    fn add_imm(&mut self, dst: Reg, src: Reg, imm: i32) -> Done {
        if dst == src || self.same_place(dst, src) {
            let place = self.int_rm(dst)?;
            let code = match i8::try_from(imm) {
                Ok(_) => Add_rm64_imm8,
                Err(_) => Add_rm64_imm32,
            };
            self.asm.ins(code, &[place, imm.into()])?;
            return Ok(());
        }
        let from = self.int_in(src)?;
        let to = self.int_out(dst);
        self.asm
            .ins(Lea_r64_m, &[to.into(), address(from, imm).into()])?;
        self.int_done(dst, to)
    }

    /// Floor division and its remainder; the processor's truncates.
    fn divide(&mut self, op: IntOp, dst: Reg, a: Src, b: Src) -> Done {
        if let (Src::Reg(x), Src::Imm(imm)) = (a, b)
            && imm > 0
            && imm & (imm - 1) == 0
            && imm < 1 << 31
        {
            let (to, from) = (self.int_out(dst), self.int_rm(x)?);
            if !matches!(from, Opnd::Reg(from) if from == to) {
                self.asm.ins(Mov_r64_rm64, &[to.into(), from])?;
            }
            if op == IntOp::Div {
                let by = imm.trailing_zeros() as i32;
                self.asm.ins(Sar_rm64_imm8, &[to.into(), by.into()])?;
            } else {
                self.asm
                    .ins(And_rm64_imm32, &[to.into(), ((imm - 1) as i32).into()])?;
            }
            return self.int_done(dst, to);
        }
        let rdx = Register::RDX;
        let slots: Vec<MemoryOperand> =
            (0..DIVISION_SLOTS).map(|n| self.division_slot(n)).collect();
        let (saved, divisor, quotient) = (slots[0], slots[1], slots[2]);
        let rax = Opnd::from(RAX);
        self.asm.ins(Mov_rm64_r64, &[saved.into(), rdx.into()])?;
        self.load_rax(b)?;
        self.asm.ins(Mov_rm64_r64, &[divisor.into(), rax])?;
        self.load_rax(a)?;
        self.asm.ins(Cqo, &[])?;
        self.asm.ins(Idiv_rm64, &[divisor.into()])?;
        self.asm.ins(Mov_rm64_r64, &[quotient.into(), rax])?;
        // A remainder of the other sign than the divisor's is one step off.
        let done = self.asm.label();
        self.asm.ins(Test_rm64_r64, &[rdx.into(), rdx.into()])?;
        self.asm.branch(Cond::Eq, done);
        self.asm.ins(Mov_r64_rm64, &[rax, rdx.into()])?;
        self.asm.ins(Xor_r64_rm64, &[rax, divisor.into()])?;
        self.asm.branch(Cond::NotSign, done);
        self.asm.ins(Add_r64_rm64, &[rdx.into(), divisor.into()])?;
        self.asm.ins(Dec_rm64, &[quotient.into()])?;
        self.asm.bind(done);
        if op == IntOp::Div {
            self.asm.ins(Mov_r64_rm64, &[rax, quotient.into()])?;
        } else {
            self.asm.ins(Mov_r64_rm64, &[rax, rdx.into()])?;
        }
        self.asm.ins(Mov_r64_rm64, &[rdx.into(), saved.into()])?;
        match self.loc(dst) {
            Loc::Reg(n) => self
                .asm
                .ins(Mov_r64_rm64, &[INTS[n as usize].into(), rax])?,
            _ => self.int_done(dst, RAX)?,
        }
        Ok(())
    }

    fn load_rax(&mut self, src: Src) -> Done {
        match src {
            Src::Imm(imm) => self.move_imm(RAX, imm),
            Src::Reg(reg) => {
                let from = self.int_rm(reg)?;
                self.asm.ins(Mov_r64_rm64, &[RAX.into(), from])
            }
        }
    }

    /// Sets the flags; gives the comparison to test, which is the mirrored one when the sides were exchanged.
    pub(super) fn compare_ints(&mut self, op: CmpOp, a: Src, b: Src) -> Result<CmpOp, BadForm> {
        let (op, a, b) = match (a, b) {
            (Src::Imm(_), Src::Reg(_)) => (mirror(op), b, a),
            _ => (op, a, b),
        };
        match (a, small(b)) {
            (Src::Reg(x), Some(imm)) => {
                let place = self.int_rm(x)?;
                let code: Code = match i8::try_from(imm) {
                    Ok(_) => Cmp_rm64_imm8,
                    Err(_) => Cmp_rm64_imm32,
                };
                self.asm.ins(code, &[place, imm.into()])?;
            }
            _ => {
                let other = match b {
                    Src::Reg(y) => self.int_rm(y)?,
                    Src::Imm(imm) => self.asm.literal(imm.to_le_bytes().to_vec()),
                };
                let x = match a {
                    Src::Reg(x) => self.int_in(x)?,
                    Src::Imm(imm) => {
                        self.move_imm(RAX, imm)?;
                        RAX
                    }
                };
                self.asm.ins(Cmp_r64_rm64, &[x.into(), other])?;
            }
        }
        Ok(op)
    }

    /// The machine form of an address, with `more` bytes added; may use rax.
    pub(super) fn address(&mut self, mem: &Mem, more: i32) -> Result<MemoryOperand, BadForm> {
        let disp = i64::from(mem.disp) + i64::from(more);
        let size = u32::from(disp != 0);
        let none = Register::None;
        let make = |base, index, scale| {
            MemoryOperand::new(base, index, scale, disp, size, false, Register::None)
        };
        let Some((index, scale)) = mem.index else {
            let base = self.int_in(mem.base)?;
            return Ok(make(base, none, 1));
        };
        let in_reg = |e: &Self, reg: Reg| matches!(e.loc(reg), Loc::Reg(_));
        if in_reg(self, mem.base) || in_reg(self, index) {
            let base = self.int_in(mem.base)?;
            let index = self.int_in(index)?;
            return Ok(make(base, index, u32::from(scale)));
        }
        let from = self.int_rm(index)?;
        self.asm.ins(
            Imul_r64_rm64_imm32,
            &[RAX.into(), from, i32::from(scale).into()],
        )?;
        let base = self.int_rm(mem.base)?;
        self.asm.ins(Add_r64_rm64, &[RAX.into(), base])?;
        Ok(make(RAX, none, 1))
    }
}

fn small(src: Src) -> Option<i32> {
    match src {
        Src::Imm(imm) => i32::try_from(imm).ok(),
        Src::Reg(_) => None,
    }
}

fn mirror(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Eq => CmpOp::Eq,
        CmpOp::Ne => CmpOp::Ne,
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
    }
}

fn fold(op: IntOp, a: i64, b: i64) -> i64 {
    match op {
        IntOp::Add => a.wrapping_add(b),
        IntOp::Sub => a.wrapping_sub(b),
        IntOp::Mul => a.wrapping_mul(b),
        IntOp::Min => a.min(b),
        IntOp::Max => a.max(b),
        IntOp::Div => {
            let quotient = a.wrapping_div(b);
            quotient - i64::from(a.wrapping_rem(b) != 0 && (a < 0) != (b < 0))
        }
        IntOp::Mod => {
            let rest = a.wrapping_rem(b);
            if rest != 0 && (rest < 0) != (b < 0) {
                rest + b
            } else {
                rest
            }
        }
    }
}

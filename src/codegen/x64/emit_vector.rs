//! Vector instructions: constants, arithmetic, comparisons, selection, reductions.
//!
//! Most take their last operand from memory, so a constant or a spilled value costs nothing there.

use iced_x86::{Code, Code::*, Register};

use super::alloc::Loc;
use super::asm::{BadForm, Opnd};
use super::emit::{Done, Emitter, Isa, low32, xmm};
use crate::codegen::kernel::vir::{BinOp, CmpOp, Reg, Ty, UnOp};

impl Emitter<'_> {
    pub(super) fn constant(&mut self, dst: Reg, bits: u32) -> Done {
        match self.loc(dst) {
            Loc::Nowhere | Loc::Pool(_) => return Ok(()),
            Loc::Reg(_) | Loc::Slot(_) | Loc::Arg(_) => {}
        }
        if self.is_k(dst) {
            let to = self.mask_out(dst, 0);
            self.constant_mask(to, bits)?;
            return self.mask_done(dst, to);
        }
        let to = self.vec_out(dst, 0);
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

    pub(super) fn iota(&mut self, dst: Reg) -> Done {
        let to = self.vec_out(dst, 0);
        let from = self.iota_literal();
        self.move_vec(to, from)?;
        self.vec_done(dst, to)
    }

    pub(super) fn iota_literal(&mut self) -> Opnd {
        let lanes = self.vec_bytes() / 4;
        self.asm
            .literal((0..lanes).flat_map(u32::to_le_bytes).collect())
    }

    pub(super) fn splat(&mut self, dst: Reg, src: Reg) -> Done {
        let from = low32(self.int_in(src)?);
        let to = self.vec_out(dst, 0);
        self.splat_int(to, from)?;
        self.vec_done(dst, to)
    }

    pub(super) fn splat_int(&mut self, to: Register, from: Register) -> Done {
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

    pub(super) fn lanes(&mut self, dst: Reg, count: Reg) -> Done {
        let from = low32(self.int_in(count)?);
        match self.isa {
            Isa::V3 => {
                let to = self.vec_out(dst, 0);
                self.splat_int(to, from)?;
                let iota = self.iota_literal();
                self.asm
                    .ins(VEX_Vpcmpgtd_ymm_ymm_ymmm256, &[to.into(), to.into(), iota])?;
                self.vec_done(dst, to)
            }
            Isa::V4 => {
                let to = self.mask_out(dst, 0);
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

    pub(super) fn unary(&mut self, op: UnOp, dst: Reg, a: Reg) -> Done {
        if self.is_k(dst) {
            let (to, from) = (self.mask_out(dst, 0), self.mask_in(a, 1)?);
            match op {
                UnOp::Not => self.asm.ins(VEX_Knotw_kr_kr, &[to.into(), from.into()])?,
                _ if to == from => {}
                _ => self
                    .asm
                    .ins(VEX_Korw_kr_kr_kr, &[to.into(), from.into(), from.into()])?,
            }
            return self.mask_done(dst, to);
        }
        let to = self.vec_out(dst, 0);
        let round = |e: &mut Self, mode: i32| -> Done {
            let code = e.pick(
                VEX_Vroundps_ymm_ymmm256_imm8,
                EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae,
            );
            let from = e.vec_rm(a)?;
            e.asm.ins(code, &[to.into(), from, (mode | 8).into()])
        };
        let plain = |e: &mut Self, v3: Code, v4: Code| -> Done {
            let (code, from) = (e.pick(v3, v4), e.vec_rm(a)?);
            e.asm.ins(code, &[to.into(), from])
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

    pub(super) fn invert(&mut self, to: Register, from: Register) -> Done {
        let ones = self.splat_literal(u32::MAX);
        let code = self.pick(
            VEX_Vpxor_ymm_ymm_ymmm256,
            EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
        );
        self.asm.ins(code, &[to.into(), from.into(), ones])?;
        Ok(())
    }

    pub(super) fn binary(&mut self, op: BinOp, dst: Reg, a: Reg, b: Reg) -> Done {
        if self.is_k(dst) {
            let code = match op {
                BinOp::And => VEX_Kandw_kr_kr_kr,
                BinOp::Or => VEX_Korw_kr_kr_kr,
                BinOp::Xor => VEX_Kxorw_kr_kr_kr,
                BinOp::AndNot => VEX_Kandnw_kr_kr_kr,
                _ => return Err(BadForm(format!("{op:?} of masks"))),
            };
            let (to, x, y) = (
                self.mask_out(dst, 0),
                self.mask_in(a, 0)?,
                self.mask_in(b, 1)?,
            );
            self.asm.ins(code, &[to.into(), x.into(), y.into()])?;
            return self.mask_done(dst, to);
        }
        let code = self.binary_code(op, self.func.ty(dst))?;
        let commutes = matches!(
            op,
            BinOp::Add | BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Xor | BinOp::Pairs
        );
        let in_reg = |e: &Self, reg: Reg| matches!(e.loc(reg), Loc::Reg(_));
        let (a, b) = if commutes && !in_reg(self, a) && in_reg(self, b) {
            (b, a)
        } else {
            (a, b)
        };
        let x = self.vec_in(a, 0)?;
        let y = self.vec_rm(b)?;
        let to = self.vec_out(dst, 0);
        self.asm.ins(code, &[to.into(), x.into(), y])?;
        self.vec_done(dst, to)
    }

    // tidy: table
    pub(super) fn binary_code(&self, op: BinOp, ty: Ty) -> Result<Code, BadForm> {
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
            (BinOp::Pairs, _) => self.pick(
                VEX_Vpmaddwd_ymm_ymm_ymmm256,
                EVEX_Vpmaddwd_zmm_k1z_zmm_zmmm512,
            ),
        })
    }

    /// The three orders of operands of the fused instructions let any source be overwritten and any be in memory.
    pub(super) fn fma(&mut self, neg: bool, dst: Reg, [a, b, c]: [Reg; 3]) -> Done {
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
        let to = self.vec_out(dst, 0);
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

    pub(super) fn compare(&mut self, op: CmpOp, dst: Reg, a: Reg, b: Reg) -> Done {
        let float = self.func.ty(a) == Ty::F32;
        match self.isa {
            Isa::V4 => {
                let (x, y) = (self.vec_in(a, 0)?, self.vec_rm(b)?);
                let to = self.mask_out(dst, 0);
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
                let to = self.vec_out(dst, 0);
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
                let to = self.vec_out(dst, 0);
                self.asm.ins(code, &[to.into(), x.into(), y])?;
                if negated {
                    self.invert(to, to)?;
                }
                self.vec_done(dst, to)
            }
        }
    }

    pub(super) fn select(&mut self, dst: Reg, mask: Reg, a: Reg, b: Reg) -> Done {
        match self.isa {
            Isa::V3 => {
                let (no, yes) = (self.vec_in(b, 0)?, self.vec_rm(a)?);
                let mask = self.vec_in(mask, 1)?;
                let to = self.vec_out(dst, 0);
                let code = VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
                self.asm
                    .ins(code, &[to.into(), no.into(), yes, mask.into()])?;
                self.vec_done(dst, to)
            }
            Isa::V4 => {
                let (no, yes) = (self.vec_in(b, 0)?, self.vec_rm(a)?);
                let mask = self.mask_in(mask, 0)?;
                let to = self.vec_out(dst, 0);
                let code = EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32;
                self.asm.blended(code, mask, &[to.into(), no.into(), yes])?;
                self.vec_done(dst, to)
            }
        }
    }

    /// Halves are exchanged and joined until all lanes hold the same.
    pub(super) fn reduce(&mut self, op: BinOp, dst: Reg, src: Reg) -> Done {
        let code = self.binary_code(op, self.func.ty(dst))?;
        let temp = self.temp(0)?;
        let to = self.vec_out(dst, 0);
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

//! Loads and stores: whole vectors, one element for all lanes, masked ones, and the conversions of narrow elements.
//!
//! AVX2 masks only elements of 32 bits. Narrower ones under a mask go one by one: they are in the tail of a row at
//! most once.

use iced_x86::{Code::*, MemoryOperand, Register};

use super::asm::{BadForm, Cond, Opnd};
use super::emit::{Done, Emitter, Isa, xmm, ymm};
use crate::codegen::kernel::vir::{Elem, Mem, Reg};

impl Emitter<'_> {
    pub(super) fn load(&mut self, dst: Reg, elem: Elem, mem: &Mem) -> Done {
        let to = self.vec_out(dst, 0);
        let from = self.address(mem, 0)?;
        self.widen(elem, to, from.into())?;
        self.vec_done(dst, to)
    }

    /// Narrow elements (of memory or the low part of a register) to lanes.
    fn widen(&mut self, elem: Elem, to: Register, from: Opnd) -> Done {
        let code = match elem {
            Elem::F32 | Elem::I32 => {
                self.pick(VEX_Vmovups_ymm_ymmm256, EVEX_Vmovups_zmm_k1z_zmmm512)
            }
            Elem::F16 => self.pick(
                VEX_Vcvtph2ps_ymm_xmmm128,
                EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae,
            ),
            Elem::I16 => self.pick(VEX_Vpmovsxwd_ymm_xmmm128, EVEX_Vpmovsxwd_zmm_k1z_ymmm256),
            Elem::I8 => self.pick(VEX_Vpmovsxbd_ymm_xmmm64, EVEX_Vpmovsxbd_zmm_k1z_xmmm128),
            Elem::I8Pair => self.pick(VEX_Vpmovsxbw_ymm_xmmm128, EVEX_Vpmovsxbw_zmm_k1z_ymmm256),
            Elem::U8 => self.pick(VEX_Vpmovzxbd_ymm_xmmm64, EVEX_Vpmovzxbd_zmm_k1z_xmmm128),
        };
        self.asm.ins(code, &[to.into(), from])?;
        Ok(())
    }

    pub(super) fn load_masked(&mut self, dst: Reg, elem: Elem, mem: &Mem, mask: Reg) -> Done {
        if self.isa == Isa::V4 {
            let (to, mask) = (self.vec_out(dst, 0), self.mask_in(mask, 0)?);
            let from = self.address(mem, 0)?;
            if elem == Elem::I8Pair {
                // Its mask would count halves of lanes: the bytes are loaded as words first.
                let words = ymm(self.temp(0)?);
                let code = EVEX_Vmovdqu16_ymm_k1z_ymmm256;
                self.asm.masked(code, mask, &[words.into(), from.into()])?;
                self.widen(elem, to, words.into())?;
                return self.vec_done(dst, to);
            }
            let code = match elem {
                Elem::F32 | Elem::I32 => EVEX_Vmovups_zmm_k1z_zmmm512,
                Elem::F16 => EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae,
                Elem::I16 | Elem::I8Pair => EVEX_Vpmovsxwd_zmm_k1z_ymmm256,
                Elem::I8 => EVEX_Vpmovsxbd_zmm_k1z_xmmm128,
                Elem::U8 => EVEX_Vpmovzxbd_zmm_k1z_xmmm128,
            };
            self.asm.masked(code, mask, &[to.into(), from.into()])?;
            return self.vec_done(dst, to);
        }
        let mask = self.vec_in(mask, 1)?;
        let to = self.vec_out(dst, 0);
        if elem.bytes() == 4 {
            let from = self.address(mem, 0)?;
            self.asm.ins(
                VEX_Vmaskmovps_ymm_ymm_m256,
                &[to.into(), mask.into(), from.into()],
            )?;
            return self.vec_done(dst, to);
        }
        let low = xmm(to);
        let code = match elem.bytes() {
            1 => VEX_Vpinsrb_xmm_xmm_r32m8_imm8,
            _ => VEX_Vpinsrw_xmm_xmm_r32m16_imm8,
        };
        self.each_lane(
            mask,
            mem,
            elem,
            |e, lane, from| {
                e.asm
                    .ins(code, &[low.into(), low.into(), from.into(), lane.into()])
            },
            Some(low),
        )?;
        self.widen(elem, to, low.into())?;
        self.vec_done(dst, to)
    }

    /// Runs `f` for every lane of an AVX2 mask, with the address of its element; `clear` is zeroed first.
    fn each_lane(
        &mut self,
        mask: Register,
        mem: &Mem,
        elem: Elem,
        f: impl Fn(&mut Self, i32, MemoryOperand) -> Done,
        clear: Option<Register>,
    ) -> Done {
        // The address moves to rdi, for rax takes the bits of the mask.
        let (rax, rdi) = (Register::RAX, Register::RDI);
        let from = self.address(mem, 0)?;
        self.asm.ins(Lea_r64_m, &[rax.into(), from.into()])?;
        self.asm.ins(Push_r64, &[rdi.into()])?;
        self.asm.ins(Mov_r64_rm64, &[rdi.into(), rax.into()])?;
        self.asm
            .ins(VEX_Vmovmskps_r32_ymm, &[Register::EAX.into(), mask.into()])?;
        if let Some(reg) = clear {
            self.asm.ins(
                VEX_Vpxor_xmm_xmm_xmmm128,
                &[reg.into(), reg.into(), reg.into()],
            )?;
        }
        for lane in 0..8 {
            let skip = self.asm.label();
            self.asm
                .ins(Bt_rm32_imm8, &[Register::EAX.into(), lane.into()])?;
            self.asm.branch(Cond::NotCarry, skip);
            f(
                self,
                lane,
                super::emit::address(rdi, lane * elem.bytes() as i32),
            )?;
            self.asm.bind(skip);
        }
        self.asm.ins(Pop_r64, &[rdi.into()])?;
        Ok(())
    }

    pub(super) fn broadcast(&mut self, dst: Reg, elem: Elem, mem: &Mem) -> Done {
        let to = self.vec_out(dst, 0);
        let from = Opnd::from(self.address(mem, 0)?);
        match elem {
            Elem::F32 | Elem::I32 => {
                let code = self.pick(VEX_Vbroadcastss_ymm_m32, EVEX_Vbroadcastss_zmm_k1z_xmmm32);
                self.asm.ins(code, &[to.into(), from])?;
            }
            Elem::F16 | Elem::I16 | Elem::I8Pair => {
                let code = self.pick(
                    VEX_Vpbroadcastw_xmm_xmmm16,
                    EVEX_Vpbroadcastw_zmm_k1z_xmmm16,
                );
                let low = if self.isa == Isa::V3 { xmm(to) } else { to };
                self.asm.ins(code, &[low.into(), from])?;
                let half = if self.isa == Isa::V3 {
                    xmm(to)
                } else {
                    ymm(to)
                };
                self.widen(elem, to, half.into())?;
            }
            Elem::I8 | Elem::U8 => {
                let code = self.pick(VEX_Vpbroadcastb_xmm_xmmm8, EVEX_Vpbroadcastb_zmm_k1z_xmmm8);
                let low = if self.isa == Isa::V3 { xmm(to) } else { to };
                self.asm.ins(code, &[low.into(), from])?;
                self.widen(elem, to, xmm(to).into())?;
            }
        }
        self.vec_done(dst, to)
    }

    /// To half and back.
    pub(super) fn round_half(&mut self, to: Register, from: Register) -> Done {
        let (code, half) = match self.isa {
            Isa::V3 => (VEX_Vcvtps2ph_xmmm128_ymm_imm8, xmm(to)),
            Isa::V4 => (EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae, ymm(to)),
        };
        self.asm.ins(code, &[half.into(), from.into(), 0.into()])?;
        self.widen(Elem::F16, to, half.into())
    }

    pub(super) fn store(&mut self, elem: Elem, mem: &Mem, src: Reg) -> Done {
        let from = self.vec_in(src, 0)?;
        match elem {
            Elem::F32 | Elem::I32 => {
                let to = self.address(mem, 0)?;
                let code = self.pick(VEX_Vmovups_ymmm256_ymm, EVEX_Vmovups_zmmm512_k1z_zmm);
                self.asm.ins(code, &[to.into(), from.into()])?;
            }
            Elem::F16 => {
                let to = self.address(mem, 0)?;
                let code = self.pick(
                    VEX_Vcvtps2ph_xmmm128_ymm_imm8,
                    EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae,
                );
                self.asm.ins(code, &[to.into(), from.into(), 0.into()])?;
            }
            Elem::I8 | Elem::U8 | Elem::I16 if self.isa == Isa::V4 => {
                let code = match elem {
                    Elem::I16 => EVEX_Vpmovdw_ymmm256_k1z_zmm,
                    _ => EVEX_Vpmovdb_xmmm128_k1z_zmm,
                };
                let to = self.address(mem, 0)?;
                self.asm.ins(code, &[to.into(), from.into()])?;
            }
            Elem::I8 | Elem::U8 | Elem::I16 => {
                let packed = self.pack_low(from, elem)?;
                let to = self.address(mem, 0)?;
                let code = match elem {
                    Elem::I16 => VEX_Vmovups_xmmm128_xmm,
                    _ => VEX_Vmovq_xmmm64_xmm,
                };
                self.asm.ins(code, &[to.into(), packed.into()])?;
            }
            Elem::I8Pair => return Err(no_store(elem)),
        }
        Ok(())
    }

    /// The low bytes of eight lanes, as many as an element has, from the beginning of an xmm register on.
    fn pack_low(&mut self, from: Register, elem: Elem) -> Result<Register, BadForm> {
        let (low, high) = (self.temp(0)?, self.temp(1)?);
        let size = elem.bytes() as usize;
        let mut order = vec![0x80u8; 32];
        for half in order.chunks_mut(16) {
            for (at, from) in half[..4 * size].iter_mut().enumerate() {
                *from = (at / size * 4 + at % size) as u8;
            }
        }
        let order = self.asm.literal(order);
        self.asm.ins(
            VEX_Vpshufb_ymm_ymm_ymmm256,
            &[low.into(), from.into(), order],
        )?;
        let (low_half, high_half) = (xmm(low), xmm(high));
        self.asm.ins(
            VEX_Vextracti128_xmmm128_ymm_imm8,
            &[high_half.into(), low.into(), 1.into()],
        )?;
        let join = match elem {
            Elem::I16 => VEX_Vpunpcklqdq_xmm_xmm_xmmm128,
            _ => VEX_Vpunpckldq_xmm_xmm_xmmm128,
        };
        self.asm
            .ins(join, &[low_half.into(), low_half.into(), high_half.into()])?;
        Ok(low_half)
    }

    pub(super) fn store_masked(&mut self, elem: Elem, mem: &Mem, src: Reg, mask: Reg) -> Done {
        let from = self.vec_in(src, 0)?;
        if self.isa == Isa::V4 {
            let mask = self.mask_in(mask, 0)?;
            let to = self.address(mem, 0)?;
            match elem {
                Elem::F32 | Elem::I32 => {
                    let code = EVEX_Vmovups_zmmm512_k1z_zmm;
                    self.asm.masked(code, mask, &[to.into(), from.into()])?;
                }
                Elem::F16 => {
                    let code = EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae;
                    self.asm
                        .masked(code, mask, &[to.into(), from.into(), 0.into()])?;
                }
                Elem::I16 => {
                    let code = EVEX_Vpmovdw_ymmm256_k1z_zmm;
                    self.asm.masked(code, mask, &[to.into(), from.into()])?;
                }
                Elem::I8 | Elem::U8 => {
                    let code = EVEX_Vpmovdb_xmmm128_k1z_zmm;
                    self.asm.masked(code, mask, &[to.into(), from.into()])?;
                }
                Elem::I8Pair => return Err(no_store(elem)),
            }
            return Ok(());
        }
        let mask = self.vec_in(mask, 1)?;
        match elem {
            Elem::F32 | Elem::I32 => {
                let to = self.address(mem, 0)?;
                let ops = [to.into(), mask.into(), from.into()];
                self.asm.ins(VEX_Vmaskmovps_m256_ymm_ymm, &ops)?;
                Ok(())
            }
            Elem::F16 => {
                let half = xmm(self.temp(0)?);
                let ops = [half.into(), from.into(), 0.into()];
                self.asm.ins(VEX_Vcvtps2ph_xmmm128_ymm_imm8, &ops)?;
                self.each_lane(
                    mask,
                    mem,
                    elem,
                    |e, lane, to| {
                        let code = VEX_Vpextrw_r32m16_xmm_imm8;
                        e.asm.ins(code, &[to.into(), half.into(), lane.into()])
                    },
                    None,
                )
            }
            Elem::I8 | Elem::U8 | Elem::I16 => {
                let packed = self.pack_low(from, elem)?;
                let code = match elem {
                    Elem::I16 => VEX_Vpextrw_r32m16_xmm_imm8,
                    _ => VEX_Vpextrb_r32m8_xmm_imm8,
                };
                self.each_lane(
                    mask,
                    mem,
                    elem,
                    |e, lane, to| e.asm.ins(code, &[to.into(), packed.into(), lane.into()]),
                    None,
                )
            }
            Elem::I8Pair => Err(no_store(elem)),
        }
    }

    pub(super) fn prefetch(&mut self, mem: &Mem) -> Done {
        let at = Opnd::from(self.address(mem, 0)?);
        self.asm.ins(Prefetcht0_m8, &[at])?;
        Ok(())
    }

    pub(super) fn store_one(&mut self, elem: Elem, mem: &Mem, src: Reg) -> Done {
        let from = self.vec_in(src, 0)?;
        let to = Opnd::from(self.address(mem, 0)?);
        match elem {
            Elem::F32 | Elem::I32 => {
                let code = self.pick(VEX_Vmovss_m32_xmm, EVEX_Vmovss_m32_k1_xmm);
                self.asm.ins(code, &[to, xmm(from).into()])?;
            }
            Elem::F16 => {
                let half = xmm(self.temp(0)?);
                let code = self.pick(
                    VEX_Vcvtps2ph_xmmm64_xmm_imm8,
                    EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8,
                );
                self.asm
                    .ins(code, &[half.into(), xmm(from).into(), 0.into()])?;
                let code = self.pick(VEX_Vpextrw_r32m16_xmm_imm8, EVEX_Vpextrw_r32m16_xmm_imm8);
                self.asm.ins(code, &[to, half.into(), 0.into()])?;
            }
            Elem::I16 => {
                let code = self.pick(VEX_Vpextrw_r32m16_xmm_imm8, EVEX_Vpextrw_r32m16_xmm_imm8);
                self.asm.ins(code, &[to, xmm(from).into(), 0.into()])?;
            }
            Elem::I8 | Elem::U8 => {
                let code = self.pick(VEX_Vpextrb_r32m8_xmm_imm8, EVEX_Vpextrb_r32m8_xmm_imm8);
                self.asm.ins(code, &[to, xmm(from).into(), 0.into()])?;
            }
            Elem::I8Pair => return Err(no_store(elem)),
        }
        Ok(())
    }
}

/// Pairs are loaded only.
fn no_store(elem: Elem) -> BadForm {
    BadForm(format!("a store of {elem:?}"))
}

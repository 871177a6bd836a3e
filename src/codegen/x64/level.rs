//! Which instruction sets the machine that code runs on has.
//!
//! The answer is a level of the x86-64 psABI, and the instructions asked for are those of `Cpu`: the microarchitecture has
//! them (`cpuid`), and the system keeps their registers (`xgetbv`; Intel SDM volume 1, sections 13.2 and 15.2).

use iced_x86::Code::{self, *};
use iced_x86::Register::{self, *};

use super::asm::{Asm, BadForm, Cond, Label};

/// Leaf 1, register C: SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT.
const V2: u32 = 1 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23;
/// Leaf 1, register C: FMA, OSXSAVE, AVX, F16C.
const V3: u32 = 1 << 12 | 1 << 27 | 1 << 28 | 1 << 29;
/// Leaf 7, register B: BMI1, AVX2, BMI2.
const V3_MORE: u32 = 1 << 3 | 1 << 5 | 1 << 8;
/// Leaf 7, register B: AVX-512 F, DQ, CD, BW, VL.
const V4: u32 = 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31;
/// What the system keeps for AVX: lower and upper halves of vectors.
const KEPT_V3: u32 = 0b110;
/// What it keeps for AVX-512: masks and the rest of the vectors beside those.
const KEPT_V4: u32 = 0b1110_0110;

/// The code of `extern "C" fn(level: *mut u64)`: 1 for the baseline, 2 to 4 for x86-64-v2 to x86-64-v4.
pub fn level() -> Option<Vec<u8>> {
    let mut asm = Asm::new();
    emit(&mut asm).ok()?;
    Some(asm.finish().0)
}

fn emit(asm: &mut Asm) -> Result<(), BadForm> {
    let done = asm.label();
    // `cpuid` writes A to D; B belongs to the caller.
    asm.ins(Push_r64, &[RBX.into()])?;
    set(asm, R9D, 1)?;
    leaf(asm, 0)?;
    copy(asm, R10D, EAX)?;
    leaf(asm, 1)?;
    copy(asm, R11D, ECX)?;
    unless_all(asm, R11D, V2, done)?;
    set(asm, R9D, 2)?;
    unless_all(asm, R11D, V3, done)?;
    asm.ins(Cmp_rm32_imm32, &[R10D.into(), 7.into()])?;
    asm.branch(Cond::Lt, done);
    set(asm, ECX, 0)?;
    asm.ins(Xgetbv, &[])?;
    copy(asm, R10D, EAX)?;
    unless_all(asm, R10D, KEPT_V3, done)?;
    leaf(asm, 7)?;
    unless_all(asm, EBX, V3_MORE, done)?;
    set(asm, R9D, 3)?;
    unless_all(asm, EBX, V4, done)?;
    unless_all(asm, R10D, KEPT_V4, done)?;
    set(asm, R9D, 4)?;
    asm.bind(done);
    let to = iced_x86::MemoryOperand::with_base(RDI);
    asm.ins(Mov_rm64_r64, &[to.into(), R9.into()])?;
    asm.ins(Pop_r64, &[RBX.into()])?;
    asm.ins(Retnq, &[])
}

/// `cpuid` of a leaf, its first part.
fn leaf(asm: &mut Asm, leaf: u32) -> Result<(), BadForm> {
    set(asm, EAX, leaf)?;
    set(asm, ECX, 0)?;
    asm.ins(Cpuid, &[])
}

fn set(asm: &mut Asm, to: Register, value: u32) -> Result<(), BadForm> {
    asm.ins(Mov_r32_imm32, &[to.into(), (value as i32).into()])
}

fn copy(asm: &mut Asm, to: Register, from: Register) -> Result<(), BadForm> {
    asm.ins(Mov_r32_rm32, &[to.into(), from.into()])
}

/// Leaves for `done` unless all of some bits are set.
fn unless_all(asm: &mut Asm, of: Register, bits: u32, done: Label) -> Result<(), BadForm> {
    copy(asm, EAX, of)?;
    let both: [Code; 2] = [And_rm32_imm32, Cmp_rm32_imm32];
    for code in both {
        asm.ins(code, &[EAX.into(), (bits as i32).into()])?;
    }
    asm.branch(Cond::Ne, done);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::exec::Loaded;
    use super::level;
    use crate::target::{Cpu, Target};

    #[test]
    fn the_level_is_that_of_the_compiler() {
        let code = level().expect("known forms");
        let mut found = 0_u64;
        // The function writes where its argument points.
        Loaded::new(&code).call_at(&mut found);
        let want = match Target::native().cpu {
            Cpu::Portable => 1,
            Cpu::V2 => 2,
            Cpu::V3 => 3,
            Cpu::V4 => 4,
        };
        assert_eq!(found, want);
    }
}

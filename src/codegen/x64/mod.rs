//! x86-64: a function of vector IR in, raw machine code out.
//!
//! `alloc` places registers, `emit` chooses instructions (AVX2 and FMA, or AVX-512 with mask registers), `asm` encodes
//! them. The code is `extern "C" fn(*const u64)`, keeps callee-saved registers, leaves the upper halves of vectors
//! clean, ends in its literals, and is to be placed at a multiple of 64.

mod alloc;
mod asm;
mod emit;
mod emit_int;
mod emit_memory;
mod emit_vector;
#[cfg(test)]
mod emulate;
#[cfg(test)]
mod exec;
mod level;
mod reload;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_math;
#[cfg(test)]
mod tests_pairs;
#[cfg(test)]
mod tests_regions;

use crate::codegen::Cpu;
use crate::codegen::kernel::vir::Func;

pub(crate) use emit::{Emitted, Isa};
pub use level::level;

/// Lanes of 32 bits in a vector of an instruction set; `None` when it is not one for this emitter.
pub fn lanes(cpu: Cpu) -> Option<u8> {
    match cpu {
        Cpu::Portable | Cpu::V2 => None,
        Cpu::V3 => Some(8),
        Cpu::V4 => Some(16),
    }
}

/// The code of a function for an instruction set whose vectors have its number of lanes.
pub fn compile(func: &Func, cpu: Cpu) -> Option<Emitted> {
    let isa = match cpu {
        Cpu::Portable | Cpu::V2 => return None,
        Cpu::V3 => Isa::V3,
        Cpu::V4 => Isa::V4,
    };
    emit::emit(func, isa)
}

//! The machine that the library is loaded on: what it was built for must be there, and wider kernels are taken where
//! their instructions are.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_module::Linkage;
use irc_syntax::Diagnostic;

use super::emit::Emit;
use super::error::raise;
use super::{state, state_addr};
use crate::codegen::kernel::Kernel;
use crate::codegen::{Assembler, x64};

/// The function that asks the machine.
const ASK: &str = "irc_level";

/// Defines the functions of this file.
pub fn define(asm: &mut Assembler) -> Result<(), Diagnostic> {
    let Some(code) = x64::level().filter(|_| asm.is_x86()) else {
        return Ok(());
    };
    let id = asm.declare(ASK, Linkage::Local, &[I64], &[])?;
    asm.define_raw(
        id,
        &Kernel {
            code,
            ..Kernel::default()
        },
    )
}

/// Asks the machine, once.
pub fn emit_load(f: &mut Emit<'_>) {
    if f.is_x86() {
        let state = state_addr(f);
        let level = f.offset(state, i64::from(state::LEVEL));
        f.call_void(ASK, &[level]);
    }
}

/// Leaves with an error where the machine lacks what the library was built for.
pub fn require(f: &mut Emit<'_>) {
    let cpu = f.cpu();
    if !f.is_x86() || cpu.level() <= 1 {
        return;
    }
    let state = state_addr(f);
    let level = f.load(state, state::LEVEL);
    let lacks = f.cmp_int(IntCC::SignedLessThan, level, cpu.level());
    f.if_(lacks, |f| {
        let text = format!(
            "this library was built for {0}, and this machine has not all of its instructions: build it with \
             `--cpu` of what the machine has",
            cpu.name()
        );
        raise(f, "RuntimeError", &text);
        f.ret_status(-1);
    });
}

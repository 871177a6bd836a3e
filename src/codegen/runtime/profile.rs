//! What a library built for profiles has beside: a hook that is called before and after every kernel.
//!
//! `net_profile(hook)` sets it, 0 takes it away. The hook is
//! `fn(kernel: *const char, place: *const char, symbols: *const char, sizes: *const i64, phase: i64)`: the prim_func, the
//! function and the tensor that it computes, the names of its symbols separated by commas, their values, and 0 before,
//! 1 after. A call that fails has no second phase.

use cranelift_codegen::ir::types::I64;
use cranelift_module::{DataDescription, Linkage};
use irc_syntax::Diagnostic;

use super::emit::{Emit, define as func};
use crate::codegen::Assembler;

/// Defines the hook's place and the functions that set and call it.
///
/// # Errors
/// A name of the runtime is used for something else.
pub fn define(asm: &mut Assembler) -> Result<(), Diagnostic> {
    let id = asm.declare_data("irc_profile_hook", Linkage::Local, true)?;
    let mut data = DataDescription::new();
    data.define_zeroinit(8);
    data.set_align(8);
    asm.define_data(id, &data)?;
    let place = |f: &mut Emit<'_>| f.data("irc_profile_hook", Linkage::Local);
    func(asm, "net_profile", Linkage::Export, &[I64], &[], |f| {
        let (place, hook) = (place(f), f.param(0));
        f.store(hook, place, 0);
        f.ret(&[]);
    })?;
    func(asm, "irc_profile", Linkage::Local, &[I64; 5], &[], |f| {
        let place = place(f);
        let hook = f.load(place, 0);
        let is_set = f.is_set(hook);
        f.if_(is_set, |f| {
            let args: Vec<_> = (0..5).map(|at| f.param(at)).collect();
            f.call_addr(hook, &args, &[]);
        });
        f.ret(&[]);
    })
}

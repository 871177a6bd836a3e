//! The runtime that every shared object carries: errors, memory, threads, results, weights beside the library.
//!
//! All of it is written with [`emit`] as Cranelift IR, so it is compiled with the rest, for the same target, and
//! needs nothing but the C library. The symbols and what they promise are in ARCHITECTURE.md, "Calling convention
//! inside the object". State that threads share is one page that a forked child gets zeroed: a child starts its own pool.

pub mod emit;
pub mod error;
pub mod level;
mod memory;
mod nested;
pub mod object;
mod params;
mod pool;
pub mod profile;
mod result;
mod string;

pub use params::{PARAMS_HEADER_BYTES, PARAMS_MAGIC};
pub use result::{ARRAY_TYPE, TENSOR_BODY, TENSOR_TYPE};
pub use string::STRING_WORD;

use cranelift_module::{DataDescription, Linkage};
use irc_syntax::Diagnostic;

use super::Assembler;

/// Offsets in `irc_state`, the writable data of the runtime.
pub mod state {
    /// The page of the thread pool; null when it could not be had.
    pub const POOL: i32 = 0;
    /// The key of the thread's error slot.
    pub const KEY: i32 = 8;
    /// Whether the key is valid.
    pub const HAS_KEY: i32 = 16;
    /// Held while weights are being mapped.
    pub const MAPPING: i32 = 24;
    /// The level of the machine, see `x64::level`; 0 where it is no x86-64.
    pub const LEVEL: i32 = 32;
    /// Where `irc_output` points for results without elements.
    pub const NOTHING: i32 = 64;
    /// The first of [`SPARE_SLOTS`] spare workspaces.
    pub const SPARE: i32 = 128;
    /// The first of [`SPARE_SLOTS`] spare buffers of tasks.
    pub const SCRATCH: i32 = SPARE + 8 * SPARE_SLOTS as i32;
    /// The error slot of threads that could not get one.
    pub const SHARED_SLOT: i32 = SCRATCH + 8 * SPARE_SLOTS as i32;
    /// How many workspaces wait for the next call, and how many buffers for the next task.
    pub const SPARE_SLOTS: i64 = 16;
    /// All of it.
    pub const BYTES: usize = SHARED_SLOT as usize + super::error::SLOT_BYTES;
}

/// Offsets in the record of one call, which begins the frame that an entry hands to `irc_call`.
pub mod call {
    /// The block of its workspace.
    pub const WORKSPACE: i32 = 0;
    /// The list of blocks that end with it.
    pub const BLOCKS: i32 = 8;
    /// The description of the function, see `entry`.
    pub const FUNC: i32 = 16;
    /// One slot a result: the caller's `DLTensor`, then the object made for it.
    pub const OUTS: i32 = 24;
    /// All of it.
    pub const BYTES: i32 = 32;
    /// Bytes of one slot of a result.
    pub const OUT_BYTES: i64 = 16;
}

/// More bytes than any machine has; sizes above are refused before they can overflow.
pub const MAX_BYTES: i64 = 1 << 47;

/// Defines the runtime in an object.
///
/// # Errors
/// A name of the runtime is used for something else.
pub fn define(asm: &mut Assembler) -> Result<(), Diagnostic> {
    let id = asm.declare_data("irc_state", Linkage::Local, true)?;
    let mut data = DataDescription::new();
    data.define_zeroinit(state::BYTES);
    data.set_align(64);
    asm.define_data(id, &data)?;
    level::define(asm)?;
    error::define(asm)?;
    memory::define(asm)?;
    object::define(asm)?;
    pool::define(asm)?;
    result::define(asm)?;
    string::define(asm)?;
    nested::define(asm)?;
    params::define(asm)?;
    define_lifetime(asm)
}

/// What runs when the library is loaded and unloaded.
fn define_lifetime(asm: &mut Assembler) -> Result<(), Diagnostic> {
    emit::define(asm, "irc_load", Linkage::Local, &[], &[], |f| {
        level::emit_load(f);
        error::emit_load(f);
        pool::emit_load(f);
    })?;
    emit::define(asm, "irc_unload", Linkage::Local, &[], &[], |f| {
        f.call_void("irc_pool_stop", &[]);
        memory::emit_unload(f);
        error::emit_unload(f);
    })?;
    for (section, func) in [(".init_array", "irc_load"), (".fini_array", "irc_unload")] {
        let id = asm.declare_data(&format!("irc{section}"), Linkage::Local, true)?;
        let func = asm.declare(func, Linkage::Local, &[], &[])?;
        let mut data = DataDescription::new();
        data.define(vec![0; 8].into_boxed_slice());
        data.custom_section = Some(section.to_owned());
        data.set_align(8);
        let func = asm.func_in_data(func, &mut data);
        data.write_function_addr(0, func);
        asm.define_data(id, &data)?;
    }
    Ok(())
}

/// The address of the runtime's state.
fn state_addr(f: &mut emit::Emit<'_>) -> cranelift_codegen::ir::Value {
    f.data("irc_state", Linkage::Local)
}

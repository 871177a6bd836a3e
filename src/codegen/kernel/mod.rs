//! Kernel regions: marked loop nests in, raw machine code at full vector width out.
//!
//! [`compile`] takes the statements of a region (ARCHITECTURE.md, "Scheduled form") and gives one function
//! `fn(*const u64)` with the list of what the caller has to put into the array. `lower` makes the vector IR of `vir`
//! with the functions of `math`; `x64` makes bytes of it. A region that is not understood is refused as a whole.

pub mod affine;
mod lower;
pub mod math;
mod unused;
pub mod vir;
pub mod vir_text;

use std::collections::BTreeMap;
use std::sync::Arc;

use irc_syntax::{DType, Expr, Name, Stmt};

use crate::codegen::debug::{FrameStep, Lines};
use crate::codegen::{Cpu, x64};

/// A buffer that a region reads or writes.
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// Element type.
    pub dtype: DType,
    /// Extents, over integers in scope.
    pub shape: Vec<Expr>,
    /// Strides in elements; row-major when `None`.
    pub strides: Option<Vec<Expr>>,
}

/// What is in scope around a region.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// Buffers by name; register arrays allocated inside the region are not among them.
    pub buffers: BTreeMap<Name, Buffer>,
    /// Scalars by name: symbolic dims, variables of outer loops, scalar parameters.
    pub scalars: BTreeMap<Name, DType>,
    /// The lines that statements stand at.
    pub lines: Arc<Lines>,
}

/// One element of the array that a kernel is called with.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KernelArg {
    /// The address of a buffer's first element.
    Buffer(Name),
    /// An integer or bool, sign- or zero-extended to 64 bits.
    Int(Name),
    /// A float32, its bits in the low half.
    Float(Name),
}

/// A compiled region.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Kernel {
    /// The function `extern "C" fn(*const u64)`, constants included; position independent, to be placed at 64 bytes.
    pub code: Vec<u8>,
    /// Offsets from which on the code comes from a line, in order.
    pub rows: Vec<(u32, u32)>,
    /// What the code does to its frame, by the offset behind the instruction.
    pub frame: Vec<(u32, FrameStep)>,
    /// What its array holds, in order.
    pub args: Vec<KernelArg>,
}

/// The code of a region.
///
/// # Errors
/// Why the region is not one for this emitter.
pub fn compile(region: &[Stmt], env: &Env, cpu: Cpu) -> Result<Kernel, String> {
    let lanes = x64::lanes(cpu).ok_or("the instruction set has vectors of 128 bits only")?;
    let (func, args) = lower(region, env, lanes)?;
    let code = x64::compile(&func, cpu).ok_or("it needs more registers than there are")?;
    Ok(Kernel {
        code: code.bytes,
        rows: code.rows,
        frame: code.frame,
        args,
    })
}

/// The vector IR of a region for a number of lanes, and its arguments.
///
/// # Errors
/// The part of the text that is not for the emitter.
pub fn lower(region: &[Stmt], env: &Env, lanes: u8) -> Result<(vir::Func, Vec<KernelArg>), String> {
    lower::lower(region, env, lanes).map_err(|part| format!("{part} is not for the vector emitter"))
}

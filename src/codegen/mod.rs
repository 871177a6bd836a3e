//! Machine code: a planned module in, one relocatable ELF object out.
//!
//! `host` lowers graph functions and `loops` prim_funcs to Cranelift; `kernel` lowers marked regions to the vector
//! IR of `x64`; `runtime` and `entry` define what the object needs around them; `object` assembles all of it. The
//! calling convention is in ARCHITECTURE.md. The same input gives the same bytes: functions are compiled in parallel
//! and defined in the order of the module.

mod arith;
mod call;
mod cast;
pub mod debug;
pub mod entry;
mod expr;
mod extern_call;
mod host;
mod index;
pub mod kernel;
mod loops;
mod lower;
mod math;
mod object;
pub mod runtime;
mod string;
pub mod x64;

pub use object::{Assembled, Assembler, Region};

pub use crate::target::{Cpu, PROFILE, Target};

use std::collections::BTreeMap;

use cranelift_module::{DataDescription, Linkage};
use irc_syntax::{Diagnostic, FuncKind, Module};

use crate::check::Info;
use crate::tensor::Weight;

/// The section of an object that holds its manifest.
pub const MANIFEST_SECTION: &str = ".irc.manifest";

/// The weights of a module, by the name of the parameter.
pub use crate::tensor::Weights;

/// A compiled module.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// The ELF relocatable object, without the bytes of weights.
    pub bytes: Vec<u8>,
    /// The tensors that entries of the table `irc_weights` point to, in order; the linker places their bytes.
    pub weights: Vec<Weight>,
    /// Their names.
    pub weight_names: Vec<String>,
    /// The C header and the manifest.
    pub interface: entry::Interface,
    /// The regions marked for the kernel emitter, and which of them it refused.
    pub regions: Vec<Region>,
    /// Cranelift IR of every function, where the target asked for a listing.
    pub clif: String,
    /// Assembly of every function, where the target asked for a listing.
    pub asm: String,
}

/// Compiles a planned module; spans of its statements that point into the program's text become line tables.
///
/// The weights stay outside, for irc's linker to place, unless `own_weights` gives the table `irc_weights_info`.
///
/// # Errors
/// What the module asks for and code generation cannot do, one diagnostic each.
pub fn compile(
    module: &Module,
    info: &Info,
    weights: &Weights,
    target: &Target,
    lines: debug::Lines,
    own_weights: Option<&[u8]>,
) -> Result<Object, Vec<Diagnostic>> {
    let mut asm = Assembler::new(target).map_err(|fault| vec![fault])?;
    asm.lines = lines.into();
    let mut faults = Vec::new();
    for func in module.funcs().filter(|func| func.kind == FuncKind::Loops) {
        if let Err(fault) = loops::lower(&mut asm, func) {
            faults.push(fault);
        }
    }
    let mut program = host::Program {
        module,
        info,
        weights,
        table: Vec::new(),
        helpers: Vec::new(),
        workspaces: BTreeMap::new(),
    };
    let inner = host::inner_functions(module);
    for func in module.funcs().filter(|func| func.kind == FuncKind::Graph) {
        let mut forms = Vec::new();
        if !func.is_private() {
            forms.push(host::Form::Entry);
        }
        if inner.contains(&func.name) {
            forms.push(host::Form::Inner);
        }
        for form in forms {
            if let Err(fault) = host::lower(&mut asm, &mut program, func, form) {
                faults.push(fault);
            }
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let (table, workspaces) = (program.table, program.workspaces);
    runtime::define(&mut asm).map_err(|fault| vec![fault])?;
    if module.attr(PROFILE).is_some() {
        runtime::profile::define(&mut asm).map_err(|fault| vec![fault])?;
    }
    let placed: Vec<Weight> = table
        .iter()
        .filter_map(|name| weights.get(name))
        .cloned()
        .collect();
    if let Some(info) = own_weights {
        place_weights(&mut asm, &placed, info).map_err(|fault| vec![fault])?;
    }
    let regions = std::mem::take(&mut asm.regions);
    let mut facets = entry::Facets::new(module, target, &placed, &regions);
    facets.workspaces = workspaces;
    let interface = entry::define(&mut asm, module, info, &facets)?;
    let done = asm.finish()?;
    Ok(Object {
        bytes: done.bytes,
        weights: placed,
        weight_names: table,
        interface,
        regions,
        clif: done.clif,
        asm: done.asm,
    })
}

/// Puts the weights into the object itself, with what irc's linker would define for them.
fn place_weights(asm: &mut Assembler, weights: &[Weight], info: &[u8]) -> Result<(), Diagnostic> {
    let mut table = DataDescription::new();
    table.define(vec![0; 8 * weights.len().max(1)].into_boxed_slice());
    table.set_align(8);
    for (at, weight) in weights.iter().enumerate() {
        let id = asm.declare_data(&format!("irc.weight.{at}"), Linkage::Local, false)?;
        let mut data = DataDescription::new();
        data.define(weight.bytes().to_vec().into_boxed_slice());
        data.set_align(64);
        asm.define_data(id, &data)?;
        let address = asm.data_in_data(id, &mut table);
        table.write_data_addr(8 * at as u32, address, 0);
    }
    let id = asm.declare_data("irc_weights", Linkage::Local, true)?;
    asm.define_data(id, &table)?;
    let mut data = DataDescription::new();
    data.define(info.to_vec().into_boxed_slice());
    data.set_align(8);
    let id = asm.declare_data("irc_weights_info", Linkage::Local, false)?;
    asm.define_data(id, &data)
}

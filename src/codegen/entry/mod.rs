//! Entry points: what a caller of the shared object reaches, around the functions that compute.
//!
//! Every public function `f` of a planned module gets `__tvm_ffi_f`, and for C `net_f`, `net_f_new` and
//! `net_f_shapes`. All of them are a few instructions that hand a description of `f` to `irc_call` (`check`);
//! `describe` makes the descriptions from types, `header` declares the C entries, `manifest` says in JSON what is there.

mod check;
mod describe;
mod header;
pub mod layout;
mod manifest;
mod map;
mod object;
mod refuse;
mod stub;

pub use describe::{DimRule, Entry, Form, Kind, Maps, Slot, result_names};
pub use manifest::Facets;
pub use object::emit_any;

use irc_syntax::{Diagnostic, Module};

use super::Assembler;
use crate::check::Info;

/// What the entries of a module are, beside their code.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// The C header.
    pub header: String,
    /// The manifest, JSON.
    pub manifest: String,
}

/// Defines the entries of all public functions of a planned module, and what they need.
///
/// # Errors
/// A public function takes or returns what cannot be passed, one diagnostic each.
pub fn define(
    asm: &mut Assembler,
    module: &Module,
    info: &Info,
    facets: &Facets,
) -> Result<Interface, Vec<Diagnostic>> {
    let entries = describe::describe(module, info)?;
    let interface = Interface {
        header: header::print(&entries),
        manifest: manifest::print(&entries, facets),
    };
    define_all(asm, &entries, &interface.manifest).map_err(|fault| vec![fault])?;
    Ok(interface)
}

fn define_all(asm: &mut Assembler, entries: &[Entry], manifest: &str) -> Result<(), Diagnostic> {
    check::define_checks(asm)?;
    object::define_objects(asm)?;
    if entries.iter().any(|entry| !entry.maps.is_empty()) {
        map::define_maps(asm)?;
    }
    for entry in entries {
        stub::define_entry(asm, entry)?;
    }
    stub::define_manifest(asm, manifest)?;
    stub::define_free(asm)
}

#[cfg(test)]
mod tests;

//! Patches section bytes once addresses are known, and lists what is left to the loader.

use object::elf;

use super::LinkError;
use super::params::Layout;
use super::plan::{Class, Input, Place, Plan, STUB_BYTES, relocations, target};

/// A relocation that the loader applies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Dynamic {
    /// 0: the address of the library plus `addend`; else the dynamic symbol whose address is wanted.
    pub symbol: u32,
    /// Whether it is a slot of the global offset table.
    pub is_slot: bool,
    /// Where the address is written.
    pub addr: u64,
    /// What is added to it.
    pub addend: i64,
}

/// Patches all sections of the plan.
pub fn apply(file: &Input<'_>, plan: &mut Plan, layout: &Layout) -> Result<(), LinkError> {
    fill_table(plan, layout);
    fill_slots(plan);
    fill_stubs(plan);
    for (section, reloc, offset) in relocations(file) {
        let Some(&kept) = plan.kept.get(&section) else {
            continue;
        };
        let (symbol, r_type) = target(&reloc)?;
        patch(plan, kept, offset, (symbol, r_type), reloc.addend())?;
    }
    plan.dynamic.sort_unstable();
    debug_assert_eq!(plan.dynamic.len(), plan.n_dynamic);
    Ok(())
}

/// The pointers to embedded weights.
fn fill_table(plan: &mut Plan, layout: &Layout) {
    if plan.weights_addr == 0 {
        return;
    }
    let table = plan.sections[plan.table_section].addr;
    for (i, offset) in layout.offsets.iter().enumerate() {
        let addend = (plan.weights_addr + offset) as i64;
        plan.dynamic.push(Dynamic {
            symbol: 0,
            is_slot: false,
            addr: table + 8 * i as u64,
            addend,
        });
    }
}

/// The slots of the global offset table; all are bound at load.
fn fill_slots(plan: &mut Plan) {
    let base = plan.sections[plan.got_section].addr;
    for (&symbol, &slot) in &plan.got {
        let addr = base + 8 * slot as u64;
        let dynamic = match plan.places[symbol] {
            Place::Defined(section, value) => {
                let addend = (plan.sections[section].addr + value) as i64;
                Dynamic {
                    symbol: 0,
                    is_slot: false,
                    addr,
                    addend,
                }
            }
            Place::Import(import) => Dynamic {
                symbol: import as u32 + 1,
                is_slot: true,
                addr,
                addend: 0,
            },
            Place::Absent => continue,
        };
        plan.dynamic.push(dynamic);
    }
}

/// The stubs through which imports are called: `jmp [rip + slot]`.
fn fill_stubs(plan: &mut Plan) {
    let got = plan.sections[plan.got_section].addr;
    let base = plan.sections[plan.stub_section].addr;
    for (&import, &stub) in &plan.stubs {
        let slot = plan
            .got
            .iter()
            .find(|(symbol, _)| plan.places[**symbol] == Place::Import(import))
            .map_or(0, |(_, slot)| *slot as u64);
        let at = stub as u64 * STUB_BYTES;
        let distance = (got + 8 * slot).wrapping_sub(base + at + 6) as u32;
        let code = &mut plan.sections[plan.stub_section].data[at as usize..];
        code[..2].copy_from_slice(&[0xff, 0x25]);
        code[2..6].copy_from_slice(&distance.to_le_bytes());
    }
}

fn patch(
    plan: &mut Plan,
    section: usize,
    offset: u64,
    (symbol, r_type): (usize, elf::RelocationType),
    addend: i64,
) -> Result<(), LinkError> {
    let here = plan.sections[section].addr + offset;
    let loaded = plan.sections[section].class != Class::Unloaded;
    let place = plan.places.get(symbol).copied().unwrap_or(Place::Absent);
    let addr = match place {
        // Debug sections refer to each other by offsets, and to code by addresses.
        Place::Defined(section, value) if plan.sections[section].class == Class::Unloaded => value,
        Place::Defined(section, value) => plan.sections[section].addr + value,
        Place::Import(import) => plan.stubs.get(&import).map_or(0, |&stub| {
            plan.sections[plan.stub_section].addr + stub as u64 * STUB_BYTES
        }),
        Place::Absent => 0,
    };
    let value = addr.wrapping_add_signed(addend);
    match r_type {
        elf::R_X86_64_64 if loaded => {
            let symbol = if let Place::Import(import) = place {
                import as u32 + 1
            } else {
                0
            };
            let addend = if symbol == 0 { value as i64 } else { addend };
            plan.dynamic.push(Dynamic {
                symbol,
                is_slot: false,
                addr: here,
                addend,
            });
            Ok(())
        }
        elf::R_X86_64_64 => write(plan, section, offset, &value.to_le_bytes()),
        elf::R_X86_64_32 if !loaded => write(plan, section, offset, &(value as u32).to_le_bytes()),
        elf::R_X86_64_PC64 => write(
            plan,
            section,
            offset,
            &value.wrapping_sub(here).to_le_bytes(),
        ),
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => relative(plan, section, offset, value, here),
        elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX => {
            let slot = plan.got.get(&symbol).copied().unwrap_or(0) as u64;
            let slot = plan.sections[plan.got_section].addr + 8 * slot;
            relative(
                plan,
                section,
                offset,
                slot.wrapping_add_signed(addend),
                here,
            )
        }
        _ => Err(LinkError::Object(format!(
            "relocation of type {} is not supported",
            r_type.0
        ))),
    }
}

/// Writes the distance from `here` to `value` as 32 bits.
fn relative(
    plan: &mut Plan,
    section: usize,
    offset: u64,
    value: u64,
    here: u64,
) -> Result<(), LinkError> {
    let distance = i32::try_from(value.wrapping_sub(here) as i64).map_err(|_| {
        LinkError::Object(format!(
            "the code is too large: {here:#x} cannot reach {value:#x}"
        ))
    })?;
    write(plan, section, offset, &distance.to_le_bytes())
}

fn write(plan: &mut Plan, section: usize, offset: u64, bytes: &[u8]) -> Result<(), LinkError> {
    let section = &mut plan.sections[section];
    let end = offset as usize + bytes.len();
    let range = section.data.get_mut(offset as usize..end).ok_or_else(|| {
        LinkError::Object(format!(
            "a relocation lies outside of section `{}`",
            section.name
        ))
    })?;
    range.copy_from_slice(bytes);
    Ok(())
}

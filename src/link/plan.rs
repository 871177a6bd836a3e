//! What goes into the shared object: sections by the memory they need, symbols by where they are defined, and how
//! many slots the global offset table, the call stubs and the dynamic relocations take. Nothing has an address yet.

use std::collections::{BTreeMap, BTreeSet};

use object::elf;
use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags,
    RelocationTarget, SectionFlags, SymbolFlags, SymbolIndex, SymbolKind,
};

use super::params::Layout;
use super::{LinkError, PROGRAM_SECTION, Parts, WeightPlace};

/// The object file as it is read.
pub type Input<'d> = ElfFile64<'d, LittleEndian>;

/// The memory a section is loaded into, in the order of addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Readable.
    ReadOnly,
    /// Readable and executable.
    Code,
    /// Readable once the loader has relocated it.
    Relro,
    /// Readable and writable.
    Data,
    /// The same, zero at load and without bytes in the file.
    Zero,
    /// Not loaded.
    Unloaded,
}

/// A section of the shared object.
pub struct Section {
    /// Its name.
    pub name: String,
    /// The memory it needs.
    pub class: Class,
    /// The alignment of its address.
    pub align: u64,
    /// Bytes in memory.
    pub size: u64,
    /// Its bytes; empty for [`Class::Zero`].
    pub data: Vec<u8>,
    /// Its address, which is also its offset in the file.
    pub addr: u64,
}

/// Where a symbol of the object is defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In a section of [`Plan::sections`], at an offset.
    Defined(usize, u64),
    /// In another library: an index of [`Plan::imports`].
    Import(usize),
    /// Nowhere: nothing may refer to it.
    Absent,
}

/// A symbol that another library defines.
pub struct Import {
    /// Its name.
    pub name: String,
    /// Whether it may be missing.
    pub weak: bool,
}

/// A symbol that others may look up, or that debuggers show.
pub struct Export {
    /// Its name.
    pub name: String,
    /// The section that defines it.
    pub section: usize,
    /// Its offset there.
    pub value: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it is code.
    pub is_func: bool,
}

/// The plan of a shared object.
pub struct Plan {
    /// Sections in the order of addresses.
    pub sections: Vec<Section>,
    /// Sections of the object that are kept.
    pub kept: BTreeMap<usize, usize>,
    /// Where each symbol of the object is, by its index there.
    pub places: Vec<Place>,
    /// What other libraries define, by name.
    pub imports: Vec<Import>,
    /// What this library defines for others, in the order of the hash table.
    pub exports: Vec<Export>,
    /// Functions that are not exported, for debuggers.
    pub locals: Vec<Export>,
    /// The slot of a symbol in the global offset table.
    pub got: BTreeMap<usize, usize>,
    /// The stub of an import that is called directly.
    pub stubs: BTreeMap<usize, usize>,
    /// Number of dynamic relocations.
    pub n_dynamic: usize,
    /// The dynamic relocations, filled when addresses are known.
    pub dynamic: Vec<super::relocate::Dynamic>,
    /// Index of the section of the global offset table.
    pub got_section: usize,
    /// Index of the section of the stubs.
    pub stub_section: usize,
    /// Index of the table of weight pointers.
    pub table_section: usize,
    /// The sections of frames and of the table that finds them.
    pub unwind: Option<(usize, usize)>,
    /// Address of the weights; 0 when they are not embedded.
    pub weights_addr: u64,
    /// Bytes of embedded weights.
    pub weights_len: u64,
}

/// Bytes of one stub: `jmp [rip + slot]`, padded.
pub const STUB_BYTES: u64 = 16;

/// Buckets of the hash table for a number of exports.
pub fn bucket_count(n_exports: usize) -> u32 {
    n_exports.div_ceil(4).max(1) as u32
}

impl Plan {
    /// Plans the shared object of an object file.
    pub fn new(file: &Input<'_>, parts: &Parts<'_>, layout: &Layout) -> Result<Self, LinkError> {
        if file.architecture() != object::Architecture::X86_64 {
            return Err(LinkError::Object(format!(
                "the linker knows x86-64 only, the object is {:?}",
                file.architecture()
            )));
        }
        let (sections, kept) = keep_sections(file)?;
        let mut plan = Self {
            sections,
            kept,
            places: Vec::new(),
            imports: Vec::new(),
            exports: Vec::new(),
            locals: Vec::new(),
            got: BTreeMap::new(),
            stubs: BTreeMap::new(),
            n_dynamic: 0,
            dynamic: Vec::new(),
            got_section: 0,
            stub_section: 0,
            table_section: 0,
            unwind: None,
            weights_addr: 0,
            weights_len: 0,
        };
        plan.table_section = plan.add(
            ".irc.weights",
            Class::Data,
            vec![0; 8 * parts.weights.len()],
        );
        let digest = match parts.place {
            WeightPlace::Embedded => None,
            WeightPlace::Sidecar(digest) => Some(digest),
        };
        let info_section = plan.add(".irc.info", Class::ReadOnly, layout.info(digest));
        let names = super::params::names(parts.names, parts.weights);
        plan.add(super::NAMES_SECTION, Class::Unloaded, names.into_bytes());
        plan.add(
            PROGRAM_SECTION,
            Class::Unloaded,
            parts.program.as_bytes().to_vec(),
        );
        if parts.place == WeightPlace::Embedded {
            plan.weights_len = layout.len;
            // Weights without a single byte have no place: their pointers stay null.
            plan.n_dynamic += if layout.len > 0 {
                parts.weights.len()
            } else {
                0
            };
        }
        let is_frames = |section: &Section| section.name == ".eh_frame";
        if let Some(frames) = plan.sections.iter().position(is_frames)
            && let Some(size) = super::unwind::header_size(&plan.sections[frames].data)
        {
            let header = plan.add(".eh_frame_hdr", Class::ReadOnly, vec![0; size]);
            plan.unwind = Some((frames, header));
        }
        plan.place_symbols(file, info_section)?;
        plan.scan(file)?;
        plan.stub_section = plan.add(
            ".plt",
            Class::Code,
            vec![0xcc; plan.stubs.len() * STUB_BYTES as usize],
        );
        plan.got_section = plan.add(".got", Class::Relro, vec![0; 8 * plan.got.len()]);
        plan.n_dynamic += plan.got.len();
        plan.sort();
        Ok(plan)
    }

    fn add(&mut self, name: &str, class: Class, data: Vec<u8>) -> usize {
        let align = if class == Class::Unloaded { 1 } else { 16 };
        let size = data.len() as u64;
        self.sections.push(Section {
            name: name.to_owned(),
            class,
            align,
            size,
            data,
            addr: 0,
        });
        self.sections.len() - 1
    }

    /// Says where each symbol is.
    fn place_symbols(&mut self, file: &Input<'_>, info_section: usize) -> Result<(), LinkError> {
        let used = used_symbols(file);
        let count = file
            .symbols()
            .map(|symbol| symbol.index().0 + 1)
            .max()
            .unwrap_or(0);
        self.places = vec![Place::Absent; count];
        let mut imports = BTreeMap::new();
        for symbol in file.symbols() {
            let name = symbol.name()?;
            if let Some(section) = symbol.section_index() {
                if let Some(&section) = self.kept.get(&section.0) {
                    self.places[symbol.index().0] = Place::Defined(section, symbol.address());
                    self.note_definition(name, section, &symbol);
                }
            } else if symbol.is_undefined() && used.contains(&symbol.index().0) {
                match name {
                    "irc_weights" => {
                        self.places[symbol.index().0] = Place::Defined(self.table_section, 0);
                    }
                    "irc_weights_info" => {
                        self.places[symbol.index().0] = Place::Defined(info_section, 0);
                    }
                    "_GLOBAL_OFFSET_TABLE_" => {}
                    _ => {
                        imports.insert(name, symbol.is_weak());
                    }
                }
            }
        }
        for symbol in file.symbols().filter(|symbol| symbol.is_undefined()) {
            if let Some(position) = imports.keys().position(|name| Ok(*name) == symbol.name()) {
                self.places[symbol.index().0] = Place::Import(position);
            }
        }
        self.imports = imports
            .into_iter()
            .map(|(name, weak)| Import {
                name: name.to_owned(),
                weak,
            })
            .collect();
        let n_buckets = bucket_count(self.exports.len());
        self.exports.sort_by_key(|export| {
            (
                elf::gnu_hash(export.name.as_bytes()) % n_buckets,
                export.name.clone(),
            )
        });
        Ok(())
    }

    fn note_definition(
        &mut self,
        name: &str,
        section: usize,
        symbol: &object::read::elf::ElfSymbol64<'_, '_, LittleEndian>,
    ) {
        let is_func = symbol.kind() == SymbolKind::Text;
        let export = Export {
            name: name.to_owned(),
            section,
            value: symbol.address(),
            size: symbol.size(),
            is_func,
        };
        let hidden = match symbol.flags() {
            SymbolFlags::Elf { st_other, .. } => st_other.visibility() != elf::STV_DEFAULT,
            _ => true,
        };
        if symbol.is_global() && !hidden {
            self.exports.push(export);
        } else if is_func && !name.is_empty() && !name.starts_with(".L") {
            self.locals.push(export);
        }
    }

    /// Counts what the relocations ask for.
    fn scan(&mut self, file: &Input<'_>) -> Result<(), LinkError> {
        for (section, reloc, offset) in relocations(file) {
            let Some(&kept) = self.kept.get(&section) else {
                continue;
            };
            if self.sections[kept].class == Class::Unloaded {
                continue;
            }
            let (symbol, r_type) = target(&reloc)?;
            let place = self.places.get(symbol).copied().unwrap_or(Place::Absent);
            match (r_type, place) {
                (elf::R_X86_64_64, Place::Defined(..) | Place::Import(_)) => {
                    if self.sections[kept].class < Class::Relro {
                        return Err(LinkError::Object(format!(
                            "section `{}` holds an address at {offset:#x}, and cannot be written to",
                            self.sections[kept].name
                        )));
                    }
                    self.n_dynamic += 1;
                }
                (elf::R_X86_64_PLT32 | elf::R_X86_64_PC32, Place::Import(import)) => {
                    let stub = self.stubs.len();
                    self.stubs.entry(import).or_insert(stub);
                    self.slot(symbol);
                }
                (
                    elf::R_X86_64_PLT32 | elf::R_X86_64_PC32 | elf::R_X86_64_PC64,
                    Place::Defined(..),
                ) => {}
                (
                    elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX,
                    Place::Defined(..) | Place::Import(_),
                ) => self.slot(symbol),
                (_, _) => {
                    return Err(LinkError::Object(format!(
                        "relocation of type {} at `{}` {offset:#x} is not supported",
                        r_type.0, self.sections[kept].name
                    )));
                }
            }
        }
        Ok(())
    }

    fn slot(&mut self, symbol: usize) {
        let slot = self.got.len();
        self.got.entry(symbol).or_insert(slot);
    }

    /// Puts sections in the order of addresses, and renames every reference to one.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.sections.len()).collect();
        order.sort_by_key(|&index| self.sections[index].class);
        let mut moved = vec![0; order.len()];
        for (to, &from) in order.iter().enumerate() {
            moved[from] = to;
        }
        let mut sections: Vec<Option<Section>> = std::mem::take(&mut self.sections)
            .into_iter()
            .map(Some)
            .collect();
        self.sections = order
            .iter()
            .filter_map(|&from| sections[from].take())
            .collect();
        for index in self.kept.values_mut() {
            *index = moved[*index];
        }
        for place in &mut self.places {
            if let Place::Defined(index, _) = place {
                *index = moved[*index];
            }
        }
        for export in self.exports.iter_mut().chain(&mut self.locals) {
            export.section = moved[export.section];
        }
        self.got_section = moved[self.got_section];
        self.stub_section = moved[self.stub_section];
        self.table_section = moved[self.table_section];
        self.unwind = self
            .unwind
            .map(|(frames, header)| (moved[frames], moved[header]));
    }
}

/// The sections that are kept, and where each section of the object went.
fn keep_sections(file: &Input<'_>) -> Result<(Vec<Section>, BTreeMap<usize, usize>), LinkError> {
    let mut sections = Vec::new();
    let mut kept = BTreeMap::new();
    for section in file.sections() {
        let name = section.name()?;
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            continue;
        };
        let loaded = sh_flags.0 & elf::SHF_ALLOC.0 != 0;
        let class = if !loaded {
            if !name.starts_with(".debug") {
                continue;
            }
            Class::Unloaded
        } else if sh_flags.0 & elf::SHF_TLS.0 != 0 {
            return Err(LinkError::Object(format!(
                "section `{name}` is thread-local"
            )));
        } else if sh_flags.0 & elf::SHF_EXECINSTR.0 != 0 {
            Class::Code
        } else if name.starts_with(".data.rel.ro") || is_array(name) {
            Class::Relro
        } else if section.kind() == object::SectionKind::UninitializedData {
            Class::Zero
        } else if sh_flags.0 & elf::SHF_WRITE.0 != 0 {
            Class::Data
        } else {
            Class::ReadOnly
        };
        if section.size() == 0 {
            continue;
        }
        kept.insert(section.index().0, sections.len());
        let data = if class == Class::Zero {
            Vec::new()
        } else {
            section.data()?.to_vec()
        };
        sections.push(Section {
            name: name.to_owned(),
            class,
            align: section.align().max(1),
            size: section.size(),
            data,
            addr: 0,
        });
    }
    Ok((sections, kept))
}

/// Whether a section holds functions to call at load or unload.
pub fn is_array(name: &str) -> bool {
    name == ".init_array" || name == ".fini_array"
}

/// Symbols that some relocation refers to.
fn used_symbols(file: &Input<'_>) -> BTreeSet<usize> {
    relocations(file)
        .filter_map(|(_, reloc, _)| match reloc.target() {
            RelocationTarget::Symbol(SymbolIndex(symbol)) => Some(symbol),
            _ => None,
        })
        .collect()
}

/// Every relocation with the index of its section and its offset there.
pub fn relocations<'f>(
    file: &'f Input<'_>,
) -> impl Iterator<Item = (usize, object::Relocation, u64)> + 'f {
    file.sections().flat_map(|section| {
        let index = section.index().0;
        section
            .relocations()
            .map(move |(offset, reloc)| (index, reloc, offset))
            .collect::<Vec<_>>()
    })
}

/// The symbol and the type of a relocation.
pub fn target(reloc: &object::Relocation) -> Result<(usize, elf::RelocationType), LinkError> {
    match (reloc.target(), reloc.flags()) {
        (RelocationTarget::Symbol(SymbolIndex(symbol)), RelocationFlags::Elf { r_type }) => {
            Ok((symbol, r_type))
        }
        _ => Err(LinkError::Object("a relocation has no symbol".to_owned())),
    }
}

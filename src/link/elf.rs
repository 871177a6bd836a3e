//! The file itself: headers, hash table, dynamic section and symbols around the planned sections.
//!
//! An address is its offset in the file, so every segment is congruent with its pages by construction. Order:
//! headers and tables, read-only data | code | relocated data, `.dynamic`, `.got` | data, zeros | what is not loaded |
//! weights; a bar starts a page.

use object::elf;
use object::write::StringId;
use object::write::elf::{FileHeader, ProgramHeader, Rel, SectionHeader, Sym, Writer};

use super::LinkError;
use super::plan::{Class, Export, Plan, bucket_count, is_array};

/// Page size that segments are aligned to.
const PAGE: u64 = 4096;

const BLOOM_SHIFT: u32 = 6;

/// Functions of the C library that live in libm.
const LIBM: &[&str] = &[
    "acos",
    "acosf",
    "acosh",
    "acoshf",
    "asin",
    "asinf",
    "asinh",
    "asinhf",
    "atan",
    "atan2",
    "atan2f",
    "atanf",
    "atanh",
    "atanhf",
    "cbrt",
    "cbrtf",
    "ceil",
    "ceilf",
    "cos",
    "cosf",
    "cosh",
    "coshf",
    "erf",
    "erfc",
    "erfcf",
    "erff",
    "exp",
    "exp2",
    "exp2f",
    "expf",
    "expm1",
    "expm1f",
    "floor",
    "floorf",
    "fma",
    "fmaf",
    "fmod",
    "fmodf",
    "lgamma",
    "lgammaf",
    "log",
    "log10",
    "log10f",
    "log1p",
    "log1pf",
    "log2",
    "log2f",
    "logf",
    "nearbyint",
    "nearbyintf",
    "pow",
    "powf",
    "rint",
    "rintf",
    "round",
    "roundeven",
    "roundevenf",
    "roundf",
    "sin",
    "sinf",
    "sinh",
    "sinhf",
    "sqrt",
    "sqrtf",
    "tan",
    "tanf",
    "tanh",
    "tanhf",
    "tgamma",
    "tgammaf",
    "trunc",
    "truncf",
];

/// The names of a plan, kept apart because the writer borrows them while the plan is patched.
pub struct Names {
    sections: Vec<String>,
    imports: Vec<String>,
    exports: Vec<String>,
    locals: Vec<String>,
}

impl Names {
    /// The names of a plan.
    pub fn new(plan: &Plan) -> Self {
        let of = |exports: &[Export]| exports.iter().map(|export| export.name.clone()).collect();
        Self {
            sections: plan
                .sections
                .iter()
                .map(|section| section.name.clone())
                .collect(),
            imports: plan
                .imports
                .iter()
                .map(|import| import.name.clone())
                .collect(),
            exports: of(&plan.exports),
            locals: of(&plan.locals),
        }
    }

    /// The libraries that the loader must have loaded.
    fn needed(&self) -> Vec<&'static [u8]> {
        let mut res: Vec<&[u8]> = vec![b"libc.so.6"];
        if self
            .imports
            .iter()
            .any(|name| LIBM.binary_search(&name.as_str()).is_ok())
        {
            res.push(b"libm.so.6");
        }
        res
    }
}

/// Offsets and string numbers, reserved first and written later.
pub struct Frame {
    hash: u64,
    dynsym: u64,
    dynstr: u64,
    rela: u64,
    rela_name: StringId,
    dynamic: u64,
    n_dynamic: usize,
    code: (u64, u64),
    relro: (u64, u64),
    /// End of the last byte that is in the file and writable, and end of the zeros after it.
    data_end: (u64, u64),
    read_only_end: u64,
    section_names: Vec<StringId>,
    section_numbers: Vec<u32>,
    weights_name: Option<StringId>,
    needed: Vec<StringId>,
    import_names: Vec<StringId>,
    export_names: Vec<StringId>,
    symbol_names: Vec<StringId>,
    /// Where the weights begin, when they are embedded.
    pub weights: Option<u64>,
}

/// Gives every part of the file its place, and every section of the plan its address.
pub fn reserve<'a>(
    writer: &mut Writer<'a>,
    names: &'a Names,
    plan: &mut Plan,
) -> Result<Frame, LinkError> {
    writer.reserve_file_header();
    let n_segments = 6 + u32::from(plan.weights_len > 0) + u32::from(plan.unwind.is_some());
    writer.reserve_program_headers(n_segments);
    let mut strings = |names: &'a [String]| -> Vec<StringId> {
        names
            .iter()
            .map(|name| writer.add_dynamic_string(name.as_bytes()))
            .collect()
    };
    let import_names = strings(&names.imports);
    let export_names = strings(&names.exports);
    let needed: Vec<_> = names
        .needed()
        .into_iter()
        .map(|name| writer.add_dynamic_string(name))
        .collect();
    let n_exports = names.exports.len() as u32;
    let hash = writer.reserve_gnu_hash(
        bloom_count(n_exports),
        bucket_count(names.exports.len()),
        n_exports,
    );
    writer.reserve_null_dynamic_symbol_index();
    for _ in names.imports.iter().chain(&names.exports) {
        writer.reserve_dynamic_symbol_index();
    }
    let dynsym = writer.reserve_dynsym();
    let dynstr = writer.reserve_dynstr()?;
    let rela = writer.reserve_relocations(plan.n_dynamic, true);
    place(writer, plan, Class::ReadOnly);
    let read_only_end = writer.reserved_len();
    let code = (writer.reserve(0, PAGE), place(writer, plan, Class::Code));
    let relro_start = writer.reserve(0, PAGE);
    place(writer, plan, Class::Relro);
    let n_arrays = plan
        .sections
        .iter()
        .filter(|section| is_array(&section.name))
        .count();
    let n_dynamic = needed.len() + 2 * n_arrays + 12;
    let dynamic = writer.reserve_dynamic(n_dynamic);
    let relro = (relro_start, writer.reserve(0, PAGE));
    let file_end = place(writer, plan, Class::Data);
    let data_end = (file_end, place_zeros(file_end, plan));
    place(writer, plan, Class::Unloaded);
    let symbol_names = reserve_symbols(writer, names)?;
    let (section_names, rela_name, weights_name) = reserve_names(writer, names, plan);
    let section_numbers = (0..plan.sections.len() as u32)
        .map(|index| index + 5)
        .collect();
    writer.reserve_shstrtab()?;
    writer.reserve_section_headers();
    let weights = (plan.weights_len > 0).then(|| {
        let start = writer.reserved_len().max(data_end.1).next_multiple_of(PAGE);
        writer.reserve_until(start);
        writer.reserve(plan.weights_len, 1)
    });
    plan.weights_addr = weights.unwrap_or(0);
    Ok(Frame {
        hash,
        dynsym,
        dynstr,
        rela,
        rela_name,
        dynamic,
        n_dynamic,
        code,
        relro,
        data_end,
        read_only_end,
        section_names,
        section_numbers,
        weights_name,
        needed,
        import_names,
        export_names,
        symbol_names,
        weights,
    })
}

fn bloom_count(n_exports: u32) -> u32 {
    (n_exports / 8).max(1).next_power_of_two()
}

/// Gives the sections of a class their addresses; answers the end of the last.
fn place(writer: &mut Writer<'_>, plan: &mut Plan, class: Class) -> u64 {
    for section in plan
        .sections
        .iter_mut()
        .filter(|section| section.class == class)
    {
        section.addr = writer.reserve(section.size, section.align);
    }
    writer.reserved_len()
}

/// Zeros take addresses and no bytes of the file.
fn place_zeros(start: u64, plan: &mut Plan) -> u64 {
    let mut end = start;
    for section in plan
        .sections
        .iter_mut()
        .filter(|section| section.class == Class::Zero)
    {
        section.addr = end.next_multiple_of(section.align);
        end = section.addr + section.size;
    }
    end
}

fn reserve_symbols<'a>(
    writer: &mut Writer<'a>,
    names: &'a Names,
) -> Result<Vec<StringId>, LinkError> {
    writer.reserve_null_symbol_index();
    let mut res = Vec::new();
    for name in names.locals.iter().chain(&names.exports) {
        res.push(writer.add_string(name.as_bytes()));
        writer.reserve_symbol_index(None);
    }
    writer.reserve_symtab();
    writer.reserve_strtab()?;
    Ok(res)
}

/// Reserves the section headers in the order in which [`write_headers`] writes them.
fn reserve_names<'a>(
    writer: &mut Writer<'a>,
    names: &'a Names,
    plan: &Plan,
) -> (Vec<StringId>, StringId, Option<StringId>) {
    writer.reserve_gnu_hash_section_index();
    writer.reserve_dynsym_section_index();
    writer.reserve_dynstr_section_index();
    let rela_name = writer.add_section_name(b".rela.dyn");
    writer.reserve_section_index();
    let mut section_names = Vec::new();
    for name in &names.sections {
        section_names.push(writer.add_section_name(name.as_bytes()));
        writer.reserve_section_index();
    }
    writer.reserve_dynamic_section_index();
    writer.reserve_symtab_section_index();
    writer.reserve_strtab_section_index();
    writer.reserve_shstrtab_section_index();
    let weights_name = (plan.weights_len > 0).then(|| {
        writer.reserve_section_index();
        writer.add_section_name(super::WEIGHTS_SECTION.as_bytes())
    });
    (section_names, rela_name, weights_name)
}

/// Writes the file up to the weights, which the caller streams behind it.
pub fn emit(writer: &mut Writer<'_>, plan: &Plan, frame: &Frame) -> Result<(), LinkError> {
    writer.write_file_header(&FileHeader {
        os_abi: elf::ELFOSABI_NONE,
        abi_version: 0,
        e_type: elf::ET_DYN,
        e_machine: elf::EM_X86_64,
        e_entry: 0,
        e_flags: elf::FileFlags(0),
    })?;
    write_segments(writer, plan, frame);
    let n_exports = plan.exports.len() as u32;
    writer.write_gnu_hash(
        plan.imports.len() as u32 + 1,
        BLOOM_SHIFT,
        bloom_count(n_exports),
        bucket_count(plan.exports.len()),
        n_exports,
        |i| elf::gnu_hash(plan.exports[i as usize].name.as_bytes()),
    );
    write_dynamic_symbols(writer, plan, frame);
    writer.write_dynstr();
    writer.write_align_relocation();
    for dynamic in &plan.dynamic {
        let r_type = match (dynamic.symbol, dynamic.is_slot) {
            (0, _) => elf::R_X86_64_RELATIVE,
            (_, true) => elf::R_X86_64_GLOB_DAT,
            (_, false) => elf::R_X86_64_64,
        };
        let (r_offset, r_addend) = (dynamic.addr, dynamic.addend);
        writer.write_relocation(
            true,
            &Rel {
                r_offset,
                r_sym: dynamic.symbol,
                r_type,
                r_addend,
            },
        );
    }
    write_sections(writer, plan, Class::ReadOnly);
    write_sections(writer, plan, Class::Code);
    write_sections(writer, plan, Class::Relro);
    write_dynamic(writer, plan, frame)?;
    writer.pad_until(frame.relro.1);
    write_sections(writer, plan, Class::Data);
    write_sections(writer, plan, Class::Unloaded);
    write_symbols(writer, plan, frame);
    writer.write_strtab();
    writer.write_shstrtab();
    write_headers(writer, plan, frame);
    if let Some(offset) = frame.weights {
        writer.pad_until(offset);
    }
    Ok(())
}

fn write_sections(writer: &mut Writer<'_>, plan: &Plan, class: Class) {
    for section in plan
        .sections
        .iter()
        .filter(|section| section.class == class)
    {
        writer.pad_until(section.addr);
        writer.write(&section.data);
    }
}

fn write_segments(writer: &mut Writer<'_>, plan: &Plan, frame: &Frame) {
    let (r, w, x) = (elf::PF_R.0, elf::PF_W.0, elf::PF_X.0);
    let mut segment = |p_type, flags, start: u64, file_end: u64, end: u64, p_align| {
        writer.write_program_header(&ProgramHeader {
            p_type,
            p_flags: elf::ProgramFlags(flags),
            p_offset: start,
            p_vaddr: start,
            p_paddr: start,
            p_filesz: file_end - start,
            p_memsz: end - start,
            p_align,
        });
    };
    let (code, relro, data_end) = (frame.code, frame.relro, frame.data_end);
    segment(
        elf::PT_LOAD,
        r,
        0,
        frame.read_only_end,
        frame.read_only_end,
        PAGE,
    );
    segment(elf::PT_LOAD, r | x, code.0, code.1, code.1, PAGE);
    segment(elf::PT_LOAD, r | w, relro.0, data_end.0, data_end.1, PAGE);
    if let Some(start) = frame.weights {
        let end = start + plan.weights_len;
        segment(elf::PT_LOAD, r, start, end, end, PAGE);
    }
    let dynamic_end = frame.dynamic + 16 * frame.n_dynamic as u64;
    segment(
        elf::PT_DYNAMIC,
        r | w,
        frame.dynamic,
        dynamic_end,
        dynamic_end,
        8,
    );
    segment(elf::PT_GNU_RELRO, r, relro.0, relro.1, relro.1, 1);
    if let Some((_, header)) = plan.unwind {
        let section = &plan.sections[header];
        let end = section.addr + section.size;
        segment(elf::PT_GNU_EH_FRAME, r, section.addr, end, end, 4);
    }
    segment(elf::PT_GNU_STACK, r | w, 0, 0, 0, 16);
}

fn write_dynamic_symbols(writer: &mut Writer<'_>, plan: &Plan, frame: &Frame) {
    writer.write_null_dynamic_symbol();
    for (import, &name) in plan.imports.iter().zip(&frame.import_names) {
        let bind = if import.weak {
            elf::STB_WEAK
        } else {
            elf::STB_GLOBAL
        };
        let st_name = writer.dynamic_string_offset(Some(name));
        writer.write_dynamic_symbol(&Sym {
            section: None,
            st_name,
            st_info: elf::SymbolInfo::new(bind, elf::STT_NOTYPE),
            st_other: elf::SymbolOther(0),
            st_shndx: elf::SHN_UNDEF,
            st_value: 0,
            st_size: 0,
        });
    }
    for (export, &name) in plan.exports.iter().zip(&frame.export_names) {
        let st_name = writer.dynamic_string_offset(Some(name));
        writer.write_dynamic_symbol(&symbol(plan, frame, export, st_name, elf::STB_GLOBAL));
    }
}

fn write_symbols(writer: &mut Writer<'_>, plan: &Plan, frame: &Frame) {
    writer.write_null_symbol();
    for (i, (export, &name)) in plan
        .locals
        .iter()
        .chain(&plan.exports)
        .zip(&frame.symbol_names)
        .enumerate()
    {
        let bind = if i < plan.locals.len() {
            elf::STB_LOCAL
        } else {
            elf::STB_GLOBAL
        };
        let st_name = writer.string_offset(Some(name));
        writer.write_symbol(&symbol(plan, frame, export, st_name, bind));
    }
}

fn symbol(plan: &Plan, frame: &Frame, export: &Export, st_name: u32, bind: elf::SymbolBind) -> Sym {
    let kind = if export.is_func {
        elf::STT_FUNC
    } else {
        elf::STT_OBJECT
    };
    Sym {
        section: Some(frame.section_numbers[export.section]),
        st_name,
        st_info: elf::SymbolInfo::new(bind, kind),
        st_other: elf::SymbolOther(0),
        st_shndx: elf::SHN_UNDEF,
        st_value: plan.sections[export.section].addr + export.value,
        st_size: export.size,
    }
}

fn write_dynamic(writer: &mut Writer<'_>, plan: &Plan, frame: &Frame) -> Result<(), LinkError> {
    writer.write_align_dynamic();
    for &name in &frame.needed {
        writer.write_dynamic_string(elf::DT_NEEDED, name)?;
    }
    for section in plan
        .sections
        .iter()
        .filter(|section| is_array(&section.name))
    {
        let (start, size) = if section.name == ".init_array" {
            (elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ)
        } else {
            (elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ)
        };
        writer.write_dynamic(start, section.addr)?;
        writer.write_dynamic(size, section.size)?;
    }
    let n_relative = plan
        .dynamic
        .iter()
        .filter(|dynamic| dynamic.symbol == 0)
        .count();
    writer.write_dynamic(elf::DT_GNU_HASH, frame.hash)?;
    writer.write_dynamic(elf::DT_SYMTAB, frame.dynsym)?;
    writer.write_dynamic(elf::DT_SYMENT, 24)?;
    writer.write_dynamic(elf::DT_STRTAB, frame.dynstr)?;
    let strings = writer.dynstr_len();
    writer.write_dynamic(elf::DT_STRSZ, u64::from(strings))?;
    writer.write_dynamic(elf::DT_RELA, frame.rela)?;
    writer.write_dynamic(elf::DT_RELASZ, 24 * plan.dynamic.len() as u64)?;
    writer.write_dynamic(elf::DT_RELAENT, 24)?;
    writer.write_dynamic(elf::DT_RELACOUNT, n_relative as u64)?;
    writer.write_dynamic(elf::DT_FLAGS, elf::DF_BIND_NOW.0)?;
    writer.write_dynamic(elf::DT_FLAGS_1, elf::DF_1_NOW.0)?;
    writer.write_dynamic(elf::DT_NULL, 0)?;
    Ok(())
}

fn write_headers(writer: &mut Writer<'_>, plan: &Plan, frame: &Frame) {
    writer.write_null_section_header();
    writer.write_gnu_hash_section_header(frame.hash);
    writer.write_dynsym_section_header(frame.dynsym, 1);
    writer.write_dynstr_section_header(frame.dynstr);
    let dynsym = writer.dynsym_index().0;
    let sh_name = writer.section_name_offset(Some(frame.rela_name));
    writer.write_section_header(&SectionHeader {
        sh_name,
        sh_type: elf::SHT_RELA,
        sh_flags: elf::SHF_ALLOC,
        sh_addr: frame.rela,
        sh_offset: frame.rela,
        sh_size: 24 * plan.dynamic.len() as u64,
        sh_link: dynsym,
        sh_info: 0,
        sh_addralign: 8,
        sh_entsize: 24,
    });
    for (section, &name) in plan.sections.iter().zip(&frame.section_names) {
        let (kind, flags) = header_kind(section.class, &section.name);
        let sh_name = writer.section_name_offset(Some(name));
        writer.write_section_header(&SectionHeader {
            sh_name,
            sh_type: kind,
            sh_flags: flags,
            sh_addr: if section.class == Class::Unloaded {
                0
            } else {
                section.addr
            },
            sh_offset: section.addr,
            sh_size: section.size,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: section.align,
            sh_entsize: 0,
        });
    }
    writer.write_dynamic_section_header(frame.dynamic);
    writer.write_symtab_section_header(plan.locals.len() as u32 + 1);
    writer.write_strtab_section_header();
    writer.write_shstrtab_section_header();
    if let (Some(name), Some(start)) = (frame.weights_name, frame.weights) {
        let sh_name = writer.section_name_offset(Some(name));
        writer.write_section_header(&SectionHeader {
            sh_name,
            sh_type: elf::SHT_PROGBITS,
            sh_flags: elf::SHF_ALLOC,
            sh_addr: start,
            sh_offset: start,
            sh_size: plan.weights_len,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: PAGE,
            sh_entsize: 0,
        });
    }
}

fn header_kind(class: Class, name: &str) -> (elf::SectionType, elf::SectionFlags) {
    let alloc = elf::SHF_ALLOC.0;
    let kind = match name {
        ".init_array" => elf::SHT_INIT_ARRAY,
        ".fini_array" => elf::SHT_FINI_ARRAY,
        _ if class == Class::Zero => elf::SHT_NOBITS,
        _ => elf::SHT_PROGBITS,
    };
    let flags = match class {
        Class::ReadOnly => alloc,
        Class::Code => alloc | elf::SHF_EXECINSTR.0,
        Class::Relro | Class::Data | Class::Zero => alloc | elf::SHF_WRITE.0,
        Class::Unloaded => 0,
    };
    (kind, elf::SectionFlags(flags))
}

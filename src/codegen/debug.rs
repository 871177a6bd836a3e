//! What debuggers and unwinders are told: which line of the text an instruction comes from, and how frames are left.
//!
//! Lines are those of the planned program, the text that `irc print net.so` gives; its name there is
//! [`PROGRAM_NAME`], so nothing depends on where a build happens. `.debug_info`, `.debug_line` and what they need are
//! DWARF 5 and are not loaded; `.eh_frame` is. Tests: `tests/harness/debug.rs`.

use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::isa::unwind::systemv::UnwindInfo;
use cranelift_module::FuncId;
use cranelift_object::ObjectProduct;
use cranelift_object::object::write::{Relocation, SectionId as ObjectSection, SymbolId};
use cranelift_object::object::{RelocationEncoding, RelocationFlags, RelocationKind, SectionKind};
use gimli::write::{
    Address, AttributeValue, CallFrameInstruction, Dwarf, EhFrame, EndianVec, Expression,
    FrameDescriptionEntry, FrameTable, LineProgram, LineString, RelocateWriter,
    RelocationTarget as DwarfTarget, Sections, Unit,
};
use gimli::{DwEhPe, Encoding, Format, LineEncoding, LittleEndian, Register, SectionId, X86_64};
use irc_syntax::Span;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// The name of the program's text in line tables.
pub const PROGRAM_NAME: &str = "program.ir";

/// The file of spans that point into the text of the planned program.
pub const PROGRAM_FILE: irc_syntax::FileId = irc_syntax::FileId(NonZeroU32::MAX);

/// Where the lines of the program's text start.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    /// The lines of a text.
    pub fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at as u32 + 1));
        Self {
            starts: starts.collect(),
        }
    }

    /// The line of a place, from 1; `None` for a place in another text.
    pub fn line(&self, span: Option<Span>) -> Option<u32> {
        let span = span.filter(|span| span.file == PROGRAM_FILE)?;
        Some(self.starts.partition_point(|start| *start <= span.lo) as u32)
    }
}

/// A step of a raw function's prologue or epilogue, for unwinders; registers are numbered as by x86-64 instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameStep {
    /// The register is on the stack.
    Push(u8),
    /// rbp is the stack pointer of here.
    SetFrame,
    /// rbp is the caller's again, and taken off the stack.
    PopFrame,
    /// The register is taken off the stack.
    Pop(u8),
}

/// How a function's frame is left.
pub enum Frame {
    /// As Cranelift says.
    Known(UnwindInfo),
    /// By steps at offsets.
    Steps(Vec<(u32, FrameStep)>),
}

/// What is told of one function.
pub struct Piece {
    /// The function.
    pub id: FuncId,
    /// Its symbol.
    pub name: String,
    /// Bytes of its code.
    pub size: u32,
    /// The line that it starts at, where it comes from the text.
    pub line: Option<u32>,
    /// Offsets from which on code comes from a line, in order.
    pub rows: Vec<(u32, u32)>,
    /// Its frame, where that is known.
    pub frame: Option<Frame>,
}

type Fault = Box<dyn std::error::Error>;

/// Adds the debug sections and the frame table to an object.
///
/// # Errors
/// The object or the writer cannot take them.
pub fn write(
    product: &mut ObjectProduct,
    pieces: &[Piece],
    isa: &dyn TargetIsa,
) -> Result<(), Fault> {
    let symbols: Vec<SymbolId> = pieces
        .iter()
        .map(|piece| product.function_symbol(piece.id))
        .collect();
    let mut out = Output {
        product,
        symbols,
        sections: BTreeMap::new(),
    };
    out.frames(pieces, isa)?;
    if pieces.iter().any(|piece| piece.line.is_some()) {
        out.lines(pieces)?;
    }
    Ok(())
}

struct Output<'p> {
    product: &'p mut ObjectProduct,
    symbols: Vec<SymbolId>,
    sections: BTreeMap<&'static str, ObjectSection>,
}

impl Output<'_> {
    fn frames(&mut self, pieces: &[Piece], isa: &dyn TargetIsa) -> Result<(), Fault> {
        let Some(mut cie) = isa.create_systemv_cie() else {
            return Ok(());
        };
        cie.fde_address_encoding = DwEhPe(gimli::DW_EH_PE_pcrel.0 | gimli::DW_EH_PE_sdata4.0);
        let mut table = FrameTable::default();
        let cie = table.add_cie(cie);
        for (symbol, piece) in pieces.iter().enumerate() {
            let address = Address::Symbol { symbol, addend: 0 };
            let fde = match &piece.frame {
                Some(Frame::Known(info)) => info.to_fde(address),
                Some(Frame::Steps(steps)) => steps_to_fde(address, piece.size, steps),
                None => continue,
            };
            table.add_fde(cie, fde);
        }
        let mut section = EhFrame(Section::default());
        table.write_eh_frame(&mut section)?;
        let id = self.section(SectionId::EhFrame.name(), SectionKind::ReadOnlyData);
        self.fill(id, section.0)
    }

    fn lines(&mut self, pieces: &[Piece]) -> Result<(), Fault> {
        let mut sections = Sections::new(Section::default());
        describe(pieces).write(&mut sections)?;
        let mut written = Vec::new();
        sections.for_each_mut(|id, section| -> Result<(), Fault> {
            if !section.data.slice().is_empty() {
                written.push((id, std::mem::take(section)));
            }
            Ok(())
        })?;
        // All of them first: they refer to one another.
        for (id, _) in &written {
            self.section(id.name(), SectionKind::Debug);
        }
        for (id, section) in written {
            let id = self.section(id.name(), SectionKind::Debug);
            self.fill(id, section)?;
        }
        Ok(())
    }

    fn section(&mut self, name: &'static str, kind: SectionKind) -> ObjectSection {
        let object = &mut self.product.object;
        *self
            .sections
            .entry(name)
            .or_insert_with(|| object.add_section(Vec::new(), name.as_bytes().to_vec(), kind))
    }

    fn fill(&mut self, id: ObjectSection, section: Section) -> Result<(), Fault> {
        let align = if self.sections.get(".eh_frame") == Some(&id) {
            8
        } else {
            1
        };
        let object = &mut self.product.object;
        object.append_section_data(id, section.data.slice(), align);
        for relocation in section.relocations {
            let mut addend = relocation.addend;
            let symbol = match relocation.target {
                DwarfTarget::Symbol(symbol) => {
                    // By section and offset: an exported symbol might be replaced by another library's.
                    let object = &mut self.product.object;
                    let symbol = object.symbol(self.symbols[symbol]);
                    let (place, section) = (symbol.value, symbol.section.id());
                    let section = section.ok_or("a function is not in the object")?;
                    addend += place as i64;
                    object.section_symbol(section)
                }
                DwarfTarget::Section(target) => {
                    let target = self.section(target.name(), SectionKind::Debug);
                    self.product.object.section_symbol(target)
                }
            };
            let kind = match relocation.eh_pe {
                Some(_) => RelocationKind::Relative,
                None => RelocationKind::Absolute,
            };
            let flags = RelocationFlags::Generic {
                kind,
                encoding: RelocationEncoding::Generic,
                size: relocation.size * 8,
            };
            let relocation = Relocation {
                offset: relocation.offset as u64,
                symbol,
                addend,
                flags,
            };
            self.product.object.add_relocation(id, relocation)?;
        }
        Ok(())
    }
}

/// A section being written, and what in it depends on addresses.
#[derive(Clone)]
struct Section {
    data: EndianVec<LittleEndian>,
    relocations: Vec<gimli::write::Relocation>,
}

impl Default for Section {
    fn default() -> Self {
        Self {
            data: EndianVec::new(LittleEndian),
            relocations: Vec::new(),
        }
    }
}

impl RelocateWriter for Section {
    type Writer = EndianVec<LittleEndian>;

    fn writer(&self) -> &Self::Writer {
        &self.data
    }

    fn writer_mut(&mut self) -> &mut Self::Writer {
        &mut self.data
    }

    fn relocate(&mut self, relocation: gimli::write::Relocation) {
        self.relocations.push(relocation);
    }
}

/// One unit with the functions that come from the text.
fn describe(pieces: &[Piece]) -> Dwarf {
    let encoding = Encoding {
        format: Format::Dwarf32,
        version: 5,
        address_size: 8,
    };
    let text = |text: &str| LineString::String(text.as_bytes().to_vec());
    let mut program = LineProgram::new(
        encoding,
        LineEncoding::default(),
        text("."),
        None,
        text(PROGRAM_NAME),
        None,
    );
    let file = program.add_file(text(PROGRAM_NAME), program.default_directory(), None);
    let known = || {
        let all = pieces.iter().enumerate();
        all.filter_map(|(symbol, piece)| Some((symbol, piece, piece.line?)))
    };
    for (symbol, piece, line) in known() {
        program.begin_sequence(Some(Address::Symbol { symbol, addend: 0 }));
        let mut rows = piece.rows.clone();
        if rows.first().is_none_or(|(offset, _)| *offset > 0) {
            rows.insert(0, (0, line));
        }
        for (offset, line) in rows {
            let row = program.row();
            row.address_offset = u64::from(offset);
            row.file = file;
            row.line = u64::from(line);
            program.generate_row();
        }
        program.end_sequence(u64::from(piece.size));
    }
    let mut dwarf = Dwarf::new();
    let unit = dwarf.units.add(Unit::new(encoding, program));
    let unit = dwarf.units.get_mut(unit);
    let ranges = known()
        .map(|(symbol, piece, _)| gimli::write::Range::StartLength {
            begin: Address::Symbol { symbol, addend: 0 },
            length: u64::from(piece.size),
        })
        .collect();
    let ranges = unit.ranges.add(gimli::write::RangeList(ranges));
    let root = unit.root();
    let strings = [
        (
            gimli::DW_AT_producer,
            concat!("irc ", env!("CARGO_PKG_VERSION")),
        ),
        (gimli::DW_AT_name, PROGRAM_NAME),
    ];
    for (at, text) in strings {
        let text = AttributeValue::String(text.as_bytes().to_vec());
        unit.get_mut(root).set(at, text);
    }
    // Debuggers need some language; expressions of C do for what is shown here.
    let language = AttributeValue::Language(gimli::DW_LANG_C);
    unit.get_mut(root).set(gimli::DW_AT_language, language);
    unit.get_mut(root).set(
        gimli::DW_AT_low_pc,
        AttributeValue::Address(Address::Constant(0)),
    );
    unit.get_mut(root)
        .set(gimli::DW_AT_ranges, AttributeValue::RangeListRef(ranges));
    for (symbol, piece, line) in known() {
        let entry = unit.add(root, gimli::DW_TAG_subprogram);
        let mut frame = Expression::new();
        frame.op(gimli::DW_OP_call_frame_cfa);
        let values = [
            (
                gimli::DW_AT_name,
                AttributeValue::String(piece.name.as_bytes().to_vec()),
            ),
            (
                gimli::DW_AT_low_pc,
                AttributeValue::Address(Address::Symbol { symbol, addend: 0 }),
            ),
            (
                gimli::DW_AT_high_pc,
                AttributeValue::Udata(u64::from(piece.size)),
            ),
            (
                gimli::DW_AT_decl_file,
                AttributeValue::FileIndex(Some(file)),
            ),
            (
                gimli::DW_AT_decl_line,
                AttributeValue::Udata(u64::from(line)),
            ),
            (gimli::DW_AT_frame_base, AttributeValue::Exprloc(frame)),
        ];
        for (at, value) in values {
            unit.get_mut(entry).set(at, value);
        }
    }
    dwarf
}

/// The frame description of a raw function.
fn steps_to_fde(address: Address, size: u32, steps: &[(u32, FrameStep)]) -> FrameDescriptionEntry {
    let mut fde = FrameDescriptionEntry::new(address, size);
    // The return address is there already.
    let mut depth = 8;
    for &(offset, step) in steps {
        let mut say = |instruction| fde.add_instruction(offset, instruction);
        match step {
            FrameStep::Push(reg) => {
                depth += 8;
                say(CallFrameInstruction::CfaOffset(depth));
                say(CallFrameInstruction::Offset(dwarf_register(reg), -depth));
            }
            FrameStep::SetFrame => say(CallFrameInstruction::CfaRegister(X86_64::RBP)),
            FrameStep::PopFrame => {
                depth -= 8;
                say(CallFrameInstruction::Cfa(X86_64::RSP, depth));
                say(CallFrameInstruction::Restore(X86_64::RBP));
            }
            FrameStep::Pop(reg) => {
                depth -= 8;
                say(CallFrameInstruction::CfaOffset(depth));
                say(CallFrameInstruction::Restore(dwarf_register(reg)));
            }
        }
    }
    fde
}

/// DWARF's number of a general purpose register.
fn dwarf_register(reg: u8) -> Register {
    match reg {
        1 => X86_64::RCX,
        2 => X86_64::RDX,
        3 => X86_64::RBX,
        4 => X86_64::RSP,
        5 => X86_64::RBP,
        6 => X86_64::RSI,
        7 => X86_64::RDI,
        same => Register(u16::from(same)),
    }
}

//! What debuggers read: line tables that point into the program's text, and a frame for every function.

use super::native::{self, Compiled};
use gimli::{BaseAddresses, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, UnwindSection};
use irc::driver::{Program, name_weights};
use irc::link;
use irc::syntax::print;
use irc::target::Cpu;
use irc::tensor::{Tensor, Weights};
use libtest_mimic::Trial;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};

/// Kernels, parallel loops, plain loops, a graph function, and a weight.
const TEXT: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 20), dtype="float32"), w: R.Tensor((20,), dtype="float32")):
        R.func_attr({"num_input": 1})
        n = T.int64()
        return (R.exp(x * w), R.argsort(x))
"#;

type Bytes<'d> = EndianSlice<'d, LittleEndian>;
type Elf<'d> = ElfFile64<'d, Endianness>;

/// The tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result<(), String>| {
        Trial::test(format!("debug:{name}"), move || {
            test().map_err(|fault| fault.into())
        })
    };
    vec![
        trial(
            "lines_point_into_the_printed_program",
            lines_point_into_text,
        ),
        trial("every_function_has_a_frame", functions_have_frames),
        trial("the_same_input_gives_the_same_bytes", same_bytes),
    ]
}

fn compiled() -> Result<Compiled, String> {
    let mut weights = Weights::new();
    let values: Vec<f32> = (0..20u8).map(f32::from).collect();
    let tensor = Tensor::from_vec(vec![20], &values).ok_or("no tensor")?;
    weights.insert("w", tensor);
    let module = super::laws::parse_clean(TEXT)?;
    native::compile(Program { module, weights }, Cpu::V3).map_err(|fault| native::say(&fault))
}

fn lines_point_into_text() -> Result<(), String> {
    let compiled = compiled()?;
    let program = link::read_program(&compiled.bytes).ok_or("there is no program")?;
    // As `irc print` shows it.
    let mut module = super::laws::parse_clean(&program)?;
    name_weights(&mut module, "some.so", &"1".repeat(64));
    let text = print(&module);
    let lines: Vec<&str> = text.lines().collect();
    let of_func = rows(&compiled.bytes).map_err(|error| error.to_string())?;
    let all: BTreeSet<u64> = of_func.values().flatten().copied().collect();
    for line in &all {
        let text = lines
            .get(*line as usize - 1)
            .ok_or("a line behind the end")?;
        if text.trim().is_empty() || text.trim() == ")" {
            return Err(format!("line {line} holds nothing"));
        }
    }
    let has = |func: &str, part: &str| {
        of_func.iter().any(|(name, found)| {
            name.contains(func)
                && found
                    .iter()
                    .any(|line| lines[*line as usize - 1].contains(part))
        })
    };
    for (func, part) in [
        ("kernel", "T.exp("),
        ("irc.main", "cls."),
        ("irc.main", "def main("),
        (".par.", "T.parallel("),
        ("irc.argsort", "left_at"),
    ] {
        if !has(func, part) {
            return Err(format!(
                "no line of `{func}` holds `{part}`: {of_func:?}\n{text}"
            ));
        }
    }
    Ok(())
}

fn functions_have_frames() -> Result<(), String> {
    let compiled = compiled()?;
    let file = Elf::parse(&*compiled.bytes).map_err(|error| error.to_string())?;
    let section = |name: &str| {
        let section = file.section_by_name(name).ok_or(format!("no `{name}`"))?;
        let data = section.data().map_err(|error| error.to_string())?;
        Ok::<_, String>((section.address(), data))
    };
    let (at, header) = section(".eh_frame_hdr")?;
    let (frames_at, frames) = section(".eh_frame")?;
    let bases = BaseAddresses::default()
        .set_eh_frame_hdr(at)
        .set_eh_frame(frames_at);
    let parsed = EhFrameHdr::new(header, LittleEndian)
        .parse(&bases, 8)
        .map_err(|error| error.to_string())?;
    let table = parsed.table().ok_or("no table")?;
    let frames = EhFrame::new(frames, LittleEndian);
    let mut n_funcs = 0;
    for symbol in file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text)
    {
        let name = symbol.name().unwrap_or_default();
        let fde = table
            .fde_for_address(&frames, &bases, symbol.address(), EhFrame::cie_from_offset)
            .map_err(|error| format!("{name}: {error}"))?;
        if (fde.initial_address(), fde.len()) != (symbol.address(), symbol.size()) {
            return Err(format!("the frame of `{name}` is another function's"));
        }
        n_funcs += 1;
    }
    if n_funcs < 10 {
        return Err(format!("{n_funcs} functions"));
    }
    Ok(())
}

fn same_bytes() -> Result<(), String> {
    if compiled()?.bytes == compiled()?.bytes {
        Ok(())
    } else {
        Err("two builds differ".into())
    }
}

/// The lines of each function.
fn rows(library: &[u8]) -> Result<BTreeMap<String, BTreeSet<u64>>, Box<dyn std::error::Error>> {
    let file = Elf::parse(library)?;
    let load = |id: gimli::SectionId| -> Result<Bytes<'_>, gimli::Error> {
        let section = file.section_by_name(id.name());
        let data = section.and_then(|section| section.data().ok());
        Ok(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
    };
    let dwarf = gimli::Dwarf::load(load)?;
    let mut res: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let program = unit.line_program.clone().ok_or("no lines")?;
        let mut rows = program.rows();
        while let Some((_, row)) = rows.next_row()? {
            let address = row.address();
            let func = file.symbols().find(|symbol| {
                symbol.address() <= address && address < symbol.address() + symbol.size()
            });
            if let (Some(func), Some(line), false) = (func, row.line(), row.end_sequence()) {
                let lines = res.entry(func.name()?.to_owned()).or_default();
                lines.insert(line.get());
            }
        }
    }
    Ok(res)
}

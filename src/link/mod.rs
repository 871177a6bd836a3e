//! Linking: one relocatable object in, a shared object out, with no linker on the machine.
//!
//! `plan` reads the object and gives everything an address, `relocate` patches the bytes, `elf` writes the file,
//! `params` writes weights that stay outside of it, `unwind` the table of frames. The text of the program travels in the section
//! [`PROGRAM_SECTION`], which is not loaded. Weights come last in the file, in a segment of their own, and are
//! streamed: they are never copied in memory. The same input gives the same bytes, whatever the folder or the time.
//!
//! The linker defines two data symbols for the object:
//! `irc_weights`, one pointer a weight (null when the weights are in a file beside the library), and
//! `irc_weights_info`, `u64`s: number of weights, 1 when they are beside the library, bytes of all of them, the four
//! words of their sha256, then the offset of each.

mod elf;
mod params;
mod plan;
mod relocate;
mod unwind;

use std::io::{self, Seek, Write};

use object::{Object as _, ObjectSection as _};

use crate::codegen::runtime::PARAMS_HEADER_BYTES;
use crate::tensor::{MappedFile, Weight, Weights};

/// The section that holds the text of the program.
pub const PROGRAM_SECTION: &str = ".irc.program";

/// The section that says what the weights are, JSON.
const NAMES_SECTION: &str = ".irc.names";

/// The section of embedded weights.
const WEIGHTS_SECTION: &str = ".weights";

/// Why an object cannot be made a shared object.
#[derive(Debug)]
pub enum LinkError {
    /// The object is not what code generation makes.
    Object(String),
    /// Writing failed.
    Io(io::Error),
}

impl std::fmt::Display for LinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Object(message) => write!(f, "cannot link: {message}"),
            Self::Io(error) => write!(f, "cannot write: {error}"),
        }
    }
}

impl std::error::Error for LinkError {}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<object::read::Error> for LinkError {
    fn from(error: object::read::Error) -> Self {
        Self::Object(error.to_string())
    }
}

impl From<object::write::Error> for LinkError {
    fn from(error: object::write::Error) -> Self {
        Self::Object(error.to_string())
    }
}

/// Where the bytes of the weights go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WeightPlace {
    /// Into the shared object.
    Embedded,
    /// Into a file beside it, which [`write_params`] writes; it gives this sha256 of them.
    Sidecar([u8; 32]),
}

/// What a shared object is made of.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// The relocatable object.
    pub object: &'a [u8],
    /// The weights in the order of the table `irc_weights`.
    pub weights: &'a [Weight],
    /// Their names.
    pub names: &'a [String],
    /// Where they go.
    pub place: WeightPlace,
    /// The text of the program.
    pub program: &'a str,
}

/// Writes the shared object of `parts`.
///
/// # Errors
/// When the object asks for what is not supported, or writing fails.
pub fn write_shared(parts: &Parts<'_>, out: &mut dyn Write) -> Result<(), LinkError> {
    let file = object::read::elf::ElfFile64::<object::LittleEndian>::parse(parts.object)?;
    let layout = params::Layout::new(parts.weights);
    let mut plan = plan::Plan::new(&file, parts, &layout)?;
    let names = elf::Names::new(&plan);
    let mut buffer = object::write::StreamingBuffer::new(io::BufWriter::new(out));
    let mut writer = object::write::elf::Writer::new(object::Endianness::Little, true, &mut buffer);
    // Addresses hold from here on.
    let frame = elf::reserve(&mut writer, &names, &mut plan)?;
    relocate::apply(&file, &mut plan, &layout)?;
    unwind::fill(&mut plan)?;
    elf::emit(&mut writer, &plan, &frame)?;
    if frame.weights.is_some() {
        let write = |bytes: &[u8]| {
            writer.write(bytes);
            Ok(())
        };
        params::stream(&layout, parts.weights, |_| {}, write)?;
    }
    Ok(buffer.flush()?)
}

/// The table `irc_weights_info` of weights that lie in the object itself.
pub fn weights_info(weights: &[Weight]) -> Vec<u8> {
    params::Layout::new(weights).info(None)
}

/// Writes the weights as the file that a library with [`WeightPlace::Sidecar`] looks for beside itself, and gives their
/// sha256.
///
/// # Errors
/// When writing fails.
pub fn write_params(weights: &[Weight], out: &mut (impl Write + Seek)) -> io::Result<[u8; 32]> {
    params::write(&params::Layout::new(weights), weights, out)
}

/// The text of the program inside a shared object that irc made; `None` when there is none.
pub fn read_program(library: &[u8]) -> Option<String> {
    read_text(library, PROGRAM_SECTION)
}

/// The manifest inside a shared object that irc made, JSON; `None` when there is none.
pub fn read_manifest(library: &[u8]) -> Option<String> {
    let text = read_text(library, crate::codegen::MANIFEST_SECTION)?;
    Some(text.trim_end_matches('\0').to_owned())
}

/// The weights inside a shared object that irc made, or those of the params file beside it, mapped.
///
/// # Errors
/// The library is not one of irc's, or its params file is needed and not given.
pub fn read_weights(library: &MappedFile, beside: Option<MappedFile>) -> Result<Weights, String> {
    let names = read_text(library, NAMES_SECTION).ok_or("it is no library that irc made")?;
    let file = object::read::elf::ElfFile64::<object::LittleEndian>::parse(&**library)
        .map_err(|error| error.to_string())?;
    let embedded = file
        .section_by_name(WEIGHTS_SECTION)
        .and_then(|section| section.file_range());
    match (embedded, beside) {
        (Some((start, _)), _) => params::read(&names, library, start as usize),
        (None, _) if names == "[]" => Ok(Weights::new()),
        (None, Some(beside)) => params::read(&names, &beside, PARAMS_HEADER_BYTES as usize),
        (None, None) => Err("its weights are in a params file, which is not there".to_owned()),
    }
}

fn read_text(library: &[u8], section: &str) -> Option<String> {
    let file = object::read::elf::ElfFile64::<object::LittleEndian>::parse(library).ok()?;
    let data = file.section_by_name(section)?.data().ok()?;
    String::from_utf8(data.to_vec()).ok()
}

#[cfg(test)]
mod tests;

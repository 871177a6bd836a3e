//! A program written out: text with its weights beside it, or an ONNX file.

use std::path::Path;

use super::Exit;
use super::export;
use super::output::write_program;
use super::report::{Failure, Session};
use crate::driver::{self, Program};
use crate::library::Library;

/// Writes a program: an ONNX file where `output` ends in `.onnx`, text otherwise.
///
/// # Errors
/// A file cannot be written.
pub fn save(
    mut program: Program,
    output: Option<&Path>,
    lib: &Library,
    session: &mut Session,
) -> Result<Exit, Failure> {
    match output {
        Some(path) if path.extension().is_some_and(|suffix| suffix == "onnx") => {
            export::write_model(program, &export::Options::plain(path), lib, session)
        }
        _ => {
            if program.weights.is_empty() {
                driver::remove_attr(&mut program.module, "irc.params");
            }
            write_program(output, &mut program, session)?;
            Ok(Exit::Good)
        }
    }
}

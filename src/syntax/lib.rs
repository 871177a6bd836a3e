//! Text to syntax tree and back. No IO, no meaning.

pub mod ast;
pub mod diag;
pub mod dtype;
pub mod make;

pub use ast::*;
pub use diag::{Diagnostic, Edit, Help, Label, Severity};
pub use dtype::DType;

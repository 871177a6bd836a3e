//! Text to syntax tree and back. No IO, no meaning.

mod actions;
pub mod ast;
mod attach;
mod depth;
pub mod diag;
pub mod dtype;
pub mod explain;
mod layout;
pub mod literal;
pub mod make;
pub mod names;
pub mod ops;
pub mod parse;
pub mod print;
mod print_expr;
pub mod render;
pub mod same;
pub mod source;
pub mod token;
mod tvm;
pub mod uses;
pub mod visit;
mod wording;

#[allow(clippy::all, clippy::pedantic, unused_qualifications, missing_docs)]
mod grammar {
    include!(concat!(env!("OUT_DIR"), "/irc.rs"));
}

pub use ast::*;
pub use diag::{Diagnostic, Edit, Help, Label, Severity};
pub use dtype::DType;
pub use names::NameSupply;
pub use parse::{parse, parse_expr_str};
pub use print::{Dialect, PrintOptions, print, print_expr, print_func, print_stmt, print_with};
pub use render::{Colour, Format, render};
pub use same::{Same, is_identical};
pub use source::SourceMap;
pub use visit::{Visit, VisitMut};

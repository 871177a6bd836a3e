//! irc: a textual tensor language with symbolic shapes, and its compiler. Reading order is the order below;
//! each module uses only those above it. `driver` holds the pipeline as one list.

pub use irc_syntax as syntax;

pub mod shape;
pub mod tensor;
pub mod library;
pub mod check;
pub mod interp;
pub mod opt;
pub mod sched;
pub mod codegen;
pub mod link;
pub mod onnx;
pub mod driver;
pub mod cli;

//! irc: a textual tensor language with symbolic shapes, and its compiler. Reading order is the order below;
//! each module uses only those above it. `driver` holds the pipeline as one list.

pub use irc_syntax as syntax;

pub mod check;
pub mod cli;
pub mod codegen;
pub mod diff;
pub mod driver;
pub mod edit;
pub mod export;
pub mod interp;
pub mod library;
pub mod link;
pub mod onnx;
pub mod opt;
pub mod sched;
pub mod shape;
pub mod target;
pub mod tensor;

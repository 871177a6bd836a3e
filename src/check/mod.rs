//! Types and names.

mod types;

pub use types::*;

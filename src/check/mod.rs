//! Types and names.

pub mod annotation;
pub mod expand;
mod module;
pub mod prim;
mod scope;
mod suggest;
#[cfg(test)]
mod tests;
mod types;

pub use annotation::{type_from_expr, type_to_expr};
pub use module::check;
pub use scope::FuncScope;
pub use suggest::closest;
pub use types::*;

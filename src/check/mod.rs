//! The checker: what every name and expression is, and everything that is wrong with a module.
//!
//! [`check`] walks a module; [`prim`] has the primitives and their type rules, [`expand`] evaluates the functions of
//! the library, [`FuncScope`] types expressions that a pass builds.

mod agree;
pub mod annotation;
pub mod expand;
mod func_scope;
pub mod intrinsics;
pub mod loop_body;
mod loop_call;
mod loops;
mod module;
pub mod prim;
mod scope;
mod signature;
pub mod stage;
mod stated;
mod suggest;
mod types;

pub use agree::{join, substitute};
pub use annotation::{type_from_expr, type_to_expr};
pub use expand::symbols_of;
pub use func_scope::FuncScope;
pub use loop_call::body_of;
pub use module::check;
pub use prim::element_type;
pub use stated::dims_attr;
pub use suggest::closest;
pub use types::*;

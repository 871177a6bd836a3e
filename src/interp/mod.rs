//! The reference interpreter: what programs of both levels mean, plainly.
//!
//! `kernels` are functions of tensors, `prim` gives each primitive its kernel, `graph` runs `@R.function`s, `loops` runs
//! `@T.prim_func`s. Compiled code, passes and folding of constants are tested against what is computed here.

mod control;
mod graph;
mod kernels;
mod loops;
mod prim;
mod value;
mod while_loop;

pub use graph::{Watch, run_func, run_watched};
pub use loops::run_prim_func;
pub(crate) use loops::run_prim_func_of;
pub use prim::eval_prim;
pub use value::{RunError, Value};

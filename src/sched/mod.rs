//! The automatic schedule: prim_funcs in block form become loops, vectors, tiles and kernel regions.
//!
//! `nest` reads block form, `build` makes text; `vectorize`, `tile` (with `packing`, `pairs` and `inside`), `winograd`,
//! `fuse_rows`, `beside`, `bands` (with `deferred` and `copied`), `padded` and `parallelize` are the primitives; `by_hand` has those of authors; `worth` notes what
//! parallel loops are worth. Each checks its conditions whole and refuses what it does not
//! understand; what every one refuses stays in block form, which codegen takes as well. Tests interpret functions before
//! and after (`tests/sched`).

mod auto;
mod bands;
mod beside;
mod build;
pub mod by_hand;
pub mod choice;
mod copied;
pub mod costs;
mod deferred;
mod fuse_rows;
mod inside;
mod look_up;
mod nest;
mod pack;
mod packing;
mod padded;
mod pairs;
mod panels;
mod parallelize;
mod tile;
pub mod tuned;
mod turns;
mod vectorize;
mod winograd;
pub mod worth;

#[cfg(test)]
mod tests;

pub use auto::schedule_func;
pub use pack::PASS;

/// What code is made for: the vector unit, whether sums stay as they are written, and what is chosen for the function that is
/// scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// Lanes of 32 bits in a vector register.
    pub lanes: i64,
    /// Vector registers that a tile may fill; the emitter keeps one for itself.
    pub registers: i64,
    /// What was chosen.
    pub choice: choice::Choice,
    /// Whether every sum is taken term by term in the order of the text.
    pub exact: bool,
}

impl Target {
    /// AVX2.
    pub const AVX2: Self = Self {
        lanes: 8,
        registers: 15,
        choice: choice::Choice::FORMULA,
        exact: false,
    };
    /// AVX-512.
    pub const AVX512: Self = Self {
        lanes: 16,
        registers: 31,
        choice: choice::Choice::FORMULA,
        exact: false,
    };
    /// 128-bit vectors.
    pub const SIMD128: Self = Self {
        lanes: 4,
        registers: 15,
        choice: choice::Choice::FORMULA,
        exact: false,
    };

    /// Rows of a tile whose panels are two vectors wide: the sums, two vectors of one operand and one of the other.
    pub fn tile_rows(self) -> i64 {
        ((self.registers - 3) / 2).clamp(1, 14)
    }

    /// Operations that a task should have.
    fn grain(&self) -> i64 {
        self.choice.grain.unwrap_or(parallelize::GRAIN).max(1)
    }
}

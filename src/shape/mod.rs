//! Symbolic integers: extents of tensors, offsets, and what is known about their symbols.
//!
//! A [`Dim`] is an integer polynomial over atoms (symbols, floor-div, mod, min, max) in one normal form, so that
//! equal polynomials are equal values. [`Facts`] holds ranges, divisibility and equalities of symbols and answers
//! questions in three values: proved, disproved, not decided.

mod arith;
mod dim;
mod facts;
#[cfg(test)]
mod tests;
mod text;

pub use dim::Dim;
pub use facts::{Facts, Range, SymbolFacts};

//! Symbolic integers.

/// Facts on symbols.
#[derive(Clone, Debug, Default)]
pub struct Facts {}

/// An extent.
#[derive(Clone, PartialEq, Debug)]
pub struct Dim {}

//! House rules that a machine can check.

use libtest_mimic::Trial;

/// The tests of the house rules.
pub fn trials() -> Vec<Trial> {
    Vec::new()
}

//! The one test binary: every test is a file, or a section of one. `README.md` beside this file has the format.
//!
//! `cargo test -- PATH` runs the tests whose name holds PATH; `BLESS=1 cargo test -- PATH` writes what came out into
//! the files.

mod harness;
mod tidy;

use libtest_mimic::{Arguments, Trial};

fn main() -> std::process::ExitCode {
    let mut trials: Vec<Trial> = harness::trials();
    trials.extend(tidy::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

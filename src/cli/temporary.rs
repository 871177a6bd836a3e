//! Shared objects that live as long as a command.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::output::write_file;
use super::report::Failure;
use crate::codegen::Target;
use crate::driver::{self, Fault, Observer, Program};
use crate::library::Library;
use crate::link::WeightPlace;

/// A shared object that is removed when it is dropped.
pub struct Temporary(PathBuf);

impl Temporary {
    /// Builds a program. What is wrong with the program is the inner error.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn build(
        program: Program,
        target: &Target,
        lib: &Library,
    ) -> Result<Result<Self, Fault>, Failure> {
        Self::build_seen(program, target, lib, &mut |_, _, _| {})
    }

    /// Builds a program under the eyes of an observer.
    ///
    /// # Errors
    /// As [`Temporary::build`].
    pub fn build_seen(
        program: Program,
        target: &Target,
        lib: &Library,
        observer: Observer<'_>,
    ) -> Result<Result<Self, Fault>, Failure> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let built = driver::build(program, target, lib, observer).and_then(|artefact| {
            let mut bytes = Vec::new();
            driver::write_shared(&artefact, WeightPlace::Embedded, &mut bytes)?;
            Ok(bytes)
        });
        let bytes = match built {
            Ok(bytes) => bytes,
            Err(fault) => return Ok(Err(fault)),
        };
        let name = format!(
            "irc-{}-{}.so",
            std::process::id(),
            MADE.fetch_add(1, Ordering::Relaxed)
        );
        let made = Self(std::env::temp_dir().join(name));
        write_file(&made.0, &bytes)?;
        Ok(Ok(made))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

//! What can be wrong with an ONNX file, and how it is said.
//!
//! A structural fault ends the import at once: one error that names the node or tensor and the two facts that
//! clash. What is valid but not supported is gathered, so that all of it is listed in one run.

use irc_syntax::diag::Diagnostic;

/// Whose fault it is; the command line's exit code follows from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FailureKind {
    /// The file is broken, contradicts itself, or reaches where it may not.
    Malformed,
    /// A file it names cannot be read.
    Io,
    /// The model is valid, and has parts that irc does not know.
    Unsupported,
}

/// Why an import failed.
#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    /// Whose fault it is.
    pub kind: FailureKind,
    /// One for a broken file; one for each part that is not supported.
    pub diagnostics: Vec<Diagnostic>,
}

impl Failure {
    /// The file is not a model at all.
    pub fn unreadable(message: impl Into<String>) -> Self {
        Self::malformed("onnx-unreadable", message)
    }

    /// The file contradicts itself.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::malformed("onnx-invalid", message)
    }

    /// A tensor's data are not what its type says.
    pub fn tensor(message: impl Into<String>) -> Self {
        Self::malformed("onnx-tensor", message)
    }

    /// External data that may not be read.
    pub fn external(message: impl Into<String>) -> Self {
        Self::malformed("onnx-external-data", message)
    }

    /// One part that is not supported.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Unsupported,
            diagnostics: vec![Diagnostic::error("onnx-unsupported", message)],
        }
    }

    /// The same with one more fact.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        if let Some(last) = self.diagnostics.pop() {
            self.diagnostics.push(last.note(text));
        }
        self
    }

    fn malformed(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Malformed,
            diagnostics: vec![Diagnostic::error(code, message)],
        }
    }
}

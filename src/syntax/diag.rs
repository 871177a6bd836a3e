//! What irc says about a user's text: a code, a message, the places, and a fix where there is one.
//!
//! Each code has one constructor function beside the check that raises it. Wording: lower case, no final
//! period; what is there, then what was needed; the user's own names in backticks. `EXPLANATIONS` holds one
//! paragraph a code for `irc explain`. `render.rs` writes diagnostics out.

use crate::ast::Span;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The text has no meaning as it stands.
    Error,
    /// It has one, and probably not the one that was meant.
    Warning,
    /// A remark.
    Note,
}

/// A place that has to do with the fault, with at most six words.
#[derive(Clone, PartialEq, Debug)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What is there.
    pub text: String,
}

/// A text replacement that mends a fault.
#[derive(Clone, PartialEq, Debug)]
pub struct Edit {
    /// What is replaced; an empty range inserts.
    pub span: Span,
    /// The new text.
    pub text: String,
}

/// Advice, as an imperative; an editor applies `edit` as a quick fix.
#[derive(Clone, PartialEq, Debug)]
pub struct Help {
    /// The advice.
    pub text: String,
    /// The change that follows it.
    pub edit: Option<Edit>,
}

/// One fault.
#[derive(Clone, PartialEq, Debug)]
pub struct Diagnostic {
    /// Kebab-case name of the fault: `dim-mismatch`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// One line.
    pub message: String,
    /// Where it shows.
    pub primary: Option<Label>,
    /// Every other place that has part in it.
    pub related: Vec<Label>,
    /// Facts without a place.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Option<Help>,
}

impl Diagnostic {
    /// An error of a code, with its message.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            message: message.into(),
            primary: None,
            related: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// The same with its place; nothing is shown for a node that has none.
    pub fn at(mut self, span: Option<Span>, text: impl Into<String>) -> Self {
        self.primary = span.map(|span| Label {
            span,
            text: text.into(),
        });
        self
    }

    /// The same with one more related place.
    pub fn related(mut self, span: Option<Span>, text: impl Into<String>) -> Self {
        self.related.extend(span.map(|span| Label {
            span,
            text: text.into(),
        }));
        self
    }

    /// The same with one more fact.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// The same with advice and, where the place is known, the edit that follows it.
    pub fn help(mut self, text: impl Into<String>, edit: Option<Edit>) -> Self {
        self.help = Some(Help {
            text: text.into(),
            edit,
        });
        self
    }
}

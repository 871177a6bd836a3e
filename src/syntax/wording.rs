//! What the parser's faults are called.

use crate::ast::{FileId, Span};
use crate::diag::Diagnostic;
use crate::token::Tok;
use lalrpop_util::ParseError;

/// The sentence for a fault of the generated parser; nothing where the lexer or layout has spoken.
pub fn parse_error(
    text: &str,
    file: FileId,
    error: &ParseError<u32, Tok<'_>, ()>,
) -> Option<Diagnostic> {
    let (lo, tok, hi) = match error {
        ParseError::UnrecognizedToken { token, .. } | ParseError::ExtraToken { token } => *token,
        ParseError::UnrecognizedEof { location, .. } | ParseError::InvalidToken { location } => {
            (*location, Tok::Newline, *location)
        }
        ParseError::User { .. } => return None,
    };
    if tok == Tok::Bad {
        return None;
    }
    let found = tok.describe(&text[lo as usize..hi as usize]);
    let span = Some(Span { file, lo, hi });
    Some(Diagnostic::error("syntax", format!("unexpected {found}")).at(span, "not expected here"))
}

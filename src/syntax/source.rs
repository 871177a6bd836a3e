//! The texts that spans point into, with their names and lines.

use crate::ast::{FileId, Span};
use std::num::NonZeroU32;
use std::sync::Arc;

/// One text and where its lines start.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path as the user gave it.
    pub path: String,
    /// The text.
    pub text: Arc<str>,
    /// The first byte of each line.
    line_starts: Vec<u32>,
}

/// Every text of one run.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// A map without texts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text and gives the id that spans carry. Texts above 4 GiB are cut.
    pub fn add(&mut self, path: impl Into<String>, text: &str) -> FileId {
        let mut end = text.len().min(u32::MAX as usize);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text: Arc<str> = Arc::from(&text[..end]);
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = std::iter::once(0)
            .chain(newlines.map(|(at, _)| at as u32 + 1))
            .collect();
        self.files.push(SourceFile {
            path: path.into(),
            text,
            line_starts,
        });
        FileId(NonZeroU32::new(self.files.len() as u32).unwrap_or(NonZeroU32::MIN))
    }

    /// The text of an id of this map.
    pub fn file(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(id.0.get() as usize - 1)
    }

    /// The written text of a place.
    pub fn text(&self, span: Span) -> &str {
        self.file(span.file)
            .and_then(|file| file.text.get(span.lo as usize..span.hi as usize))
            .unwrap_or_default()
    }

    /// `path:line:column` of the start of a place.
    pub fn place(&self, span: Span) -> String {
        match self.file(span.file) {
            Some(file) => {
                let (line, column) = file.line_column(span.lo);
                format!("{}:{line}:{column}", file.path)
            }
            None => "unknown place".into(),
        }
    }
}

impl SourceFile {
    /// The line and the column in characters of a byte, both from 1.
    pub fn line_column(&self, at: u32) -> (usize, usize) {
        let line = self.line_starts.partition_point(|start| *start <= at);
        let start = self.line_starts.get(line - 1).copied().unwrap_or(0) as usize;
        let before = self.text.get(start..at as usize).unwrap_or_default();
        (line, before.chars().count() + 1)
    }

    /// A line's text without its end, from 1.
    pub fn line(&self, line: usize) -> &str {
        let start = self.line_starts.get(line - 1).copied().unwrap_or(0) as usize;
        let rest = self.text.get(start..).unwrap_or_default();
        rest.lines().next().unwrap_or_default()
    }
}

//! Lines and blocks: logos tokens in, the grammar's tokens out.
//!
//! Newlines inside brackets and blank lines vanish, indentation becomes `Indent` and `Dedent`, comments and blank
//! lines go to a side list for `attach.rs`. What comes out is always well formed: every logical line ends in
//! `Newline`, every `Indent` has its `Dedent`, every bracket that is opened is closed or followed by `Bad` on
//! its line. What was not so in the text has been reported here, and `Bad` tells the parser to be silent.
//!
//! Nesting is bounded (`MAX_NESTING`), so that no later walk over the tree can exhaust the stack.

use crate::ast::{FileId, Span};
use crate::depth::Depth;
use crate::diag::Diagnostic;
use crate::token::{LexError, Tok};
use logos::{Lexer, Logos};
use std::collections::VecDeque;

/// How deep operators and brackets of one expression, or blocks, may nest.
pub const MAX_NESTING: u32 = 256;

/// A token with its byte range.
pub type Spanned<'a> = (u32, Tok<'a>, u32);

/// A comment or blank line, where it stands.
#[derive(Clone, Copy, Debug)]
pub struct RawTrivia<'a> {
    /// First byte of the comment, or of the empty line.
    pub at: u32,
    /// The column of a comment, in characters.
    pub column: u32,
    /// The comment without `#`; `None` for a blank line.
    pub text: Option<&'a str>,
    /// Whether nothing stands before it on its line.
    pub own_line: bool,
    /// Whether it stands inside brackets.
    pub is_inside: bool,
}

/// The token stream of one text.
pub struct Layout<'a> {
    text: &'a str,
    file: FileId,
    lexer: Lexer<'a, Tok<'a>>,
    /// One token of look-ahead behind the lexer.
    ahead: Option<Raw<'a>>,
    queue: VecDeque<Spanned<'a>>,
    blocks: Vec<Block>,
    brackets: Vec<Bracket<'a>>,
    line: Line<'a>,
    previous: Line<'a>,
    /// A column that was reported and is read as the current block's.
    tolerated: Option<u32>,
    /// How deep the expression is up to here, inside its innermost bracket.
    depth: Depth,
    /// Nesting of blocks and of `elif` chains.
    block_weight: u32,
    /// One past the last token.
    line_end: u32,
    /// Whether no token has been seen on this line of the text.
    fresh: bool,
    finished: bool,
    has_tab: bool,
    /// What was wrong with the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The first byte of each statement.
    pub line_starts: Vec<u32>,
    /// The first bytes of statements with a fault that has been reported here.
    pub bad_lines: Vec<u32>,
    /// Comments and blank lines in order.
    pub trivia: Vec<RawTrivia<'a>>,
}

type Raw<'a> = (Result<Tok<'a>, LexError>, u32, u32);

/// An open block: its column and how many `elif` were met in it.
struct Block {
    column: u32,
    elifs: u32,
}

/// An open bracket, with the depth around it.
struct Bracket<'a> {
    tok: Tok<'a>,
    at: u32,
    depth: Depth,
}

/// What is remembered of a logical line.
#[derive(Clone, Copy, Default)]
struct Line<'a> {
    first: Option<Tok<'a>>,
    last: Option<Tok<'a>>,
    column: u32,
    start: u32,
    has_colon: bool,
    /// Whether a fault made the rest of the line meaningless.
    is_bad: bool,
}

impl Line<'_> {
    fn starts_block(&self) -> bool {
        use Tok::{Class, Def, Elif, Else, For, If, While, With};
        matches!(
            self.first,
            Some(If | Elif | Else | For | While | With | Def | Class)
        )
    }

    fn wants_block(&self) -> bool {
        self.last == Some(Tok::Colon)
    }

    fn may_have_block(&self) -> bool {
        self.wants_block() || (self.starts_block() && !self.has_colon)
    }
}

impl<'a> Layout<'a> {
    /// The stream of a text; `start` is the pseudo token that selects what the grammar reads.
    pub fn new(text: &'a str, file: FileId, start: Tok<'a>) -> Self {
        let mut lexer = Tok::lexer(text);
        if text.starts_with('\u{feff}') {
            lexer.bump('\u{feff}'.len_utf8());
        }
        Self {
            text,
            file,
            lexer,
            ahead: None,
            queue: VecDeque::from([(0, start, 0)]),
            blocks: vec![Block {
                column: 0,
                elifs: 0,
            }],
            brackets: Vec::new(),
            line: Line::default(),
            previous: Line::default(),
            tolerated: None,
            depth: Depth::default(),
            block_weight: 0,
            line_end: 0,
            fresh: true,
            finished: false,
            has_tab: false,
            diagnostics: Vec::new(),
            line_starts: Vec::new(),
            bad_lines: Vec::new(),
            trivia: Vec::new(),
        }
    }

    fn span(&self, lo: u32, hi: u32) -> Option<Span> {
        Some(Span {
            file: self.file,
            lo,
            hi,
        })
    }

    fn read(&mut self) -> Option<Raw<'a>> {
        self.ahead.take().or_else(|| {
            let tok = self.lexer.next()?;
            let range = self.lexer.span();
            Some((tok, range.start as u32, range.end as u32))
        })
    }

    fn peek(&mut self) -> Option<Tok<'a>> {
        if self.ahead.is_none() {
            self.ahead = self.read();
        }
        self.ahead.and_then(|(tok, _, _)| tok.ok())
    }

    /// The column of a byte in characters, and whether a tab stands before it.
    fn column(&self, at: u32) -> (u32, bool) {
        let start = self.text[..at as usize]
            .rfind('\n')
            .map_or(0, |newline| newline + 1);
        let mut column = 0;
        let mut has_tab = false;
        for c in self.text[start..at as usize].chars() {
            if c == '\t' {
                has_tab = true;
                column = column / 8 * 8 + 8;
            } else {
                column += u32::from(c != '\u{feff}');
            }
        }
        (column, has_tab)
    }

    /// Reads tokens until the queue holds some or the text is at its end.
    fn fill(&mut self) {
        while self.queue.is_empty() && !self.finished {
            match self.read() {
                None => self.finish(),
                Some((Ok(Tok::Newline), lo, hi)) => self.newline(lo, hi),
                Some((Ok(Tok::Comment(text)), lo, _)) => self.comment(text, lo),
                Some((Ok(tok), lo, hi)) => self.token(tok, lo, hi),
                Some((Err(error), lo, hi)) => self.lex_error(error, lo, hi),
            }
        }
    }

    fn newline(&mut self, lo: u32, hi: u32) {
        let was_fresh = self.fresh;
        self.fresh = true;
        if was_fresh
            && self.brackets.is_empty()
            && self
                .trivia
                .last()
                .is_none_or(|last| !self.same_line(last.at, lo))
        {
            self.trivia.push(RawTrivia {
                at: lo,
                column: 0,
                text: None,
                own_line: true,
                is_inside: false,
            });
        }
        if self.brackets.is_empty() {
            self.end_line(lo, hi);
        }
    }

    fn same_line(&self, from: u32, to: u32) -> bool {
        !self.text[from as usize..to as usize].contains('\n') && from != to
    }

    fn comment(&mut self, text: &'a str, lo: u32) {
        let (column, _) = self.column(lo);
        self.trivia.push(RawTrivia {
            at: lo,
            column,
            text: Some(text[1..].trim_end()),
            own_line: self.fresh,
            is_inside: !self.brackets.is_empty(),
        });
    }

    /// Ends the logical line, if there is one.
    fn end_line(&mut self, lo: u32, hi: u32) {
        if self.line.first.is_some() {
            self.queue.push_back((lo, Tok::Newline, hi));
            if self.line.is_bad {
                self.bad_lines.push(self.line.start);
            }
            self.previous = std::mem::take(&mut self.line);
        }
        self.depth = Depth::default();
    }

    fn finish(&mut self) {
        self.finished = true;
        let end = self.text.len() as u32;
        self.close_brackets(end);
        self.end_line(end, end);
        if self.previous.wants_block() && !self.previous.is_bad {
            self.missing_block(self.previous.start, end);
        }
        for _ in 1..self.blocks.len() {
            self.queue
                .push_back((self.line_end, Tok::Dedent, self.line_end));
        }
    }

    /// Reports brackets that are open where the statement must have ended.
    fn close_brackets(&mut self, at: u32) {
        let Some(open) = self.brackets.last() else {
            return;
        };
        let text = &self.text[open.at as usize..open.at as usize + 1];
        self.diagnostics.push(
            Diagnostic::error("unclosed-bracket", format!("`{text}` is never closed"))
                .at(self.span(open.at, open.at + 1), "opened here")
                .related(self.span(at, at), "the statement ends before this"),
        );
        self.brackets.clear();
        self.queue.push_back((at, Tok::Bad, at));
        self.line.is_bad = true;
        self.end_line(at, at);
    }

    fn lex_error(&mut self, error: LexError, lo: u32, hi: u32) {
        let text = &self.text[lo as usize..hi as usize];
        let is_quote = text.starts_with(['"', '\'']);
        let diagnostic = if error == LexError::OpenString || is_quote {
            // What follows a lost quote on its line is part of the string.
            let rest = &self.text[lo as usize..];
            let end = lo + rest.find('\n').unwrap_or(rest.len()) as u32;
            self.lexer.bump((end.max(hi) - hi) as usize);
            Diagnostic::error("unclosed-string", "this string has no closing quote")
                .at(self.span(lo, end), "starts here")
        } else {
            let shown: String = text.chars().take(8).collect();
            Diagnostic::error(
                "bad-character",
                format!("`{shown}` is no part of the language"),
            )
            .at(self.span(lo, hi), "not understood")
        };
        if !self.line.is_bad {
            self.diagnostics.push(diagnostic);
        }
        self.token(Tok::Bad, lo, hi);
        self.line.is_bad = true;
    }

    fn token(&mut self, tok: Tok<'a>, lo: u32, hi: u32) {
        if self.fresh && !self.brackets.is_empty() && self.is_new_statement(tok, lo) {
            self.close_brackets(lo);
        }
        if self.line.first.is_none() {
            self.start_line(tok, lo);
            if self.block_weight >= MAX_NESTING {
                self.give_up(lo);
                return;
            }
        }
        self.fresh = false;
        self.line.last = Some(tok);
        self.line_end = hi;
        self.line.has_colon |= tok == Tok::Colon && self.brackets.is_empty();
        let tok = self.track_brackets(tok, lo, hi);
        let tok = self.bound_depth(tok, lo, hi);
        self.queue.push_back((lo, tok, hi));
    }

    /// Whether the first token of a line inside brackets can only be the start of a statement, so that a
    /// bracket above was left open.
    fn is_new_statement(&mut self, tok: Tok<'a>, lo: u32) -> bool {
        use Tok::{Assert, Class, Def, From, Import, Return, While, With};
        let ended_header = self.line.last == Some(Tok::Colon)
            && self.line.starts_block()
            && self
                .brackets
                .last()
                .is_some_and(|open| open.tok == Tok::LParen);
        if ended_header {
            return true;
        }
        if matches!(
            tok,
            Def | Class | Return | With | Import | From | While | Assert
        ) {
            return true;
        }
        let (column, _) = self.column(lo);
        if column > self.line.column {
            return false;
        }
        match tok {
            Tok::For | Tok::If | Tok::Else | Tok::Elif | Tok::Pass => true,
            Tok::Name(_) => matches!(self.peek(), Some(Tok::Assigns | Tok::Colon)),
            Tok::At => matches!(self.peek(), Some(Tok::Name(_))),
            _ => false,
        }
    }

    fn start_line(&mut self, tok: Tok<'a>, lo: u32) {
        let (column, has_tab) = self.column(lo);
        if has_tab && !self.has_tab {
            self.has_tab = true;
            let mut diagnostic =
                Diagnostic::error("tab-indent", "this line is indented with a tab")
                    .at(self.span(lo, lo), "after a tab")
                    .help("indent with 4 spaces; `irc fmt` does it", None);
            diagnostic.severity = crate::diag::Severity::Warning;
            self.diagnostics.push(diagnostic);
        }
        self.line = Line {
            first: Some(tok),
            column,
            start: lo,
            ..Line::default()
        };
        self.line_starts.push(lo);
        self.indent_to(column, lo);
        if tok == Tok::Elif {
            if let Some(block) = self.blocks.last_mut() {
                block.elifs += 1;
                self.block_weight += 1;
            }
        } else if tok != Tok::Else
            && let Some(block) = self.blocks.last_mut()
        {
            self.block_weight -= block.elifs;
            block.elifs = 0;
        }
    }

    /// Ends the text where its blocks nest too deep; what follows is not read.
    fn give_up(&mut self, at: u32) {
        self.diagnostics
            .push(too_deep(self.span(at, at)).note("the text below this line has not been read"));
        self.queue.push_back((at, Tok::Bad, at));
        self.line.is_bad = true;
        self.line_end = at;
        self.end_line(at, at);
        for _ in 1..self.blocks.len() {
            self.queue.push_back((at, Tok::Dedent, at));
        }
        self.finished = true;
    }

    /// Brings the block structure to the column of a new line.
    fn indent_to(&mut self, column: u32, lo: u32) {
        let top = self.blocks.last().map_or(0, |block| block.column);
        let previous = self.previous;
        if self.tolerated == Some(column) && !previous.wants_block() {
            return;
        }
        if column > top && previous.may_have_block() {
            self.tolerated = None;
            self.open_block(column, lo);
            return;
        }
        if previous.wants_block() && !previous.is_bad {
            self.missing_block(previous.start, lo);
        }
        if column > top {
            self.tolerate(
                column,
                lo,
                "unexpected-indent",
                "this line is indented, but no block starts above it",
            );
            return;
        }
        self.tolerated = None;
        while self.blocks.len() > 1
            && self
                .blocks
                .last()
                .is_some_and(|block| block.column > column)
        {
            if let Some(block) = self.blocks.pop() {
                self.block_weight -= block.elifs + 1;
            }
            self.queue
                .push_back((self.line_end, Tok::Dedent, self.line_end));
        }
        if self
            .blocks
            .last()
            .is_some_and(|block| block.column != column)
        {
            self.tolerate(
                column,
                lo,
                "bad-dedent",
                "this indentation matches no block above",
            );
        }
    }

    fn open_block(&mut self, column: u32, lo: u32) {
        self.queue.push_back((lo, Tok::Indent, lo));
        self.blocks.push(Block { column, elifs: 0 });
        self.block_weight += 1;
    }

    fn tolerate(&mut self, column: u32, lo: u32, code: &'static str, message: &str) {
        self.tolerated = Some(column);
        let depth = self.blocks.last().map_or(0, |block| block.column);
        self.diagnostics.push(
            Diagnostic::error(code, message)
                .at(self.span(lo, lo + 1), "indented here")
                .note(format!(
                    "the block around it is indented by {depth}, this line by {column}"
                )),
        );
    }

    fn missing_block(&mut self, header: u32, lo: u32) {
        self.diagnostics.push(
            Diagnostic::error("missing-block", "an indented block must follow this line")
                .at(self.span(header, header + 1), "ends in `:`")
                .help("indent the lines that belong to it, or write `pass`", None),
        );
        self.queue.push_back((lo, Tok::Indent, lo));
        self.queue.push_back((lo, Tok::Dedent, lo));
    }

    fn track_brackets(&mut self, tok: Tok<'a>, lo: u32, hi: u32) -> Tok<'a> {
        match tok {
            Tok::LParen | Tok::LBracket | Tok::LBrace => {
                let inside = self.depth.open();
                self.brackets.push(Bracket {
                    tok,
                    at: lo,
                    depth: std::mem::replace(&mut self.depth, inside),
                });
            }
            Tok::RParen | Tok::RBracket | Tok::RBrace => return self.close(tok, lo, hi),
            _ => self.depth.token(tok),
        }
        tok
    }

    fn close(&mut self, tok: Tok<'a>, lo: u32, hi: u32) -> Tok<'a> {
        let text = &self.text[lo as usize..hi as usize];
        let Some(open) = self.brackets.pop() else {
            if !self.line.is_bad {
                self.diagnostics.push(
                    Diagnostic::error("unopened-bracket", format!("`{text}` closes nothing"))
                        .at(self.span(lo, hi), "no bracket is open here"),
                );
            }
            self.line.is_bad = true;
            return Tok::Bad;
        };
        let inside = std::mem::replace(&mut self.depth, open.depth);
        self.depth.close(&inside);
        let wanted = match open.tok {
            Tok::LParen => ")",
            Tok::LBracket => "]",
            _ => "}",
        };
        if wanted == text {
            return tok;
        }
        if !self.line.is_bad {
            self.diagnostics.push(
                Diagnostic::error(
                    "mismatched-bracket",
                    format!("`{text}` closes a bracket that needs `{wanted}`"),
                )
                .at(self.span(lo, hi), "closed here")
                .related(self.span(open.at, open.at + 1), "opened here"),
            );
        }
        self.line.is_bad = true;
        Tok::Bad
    }

    /// From the limit on, the line is given up.
    fn bound_depth(&mut self, tok: Tok<'a>, lo: u32, hi: u32) -> Tok<'a> {
        if self.depth.total() < MAX_NESTING {
            return tok;
        }
        if !self.line.is_bad {
            self.line.is_bad = true;
            self.diagnostics.push(too_deep(self.span(lo, hi)));
        }
        Tok::Bad
    }
}

fn too_deep(span: Option<Span>) -> Diagnostic {
    Diagnostic::error(
        "too-deep",
        format!("the text nests deeper than {MAX_NESTING} levels"),
    )
    .at(span, "the limit is here")
    .help("bind a part of it to a name", None)
}

impl<'a> Iterator for Layout<'a> {
    type Item = Spanned<'a>;

    fn next(&mut self) -> Option<Spanned<'a>> {
        if self.queue.is_empty() {
            self.fill();
        }
        self.queue.pop_front()
    }
}

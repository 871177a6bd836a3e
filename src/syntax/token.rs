//! The tokens of irc text, and the one list of keywords.
//!
//! `Tok` is what logos finds in the text plus what `layout.rs` adds: `Newline`, `Indent` and `Dedent` follow
//! Python's rules. Names are ASCII. Editor grammars are generated from [`KEYWORDS`], [`RESERVED`] and
//! [`NAMESPACES`].

use logos::{Lexer, Logos};

/// The words with a meaning in the grammar.
pub const KEYWORDS: [&str; 24] = [
    "False", "None", "True", "and", "as", "assert", "break", "class", "continue", "def", "elif",
    "else", "for", "from", "if", "import", "in", "is", "not", "or", "pass", "return", "while",
    "with",
];

/// Words of Python that are no names and have no meaning here.
pub const RESERVED: [&str; 11] = [
    "async", "await", "del", "except", "finally", "global", "lambda", "nonlocal", "raise", "try",
    "yield",
];

/// The namespaces, and the name of the module inside its functions.
pub const NAMESPACES: [&str; 4] = ["I", "R", "T", "cls"];

/// Whether a word may be the name of a value, function or dim.
pub fn is_legal_name(word: &str) -> bool {
    let mut chars = word.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !KEYWORDS.contains(&word)
        && !RESERVED.contains(&word)
        && !NAMESPACES.contains(&word)
}

/// What can be wrong with a piece of text that is no token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LexError {
    /// A character that starts nothing.
    #[default]
    Character,
    /// A string without its closing quote.
    OpenString,
}

/// One token; words and literals carry their text as written.
#[derive(Logos, Clone, Copy, PartialEq, Debug)]
#[logos(error = LexError)]
#[logos(skip r"([ \t\f]|\\\r?\n)+")]
#[allow(missing_docs)]
pub enum Tok<'a> {
    #[token("False")]
    False,
    #[token("None")]
    None,
    #[token("True")]
    True,
    #[token("and")]
    And,
    #[token("as")]
    As,
    #[token("assert")]
    Assert,
    #[token("break")]
    Break,
    #[token("class")]
    Class,
    #[token("continue")]
    Continue,
    #[token("def")]
    Def,
    #[token("elif")]
    Elif,
    #[token("else")]
    Else,
    #[token("for")]
    For,
    #[token("from")]
    From,
    #[token("if")]
    If,
    #[token("import")]
    Import,
    #[token("in")]
    In,
    #[token("is")]
    Is,
    #[token("not")]
    Not,
    #[token("or")]
    Or,
    #[token("pass")]
    Pass,
    #[token("return")]
    Return,
    #[token("while")]
    While,
    #[token("with")]
    With,
    /// A word of Python that is not in the language.
    #[regex("async|await|del|except|finally|global|lambda|nonlocal|raise|try|yield")]
    Reserved(&'a str),

    #[regex("[A-Za-z_][A-Za-z0-9_]*")]
    Name(&'a str),
    #[regex(r"[0-9][0-9_]*|0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+")]
    Int(&'a str),
    #[regex(r"[0-9][0-9_]*\.[0-9_]*([eE][+-]?[0-9]+)?")]
    #[regex(r"\.[0-9][0-9_]*([eE][+-]?[0-9]+)?")]
    #[regex(r"[0-9][0-9_]*[eE][+-]?[0-9]+")]
    Float(&'a str),
    #[regex(r#""([^"\\\n]|\\.|\\\n)*""#)]
    #[regex(r#"'([^'\\\n]|\\.|\\\n)*'"#)]
    #[token("\"\"\"", scan_triple)]
    #[token("'''", scan_triple)]
    Str(&'a str),

    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("[")]
    LBracket,
    #[token("]")]
    RBracket,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    #[token(",")]
    Comma,
    #[token(":")]
    Colon,
    #[token(".")]
    Dot,
    #[token("...")]
    Ellipsis,
    #[token("=")]
    Assigns,
    #[token("->")]
    Arrow,
    #[token("@")]
    At,
    #[token("**")]
    StarStar,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("//")]
    SlashSlash,
    #[token("%")]
    Percent,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("<<")]
    Shl,
    #[token(">>")]
    Shr,
    #[token("&")]
    Amp,
    #[token("^")]
    Caret,
    #[token("|")]
    Pipe,
    #[token("~")]
    Tilde,
    #[token("==")]
    Eq,
    #[token("!=")]
    Ne,
    #[token("<")]
    Lt,
    #[token("<=")]
    Le,
    #[token(">")]
    Gt,
    #[token(">=")]
    Ge,
    /// `+=` and its like, which the language does not have.
    #[regex(r"(\+|-|\*|/|//|%|@|<<|>>|&|\^|\||\*\*)=|:=|;")]
    Foreign(&'a str),

    /// `# …` up to the end of the line; never reaches the grammar.
    #[regex(r"#[^\n]*", allow_greedy = true)]
    Comment(&'a str),
    /// The end of a logical line.
    #[regex(r"\r?\n")]
    Newline,

    /// The start of a deeper block.
    Indent,
    /// The end of a block.
    Dedent,
    /// Text that is no token; its diagnostic has been reported.
    Bad,
    /// What follows is a file.
    StartFile,
    /// What follows is one expression.
    StartExpr,
}

/// Moves past the closing quotes of a triple-quoted string.
fn scan_triple<'a>(lex: &mut Lexer<'a, Tok<'a>>) -> Result<&'a str, LexError> {
    let quotes = lex.slice().as_bytes()[0];
    let bytes = lex.remainder().as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at..].starts_with(&[quotes; 3]) {
            lex.bump(at + 3);
            return Ok(lex.slice());
        } else {
            at += 1;
        }
    }
    lex.bump(bytes.len());
    Err(LexError::OpenString)
}

impl Tok<'_> {
    /// The token as a message names it: `` `)` ``, `a name`, `end of line`.
    pub fn describe(&self, text: &str) -> String {
        match self {
            Tok::Newline | Tok::Indent | Tok::Dedent => "end of line".into(),
            Tok::Name(name) => format!("name `{name}`"),
            Tok::Int(_) | Tok::Float(_) => format!("number `{text}`"),
            Tok::Str(_) => "a string".into(),
            Tok::Bad | Tok::StartFile | Tok::StartExpr => "text".into(),
            _ => format!("`{text}`"),
        }
    }
}

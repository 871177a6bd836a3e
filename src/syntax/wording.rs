//! What the parser's faults are called.
//!
//! The generated parser knows the token it met and the tokens it could have taken. [`parse_error`] also looks at
//! the statement up to the fault: its first word, the bracket that is open, the token before. The rules are
//! tried in order; the first that applies gives the sentence, the last names what could have followed.

use crate::ast::{FileId, Span};
use crate::diag::{Diagnostic, Edit};
use crate::layout::Layout;
use crate::token::Tok;
use lalrpop_util::ParseError;
use logos::Logos;

/// A fault and its surroundings.
struct Fault<'a> {
    found: Tok<'a>,
    /// The found token as a message names it.
    shown: String,
    /// The tokens that could stand there, as the grammar names them.
    expected: &'a [String],
    /// The first token of the statement.
    first: Tok<'a>,
    /// The token before the fault in the same statement.
    before: Option<(Tok<'a>, &'a str)>,
    /// The innermost open bracket and the token before it.
    bracket: Option<(Tok<'a>, Option<Tok<'a>>)>,
    /// The text of the statement's first token.
    first_text: &'a str,
    span: Option<Span>,
    /// Right behind the token before the fault.
    end_span: Option<Span>,
}

/// What a rule says: the message, the label, the advice with an insertion at the end of the token before.
struct Said {
    message: String,
    label: &'static str,
    help: Option<(String, Option<&'static str>)>,
}

fn said(message: impl Into<String>, label: &'static str) -> Said {
    Said {
        message: message.into(),
        label,
        help: None,
    }
}

impl Said {
    fn help(mut self, text: impl Into<String>, insert: Option<&'static str>) -> Self {
        self.help = Some((text.into(), insert));
        self
    }
}

/// The sentence for a fault of the generated parser; nothing where the lexer or layout has spoken.
pub fn parse_error(
    text: &str,
    file: FileId,
    layout: &Layout,
    error: &ParseError<u32, Tok<'_>, ()>,
) -> Option<Diagnostic> {
    let (lo, found, hi, expected) = match error {
        ParseError::UnrecognizedToken {
            token: (lo, tok, hi),
            expected,
        } => (*lo, *tok, *hi, expected.as_slice()),
        ParseError::ExtraToken {
            token: (lo, tok, hi),
        } => (*lo, *tok, *hi, [].as_slice()),
        ParseError::UnrecognizedEof { location, expected } => {
            (*location, Tok::Newline, *location, expected.as_slice())
        }
        ParseError::InvalidToken { location } => {
            (*location, Tok::Newline, *location, [].as_slice())
        }
        ParseError::User { .. } => return None,
    };
    if found == Tok::Bad {
        return None;
    }
    let at = lo.max(1) - u32::from(found == Tok::Newline);
    let line = layout.line_starts.partition_point(|start| *start <= at);
    let start = layout
        .line_starts
        .get(line.max(1) - 1)
        .copied()
        .unwrap_or(0)
        .min(lo);
    if layout.bad_lines.binary_search(&start).is_ok() {
        return None;
    }
    let fault = Fault::new(text, file, start, (lo, found, hi), expected);
    let said = RULES
        .iter()
        .find_map(|rule| rule(&fault))
        .unwrap_or_else(|| say_expected(&fault));
    let diagnostic = Diagnostic::error("syntax", said.message).at(fault.span, said.label);
    Some(match said.help {
        Some((text, insert)) => {
            let edit = insert.zip(fault.end_span).map(|(text, span)| Edit {
                span,
                text: text.into(),
            });
            diagnostic.help(text, edit)
        }
        None => diagnostic,
    })
}

impl<'a> Fault<'a> {
    fn new(
        text: &'a str,
        file: FileId,
        start: u32,
        found: (u32, Tok<'a>, u32),
        expected: &'a [String],
    ) -> Self {
        let (lo, tok, hi) = found;
        let mut first = None;
        let mut before: Option<(Tok<'a>, &'a str)> = None;
        let mut end = lo;
        let mut open = Vec::new();
        let statement = text.get(start as usize..lo as usize).unwrap_or_default();
        for (token, range) in Tok::lexer(statement).spanned() {
            let Ok(token) = token else { continue };
            match token {
                Tok::Comment(_) | Tok::Newline => continue,
                Tok::LParen | Tok::LBracket | Tok::LBrace => {
                    open.push((token, before.map(|(tok, _)| tok)));
                }
                Tok::RParen | Tok::RBracket | Tok::RBrace => {
                    open.pop();
                }
                _ => {}
            }
            end = start + range.end as u32;
            let shown = statement.get(range).unwrap_or_default();
            first.get_or_insert((token, shown));
            before = Some((token, shown));
        }
        let shown = text.get(lo as usize..hi as usize).unwrap_or_default();
        let (first, first_text) = first.unwrap_or((tok, shown));
        let span = |lo, hi| Some(Span { file, lo, hi });
        Self {
            found: tok,
            shown: tok.describe(shown),
            expected,
            first,
            before,
            bracket: open.last().copied(),
            first_text,
            span: span(lo, if tok == Tok::Newline { lo } else { hi }),
            end_span: span(end, end),
        }
    }

    fn expects(&self, tok: &str) -> bool {
        self.expected.iter().any(|name| name == tok)
    }

    /// Whether a value could stand here.
    fn expects_value(&self) -> bool {
        self.expects("int")
    }

    fn finds_value(&self) -> bool {
        matches!(
            self.found,
            Tok::Name(_)
                | Tok::Int(_)
                | Tok::Float(_)
                | Tok::Str(_)
                | Tok::True
                | Tok::False
                | Tok::None
        )
    }

    fn closer(&self) -> &'static str {
        match self.bracket {
            Some((Tok::LParen, _)) => ")",
            Some((Tok::LBracket, _)) => "]",
            _ => "}",
        }
    }
}

type Rule = fn(&Fault) -> Option<Said>;

const RULES: [Rule; 13] = [
    say_foreign,
    say_keyword_as_name,
    say_orphan_else,
    say_after_decorator,
    say_missing_colon,
    say_equals,
    say_generator,
    say_missing_in,
    say_missing_else,
    say_double_star,
    say_missing_value,
    say_missing_comma,
    say_side_by_side,
];

/// Words and operators of Python that irc does not have.
fn say_foreign(fault: &Fault) -> Option<Said> {
    match fault.found {
        Tok::Reserved(word) => {
            let said = said(
                format!("`{word}` is not part of the language"),
                "not in the language",
            );
            Some(if word == "lambda" {
                said.help("write a `def` with a name", None)
            } else {
                said
            })
        }
        Tok::Foreign(";") => Some(
            said("`;` is not part of the language", "not in the language")
                .help("write one statement a line", None),
        ),
        Tok::Foreign(":=") => Some(
            said("`:=` is not part of the language", "not in the language")
                .help("bind the value in a statement of its own", None),
        ),
        Tok::Foreign(op) => {
            let plain = op.trim_end_matches('=');
            Some(
                said(
                    format!("`{op}` is not part of the language"),
                    "not in the language",
                )
                .help(format!("write `x = x {plain} …`"), None),
            )
        }
        _ => None,
    }
}

fn is_keyword(tok: Tok) -> bool {
    use Tok::*;
    matches!(
        tok,
        False
            | None
            | True
            | And
            | As
            | Assert
            | Break
            | Class
            | Continue
            | Def
            | Elif
            | Else
            | For
            | From
            | If
            | Import
            | In
            | Is
            | Not
            | Or
            | Pass
            | Return
            | While
            | With
    )
}

/// `def in(x)`, `x.is`, `for if in y`.
fn say_keyword_as_name(fault: &Fault) -> Option<Said> {
    let (before, _) = fault.before?;
    let wants_name =
        matches!(
            before,
            Tok::Def | Tok::Class | Tok::Dot | Tok::As | Tok::For
        ) || (fault.first == Tok::Def && fault.expects("name") && !fault.expects_value());
    (wants_name && is_keyword(fault.found)).then(|| {
        said(
            format!("{} is a keyword and cannot be a name", fault.shown),
            "a keyword",
        )
        .help("choose another name", None)
    })
}

/// `else:` without `if`.
fn say_orphan_else(fault: &Fault) -> Option<Said> {
    let is_start = fault.before.is_none() || matches!(fault.before, Some((Tok::Newline, _)));
    (is_start && matches!(fault.found, Tok::Else | Tok::Elif)).then(|| {
        said(
            format!("{} has no `if` above it in the same column", fault.shown),
            "no `if` above",
        )
    })
}

/// A decorator with something else below it.
fn say_after_decorator(fault: &Fault) -> Option<Said> {
    let only_definitions = fault.expects("\"def\"") && !fault.expects("\"return\"");
    only_definitions.then(|| {
        said(
            "a decorator must be followed by `def` or `class`",
            "neither of them",
        )
        .help("write the function below its decorator", None)
    })
}

/// `if x` at the end of a line.
fn say_missing_colon(fault: &Fault) -> Option<Said> {
    use Tok::{Class, Def, Elif, Else, For, If, While, With};
    let is_header = matches!(
        fault.first,
        If | Elif | Else | For | While | With | Def | Class
    );
    let ends = matches!(fault.found, Tok::Newline | Tok::Indent) && fault.bracket.is_none();
    (is_header && ends && fault.expects("\":\"")).then(|| {
        said(
            format!("`{}` needs `:` at the end of its line", fault.first_text),
            "`:` is missing",
        )
        .help("add `:`", Some(":"))
    })
}

/// `if x = 1:` and `f(x.y = 1)`.
fn say_equals(fault: &Fault) -> Option<Said> {
    if fault.found != Tok::Assigns {
        return None;
    }
    let is_condition = matches!(fault.first, Tok::If | Tok::Elif | Tok::While | Tok::Assert);
    if is_condition && fault.bracket.is_none() {
        return Some(
            said(
                "`=` binds a name and is no comparison",
                "binds nothing here",
            )
            .help("write `==`", None),
        );
    }
    match fault.bracket {
        Some((Tok::LParen, _)) => Some(
            said(
                "only a name can stand before `=` in a call",
                "needs a name before",
            )
            .help("write `==` to compare", None),
        ),
        Some(_) => Some(
            said(
                "`=` cannot stand inside these brackets",
                "binds nothing here",
            )
            .help("write `==` to compare", None),
        ),
        None => Some(
            said("a statement binds only once", "second `=`")
                .help("write one statement for each name", None),
        ),
    }
}

/// `sum(x for x in y)`.
fn say_generator(fault: &Fault) -> Option<Said> {
    (fault.found == Tok::For && fault.bracket.is_some()).then(|| {
        said(
            "`for` inside brackets makes a list, which needs `[ ]` of its own",
            "no list here",
        )
        .help("write `[… for … in …]`", None)
    })
}

/// `for i range(3):`.
fn say_missing_in(fault: &Fault) -> Option<Said> {
    (fault.expects("\"in\"") && !fault.expects("\"+\"") && fault.found != Tok::In).then(|| {
        said(
            "`for` needs `in` after the names it binds",
            "`in` is missing",
        )
        .help("write `for i in …`", None)
    })
}

/// `x = a if c`.
fn say_missing_else(fault: &Fault) -> Option<Said> {
    fault.expects("\"else\"").then(|| {
        said(
            "`if` inside an expression needs `else`",
            "`else` is missing",
        )
        .help("write `a if c else b`", None)
    })
}

/// `x = 3 +` and `x =`, `f(a, , b)`, `x.`.
fn say_missing_value(fault: &Fault) -> Option<Said> {
    let (before, shown) = fault.before?;
    if before == Tok::Dot && fault.expects("name") {
        return Some(said("the name of a member must follow `.`", "no name"));
    }
    if !fault.expects_value() || fault.finds_value() {
        return None;
    }
    let what = match fault.found {
        Tok::Newline | Tok::Indent | Tok::Dedent => "the line ends here",
        _ => "no value",
    };
    match before {
        Tok::LParen | Tok::LBracket | Tok::LBrace | Tok::Comma => Some(said(
            format!("a value is missing before {}", fault.shown),
            what,
        )),
        _ => Some(said(format!("`{shown}` needs a value behind it"), what)),
    }
}

/// `f(**x)`.
fn say_double_star(fault: &Fault) -> Option<Said> {
    (fault.found == Tok::StarStar && fault.bracket.is_some()).then(|| {
        said(
            "`**` cannot spread keywords into a call",
            "not in the language",
        )
    })
}

/// `f(a b)` and `[1 2]`.
fn say_missing_comma(fault: &Fault) -> Option<Said> {
    (fault.bracket.is_some() && fault.finds_value() && fault.expects("\",\"")).then(|| {
        said(
            format!(
                "`,` or `{}` is missing before {}",
                fault.closer(),
                fault.shown
            ),
            "begins another element",
        )
        .help("put `,` between the elements", Some(","))
    })
}

/// `print x`.
fn say_side_by_side(fault: &Fault) -> Option<Said> {
    (fault.finds_value() && fault.before.is_some() && fault.expects("\"+\"")).then(|| {
        said(
            format!(
                "an operator or the end of the line is missing before {}",
                fault.shown
            ),
            "stands side by side",
        )
    })
}

/// What could have followed, in at most a few words.
fn say_expected(fault: &Fault) -> Said {
    let mut words: Vec<String> = Vec::new();
    if fault.expects_value() {
        words.push("a value".into());
    } else if fault.expects("name") {
        words.push("a name".into());
    }
    for (tok, shown) in [
        ("\":\"", "`:`"),
        ("\"=\"", "`=`"),
        ("\",\"", "`,`"),
        ("\"(\"", "`(`"),
        ("\"->\"", "`->`"),
    ] {
        if fault.expects(tok) && words.len() < 3 {
            words.push(shown.into());
        }
    }
    if let Some((open, _)) = fault.bracket {
        let closer = fault.closer();
        if open != Tok::LParen || fault.expects("\")\"") {
            words.push(format!("`{closer}`"));
        }
    } else if fault.expects("Newline") {
        words.push("the end of the line".into());
    }
    let found = &fault.shown;
    if words.is_empty() {
        return said(format!("{found} cannot stand here"), "not expected here");
    }
    let last = words.pop().unwrap_or_default();
    let wanted = if words.is_empty() {
        last
    } else {
        format!("{} or {last}", words.join(", "))
    };
    said(
        format!("{found} stands where {wanted} must follow"),
        "not expected here",
    )
}

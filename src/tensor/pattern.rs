//! Regular expressions in the syntax of RE2, as tables of a deterministic automaton.
//!
//! The parser at hand is that of another dialect, so a pattern is first rewritten: `\d`, `\w`, `\s`, `\b` are of ASCII in RE2,
//! a class has no sets inside it, `{` that starts no repetition is itself, `\Q…\E` quotes. What remains means the same in both.
//! Source: https://github.com/google/re2/wiki/Syntax

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::{primitives::StateID, start, syntax};
use regex_automata::{Anchored, MatchKind};

/// The most states that a pattern may come to.
const MAX_STATES: usize = 1 << 15;
/// The most bytes that building an automaton may take.
const MAX_BYTES: usize = 1 << 23;
/// The most repetitions, as in RE2.
const MAX_REPEAT: u32 = 1000;

/// Why a pattern has no automaton.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PatternError {
    /// It is not RE2's syntax.
    Syntax(String),
    /// It takes too many states.
    TooLarge,
}

impl std::fmt::Display for PatternError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Syntax(why) => f.write_str(why),
            Self::TooLarge => f.write_str("the automaton of the pattern is too large"),
        }
    }
}

/// An automaton that reads a text byte by byte. State 0 never accepts; state 1 is the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// The class of each byte.
    pub classes: Vec<u8>,
    /// The number of classes.
    pub n_classes: usize,
    /// The next state, by state and class.
    pub next: Vec<u16>,
    /// Whether a text may end in a state.
    pub accepts: Vec<bool>,
}

impl Pattern {
    /// The automaton of whole texts that a pattern matches.
    ///
    /// # Errors
    /// The pattern is not RE2's, or takes too many states.
    pub fn compile(pattern: &str) -> Result<Self, PatternError> {
        let text = checked(pattern)?;
        let dfa = dense::Builder::new()
            .configure(
                dense::Config::new()
                    .start_kind(StartKind::Anchored)
                    .match_kind(MatchKind::All)
                    .dfa_size_limit(Some(MAX_BYTES))
                    .determinize_size_limit(Some(MAX_BYTES)),
            )
            .thompson(
                thompson::Config::new()
                    .utf8(false)
                    .nfa_size_limit(Some(MAX_BYTES)),
            )
            .syntax(syntax_config())
            .build(&text)
            .map_err(|_| PatternError::TooLarge)?;
        Self::tables(&dfa)
    }

    /// Whether a pattern is one of RE2.
    ///
    /// # Errors
    /// Says what is not.
    pub fn check(pattern: &str) -> Result<(), PatternError> {
        checked(pattern).map(|_| ())
    }

    fn tables(dfa: &dense::DFA<Vec<u32>>) -> Result<Self, PatternError> {
        let first = dfa
            .start_state(&start::Config::new().anchored(Anchored::Yes))
            .map_err(|_| PatternError::TooLarge)?;
        // Rows of 256, in the order in which states are met.
        let mut numbers: BTreeMap<StateID, usize> = BTreeMap::from([(first, 1)]);
        let mut order = vec![first];
        let mut rows: Vec<Vec<u16>> = vec![vec![0; 256]];
        let mut accepts = vec![false];
        let mut at = 0;
        while let Some(&state) = order.get(at) {
            at += 1;
            accepts.push(dfa.is_match_state(dfa.next_eoi_state(state)));
            let mut row = Vec::with_capacity(256);
            for byte in 0..=255 {
                let next = dfa.next_state(state, byte);
                if dfa.is_dead_state(next) {
                    row.push(0);
                    continue;
                }
                let number = *numbers.entry(next).or_insert_with(|| {
                    order.push(next);
                    order.len()
                });
                row.push(number as u16);
            }
            rows.push(row);
            if order.len() > MAX_STATES {
                return Err(PatternError::TooLarge);
            }
        }
        Ok(Self::compress(&rows, accepts))
    }

    /// Bytes that lead everywhere to the same states are of one class.
    fn compress(rows: &[Vec<u16>], accepts: Vec<bool>) -> Self {
        let mut known: BTreeMap<Vec<u16>, u8> = BTreeMap::new();
        let mut columns: Vec<Vec<u16>> = Vec::new();
        let mut classes = Vec::with_capacity(256);
        for byte in 0..256 {
            let column: Vec<u16> = rows.iter().map(|row| row[byte]).collect();
            let class = *known.entry(column.clone()).or_insert_with(|| {
                columns.push(column);
                (columns.len() - 1) as u8
            });
            classes.push(class);
        }
        let states = 0..rows.len();
        let next = states.flat_map(|state| columns.iter().map(move |column| column[state]));
        Self {
            classes,
            n_classes: columns.len(),
            next: next.collect(),
            accepts,
        }
    }

    /// Whether the whole text matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        let mut state = 1;
        for &byte in text {
            let class = usize::from(self.classes[usize::from(byte)]);
            state = usize::from(self.next[state * self.n_classes + class]);
        }
        self.accepts[state]
    }
}

/// A pattern in the dialect of the parser, which takes it.
fn checked(pattern: &str) -> Result<String, PatternError> {
    let text = rewrite(pattern)?;
    let parsed = syntax::parse_with(&text, &syntax_config());
    parsed.map_err(|error| PatternError::Syntax(last_line(&error.to_string())))?;
    Ok(text)
}

fn syntax_config() -> syntax::Config {
    // Texts may hold what is no UTF-8; it matches nothing.
    syntax::Config::new().utf8(false)
}

/// What a parser's report ends with, which says what is wrong.
fn last_line(report: &str) -> String {
    let line = report.lines().last().unwrap_or(report).trim();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

fn fault<T>(what: impl Into<String>) -> Result<T, PatternError> {
    Err(PatternError::Syntax(what.into()))
}

/// Characters of a class by the letter of its escape: without brackets, and whether it is the complement.
fn perl_class(c: char) -> Option<(&'static str, bool)> {
    Some(match c {
        'd' => ("0-9", false),
        'D' => ("0-9", true),
        's' => (r"\t\n\x0C\r ", false),
        'S' => (r"\t\n\x0C\r ", true),
        'w' => ("0-9A-Za-z_", false),
        'W' => ("0-9A-Za-z_", true),
        _ => return None,
    })
}

struct Rewrite<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
    /// Whether a repetition has just ended.
    repeated: bool,
}

/// A pattern of RE2 in the other dialect.
fn rewrite(pattern: &str) -> Result<String, PatternError> {
    let mut cx = Rewrite {
        rest: pattern.chars().peekable(),
        out: String::new(),
        repeated: false,
    };
    while let Some(c) = cx.rest.next() {
        let was_repeated = std::mem::take(&mut cx.repeated);
        match c {
            '\\' => cx.escape()?,
            '[' => cx.class()?,
            '(' => cx.group()?,
            '*' | '+' | '?' => cx.repeat(&c.to_string(), was_repeated)?,
            '{' => match cx.bounds()? {
                Some(text) => cx.repeat(&text, was_repeated)?,
                None => cx.out.push_str(r"\{"),
            },
            '^' | '$' | '.' | '|' | ')' => cx.out.push(c),
            c => cx.literal(c),
        }
    }
    Ok(cx.out)
}

impl Rewrite<'_> {
    fn literal(&mut self, c: char) {
        self.out.push_str(&format!(r"\x{{{:X}}}", u32::from(c)));
    }

    fn repeat(&mut self, operator: &str, was_repeated: bool) -> Result<(), PatternError> {
        if was_repeated {
            return fault(format!("`{operator}` repeats a repetition"));
        }
        self.out.push_str(operator);
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        self.repeated = true;
        Ok(())
    }

    /// `{2}`, `{2,}`, `{2,3}` behind the brace; `None` for a brace that is itself.
    fn bounds(&mut self) -> Result<Option<String>, PatternError> {
        let ahead: String = self.rest.clone().take_while(|c| *c != '}').collect();
        let is_closed = self.rest.clone().any(|c| c == '}');
        let (low, high) = ahead.split_once(',').unwrap_or((&ahead, &ahead));
        let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        if !is_closed || !is_number(low) || !(high.is_empty() || is_number(high)) {
            return Ok(None);
        }
        let in_range = |text: &str| {
            text.is_empty() || text.parse::<u32>().is_ok_and(|count| count <= MAX_REPEAT)
        };
        if !in_range(low) || !in_range(high) {
            return fault(format!(
                "`{{{ahead}}}` repeats more than {MAX_REPEAT} times"
            ));
        }
        for _ in 0..=ahead.len() {
            self.rest.next();
        }
        Ok(Some(format!("{{{ahead}}}")))
    }

    /// `(`, `(?P<name>`, `(?i)`, `(?i-s:`.
    fn group(&mut self) -> Result<(), PatternError> {
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        self.out.push('?');
        while let Some(c) = self.rest.next() {
            self.out.push(c);
            match c {
                'i' | 'm' | 's' | 'U' | '-' => {}
                ':' | ')' => return Ok(()),
                'P' if self.rest.peek() == Some(&'<') => {}
                '<' => {
                    for c in self.rest.by_ref() {
                        self.out.push(c);
                        if c == '>' {
                            return Ok(());
                        }
                    }
                }
                c => return fault(format!("`(?{c}` starts no group")),
            }
        }
        fault("a group is not closed")
    }

    /// An escape outside classes.
    fn escape(&mut self) -> Result<(), PatternError> {
        let Some(c) = self.rest.next() else {
            return fault(r"the pattern ends in `\`");
        };
        if let Some((chars, is_complement)) = perl_class(c) {
            let start = if is_complement { "[^" } else { "[" };
            self.out.push_str(&format!("{start}{chars}]"));
            return Ok(());
        }
        match c {
            'A' | 'z' => self.out.push_str(&format!(r"\{c}")),
            'b' | 'B' => self.out.push_str(&format!(r"(?-u:\{c})")),
            'p' | 'P' => self.property(c)?,
            'Q' => {
                while let Some(c) = self.rest.next() {
                    if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                        break;
                    }
                    self.literal(c);
                }
            }
            'C' => return fault(r"`\C` is no character"),
            c => {
                let c = self.escaped_char(c)?;
                self.literal(c);
            }
        }
        Ok(())
    }

    /// `\pN`, `\p{Greek}`, `\p{^Greek}`.
    fn property(&mut self, letter: char) -> Result<(), PatternError> {
        let Some(c) = self.rest.next() else {
            return fault(format!(r"`\{letter}` names no property"));
        };
        let name: String = if c == '{' {
            self.rest.by_ref().take_while(|c| *c != '}').collect()
        } else {
            c.to_string()
        };
        let (name, is_complement) = match name.strip_prefix('^') {
            Some(name) => (name, letter == 'p'),
            None => (name.as_str(), letter == 'P'),
        };
        let letter = if is_complement { 'P' } else { 'p' };
        if name == "Any" {
            let class = if is_complement {
                r"[^\x{0}-\x{10FFFF}]"
            } else {
                r"[\x{0}-\x{10FFFF}]"
            };
            self.out.push_str(class);
        } else {
            self.out.push_str(&format!(r"\{letter}{{{name}}}"));
        }
        Ok(())
    }

    /// The character that an escape stands for.
    fn escaped_char(&mut self, c: char) -> Result<char, PatternError> {
        let code = match c {
            'a' => 7,
            'f' => 12,
            't' => 9,
            'n' => 10,
            'r' => 13,
            'v' => 11,
            '0' => {
                let mut code = 0;
                for _ in 0..2 {
                    let Some(digit) = self.rest.next_if(|c| c.is_digit(8)) else {
                        break;
                    };
                    code = code * 8 + digit.to_digit(8).unwrap_or(0);
                }
                code
            }
            'x' => {
                let digits: String = if self.rest.next_if_eq(&'{').is_some() {
                    self.rest.by_ref().take_while(|c| *c != '}').collect()
                } else {
                    self.rest.by_ref().take(2).collect()
                };
                match u32::from_str_radix(&digits, 16) {
                    Ok(code) => code,
                    Err(_) => return fault(format!(r"`\x{digits}` is no character")),
                }
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => u32::from(c),
            c => return fault(format!(r"`\{c}` is no escape")),
        };
        match char::from_u32(code) {
            Some(c) => Ok(c),
            None => fault(format!("{code:#x} is no character")),
        }
    }

    /// `[a-z]`, `[^\d_]`, `[[:alpha:]]` behind the bracket.
    fn class(&mut self) -> Result<(), PatternError> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            let Some(c) = self.rest.next() else {
                return fault("a class is not closed");
            };
            match c {
                ']' if !is_first => {
                    self.out.push(']');
                    return Ok(());
                }
                '[' if self.rest.peek() == Some(&':') => {
                    let name: String = self.rest.by_ref().take_while(|c| *c != ']').collect();
                    self.out.push_str(&format!("[{name}]"));
                }
                '\\' if self.rest.peek().is_some_and(|c| perl_class(*c).is_some()) => {
                    let (chars, is_complement) =
                        self.rest.next().and_then(perl_class).unwrap_or_default();
                    let text = if is_complement {
                        format!("[^{chars}]")
                    } else {
                        chars.to_owned()
                    };
                    self.out.push_str(&text);
                }
                '\\' if matches!(self.rest.peek(), Some('p' | 'P')) => {
                    let letter = self.rest.next().unwrap_or('p');
                    self.property(letter)?;
                }
                c => self.range(c)?,
            }
            is_first = false;
        }
    }

    /// A character of a class, or a range that starts with it.
    fn range(&mut self, c: char) -> Result<(), PatternError> {
        let low = self.class_char(c)?;
        self.literal(low);
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('-') || matches!(ahead.next(), Some(']') | None) {
            return Ok(());
        }
        self.rest.next();
        let Some(c) = self.rest.next() else {
            return fault("a class is not closed");
        };
        let high = self.class_char(c)?;
        if high < low {
            return fault(format!("`{low}-{high}` is no range"));
        }
        self.out.push('-');
        self.literal(high);
        Ok(())
    }

    fn class_char(&mut self, c: char) -> Result<char, PatternError> {
        if c != '\\' {
            return Ok(c);
        }
        match self.rest.next() {
            Some(c) => self.escaped_char(c),
            None => fault(r"the pattern ends in `\`"),
        }
    }
}

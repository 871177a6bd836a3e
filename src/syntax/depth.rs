//! How deep the tree of an expression gets, counted token by token before there is a tree.
//!
//! A chain of operators that bind alike is as deep as it is long; one inside it that binds tighter is not longer for what
//! stands beside it: `a * b + c * d + e` is three deep. A pair of brackets is one deeper than what is inside. The
//! number counted is never less than the depth, so that a bound on it bounds every later walk over the tree.

use crate::ops::{COMPARE_LEVEL, NOT_LEVEL, POW_LEVEL, UNARY_LEVEL};
use crate::token::Tok;

/// Levels of binding: 0 for `if … else`, then those of the operators, members and brackets last.
const N_LEVELS: usize = POW_LEVEL as usize + 2;
const POSTFIX: usize = N_LEVELS - 1;

/// The depth at one point of a text; a bracket has one of its own inside.
#[derive(Clone, Copy, Default)]
pub struct Depth {
    /// What is around the bracket.
    outside: u32,
    /// The deepest of the elements before this one.
    before: u32,
    /// Whether what was read last can be the left side of an operator.
    behind_operand: bool,
    /// The deepest bracket in this element.
    brackets: u32,
    /// The chain that is being read, of each level.
    chain: [u32; N_LEVELS],
    /// The longest chain of each level in this element.
    longest: [u32; N_LEVELS],
}

impl Depth {
    /// The depth inside a bracket that opens here.
    pub fn open(&mut self) -> Self {
        self.lengthen(POSTFIX);
        Self {
            outside: self.total(),
            ..Self::default()
        }
    }

    /// Goes on behind a bracket.
    pub fn close(&mut self, inside: &Self) {
        self.brackets = self.brackets.max(inside.own());
        self.behind_operand = true;
    }

    /// Takes a token that is no bracket.
    pub fn token(&mut self, tok: Tok<'_>) {
        if let Tok::Comma | Tok::Assigns = tok {
            *self = Self {
                outside: self.outside,
                before: self.own(),
                ..Self::default()
            };
            return;
        }
        let is_sign = match tok {
            Tok::Tilde => true,
            Tok::Plus | Tok::Minus => !self.behind_operand,
            _ => false,
        };
        let level = level(tok);
        if is_sign {
            // A sign stands inside the chain around it, and does not end it: `a * -b * c`.
            self.lengthen(usize::from(UNARY_LEVEL));
        } else if let Some(level) = level {
            self.lengthen(level);
            self.chain[level + 1..].fill(0);
        }
        self.behind_operand = !is_sign && level.is_none();
    }

    /// How deep the tree is at the most, up to here.
    pub fn total(&self) -> u32 {
        self.outside + self.own()
    }

    fn own(&self) -> u32 {
        let here = self.longest.iter().sum::<u32>() + self.brackets;
        here.max(self.before)
    }

    fn lengthen(&mut self, level: usize) {
        self.chain[level] += 1;
        self.longest[level] = self.longest[level].max(self.chain[level]);
    }
}

/// How tightly an operator with two sides binds, a prefix of words, or a member.
fn level(tok: Tok<'_>) -> Option<usize> {
    let level = match tok {
        Tok::If => 0,
        Tok::Or => 1,
        Tok::And => 2,
        Tok::Not => NOT_LEVEL,
        Tok::Eq | Tok::Ne | Tok::Lt | Tok::Le | Tok::Gt | Tok::Ge | Tok::In | Tok::Is => {
            COMPARE_LEVEL
        }
        Tok::Pipe => 5,
        Tok::Caret => 6,
        Tok::Amp => 7,
        Tok::Shl | Tok::Shr => 8,
        Tok::Plus | Tok::Minus => 9,
        Tok::Star | Tok::Slash | Tok::SlashSlash | Tok::Percent | Tok::At => 10,
        Tok::StarStar => POW_LEVEL,
        Tok::Dot => return Some(POSTFIX),
        _ => return None,
    };
    Some(usize::from(level))
}

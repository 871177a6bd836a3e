//! How operators are spelled and how tightly they bind: one table for the parser, the printer and error texts.

use crate::ast::{BinaryOp, UnaryOp};

/// How tightly a prefix operator or literal sign binds.
pub const UNARY_LEVEL: u8 = 11;
/// How tightly `not` binds.
pub const NOT_LEVEL: u8 = 3;
/// How tightly comparisons bind; they do not chain.
pub const COMPARE_LEVEL: u8 = 4;
/// How tightly `**` binds; it groups to the right.
pub const POW_LEVEL: u8 = 12;

impl BinaryOp {
    /// The operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Pow => "**",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::FloorDiv => "//",
            BinaryOp::Mod => "%",
            BinaryOp::MatMul => "@",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitXor => "^",
            BinaryOp::BitOr => "|",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::In => "in",
            BinaryOp::NotIn => "not in",
            BinaryOp::Is => "is",
            BinaryOp::IsNot => "is not",
            BinaryOp::And => "and",
            BinaryOp::Or => "or",
        }
    }

    /// How tightly it binds; higher is tighter.
    pub fn level(self) -> u8 {
        match self {
            BinaryOp::Or => 1,
            BinaryOp::And => 2,
            BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge
            | BinaryOp::In
            | BinaryOp::NotIn
            | BinaryOp::Is
            | BinaryOp::IsNot => COMPARE_LEVEL,
            BinaryOp::BitOr => 5,
            BinaryOp::BitXor => 6,
            BinaryOp::BitAnd => 7,
            BinaryOp::Shl | BinaryOp::Shr => 8,
            BinaryOp::Add | BinaryOp::Sub => 9,
            BinaryOp::Mul
            | BinaryOp::Div
            | BinaryOp::FloorDiv
            | BinaryOp::Mod
            | BinaryOp::MatMul => 10,
            BinaryOp::Pow => POW_LEVEL,
        }
    }
}

impl UnaryOp {
    /// The operator as written, with the space that `not` needs.
    pub fn symbol(self) -> &'static str {
        match self {
            UnaryOp::Neg => "-",
            UnaryOp::Pos => "+",
            UnaryOp::Invert => "~",
            UnaryOp::Not => "not ",
        }
    }

    /// How tightly it binds; higher is tighter.
    pub fn level(self) -> u8 {
        match self {
            UnaryOp::Not => NOT_LEVEL,
            UnaryOp::Neg | UnaryOp::Pos | UnaryOp::Invert => UNARY_LEVEL,
        }
    }
}

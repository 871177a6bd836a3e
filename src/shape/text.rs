//! Symbolic integers to and from expressions.

use std::fmt;

use irc_syntax::{BinaryOp, Diagnostic, Expr, ExprKind, UnaryOp};

use super::arith::by_degree;
use super::dim::{Atom, Dim, Monomial};

impl Dim {
    /// The expression that [`Dim::from_expr`] reads back: `n * 2 + 1`.
    pub fn to_expr(&self) -> Expr {
        if let Some(value) = self.as_int() {
            return Expr::int(value);
        }
        let mut terms = self.terms();
        // Higher degrees first, the constant last; a positive term leads where there is one.
        terms.sort_by(|a, b| by_degree(&b.0, &a.0));
        if let Some(lead) = terms.iter().position(|term| term.1 > 0) {
            terms[..=lead].rotate_right(1);
        }
        let mut sum: Option<Expr> = None;
        for (monomial, coefficient) in terms {
            sum = Some(match sum {
                None => term(&monomial, coefficient),
                Some(sum) if coefficient < 0 && coefficient != i64::MIN => {
                    Expr::binary(BinaryOp::Sub, sum, term(&monomial, -coefficient))
                }
                Some(sum) => Expr::binary(BinaryOp::Add, sum, term(&monomial, coefficient)),
            });
        }
        sum.unwrap_or_else(|| Expr::int(0))
    }

    /// The meaning of a dim expression: numbers, names, `+ - * // %`, `T.min`, `T.max`, `T.int64(4)`, and the
    /// same in a quoted string, as signatures have them.
    pub fn from_expr(expr: &Expr) -> Result<Dim, Diagnostic> {
        let pair = |lhs: &Expr, rhs: &Expr| Ok((Self::from_expr(lhs)?, Self::from_expr(rhs)?));
        match &expr.kind {
            ExprKind::Int(value) => i64::try_from(*value)
                .map(Dim::int)
                .map_err(|_| out_of_range(expr)),
            ExprKind::Name(name) => Ok(Dim::sym(name)),
            ExprKind::Str(text) => from_text(expr, text),
            ExprKind::Unary {
                op: UnaryOp::Neg,
                value,
            } => Ok(-Self::from_expr(value)?),
            ExprKind::Unary {
                op: UnaryOp::Pos,
                value,
            } => Self::from_expr(value),
            ExprKind::Binary { op, lhs, rhs } => {
                let (lhs, rhs) = pair(lhs, rhs)?;
                binary(*op, &lhs, &rhs).ok_or_else(|| not_a_dim(expr))
            }
            ExprKind::Call { .. } => {
                let (path, args) = expr.as_call().ok_or_else(|| not_a_dim(expr))?;
                match (path.as_str(), args) {
                    (
                        "R.prim_value" | "T.int64" | "T.int32" | "T.int16" | "T.int8" | "T.uint8"
                        | "int",
                        [value],
                    ) => Self::from_expr(&value.value),
                    ("T.Cast" | "T.cast", [dtype, value]) if dtype.value.as_str().is_some() => {
                        Self::from_expr(&value.value)
                    }
                    (_, [lhs, rhs]) => {
                        let (lhs, rhs) = pair(&lhs.value, &rhs.value)?;
                        named(&path, &lhs, &rhs).ok_or_else(|| not_a_dim(expr))
                    }
                    _ => Err(not_a_dim(expr)),
                }
            }
            _ => Err(not_a_dim(expr)),
        }
    }
}

fn binary(op: BinaryOp, lhs: &Dim, rhs: &Dim) -> Option<Dim> {
    match op {
        BinaryOp::Add => Some(lhs + rhs),
        BinaryOp::Sub => Some(lhs - rhs),
        BinaryOp::Mul => Some(lhs * rhs),
        BinaryOp::FloorDiv if rhs.as_int() != Some(0) => Some(lhs.floor_div(rhs)),
        BinaryOp::Mod if rhs.as_int() != Some(0) => Some(lhs.floor_mod(rhs)),
        _ => None,
    }
}

fn named(path: &str, lhs: &Dim, rhs: &Dim) -> Option<Dim> {
    match path {
        "T.min" | "T.Min" | "min" => Some(Dim::min(lhs, rhs)),
        "T.max" | "T.Max" | "max" => Some(Dim::max(lhs, rhs)),
        "T.Add" => binary(BinaryOp::Add, lhs, rhs),
        "T.Sub" => binary(BinaryOp::Sub, lhs, rhs),
        "T.Mul" => binary(BinaryOp::Mul, lhs, rhs),
        "T.FloorDiv" | "T.floordiv" => binary(BinaryOp::FloorDiv, lhs, rhs),
        "T.FloorMod" | "T.floormod" => binary(BinaryOp::Mod, lhs, rhs),
        _ => None,
    }
}

fn from_text(expr: &Expr, text: &str) -> Result<Dim, Diagnostic> {
    let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit());
    if is_name && !text.is_empty() {
        return Ok(Dim::sym(text));
    }
    let inner = irc_syntax::parse_expr_str(text).map_err(|_| not_a_dim(expr))?;
    Dim::from_expr(&inner).map_err(|fault| fault.at(expr.span, "in this text"))
}

fn not_a_dim(expr: &Expr) -> Diagnostic {
    Diagnostic::error(
        "dim-form",
        "an extent is made of integers, symbols, `+ - * // %`, `T.min` and `T.max`",
    )
    .at(expr.span, "not an extent")
}

fn out_of_range(expr: &Expr) -> Diagnostic {
    Diagnostic::error("dim-form", "an extent is an int64")
        .at(expr.span, "out of the range of int64")
}

fn term(monomial: &Monomial, coefficient: i64) -> Expr {
    let mut product: Option<Expr> = None;
    for (atom, power) in monomial {
        for _ in 0..*power {
            let factor = atom_expr(atom);
            product = Some(match product {
                None => factor,
                Some(product) => Expr::binary(BinaryOp::Mul, product, factor),
            });
        }
    }
    match (product, coefficient) {
        (None, _) => Expr::int(coefficient),
        (Some(product), 1) => product,
        (Some(product), _) => Expr::binary(BinaryOp::Mul, product, Expr::int(coefficient)),
    }
}

fn atom_expr(atom: &Atom) -> Expr {
    let chain = |callee: &str, items: &[Dim]| {
        let parts = items.iter().map(Dim::to_expr);
        parts
            .reduce(|chain, item| Expr::call(callee, [chain, item]))
            .unwrap_or_else(|| Expr::int(0))
    };
    match atom {
        Atom::Sym(name) => Expr::name(name),
        Atom::FloorDiv(a, b) => Expr::binary(BinaryOp::FloorDiv, a.to_expr(), b.to_expr()),
        Atom::Mod(a, b) => Expr::binary(BinaryOp::Mod, a.to_expr(), b.to_expr()),
        Atom::Min(items) => chain("T.min", items),
        Atom::Max(items) => chain("T.max", items),
        Atom::Overflow => Expr::call("T.overflow", []),
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_expr(f, &self.to_expr(), 0)
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The small part of the printer that dims need; `level` is 0 anywhere, 1 in a sum's right side, 2 in a product,
/// 3 on a product's right side.
fn write_expr(f: &mut fmt::Formatter<'_>, expr: &Expr, level: u8) -> fmt::Result {
    match &expr.kind {
        ExprKind::Int(value) => write!(f, "{value}"),
        ExprKind::Name(name) => write!(f, "{name}"),
        ExprKind::Binary { op, lhs, rhs } => {
            let (sign, own) = match op {
                BinaryOp::Add => ("+", 1),
                BinaryOp::Sub => ("-", 1),
                BinaryOp::Mul => ("*", 3),
                BinaryOp::FloorDiv => ("//", 3),
                _ => ("%", 3),
            };
            let parens = level > own || (own == 1 && level == 1) || (own == 3 && level == 4);
            if parens {
                f.write_str("(")?;
            }
            write_expr(f, lhs, if own == 1 { 0 } else { 3 })?;
            write!(f, " {sign} ")?;
            write_expr(f, rhs, own + 1)?;
            if parens {
                f.write_str(")")?;
            }
            Ok(())
        }
        _ => {
            let Some((path, args)) = expr.as_call() else {
                return Ok(());
            };
            write!(f, "{path}(")?;
            for (index, arg) in args.iter().enumerate() {
                if index > 0 {
                    f.write_str(", ")?;
                }
                write_expr(f, &arg.value, 0)?;
            }
            f.write_str(")")
        }
    }
}

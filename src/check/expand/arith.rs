//! Infix operators of templates: Python's arithmetic on what is known, `R` operators where a tensor takes part.

use irc_syntax::{BinaryOp, Expr, Span};

use super::eval::fault;
use super::{Eval, Frame, Machine, Value};
use crate::check::prim::binary_prim;
use crate::shape::{Dim, Facts};

impl<'a> Machine<'_, 'a> {
    pub(super) fn binary_expr(
        &mut self,
        expr: &Expr,
        op: BinaryOp,
        lhs: &Expr,
        rhs: &Expr,
        frame: &mut Frame<'a>,
        hint: &str,
    ) -> Eval {
        let left = self.eval(lhs, frame, "")?;
        if matches!(op, BinaryOp::And | BinaryOp::Or) && !left.is_tensor() {
            return self.logic(op, left, rhs, frame, hint);
        }
        let right = self.eval(rhs, frame, "")?;
        self.binary(op, left, right, expr.span, frame, hint)
    }

    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        left: Value,
        right: Value,
        span: Option<Span>,
        frame: &Frame<'a>,
        hint: &str,
    ) -> Eval {
        if left.is_error() || right.is_error() {
            return Ok(if left.is_error() { left } else { right });
        }
        if (left.is_tensor() || right.is_tensor())
            && let Some(prim) = binary_prim(op)
            && left != Value::None
            && right != Value::None
        {
            return self.emit_prim(
                prim.name(),
                vec![(None, left), (None, right)],
                span,
                frame,
                hint,
            );
        }
        let result = plain(op, &left, &right, self.facts());
        result.ok_or_else(|| {
            let message = format!(
                "{} and {} do not go together in this operator",
                left.describe(),
                right.describe()
            );
            fault(span, &message)
        })
    }

    /// `a and b`, `a or b`: Python's, with the third value for what is not decided.
    fn logic(
        &mut self,
        op: BinaryOp,
        left: Value,
        rhs: &Expr,
        frame: &mut Frame<'a>,
        hint: &str,
    ) -> Eval {
        let truth = left.truth(self.facts());
        let is_and = op == BinaryOp::And;
        match truth {
            Some(truth) if truth != is_and => Ok(left),
            Some(_) => self.eval(rhs, frame, hint),
            None => {
                let right = self.eval(rhs, frame, hint)?;
                match right.truth(self.facts()) {
                    Some(truth) if truth != is_and => Ok(right),
                    _ => Ok(Value::Maybe),
                }
            }
        }
    }
}

/// An operator on values that are known; `None` where it has no meaning.
fn plain(op: BinaryOp, left: &Value, right: &Value, facts: &Facts) -> Option<Value> {
    let truth = |value: Option<bool>| Some(value.map_or(Value::Maybe, Value::Bool));
    match op {
        BinaryOp::Eq => truth(left.equals(right, facts)),
        BinaryOp::Ne => truth(left.equals(right, facts).map(|equal| !equal)),
        BinaryOp::Is => truth(Some(left == right)),
        BinaryOp::IsNot => truth(Some(left != right)),
        BinaryOp::In => truth(contains(left, right, facts)?),
        BinaryOp::NotIn => truth(contains(left, right, facts)?.map(|found| !found)),
        BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
            truth(order(op, left, right, facts)?)
        }
        BinaryOp::And | BinaryOp::Or | BinaryOp::MatMul => None,
        BinaryOp::Add => match (left, right) {
            (Value::Str(a), Value::Str(b)) => Some(Value::Str(format!("{a}{b}"))),
            (Value::Tuple(a), Value::Tuple(b)) => Some(Value::Tuple([a.as_slice(), b].concat())),
            _ => match (left.as_items(), right.as_items()) {
                (Some(a), Some(b)) => Some(Value::List([a, b].concat())),
                _ => number(op, left, right),
            },
        },
        BinaryOp::Mul => match (left, right) {
            (Value::List(items), count) | (count, Value::List(items)) => {
                Some(Value::List(repeat(items, count)?))
            }
            (Value::Tuple(items), count) | (count, Value::Tuple(items)) => {
                Some(Value::Tuple(repeat(items, count)?))
            }
            (Value::Str(text), count) | (count, Value::Str(text)) => {
                let count = usize::try_from(count.as_int()?.max(0))
                    .ok()
                    .filter(|count| *count <= 1 << 16)?;
                Some(Value::Str(text.repeat(count)))
            }
            _ => number(op, left, right),
        },
        BinaryOp::Sub
        | BinaryOp::Div
        | BinaryOp::FloorDiv
        | BinaryOp::Mod
        | BinaryOp::Pow
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::BitAnd
        | BinaryOp::BitXor
        | BinaryOp::BitOr => number(op, left, right),
    }
}

fn repeat(items: &[Value], count: &Value) -> Option<Vec<Value>> {
    let count = usize::try_from(count.as_int()?.max(0)).ok()?;
    let fits = items.len().checked_mul(count)? <= 1 << 16;
    fits.then(|| {
        std::iter::repeat_n(items, count)
            .flatten()
            .cloned()
            .collect()
    })
}

fn contains(item: &Value, list: &Value, facts: &Facts) -> Option<Option<bool>> {
    if let (Value::Str(item), Value::Str(text)) = (item, list) {
        return Some(Some(text.contains(item.as_str())));
    }
    let mut found = Some(false);
    for other in list.as_items()? {
        match item.equals(&other, facts) {
            Some(true) => return Some(Some(true)),
            Some(false) => {}
            None => found = None,
        }
    }
    Some(found)
}

fn order(op: BinaryOp, left: &Value, right: &Value, facts: &Facts) -> Option<Option<bool>> {
    if *left == Value::Maybe || *right == Value::Maybe {
        return Some(None);
    }
    if let (Value::Str(a), Value::Str(b)) = (left, right) {
        return Some(Some(by_order(op, a.cmp(b))));
    }
    if let (Some(a), Some(b)) = (left.as_int(), right.as_int()) {
        return Some(Some(by_order(op, a.cmp(&b))));
    }
    if let (Some(a), Some(b)) = (left.as_dim(), right.as_dim()) {
        return Some(match op {
            BinaryOp::Lt => facts.prove_lt(&a, &b),
            BinaryOp::Le => facts.prove_le(&a, &b),
            BinaryOp::Gt => facts.prove_lt(&b, &a),
            _ => facts.prove_le(&b, &a),
        });
    }
    match (left, right) {
        // A dim against a float cannot be told.
        (Value::Dim(_), Value::Float(_)) | (Value::Float(_), Value::Dim(_)) => Some(None),
        _ => {
            let (a, b) = (left.as_float()?, right.as_float()?);
            Some(Some(
                a.partial_cmp(&b).is_some_and(|order| by_order(op, order)),
            ))
        }
    }
}

fn by_order(op: BinaryOp, order: std::cmp::Ordering) -> bool {
    match op {
        BinaryOp::Lt => order.is_lt(),
        BinaryOp::Le => order.is_le(),
        BinaryOp::Gt => order.is_gt(),
        _ => order.is_ge(),
    }
}

fn number(op: BinaryOp, left: &Value, right: &Value) -> Option<Value> {
    if let (Some(a), Some(b)) = (left.as_int(), right.as_int()) {
        return integer(op, a, b);
    }
    if let (Some(a), Some(b)) = (left.as_dim(), right.as_dim()) {
        return dim(op, &a, &b);
    }
    let (a, b) = (left.as_float()?, right.as_float()?);
    Some(Value::Float(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div if b != 0.0 => a / b,
        BinaryOp::FloorDiv if b != 0.0 => (a / b).floor(),
        BinaryOp::Mod if b != 0.0 => a - (a / b).floor() * b,
        BinaryOp::Pow => a.powf(b),
        _ => return None,
    }))
}

fn integer(op: BinaryOp, a: i128, b: i128) -> Option<Value> {
    let floor_div = |a: i128, b: i128| {
        let quotient = a.checked_div(b)?;
        Some(if a % b != 0 && (a < 0) != (b < 0) {
            quotient - 1
        } else {
            quotient
        })
    };
    Some(Value::Int(match op {
        BinaryOp::Add => a.checked_add(b)?,
        BinaryOp::Sub => a.checked_sub(b)?,
        BinaryOp::Mul => a.checked_mul(b)?,
        BinaryOp::FloorDiv => floor_div(a, b)?,
        BinaryOp::Mod => a.checked_sub(floor_div(a, b)?.checked_mul(b)?)?,
        BinaryOp::Div if b != 0 => return Some(Value::Float(a as f64 / b as f64)),
        BinaryOp::Pow if b < 0 => return Some(Value::Float((a as f64).powf(b as f64))),
        BinaryOp::Pow => a.checked_pow(u32::try_from(b).ok()?)?,
        BinaryOp::Shl => a.checked_shl(u32::try_from(b).ok()?)?,
        BinaryOp::Shr => a.checked_shr(u32::try_from(b).ok()?)?,
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::BitOr => a | b,
        _ => return None,
    }))
}

fn dim(op: BinaryOp, a: &Dim, b: &Dim) -> Option<Value> {
    Some(Value::from_dim(&match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::FloorDiv if b.as_int() != Some(0) => a.floor_div(b),
        BinaryOp::Mod if b.as_int() != Some(0) => a.floor_mod(b),
        BinaryOp::Pow => {
            let power = b.as_int().filter(|power| (0..=16).contains(power))?;
            (0..power).map(|_| a.clone()).product()
        }
        _ => return None,
    }))
}

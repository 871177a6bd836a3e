//! Values of the template evaluator.

use irc_syntax::{DType, Expr};

use crate::check::types::Type;
use crate::shape::{Dim, Facts};

/// What a template computes with.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// `None`
    None,
    /// A truth value that is known.
    Bool(bool),
    /// A comparison of dims that the facts do not decide.
    Maybe,
    /// An integer; 128 bits hold every dtype's limits.
    Int(i128),
    /// A float.
    Float(f64),
    /// A string or the name of a dtype.
    Str(String),
    /// A symbolic integer that is not a number.
    Dim(Dim),
    /// A list.
    List(Vec<Value>),
    /// A tuple.
    Tuple(Vec<Value>),
    /// A shape: `R.shape([n, 4])`.
    Shape(Vec<Dim>),
    /// A value known at run time: a name or a constant, with its type.
    Expr(Expr, Type),
}

impl Value {
    /// A dim, as a number where it is one.
    pub fn from_dim(dim: &Dim) -> Self {
        dim.as_int()
            .map_or_else(|| Self::Dim(dim.clone()), |value| Self::Int(value.into()))
    }

    /// Dims as a list.
    pub fn dims<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Self {
        Self::List(dims.into_iter().map(Self::from_dim).collect())
    }

    /// The value as a dim, where it is an integer.
    pub fn as_dim(&self) -> Option<Dim> {
        match self {
            Self::Int(value) => i64::try_from(*value).ok().map(Dim::int),
            Self::Bool(value) => Some(Dim::int(i64::from(*value))),
            Self::Dim(dim) => Some(dim.clone()),
            _ => None,
        }
    }

    /// The integer, where it is one that is known.
    pub fn as_int(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    /// The number, where it is one that is known.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Int(value) => Some(*value as f64),
            Self::Bool(value) => Some(f64::from(u8::from(*value))),
            _ => None,
        }
    }

    /// The members of a list, tuple or shape.
    pub fn as_items(&self) -> Option<Vec<Value>> {
        match self {
            Self::List(items) | Self::Tuple(items) => Some(items.clone()),
            Self::Shape(dims) => Some(dims.iter().map(Self::from_dim).collect()),
            _ => None,
        }
    }

    /// Whether it is a tensor of run time.
    pub fn is_tensor(&self) -> bool {
        matches!(
            self,
            Self::Expr(_, Type::Tensor(_) | Type::Scalar(_) | Type::Any)
        )
    }

    /// Whether it or a member of it has been reported already.
    pub fn is_error(&self) -> bool {
        match self {
            Self::Expr(_, ty) => *ty == Type::Error,
            Self::List(items) | Self::Tuple(items) => items.iter().any(Self::is_error),
            _ => false,
        }
    }

    /// The dtype of a tensor.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Self::Expr(_, Type::Tensor(ty)) => ty.dtype,
            Self::Expr(_, Type::Scalar(dtype)) => Some(*dtype),
            _ => None,
        }
    }

    /// What it is, for messages.
    pub fn describe(&self) -> String {
        match self {
            Self::None => "None".to_string(),
            Self::Bool(true) => "True".to_string(),
            Self::Bool(false) => "False".to_string(),
            Self::Maybe => "a comparison that is not decided".to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Str(text) => format!("\"{text}\""),
            Self::Dim(dim) => format!("the extent {dim}"),
            Self::List(_) => "a list".to_string(),
            Self::Tuple(_) => "a tuple".to_string(),
            Self::Shape(_) => "a shape".to_string(),
            Self::Expr(_, ty) => ty.to_string(),
        }
    }

    /// Truth in Python's sense; `None` where it is not decided or has none.
    pub fn truth(&self, facts: &Facts) -> Option<bool> {
        match self {
            Self::None => Some(false),
            Self::Bool(value) => Some(*value),
            Self::Int(value) => Some(*value != 0),
            Self::Float(value) => Some(*value != 0.0),
            Self::Str(text) => Some(!text.is_empty()),
            Self::List(items) | Self::Tuple(items) => Some(!items.is_empty()),
            Self::Shape(dims) => Some(!dims.is_empty()),
            Self::Dim(dim) => facts.prove_eq(dim, &Dim::int(0)).map(|zero| !zero),
            Self::Maybe | Self::Expr(..) => None,
        }
    }

    /// Equality in Python's sense; `None` where it is not decided.
    pub fn equals(&self, other: &Value, facts: &Facts) -> Option<bool> {
        if let (Some(a), Some(b)) = (self.as_items(), other.as_items()) {
            if a.len() != b.len() {
                return Some(false);
            }
            let mut all = Some(true);
            for (a, b) in a.iter().zip(&b) {
                match a.equals(b, facts) {
                    Some(false) => return Some(false),
                    Some(true) => {}
                    None => all = None,
                }
            }
            return all;
        }
        match (self, other) {
            (Self::Maybe, _) | (_, Self::Maybe) => None,
            (Self::None, Self::None) => Some(true),
            (Self::Str(a), Self::Str(b)) => Some(a == b),
            (Self::Expr(a, _), Self::Expr(b, _)) => Some(a == b),
            (Self::Dim(_), _) | (_, Self::Dim(_)) => match (self.as_dim(), other.as_dim()) {
                (Some(a), Some(b)) => facts.prove_eq(&a, &b),
                _ => Some(false),
            },
            _ => match (self.as_int(), other.as_int()) {
                (Some(a), Some(b)) => Some(a == b),
                _ => match (self.as_float(), other.as_float()) {
                    (Some(a), Some(b)) => Some(a == b),
                    _ => Some(false),
                },
            },
        }
    }

    /// What tells calls apart whose types may differ: the value, but of run-time values only type and constants.
    pub(super) fn write_key(&self, key: &mut String) {
        use std::fmt::Write as _;
        let list = |items: &[Value], key: &mut String| {
            for item in items {
                item.write_key(key);
                key.push(',');
            }
        };
        match self {
            Self::Expr(expr, ty) => {
                let _ = write!(key, "{ty:?}");
                if expr.is_call_of("R.const") {
                    let _ = write!(key, "{:?}", expr.kind);
                }
            }
            Self::List(items) => {
                key.push('[');
                list(items, key);
                key.push(']');
            }
            Self::Tuple(items) => {
                key.push('(');
                list(items, key);
                key.push(')');
            }
            other => {
                let _ = write!(key, "{other:?}");
            }
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Int(value as i128)
    }
}

//! The arguments of primitives, as data.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::{Prim, TABLE};

/// One argument of a primitive.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its name; the one that is printed.
    pub name: &'static str,
    /// Other names that TVM gives it.
    pub aliases: Vec<&'static str>,
    /// What it takes.
    pub kind: Kind,
    /// What stands for it when it is left out.
    pub default: Default,
    /// Whether it takes all remaining positional arguments.
    pub rest: bool,
}

/// What an argument takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A tensor, constant or number.
    Tensor,
    /// A tuple of tensors.
    Tensors,
    /// A shape value: `R.shape([n, 4])`, a tuple of dims, or the name of one.
    Shape,
    /// An integer.
    Int,
    /// A list of integers; a single one stands for a list of one.
    Ints,
    /// A list of dims; a single one stands for a list of one.
    Dims,
    /// A number.
    Float,
    /// `True` or `False`.
    Bool,
    /// A string.
    Str,
    /// A dtype's name.
    DType,
    /// Any expression; its meaning is the primitive's business.
    Value,
}

/// What stands for an argument that is left out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Default {
    /// It may not be left out.
    Required,
    /// Nothing.
    None,
    /// A number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string or the name of a dtype.
    Str(&'static str),
    /// The empty list.
    Empty,
}

/// The arguments of a primitive in TVM's positional order.
pub fn slots(prim: Prim) -> &'static [Slot] {
    static SLOTS: OnceLock<BTreeMap<Prim, Vec<Slot>>> = OnceLock::new();
    let all = SLOTS.get_or_init(|| {
        TABLE
            .iter()
            .map(|row| (row.1, row.2.split(", ").filter_map(slot).collect()))
            .collect()
    });
    all.get(&prim).map_or(&[], Vec::as_slice)
}

/// Reads `name|alias: kind = default`.
fn slot(text: &'static str) -> Option<Slot> {
    let (names, rest) = text.split_once(": ")?;
    let (kind, default) = match rest.split_once(" = ") {
        Some((kind, default)) => (kind, literal(default)),
        None => (rest, Default::Required),
    };
    let mut names = names.trim_start_matches('*').split('|');
    Some(Slot {
        name: names.next()?,
        aliases: names.collect(),
        kind: match kind {
            "tensor" => Kind::Tensor,
            "tensors" => Kind::Tensors,
            "shape" => Kind::Shape,
            "int" => Kind::Int,
            "ints" => Kind::Ints,
            "dims" => Kind::Dims,
            "float" => Kind::Float,
            "bool" => Kind::Bool,
            "str" => Kind::Str,
            "dtype" => Kind::DType,
            _ => Kind::Value,
        },
        default,
        rest: text.starts_with('*'),
    })
}

fn literal(text: &'static str) -> Default {
    match text {
        "None" => Default::None,
        "True" => Default::Bool(true),
        "False" => Default::Bool(false),
        "[]" => Default::Empty,
        _ if text.starts_with('\'') => Default::Str(text.trim_matches('\'')),
        _ if text.contains('.') => text.parse().map_or(Default::None, Default::Float),
        _ => text.parse().map_or(Default::None, Default::Int),
    }
}

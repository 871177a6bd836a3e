//! Symbolic contents of small integer tensors: how `shape → gather → concat → reshape` chains become dims.
//!
//! A truth value is 0 or 1. `None` means that the content is not known; nothing here is ever wrong to leave out.

use irc_syntax::DType;

use super::{Binary, Reduce, Unary};
use crate::shape::{Dim, Facts};

/// Contents of integer tensors are followed up to this many elements.
pub const MAX_CONTENT: usize = 64;

pub(super) fn unary(op: Unary, dims: &[Dim], facts: &Facts) -> Option<Vec<Dim>> {
    let each: fn(&Dim, &Facts) -> Option<Dim> = match op {
        Unary::Negative => |dim, _| Some(-dim),
        Unary::Abs => |dim, facts| {
            let zero = Dim::int(0);
            match facts.prove_le(&zero, dim)? {
                true => Some(dim.clone()),
                false => Some(-dim),
            }
        },
        Unary::LogicalNot => |dim, _| Some(Dim::int(1) - dim),
        Unary::Real(real) if real.is_rounding() => |dim, _| Some(dim.clone()),
        _ => return None,
    };
    dims.iter().map(|dim| each(dim, facts)).collect()
}

pub(super) fn binary(op: Binary, a: &[Dim], b: &[Dim], facts: &Facts) -> Option<Vec<Dim>> {
    zip(a, b)?.map(|(a, b)| element(op, a, b, facts)).collect()
}

fn element(op: Binary, a: &Dim, b: &Dim, facts: &Facts) -> Option<Dim> {
    let truth = |value: Option<bool>| value.map(|value| Dim::int(i64::from(value)));
    let not = |value: Option<bool>| value.map(|value| !value);
    let both_known = || Some((a.as_int()?, b.as_int()?));
    let zero = Dim::int(0);
    match op {
        Binary::Add => Some(a + b),
        Binary::Subtract => Some(a - b),
        Binary::Multiply => Some(a * b),
        Binary::FloorDivide if b.as_int() != Some(0) => Some(a.floor_div(b)),
        Binary::FloorMod if b.as_int() != Some(0) => Some(a.floor_mod(b)),
        Binary::Divide | Binary::Mod => {
            if let Some((a, b)) = both_known() {
                let value = if op == Binary::Divide {
                    a.checked_div(b)
                } else {
                    a.checked_rem(b)
                };
                return value.map(Dim::int);
            }
            // Truncation is rounding down where both sides are known not to be negative.
            let plain =
                facts.prove_le(&zero, a) == Some(true) && facts.prove_lt(&zero, b) == Some(true);
            plain.then(|| {
                if op == Binary::Divide {
                    a.floor_div(b)
                } else {
                    a.floor_mod(b)
                }
            })
        }
        Binary::Maximum => Some(Dim::max(a, b)),
        Binary::Minimum => Some(Dim::min(a, b)),
        Binary::Power => {
            let (a, b) = both_known()?;
            a.checked_pow(u32::try_from(b).ok()?).map(Dim::int)
        }
        Binary::Equal => truth(facts.prove_eq(a, b)),
        Binary::NotEqual => truth(not(facts.prove_eq(a, b))),
        Binary::Less => truth(facts.prove_lt(a, b)),
        Binary::LessEqual => truth(facts.prove_le(a, b)),
        Binary::Greater => truth(facts.prove_lt(b, a)),
        Binary::GreaterEqual => truth(facts.prove_le(b, a)),
        Binary::LogicalAnd => both_known().map(|(a, b)| Dim::int(i64::from(a != 0 && b != 0))),
        Binary::LogicalOr => both_known().map(|(a, b)| Dim::int(i64::from(a != 0 || b != 0))),
        Binary::LogicalXor => both_known().map(|(a, b)| Dim::int(i64::from((a != 0) != (b != 0)))),
        Binary::FloorDivide
        | Binary::FloorMod
        | Binary::LeftShift
        | Binary::RightShift
        | Binary::BitwiseAnd
        | Binary::BitwiseOr
        | Binary::BitwiseXor => None,
    }
}

/// `where` on conditions that are all known.
pub(super) fn select(condition: &[Dim], a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let longest = condition.len().max(a.len()).max(b.len());
    let at = |dims: &[Dim], index: usize| match dims {
        [one] => Some(one.clone()),
        _ => dims.get(index).cloned(),
    };
    (0..longest)
        .map(|index| match at(condition, index)?.as_int()? {
            0 => at(b, index),
            _ => at(a, index),
        })
        .collect()
}

/// Whether a number is one of a type.
fn fits(value: i64, dtype: DType) -> bool {
    match dtype {
        DType::I64 => true,
        DType::I32 => i32::try_from(value).is_ok(),
        DType::U32 => u32::try_from(value).is_ok(),
        DType::U64 => value >= 0,
        DType::I16 => i16::try_from(value).is_ok(),
        DType::I8 => i8::try_from(value).is_ok(),
        DType::U8 => u8::try_from(value).is_ok(),
        DType::U16 => u16::try_from(value).is_ok(),
        DType::Bool => value == 0 || value == 1,
        // Contents are integers: the rules of their arithmetic would be wrong for floats.
        _ => false,
    }
}

/// What arithmetic gave, unless it may have wrapped in the type of the result.
pub(super) fn unwrapped(dims: Vec<Dim>, dtype: Option<DType>) -> Option<Vec<Dim>> {
    let dtype = dtype?;
    // Dims are far from the ends of the wide types.
    let wide = matches!(dtype, DType::I64 | DType::I32);
    let is_held = |dim: &Dim| dim.as_int().map_or(wide, |value| fits(value, dtype));
    dims.iter().all(is_held).then_some(dims)
}

/// Contents survive a change of integer type as long as known numbers fit.
pub(super) fn astype(dims: &[Dim], from: DType, to: DType) -> Option<Vec<Dim>> {
    if to == DType::Bool {
        let truth = |dim: &Dim| dim.as_int().map(|value| Dim::int(i64::from(value != 0)));
        return dims.iter().map(truth).collect();
    }
    let wide = matches!(to, DType::I64 | DType::I32) && (from.is_int() || from == DType::Bool);
    let fits = |value| fits(value, to);
    let all = dims.iter().all(|dim| dim.as_int().map_or(wide, fits));
    all.then(|| dims.to_vec())
}

/// One element many times.
pub(super) fn repeat(dim: &Dim, count: &Dim) -> Option<Vec<Dim>> {
    let count = usize::try_from(count.as_int()?).ok()?;
    (count <= MAX_CONTENT).then(|| vec![dim.clone(); count])
}

pub(super) fn reduce(op: Reduce, dims: &[Dim]) -> Option<Dim> {
    match op {
        Reduce::Sum => Some(dims.iter().cloned().sum()),
        Reduce::Prod => Some(dims.iter().product()),
        Reduce::Max if !dims.is_empty() => Some(Dim::max_of(dims.iter().cloned())),
        Reduce::Min if !dims.is_empty() => Some(Dim::min_of(dims.iter().cloned())),
        Reduce::Max | Reduce::Min => None,
    }
}

/// Elements of both, a single one repeated.
fn zip<'a>(a: &'a [Dim], b: &'a [Dim]) -> Option<impl Iterator<Item = (&'a Dim, &'a Dim)>> {
    let longest = if a.len() == 1 { b.len() } else { a.len() };
    let fits = |dims: &[Dim]| dims.len() == 1 || dims.len() == longest;
    if !fits(a) || !fits(b) || longest > MAX_CONTENT {
        return None;
    }
    let at = |dims: &'a [Dim], index: usize| {
        if dims.len() == 1 {
            dims.first()
        } else {
            dims.get(index)
        }
    };
    Some((0..longest).filter_map(move |index| Some((at(a, index)?, at(b, index)?))))
}

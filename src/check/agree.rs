//! Whether two types go together, and what is known when they do.
//!
//! Extents are compared by proof. Provably different extents are a fault; undecided ones become a fact that the
//! compiled program checks at run time.

use std::collections::BTreeMap;

use irc_syntax::Name;

use super::prim::{element_type, join_elements};
use super::types::{TensorType, Type};
use crate::shape::{Dim, Facts};

/// The first thing that differs between a wanted and a given type.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Mismatch {
    pub(crate) code: &'static str,
    /// `dtype float32 was wanted, and int32 is there`
    pub(crate) text: String,
}

fn mismatch(code: &'static str, text: String) -> Mismatch {
    Mismatch { code, text }
}

/// A declared type narrowed by an inferred one. Extents that are not decided are taken as equal from here on.
pub(crate) fn agree(declared: &Type, inferred: &Type, facts: &mut Facts) -> Result<Type, Mismatch> {
    match (declared, inferred) {
        (Type::Error, _) | (_, Type::Error) => Ok(Type::Error),
        (Type::Any, _) => Ok(inferred.clone()),
        (_, Type::Any) => Ok(declared.clone()),
        (Type::Tensor(a), Type::Tensor(b)) => tensors(a, b, facts).map(Type::Tensor),
        // A 0-d tensor and a scalar stand for one another.
        (Type::Scalar(dtype), Type::Tensor(tensor))
        | (Type::Tensor(tensor), Type::Scalar(dtype)) => {
            tensors(tensor, &TensorType::new(*dtype, Vec::new()), facts).map(|_| declared.clone())
        }
        (Type::Scalar(a), Type::Scalar(b)) if a == b || (a.is_int() && b.is_int()) => {
            Ok(declared.clone())
        }
        (Type::Shape(Some(a)), Type::Shape(Some(b))) => {
            dims(a, b, facts)?;
            Ok(declared.clone())
        }
        (Type::Shape(a), Type::Shape(b)) => Ok(Type::Shape(a.clone().or_else(|| b.clone()))),
        (Type::Tuple(a), Type::Tuple(b)) => {
            if a.len() != b.len() {
                let text = format!(
                    "a tuple of {} is wanted, and one of {} is there",
                    a.len(),
                    b.len()
                );
                return Err(mismatch("type-mismatch", text));
            }
            let members = a.iter().zip(b).map(|(a, b)| agree(a, b, facts));
            Ok(Type::Tuple(members.collect::<Result<_, _>>()?))
        }
        (Type::Opt(a), b) => match b {
            Type::Opt(b) => agree(a, b, facts).map(|ty| Type::Opt(Box::new(ty))),
            Type::Void => Ok(declared.clone()),
            _ => agree(a, b, facts),
        },
        (Type::Seq(a), Type::Seq(b)) => agree(a, b, facts).map(|ty| Type::Seq(Box::new(ty))),
        (Type::Func(..), Type::Func(..)) => Ok(inferred.clone()),
        (Type::Tuple(members), Type::Void) | (Type::Void, Type::Tuple(members))
            if members.is_empty() =>
        {
            Ok(Type::Void)
        }
        _ if declared == inferred => Ok(declared.clone()),
        _ => Err(mismatch(
            "type-mismatch",
            format!("{declared} is wanted, and {inferred} is there"),
        )),
    }
}

fn tensors(a: &TensorType, b: &TensorType, facts: &mut Facts) -> Result<TensorType, Mismatch> {
    if let (Some(x), Some(y)) = (a.dtype, b.dtype)
        && x != y
    {
        return Err(mismatch(
            "dtype-mismatch",
            format!("dtype {x} is wanted, and {y} is there"),
        ));
    }
    if let (Some(x), Some(y)) = (a.ndim, b.ndim)
        && x != y
    {
        return Err(mismatch(
            "rank-mismatch",
            format!("{x} axes are wanted, and {y} are there"),
        ));
    }
    if let (Some(x), Some(y)) = (&a.shape, &b.shape) {
        dims(x, y, facts)?;
    }
    Ok(TensorType {
        dtype: a.dtype.or(b.dtype),
        ndim: a.ndim.or(b.ndim),
        shape: a.shape.clone().or_else(|| b.shape.clone()),
        value: b.value.clone(),
    })
}

fn dims(a: &[Dim], b: &[Dim], facts: &mut Facts) -> Result<(), Mismatch> {
    if a.len() != b.len() {
        let text = format!("{} axes are wanted, and {} are there", a.len(), b.len());
        return Err(mismatch("rank-mismatch", text));
    }
    for (at, (x, y)) in a.iter().zip(b).enumerate() {
        if x == y {
            continue;
        }
        if facts.prove_eq(x, y) == Some(false) || !facts.assume_eq(x, y) {
            let text = format!("axis {at} is {x} as wanted, and {y} as it is");
            return Err(mismatch("dim-mismatch", text));
        }
    }
    Ok(())
}

fn is_sequence(ty: &Type) -> bool {
    matches!(ty, Type::Seq(_) | Type::Tuple(_) | Type::Void)
}

/// The type beside an optional: nothing says nothing.
fn optional_element(ty: &Type) -> Type {
    match ty {
        Type::Void => Type::Opt(Box::new(Type::Any)),
        ty => element_type(ty),
    }
}

/// What is known of a value that comes from one of two branches.
pub fn join(a: &Type, b: &Type) -> Type {
    match (a, b) {
        (Type::Tensor(a), Type::Tensor(b)) => {
            let same_shape = a.shape == b.shape;
            let ndim = if a.ndim == b.ndim { a.ndim } else { None };
            Type::Tensor(TensorType {
                dtype: if a.dtype == b.dtype { a.dtype } else { None },
                ndim,
                shape: if same_shape { a.shape.clone() } else { None },
                value: if a.value == b.value {
                    a.value.clone()
                } else {
                    None
                },
            })
        }
        (Type::Tuple(a), Type::Tuple(b)) if a.len() == b.len() => {
            Type::Tuple(a.iter().zip(b).map(|(a, b)| join(a, b)).collect())
        }
        (Type::Shape(_), Type::Shape(_)) if a != b => Type::Shape(None),
        (Type::Opt(_), _) | (_, Type::Opt(_)) => {
            join_elements(&optional_element(a), &optional_element(b))
        }
        // A tuple is a sequence that is written out.
        _ if a != b && is_sequence(a) && is_sequence(b) => {
            join_elements(&element_type(a), &element_type(b))
        }
        (Type::Error, _) | (_, Type::Error) => Type::Error,
        _ if a == b => a.clone(),
        _ => Type::Any,
    }
}

/// Matches the type of a parameter against that of an argument: symbols of the callee that are not bound yet take
/// the caller's extent, all others must agree.
pub(crate) fn unify(
    param: &Type,
    arg: &Type,
    symbols: &mut BTreeMap<Name, Dim>,
    facts: &mut Facts,
) -> Result<(), Mismatch> {
    bind_symbols(param, arg, symbols);
    let known = substitute(param, symbols);
    // Symbols that no argument has bound cannot be compared.
    if super::expand::symbols_of(param)
        .iter()
        .any(|name| !symbols.contains_key(name))
    {
        return Ok(());
    }
    agree(&known, arg, facts).map(|_| ())
}

fn bind_symbols(param: &Type, arg: &Type, symbols: &mut BTreeMap<Name, Dim>) {
    let mut bind = |params: &[Dim], args: &[Dim]| {
        for (param, arg) in params.iter().zip(args) {
            if let Some(name) = param.as_sym() {
                symbols.entry(name.clone()).or_insert_with(|| arg.clone());
                continue;
            }
            // `n * 4` against 12 gives n where it is the only unknown.
            let open: Vec<Name> = param
                .symbols()
                .into_iter()
                .filter(|name| !symbols.contains_key(name))
                .collect();
            let [name] = open.as_slice() else { continue };
            // The caller may have a symbol of the same name.
            let unknown = Name::from(format!("?{name}"));
            let mut map = symbols.clone();
            map.insert(name.clone(), Dim::sym(&unknown));
            if let Some(value) = param.subst(&map).solve_for(&unknown, arg) {
                symbols.insert(name.clone(), value);
            }
        }
    };
    match (param, arg) {
        (Type::Tensor(param), Type::Tensor(arg)) => {
            if let (Some(params), Some(args)) = (&param.shape, &arg.shape) {
                bind(params, args);
            }
        }
        (Type::Shape(Some(params)), Type::Shape(Some(args))) => bind(params, args),
        (Type::Tuple(params), Type::Tuple(args)) => {
            for (param, arg) in params.iter().zip(args) {
                bind_symbols(param, arg, symbols);
            }
        }
        _ => {}
    }
}

/// A type with symbols replaced.
pub fn substitute(ty: &Type, map: &BTreeMap<Name, Dim>) -> Type {
    let dims = |dims: &Vec<Dim>| dims.iter().map(|dim| dim.subst(map)).collect::<Vec<_>>();
    match ty {
        Type::Tensor(tensor) => Type::Tensor(TensorType {
            shape: tensor.shape.as_ref().map(dims),
            value: tensor.value.as_ref().map(dims),
            ..tensor.clone()
        }),
        Type::Shape(shape) => Type::Shape(shape.as_ref().map(dims)),
        Type::Tuple(types) => Type::Tuple(types.iter().map(|ty| substitute(ty, map)).collect()),
        Type::Seq(inner) => Type::Seq(Box::new(substitute(inner, map))),
        Type::Opt(inner) => Type::Opt(Box::new(substitute(inner, map))),
        Type::Func(..)
        | Type::Scalar(_)
        | Type::Str
        | Type::DTypeValue
        | Type::Any
        | Type::Void
        | Type::Error => ty.clone(),
    }
}

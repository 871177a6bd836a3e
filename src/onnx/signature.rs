//! The types of a graph's inputs as annotations, and the names of their dims.
//!
//! Before: `x: float[batch, 3, ?]`. After: `x: R.Tensor(("batch", 3, "x_d2"), dtype="float32")`.
//! A dim name that is a sum or product of other inputs' dim names (`past + seq`) is written as one.

use std::collections::{BTreeMap, BTreeSet};

use irc_syntax::DType;
use irc_syntax::ast::{Expr, Name};

use super::fault::Failure;
use super::model::{DimProto, TypeProto, ValueInfo};
use super::names::Names;
use super::tensor::find_dtype;

/// The dim names of a function.
#[derive(Clone, Default, Debug)]
pub struct Symbols<'a> {
    /// By the name in the file.
    by_param: BTreeMap<&'a str, Name>,
    /// Names in the file that other names may be sums of.
    plain: BTreeSet<&'a str>,
    /// In order of appearance.
    pub all: Vec<Name>,
}

impl<'a> Symbols<'a> {
    /// The dim names that stand alone somewhere in the inputs.
    pub fn of_inputs(inputs: &[&ValueInfo<'a>]) -> Self {
        let mut symbols = Self::default();
        for input in inputs {
            if let Some(TypeProto::Tensor(_, Some(dims))) = &input.ty {
                symbols
                    .plain
                    .extend(dims.iter().filter_map(|dim| match dim {
                        DimProto::Param(name) if is_identifier(name) => Some(*name),
                        DimProto::Param(_) | DimProto::Value(_) | DimProto::Unknown => None,
                    }));
            }
        }
        symbols
    }

    fn find(&mut self, param: &'a str, names: &mut Names) -> Name {
        if let Some(name) = self.by_param.get(param) {
            return name.clone();
        }
        let name = names.fresh(param);
        self.by_param.insert(param, name.clone());
        self.all.push(name.clone());
        name
    }

    /// The text of a dim; `base` is the name of one that has none.
    fn dim(&mut self, dim: DimProto<'a>, base: &str, names: &mut Names) -> Expr {
        match dim {
            DimProto::Value(extent) if extent >= 0 => Expr::int(extent),
            // Some exporters write `?` or `-1` for what they do not know.
            DimProto::Param(param) if !param.contains(|c: char| c.is_alphabetic()) => {
                self.dim(DimProto::Unknown, base, names)
            }
            DimProto::Param(param) => match self.split_sum(param) {
                Some(tokens) => {
                    let words: Vec<String> = tokens
                        .iter()
                        .map(|token| match self.plain.get(token) {
                            Some(_) => self.find(token, names).to_string(),
                            None => (*token).to_owned(),
                        })
                        .collect();
                    Expr::str(words.join(" "))
                }
                None => Expr::str(self.find(param, names).as_str()),
            },
            DimProto::Value(_) | DimProto::Unknown => {
                let name = names.fresh(base);
                self.all.push(name.clone());
                Expr::str(name.as_str())
            }
        }
    }

    /// The words of `a + 2 * b`, where `a` and `b` are dim names that stand alone elsewhere.
    fn split_sum(&self, param: &'a str) -> Option<Vec<&'a str>> {
        let tokens: Vec<&str> = param.split_whitespace().collect();
        let is_sum = tokens.len() >= 3
            && tokens.len() % 2 == 1
            && tokens.iter().enumerate().all(|(idx, token)| {
                if idx % 2 == 1 {
                    ["+", "-", "*"].contains(token)
                } else {
                    self.plain.contains(token) || token.parse::<u32>().is_ok()
                }
            });
        is_sum.then_some(tokens)
    }
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The annotation of an input, whose legal name is `name`.
///
/// # Errors
/// Where the input has no type, or one that irc has not.
pub fn input_type<'a>(
    input: &ValueInfo<'a>,
    name: &Name,
    symbols: &mut Symbols<'a>,
    names: &mut Names,
) -> Result<Expr, Failure> {
    let what = format!("input `{}`", input.name);
    let not_yet =
        |kind: &str| Failure::unsupported(format!("{what} is of a type not supported: {kind}"));
    match &input.ty {
        None | Some(TypeProto::Missing) => Err(Failure::invalid(format!("{what} has no type"))),
        Some(TypeProto::Tensor(elem, dims)) => {
            let dtype = find_dtype(*elem, &what)?;
            let dims = dims.as_ref().map(|dims| {
                dims.iter()
                    .enumerate()
                    .map(|(axis, dim)| symbols.dim(*dim, &format!("{name}_d{axis}"), names))
                    .collect::<Vec<_>>()
            });
            Ok(tensor_type(dtype, dims))
        }
        Some(ty @ (TypeProto::Sequence(_) | TypeProto::Optional(_))) => element_type(ty, &what),
        Some(TypeProto::Map(..)) => Err(not_yet("map")),
        Some(TypeProto::Other(kind)) => Err(not_yet(kind)),
    }
}

/// The annotation of a type whose dims are not those of the function: of elements, and of values inside graphs.
///
/// # Errors
/// Where irc has no such type.
pub fn element_type(ty: &TypeProto<'_>, what: &str) -> Result<Expr, Failure> {
    match ty {
        TypeProto::Tensor(elem, dims) => {
            let dtype = find_dtype(*elem, what)?;
            let extents = dims.as_ref().and_then(|dims| {
                let extents = dims.iter().map(|dim| match dim {
                    DimProto::Value(extent) if *extent >= 0 => Some(Expr::int(*extent)),
                    DimProto::Value(_) | DimProto::Param(_) | DimProto::Unknown => None,
                });
                extents.collect::<Option<Vec<_>>>()
            });
            let rank = dims.as_ref().map(Vec::len);
            Ok(match (extents, rank) {
                // Some exporters leave the shape of an element empty instead of out.
                (Some(extents), _) if !extents.is_empty() => tensor_type(dtype, Some(extents)),
                (None, Some(rank)) => {
                    tensor_type(dtype, None).with("ndim", Expr::int(rank as i128))
                }
                _ => tensor_type(dtype, None),
            })
        }
        TypeProto::Sequence(inner) => Ok(Expr::call("R.Seq", [element_type(inner, what)?])),
        TypeProto::Optional(inner) => Ok(Expr::call("R.Opt", [element_type(inner, what)?])),
        TypeProto::Map(..) => Err(Failure::unsupported(format!(
            "{what} is a map, or holds maps, where only tensors may be"
        ))),
        TypeProto::Other(kind) => Err(Failure::unsupported(format!(
            "{what} is of a type not supported: {kind}"
        ))),
        TypeProto::Missing => Err(Failure::invalid(format!("{what} has no type"))),
    }
}

/// The dtypes of a map's keys and values.
///
/// # Errors
/// Where the values are no single elements, or of dtypes that irc has not.
pub fn map_dtypes(key: i64, value: &TypeProto<'_>, what: &str) -> Result<[DType; 2], Failure> {
    let keys = find_dtype(key, what)?;
    match value {
        TypeProto::Tensor(elem, _) if matches!(keys, DType::I64 | DType::Str) => {
            Ok([keys, find_dtype(*elem, what)?])
        }
        _ => Err(Failure::unsupported(format!(
            "{what} is a map of a kind that no operator takes"
        ))),
    }
}

/// The dtype of a tensor, or of the tensors of a sequence or optional.
fn innermost(ty: &TypeProto<'_>, what: &str) -> Result<DType, Failure> {
    match ty {
        TypeProto::Tensor(elem, _) => find_dtype(*elem, what),
        TypeProto::Sequence(inner) | TypeProto::Optional(inner) => innermost(inner, what),
        TypeProto::Map(..) => Err(Failure::unsupported(format!(
            "{what} is of a type not supported: map"
        ))),
        TypeProto::Other(kind) => Err(Failure::unsupported(format!(
            "{what} is of a type not supported: {kind}"
        ))),
        TypeProto::Missing => Err(Failure::invalid(format!("{what} has no type"))),
    }
}

/// A value as the sequence or optional that an output is; only the dtype is said, since files err about ranks.
///
/// # Errors
/// Where irc has no such type.
pub fn output_value(output: &ValueInfo<'_>, value: Expr) -> Result<Option<Expr>, Failure> {
    let what = format!("output `{}`", output.name);
    let (ty, is_optional) = match &output.ty {
        // What gives maps says itself what it gives.
        Some(TypeProto::Sequence(inner)) if matches!(**inner, TypeProto::Map(..)) => {
            return Ok(None);
        }
        Some(ty @ TypeProto::Sequence(_)) => (ty, false),
        Some(ty @ TypeProto::Optional(_)) => (ty, true),
        Some(
            TypeProto::Tensor(..) | TypeProto::Map(..) | TypeProto::Other(_) | TypeProto::Missing,
        )
        | None => {
            return Ok(None);
        }
    };
    let tensor = tensor_type(innermost(ty, &what)?, None);
    let ty = match ty {
        TypeProto::Optional(inner) if matches!(**inner, TypeProto::Sequence(_)) => {
            Expr::call("R.Seq", [tensor])
        }
        _ => tensor,
    };
    let path = if is_optional {
        "I.optional"
    } else {
        "I.sequence"
    };
    Ok(Some(Expr::call(path, [value]).with("ty", ty)))
}

/// `R.Tensor((2, "n"), dtype="float32")`; without extents where the rank is unknown.
pub fn tensor_type(dtype: DType, dims: Option<Vec<Expr>>) -> Expr {
    Expr::call("R.Tensor", dims.map(Expr::tuple)).with("dtype", Expr::str(dtype.name()))
}

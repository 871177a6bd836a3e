//! Constants and attributes as expressions.
//!
//! Before: `alpha = 0.1f`, `to = 10`, `axes = [0, 1]`, a tensor of up to sixteen elements.
//! After: `alpha=0.1`, `to="float16"`, `axes=[0, 1]`, `R.const([1.0, 2.0], "float32")`.

use irc_syntax::DType;
use irc_syntax::ast::Expr;

use super::fault::Failure;
use super::model::{AttrValue, Attribute};
use super::tensor::{Dense, dtype_of, short_f32};
use crate::tensor::print_const;

/// Tensors of up to this many elements stand in the text.
pub const MAX_INLINE: usize = 16;

/// Integer attributes of ONNX's own operators whose number is an element type.
const DTYPE_ATTRIBUTES: [&str; 7] = [
    "dtype",
    "output_datatype",
    "output_dtype",
    "precision",
    "softmax_precision",
    "stash_type",
    "to",
];

/// The expression of a plain attribute; `None` for tensors, graphs and types.
///
/// # Errors
/// Where a value cannot be written in the language.
pub fn attr_expr(
    attr: &Attribute<'_>,
    value: &AttrValue<'_>,
    at: &str,
) -> Result<Option<Expr>, Failure> {
    let text = |bytes: &[u8]| {
        std::str::from_utf8(bytes).map(Expr::str).map_err(|_| {
            Failure::unsupported(format!(
                "attribute `{}` of {at} is text that is not UTF-8",
                attr.name
            ))
        })
    };
    Ok(Some(match value {
        AttrValue::Float(value) => Expr::float(short_f32(*value)),
        AttrValue::Int(value) if DTYPE_ATTRIBUTES.contains(&attr.name) => {
            dtype_expr(*value, attr.name, at)?
        }
        AttrValue::Int(value) => Expr::int(*value),
        AttrValue::Str(bytes) => text(bytes)?,
        AttrValue::Floats(values) => {
            Expr::list(values.iter().map(|value| Expr::float(short_f32(*value))))
        }
        AttrValue::Ints(values) => Expr::list(values.iter().map(|value| Expr::int(*value))),
        AttrValue::Strs(texts) => Expr::list(
            texts
                .iter()
                .map(|bytes| text(bytes))
                .collect::<Result<Vec<_>, _>>()?,
        ),
        AttrValue::Tensor(_)
        | AttrValue::Graph(_)
        | AttrValue::Sparse(_)
        | AttrValue::Tensors(_)
        | AttrValue::Type(_)
        | AttrValue::Ref(_)
        | AttrValue::Other(_) => return Ok(None),
    }))
}

/// An element type by its name; 0 is none.
fn dtype_expr(number: i64, attr: &str, at: &str) -> Result<Expr, Failure> {
    if number == 0 {
        return Ok(Expr::none());
    }
    let dtype = dtype_of(number).ok_or_else(|| {
        Failure::unsupported(format!(
            "attribute `{attr}` of {at} is element type {number}"
        ))
    })?;
    Ok(Expr::str(dtype.name()))
}

/// `R.const(…)` of a small tensor; `None` where it is too large or has no literal.
pub fn const_expr(dense: &Dense<'_>) -> Option<Expr> {
    // Text is never kept beside the text.
    let is_small = dense.dtype == DType::Str
        || dense.shape.iter().product::<usize>() <= MAX_INLINE && dense.shape.len() <= 8;
    let has_literal = !matches!(dense.dtype, DType::C64 | DType::C128);
    (is_small && has_literal).then(|| print_const(&dense.to_tensor()))
}

//! Maps on the command line: `--input x={"a": 1, "b": 2}`, and results that are lists of maps.

use std::fmt::Write as _;

use super::Exit;
use super::native::Slot;
use super::report::Failure;
use crate::syntax::{DType, Expr, ExprKind, parse_expr_str};
use crate::tensor::{Tensor, parse_const_value};

/// The keys and values of a map that is written out.
///
/// # Errors
/// The text is no map, or its members are of other types.
pub fn read_map(text: &str, keys: &Slot, values: &Slot) -> Result<[Tensor; 2], Failure> {
    let fault = |why: &str| Failure::new(Exit::Usage, format!("`{text}`: {why}"));
    let expr = parse_expr_str(text).map_err(|_| fault("this is no map"))?;
    let ExprKind::Dict(items) = expr.kind else {
        return Err(fault("this is no map"));
    };
    let part = |items: Vec<Expr>, dtype: Option<DType>| {
        if items.is_empty() {
            let empty = dtype.and_then(|dtype| Tensor::zeros(dtype, vec![0]));
            return empty.ok_or_else(|| fault("its type is not known"));
        }
        parse_const_value(&Expr::list(items), dtype).map_err(|error| fault(&error.to_string()))
    };
    let (names, members) = items.into_iter().unzip();
    Ok([part(names, keys.dtype)?, part(members, values.dtype)?])
}

/// One line a map.
pub fn show_maps(text: &mut String, name: &str, keys: &Tensor, values: &Tensor) {
    let words: Vec<String> = match &keys.strings {
        Some(strings) => strings.iter().map(|key| format!("{key:?}")).collect(),
        None => keys.to_i64s().iter().map(ToString::to_string).collect(),
    };
    let numbers: Vec<String> = match values.dtype {
        DType::I64 => values.to_i64s().iter().map(ToString::to_string).collect(),
        DType::F32 => {
            let numbers = values.to_f64s();
            numbers
                .iter()
                .map(|value| (*value as f32).to_string())
                .collect()
        }
        _ => values.to_f64s().iter().map(ToString::to_string).collect(),
    };
    let n = values.shape.first().copied().unwrap_or(0);
    let _ = writeln!(text, "{name}: a list of {n} maps");
    for row in 0..n {
        let members = numbers.iter().skip(row * words.len());
        let members: Vec<String> = words
            .iter()
            .zip(members)
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        let _ = writeln!(text, "{name}[{row}]: {{{}}}", members.join(", "));
    }
}

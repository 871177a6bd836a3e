//! What is done with strings.

use super::Done;
use crate::interp::{RunError, Value};
use crate::tensor::text::{Case, format_numbers, map_case, parse_numbers, split as split_text};
use crate::tensor::{Pattern, Tensor};
use irc_syntax::DType;

fn strings(x: &Tensor) -> Done<&[String]> {
    x.strings
        .as_deref()
        .ok_or_else(|| RunError::type_error(format!("{} is no string", x.dtype)))
}

fn pack(shape: &[usize], strings: Vec<String>) -> Done {
    Tensor::from_strings(shape.to_vec(), strings)
        .ok_or_else(|| RunError::value_error("strings do not fit their shape"))
}

/// Strings behind strings of the same shape.
pub(in crate::interp) fn concat(a: &Tensor, b: &Tensor) -> Done {
    if a.shape != b.shape {
        let message = format!("shapes {:?} and {:?} differ", a.shape, b.shape);
        return Err(RunError::value_error(message));
    }
    let pairs = strings(a)?.iter().zip(strings(b)?);
    pack(&a.shape, pairs.map(|(a, b)| format!("{a}{b}")).collect())
}

/// Pieces along a new last axis, filled up with empty strings, and how many there are. `most` is the number of splits;
/// all where it is negative.
pub(in crate::interp) fn split(x: &Tensor, delimiter: &str, most: i64) -> Done<Value> {
    let most = usize::try_from(most).ok();
    let pieces: Vec<Vec<&str>> = strings(x)?
        .iter()
        .map(|text| split_text(text, delimiter, most))
        .collect();
    let width = pieces.iter().map(Vec::len).max().unwrap_or(0);
    let counts: Vec<i64> = pieces.iter().map(|pieces| pieces.len() as i64).collect();
    let at = |row: &Vec<&str>, column: usize| row.get(column).copied().unwrap_or("").to_owned();
    let all = pieces
        .iter()
        .flat_map(|row| (0..width).map(move |column| at(row, column)));
    let shape: Vec<usize> = x.shape.iter().copied().chain([width]).collect();
    let counts = Tensor::from_vec(x.shape.clone(), &counts)
        .ok_or_else(|| RunError::value_error("counts do not fit their shape"))?;
    Ok(Value::Tuple(vec![
        Value::Tensor(pack(&shape, all.collect())?),
        Value::Tensor(counts),
    ]))
}

/// Strings in one letter case.
pub(in crate::interp) fn in_case(x: &Tensor, case: Case) -> Done {
    let mapped = strings(x)?.iter().map(|text| map_case(text, case));
    pack(&x.shape, mapped.collect())
}

/// Whether strings match a pattern as a whole.
pub(in crate::interp) fn matches(x: &Tensor, pattern: &str) -> Done {
    let pattern =
        Pattern::compile(pattern).map_err(|error| RunError::value_error(error.to_string()))?;
    let found: Vec<bool> = strings(x)?
        .iter()
        .map(|text| pattern.matches(text.as_bytes()))
        .collect();
    Tensor::from_vec(x.shape.clone(), &found)
        .ok_or_else(|| RunError::value_error("answers do not fit their shape"))
}

/// Numbers as strings.
pub(in crate::interp) fn format(x: &Tensor) -> Done {
    pack(&x.shape, format_numbers(x))
}

/// Strings as numbers.
pub(in crate::interp) fn parse(x: &Tensor, dtype: DType) -> Done {
    Ok(parse_numbers(strings(x)?, x.shape.clone(), dtype)?)
}

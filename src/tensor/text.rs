//! What can be done with strings: splitting, case, numbers. The compiled forms are in `codegen/host`.

use irc_syntax::DType;

use super::constant::shortest;
use super::{Tensor, TensorError};

/// A letter case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Case {
    /// abc
    Lower,
    /// ABC
    Upper,
}

/// A code point and up to three that it is mapped to; zeros fill up.
pub type CaseRow = [u32; 4];

/// Maps every code point by Unicode's full mapping, without locale and without looking at its neighbours.
pub fn map_case(text: &str, case: Case) -> String {
    match case {
        Case::Lower => text.chars().flat_map(char::to_lowercase).collect(),
        Case::Upper => text.chars().flat_map(char::to_uppercase).collect(),
    }
}

/// The code points that a mapping changes, in order.
pub fn case_table(case: Case) -> Vec<CaseRow> {
    let row = |c: char| {
        let mut to = [0; 3];
        match case {
            Case::Lower => fill(&mut to, c.to_lowercase()),
            Case::Upper => fill(&mut to, c.to_uppercase()),
        }
        let [first, second, third] = to;
        (first != u32::from(c)).then_some([u32::from(c), first, second, third])
    };
    ('\0'..=char::MAX).filter_map(row).collect()
}

fn fill(to: &mut [u32; 3], mapped: impl Iterator<Item = char>) {
    for (place, c) in to.iter_mut().zip(mapped) {
        *place = u32::from(c);
    }
}

/// The pieces of a text. Without a delimiter it is split at white space, and that around it is dropped; `most` is the
/// number of splits.
pub fn split<'t>(text: &'t str, delimiter: &str, most: Option<usize>) -> Vec<&'t str> {
    let most = most.unwrap_or(usize::MAX);
    let mut pieces = Vec::new();
    if !delimiter.is_empty() {
        pieces.extend(text.splitn(most.saturating_add(1), delimiter));
        return pieces;
    }
    let mut rest = text.trim();
    while pieces.len() < most
        && let Some((piece, after)) = rest.split_once(char::is_whitespace)
    {
        pieces.push(piece);
        rest = after.trim_start();
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

/// Numbers in plain notation, with the fewest digits that read back as the same number.
pub fn format_numbers(tensor: &Tensor) -> Vec<String> {
    let dtype = tensor.dtype;
    if !dtype.is_float() {
        let unsigned = dtype == DType::U64;
        let print = |value: i64| match unsigned {
            true => (value as u64).to_string(),
            false => value.to_string(),
        };
        return tensor.to_i64s().into_iter().map(print).collect();
    }
    let print = |value: f64| match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "INF".to_owned(),
        f64::NEG_INFINITY => "-INF".to_owned(),
        _ => {
            let text = shortest(dtype, value).to_string();
            let point = if text.contains('.') { "" } else { ".0" };
            text + point
        }
    };
    tensor.to_f64s().into_iter().map(print).collect()
}

/// The numbers that strings stand for, in `float32`, `float64`, `int64` or `uint64`. Integers drop a fraction.
///
/// # Errors
/// A string is no number, or one that the integers do not have.
pub fn parse_numbers(
    strings: &[String],
    shape: Vec<usize>,
    dtype: DType,
) -> Result<Tensor, TensorError> {
    let size_fault = || TensorError("strings do not fit their shape".to_owned());
    let fault = |text: &String| TensorError(format!("{text:?} is no {dtype}"));
    match dtype {
        DType::F32 => {
            let read = |text: &String| read_float::<f32>(text).ok_or_else(|| fault(text));
            let values = strings.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            Tensor::from_vec(shape, &values).ok_or_else(size_fault)
        }
        DType::F64 => {
            let read = |text: &String| read_float::<f64>(text).ok_or_else(|| fault(text));
            let values = strings.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            Tensor::from_vec(shape, &values).ok_or_else(size_fault)
        }
        DType::I64 | DType::U64 => {
            let read = |text: &String| read_int(text, dtype).ok_or_else(|| fault(text));
            let values = strings.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            Tensor::from_i64s(dtype, shape, &values).ok_or_else(size_fault)
        }
        _ => Err(TensorError(format!("strings are not read as {dtype}"))),
    }
}

/// Whether a text is digits with at most one point, and perhaps an exponent.
fn is_plain(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    let is_exponent = |text: &str| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        !digits.is_empty() && is_digits(digits)
    };
    has_digits && is_digits(whole) && is_digits(fraction) && exponent.is_none_or(is_exponent)
}

fn read_float<F: std::str::FromStr>(text: &str) -> Option<F> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_special = unsigned.eq_ignore_ascii_case("inf") || text.eq_ignore_ascii_case("nan");
    (is_special || is_plain(text)).then(|| text.parse().ok())?
}

fn read_int(text: &str, dtype: DType) -> Option<i64> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let is_whole = digits
        .strip_prefix('-')
        .unwrap_or(digits)
        .bytes()
        .all(|byte| byte.is_ascii_digit());
    if is_whole {
        return match dtype {
            DType::U64 => digits.parse::<u64>().ok().map(|value| value as i64),
            _ => digits.parse().ok(),
        };
    }
    let value = read_float::<f64>(text)?.trunc();
    let (low, high) = match dtype {
        DType::U64 => (0.0, 2f64.powi(64)),
        _ => (-(2f64.powi(63)), 2f64.powi(63)),
    };
    let fits = low <= value && value < high;
    fits.then_some(match dtype {
        DType::U64 => value as u64 as i64,
        _ => value as i64,
    })
}

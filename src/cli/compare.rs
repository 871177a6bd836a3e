//! Whether two tensors agree, as ONNX's backend tests ask it.

use std::path::Path;

use crate::syntax::DType;
use crate::tensor::Tensor;

/// How far apart numbers may be: `|a - b| <= atol + rtol * |b|`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tolerance {
    /// Relative.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self {
            rtol: 1e-3,
            atol: 1e-5,
        }
    }
}

impl Tolerance {
    /// Reads `RTOL` or `RTOL,ATOL`.
    ///
    /// # Errors
    /// The text is not one or two numbers.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.trim()
                .parse::<f64>()
                .map_err(|error| error.to_string())
        };
        match text.split_once(',') {
            Some((rtol, atol)) => Ok(Self {
                rtol: number(rtol)?,
                atol: number(atol)?,
            }),
            None => Ok(Self {
                rtol: number(text)?,
                ..Self::default()
            }),
        }
    }

    /// The tolerance that a case states in `tol.json`, if it does.
    pub fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join("tol.json")).ok()?;
        let json: serde_json::Value = serde_json::from_str(&text).ok()?;
        let number = |key: &str| json.get(key).and_then(serde_json::Value::as_f64);
        Some(Self {
            rtol: number("rtol")?.max(1e-5),
            atol: number("atol")?.max(1e-6),
        })
    }

    /// Never finer than the type can hold.
    fn of(self, dtype: DType) -> Self {
        let least = match dtype {
            DType::F16 => 2e-3,
            DType::BF16 => 1e-2,
            _ => 0.0,
        };
        Self {
            rtol: self.rtol.max(least),
            atol: self.atol.max(least),
        }
    }
}

/// Compares a result with what is expected.
///
/// # Errors
/// Says where they differ first.
pub fn compare(got: &Tensor, wanted: &Tensor, tolerance: Tolerance) -> Result<(), String> {
    if got.dtype != wanted.dtype || got.shape != wanted.shape {
        return Err(format!(
            "{}{:?}, wanted {}{:?}",
            got.dtype, got.shape, wanted.dtype, wanted.shape
        ));
    }
    if got.dtype == DType::Str {
        let quoted = |tensor: &Tensor| -> Vec<String> {
            let strings = tensor.strings.as_deref().unwrap_or_default();
            strings.iter().map(|text| format!("{text:?}")).collect()
        };
        return first_difference(&got.shape, &quoted(got), &quoted(wanted), |a, b| a == b);
    }
    if !got.dtype.is_float() && !matches!(got.dtype, DType::C64 | DType::C128) {
        if got.data == wanted.data {
            return Ok(());
        }
        let (a, b) = (got.to_i64s(), wanted.to_i64s());
        return first_difference(&got.shape, &a, &b, |a, b| a == b);
    }
    let tolerance = tolerance.of(got.dtype);
    let close = |a: &f64, b: &f64| {
        a == b
            || (a.is_nan() && b.is_nan())
            || (a.is_finite() && (a - b).abs() <= tolerance.atol + tolerance.rtol * b.abs())
    };
    first_difference(&got.shape, &floats(got), &floats(wanted), close)
}

/// How far two tensors of one type are apart.
#[derive(Clone, PartialEq, Debug)]
pub struct Gap {
    /// The largest difference; infinite where one of two numbers is none.
    pub max_abs: f64,
    /// The largest difference in parts of what is wanted, where that is not 0.
    pub max_rel: f64,
    /// Where the largest difference is.
    pub place: Vec<usize>,
    /// The number there.
    pub got: String,
    /// The number wanted there.
    pub wanted: String,
}

/// How far two tensors of numbers are apart; `None` where they are not of one type and shape, or hold text or nothing.
pub fn gap(got: &Tensor, wanted: &Tensor) -> Option<Gap> {
    if got.dtype != wanted.dtype || got.shape != wanted.shape || got.dtype == DType::Str {
        return None;
    }
    let (a, b) = (floats(got), floats(wanted));
    let far = |a: f64, b: f64| match (a == b || (a.is_nan() && b.is_nan()), (a - b).abs()) {
        (true, _) => 0.0,
        (false, far) if far.is_nan() => f64::INFINITY,
        (false, far) => far,
    };
    let (mut at, mut max_abs, mut max_rel) = (None, -1.0, 0.0f64);
    for (i, (&a, &b)) in a.iter().zip(&b).enumerate() {
        let abs = far(a, b);
        if abs > max_abs {
            (at, max_abs) = (Some(i), abs);
        }
        if b != 0.0 && b.is_finite() {
            max_rel = max_rel.max(abs / b.abs());
        }
    }
    let at = at?;
    let n_parts = (a.len() / got.len().max(1)).max(1);
    let text = |tensor: &Tensor, values: &[f64]| {
        if tensor.dtype.is_int() {
            let exact = tensor.to_i64s().get(at).copied().unwrap_or_default();
            return match tensor.dtype {
                DType::U64 => (exact as u64).to_string(),
                _ => exact.to_string(),
            };
        }
        let value = values.get(at).copied().unwrap_or_default();
        match tensor.dtype {
            DType::F64 | DType::C128 => value.to_string(),
            _ => (value as f32).to_string(),
        }
    };
    Some(Gap {
        max_abs,
        max_rel,
        place: place(&got.shape, at / n_parts),
        got: text(got, &a),
        wanted: text(wanted, &b),
    })
}

/// The numbers of a tensor; complex ones as two each.
fn floats(tensor: &Tensor) -> Vec<f64> {
    let parts = |dtype: DType| {
        let shape = vec![tensor.data.len() / dtype.bytes()];
        Tensor::new(dtype, shape, tensor.data.clone()).map(|parts| parts.to_f64s())
    };
    match tensor.dtype {
        DType::C64 => parts(DType::F32).unwrap_or_default(),
        DType::C128 => parts(DType::F64).unwrap_or_default(),
        _ => tensor.to_f64s(),
    }
}

fn first_difference<T: std::fmt::Display>(
    shape: &[usize],
    a: &[T],
    b: &[T],
    same: impl Fn(&T, &T) -> bool,
) -> Result<(), String> {
    let differing = || {
        a.iter()
            .zip(b)
            .enumerate()
            .filter(|(_, (a, b))| !same(a, b))
    };
    match differing().next() {
        None => Ok(()),
        Some((at, (a_value, b_value))) => {
            let (n, all) = (differing().count(), a.len());
            let place = place(shape, at);
            Err(format!(
                "{n} of {all} values differ, first {a_value} not {b_value} at {place:?}"
            ))
        }
    }
}

/// The indices of a position in row-major order.
pub fn place(shape: &[usize], mut at: usize) -> Vec<usize> {
    let mut res = vec![0; shape.len()];
    for (index, &extent) in res.iter_mut().zip(shape).rev() {
        *index = at % extent.max(1);
        at /= extent.max(1);
    }
    res
}

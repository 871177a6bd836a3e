//! What can be said of a tensor in a line: its range, its mean, how many of its values are no numbers.

use irc_syntax::DType;

use super::Tensor;

/// A look at all numbers of a tensor. Complex numbers and text have no range, and so no look.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stats {
    /// The least value that is a number; `None` where there is none.
    pub min: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
    /// The mean of the finite values.
    pub mean: Option<f64>,
    /// How many are NaN.
    pub n_nan: usize,
    /// How many are infinite.
    pub n_inf: usize,
}

impl Stats {
    /// Looks at a tensor; `None` for complex numbers and text.
    pub fn of(tensor: &Tensor) -> Option<Self> {
        if matches!(tensor.dtype, DType::C64 | DType::C128 | DType::Str) {
            return None;
        }
        let mut res = Self::default();
        let (mut sum, mut n_finite) = (0.0, 0usize);
        for value in tensor.to_f64s() {
            if value.is_nan() {
                res.n_nan += 1;
                continue;
            }
            res.min = Some(res.min.map_or(value, |min| min.min(value)));
            res.max = Some(res.max.map_or(value, |max| max.max(value)));
            if value.is_finite() {
                sum += value;
                n_finite += 1;
            } else {
                res.n_inf += 1;
            }
        }
        res.mean = (n_finite > 0).then(|| sum / n_finite as f64);
        Some(res)
    }

    /// Whether every value is a finite number.
    pub fn is_finite(&self) -> bool {
        self.n_nan == 0 && self.n_inf == 0
    }
}

//! Conversion between any two dtypes.
//!
//! Floats round to nearest even, once. Float to integer truncates to 64 bits (saturating there, NaN is 0) and then keeps
//! the low bits; integers wrap. Anything to bool is `!= 0`. Text to numbers and back follows ONNX's Cast.

use half::{bf16, f16};
use irc_syntax::DType;

use super::element::Element;
use super::{Tensor, TensorError, minifloat};

impl Tensor {
    /// A tensor of the values as another dtype. *Errors*: text that is no number.
    pub fn cast(&self, dtype: DType) -> Result<Tensor, TensorError> {
        if self.dtype == dtype {
            return Ok(self.clone());
        }
        if dtype == DType::Str {
            let strings: Vec<String> = self.element_texts();
            return Ok(Tensor {
                dtype,
                shape: self.shape.clone(),
                data: [].into(),
                strings: Some(strings.into()),
            });
        }
        let data = if let Some(strings) = &self.strings {
            parse_strings(strings, dtype)?
        } else if matches!(dtype, DType::C64 | DType::C128) {
            self.to_complex(dtype)
        } else if self.dtype == DType::U64 && !dtype.is_int() {
            // Through i64 the upper half would come out negative.
            let values = u64::decode(&self.data);
            match dtype {
                DType::F32 => f32::encode(&map(&values, |value| value as f32)),
                _ => encode_f64s(dtype, &map(&values, |value| value as f64)),
            }
        } else if self.dtype.is_int() || self.dtype == DType::Bool {
            encode_i64s(dtype, &self.to_i64s())
        } else if self.dtype == DType::F32 {
            encode_f32s(dtype, &f32::decode(&self.data))
        } else {
            encode_f64s(dtype, &self.to_f64s())
        };
        Ok(Tensor {
            dtype,
            shape: self.shape.clone(),
            data: data.into(),
            strings: None,
        })
    }

    /// A tensor of any numeric dtype from f64 values, rounded once.
    ///
    /// `None` when their number does not fit the shape or the dtype is text.
    pub fn from_f64s(dtype: DType, shape: Vec<usize>, values: &[f64]) -> Option<Tensor> {
        Tensor::new(dtype, shape, encode_f64s(dtype, values))
    }

    /// A tensor of any numeric dtype from f32 values, rounded once.
    ///
    /// `None` when their number does not fit the shape or the dtype is text.
    pub fn from_f32s(dtype: DType, shape: Vec<usize>, values: &[f32]) -> Option<Tensor> {
        Tensor::new(dtype, shape, encode_f32s(dtype, values))
    }

    /// A tensor of any numeric dtype from i64 values; integers keep their low bits.
    ///
    /// `None` when their number does not fit the shape or the dtype is text.
    pub fn from_i64s(dtype: DType, shape: Vec<usize>, values: &[i64]) -> Option<Tensor> {
        Tensor::new(dtype, shape, encode_i64s(dtype, values))
    }

    /// Every element as an f32, rounded once; exact for everything narrower.
    pub fn to_f32s(&self) -> Vec<f32> {
        match self.dtype {
            DType::F32 => f32::decode(&self.data),
            DType::F16 => map(&f16::decode(&self.data), f16::to_f32),
            DType::BF16 => map(&bf16::decode(&self.data), bf16::to_f32),
            DType::U64 => map(&u64::decode(&self.data), |value| value as f32),
            dtype if dtype.is_int() => map(&self.to_i64s(), |value| value as f32),
            _ => map(&self.to_f64s(), |value| value as f32),
        }
    }

    fn to_complex(&self, dtype: DType) -> Vec<u8> {
        let values: Vec<f64> = match self.dtype {
            DType::C64 => map(&f32::decode(&self.data), f64::from),
            DType::C128 => f64::decode(&self.data),
            _ => self
                .to_f64s()
                .into_iter()
                .flat_map(|value| [value, 0.0])
                .collect(),
        };
        if dtype == DType::C64 {
            f32::encode(&map(&values, |value| value as f32))
        } else {
            f64::encode(&values)
        }
    }

    /// The text of each element: integers plainly, floats shortest, bools as `1` and `0`.
    fn element_texts(&self) -> Vec<String> {
        match self.dtype {
            DType::U64 => map(&u64::decode(&self.data), |value| value.to_string()),
            DType::F64 => map(&f64::decode(&self.data), float_text),
            dtype if dtype.is_float() => {
                map(&self.to_f32s(), |value| match value {
                    // Shortest for f32, in the notation of f64.
                    value if value.is_finite() => value.to_string(),
                    value => float_text(f64::from(value)),
                })
            }
            _ => map(&self.to_i64s(), |value| value.to_string()),
        }
    }
}

fn float_text(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "INF" } else { "-INF" }.to_owned()
    } else {
        value.to_string()
    }
}

fn parse_strings(strings: &[String], dtype: DType) -> Result<Vec<u8>, TensorError> {
    let fault = |text: &str| TensorError(format!("text {text:?} is no {dtype}"));
    if dtype.is_int() || dtype == DType::Bool {
        let parse = |text: &String| -> Result<i64, TensorError> {
            let trimmed = text.trim();
            match trimmed.parse::<i128>() {
                Ok(value) => Ok(value as i64),
                Err(_) => match trimmed.parse::<f64>() {
                    Ok(value) => Ok(value as i64),
                    Err(_) => Err(fault(text)),
                },
            }
        };
        let values = strings.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        return Ok(encode_i64s(dtype, &values));
    }
    let parse = |text: &String| text.trim().parse::<f64>().map_err(|_| fault(text));
    let values = strings.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    if dtype == DType::F32 {
        // One rounding from the decimal text, not two.
        let parse = |text: &String| text.trim().parse::<f32>().map_err(|_| fault(text));
        let values = strings.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        return Ok(f32::encode(&values));
    }
    if matches!(dtype, DType::C64 | DType::C128) {
        return Err(TensorError(format!("text has no conversion to {dtype}")));
    }
    Ok(encode_f64s(dtype, &values))
}

fn map<A: Copy, B>(values: &[A], f: impl FnMut(A) -> B) -> Vec<B> {
    values.iter().copied().map(f).collect()
}

fn encode_f32s(dtype: DType, values: &[f32]) -> Vec<u8> {
    match dtype {
        DType::F32 => f32::encode(values),
        DType::F16 => f16::encode(&map(values, f16::from_f32)),
        DType::BF16 => bf16::encode(&map(values, bf16::from_f32)),
        dtype if dtype.is_int() => encode_ints(
            dtype,
            values.iter().map(|&value| int_of(dtype, value.into())),
        ),
        _ => encode_f64s(dtype, &map(values, f64::from)),
    }
}

fn encode_f64s(dtype: DType, values: &[f64]) -> Vec<u8> {
    match dtype {
        DType::F64 => f64::encode(values),
        DType::F32 => f32::encode(&map(values, |value| value as f32)),
        DType::F16 => f16::encode(&map(values, f16::from_f64)),
        DType::BF16 => bf16::encode(&map(values, bf16::from_f64)),
        DType::F4E2M1
        | DType::F8E4M3FN
        | DType::F8E4M3FNUZ
        | DType::F8E5M2
        | DType::F8E5M2FNUZ
        | DType::F8E8M0 => map(values, |value| minifloat::encode(dtype, value)),
        DType::Bool => map(values, |value| u8::from(value != 0.0)),
        DType::C64 => f32::encode(
            &values
                .iter()
                .flat_map(|&value| [value as f32, 0.0])
                .collect::<Vec<_>>(),
        ),
        DType::C128 => f64::encode(
            &values
                .iter()
                .flat_map(|&value| [value, 0.0])
                .collect::<Vec<_>>(),
        ),
        DType::Str => Vec::new(),
        DType::I2
        | DType::I4
        | DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::U2
        | DType::U4
        | DType::U8
        | DType::U16
        | DType::U32
        | DType::U64 => encode_ints(dtype, values.iter().map(|&value| int_of(dtype, value))),
    }
}

/// Truncates a float to the 64 bits of an integer dtype.
fn int_of(dtype: DType, value: f64) -> i64 {
    if dtype == DType::U64 && value >= 0.0 {
        value as u64 as i64
    } else {
        value as i64
    }
}

fn encode_i64s(dtype: DType, values: &[i64]) -> Vec<u8> {
    match dtype {
        DType::Bool => map(values, |value| u8::from(value != 0)),
        DType::F32 => f32::encode(&map(values, |value| value as f32)),
        dtype if dtype.is_int() => encode_ints(dtype, values.iter().copied()),
        _ => encode_f64s(dtype, &map(values, |value| value as f64)),
    }
}

/// The low bits of each value, as many as an integer dtype has.
fn encode_ints(dtype: DType, values: impl Iterator<Item = i64>) -> Vec<u8> {
    match dtype {
        DType::I2 | DType::I4 => {
            let shift = 8 - dtype.bits();
            values
                .map(|value| (((value as i8) << shift) >> shift) as u8)
                .collect()
        }
        DType::U2 | DType::U4 => {
            let mask = (1u8 << dtype.bits()) - 1;
            values.map(|value| value as u8 & mask).collect()
        }
        DType::I16 | DType::U16 => values
            .flat_map(|value| (value as u16).to_le_bytes())
            .collect(),
        DType::I32 | DType::U32 => values
            .flat_map(|value| (value as u32).to_le_bytes())
            .collect(),
        DType::I64 | DType::U64 => values.flat_map(i64::to_le_bytes).collect(),
        _ => values.map(|value| value as u8).collect(),
    }
}

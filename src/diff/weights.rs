//! Weights by content: equal bytes first, then how far elements are apart.

use half::{bf16, f16};
use irc_syntax::DType;

use super::report::{Aspect, Change, Detail, Kind};
use crate::tensor::{Tensor, Weight, WeightData, sha256_bytes};

/// How many digits of a hash are shown.
const HASH_DIGITS: usize = 8;

/// Whether two weights are of equal type and bytes.
pub(super) fn is_equal(a: &Weight, b: &Weight) -> bool {
    if a.dtype != b.dtype || a.shape != b.shape {
        return false;
    }
    if let (WeightData::Mapped(x, from), WeightData::Mapped(y, to)) = (&a.data, &b.data)
        && from == to
        && std::ptr::eq(x.as_ptr(), y.as_ptr())
    {
        return true;
    }
    a.bytes() == b.bytes()
}

/// `float32 (64, 3, 7, 7)`
pub(super) fn describe(weight: &Weight) -> String {
    format!("{} {}", weight.dtype, shape_text(&weight.shape))
}

/// The first digits of the sha256 of bytes.
pub(super) fn short_hash(bytes: &[u8]) -> String {
    let mut hash = sha256_bytes(bytes);
    hash.truncate(HASH_DIGITS);
    hash
}

fn shape_text(shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    match dims.as_slice() {
        [only] => format!("({only},)"),
        _ => format!("({})", dims.join(", ")),
    }
}

/// How far elements are apart.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Distance {
    /// Elements that are not the same bits.
    pub(super) changed: usize,
    pub(super) len: usize,
    /// Of the elements that are numbers in both.
    pub(super) max: f64,
    pub(super) mean: f64,
    /// Elements that are NaN in one of them only.
    pub(super) nans: usize,
}

/// The distance of two weights of one type.
pub(super) fn distance(a: &Weight, b: &Weight) -> Distance {
    let (x, y) = (a.bytes(), b.bytes());
    match a.dtype {
        DType::F32 => by_element(x, y, |bytes: [u8; 4]| f64::from(f32::from_le_bytes(bytes))),
        DType::F64 => by_element(x, y, f64::from_le_bytes),
        DType::F16 => by_element(x, y, |bytes| f64::from(f16::from_le_bytes(bytes))),
        DType::BF16 => by_element(x, y, |bytes| f64::from(bf16::from_le_bytes(bytes))),
        DType::I8 => by_element(x, y, |[byte]: [u8; 1]| f64::from(byte as i8)),
        DType::U8 | DType::Bool => by_element(x, y, |[byte]: [u8; 1]| f64::from(byte)),
        DType::I16 => by_element(x, y, |bytes| f64::from(i16::from_le_bytes(bytes))),
        DType::U16 => by_element(x, y, |bytes| f64::from(u16::from_le_bytes(bytes))),
        DType::I32 => by_element(x, y, |bytes| f64::from(i32::from_le_bytes(bytes))),
        DType::U32 => by_element(x, y, |bytes| f64::from(u32::from_le_bytes(bytes))),
        DType::I64 => by_element(x, y, |bytes| i64::from_le_bytes(bytes) as f64),
        DType::U64 => by_element(x, y, |bytes| u64::from_le_bytes(bytes) as f64),
        DType::I2
        | DType::I4
        | DType::U2
        | DType::U4
        | DType::F4E2M1
        | DType::F8E4M3FN
        | DType::F8E4M3FNUZ
        | DType::F8E5M2
        | DType::F8E5M2FNUZ
        | DType::F8E8M0
        | DType::C64
        | DType::C128
        | DType::Str => by_tensor(&a.tensor(), &b.tensor()),
    }
}

fn by_element<const N: usize>(a: &[u8], b: &[u8], read: impl Fn([u8; N]) -> f64) -> Distance {
    let (a, b) = (a.as_chunks::<N>().0, b.as_chunks::<N>().0);
    let mut res = Distance {
        len: a.len(),
        ..Distance::default()
    };
    let mut sum = 0.0;
    for (x, y) in a.iter().zip(b) {
        if x != y {
            res.add(read(*x), read(*y), &mut sum);
        }
    }
    res.finish(sum)
}

/// Small formats, one element a byte, and those of which the distance is of the real parts.
fn by_tensor(a: &Tensor, b: &Tensor) -> Distance {
    let mut res = Distance {
        len: a.len(),
        ..Distance::default()
    };
    if let (Some(a), Some(b)) = (&a.strings, &b.strings) {
        res.changed = a.iter().zip(b.iter()).filter(|(a, b)| a != b).count();
        return res;
    }
    let width = a.dtype.bytes().max(1);
    let mut sum = 0.0;
    let numbers = a.to_f64s().into_iter().zip(b.to_f64s());
    let bytes = a.data.chunks(width).zip(b.data.chunks(width));
    for ((x, y), (from, to)) in numbers.zip(bytes) {
        if from != to {
            res.add(x, y, &mut sum);
        }
    }
    res.finish(sum)
}

impl Distance {
    fn add(&mut self, a: f64, b: f64, sum: &mut f64) {
        self.changed += 1;
        let apart = (a - b).abs();
        if a.is_nan() != b.is_nan() {
            self.nans += 1;
        } else if !apart.is_nan() {
            self.max = self.max.max(apart);
            *sum += apart;
        }
    }

    fn finish(mut self, sum: f64) -> Self {
        if self.len > 0 {
            self.mean = sum / self.len as f64;
        }
        self
    }

    /// What a reader sees of it.
    pub(super) fn details(&self, into: &mut Vec<Detail>) {
        let mut add = |what: &str, text: String| {
            into.push(Detail::new(Aspect::Fact, what, None, Some(text)));
        };
        add("max difference", short_float(self.max));
        add("mean", short_float(self.mean));
        add("elements", format!("{} of {}", self.changed, self.len));
        if self.nans > 0 {
            add("NaN in one", self.nans.to_string());
        }
    }
}

/// A number in few digits.
pub(super) fn short_float(value: f64) -> String {
    if value == 0.0 || (1e-3..1e4).contains(&value.abs()) {
        let text = format!("{value:.4}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        return if text.is_empty() {
            "0".to_owned()
        } else {
            text.to_owned()
        };
    }
    format!("{value:.2e}")
}

/// How a weight that both programs have differs, with what it is sorted by.
pub(super) fn compare(name: &str, a: &Weight, b: &Weight) -> Option<(f64, Change)> {
    if is_equal(a, b) {
        return None;
    }
    let mut change = Change::new(Kind::Changed, "weight", name);
    if a.dtype != b.dtype || a.shape != b.shape {
        if a.dtype != b.dtype {
            change
                .details
                .push(Detail::fact("dtype", a.dtype.name(), b.dtype.name()));
        }
        if a.shape != b.shape {
            let (from, to) = (shape_text(&a.shape), shape_text(&b.shape));
            change.details.push(Detail::fact("shape", from, to));
        }
        return Some((f64::INFINITY, change));
    }
    change.note = describe(a);
    let (from, to) = (short_hash(a.bytes()), short_hash(b.bytes()));
    change.details.push(Detail::fact("sha256", from, to));
    let distance = distance(a, b);
    distance.details(&mut change.details);
    let first = if distance.nans > 0 {
        f64::MAX
    } else {
        distance.max
    };
    Some((first, change))
}

//! Bytes that are made when they are wanted, part by part.
//!
//! What a pass rearranges is often as large as the model, and is wanted once, in order, when the library is written: then
//! [`Made::part`] makes one part after the other into a buffer, and no more than a few parts are in memory at any time.

use std::fmt;
use std::sync::{Arc, OnceLock};

use irc_syntax::DType;

use super::walk::{Side, copy_strided, row_major};
use super::{Weight, WeightData};

/// Writes the part of a number.
type Fill = Box<dyn Fn(usize, &mut [u8]) + Send + Sync>;

/// Parts of equal length, one after the other.
pub struct Made {
    /// The weight whose elements these are in another order, and how far they are apart along each axis.
    strided: Option<(Weight, Vec<usize>)>,
    n_parts: usize,
    part_len: usize,
    fill: Fill,
    whole: OnceLock<Arc<[u8]>>,
}

impl Made {
    /// `n_parts` of `part_len` bytes. `fill` is given the number of a part and a buffer of its length with any bytes in
    /// it, and writes all of them, the same whenever it is asked.
    pub fn new(
        n_parts: usize,
        part_len: usize,
        fill: impl Fn(usize, &mut [u8]) + Send + Sync + 'static,
    ) -> Self {
        Self {
            strided: None,
            n_parts,
            part_len,
            fill: Box::new(fill),
            whole: OnceLock::new(),
        }
    }

    /// Bytes of all parts.
    pub fn len(&self) -> usize {
        self.n_parts * self.part_len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many parts there are.
    pub fn n_parts(&self) -> usize {
        self.n_parts
    }

    /// Appends a part to a buffer.
    pub fn part(&self, at: usize, buffer: &mut Vec<u8>) {
        let start = buffer.len();
        buffer.resize(start + self.part_len, 0);
        (self.fill)(at, &mut buffer[start..]);
    }

    /// All bytes, which stay in memory from then on.
    pub fn whole(&self) -> &Arc<[u8]> {
        self.whole.get_or_init(|| {
            let mut data = vec![0; self.len()];
            for (at, part) in data.chunks_exact_mut(self.part_len.max(1)).enumerate() {
                (self.fill)(at, part);
            }
            data.into()
        })
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Made({} x {})", self.n_parts, self.part_len)
    }
}

impl Weight {
    /// The weight with its axes in another order, whose elements move when they are wanted; `None` for strings, and for what is
    /// no order of the axes.
    pub fn permuted(&self, axes: &[usize]) -> Option<Self> {
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        let is_order = sorted.iter().copied().eq(0..self.shape.len());
        if !is_order || self.dtype == DType::Str {
            return None;
        }
        let (source, own) = self.strided();
        let shape: Vec<usize> = axes.iter().map(|&axis| self.shape[axis]).collect();
        let strides: Vec<usize> = axes.iter().map(|&axis| own[axis]).collect();
        let (n_parts, inner) = match shape.split_first() {
            Some((first, inner)) => (*first, inner.to_vec()),
            None => (1, Vec::new()),
        };
        let size = self.dtype.bytes();
        let from: Vec<isize> = strides.iter().map(|&stride| stride as isize).collect();
        let (weight, to) = (source.clone(), row_major(&inner));
        let part_len = inner.iter().product::<usize>() * size;
        let mut made = Made::new(n_parts, part_len, move |at, out| {
            let (first, rest) = from.split_first().map_or((0, &[][..]), |(a, b)| (*a, b));
            let source = Side {
                base: first * at as isize,
                strides: rest,
            };
            let target = Side {
                base: 0,
                strides: &to,
            };
            copy_strided(&inner, size, (weight.bytes(), source), (out, target));
        });
        made.strided = Some((source, strides));
        Some(Self {
            dtype: self.dtype,
            shape,
            data: WeightData::Made(Arc::new(made)),
        })
    }

    /// A weight whose bytes are there that has the elements of this one, and how far they are apart along each axis.
    pub fn strided(&self) -> (Self, Vec<usize>) {
        if let WeightData::Made(made) = &self.data
            && let Some((source, strides)) = &made.strided
        {
            return (source.clone(), strides.clone());
        }
        let strides = row_major(&self.shape);
        let strides = strides.iter().map(|&stride| stride as usize).collect();
        (self.clone(), strides)
    }
}

//! How the bytes of weights lie one after the other, inside the shared object and in a file beside it.
//!
//! A params file is [`PARAMS_MAGIC`], the number of bytes that follow the header as `u64`, their sha256, zeros up to
//! [`PARAMS_HEADER_BYTES`], and then the weights, each aligned to 64 bytes.

use std::io::{self, Seek, SeekFrom, Write};
use std::thread;

use irc_syntax::DType;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::codegen::runtime::{PARAMS_HEADER_BYTES, PARAMS_MAGIC};
use crate::tensor::{MappedFile, Weight, WeightData, Weights, count};

/// The alignment of each weight: a cache line, and the widest vector.
const ALIGN: u64 = 64;

/// Where each weight lies.
pub struct Layout {
    /// The offset of each weight from the first.
    pub offsets: Vec<u64>,
    /// Bytes of all of them, a multiple of the alignment.
    pub len: u64,
}

impl Layout {
    /// Places weights in order.
    pub fn new(weights: &[Weight]) -> Self {
        let mut len = 0;
        let mut offsets = Vec::with_capacity(weights.len());
        for weight in weights {
            offsets.push(len);
            len = (len + weight.bytes().len() as u64).next_multiple_of(ALIGN);
        }
        Self { offsets, len }
    }

    /// sha256 of all bytes, padding included.
    pub fn digest(&self, weights: &[Weight]) -> [u8; 32] {
        let mut hasher = Sha256::new();
        stream(self, weights, |bytes| hasher.update(bytes));
        hasher.finalize().into()
    }

    /// The table `irc_weights_info`; `digest` is given when the weights are beside the library.
    pub fn info(&self, digest: Option<[u8; 32]>) -> Vec<u8> {
        let mut res = Vec::with_capacity(56 + 8 * self.offsets.len());
        for word in [
            self.offsets.len() as u64,
            u64::from(digest.is_some()),
            self.len,
        ] {
            res.extend(word.to_le_bytes());
        }
        res.extend(digest.unwrap_or_default());
        res.extend(self.offsets.iter().flat_map(|offset| offset.to_le_bytes()));
        res
    }
}

/// Hands each weight, and the padding after it, to `sink` in order.
pub fn stream(layout: &Layout, weights: &[Weight], mut sink: impl FnMut(&[u8])) {
    for (i, weight) in weights.iter().enumerate() {
        let end = layout.offsets.get(i + 1).copied().unwrap_or(layout.len);
        let padding = end - layout.offsets[i] - weight.bytes().len() as u64;
        sink(weight.bytes());
        sink(&[0; ALIGN as usize][..padding as usize]);
    }
}

/// What the weights are: a list of name, dtype and extents, JSON.
pub fn names(names: &[String], weights: &[Weight]) -> String {
    let row = |(name, weight): (&String, &Weight)| json!([name, weight.dtype.name(), weight.shape]);
    Value::Array(names.iter().zip(weights).map(row).collect()).to_string()
}

/// The weights that begin at an offset of a file, as [`names`] describes them.
pub fn read(names: &str, file: &MappedFile, start: usize) -> Result<Weights, String> {
    let rows: Vec<(String, String, Vec<usize>)> =
        serde_json::from_str(names).map_err(|error| error.to_string())?;
    let mut res = Weights::new();
    let mut at = start;
    for (name, dtype, shape) in rows {
        let dtype = DType::from_name(&dtype).ok_or("a weight of an unknown dtype")?;
        let bytes = count(&shape).and_then(|n| n.checked_mul(dtype.bytes()));
        let end = bytes
            .and_then(|bytes| at.checked_add(bytes))
            .filter(|end| *end <= file.len());
        let end = end.ok_or_else(|| format!("it ends before the weight `{name}` does"))?;
        let data = WeightData::Mapped(file.clone(), at..end);
        res.insert(name, Weight { dtype, shape, data });
        at = start + (end - start).next_multiple_of(ALIGN as usize);
    }
    Ok(res)
}

/// Writes a params file and gives the digest in its header. The header is written last: the bytes are hashed while
/// they are written.
pub fn write(
    layout: &Layout,
    weights: &[Weight],
    out: &mut (impl Write + Seek),
) -> io::Result<[u8; 32]> {
    let mut header = vec![0; PARAMS_HEADER_BYTES as usize];
    let (digest, written) = thread::scope(|scope| {
        let digest = thread::Builder::new().spawn_scoped(scope, || layout.digest(weights));
        let mut written = out.write_all(&header);
        stream(layout, weights, |bytes| {
            if written.is_ok() {
                written = out.write_all(bytes);
            }
        });
        let digest = digest.ok().and_then(|digest| digest.join().ok());
        (digest, written)
    });
    written?;
    let digest = digest.unwrap_or_else(|| layout.digest(weights));
    header.clear();
    header.extend(PARAMS_MAGIC);
    header.extend(layout.len.to_le_bytes());
    header.extend(digest);
    out.seek(SeekFrom::Start(0))?;
    out.write_all(&header)?;
    Ok(digest)
}

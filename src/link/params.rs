//! How the bytes of weights lie one after the other, inside the shared object and in a file beside it.
//!
//! A params file is [`PARAMS_MAGIC`], the number of bytes that follow the header as `u64`, their sha256, zeros up to
//! [`PARAMS_HEADER_BYTES`], and then the weights, each aligned to 64 bytes.

use std::io::{self, Seek, SeekFrom, Write};
use std::sync::mpsc;
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
            len = (len + weight.n_bytes() as u64).next_multiple_of(ALIGN);
        }
        Self { offsets, len }
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

/// A stretch of the weights: bytes that are there, or that were made.
enum Piece<'a> {
    Kept(&'a [u8]),
    Made(Vec<u8>),
}

impl Piece<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Kept(bytes) => bytes,
            Self::Made(bytes) => bytes,
        }
    }
}

/// Bytes of a piece, about: what is made stays in a core's cache until it is written.
const PIECE: usize = 1 << 19;

/// How many pieces may be made before they are written.
const AHEAD: usize = 4;

/// Hands all weights, and the padding after each, to `put` in order. Another thread makes what is to be made, a few pieces
/// ahead, and shows `see` every piece before.
///
/// # Errors
/// `put`'s, or there is no other thread.
pub fn stream<'a>(
    layout: &Layout,
    weights: &'a [Weight],
    mut see: impl FnMut(&[u8]) + Send,
    mut put: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (to_put, made) = mpsc::sync_channel(AHEAD);
    let (give_back, used) = mpsc::channel();
    let mut hand = move |piece: Piece<'a>| {
        see(piece.bytes());
        to_put.send(piece).ok()
    };
    thread::scope(|scope| {
        thread::Builder::new().spawn_scoped(scope, move || {
            for (i, weight) in weights.iter().enumerate() {
                let end = layout.offsets.get(i + 1).copied().unwrap_or(layout.len);
                let padding = end - layout.offsets[i] - weight.n_bytes() as u64;
                pieces(weight, &used, &mut hand)?;
                hand(Piece::Kept(&[0; ALIGN as usize][..padding as usize]))?;
            }
            Some(())
        })?;
        for piece in made {
            put(piece.bytes())?;
            if let Piece::Made(buffer) = piece {
                // Nobody takes it back any more once all is made.
                let _ = give_back.send(buffer);
            }
        }
        Ok(())
    })
}

/// The pieces of one weight; `None` when nobody wants more of them.
fn pieces<'a>(
    weight: &'a Weight,
    used: &mpsc::Receiver<Vec<u8>>,
    hand: &mut impl FnMut(Piece<'a>) -> Option<()>,
) -> Option<()> {
    let WeightData::Made(made) = &weight.data else {
        return weight
            .bytes()
            .chunks(PIECE)
            .try_for_each(|bytes| hand(Piece::Kept(bytes)));
    };
    let mut at = 0;
    while at < made.n_parts() {
        let mut buffer: Vec<u8> = used.try_recv().unwrap_or_default();
        buffer.clear();
        while at < made.n_parts() && (buffer.is_empty() || buffer.len() < PIECE) {
            made.part(at, &mut buffer);
            at += 1;
        }
        hand(Piece::Made(buffer))?;
    }
    Some(())
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
    out.write_all(&header)?;
    let mut hasher = Sha256::new();
    stream(
        layout,
        weights,
        |bytes| hasher.update(bytes),
        |bytes| out.write_all(bytes),
    )?;
    let digest: [u8; 32] = hasher.finalize().into();
    header.clear();
    header.extend(PARAMS_MAGIC);
    header.extend(layout.len.to_le_bytes());
    header.extend(digest);
    out.seek(SeekFrom::Start(0))?;
    out.write_all(&header)?;
    Ok(digest)
}

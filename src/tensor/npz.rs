//! NumPy's `.npz` files: archives of `.npy` files by name. They are written without compression and without times, so the
//! same tensors give the same bytes; compressed ones are read as well.

use super::inflate::inflate;
use super::{Tensor, TensorError, parse_npy, print_npy};

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
/// The bytes of the end of an archive without its comment.
const END_BYTES: usize = 22;
/// Where the end of an archive is looked for: its own bytes, and a comment of the greatest length.
const TAIL: usize = END_BYTES + 65_535;
/// 1 January 1980, the first day that archives know.
const DATE: u16 = 0x21;
/// Names are UTF-8.
const UTF8: u16 = 1 << 11;

/// The bytes of an archive of tensors, in order.
///
/// # Errors
/// A tensor has no `.npy` form, or the archive is too large for the format.
pub fn print_npz<'t>(
    tensors: impl IntoIterator<Item = (&'t str, &'t Tensor)>,
) -> Result<Vec<u8>, TensorError> {
    let too_large = || TensorError("an .npz file holds at most 4 GiB and 65535 tensors".to_owned());
    let small = |n: usize| u32::try_from(n).map_err(|_| too_large());
    let (mut out, mut central, mut count) = (Vec::new(), Vec::new(), 0usize);
    for (name, tensor) in tensors {
        let bytes = print_npy(tensor).map_err(|error| TensorError(format!("`{name}`: {error}")))?;
        let name = format!("{name}.npy");
        let (size, offset) = (small(bytes.len())?, small(out.len())?);
        let len = u16::try_from(name.len()).map_err(|_| too_large())?;
        // Version, flags, method, time, date, crc, both sizes, the lengths of name and extra.
        let mut head = Vec::new();
        for half in [20, UTF8, 0, 0, DATE] {
            head.extend(half.to_le_bytes());
        }
        for word in [crc32(&bytes), size, size] {
            head.extend(word.to_le_bytes());
        }
        head.extend(len.to_le_bytes());
        head.extend([0; 2]);
        out.extend(LOCAL.to_le_bytes());
        out.extend(&head);
        out.extend(name.as_bytes());
        out.extend(bytes);
        central.extend(CENTRAL.to_le_bytes());
        central.extend(20u16.to_le_bytes());
        central.extend(&head);
        // Comment, disk, attributes.
        central.extend([0; 10]);
        central.extend(offset.to_le_bytes());
        central.extend(name.as_bytes());
        count += 1;
    }
    let count = u16::try_from(count).map_err(|_| too_large())?;
    let (start, size) = (small(out.len())?, small(central.len())?);
    out.extend(central);
    out.extend(END.to_le_bytes());
    out.extend([0; 4]);
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    Ok(out)
}

/// The tensors of an archive, in the order of its directory.
///
/// # Errors
/// The archive is not sound, or a file in it is no tensor.
pub fn parse_npz(bytes: &[u8]) -> Result<Vec<(String, Tensor)>, TensorError> {
    let fault = |text: &str| TensorError(format!("not a .npz file: {text}"));
    let cut = || fault("cut short");
    let tail = bytes.len().saturating_sub(TAIL);
    let end = (tail..bytes.len())
        .rev()
        .find(|&at| word(bytes, at) == Some(END) && bytes.len() - at >= END_BYTES)
        .ok_or_else(|| fault("no directory"))?;
    let count = half(bytes, end + 10).ok_or_else(cut)?;
    let mut at = word(bytes, end + 16).ok_or_else(cut)? as usize;
    if count == u16::MAX || at == u32::MAX as usize {
        return Err(fault("archives of more than 4 GiB are not read"));
    }
    let mut res = Vec::new();
    for _ in 0..count {
        if word(bytes, at) != Some(CENTRAL) {
            return Err(fault("a broken directory"));
        }
        let method = half(bytes, at + 10).ok_or_else(cut)?;
        let packed = word(bytes, at + 20).ok_or_else(cut)? as usize;
        let size = word(bytes, at + 24).ok_or_else(cut)? as usize;
        let len = usize::from(half(bytes, at + 28).ok_or_else(cut)?);
        let extra = usize::from(half(bytes, at + 30).ok_or_else(cut)?);
        let comment = usize::from(half(bytes, at + 32).ok_or_else(cut)?);
        let local = word(bytes, at + 42).ok_or_else(cut)? as usize;
        let name = bytes.get(at + 46..at + 46 + len).ok_or_else(cut)?;
        let name = String::from_utf8_lossy(name).into_owned();
        at += 46 + len + extra + comment;
        if word(bytes, local) != Some(LOCAL) {
            return Err(fault(&format!("{name:?} is not where its directory says")));
        }
        let skipped = [local + 26, local + 28].map(|at| half(bytes, at).map(usize::from));
        let [Some(len), Some(extra)] = skipped else {
            return Err(cut());
        };
        let start = local + 30 + len + extra;
        let data = bytes.get(start..start.saturating_add(packed));
        let data = data.ok_or_else(cut)?;
        let tensor = match method {
            0 => parse_npy(data),
            8 => parse_npy(
                &inflate(data, size)
                    .ok_or_else(|| fault(&format!("{name:?} cannot be unpacked")))?,
            ),
            _ => Err(fault(&format!(
                "{name:?} is packed by a method that is not known"
            ))),
        };
        let tensor = tensor.map_err(|error| TensorError(format!("{name:?}: {error}")))?;
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        res.push((name, tensor));
    }
    Ok(res)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_le_bytes(*bytes))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes))
}

/// The checksum of archives, by a table of all bytes.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let mut crc = at as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 {
                    crc >> 1 ^ 0xedb8_8320
                } else {
                    crc >> 1
                };
                bit += 1;
            }
            table[at] = crc;
            at += 1;
        }
        table
    };
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc = TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8;
    }
    !crc
}

//! DEFLATE (RFC 1951), undone: what compressed `.npz` files hold. Codes are canonical Huffman codes, read bit by bit by
//! counts a length: slow and short, as such files are read rarely.

/// The most bytes that come out, whatever a file says of itself.
const MOST: usize = 1 << 34;
/// The longest code.
const MAX_BITS: usize = 15;

const LENGTH_BASE: [u16; 29] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131,
    163, 195, 227, 258,
];
const LENGTH_BITS: [u32; 29] = [
    0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
];
const DISTANCE_BASE: [u16; 30] = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537,
    2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577,
];
const DISTANCE_BITS: [u32; 30] = [
    0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13,
    13,
];
/// The order in which the lengths of the codes of lengths stand.
const ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// The bytes that were compressed; `None` where the stream is not sound, or holds more than `size` bytes.
pub(super) fn inflate(bytes: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut bits = Bits { bytes, at: 0 };
    let mut out = Vec::new();
    let size = size.min(MOST);
    loop {
        let is_last = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => stored(&mut bits, &mut out)?,
            1 => {
                let (lengths, distances) = fixed();
                coded(&mut bits, &mut out, &lengths, &distances, size)?;
            }
            2 => {
                let (lengths, distances) = dynamic(&mut bits)?;
                coded(&mut bits, &mut out, &lengths, &distances, size)?;
            }
            _ => return None,
        }
        if out.len() > size {
            return None;
        }
        if is_last {
            return Some(out);
        }
    }
}

/// A stream of bits, the lowest of each byte first.
struct Bits<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, n: u32) -> Option<u32> {
        let mut res = 0;
        for bit in 0..n {
            let byte = *self.bytes.get(self.at / 8)?;
            res |= u32::from(byte >> (self.at % 8) & 1) << bit;
            self.at += 1;
        }
        Some(res)
    }

    /// `n` whole bytes from the next byte on.
    fn bytes(&mut self, n: usize) -> Option<&[u8]> {
        let from = self.at.div_ceil(8);
        let to = from.checked_add(n)?;
        self.at = to.checked_mul(8)?;
        self.bytes.get(from..to)
    }
}

/// A canonical code: how many symbols there are of each length, and the symbols in order.
struct Code {
    counts: [u16; MAX_BITS + 1],
    symbols: Vec<u16>,
}

impl Code {
    fn new(lengths: &[u8]) -> Self {
        let mut counts = [0; MAX_BITS + 1];
        for &length in lengths {
            counts[usize::from(length)] += 1;
        }
        counts[0] = 0;
        let mut symbols: Vec<u16> = (0..lengths.len() as u16)
            .filter(|&symbol| lengths[usize::from(symbol)] != 0)
            .collect();
        symbols.sort_by_key(|&symbol| lengths[usize::from(symbol)]);
        Self { counts, symbols }
    }

    fn read(&self, bits: &mut Bits<'_>) -> Option<u16> {
        let (mut code, mut first, mut index) = (0i32, 0i32, 0i32);
        for &count in &self.counts[1..] {
            code |= bits.take(1)? as i32;
            let count = i32::from(count);
            if code - count < first {
                let at = usize::try_from(index + code - first).ok()?;
                return self.symbols.get(at).copied();
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }
}

fn stored(bits: &mut Bits<'_>, out: &mut Vec<u8>) -> Option<()> {
    let head = bits.bytes(4)?;
    let n = u16::from_le_bytes([head[0], head[1]]);
    if !n != u16::from_le_bytes([head[2], head[3]]) {
        return None;
    }
    out.extend_from_slice(bits.bytes(usize::from(n))?);
    Some(())
}

fn fixed() -> (Code, Code) {
    let length = |symbol: usize| match symbol {
        0..144 => 8,
        144..256 => 9,
        256..280 => 7,
        _ => 8,
    };
    let lengths: Vec<u8> = (0..288).map(length).collect();
    (Code::new(&lengths), Code::new(&[5; 30]))
}

fn dynamic(bits: &mut Bits<'_>) -> Option<(Code, Code)> {
    let n_lengths = bits.take(5)? as usize + 257;
    let n_distances = bits.take(5)? as usize + 1;
    let n_codes = bits.take(4)? as usize + 4;
    let mut lengths = [0u8; 19];
    for &at in ORDER.get(..n_codes)? {
        lengths[at] = bits.take(3)? as u8;
    }
    let code = Code::new(&lengths);
    let all = n_lengths + n_distances;
    let mut lengths: Vec<u8> = Vec::with_capacity(all);
    while lengths.len() < all {
        let (value, n) = match code.read(bits)? {
            symbol @ 0..16 => (symbol as u8, 1),
            16 => (*lengths.last()?, 3 + bits.take(2)?),
            17 => (0, 3 + bits.take(3)?),
            _ => (0, 11 + bits.take(7)?),
        };
        lengths.extend(std::iter::repeat_n(value, n as usize));
    }
    if lengths.len() != all {
        return None;
    }
    let (lengths, distances) = lengths.split_at(n_lengths);
    Some((Code::new(lengths), Code::new(distances)))
}

fn coded(
    bits: &mut Bits<'_>,
    out: &mut Vec<u8>,
    lengths: &Code,
    distances: &Code,
    size: usize,
) -> Option<()> {
    loop {
        match lengths.read(bits)? {
            256 => return Some(()),
            literal @ 0..256 => out.push(literal as u8),
            symbol => {
                let at = usize::from(symbol - 257);
                let extra = bits.take(*LENGTH_BITS.get(at)?)? as usize;
                let n = usize::from(*LENGTH_BASE.get(at)?) + extra;
                let at = usize::from(distances.read(bits)?);
                let extra = bits.take(*DISTANCE_BITS.get(at)?)? as usize;
                let distance = usize::from(*DISTANCE_BASE.get(at)?) + extra;
                let from = out.len().checked_sub(distance)?;
                for i in from..from + n {
                    out.push(out[i]);
                }
            }
        }
        if out.len() > size {
            return None;
        }
    }
}

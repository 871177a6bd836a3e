//! A reader of protobuf's wire format over borrowed bytes.
//!
//! In: the bytes of one message. Out: its fields, one at a time, as numbers or slices of those bytes. Nothing
//! is allocated, no length is believed before it is seen to fit, and every fault knows its byte in the file.
//! A message inside a message is read by a reader of its own ([`Reader::message`]), up to [`MAX_DEPTH`] deep.

use std::fmt;

/// How deep messages may nest; subgraphs of real models stay below ten.
pub const MAX_DEPTH: u32 = 64;

/// Bytes that are no message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WireError {
    /// The byte of the file where reading stopped.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

/// The value of a field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// Integers, booleans, enums.
    Varint(u64),
    /// `double`, `fixed64`.
    Fixed64(u64),
    /// Strings, bytes, messages, packed numbers; with its place in the file.
    Bytes(&'a [u8], usize),
    /// `float`, `fixed32`.
    Fixed32(u32),
}

/// One field of a message.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Field<'a> {
    /// Its number.
    pub number: u32,
    /// Its value.
    pub value: Value<'a>,
    /// Where it starts in the file.
    pub at: usize,
}

/// Reads the fields of one message in order.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    pos: usize,
    base: usize,
    depth: u32,
}

impl<'a> Reader<'a> {
    /// A reader of a whole file.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            pos: 0,
            base: 0,
            depth: 0,
        }
    }

    /// The next field; `None` at the end.
    ///
    /// # Errors
    /// Where the bytes end inside a field, or use a wire type that protobuf's third version has not.
    pub fn next_field(&mut self) -> Result<Option<Field<'a>>, WireError> {
        if self.pos == self.bytes.len() {
            return Ok(None);
        }
        let at = self.base + self.pos;
        let key = self.varint()?;
        let number = u32::try_from(key >> 3)
            .map_err(|_| self.fault_at(at, "a field number is too large"))?;
        if number == 0 {
            return Err(self.fault_at(at, "a field has number 0"));
        }
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = self.varint()?;
                let start = self.pos;
                let len = usize::try_from(len).map_err(|_| self.fault("a length is too large"))?;
                let bytes = start
                    .checked_add(len)
                    .and_then(|end| self.bytes.get(start..end))
                    .ok_or_else(|| self.fault_at(at, "a field is longer than its message"))?;
                self.pos = start + len;
                Value::Bytes(bytes, self.base + start)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(self.fault_at(at, "a field has an unknown wire type")),
        };
        Ok(Some(Field { number, value, at }))
    }

    /// A reader of the message that a field holds.
    ///
    /// # Errors
    /// Where the field is a number, or nesting is deeper than [`MAX_DEPTH`].
    pub fn message(&self, field: &Field<'a>) -> Result<Reader<'a>, WireError> {
        let Value::Bytes(bytes, base) = field.value else {
            return Err(self.fault_at(field.at, "a number stands where a message belongs"));
        };
        if self.depth == MAX_DEPTH {
            return Err(self.fault_at(field.at, "messages nest too deep"));
        }
        Ok(Reader {
            bytes,
            pos: 0,
            base,
            depth: self.depth + 1,
        })
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let at = self.pos;
        let (value, len) = read_varint(self.bytes.get(at..).unwrap_or_default())
            .ok_or_else(|| self.fault("a number is cut off or too long"))?;
        self.pos = at + len;
        Ok(value)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let array = self
            .bytes
            .get(self.pos..)
            .and_then(|rest| rest.first_chunk::<N>())
            .ok_or_else(|| self.fault("a number is cut off"))?;
        self.pos += N;
        Ok(*array)
    }

    fn fault(&self, what: &'static str) -> WireError {
        self.fault_at(self.base + self.pos, what)
    }

    fn fault_at(&self, at: usize, what: &'static str) -> WireError {
        WireError { at, what }
    }
}

impl<'a> Field<'a> {
    /// The field as text.
    ///
    /// # Errors
    /// Where it is a number or is not UTF-8.
    pub fn text(&self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| self.fault("a name is not UTF-8"))
    }

    /// The field as bytes.
    ///
    /// # Errors
    /// Where it is a number.
    pub fn bytes(&self) -> Result<&'a [u8], WireError> {
        match self.value {
            Value::Bytes(bytes, _) => Ok(bytes),
            Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => {
                Err(self.fault("a number stands where bytes belong"))
            }
        }
    }

    /// The field as an integer.
    ///
    /// # Errors
    /// Where it is anything else.
    pub fn int(&self) -> Result<i64, WireError> {
        match self.value {
            Value::Varint(value) => Ok(value.cast_signed()),
            Value::Bytes(..) | Value::Fixed64(_) | Value::Fixed32(_) => {
                Err(self.fault("an integer is written as something else"))
            }
        }
    }

    /// The field as a float.
    ///
    /// # Errors
    /// Where it is anything else.
    pub fn float(&self) -> Result<f32, WireError> {
        match self.value {
            Value::Fixed32(bits) => Ok(f32::from_bits(bits)),
            Value::Bytes(..) | Value::Fixed64(_) | Value::Varint(_) => {
                Err(self.fault("a float is written as something else"))
            }
        }
    }

    /// The integers of a repeated field: packed, or one. Calls `push` for each.
    ///
    /// # Errors
    /// Where a number is cut off or the field holds floats.
    pub fn ints(&self, mut push: impl FnMut(u64)) -> Result<(), WireError> {
        match self.value {
            Value::Varint(value) => push(value),
            Value::Bytes(mut rest, _) => {
                while !rest.is_empty() {
                    let (value, len) = read_varint(rest)
                        .ok_or_else(|| self.fault("a packed number is cut off"))?;
                    push(value);
                    rest = rest.get(len..).unwrap_or_default();
                }
            }
            Value::Fixed64(_) | Value::Fixed32(_) => {
                return Err(self.fault("an integer is written as a float"));
            }
        }
        Ok(())
    }

    /// The floats of a repeated field: packed, or one. Calls `push` for each.
    ///
    /// # Errors
    /// Where a number is cut off or the field holds something else.
    pub fn floats(&self, mut push: impl FnMut(f32)) -> Result<(), WireError> {
        match self.value {
            Value::Fixed32(bits) => push(f32::from_bits(bits)),
            Value::Bytes(bytes, _) => {
                let (chunks, rest) = bytes.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(self.fault("a packed float is cut off"));
                }
                chunks
                    .iter()
                    .for_each(|chunk| push(f32::from_le_bytes(*chunk)));
            }
            Value::Fixed64(_) | Value::Varint(_) => {
                return Err(self.fault("a float is written as something else"));
            }
        }
        Ok(())
    }

    /// A fault of this field.
    pub fn fault(&self, what: &'static str) -> WireError {
        WireError { at: self.at, what }
    }
}

/// A varint and its length; `None` when it is cut off or longer than ten bytes.
fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (idx, byte) in bytes.iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if idx == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * idx);
        if byte & 0x80 == 0 {
            return Some((value, idx + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order() {
        let mut reader = Reader::new(&[
            0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 0, 0, 0x80, 0x3f,
        ]);
        let field = reader.next_field().ok().flatten();
        assert_eq!(
            field.map(|field| (field.number, field.value)),
            Some((1, Value::Varint(150)))
        );
        let field = reader.next_field().ok().flatten();
        assert_eq!(field.and_then(|field| field.text().ok()), Some("hi"));
        let field = reader.next_field().ok().flatten();
        assert_eq!(field.and_then(|field| field.float().ok()), Some(1.0));
        assert_eq!(reader.next_field(), Ok(None));
    }

    #[test]
    fn lengths_are_proven_and_faults_know_their_byte() {
        let cases: [(&[u8], usize); 5] = [
            (&[0x12, 0x7f, 1], 0),
            (&[0x08, 0xff], 1),
            (&[0x0b], 0),
            (&[0x00, 1], 0),
            (&[0x0d, 1, 2], 1),
        ];
        for (bytes, at) in cases {
            let fault = Reader::new(bytes).next_field().err().map(|fault| fault.at);
            assert_eq!(fault, Some(at), "{bytes:?}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let mut bytes = vec![];
        for _ in 0..80 {
            let len = bytes.len();
            assert!(len < 0x4000);
            let mut outer = vec![0x0a, (len & 0x7f) as u8 | 0x80, (len >> 7) as u8];
            outer.extend(bytes);
            bytes = outer;
        }
        let mut reader = Reader::new(&bytes);
        let mut depth = 0;
        let fault = loop {
            let Ok(Some(field)) = reader.next_field() else {
                break None;
            };
            match reader.message(&field) {
                Ok(inner) => reader = inner,
                Err(fault) => break Some(fault),
            }
            depth += 1;
        };
        assert_eq!(
            (depth, fault.map(|fault| fault.what)),
            (MAX_DEPTH, Some("messages nest too deep"))
        );
    }
}

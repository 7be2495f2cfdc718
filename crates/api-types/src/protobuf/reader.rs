//! The wire format of protocol buffers: a message is a sequence of numbered fields.
//!
//! Invariants: every call consumes input or ends; nothing is copied; whatever follows an error is not read.

use std::fmt;

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The number of the field, above zero.
    pub number: u32,
    /// The value of the field.
    pub value: Value<'a>,
}

/// The value of a field, as far as the wire type determines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer, a boolean or an enumerator.
    Varint(u64),
    /// Four bytes, little endian.
    Fixed32(u32),
    /// Eight bytes, little endian.
    Fixed64(u64),
    /// A text, bytes, or a message.
    Bytes(&'a [u8]),
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtobufError {
    /// The message ends within a field.
    Truncated,
    /// An integer that does not fit into 64 bits.
    Overflow,
    /// A field number or a wire type that does not exist, or one of the long abandoned groups.
    Tag(u64),
}

impl fmt::Display for ProtobufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the message ends within a field"),
            Self::Overflow => f.write_str("an integer is longer than 64 bits"),
            Self::Tag(tag) => write!(f, "{tag} is no tag of a field"),
        }
    }
}

impl std::error::Error for ProtobufError {}

/// Walks over the fields of one message.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Begins at the first field.
    pub const fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field; `None` at the end of the message.
    ///
    /// # Errors
    /// If the rest is no sequence of fields. The reader is at its end then.
    #[expect(clippy::should_implement_trait, reason = "iterators do not go with `?`")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Field<'a>>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        field.map(Some)
    }

    #[inline]
    fn field(&mut self) -> Result<Field<'a>, ProtobufError> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3)
            .ok()
            .filter(|number| (1..1 << 29).contains(number))
            .ok_or(ProtobufError::Tag(tag))?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length =
                    usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Value::Bytes(self.bytes(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(ProtobufError::Tag(tag)),
        };
        Ok(Field { number, value })
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, ProtobufError> {
        if let [byte @ 0..=0x7f, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        let mut value = 0;
        for (at, &byte) in self.rest.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if at == 9 && bits > 1 {
                return Err(ProtobufError::Overflow);
            }
            value |= bits << (7 * at);
            if byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { ProtobufError::Truncated } else { ProtobufError::Overflow })
    }

    #[inline]
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(*array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(message: &[u8]) -> Result<Vec<(u32, Value<'_>)>, ProtobufError> {
        let mut reader = Reader::new(message);
        let mut fields = Vec::new();
        while let Some(field) = reader.next()? {
            fields.push((field.number, field.value));
        }
        Ok(fields)
    }

    #[test]
    fn every_wire_type_is_read() {
        let message = [
            0x08, 0x96, 0x01, // 1: 150
            0x12, 0x02, b'h', b'i', // 2: "hi"
            0x1d, 1, 0, 0, 0, // 3: four bytes
            0x21, 2, 0, 0, 0, 0, 0, 0, 0, // 4: eight bytes
            0xfa, 0x01, 0x00, // 31: nothing
        ];
        assert_eq!(
            fields(&message).unwrap(),
            [
                (1, Value::Varint(150)),
                (2, Value::Bytes(b"hi")),
                (3, Value::Fixed32(1)),
                (4, Value::Fixed64(2)),
                (31, Value::Bytes(b"")),
            ]
        );
        assert_eq!(fields(b"").unwrap(), []);
    }

    #[test]
    fn integers_fill_64_bits_and_no_more() {
        let negative = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(fields(&negative).unwrap(), [(1, Value::Varint(u64::MAX))]);
        let mut beyond = negative;
        beyond[10] = 0x02;
        assert_eq!(fields(&beyond), Err(ProtobufError::Overflow));
        assert_eq!(fields(&[0xff; 11]), Err(ProtobufError::Overflow));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for cut in [&[0x08][..], &[0x08, 0x80], &[0x12, 0x05, b'h'], &[0x1d, 1, 2], &[0x80]] {
            assert_eq!(fields(cut), Err(ProtobufError::Truncated), "{cut:?}");
        }
        // A length near the end of the address space.
        let long = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, b'h'];
        assert_eq!(fields(&long), Err(ProtobufError::Truncated));
        // Number zero, groups, and the two types that were never given out.
        for tag in [0x02, 0x0b, 0x0c, 0x0e, 0x0f] {
            assert_eq!(fields(&[tag, 0]), Err(ProtobufError::Tag(u64::from(tag))), "{tag}");
        }
        let mut reader = Reader::new(&[0x0b, 0x08, 0x01]);
        assert!(reader.next().is_err());
        assert_eq!(reader.next(), Ok(None), "nothing is read after an error");
    }
}

//! What the API server puts around objects in protobuf, and what it expects around ours.
//!
//! Four bytes, then a message with the type of the object (1) and its own message (2).

use kube_scheduler_api_types::protobuf::{ProtobufError, Reader, Value};

/// What every object in protobuf begins with.
pub(crate) const MAGIC: &[u8; 4] = b"k8s\0";

/// An object whose own message is still to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnvelopedObject<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) raw: &'a [u8],
}

/// Bytes without an object in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoObject {
    #[error("the bytes do not begin as an object in protobuf does")]
    Magic,
    #[error("the envelope is not readable: {0}")]
    Message(#[from] ProtobufError),
}

/// Takes an object out of its envelope.
pub(crate) fn open(bytes: &[u8]) -> Result<EnvelopedObject<'_>, NoObject> {
    let mut object = EnvelopedObject::default();
    let mut unknown = Reader::new(bytes.strip_prefix(MAGIC).ok_or(NoObject::Magic)?);
    while let Some(field) = unknown.next()? {
        match (field.number, field.value) {
            (1, Value::Bytes(type_meta)) => {
                (object.api_version, object.kind) = read_type(type_meta)?;
            }
            (2, Value::Bytes(raw)) => object.raw = raw,
            _ => {}
        }
    }
    Ok(object)
}

/// API version and kind.
pub(crate) fn read_type(bytes: &[u8]) -> Result<(&str, &str), ProtobufError> {
    let (mut api_version, mut kind) = ("", "");
    let mut type_meta = Reader::new(bytes);
    while let Some(field) = type_meta.next()? {
        let Value::Bytes(bytes) = field.value else { continue };
        let text = str::from_utf8(bytes).unwrap_or_default();
        match field.number {
            1 => api_version = text,
            2 => kind = text,
            _ => {}
        }
    }
    Ok((api_version, kind))
}

/// Message, reason and code of a Status, as far as they can be read.
pub(crate) fn status(raw: &[u8]) -> (&str, &str, u16) {
    let (mut message, mut reason, mut code) = ("", "", 0);
    let mut status = Reader::new(raw);
    while let Ok(Some(field)) = status.next() {
        match (field.number, field.value) {
            (3, Value::Bytes(text)) => message = str::from_utf8(text).unwrap_or_default(),
            (4, Value::Bytes(text)) => reason = str::from_utf8(text).unwrap_or_default(),
            (6, Value::Varint(number)) => code = u16::try_from(number).unwrap_or_default(),
            _ => {}
        }
    }
    (message, reason, code)
}

/// A message that is being written. What is empty is left out, which means the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub(crate) fn text(self, number: u32, text: &str) -> Self {
        self.bytes(number, text.as_bytes())
    }

    pub(crate) fn message(self, number: u32, message: &Self) -> Self {
        self.bytes(number, &message.0)
    }

    pub(crate) fn integer(mut self, number: u32, value: i64) -> Self {
        if value != 0 {
            self.varint(u64::from(number) << 3);
            self.varint(value.cast_unsigned());
        }
        self
    }

    fn bytes(mut self, number: u32, bytes: &[u8]) -> Self {
        if !bytes.is_empty() {
            self.varint(u64::from(number) << 3 | 2);
            self.varint(bytes.len() as u64);
            self.0.extend_from_slice(bytes);
        }
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    #[cfg(test)]
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The object in its envelope.
    pub(crate) fn seal(self, api_version: &str, kind: &str) -> Vec<u8> {
        let type_meta = Self::default().text(1, api_version).text(2, kind);
        let unknown = Self(MAGIC.to_vec()).message(1, &type_meta);
        unknown.message(2, &self).0
    }
}

#[cfg(test)]
impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_can_be_opened() {
        let status = Message::default().text(3, "gone").text(4, "Expired").integer(6, 410);
        let bytes = status.clone().seal("v1", "Status");
        let object = open(&bytes).unwrap();
        assert_eq!((object.api_version, object.kind), ("v1", "Status"));
        assert_eq!(object.raw, status.0);
        assert_eq!(super::status(object.raw), ("gone", "Expired", 410));
        assert_eq!(open(b"{}"), Err(NoObject::Magic));
        assert!(matches!(open(&bytes[..bytes.len() - 1]), Err(NoObject::Message(_))));
    }

    #[test]
    fn messages_are_the_bytes_of_the_format() {
        let inner = Message::default().integer(1, 300).integer(2, 0).text(3, "");
        let message = Message::default().message(15, &inner).integer(16, -1);
        assert_eq!(
            message.0,
            [
                0x7a, 3, 0x08, 0xac, 0x02, 0x80, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                0xff, 0xff, 0x01
            ]
        );
    }
}

//! A list's bytes, cut into items while they arrive.
//!
//! Invariants: no more is held than what is around the items, one item and a chunk; bytes are looked at once; a list that
//! breaks off is never taken for a whole one.

use super::decode::{self, ListEnd, MalformedObject};
use super::frames::MAX_FRAME;
use crate::transport::Encoding;
use crate::transport::envelope::{MAGIC, read_type};

/// What comes next.
#[derive(Debug, PartialEq)]
pub(super) enum NextItem<'i> {
    /// A whole item.
    Item(&'i [u8]),
    /// More bytes are needed, unless this was all.
    Incomplete,
}

/// A list on its way.
#[derive(Debug)]
pub(super) enum Items {
    Json(JsonItems),
    Protobuf(ProtobufItems),
}

impl Items {
    /// Items of lists whose kind is `kind` with `List` behind it, if the list says what it is.
    pub(super) fn new(encoding: Encoding, kind: &str) -> Self {
        match encoding {
            Encoding::Json => Self::Json(JsonItems::default()),
            Encoding::Protobuf => Self::Protobuf(ProtobufItems::new(kind)),
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        match self {
            Self::Json(items) => items.pending.push(chunk),
            Self::Protobuf(items) => items.pending.push(chunk),
        }
    }

    pub(super) fn next(&mut self) -> Result<NextItem<'_>, MalformedObject> {
        match self {
            Self::Json(items) => items.next(),
            Self::Protobuf(items) => items.next(),
        }
    }

    /// What the list says about itself, when all its bytes have come.
    pub(super) fn finish(self) -> Result<ListEnd, MalformedObject> {
        match self {
            Self::Json(items) => items.finish(),
            Self::Protobuf(items) => items.finish(),
        }
    }
}

fn bad(text: impl Into<String>) -> MalformedObject {
    MalformedObject { key: None, text: text.into() }
}

fn too_large() -> MalformedObject {
    bad(format!("the list holds something larger than {MAX_FRAME} bytes"))
}

/// Bytes that have come and were not given out yet.
#[derive(Debug, Default)]
struct PendingBytes {
    bytes: Vec<u8>,
    taken: usize,
}

impl PendingBytes {
    fn push(&mut self, chunk: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(chunk);
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }
}

/// Items in JSON. What is around them is kept and read at the end.
#[derive(Debug, Default)]
pub(super) struct JsonItems {
    pending: PendingBytes,
    /// The list without its items.
    around: Vec<u8>,
    /// How far the item that is not complete yet was looked at.
    searched: usize,
    depth: usize,
    is_in_items: bool,
    text: Text,
    /// Where the last text outside of items begins and ends in `around`.
    last_text: (usize, usize),
}

/// Whether the place is within a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

impl Text {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Outside, b'"') | (Self::Escaped, _) => Self::Inside,
            (Self::Inside, b'\\') => Self::Escaped,
            (Self::Inside, b'"') => Self::Outside,
            _ => self,
        }
    }
}

impl JsonItems {
    fn next(&mut self) -> Result<NextItem<'_>, MalformedObject> {
        // Between items, and around them.
        while self.searched == 0 {
            let Some(&byte) = self.pending.rest().first() else { return Ok(NextItem::Incomplete) };
            if self.is_in_items && self.depth == 2 {
                match byte {
                    b'{' => break,
                    b']' => self.is_in_items = false,
                    b',' | b' ' | b'\n' | b'\r' | b'\t' => {
                        self.pending.taken += 1;
                        continue;
                    }
                    _ => return Err(bad("the list holds items that are no objects")),
                }
            }
            self.pending.taken += 1;
            self.pass(byte)?;
        }
        let rest = self.pending.rest();
        let (mut at, mut depth, mut text) = (self.searched, self.depth, self.text);
        for &byte in &rest[at..] {
            at += 1;
            match (text, byte) {
                (Text::Outside, b'{' | b'[') => depth += 1,
                (Text::Outside, b'}' | b']') => depth -= 1,
                _ => text = text.after(byte),
            }
            if depth == 2 {
                (self.searched, self.depth, self.text) = (0, depth, Text::Outside);
                let begin = self.pending.taken;
                self.pending.taken += at;
                return Ok(NextItem::Item(&self.pending.bytes[begin..begin + at]));
            }
        }
        if rest.len() > MAX_FRAME {
            return Err(too_large());
        }
        (self.searched, self.depth, self.text) = (at, depth, text);
        Ok(NextItem::Incomplete)
    }

    /// Takes over a byte that belongs to no item.
    fn pass(&mut self, byte: u8) -> Result<(), MalformedObject> {
        if self.around.len() > MAX_FRAME {
            return Err(too_large());
        }
        let before = self.text;
        self.text = before.after(byte);
        match (before, self.text) {
            (Text::Outside, Text::Inside) => self.last_text.0 = self.around.len() + 1,
            (Text::Inside, Text::Outside) => self.last_text.1 = self.around.len(),
            (Text::Outside, _) => match byte {
                b'{' | b'[' => {
                    self.depth += 1;
                    let name = self.around.get(self.last_text.0..self.last_text.1);
                    self.is_in_items =
                        self.depth == 2 && byte == b'[' && name == Some(b"items".as_slice());
                }
                b'}' | b']' => {
                    self.depth =
                        self.depth.checked_sub(1).ok_or_else(|| bad("the list is no JSON"))?;
                }
                _ => {}
            },
            _ => {}
        }
        self.around.push(byte);
        Ok(())
    }

    fn finish(self) -> Result<ListEnd, MalformedObject> {
        if self.searched > 0 || self.depth > 0 || self.around.is_empty() {
            return Err(bad("the list broke off"));
        }
        decode::json_list_end(&self.around)
    }
}

/// Items in protobuf: fields 2 of the message in field 2 of the envelope.
#[derive(Debug)]
pub(super) struct ProtobufItems {
    pending: PendingBytes,
    place: Place,
    /// Bytes that are skipped and still to come.
    to_skip: u64,
    kind: String,
    end: Option<ListEnd>,
}

/// Where in a list the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Begin,
    Envelope,
    /// In the message of the list, of which this many bytes are to come.
    List(u64),
}

/// The beginning of a field.
#[derive(Clone, Copy, Debug)]
struct Header {
    number: u64,
    /// How long it is itself.
    n_bytes: usize,
    /// How much follows, if the field holds bytes.
    length: Option<u64>,
}

impl ProtobufItems {
    fn new(kind: &str) -> Self {
        Self {
            pending: PendingBytes::default(),
            place: Place::Begin,
            to_skip: 0,
            kind: format!("{kind}List"),
            end: None,
        }
    }

    fn next(&mut self) -> Result<NextItem<'_>, MalformedObject> {
        loop {
            let rest = self.pending.rest();
            if self.to_skip > 0 {
                // Skipped while it arrives: a field that is not read may be of any length, and is not kept until it is whole.
                let n = usize::try_from(self.to_skip).unwrap_or(usize::MAX).min(rest.len());
                self.pending.taken += n;
                self.to_skip -= n as u64;
                if self.to_skip > 0 {
                    return Ok(NextItem::Incomplete);
                }
                continue;
            }
            if self.place == Place::List(0) {
                self.place = Place::Envelope;
                continue;
            }
            if self.place == Place::Begin {
                let Some(magic) = rest.first_chunk() else { return Ok(NextItem::Incomplete) };
                if magic != MAGIC {
                    return Err(bad("the list does not begin as an object in protobuf does"));
                }
                self.pending.taken += MAGIC.len();
                self.place = Place::Envelope;
                continue;
            }
            let Some(header) = header(rest)? else { return Ok(NextItem::Incomplete) };
            let length = header.length.unwrap_or(0);
            if let Place::List(left) = self.place {
                let whole = (header.n_bytes as u64).saturating_add(length);
                // Without this check a wrong length would take in what follows the list.
                let left = left.checked_sub(whole).ok_or_else(|| {
                    bad("the list is not readable: an item is longer than the list")
                })?;
                if !matches!((header.number, header.length), (1 | 2, Some(_))) {
                    self.pending.taken += header.n_bytes;
                    self.to_skip = length;
                    self.place = Place::List(left);
                    continue;
                }
                let Some(range) = self.whole(header)? else { return Ok(NextItem::Incomplete) };
                // Only now that all of it is there: until then each call reads the same header again, and would take the length
                // off again.
                self.place = Place::List(left);
                if header.number == 1 {
                    self.end = Some(decode::protobuf_list_end(&self.pending.bytes[range])?);
                    continue;
                }
                return Ok(NextItem::Item(&self.pending.bytes[range]));
            }
            match (header.number, header.length) {
                // The header alone is taken. The list in it is not waited for: its items are given out one by one.
                (2, Some(length)) => {
                    self.pending.taken += header.n_bytes;
                    self.place = Place::List(length);
                }
                (1, Some(_)) => {
                    let Some(range) = self.whole(header)? else { return Ok(NextItem::Incomplete) };
                    let found = read_type(&self.pending.bytes[range]);
                    let (_, found) =
                        found.map_err(|error| MalformedObject::whole("list", error))?;
                    if found != self.kind {
                        return Err(bad(format!("expected {:?}, found {found:?}", self.kind)));
                    }
                }
                _ => {
                    self.pending.taken += header.n_bytes;
                    self.to_skip = length;
                }
            }
        }
    }

    /// Takes the content of a field when all of it has come.
    fn whole(&mut self, header: Header) -> Result<Option<std::ops::Range<usize>>, MalformedObject> {
        let length = usize::try_from(header.length.unwrap_or(0)).unwrap_or(usize::MAX);
        if length > MAX_FRAME {
            return Err(too_large());
        }
        let begin = self.pending.taken + header.n_bytes;
        let range = begin..begin + length;
        if self.pending.bytes.len() < range.end {
            return Ok(None);
        }
        self.pending.taken = range.end;
        Ok(Some(range))
    }

    fn finish(self) -> Result<ListEnd, MalformedObject> {
        let is_whole = matches!(self.place, Place::Envelope | Place::List(0));
        if !is_whole || self.to_skip > 0 || !self.pending.rest().is_empty() {
            return Err(bad("the list broke off"));
        }
        self.end.ok_or_else(|| bad("the list has no metadata"))
    }
}

/// The beginning of a field with what is in it if that is no bytes; `None` when more bytes are needed.
fn header(bytes: &[u8]) -> Result<Option<Header>, MalformedObject> {
    let Some((tag, n_tag)) = varint(bytes)? else { return Ok(None) };
    let rest = &bytes[n_tag..];
    let (n_more, length) = match tag & 7 {
        0 => match varint(rest)? {
            Some((_, n)) => (n, None),
            None => return Ok(None),
        },
        1 if rest.len() >= 8 => (8, None),
        5 if rest.len() >= 4 => (4, None),
        1 | 5 => return Ok(None),
        2 => match varint(rest)? {
            Some((length, n)) => (n, Some(length)),
            None => return Ok(None),
        },
        _ => return Err(bad(format!("the list is not readable: {tag} is no tag of a field"))),
    };
    Ok(Some(Header { number: tag >> 3, n_bytes: n_tag + n_more, length }))
}

fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, MalformedObject> {
    let mut value = 0_u64;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).wrapping_shl(7 * at as u32);
        if byte < 0x80 {
            return Ok(Some((value, at + 1)));
        }
    }
    if bytes.len() >= 10 {
        return Err(bad("the list is not readable: an integer is longer than 64 bits"));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::envelope::Message;

    /// Items and end of a list that comes in chunks of `size` bytes.
    fn read(
        encoding: Encoding,
        body: &[u8],
        size: usize,
    ) -> Result<(Vec<Vec<u8>>, ListEnd), MalformedObject> {
        let mut items = Items::new(encoding, "Pod");
        let mut found = Vec::new();
        for chunk in body.chunks(size) {
            items.push(chunk);
            while let NextItem::Item(item) = items.next()? {
                found.push(item.to_vec());
            }
        }
        Ok((found, items.finish()?))
    }

    fn json(body: &str, size: usize) -> Result<(Vec<String>, ListEnd), MalformedObject> {
        let (items, end) = read(Encoding::Json, body.as_bytes(), size)?;
        Ok((items.into_iter().map(|item| String::from_utf8(item).unwrap()).collect(), end))
    }

    #[test]
    fn items_in_json_do_not_depend_on_how_they_arrive() {
        let body = r#"{"kind":"PodList","items":[{"a":"}]{[\"","b":[{}]}, {"items":[1]},
            {}],"metadata":{"resourceVersion":"7","continue":"x","items":["no"]}}"#;
        let end = ListEnd { resource_version: "7".to_owned(), next: "x".to_owned() };
        for size in 1..=body.len() {
            let (items, found) = json(body, size).unwrap();
            assert_eq!(items, [r#"{"a":"}]{[\"","b":[{}]}"#, r#"{"items":[1]}"#, "{}"], "{size}");
            assert_eq!(found, end);
        }
    }

    #[test]
    fn lists_in_json_without_items_are_empty() {
        for body in [
            r#"{"metadata":{"resourceVersion":"1"},"items":null}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#,
            r#"{"metadata":{"resourceVersion":"1"}}"#,
        ] {
            assert_eq!(json(body, 5).unwrap().0, [""; 0], "{body}");
        }
    }

    #[test]
    fn what_is_no_whole_list_in_json_is_refused() {
        let body = r#"{"metadata":{"resourceVersion":"1"},"items":[{"a":1},{"a":2}]}"#;
        for end in 0..body.len() {
            assert!(json(&body[..end], 7).is_err(), "{end}");
        }
        for body in ["<html>", "]", r#"{"items":[null]}"#, r#"{"items":[1]}"#, "{}}"] {
            assert!(json(body, 3).is_err(), "{body}");
        }
    }

    fn protobuf_list() -> Vec<u8> {
        let pod = |name: &str| Message::default().message(1, &Message::default().text(1, name));
        let metadata = Message::default().text(2, "7").text(3, "x").integer(4, 500);
        Message::default()
            .message(1, &metadata)
            .message(2, &pod("a"))
            .text(9, "from a newer server")
            .integer(10, 1)
            .message(2, &pod("long".repeat(100).as_str()))
            .seal("v1", "PodList")
    }

    #[test]
    fn items_in_protobuf_do_not_depend_on_how_they_arrive() {
        let mut body = protobuf_list();
        // What the server adds behind the object.
        body.extend_from_slice(&[0x1a, 0x00, 0x22, 0x00]);
        for size in 1..=body.len() {
            let (items, end) = read(Encoding::Protobuf, &body, size).unwrap();
            let names: Vec<_> = items
                .iter()
                .map(|item| kube_scheduler_api_types::protobuf::identity(item).1.unwrap())
                .collect();
            assert_eq!(names, ["a", "long".repeat(100).as_str()], "{size}");
            assert_eq!(end, ListEnd { resource_version: "7".to_owned(), next: "x".to_owned() });
        }
    }

    #[test]
    fn what_is_no_whole_list_in_protobuf_is_refused() {
        let body = protobuf_list();
        for end in 0..body.len() {
            assert!(read(Encoding::Protobuf, &body[..end], 7).is_err(), "{end}");
        }
        assert!(read(Encoding::Protobuf, b"{\"items\":[]}", 3).is_err());
        let other = Message::default().text(1, "x").seal("v1", "NodeList");
        let error = read(Encoding::Protobuf, &other, 3).unwrap_err();
        assert_eq!(error.text, "expected \"PodList\", found \"NodeList\"");
    }

    #[test]
    fn no_byte_of_a_list_makes_it_panic() {
        for body in [protobuf_list(), br#"{"items":[{"a":"\\b"}],"metadata":{}}"#.to_vec()] {
            for encoding in [Encoding::Protobuf, Encoding::Json] {
                for at in 0..body.len() {
                    for byte in [0, 1, 0x12, 0x7f, 0x80, 0xff, b'"', b'[', b'}'] {
                        let mut broken = body.clone();
                        broken[at] = byte;
                        drop(read(encoding, &broken, 3));
                    }
                }
            }
        }
    }
}

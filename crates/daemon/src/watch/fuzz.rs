//! Lists and watches read from arbitrary bytes, for fuzzers.

use super::decode;
use super::frames::{self, Frames};
use super::items::{self, Items};
use crate::kinds::WatchedKind;
use crate::transport::Encoding;

/// Small enough for a fuzzer to reach.
const MAX_FRAME: usize = 4096;

fn chosen(how: u8) -> (Encoding, WatchedKind) {
    let encoding = if how & 1 == 0 { Encoding::Json } else { Encoding::Protobuf };
    let mut kinds = WatchedKind::all_for([]);
    let kind = kinds.swap_remove(usize::from(how >> 1) % kinds.len());
    (encoding, kind)
}

/// A watch that arrives in chunks of `size` bytes; `how` chooses encoding and kind. The frames must not depend on the size.
pub fn watch(how: u8, size: usize, bytes: &[u8]) {
    let (encoding, kind) = chosen(how);
    let read = |size: usize| {
        let (mut frames, mut found) = (Frames::new(encoding, MAX_FRAME), Vec::new());
        for chunk in bytes.chunks(size) {
            frames.push(chunk);
            loop {
                match frames.next() {
                    frames::NextFrame::Frame(frame) => found.push(Some(frame.to_vec())),
                    frames::NextFrame::TooLarge => found.push(None),
                    frames::NextFrame::Incomplete => break,
                }
            }
        }
        found
    };
    let found = read(size.max(1));
    assert_eq!(found, read(bytes.len().max(1)));
    for frame in found.into_iter().flatten() {
        // One bad frame ends no watch.
        let _ = decode::frame(encoding, &kind, &frame);
    }
}

/// As [`watch`], for a list.
pub fn list(how: u8, size: usize, bytes: &[u8]) {
    let (encoding, kind) = chosen(how);
    let read = |size: usize| {
        let (mut items, mut found) = (Items::new(encoding, kind.kind), Vec::new());
        for chunk in bytes.chunks(size) {
            items.push(chunk);
            while let items::NextItem::Item(item) = items.next().ok()? {
                found.push(item.to_vec());
            }
        }
        let end = items.finish().ok()?;
        Some((found, end.resource_version, end.next))
    };
    let found = read(size.max(1));
    assert_eq!(found, read(bytes.len().max(1)));
    for item in found.into_iter().flat_map(|(items, ..)| items) {
        let _ = decode::item(encoding, &kind, &item);
    }
}

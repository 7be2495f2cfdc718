//! A watch's bytes, cut into frames: lines of JSON, or messages with their length before them.
//!
//! Invariants: each byte is searched once, however slowly a long frame arrives; no more than [`MAX_FRAME`] bytes and a
//! chunk are held: what is longer is passed over, so that one object that is too large ends no watch.

use crate::transport::Encoding;

/// A frame larger than this is no object: etcd refuses objects of a tenth of it.
pub(super) const MAX_FRAME: usize = 32 * 1024 * 1024;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextFrame<'f> {
    /// A whole frame.
    Frame(&'f [u8]),
    /// A frame that was too large to be read has ended.
    TooLarge,
    /// More bytes are needed.
    Incomplete,
}

/// Bytes on their way to become frames.
#[derive(Debug)]
pub(super) struct Frames {
    encoding: Encoding,
    limit: usize,
    bytes: Vec<u8>,
    /// What was given out already.
    taken: usize,
    /// Where the search for the next end of a line goes on.
    searched: usize,
    passing_over: SkipState,
}

/// Whether a frame that is too large is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SkipState {
    No,
    /// Until its line ends.
    Line,
    /// This many bytes more.
    Bytes(usize),
}

/// How many bytes the length before a message has.
const LENGTH: usize = 4;

impl Frames {
    pub(super) const fn new(encoding: Encoding, limit: usize) -> Self {
        Self {
            encoding,
            limit,
            bytes: Vec::new(),
            taken: 0,
            searched: 0,
            passing_over: SkipState::No,
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.bytes.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        match self.passing_over {
            SkipState::Bytes(left) => {
                self.passing_over = SkipState::Bytes(left.saturating_sub(self.bytes.len()));
                self.drop_all();
            }
            _ if self.encoding == Encoding::Json && self.bytes.len() > self.limit => {
                self.passing_over = SkipState::Line;
                self.drop_all();
            }
            _ => {}
        }
        self.bytes.extend_from_slice(chunk);
    }

    fn drop_all(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(self.limit / 8);
        self.searched = 0;
    }

    pub(super) fn next(&mut self) -> NextFrame<'_> {
        match self.encoding {
            Encoding::Json => self.next_line(),
            Encoding::Protobuf => self.next_message(),
        }
    }

    fn next_line(&mut self) -> NextFrame<'_> {
        let end = self.bytes[self.searched..].iter().position(|&byte| byte == b'\n');
        let Some(end) = end else {
            self.searched = self.bytes.len();
            return NextFrame::Incomplete;
        };
        let begin = self.taken;
        self.taken = self.searched + end + 1;
        self.searched = self.taken;
        if std::mem::replace(&mut self.passing_over, SkipState::No) != SkipState::No {
            return NextFrame::TooLarge;
        }
        NextFrame::Frame(&self.bytes[begin..self.taken])
    }

    fn next_message(&mut self) -> NextFrame<'_> {
        let rest = &self.bytes[self.taken..];
        if let SkipState::Bytes(left) = self.passing_over {
            if left > rest.len() {
                return NextFrame::Incomplete;
            }
            self.passing_over = SkipState::No;
            self.taken += left;
            self.searched = self.taken;
            return NextFrame::TooLarge;
        }
        let Some(length) = rest.first_chunk() else { return NextFrame::Incomplete };
        // What does not fit is too large as well.
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > self.limit {
            self.passing_over = SkipState::Bytes(length.saturating_add(LENGTH));
            return self.next_message();
        }
        if rest.len() < LENGTH + length {
            return NextFrame::Incomplete;
        }
        let begin = self.taken + LENGTH;
        self.taken = begin + length;
        self.searched = self.taken;
        NextFrame::Frame(&self.bytes[begin..self.taken])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of bytes that come in chunks of `size`; `-` stands for one too large.
    fn frames(encoding: Encoding, bytes: &[u8], size: usize, limit: usize) -> Vec<String> {
        let mut frames = Frames::new(encoding, limit);
        let mut found = Vec::new();
        for chunk in bytes.chunks(size) {
            frames.push(chunk);
            loop {
                match frames.next() {
                    NextFrame::Frame(frame) => {
                        found.push(String::from_utf8(frame.to_vec()).unwrap())
                    }
                    NextFrame::TooLarge => found.push("-".to_owned()),
                    NextFrame::Incomplete => break,
                }
            }
            let most = limit + LENGTH + size + bytes.len().min(size);
            assert!(frames.bytes.len() <= most, "it holds too much");
        }
        found
    }

    /// What is read of `texts` that come as lines, and of the same as messages.
    fn both(texts: &[&str], size: usize, limit: usize) -> [Vec<String>; 2] {
        let mut messages = Vec::new();
        for text in texts {
            messages.extend_from_slice(&(text.len() as u32).to_be_bytes());
            messages.extend_from_slice(text.as_bytes());
        }
        let lines: String = texts.iter().map(|text| format!("{text}\n")).collect();
        let lines = frames(Encoding::Json, lines.as_bytes(), size, limit);
        [
            lines.into_iter().map(|line| line.trim_end().to_owned()).collect(),
            frames(Encoding::Protobuf, &messages, size, limit),
        ]
    }

    #[test]
    fn frames_do_not_depend_on_how_they_arrive() {
        let texts = ["one", "two", "", "three"];
        for size in 1..30 {
            for found in both(&texts, size, 100) {
                assert_eq!(found, texts, "{size}");
            }
        }
        assert_eq!(frames(Encoding::Json, b"one\nunfinished", 3, 100), ["one\n"]);
        assert_eq!(frames(Encoding::Protobuf, b"\0\0\0\x01a\0\0\0\x09unf", 3, 100), ["a"]);
    }

    #[test]
    fn what_is_too_large_is_passed_over_and_the_next_is_read() {
        let (long, longer) = ("y".repeat(70), "x".repeat(500));
        for size in [1, 7, 16, 1_000] {
            let [lines, messages] = both(&["one", &longer, "two", &long, "three"], size, 32);
            assert_eq!(messages, ["one", "-", "two", "-", "three"], "{size}");
            // Lines that come whole in one chunk have been held already.
            if size < 32 {
                assert_eq!(lines, messages, "{size}");
            }
        }
    }

    #[test]
    fn a_long_line_is_searched_once() {
        let mut frames = Frames::new(Encoding::Json, MAX_FRAME);
        for n in 1..=1_000 {
            frames.push(&[b'x'; 1_000]);
            assert_eq!(frames.next(), NextFrame::Incomplete);
            assert_eq!(frames.searched, n * 1_000);
        }
        frames.push(b"\n");
        assert!(matches!(frames.next(), NextFrame::Frame(frame) if frame.len() == 1_000_001));
    }
}

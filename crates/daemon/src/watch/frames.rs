//! A watch's bytes, cut into frames.
//!
//! Invariants: each byte is searched once, however slowly a long frame arrives; no more than [`MAX_FRAME`] bytes and a
//! chunk are held: what is longer is passed over, so that one object too large spoils no watch.

use super::decode::Decode;

/// A frame larger than this is no object: etcd refuses objects of a tenth of it.
pub(super) const MAX_FRAME: usize = 32 * 1024 * 1024;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'f> {
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
    limit: usize,
    bytes: Vec<u8>,
    /// What was given out already.
    taken: usize,
    /// Where the search for the next end goes on.
    searched: usize,
    /// Whether the frame at the beginning was too large and its rest is passed over.
    is_passing_over: bool,
}

impl Frames {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, bytes: Vec::new(), taken: 0, searched: 0, is_passing_over: false }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.bytes.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        if self.bytes.len() > self.limit {
            self.is_passing_over = true;
            self.bytes.clear();
            self.bytes.shrink_to(self.limit / 8);
            self.searched = 0;
        }
        self.bytes.extend_from_slice(chunk);
    }

    pub(super) fn next(&mut self, decode: &dyn Decode) -> Next<'_> {
        let searched = self.searched - self.taken;
        let Some(length) = decode.frame_end(&self.bytes[self.taken..], searched) else {
            self.searched = self.bytes.len();
            return Next::Incomplete;
        };
        let begin = self.taken;
        self.taken += length;
        self.searched = self.taken;
        if std::mem::take(&mut self.is_passing_over) {
            return Next::TooLarge;
        }
        Next::Frame(&self.bytes[begin..self.taken])
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode::Json;
    use super::*;

    /// Frames of a text that comes in chunks of `size` bytes; `-` stands for one too large.
    fn frames(text: &str, size: usize, limit: usize) -> Vec<String> {
        let mut frames = Frames::new(limit);
        let mut found = Vec::new();
        for chunk in text.as_bytes().chunks(size) {
            frames.push(chunk);
            loop {
                match frames.next(&Json) {
                    Next::Frame(frame) => found.push(String::from_utf8(frame.to_vec()).unwrap()),
                    Next::TooLarge => found.push("-".to_owned()),
                    Next::Incomplete => break,
                }
            }
            assert!(frames.bytes.len() <= limit + size + text.len().min(size), "it holds too much");
        }
        found
    }

    #[test]
    fn frames_do_not_depend_on_how_they_arrive() {
        let text = "one\ntwo\n\nthree\nunfinished";
        for size in 1..=text.len() {
            assert_eq!(frames(text, size, 100), ["one\n", "two\n", "\n", "three\n"], "{size}");
        }
    }

    #[test]
    fn what_is_too_large_is_passed_over_and_the_next_is_read() {
        let text = format!("one\n{}\ntwo\n{}\nthree\n", "x".repeat(500), "y".repeat(70));
        for size in [1, 7, 16] {
            assert_eq!(frames(&text, size, 32), ["one\n", "-", "two\n", "-", "three\n"], "{size}");
        }
    }

    #[test]
    fn a_long_frame_is_searched_once() {
        struct Counting(std::sync::atomic::AtomicUsize);
        impl Decode for Counting {
            fn accept(&self) -> &'static str {
                Json.accept()
            }
            fn page(
                &self,
                kind: &crate::kinds::WatchedKind,
                body: &[u8],
            ) -> Result<super::super::decode::Page, super::super::decode::Malformed> {
                Json.page(kind, body)
            }
            fn frame_end(&self, bytes: &[u8], searched: usize) -> Option<usize> {
                self.0.fetch_add(bytes.len() - searched, std::sync::atomic::Ordering::Relaxed);
                Json.frame_end(bytes, searched)
            }
            fn frame(
                &self,
                kind: &crate::kinds::WatchedKind,
                bytes: &[u8],
            ) -> Result<Option<super::super::decode::Frame>, super::super::decode::Malformed>
            {
                Json.frame(kind, bytes)
            }
        }
        let decode = Counting(std::sync::atomic::AtomicUsize::new(0));
        let mut frames = Frames::new(MAX_FRAME);
        for _ in 0..1_000 {
            frames.push(&[b'x'; 1_000]);
            assert_eq!(frames.next(&decode), Next::Incomplete);
        }
        frames.push(b"\n");
        assert!(matches!(frames.next(&decode), Next::Frame(frame) if frame.len() == 1_000_001));
        assert_eq!(decode.0.into_inner(), 1_000_001);
    }
}

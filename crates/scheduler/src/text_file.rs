//! Reading text files whose names users give.
//!
//! Invariant: reading stops at a limit, so that a wrong name such as `/dev/zero` is an error instead of all memory.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The size in bytes up to which configuration files are read.
pub(crate) const MAX_CONFIG: u64 = 16 << 20;
/// The size in bytes up to which manifests, dumps of clusters and traces are read. A dump of 100,000 pods has half of this.
pub(crate) const MAX_DUMP: u64 = 1 << 30;

/// The text of a file of at most `max_bytes`.
///
/// # Errors
/// If the file cannot be read, is larger, or is not UTF-8.
pub(crate) fn read(path: &Path, max_bytes: u64) -> io::Result<String> {
    read_from(File::open(path)?, max_bytes)
}

/// The text of a stream of at most `max_bytes`.
///
/// # Errors
/// If the stream cannot be read, is longer, or is not UTF-8.
pub(crate) fn read_from(source: impl Read, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells a text of exactly the maximum from a longer one.
    source.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let why = format!("larger than {} MiB, the limit for such files", max_bytes >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "not UTF-8"))
}

/// That a file cannot be read, in the words that programs in Go have for it; what has none there names the file first.
pub(crate) fn unread(path: &str, error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) if error.kind() == ErrorKind::IsADirectory => {
            format!("read {path}: {}", text.to_lowercase())
        }
        Some((text, _)) => format!("open {path}: {}", text.to_lowercase()),
        None => format!("{path}: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_up_to_the_limit() {
        let read = |text: &[u8]| read_from(text, 4).map_err(|error| error.kind());
        assert_eq!(read(b""), Ok(String::new()));
        assert_eq!(read("aäb".as_bytes()), Ok("aäb".to_owned()));
        assert_eq!(read(b"12345"), Err(ErrorKind::FileTooLarge));
        assert_eq!(read(b"\xff"), Err(ErrorKind::InvalidData));
    }

    #[test]
    fn files_that_cannot_be_read_are_reported_as_by_the_reference() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        let said = |path: &str| unread(path, &read(path.as_ref(), 4).unwrap_err());
        assert_eq!(said(path), format!("read {path}: is a directory"));
        let none = format!("{path}/none");
        assert_eq!(said(&none), format!("open {none}: no such file or directory"));
        assert_eq!(said("/dev/zero"), "/dev/zero: larger than 0 MiB, the limit for such files");
    }

    #[test]
    fn an_endless_stream_is_an_error() {
        let error = read_from(io::repeat(b' '), MAX_CONFIG).unwrap_err();
        assert_eq!(error.to_string(), "larger than 16 MiB, the limit for such files");
    }
}

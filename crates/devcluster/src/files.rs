//! Writing files that hold credentials: only their owner can read them, and they are replaced as a whole.

use std::fs;
use std::io::{self, BufWriter, ErrorKind, IntoInnerError, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// Replaces the file at `path`, or creates it, with what `write` writes. The mode is 0600.
///
/// The content goes into a new file with an unpredictable name in the same directory, which is then renamed. So a reader
/// sees the old or the new content and never a part, a crash leaves one of both, a link at `path` is not followed, and a
/// file that another user has put there is not written to.
///
/// # Errors
/// If there is something at `path` that is not a regular file, or the file system fails.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    // A rename would remove what is there. For a device such as /dev/stdout, or a link to one, that does lasting damage.
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            let why =
                "there is something else than a regular file at this path; links are not followed";
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file = BufWriter::new(NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?);
    write(&mut file)?;
    let file = file.into_inner().map_err(IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn put(path: &Path, text: &str) -> io::Result<()> {
        replace(path, |out| out.write_all(text.as_bytes()))
    }

    #[test]
    fn only_the_owner_can_read_what_is_written() {
        let files = tempfile::tempdir().expect("a directory");
        let path = files.path().join("kubeconfig");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        put(&path, "secret").expect("replaced");
        assert_eq!(fs::read_to_string(&path).expect("read"), "secret");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(files.path()).expect("read").count(), 1, "nothing is left behind");
    }

    #[test]
    fn links_and_directories_are_neither_followed_nor_replaced() {
        let files = tempfile::tempdir().expect("a directory");
        let (target, link) = (files.path().join("target"), files.path().join("link"));
        fs::write(&target, "of someone else").expect("written");
        symlink(&target, &link).expect("linked");
        assert_eq!(put(&link, "secret").expect_err("a link").kind(), ErrorKind::InvalidInput);
        assert_eq!(fs::read_to_string(&target).expect("read"), "of someone else");
        assert!(put(files.path(), "secret").is_err());
    }

    #[test]
    fn a_failed_write_leaves_the_old_content() {
        let files = tempfile::tempdir().expect("a directory");
        let path = files.path().join("state");
        put(&path, "old").expect("written");
        let failed = replace(&path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("no more"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).expect("read"), "old");
    }
}

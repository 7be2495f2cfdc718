//! A token in a file, which is read again while the client goes on.
//!
//! As in the reference, white space around the token does not count, and a file that is empty or cannot be read changes nothing:
//! it may be one that is being written, or that was taken away after the start. kube takes the file as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use http::HeaderValue;
use kube::config::AuthInfo;
use kube_scheduler_api_types::lock;

use super::credentials::{REREAD_AFTER, reason};

/// A file with a token.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    reread_after: Duration,
    current: Mutex<CurrentToken>,
}

#[derive(Debug)]
struct CurrentToken {
    /// What goes with requests.
    authorization: HeaderValue,
    read: Instant,
    complaint: Option<String>,
}

impl TokenFile {
    /// That of a user, unless the user has credentials that count more.
    pub(super) fn of(user: &AuthInfo) -> Result<Option<Self>, String> {
        let has_password = user.username.is_some() && user.password.is_some();
        if has_password || user.token.is_some() || user.auth_provider.is_some() {
            return Ok(None);
        }
        let path = user.token_file.as_ref().filter(|path| !path.is_empty());
        path.map(|path| Self::open(path.into(), REREAD_AFTER)).transpose()
    }

    fn open(path: PathBuf, reread_after: Duration) -> Result<Self, String> {
        let authorization = authorization(&path)?;
        let current = CurrentToken { authorization, read: Instant::now(), complaint: None };
        Ok(Self { path, reread_after, current: Mutex::new(current) })
    }

    /// What goes with a request now.
    pub(super) fn authorization(&self) -> HeaderValue {
        let mut current = lock(&self.current);
        if current.read.elapsed() >= self.reread_after {
            current.read = Instant::now();
            match authorization(&self.path) {
                Ok(authorization) => {
                    current.authorization = authorization;
                    current.complaint = None;
                }
                Err(error) if current.complaint.as_ref() != Some(&error) => {
                    tracing::error!(err = error, "Unable to rotate token");
                    current.complaint = Some(error);
                }
                Err(_) => {}
            }
        }
        current.authorization.clone()
    }
}

/// What goes with requests according to the file.
fn authorization(path: &Path) -> Result<HeaderValue, String> {
    let refused = |why: &str| format!("token file {}: {why}", path.display());
    let text = fs::read_to_string(path).map_err(|error| refused(&reason(&error)))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(refused("it is empty"));
    }
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| refused("there is more than a token in it"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_without_its_line_end_and_never_replaced_by_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, "first\n").unwrap();
        let file = TokenFile::open(path.clone(), Duration::ZERO).unwrap();
        assert_eq!(file.authorization(), "Bearer first");
        assert!(file.authorization().is_sensitive());
        for unusable in ["", " \n", "two\ntokens"] {
            fs::write(&path, unusable).unwrap();
            assert_eq!(file.authorization(), "Bearer first", "{unusable:?}");
        }
        fs::write(&path, "  second").unwrap();
        assert_eq!(file.authorization(), "Bearer second");
        fs::remove_file(&path).unwrap();
        assert_eq!(file.authorization(), "Bearer second");
        assert!(lock(&file.current).complaint.is_some());
    }

    #[test]
    fn a_token_is_needed_at_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let mut user =
            AuthInfo { token_file: Some(path.display().to_string()), ..AuthInfo::default() };
        let error = TokenFile::of(&user).unwrap_err();
        assert_eq!(error, format!("token file {}: no such file or directory", path.display()));
        fs::write(&path, "\n").unwrap();
        assert!(TokenFile::of(&user).unwrap_err().ends_with(": it is empty"));
        // What counts more is used in its place.
        user.token = Some("t".to_owned().into());
        assert!(TokenFile::of(&user).unwrap().is_none());
        assert!(TokenFile::of(&AuthInfo::default()).unwrap().is_none());
    }
}

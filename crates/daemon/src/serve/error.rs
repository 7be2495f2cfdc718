//! Why the secure port cannot be served.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::transport::ConnectError;

/// Why the secure port cannot be served. The messages begin with the reference's where it has one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The port cannot be had.
    #[error("failed to create listener: failed to listen on {address}")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Only one of certificate and key was given.
    #[error("missing filename for serving cert: {missing} is not given")]
    MissingFile {
        /// The flag that is missing.
        missing: &'static str,
    },
    /// A file of certificates or keys cannot be read.
    #[error("open {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("write {}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Only one of the two files of a pair is there.
    #[error("error reading {}, certificate and key must be supplied as a pair", path.display())]
    HalfPair {
        /// The file that is not there.
        path: PathBuf,
    },
    /// What is used for a purpose cannot be used.
    #[error("{purpose}")]
    Unusable {
        /// The purpose, in the reference's words.
        purpose: &'static str,
        /// Why not.
        #[source]
        source: Box<Self>,
    },
    /// A file does not hold what it should.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Certificate and key do not belong together.
    #[error(
        "private key {} does not match public key of certificate {}",
        key.display(),
        certificate.display()
    )]
    KeyMismatch {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// A setting of TLS makes no sense.
    #[error("{0}")]
    Setting(String),
    /// No certificate can be made.
    #[error("unable to generate self signed cert: {0}")]
    SelfSigned(String),
    /// The API server to ask about callers cannot be made out.
    #[error("failed to get delegated {purpose} kubeconfig")]
    Delegate {
        /// `authentication` or `authorization`.
        purpose: &'static str,
        /// Why not.
        #[source]
        source: ConnectError,
    },
    /// The cluster does not publish its authorities, and that is not tolerated.
    #[error("unable to load configmap based request-header-client-ca-file: {0}")]
    Lookup(String),
}

impl ServeError {
    /// The file cannot be read.
    pub(crate) fn read(path: &Path, error: &io::Error) -> Self {
        Self::Read { path: path.to_owned(), source: worded(error, "") }
    }

    /// The port cannot be had.
    pub(crate) fn listen(address: SocketAddr, error: &io::Error) -> Self {
        let source = worded(error, &format!("listen tcp {address}: bind: "));
        Self::Listen { address, source }
    }

    /// This is why something cannot be used for a purpose.
    pub(crate) fn for_purpose(purpose: &'static str) -> impl FnOnce(Self) -> Self {
        move |error| Self::Unusable { purpose, source: Box::new(error) }
    }
}

/// The system's error in the words that programs in Go have for it.
fn worded(error: &io::Error, before: &str) -> io::Error {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    io::Error::new(error.kind(), format!("{before}{}", text.to_lowercase()))
}

/// An error with its causes, each said once.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let this = error.to_string();
        if !text.ends_with(&this) {
            text.push_str(": ");
            text.push_str(&this);
        }
        cause = error.source();
    }
    text
}

//! Why a list or watch did not come to its end.

use std::time::Duration;

use crate::inbox::CoreEnded;
use crate::transport::ApiError;

/// Why a list or watch broke off.
#[derive(Debug, thiserror::Error)]
pub(super) enum Interruption {
    #[error("the server no longer has the version asked for")]
    Gone,
    #[error("{0}")]
    Failed(String),
    /// The server went away, which is logged once for all kinds.
    #[error("{0}")]
    Away(String),
    #[error("{0}")]
    Refused(String),
    #[error("the server does not serve this kind")]
    NotServed,
    #[error("the server does not stream lists: {0}")]
    NotStreamed(String),
    #[error("the server writes no protobuf: {0}")]
    NoProtobuf(String),
    #[error("the list is wanted again")]
    ListAgain,
    #[error(transparent)]
    CoreEnded(#[from] CoreEnded),
}

impl Interruption {
    /// Logs that following a kind goes on after `wait`. An unreachable server is not logged here but once for all kinds.
    pub(super) fn log(&self, kind: &str, wait: Duration) {
        const TEXT: &str = "Following a kind was interrupted";
        match self {
            Self::Away(_) => tracing::debug!(target: "V2", kind, error = %self, ?wait, "{TEXT}"),
            _ => tracing::warn!(kind, error = %self, ?wait, "{TEXT}"),
        }
    }
}

impl From<ApiError> for Interruption {
    fn from(error: ApiError) -> Self {
        match error.code() {
            Some(401 | 403) => Self::Refused(error.to_string()),
            Some(404) => Self::NotServed,
            Some(410) => Self::Gone,
            None if matches!(error, ApiError::Transport { .. }) => Self::Away(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

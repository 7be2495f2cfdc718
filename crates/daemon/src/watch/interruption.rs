//! Why a list or watch did not come to its end.

use crate::inbox::CoreEnded;
use crate::transport::ApiError;

/// Why a list or watch broke off.
#[derive(Debug, thiserror::Error)]
pub(super) enum Interruption {
    #[error("the server no longer has the version asked for")]
    Gone,
    #[error("{0}")]
    Failed(String),
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

impl From<ApiError> for Interruption {
    fn from(error: ApiError) -> Self {
        match error.code() {
            Some(401 | 403) => Self::Refused(error.to_string()),
            Some(404) => Self::NotServed,
            Some(410) => Self::Gone,
            _ => Self::Failed(error.to_string()),
        }
    }
}

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
    /// The server has not answered in time. If it answers no request, that is logged once for all kinds.
    #[error("{0}")]
    Late(String),
    /// The server wants watches to be started later, which is its business.
    #[error("{0}")]
    Busy(String),
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
    /// Why a watch did not begin.
    pub(super) fn of_watch(error: ApiError) -> Self {
        match error.code() {
            Some(429) => Self::Busy(error.to_string()),
            _ => error.into(),
        }
    }

    /// Logs that following a kind goes on after `wait`. An unreachable server, or one that `is_away`, is not logged here but once
    /// for all kinds.
    pub(super) fn log(&self, kind: &str, wait: Duration, is_away: bool) {
        const TEXT: &str = "Following a kind was interrupted";
        if self.needs_attention(is_away) {
            tracing::warn!(kind, error = %self, ?wait, "{TEXT}");
        } else {
            tracing::debug!(target: "V2", kind, error = %self, ?wait, "{TEXT}");
        }
    }

    const fn needs_attention(&self, is_away: bool) -> bool {
        match self {
            Self::Away(_) | Self::Busy(_) => false,
            Self::Late(_) => !is_away,
            _ => true,
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
            None => Self::Late(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_is_to_start_later_needs_no_attention_and_a_list_does() {
        let throttled = || ApiError::Status {
            code: 429,
            reason: "TooManyRequests".to_owned(),
            message: "later".to_owned(),
            retry_after: None,
        };
        assert!(!Interruption::of_watch(throttled()).needs_attention(false));
        assert!(Interruption::from(throttled()).needs_attention(false));
        assert!(!Interruption::from(ApiError::not_sent("refused")).needs_attention(false));
        let late = || Interruption::of_watch(ApiError::Timeout(Duration::ZERO));
        assert!(late().needs_attention(false));
        assert!(!late().needs_attention(true), "that the server is away has been logged");
        assert!(Interruption::Failed("unreadable".to_owned()).needs_attention(true));
    }
}

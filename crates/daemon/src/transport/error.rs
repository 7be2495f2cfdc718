//! Requests that did not succeed, and whether they may have been carried out nevertheless.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use kube_scheduler_writes::LONGEST_HOLD;
use serde::Deserialize;

use super::envelope;

/// A request that did not succeed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ApiError {
    /// The server said no.
    Status {
        /// HTTP status.
        code: u16,
        /// `reason` of the Status object, such as `Conflict`.
        reason: String,
        /// What the server said.
        message: String,
        /// How long to wait before the next try, as the server asks (`Retry-After`).
        retry_after: Option<Duration>,
    },
    /// There was no answer.
    Transport {
        /// What happened.
        text: String,
        /// What is known of the request.
        fate: Fate,
    },
    /// There was no answer in time.
    Timeout(Duration),
}

/// What is known of a request without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It certainly did not get through.
    NotSent,
    /// Its connection ended before the answer.
    CutOff,
    /// None of these.
    Unknown,
}

impl ApiError {
    /// A request that certainly did not get through.
    pub(crate) fn not_sent(text: impl Into<String>) -> Self {
        Self::Transport { text: text.into(), fate: Fate::NotSent }
    }

    /// A request that may have been carried out, without an answer that says so.
    pub(crate) fn unclear(text: impl Into<String>) -> Self {
        Self::Transport { text: text.into(), fate: Fate::Unknown }
    }

    /// The HTTP status, if there was an answer.
    pub(crate) const fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the request may have been carried out nevertheless.
    pub(crate) const fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Transport { fate, .. } => !matches!(fate, Fate::NotSent),
            Self::Timeout(_) => true,
            Self::Status { code, .. } => *code == 504,
        }
    }

    /// Whether the request certainly did not get through, as when there was no connection to be made.
    pub(crate) const fn is_not_sent(&self) -> bool {
        matches!(self, Self::Transport { fate: Fate::NotSent, .. })
    }

    /// Whether the connection ended before the answer.
    pub(crate) const fn is_cut_off(&self) -> bool {
        matches!(self, Self::Transport { fate: Fate::CutOff, .. })
    }

    /// How long to wait before the same request is sent again, if the server says so.
    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { code, retry_after, .. } if *code == 429 || *code >= 500 => *retry_after,
            _ => None,
        }
    }

    /// How long the caller waits before it sends the same request again, if the server says that it should.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.retry_after().map(|pause| pause.min(LONGEST_HOLD))
    }

    pub(super) fn transport(error: &(dyn StdError + 'static)) -> Self {
        let mut text = error.to_string();
        let mut is_not_sent = false;
        for error in chain(error) {
            let this = error.to_string();
            if !text.contains(&this) {
                text.push_str(": ");
                text.push_str(&this);
            }
            // Failing to connect is the one failure after which the request certainly was not seen.
            is_not_sent |= is_of_connecting(error)
                || error.downcast_ref::<io::Error>().is_some_and(|error| {
                    use io::ErrorKind::{ConnectionRefused, NotFound};
                    matches!(error.kind(), ConnectionRefused | NotFound)
                });
        }
        let fate = match (is_not_sent, is_cut_off(error)) {
            (true, _) => Fate::NotSent,
            (false, true) => Fate::CutOff,
            (false, false) => Fate::Unknown,
        };
        Self::Transport { text, fate }
    }

    /// The answer behind a status that is no success.
    pub(super) fn status(code: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let status = StatusText::read(body);
        let message = if status.message.is_empty() {
            let text = String::from_utf8_lossy(body);
            let text = text.trim();
            let text: String = text.chars().take(200).collect();
            if text.is_empty() { format!("the server answered with status {code}") } else { text }
        } else {
            status.message
        };
        Self::Status { code, reason: status.reason, message, retry_after }
    }
}

/// An error and its causes.
fn chain<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// Whether a connection ended before the answer: reset, closed, or without an answer to a ping.
fn is_cut_off(error: &(dyn StdError + 'static)) -> bool {
    let has_ended = |error: &io::Error| {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    };
    chain(error).any(|error| {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            has_ended(error)
        } else if let Some(error) = error.downcast_ref::<h2::Error>() {
            error.is_go_away() && error.is_remote() || error.get_io().is_some_and(has_ended)
        } else if let Some(error) = error.downcast_ref::<hyper::Error>() {
            // Of a client, the only time-out is that of a ping.
            error.is_incomplete_message()
                || error.is_canceled()
                || error.is_closed()
                || error.is_timeout()
        } else {
            false
        }
    })
}

/// Whether a connection that there was ended before the answer.
pub(super) fn has_lost_connection(error: &(dyn StdError + 'static)) -> bool {
    is_cut_off(error) && !chain(error).any(is_of_connecting)
}

/// Whether there was no connection to be made, for any reason.
fn is_of_connecting(error: &(dyn StdError + 'static)) -> bool {
    error
        .downcast_ref::<hyper_util::client::legacy::Error>()
        .is_some_and(hyper_util::client::legacy::Error::is_connect)
}

/// What matters of a Status object.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusText {
    message: String,
    reason: String,
}

impl StatusText {
    /// Empty when the body is something else, such as the page of a proxy.
    fn read(body: &[u8]) -> Self {
        match envelope::open(body) {
            Ok(object) => {
                let (message, reason, _) = envelope::status(object.raw);
                Self { message: message.to_owned(), reason: reason.to_owned() }
            }
            Err(_) => serde_json::from_slice(body).unwrap_or_default(),
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { message, .. } => f.write_str(message),
            Self::Transport { text, .. } => f.write_str(text),
            Self::Timeout(limit) => write!(f, "no answer within {limit:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_request_ended_is_known_by_the_kind_of_its_error() {
        #[derive(Debug, thiserror::Error)]
        #[error("the request failed")]
        struct Failed(#[source] io::Error);

        let fate = |error: io::Error| match ApiError::transport(&Failed(error)) {
            ApiError::Transport { fate, .. } => fate,
            other => panic!("{other:?}"),
        };
        for (kind, expected) in [
            (io::ErrorKind::ConnectionRefused, Fate::NotSent),
            (io::ErrorKind::ConnectionReset, Fate::CutOff),
            (io::ErrorKind::BrokenPipe, Fate::CutOff),
            (io::ErrorKind::UnexpectedEof, Fate::CutOff),
            (io::ErrorKind::HostUnreachable, Fate::Unknown),
        ] {
            assert_eq!(fate(kind.into()), expected, "{kind}");
        }
        assert_eq!(fate(io::Error::other("connection reset by peer")), Fate::Unknown);
    }
}

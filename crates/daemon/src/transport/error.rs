//! Requests that did not succeed, and whether they may have been carried out nevertheless.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

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
        /// Whether the request certainly did not get through.
        is_refused: bool,
    },
    /// There was no answer in time.
    Timeout(Duration),
}

impl ApiError {
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
            Self::Transport { is_refused, .. } => !*is_refused,
            Self::Timeout(_) => true,
            Self::Status { code, .. } => *code == 504,
        }
    }

    /// Whether nothing listened at the address.
    pub(crate) const fn is_connection_refused(&self) -> bool {
        matches!(self, Self::Transport { is_refused: true, .. })
    }

    /// How long to wait before the same request is sent again, if the server says so.
    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { code, retry_after, .. } if *code == 429 || *code >= 500 => *retry_after,
            _ => None,
        }
    }

    pub(super) fn transport(error: &(dyn StdError + 'static)) -> Self {
        let mut text = error.to_string();
        let mut is_refused = false;
        let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
        while let Some(error) = cause {
            let this = error.to_string();
            if !text.contains(&this) {
                text.push_str(": ");
                text.push_str(&this);
            }
            // Failing to connect is the one failure after which the request certainly was not seen.
            is_refused |= error.downcast_ref::<io::Error>().is_some_and(|error| {
                matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
            }) || this.contains("dns error");
            cause = error.source();
        }
        Self::Transport { text, is_refused }
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

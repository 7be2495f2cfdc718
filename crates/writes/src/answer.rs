//! How requests end, as the caller reports it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Object;

/// A write about a pod that the server took.
#[derive(Clone, Debug, PartialEq)]
pub enum Success {
    /// The server has carried out the request.
    Done,
    /// There was nothing to do: what was to be evicted or deleted is gone.
    AlreadyGone,
    /// An object was written or read; this is what is stored now.
    Stored(Arc<Object>),
}

/// A write about a pod that did not succeed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What kind of failure it was.
    pub cause: Cause,
    /// The machine-readable reason of the server's answer, such as `Conflict`; empty if it gave none.
    pub reason: Arc<str>,
    /// The error text for people.
    pub message: String,
    /// How long to wait before the same request is sent again, as the server asks. If set, the request counts as not processed,
    /// and goes out again after that time.
    pub retry_after: Option<Duration>,
}

/// Kinds of failures, as far as they say something about what the server can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The server refused the request with this HTTP status.
    Status(u16),
    /// No answer came within the time limit.
    Timeout,
    /// There was no connection, or it broke off.
    Unreachable,
}

impl Failure {
    /// The HTTP status, if the server refused the request.
    pub const fn code(&self) -> Option<u16> {
        match self.cause {
            Cause::Status(code) => Some(code),
            Cause::Timeout | Cause::Unreachable => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// How a request about an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventAnswer {
    /// It is written, or it was refused in a way that another try would not change.
    Done,
    /// It did not get through, or not at this moment.
    Unreachable,
    /// The server asks to send the event again after this time.
    RetryAfter(Duration),
}

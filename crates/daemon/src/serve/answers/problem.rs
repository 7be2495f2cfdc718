//! Why a question is not answered, as an API says it.

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, StatusCode};
use kube_scheduler_answers::Refusal;

use crate::serve::reply::{self, Reply};

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Problem {
    code: StatusCode,
    reason: &'static str,
    message: String,
    retry: bool,
}

impl Problem {
    pub(super) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        let retry = matches!(code, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        Self { code, reason, message: message.into(), retry }
    }

    pub(super) fn unavailable(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(super) fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    pub(super) fn internal(message: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    pub(super) fn reply(self, asked: &HeaderMap) -> Reply {
        let mut reply = reply::refused(asked, self.code, self.reason, self.message);
        if self.retry {
            reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        reply
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (code, reason) = match &refusal {
            Refusal::NoSuchPod(_) | Refusal::NoSuchNode(_) => (StatusCode::NOT_FOUND, "NotFound"),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
        };
        Self::new(code, reason, refusal.to_string())
    }
}

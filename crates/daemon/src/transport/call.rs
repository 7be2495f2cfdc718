//! One request, and the encoding of its body and of the answer.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method, Request};
use kube::client::Body;

use super::ApiError;

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// What every server and every kind knows.
    Json,
    /// What the built-in kinds know besides: smaller, and quicker to read on both sides.
    Protobuf,
}

impl Encoding {
    /// The media type.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The media types to ask for. The server may answer in JSON in any case.
    pub(crate) const fn accept(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf,application/json",
        }
    }

    /// What an answer says it is. A server that does not say it writes JSON.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let is_protobuf = |text: &str| text.trim_start().starts_with(Self::Protobuf.media_type());
        if content_type.is_some_and(is_protobuf) { Self::Protobuf } else { Self::Json }
    }
}

/// One request, complete.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(super) method: Method,
    path: String,
    content_type: &'static str,
    accept: &'static str,
    pub(super) body: Bytes,
    pub(super) timeout: Duration,
}

impl Call {
    fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            content_type: Encoding::Json.media_type(),
            accept: Encoding::Json.accept(),
            body: Bytes::new(),
            timeout: Duration::from_secs(30),
        }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: impl Into<String>, body: Vec<u8>) -> Self {
        Self { body: body.into(), ..Self::new(Method::POST, path) }
    }

    pub(crate) fn put(path: impl Into<String>, body: Vec<u8>) -> Self {
        Self { body: body.into(), ..Self::new(Method::PUT, path) }
    }

    pub(crate) fn delete(path: impl Into<String>, body: Vec<u8>) -> Self {
        Self { body: body.into(), ..Self::new(Method::DELETE, path) }
    }

    /// A strategic merge patch.
    pub(crate) fn patch(path: impl Into<String>, body: Vec<u8>) -> Self {
        let content_type = "application/strategic-merge-patch+json";
        Self { body: body.into(), content_type, ..Self::new(Method::PATCH, path) }
    }

    /// The path and the query.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// What the body is.
    pub(crate) const fn content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = content_type;
        self
    }

    /// In which encoding the answer is wanted.
    pub(crate) const fn wanting(mut self, encoding: Encoding) -> Self {
        self.accept = encoding.accept();
        self
    }

    /// The body is in this encoding, and the answer is wanted in it, too.
    pub(crate) const fn written_in(mut self, encoding: Encoding) -> Self {
        self.content_type = encoding.media_type();
        self.wanting(encoding)
    }

    /// How long to wait for the answer; for a watch, for its beginning.
    pub(crate) const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(super) fn request(&self) -> Result<Request<Body>, ApiError> {
        let mut request =
            Request::builder().method(&self.method).uri(&self.path).header(ACCEPT, self.accept);
        if !self.body.is_empty() {
            request = request.header(CONTENT_TYPE, self.content_type);
        }
        request
            .body(Body::from(self.body.clone()))
            .map_err(|error| ApiError::not_sent(error.to_string()))
    }
}

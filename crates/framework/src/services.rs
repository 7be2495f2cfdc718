//! The surroundings of the engine as plugins see them: requests to the API server, and commands to the engine from
//! asynchronous work.
//!
//! Invariants: making a request does nothing; it is sent when its future is polled, which happens outside the core, so that
//! no extension point up to Permit can wait for the network.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use crate::context::Commands;
use crate::status::Status;

/// Asynchronous work of PreBind or Bind. It is awaited outside the engine, never on the scheduling thread.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What an [`ApiRequest`] does at the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ApiVerb {
    /// Reads one object, or a list.
    Get,
    /// Makes an object; the path is the collection's, or a subresource's such as `…/pods/p/binding`.
    Create,
    /// Replaces an object. With `metadata.resourceVersion` in the body, a newer revision at the server is a conflict.
    Replace,
    /// Changes an object by a JSON merge patch.
    MergePatch,
    /// Changes an object of a built-in kind by a strategic merge patch.
    StrategicMergePatch,
    /// Deletes an object; the body, if any, are delete options.
    Delete,
}

/// One request to the API server that a plugin makes with [`Handle::send`](crate::Handle::send).
#[derive(Clone, Debug, PartialEq)]
pub struct ApiRequest {
    /// What the request does.
    pub verb: ApiVerb,
    /// The path at the API server, with the query if there is one: `/api/v1/namespaces/default/configmaps/x`.
    pub path: String,
    /// What is sent; `None` for nothing.
    pub body: Option<Value>,
}

impl ApiRequest {
    /// Reads what is at `path`.
    pub fn get(path: impl Into<String>) -> Self {
        Self { verb: ApiVerb::Get, path: path.into(), body: None }
    }

    /// Makes `object` in the collection at `path`.
    pub fn create(path: impl Into<String>, object: Value) -> Self {
        Self { verb: ApiVerb::Create, path: path.into(), body: Some(object) }
    }

    /// Replaces what is at `path` by `object`.
    pub fn replace(path: impl Into<String>, object: Value) -> Self {
        Self { verb: ApiVerb::Replace, path: path.into(), body: Some(object) }
    }

    /// Deletes what is at `path`.
    pub fn delete(path: impl Into<String>) -> Self {
        Self { verb: ApiVerb::Delete, path: path.into(), body: None }
    }
}

/// A request that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status; `None` when there was no answer, or when it is not known.
    pub code: Option<u16>,
    /// The machine-readable reason, such as `Conflict` or `NotFound`; empty when the server did not say.
    pub reason: Arc<str>,
    /// The text for people.
    pub message: Arc<str>,
}

impl ApiError {
    /// An error with this reason, or none, and this text.
    pub fn new(reason: impl Into<Arc<str>>, message: impl Into<Arc<str>>) -> Self {
        Self { code: None, reason: reason.into(), message: message.into() }
    }

    /// Whether a write that ended like this may have been carried out nevertheless: there was no answer, or the server
    /// failed while it worked on it.
    pub fn is_outcome_unknown(&self) -> bool {
        match self.code {
            Some(code) => code >= 500,
            // Servers that say why give a status, too; a caller may have passed on the reason alone.
            None => matches!(
                &*self.reason,
                "" | "InternalError" | "ServerTimeout" | "ServiceUnavailable" | "Timeout"
            ),
        }
    }
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        Self::error(error.message)
    }
}

/// What the program around the engine does for plugins.
pub trait Services: Send + Sync {
    /// Makes a request to the API server, as the scheduler itself does. Nothing is sent before the future is polled;
    /// dropping the future cancels the request.
    fn send(&self, request: ApiRequest) -> BoxFuture<Result<Value, ApiError>>;
    /// Takes requests that plugins make outside of a call by the engine, from their asynchronous work. They are carried out
    /// in order, some time after.
    fn ask(&self, commands: Commands);
}

/// Nothing around the engine: API requests fail, commands are discarded.
pub(crate) struct NoServices;

impl Services for NoServices {
    fn send(&self, request: ApiRequest) -> BoxFuture<Result<Value, ApiError>> {
        let message = format!("{}: there is no API server here", request.path);
        Box::pin(std::future::ready(Err(ApiError::new("", message))))
    }

    fn ask(&self, _: Commands) {}
}

//! Objects that plugins change before a pod is bound: replaced as a whole, if nobody else was faster.
//!
//! Invariant: the revision goes with every write, so that a change made meanwhile by somebody else is never undone; a
//! write is not tried again unless the server refused it unseen.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Object;
use kube_scheduler_framework::WriteError;

use super::pods::Written;
use crate::kinds::path_of;
use crate::transport::{Api, ApiError, Call};

/// Puts an object in the place of the revision that it carries.
pub(crate) async fn replace(api: &Api, object: &Object, timeout: Duration) -> Written {
    let Some(path) = path_of(object) else {
        let text = format!("objects of kind {} cannot be written", object.kind);
        return Written::new(Err(ApiError::Transport { text, is_refused: true }));
    };
    let call = Call::put(path, object.json.to_string().into_bytes()).timeout(timeout);
    let stored = api.call(&call).await.and_then(|body| {
        Object::from_json(&body).map_err(|error| {
            let text = format!("the answer is no object: {error}");
            ApiError::Transport { text, is_refused: false }
        })
    });
    match stored {
        Ok(stored) => Written { object: Some(Arc::new(stored)), ..Written::new(Ok(())) },
        Err(error) => Written::new(Err(error)),
    }
}

/// What the core is told of a write that failed.
pub(crate) fn write_error(error: &ApiError) -> WriteError {
    let reason = match error {
        ApiError::Status { reason, .. } => reason.as_str(),
        ApiError::Transport { .. } | ApiError::Timeout(_) => "",
    };
    WriteError { reason: reason.into(), message: error.to_string().into() }
}

//! Objects that plugins change before a pod is bound: replaced as a whole, unless another client was faster.
//!
//! Invariant: the revision goes with every write, so that a change made meanwhile by another client is never undone; a
//! write is not tried again unless the server refused it unseen.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Object;
use kube_scheduler_writes::Success;

use crate::kinds::path_of;
use crate::transport::{Api, ApiError, Call};

/// Puts an object in the place of the revision that it carries.
pub(super) async fn replace(
    api: &Api,
    object: &Object,
    timeout: Duration,
) -> Result<Success, ApiError> {
    let Some(path) = path_of(object) else {
        let text = format!("objects of kind {} cannot be written", object.kind);
        return Err(ApiError::Transport { text, is_refused: true });
    };
    let call = Call::put(path, object.json.to_string().into_bytes()).timeout(timeout);
    let body = api.call(&call).await?;
    let stored = Object::from_json(&body).map_err(|error| {
        let text = format!("the answer is no object: {error}");
        ApiError::Transport { text, is_refused: false }
    })?;
    Ok(Success::Stored(Arc::new(stored)))
}

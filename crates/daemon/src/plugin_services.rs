//! What plugins may use of a running scheduler: the connection to the API server and the way into the core thread.
//!
//! Plugins are made before there is either, so that a configuration can be tried without a cluster; both are connected when
//! the scheduler starts. What a plugin asks for before that fails, or is dropped.
//!
//! Invariants: a request of a plugin is sent once and never again by itself, since only the plugin knows what may be sent
//! twice; what a plugin asks of the core arrives in the order in which it was asked, as one input; what a plugin wants while a
//! question about scheduling is answered ([`apart`]) reaches neither.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube_scheduler_engine::Input;
use kube_scheduler_framework::{
    ApiError as PluginApiError, ApiRequest, ApiVerb, BoxFuture, Commands, Services,
};
use serde_json::Value;

use crate::inbox::Inbox;
use crate::transport::{Api, ApiError, Call};

thread_local! {
    /// Whether this thread answers a question on a copy of the engine.
    static IS_APART: Cell<bool> = const { Cell::new(false) };
}

/// Lets this thread work on copies of the engine: plugins that are called on them reach neither the API server nor the core.
pub(crate) fn apart<T>(work: impl FnOnce() -> T) -> T {
    /// Also when the work panics.
    struct RestoreOnDrop(bool);
    impl Drop for RestoreOnDrop {
        fn drop(&mut self) {
            IS_APART.set(self.0);
        }
    }
    let _back = RestoreOnDrop(IS_APART.replace(true));
    work()
}

/// The connection and the inbox, once the scheduler has started. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct PluginServices(Arc<OnceLock<CoreConnection>>);

#[derive(Debug)]
struct CoreConnection {
    api: Api,
    inbox: Inbox,
    /// How long to wait for the answer to a request.
    timeout: Duration,
}

impl PluginServices {
    /// The scheduler has started; answers are waited for as long as `timeout`.
    pub(crate) fn connect(&self, api: &Api, inbox: &Inbox, timeout: Duration) {
        // A scheduler starts once.
        let _ = self.0.set(CoreConnection { api: api.clone(), inbox: inbox.clone(), timeout });
    }
}

impl Services for PluginServices {
    fn ask(&self, commands: Commands) {
        if IS_APART.get() {
            return;
        }
        if let Some(CoreConnection { inbox, .. }) = self.0.get() {
            // A core that has ended does nothing any more.
            let _ = inbox.report(Input::PluginAsked(commands));
        }
    }

    fn send(&self, request: ApiRequest) -> BoxFuture<Result<Value, PluginApiError>> {
        if IS_APART.get() {
            let error = refused("questions about scheduling reach no API server");
            return Box::pin(std::future::ready(Err(error)));
        }
        let connected = self.0.clone();
        Box::pin(async move {
            let Some(CoreConnection { api, timeout, .. }) = connected.get() else {
                return Err(refused("the scheduler has not started yet"));
            };
            let answer = api.call(&call(request)?.timeout(*timeout)).await.map_err(plugin_error)?;
            if answer.is_empty() {
                return Ok(Value::Null);
            }
            serde_json::from_slice(&answer)
                .map_err(|error| refused(format!("the answer is no JSON: {error}")))
        })
    }
}

fn call(request: ApiRequest) -> Result<Call, PluginApiError> {
    let ApiRequest { verb, path, body } = request;
    if !path.starts_with('/') {
        return Err(refused(format!("{path:?} is not a path: it must begin with \"/\"")));
    }
    let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
    Ok(match verb {
        ApiVerb::Get => Call::get(path),
        ApiVerb::Create => Call::post(path, body),
        ApiVerb::Replace => Call::put(path, body),
        ApiVerb::MergePatch => Call::patch(path, body).content_type("application/merge-patch+json"),
        ApiVerb::StrategicMergePatch => Call::patch(path, body),
        ApiVerb::Delete => Call::delete(path, body),
        other => return Err(refused(format!("{other:?} is not understood"))),
    })
}

fn refused(message: impl Into<Arc<str>>) -> PluginApiError {
    PluginApiError::new("", message)
}

fn plugin_error(error: ApiError) -> PluginApiError {
    let (code, message) = (error.code(), error.to_string());
    let reason = match error {
        ApiError::Status { reason, .. } => reason,
        _ => String::new(),
    };
    PluginApiError { code, ..PluginApiError::new(reason, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn before_the_start_requests_fail_and_nothing_is_asked() {
        let services = PluginServices::default();
        let error = services.send(ApiRequest::get("/version")).await.unwrap_err();
        assert_eq!(&*error.message, "the scheduler has not started yet");
        services.ask(Commands::default());
    }

    #[tokio::test]
    async fn copies_of_the_engine_reach_nobody() {
        let endpoint = crate::Endpoint::from_url("http://127.0.0.1:9").unwrap();
        let (inbox, core) = Inbox::open();
        let services = PluginServices::default();
        services.connect(&endpoint.client("test").unwrap(), &inbox, Duration::from_secs(1));
        let sent = apart(|| {
            services.ask(Commands::default());
            services.send(ApiRequest::get("/version"))
        });
        let error = sent.await.unwrap_err();
        assert_eq!(&*error.message, "questions about scheduling reach no API server");
        assert!(core.notices.is_empty());
        // The flag of the thread is restored also after a panic.
        assert!(std::panic::catch_unwind(|| apart(|| panic!("on purpose"))).is_err());
        services.ask(Commands::default());
        assert_eq!(core.notices.len(), 1);
    }

    #[test]
    fn a_path_begins_at_the_root() {
        let error = call(ApiRequest::get("version")).unwrap_err();
        assert_eq!(&*error.message, "\"version\" is not a path: it must begin with \"/\"");
    }
}

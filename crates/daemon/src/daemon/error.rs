//! Why a scheduler does not start, and why it ends before it was asked to.

use kube_scheduler_config::OutputError;
use kube_scheduler_engine::BuildError;

use crate::extender::ExtenderError;
use crate::serve::ServeError;
use crate::transport::ConnectError;

/// Why a scheduler does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration makes no scheduler.
    #[error("configuration")]
    Build(#[from] BuildError),
    /// The extenders cannot be made.
    #[error("configuration")]
    Extenders(#[from] ExtenderError),
    /// The configuration cannot be shown.
    #[error("configuration")]
    Output(#[from] OutputError),
    /// No client for the API server can be made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The secure port cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Spans cannot be sent there.
    #[error(
        "tracing endpoint {endpoint:?} is not the URL of a collector; expected is http(s)://HOST[:PORT]"
    )]
    TracingEndpoint {
        /// What was given.
        endpoint: String,
    },
    /// The system gives no thread.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

/// Why a scheduler ended that was not asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A bug.
    #[error("the scheduling core broke down: {0}")]
    CoreBroke(String),
    /// The lease could not be renewed in time; another scheduler may lead by now. The text is the reference's.
    #[error("Leaderelection lost")]
    LeaseLost,
}

//! HTTP extenders: other programs that are asked over HTTP in every attempt.
//!
//! The engine decides which extender is asked what, and interprets the answers; this module sends the requests. A request is a
//! POST with JSON, answered by JSON; the core's thread waits for the answer, no longer than the extender's own time-out. Bindings
//! are awaited outside the core's thread.
//!
//! Invariants: every call ends, with an answer or with an error, within the extender's time-out; whatever an extender
//! answers, and however much of it, is an error at worst; nothing is logged of keys and certificates.
//!
//! Behaviour: `docs/spec/config.md` §7.

mod answers;
mod connection;
mod http;
mod questions;
mod tls;

use std::sync::Arc;

use kube_scheduler_config::ExtenderConfig;
use kube_scheduler_runtime::{Extender, Extenders};

use self::http::HttpExtender;
use crate::kinds::Retention;
use crate::watchdog::Heartbeat;

pub use self::tls::ExtenderTlsError;

/// An extender that cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("couldn't build extenders: {0}")]
pub struct ExtenderError(#[from] ExtenderTlsError);

/// Extenders, and what of each object they need.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpExtenders {
    /// As the engine asks them.
    pub(crate) extenders: Extenders,
    /// Which pods have to be kept in full.
    pub(crate) pods: Retention,
    /// Which nodes have to be kept in full.
    pub(crate) nodes: Retention,
}

impl HttpExtenders {
    /// Creates the configured extenders. No request is sent yet. While the core thread waits for one, its heartbeat rests.
    ///
    /// # Errors
    /// If certificates and keys cannot be used.
    pub(crate) fn new(
        configs: &[ExtenderConfig],
        heartbeat: &Heartbeat,
    ) -> Result<Self, ExtenderError> {
        let mut extenders: Vec<Arc<dyn Extender>> = Vec::new();
        let (mut pods, mut nodes) = (Retention::Nothing, Retention::Nothing);
        for config in configs {
            tracing::debug!(extender = config.url_prefix, "Creating extender");
            extenders.push(Arc::new(HttpExtender::new(config, heartbeat.clone())?));
            let wants_objects = !config.node_cache_capable;
            let judges_nodes = !config.filter_verb.is_empty() || !config.prioritize_verb.is_empty();
            // Pods are shown when they are decided about; running ones only as victims.
            pods = pods.max(Retention::Pending);
            if wants_objects && judges_nodes {
                nodes = Retention::All;
            }
            if wants_objects && !config.preempt_verb.is_empty() {
                pods = Retention::All;
            }
        }
        Ok(Self { extenders: extenders.into_iter().collect(), pods, nodes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(change: impl FnOnce(&mut ExtenderConfig)) -> ExtenderConfig {
        let mut config =
            ExtenderConfig { url_prefix: "http://127.0.0.1:1".into(), ..Default::default() };
        change(&mut config);
        config
    }

    #[test]
    fn objects_are_kept_only_for_those_who_are_shown_them() {
        let kept = |configs: &[ExtenderConfig]| {
            let made = HttpExtenders::new(configs, &Heartbeat::default()).unwrap();
            (made.pods, made.nodes)
        };
        assert_eq!(kept(&[]), (Retention::Nothing, Retention::Nothing));
        let binder = config(|config| config.bind_verb = "bind".into());
        assert_eq!(kept(std::slice::from_ref(&binder)), (Retention::Pending, Retention::Nothing));
        let filter = config(|config| config.filter_verb = "filter".into());
        assert_eq!(kept(&[filter.clone(), binder.clone()]), (Retention::Pending, Retention::All));
        let knows_nodes =
            ExtenderConfig { node_cache_capable: true, preempt_verb: "p".into(), ..filter };
        assert_eq!(kept(&[knows_nodes]), (Retention::Pending, Retention::Nothing));
        let preempts = config(|config| config.preempt_verb = "preempt".into());
        assert_eq!(kept(&[preempts, binder]), (Retention::All, Retention::Nothing));
    }
}

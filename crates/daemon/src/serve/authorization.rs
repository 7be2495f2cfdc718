//! Who may see what: administrators, paths that are open to all, and whatever the API server allows.
//!
//! Invariants: what no rule allows is forbidden; a verdict that cannot be had is an error, never permission.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::authentication::delegate;
use super::error::ServeError;
use super::identity::User;
use super::options::AuthorizationOptions;
use super::review::{Reviewer, TtlCache};
use crate::metrics::{Delegated, Metrics};

/// The group that may do everything.
const MASTERS: &str = "system:masters";
/// How many verdicts are remembered.
const CAPACITY: usize = 8_192;
/// Longer questions are not remembered: anybody may ask for any path.
const MAX_REMEMBERED: usize = 512;
const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Decides about requests.
pub(crate) struct Authorizer {
    open: OpenPaths,
    /// `None` when there is no API server to ask.
    delegate: Option<Delegate>,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// With the reason, if one was given.
    Forbidden(String),
    /// The same, said outright and not for lack of a rule that allows it.
    Denied(String),
    /// There was no verdict, for this reason.
    Unknown(String),
}

impl Verdict {
    /// Its name in metrics.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Forbidden(_) => "no-opinion",
            Self::Denied(_) => "denied",
            Self::Unknown(_) => "error",
        }
    }
}

struct Delegate {
    reviewer: Reviewer,
    known: TtlCache<String, Status>,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
}

impl Authorizer {
    /// Finds out whom to ask.
    pub(crate) async fn new(
        options: &AuthorizationOptions,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, ServeError> {
        let open = OpenPaths::parse(&options.always_allow_paths)?;
        let endpoint = delegate("authorization", options.kubeconfig.as_deref()).await?;
        let delegate = match endpoint {
            Some(endpoint) => {
                let api = endpoint
                    .client("scheduler")
                    .map_err(|source| ServeError::Delegate { purpose: "authorization", source })?;
                Some(Delegate {
                    reviewer: Reviewer::new(api, Delegated::Authorization, metrics.clone()),
                    known: TtlCache::new(CAPACITY),
                    authorized_ttl: options.authorized_ttl,
                    unauthorized_ttl: options.unauthorized_ttl,
                })
            }
            None => {
                tracing::warn!(
                    "No authorization-kubeconfig provided, so SubjectAccessReview of authorization tokens won't work."
                );
                None
            }
        };
        Ok(Self { open, delegate })
    }

    /// Whether `user` may do `verb` with `path`.
    pub(crate) async fn decide(&self, user: &User, verb: &str, path: &str) -> Verdict {
        if user.groups.iter().any(|group| group == MASTERS) || self.open.has(path) {
            return Verdict::Allowed;
        }
        match &self.delegate {
            Some(delegate) => delegate.ask(user, verb, path).await,
            None => Verdict::Forbidden(String::new()),
        }
    }
}

impl Delegate {
    async fn ask(&self, user: &User, verb: &str, path: &str) -> Verdict {
        let spec = spec(user, verb, path);
        let key = spec.to_string();
        if let Some(known) = self.known.get(&key) {
            return known.verdict();
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": spec,
        });
        let answer: Answer = match self.reviewer.review(PATH, &review).await {
            Ok(answer) => answer,
            Err(problem) => {
                tracing::error!(err = %problem, "Failed to make webhook authorizer request");
                return Verdict::Unknown(problem);
            }
        };
        if verb.len() + path.len() < MAX_REMEMBERED {
            let is_allowed = answer.status.allowed;
            let ttl = if is_allowed { self.authorized_ttl } else { self.unauthorized_ttl };
            self.known.put(key, answer.status.clone(), ttl);
        }
        answer.status.verdict()
    }
}

fn spec(user: &User, verb: &str, path: &str) -> Value {
    let mut spec =
        json!({"nonResourceAttributes": {"path": path, "verb": verb}, "user": user.name});
    if !user.groups.is_empty() {
        spec["groups"] = json!(user.groups);
    }
    if !user.uid.is_empty() {
        spec["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        spec["extra"] = json!(user.extra);
    }
    spec
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    status: Status,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Status {
    allowed: bool,
    denied: bool,
    reason: String,
}

impl Status {
    fn verdict(&self) -> Verdict {
        match (self.allowed, self.denied) {
            (true, false) => Verdict::Allowed,
            (true, true) => Verdict::Unknown(
                "webhook subject access review returned both allow and deny response".to_owned(),
            ),
            (false, true) => Verdict::Denied(self.reason.clone()),
            (false, false) => Verdict::Forbidden(self.reason.clone()),
        }
    }
}

/// Paths that every client may see.
struct OpenPaths {
    exact: Vec<String>,
    prefixes: Vec<String>,
}

impl OpenPaths {
    fn parse(paths: &[String]) -> Result<Self, ServeError> {
        let mut open = Self { exact: Vec::new(), prefixes: Vec::new() };
        for path in paths {
            let bare = path.strip_prefix('/').unwrap_or(path);
            match bare.strip_suffix('*') {
                Some(prefix) if !prefix.contains('*') => open.prefixes.push(prefix.to_owned()),
                None if !bare.contains('*') => open.exact.push(bare.to_owned()),
                _ => {
                    let text = format!("only trailing * allowed in {bare:?}");
                    return Err(ServeError::Setting(text));
                }
            }
        }
        Ok(open)
    }

    fn has(&self, path: &str) -> bool {
        let bare = path.strip_prefix('/').unwrap_or(path);
        self.exact.iter().any(|open| open == bare)
            || self.prefixes.iter().any(|prefix| bare.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_paths_are_exact_unless_they_end_in_a_star() {
        let paths = ["/healthz", "metrics", "/debug/*"].map(str::to_owned);
        let open = OpenPaths::parse(&paths).unwrap();
        for (path, is_open) in [
            ("/healthz", true),
            ("/healthz/ping", false),
            ("/metrics", true),
            ("/metrics/slis", false),
            ("/debug/pprof/", true),
            ("/debug", false),
            ("//healthz", false),
        ] {
            assert_eq!(open.has(path), is_open, "{path}");
        }
        for bad in ["a*b", "a*/*"] {
            let error = OpenPaths::parse(&[format!("/{bad}")]).map(|_| ()).unwrap_err();
            assert_eq!(error.to_string(), format!("only trailing * allowed in {bad:?}"));
        }
        assert!(OpenPaths::parse(&["/*".to_owned()]).unwrap().has("/anything"));
    }
}

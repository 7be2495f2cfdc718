//! Who may see what: administrators, paths that are open to all, and whatever the API server allows.
//!
//! Invariants: what no rule allows is forbidden; a verdict that cannot be had is an error, never permission.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::authentication::delegate;
use super::error::ServeError;
use super::identity::User;
use super::options::AuthorizationOptions;
use super::review::{Payer, ReviewError, Reviewer, TtlCache};
use crate::metrics::{DelegatedReview, Metrics};

/// The group that may do everything.
const MASTERS: &str = "system:masters";
/// How many verdicts are remembered.
const CAPACITY: usize = 8_192;
/// Questions longer than this, in bytes, are not cached, because any caller may ask for any path.
const MAX_REMEMBERED: usize = 512;
const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Decides about requests.
pub(crate) struct Authorizer {
    open: OpenPaths,
    /// `None` when there is no API server to ask.
    delegate: Option<Delegate>,
}

/// What a caller wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attributes<'a> {
    /// Something with a page.
    Path {
        /// The method in small letters.
        verb: &'a str,
        path: &'a str,
    },
    /// Something with objects.
    Resource {
        verb: &'a str,
        group: &'a str,
        version: &'a str,
        resource: &'a str,
        /// Empty for all namespaces.
        namespace: &'a str,
    },
}

impl Attributes<'_> {
    /// How long it is, in bytes.
    const fn len(&self) -> usize {
        match self {
            Self::Path { verb, path } => verb.len() + path.len(),
            Self::Resource { resource, namespace, .. } => resource.len() + namespace.len(),
        }
    }
}

/// As in `User "jane" cannot …`.
impl fmt::Display for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { verb, path } => write!(f, "{verb} path {path:?}"),
            Self::Resource { verb, group, resource, namespace, .. } => {
                write!(f, "{verb} resource {resource:?} in API group {group:?}")?;
                match *namespace {
                    "" => f.write_str(" at the cluster scope"),
                    namespace => write!(f, " in the namespace {namespace:?}"),
                }
            }
        }
    }
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// With the reason, if one was given.
    Forbidden(String),
    /// Forbidden outright, and not for lack of a rule that allows it; with the reason, if one was given.
    Denied(String),
    /// There was no verdict, for this reason.
    Unknown(String),
    /// There was no slot to ask the API server.
    Busy,
}

impl Verdict {
    /// Its name in metrics.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Forbidden(_) => "no-opinion",
            Self::Denied(_) => "denied",
            Self::Unknown(_) | Self::Busy => "error",
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
    /// Looks up which API server to ask.
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
                    reviewer: Reviewer::new(api, DelegatedReview::Authorization, metrics.clone()),
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

    /// Whether `user`, who is at this address, may do that.
    pub(crate) async fn decide(
        &self,
        user: &User,
        address: IpAddr,
        wanted: Attributes<'_>,
    ) -> Verdict {
        let is_open = matches!(wanted, Attributes::Path { path, .. } if self.open.has(path));
        if is_open || user.groups.iter().any(|group| group == MASTERS) {
            return Verdict::Allowed;
        }
        match &self.delegate {
            Some(delegate) => delegate.ask(user, address, wanted).await,
            None => Verdict::Forbidden(String::new()),
        }
    }
}

impl Delegate {
    async fn ask(&self, user: &User, address: IpAddr, wanted: Attributes<'_>) -> Verdict {
        let spec = spec(user, wanted);
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
        let payer = Payer::of(user, address);
        let answer: Answer = match self.reviewer.review(&payer, PATH, &review).await {
            Ok(answer) => answer,
            // Not remembered: it says nothing about what the user may do.
            Err(problem) => {
                tracing::error!(err = %problem, "Failed to make webhook authorizer request");
                return match problem {
                    ReviewError::Busy => Verdict::Busy,
                    ReviewError::Failed(problem) => Verdict::Unknown(problem),
                };
            }
        };
        if wanted.len() < MAX_REMEMBERED {
            let is_allowed = answer.status.allowed;
            let ttl = if is_allowed { self.authorized_ttl } else { self.unauthorized_ttl };
            self.known.put(key, answer.status.clone(), ttl);
        }
        answer.status.verdict()
    }
}

fn spec(user: &User, wanted: Attributes<'_>) -> Value {
    let mut spec = match wanted {
        Attributes::Path { verb, path } => {
            json!({"nonResourceAttributes": {"path": path, "verb": verb}})
        }
        Attributes::Resource { verb, group, version, resource, namespace } => {
            let mut attributes = json!({"verb": verb, "version": version, "resource": resource});
            // Empty fields are left out, as the API's types do.
            for (field, value) in [("group", group), ("namespace", namespace)] {
                if !value.is_empty() {
                    attributes[field] = value.into();
                }
            }
            json!({"resourceAttributes": attributes})
        }
    };
    spec["user"] = json!(user.name);
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

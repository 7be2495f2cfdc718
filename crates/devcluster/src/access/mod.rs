//! Authentication and authorization: which user sends a request, and whether that user may.
//!
//! Invariants: without authentication every request counts as the administrator's; without authorization every request
//! is allowed; with authentication an unknown token is rejected, and a request without credentials is anonymous; every
//! request that authorization rejects is recorded.

mod action;
mod authority;
mod bootstrap;
mod impersonation;
mod policy;
mod subject;
mod tls;
mod user;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use http::{HeaderMap, header};
use kube_scheduler_api_types::lock;
use serde_json::Value;

use crate::kinds::KindId;
use crate::status::StatusError;
use crate::store::Store;
pub use action::Denial;
pub(crate) use action::{Action, Decision};
pub use authority::{Authority, CertificateError, Identity};
pub(crate) use bootstrap::{authentication_config, standing_policy};
use policy::Policy;
pub(crate) use tls::Tls;
pub use user::User;

/// How many rejected requests are remembered.
const DENIALS_KEPT: usize = 10_000;

/// Authentication and authorization of one server.
pub(crate) struct Access {
    tokens: Mutex<BTreeMap<String, User>>,
    authenticates: bool,
    authorizes: bool,
    policy: Mutex<Option<CachedPolicy>>,
    denied: Mutex<VecDeque<Denial>>,
}

/// The stored policy as it was read at a version of the store.
struct CachedPolicy {
    version: u64,
    policy: Arc<Policy>,
}

impl Access {
    pub(crate) fn new(
        tokens: BTreeMap<String, User>,
        authenticates: bool,
        authorizes: bool,
    ) -> Self {
        Self {
            tokens: Mutex::new(tokens),
            authenticates: authenticates || authorizes,
            authorizes,
            policy: Mutex::new(None),
            denied: Mutex::new(VecDeque::new()),
        }
    }

    pub(crate) fn add_token(&self, token: String, user: User) {
        lock(&self.tokens).insert(token, user);
    }

    /// The user a token belongs to. Without authentication every token is the administrator's.
    pub(crate) fn owner_of(&self, token: &str) -> Option<User> {
        if !self.authenticates {
            return Some(User::administrator().authenticated());
        }
        lock(&self.tokens).get(token).cloned().map(User::authenticated)
    }

    /// Which user sends a request: the subject of the connection's certificate, else the owner of the bearer token.
    ///
    /// # Errors
    /// Status 401 for a token that is unknown or not a bearer token.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        certified: Option<&User>,
    ) -> Result<User, StatusError> {
        if !self.authenticates {
            return Ok(User::administrator().authenticated());
        }
        if let Some(user) = certified {
            return Ok(user.clone().authenticated());
        }
        let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(User::anonymous()) };
        let token = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
        token
            .and_then(|token| self.owner_of(token.trim()))
            .ok_or_else(|| StatusError::with_code(401, "Unauthorized"))
    }

    /// Rejects what `user` may not do, and records the rejection.
    ///
    /// # Errors
    /// Status 403 if the policy does not allow `action`.
    pub(crate) fn authorize(
        &self,
        store: &Store,
        user: &User,
        action: &Action,
    ) -> Result<(), StatusError> {
        if self.decide(store, user, action).is_allowed {
            return Ok(());
        }
        tracing::warn!(user = %user.name, ?action, "denied");
        let mut denied = lock(&self.denied);
        if denied.len() == DENIALS_KEPT {
            denied.pop_front();
        }
        denied.push_back(Denial {
            user: user.clone(),
            verb: action.verb.clone(),
            resource: match (action.path.as_str(), action.group.as_str()) {
                ("", "") => action.full_resource(),
                ("", group) => format!("{}.{group}", action.full_resource()),
                (path, _) => path.to_owned(),
            },
            namespace: action.namespace.clone(),
            name: action.name.clone(),
        });
        Err(action.refusal(user))
    }

    /// Whether `user` may do something, and why.
    pub(crate) fn decide(&self, store: &Store, user: &User, action: &Action) -> Decision {
        if !self.authorizes {
            let reason = "everything is allowed here".to_owned();
            return Decision { is_allowed: true, reason };
        }
        // Administrators pass whatever the stored policy says, so that no change of it can lock them out.
        if user.groups.iter().any(|group| group == User::ADMINISTRATORS) {
            return Decision { is_allowed: true, reason: String::new() };
        }
        self.policy(store).decide(user, action)
    }

    /// The rules that apply to `user` in a namespace, as a rules review lists them: for resources, for other paths.
    pub(crate) fn rules(&self, store: &Store, user: &User, namespace: &str) -> (Value, Value) {
        if !self.authorizes || user.groups.iter().any(|group| group == User::ADMINISTRATORS) {
            return Policy::everything();
        }
        self.policy(store).rules(user, namespace)
    }

    /// The rejected requests so far, the oldest first.
    pub(crate) fn denied(&self) -> Vec<Denial> {
        lock(&self.denied).iter().cloned().collect()
    }

    /// The stored policy; parsed again only after one of its objects has changed.
    fn policy(&self, store: &Store) -> Arc<Policy> {
        let version = policy_kinds().map(|kind| *store.signal(kind).borrow()).max().unwrap_or(0);
        let mut cached = lock(&self.policy);
        match cached.as_ref() {
            Some(cached) if cached.version == version => cached.policy.clone(),
            _ => {
                let policy = Arc::new(store.read(Policy::read));
                *cached = Some(CachedPolicy { version, policy: policy.clone() });
                policy
            }
        }
    }
}

/// The kinds that make up the policy.
fn policy_kinds() -> impl Iterator<Item = KindId> {
    ["roles", "rolebindings", "clusterroles", "clusterrolebindings"]
        .into_iter()
        .filter_map(|plural| KindId::by_plural("rbac.authorization.k8s.io", "v1", plural))
}

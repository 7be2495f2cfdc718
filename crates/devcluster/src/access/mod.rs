//! Who a request comes from, and what it may do.
//!
//! Invariants: without authentication everyone is the administrator, and without authorization everyone may do
//! everything; with authentication a token that nobody was given is refused, and whoever brings no credentials is
//! anonymous; every refused request is noted.

mod authority;
mod bootstrap;
mod policy;
mod subject;
mod tls;
mod user;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, header};
use serde_json::Value;

use crate::kinds::KindId;
use crate::status::ApiError;
use crate::store::Store;
pub use authority::{Authority, CertificateError, Identity};
pub(crate) use bootstrap::{authentication_config, standing_policy};
use policy::Policy;
pub(crate) use tls::Tls;
pub use user::User;

/// How many refused requests are remembered.
const DENIALS_KEPT: usize = 10_000;

/// What somebody wants to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Action {
    pub(crate) verb: String,
    /// A path outside the resources; empty when a resource is meant.
    pub(crate) path: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Action {
    /// The resource as rules write it: `pods` or `pods/binding`.
    pub(crate) fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// The refusal in the API server's words.
    pub(crate) fn refusal(&self, user: &User) -> ApiError {
        let user = &user.name;
        if !self.path.is_empty() {
            let why = format!("forbidden: User {user:?} cannot {} path {:?}", self.verb, self.path);
            return ApiError::with_code(403, why);
        }
        let scope = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", self.namespace)
        };
        let why = format!(
            "User {user:?} cannot {} resource {:?} in API group {:?} {scope}",
            self.verb,
            self.full_resource(),
            self.group,
        );
        ApiError::access_denied(&self.group, &self.resource, &self.name, &why)
    }
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denial {
    /// Who asked.
    pub user: User,
    /// The verb, such as `list`; for a path outside the resources the method in lower case.
    pub verb: String,
    /// The resource with its group, such as `pods/binding` or `leases.coordination.k8s.io`, or the path.
    pub resource: String,
    /// Empty for cluster-scoped requests.
    pub namespace: String,
    /// Empty when no single object was asked for.
    pub name: String,
}

/// The answer to "may this be done?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) is_allowed: bool,
    pub(crate) reason: String,
}

/// Authentication and authorization of one server.
pub(crate) struct Access {
    tokens: Mutex<BTreeMap<String, User>>,
    authenticates: bool,
    authorizes: bool,
    policy: Mutex<Option<(u64, Arc<Policy>)>>,
    denied: Mutex<VecDeque<Denial>>,
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

    /// Whose token it is. Without authentication every token is the administrator's.
    pub(crate) fn owner_of(&self, token: &str) -> Option<User> {
        if !self.authenticates {
            return Some(User::administrator().authenticated());
        }
        lock(&self.tokens).get(token).cloned().map(User::authenticated)
    }

    /// Who sends a request: the subject of the connection's certificate, else the owner of the token.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        certified: Option<&User>,
    ) -> Result<User, ApiError> {
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
            .ok_or_else(|| ApiError::with_code(401, "Unauthorized"))
    }

    /// Refuses what `user` may not do, and notes it.
    pub(crate) fn authorize(
        &self,
        store: &Store,
        user: &User,
        action: &Action,
    ) -> Result<(), ApiError> {
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
        // The administrators' group passes whatever the stored policy says, so that nobody can lock himself out.
        if user.groups.iter().any(|group| group == User::ADMINISTRATORS) {
            return Decision { is_allowed: true, reason: String::new() };
        }
        self.policy(store).decide(user, action)
    }

    /// The rules that hold for `user` in a namespace, as a rules review tells them.
    pub(crate) fn rules(&self, store: &Store, user: &User, namespace: &str) -> (Value, Value) {
        if !self.authorizes || user.groups.iter().any(|group| group == User::ADMINISTRATORS) {
            return Policy::everything();
        }
        self.policy(store).rules(user, namespace)
    }

    /// The refused requests so far, the oldest first.
    pub(crate) fn denied(&self) -> Vec<Denial> {
        lock(&self.denied).iter().cloned().collect()
    }

    /// The stored policy, read anew when an object of it has changed.
    fn policy(&self, store: &Store) -> Arc<Policy> {
        let version = policy_kinds().map(|kind| *store.signal(kind).borrow()).max().unwrap_or(0);
        let mut cached = lock(&self.policy);
        match cached.as_ref() {
            Some((read_at, policy)) if *read_at == version => policy.clone(),
            _ => {
                let policy = Arc::new(store.read(Policy::read));
                *cached = Some((version, policy.clone()));
                policy
            }
        }
    }
}

/// The kinds that make the policy.
fn policy_kinds() -> impl Iterator<Item = KindId> {
    ["roles", "rolebindings", "clusterroles", "clusterrolebindings"]
        .into_iter()
        .filter_map(|plural| KindId::by_plural("rbac.authorization.k8s.io", "v1", plural))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

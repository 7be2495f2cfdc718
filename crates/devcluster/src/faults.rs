//! Fault injection.
//!
//! Rules are tried in order for every API request. Latencies of all rules that fire add up; the first rule with another
//! effect that fires determines the effect. Invariant: which requests are affected depends on the seed, the rules and the
//! order of requests only.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use kube_scheduler_api_types::lock;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::kinds::{Kind, KindId};
use crate::rng::SplitMix;

/// Which requests are affected, how often, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultRule {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// `pods`, `pods/binding`, `deployments.apps`; empty means all. Without a subresource only the object itself is
    /// meant; `pods/*` means the object and all its subresources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// If set, only requests for the object of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The share of matching requests that are affected, 0 to 1.
    #[serde(default = "always")]
    pub probability: f64,
    /// How many matching requests pass before the rule takes effect.
    #[serde(default)]
    pub skip: u64,
    /// How many requests are affected at most; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// What happens to them.
    pub effect: FaultEffect,
}

/// What a fault does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
#[non_exhaustive]
pub enum FaultEffect {
    /// The request waits before it is handled.
    Latency {
        /// The shortest wait, in milliseconds.
        millis: u64,
        /// The longest additional wait, in milliseconds; uniformly distributed.
        #[serde(default)]
        jitter_millis: u64,
    },
    /// The request is rejected with this status and not carried out.
    Error {
        /// HTTP status, 400 to 599.
        code: u16,
        /// If set, sent as header `Retry-After`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_seconds: Option<u64>,
    },
    /// The connection is closed, and the request not carried out.
    Reset,
    /// The request is carried out, then the connection is closed without a response.
    ResetAfter,
    /// The request is not carried out; the response has status 200 and a body that is not JSON.
    Garbage,
    /// The request is carried out, and the connection closed in the middle of the response body.
    Truncate {
        /// How many bytes of the body are sent.
        after_bytes: u64,
    },
    /// A watch starts and stays silent: no events, no bookmarks.
    Silence,
    /// A watch ends after some events.
    CloseWatch {
        /// How many events are sent.
        #[serde(default)]
        after_events: u64,
    },
}

impl FaultRule {
    /// A rule that affects every request.
    pub fn new(effect: FaultEffect) -> Self {
        Self {
            verbs: Vec::new(),
            resources: Vec::new(),
            name: None,
            probability: 1.0,
            skip: 0,
            count: None,
            effect,
        }
    }

    /// Restricts the rule to this verb; several calls allow several verbs.
    pub fn verb(mut self, verb: &str) -> Self {
        self.verbs.push(verb.to_owned());
        self
    }

    /// Restricts the rule to this resource; several calls allow several resources.
    pub fn resource(mut self, resource: &str) -> Self {
        self.resources.push(resource.to_owned());
        self
    }

    /// Restricts the rule to the next `count` matching requests.
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Restricts the rule to this share of matching requests, 0 to 1.
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    fn check(&self) -> Result<(), FaultError> {
        const VERBS: [&str; 8] =
            ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
        if let Some(verb) = self.verbs.iter().find(|verb| !VERBS.contains(&verb.as_str())) {
            return Err(FaultError::Verb(verb.clone()));
        }
        for resource in &self.resources {
            if KindId::by_name(resource.split('/').next().unwrap_or_default()).is_none() {
                return Err(FaultError::Resource(resource.clone()));
            }
        }
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(FaultError::Probability(self.probability));
        }
        if let FaultEffect::Error { code, .. } = self.effect
            && !(400..600).contains(&code)
        {
            return Err(FaultError::Code(code));
        }
        Ok(())
    }

    fn matches(&self, request: &FaultTarget<'_>) -> bool {
        let of_resource = |resource: &String| {
            let (base, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let named = base == request.kind.plural || base == request.kind.qualified_plural();
            named && (subresource == "*" || subresource == request.subresource)
        };
        (self.verbs.is_empty() || self.verbs.iter().any(|verb| verb == request.verb))
            && (self.resources.is_empty() || self.resources.iter().any(of_resource))
            && self.name.as_deref().is_none_or(|name| name == request.name)
    }
}

/// Why a rule is rejected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// There is no such verb.
    #[error(
        "fault rule: unknown verb {0:?}; allowed are get, list, watch, create, update, patch, delete, deletecollection"
    )]
    Verb(String),
    /// The resource is not served.
    #[error(
        "fault rule: unknown resource {0:?}; a plural such as pods, pods/binding or deployments.apps is expected"
    )]
    Resource(String),
    /// The probability is out of range.
    #[error("fault rule: probability {0} is not between 0 and 1")]
    Probability(f64),
    /// The code is not that of an error.
    #[error("fault rule: code {0} is not between 400 and 599")]
    Code(u16),
}

/// The request that rules are matched against.
pub(crate) struct FaultTarget<'r> {
    pub(crate) verb: &'r str,
    pub(crate) kind: &'r Kind,
    pub(crate) subresource: &'r str,
    pub(crate) name: &'r str,
}

/// What all rules together do to a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) delay: Duration,
    pub(crate) effect: Option<FaultEffect>,
}

/// The faults that a server injects.
pub struct Faults {
    state: Mutex<FaultState>,
    /// One per kind: every value that is sent ends the watches of the kind; `true` ends them abruptly.
    drops: Box<[watch::Sender<bool>]>,
}

struct FaultState {
    rng: SplitMix,
    rules: Vec<ActiveRule>,
    injected: u64,
}

struct ActiveRule {
    rule: FaultRule,
    to_skip: u64,
    left: Option<u64>,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        let state = FaultState { rng: SplitMix::new(seed), rules: Vec::new(), injected: 0 };
        Self {
            state: Mutex::new(state),
            drops: KindId::all().map(|_| watch::Sender::new(false)).collect(),
        }
    }

    /// Adds a rule after the existing ones.
    ///
    /// # Errors
    /// If the rule is invalid.
    pub fn add(&self, rule: FaultRule) -> Result<(), FaultError> {
        rule.check()?;
        self.lock().rules.push(ActiveRule::new(rule));
        Ok(())
    }

    /// Replaces all rules, and restarts the random numbers if a seed is given.
    ///
    /// # Errors
    /// If a rule is invalid; then nothing is changed.
    pub fn replace(&self, rules: Vec<FaultRule>, seed: Option<u64>) -> Result<(), FaultError> {
        rules.iter().try_for_each(FaultRule::check)?;
        let mut state = self.lock();
        state.rules = rules.into_iter().map(ActiveRule::new).collect();
        if let Some(seed) = seed {
            state.rng = SplitMix::new(seed);
        }
        Ok(())
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// The current rules, exhausted ones included; `count` is what is left.
    pub fn rules(&self) -> Vec<FaultRule> {
        let state = self.lock();
        state
            .rules
            .iter()
            .map(|active| FaultRule { count: active.left, ..active.rule.clone() })
            .collect()
    }

    /// How many requests have been affected so far; a request counts once per rule that fired.
    pub fn injected(&self) -> u64 {
        self.lock().injected
    }

    /// Ends the running watches of `kind`, or of all kinds: cleanly, or with `abrupt` by closing the connection in the
    /// middle of the stream.
    pub fn drop_watches(&self, kind: Option<KindId>, abrupt: bool) {
        for (id, order) in KindId::all().zip(&self.drops) {
            if kind.is_none_or(|kind| kind.storage() == id.storage()) {
                order.send_replace(abrupt);
            }
        }
    }

    /// Changes when the watches of `kind` have to end; the value says whether abruptly.
    pub(crate) fn watch_drops(&self, kind: KindId) -> watch::Receiver<bool> {
        match self.drops.get(kind.index()) {
            Some(order) => order.subscribe(),
            None => watch::channel(false).1,
        }
    }

    /// Decides what happens to a request.
    pub(crate) fn judge(&self, target: &FaultTarget<'_>) -> Verdict {
        let mut state = self.lock();
        let FaultState { rng, rules, injected } = &mut *state;
        let mut verdict = Verdict::default();
        for active in rules.iter_mut().filter(|active| active.rule.matches(target)) {
            let is_of_watches =
                matches!(active.rule.effect, FaultEffect::CloseWatch { .. } | FaultEffect::Silence);
            if (is_of_watches && target.verb != "watch") || !active.fires(rng) {
                continue;
            }
            *injected += 1;
            match &active.rule.effect {
                FaultEffect::Latency { millis, jitter_millis } => {
                    let jitter = (rng.next_f64() * *jitter_millis as f64) as u64;
                    verdict.delay += Duration::from_millis(millis.saturating_add(jitter));
                }
                other => {
                    verdict.effect = Some(other.clone());
                    break;
                }
            }
        }
        verdict
    }

    fn lock(&self) -> MutexGuard<'_, FaultState> {
        lock(&self.state)
    }
}

impl ActiveRule {
    fn new(rule: FaultRule) -> Self {
        Self { to_skip: rule.skip, left: rule.count, rule }
    }

    fn fires(&mut self, rng: &mut SplitMix) -> bool {
        if self.left == Some(0) {
            return false;
        }
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return false;
        }
        if self.rule.probability < 1.0 && rng.next_f64() >= self.rule.probability {
            return false;
        }
        self.left = self.left.map(|left| left - 1);
        true
    }
}

fn always() -> f64 {
    1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::PODS;

    fn hits(faults: &Faults, n: usize) -> Vec<bool> {
        let target =
            FaultTarget { verb: "create", kind: PODS.get(), subresource: "binding", name: "a" };
        (0..n).map(|_| faults.judge(&target).effect.is_some()).collect()
    }

    #[test]
    fn count_and_skip_bound_a_rule() {
        let faults = Faults::new(1);
        let rule = FaultRule {
            skip: 2,
            ..FaultRule::new(FaultEffect::Reset).resource("pods/binding").count(3)
        };
        faults.add(rule).expect("valid");
        assert_eq!(hits(&faults, 7), [false, false, true, true, true, false, false]);
        assert_eq!(faults.injected(), 3);
    }

    #[test]
    fn probability_follows_the_seed() {
        let rule = FaultRule::new(FaultEffect::Reset).probability(0.5);
        let run = |seed| {
            let faults = Faults::new(seed);
            faults.add(rule.clone()).expect("valid");
            hits(&faults, 64)
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        let hit = run(7).iter().filter(|hit| **hit).count();
        assert!((16..48).contains(&hit), "{hit}");
    }

    #[test]
    fn a_resource_does_not_include_its_subresources() {
        let faults = Faults::new(1);
        faults.add(FaultRule::new(FaultEffect::Reset).resource("pods")).expect("valid");
        assert_eq!(hits(&faults, 1), [false]);
        faults.add(FaultRule::new(FaultEffect::Reset).resource("pods/*")).expect("valid");
        assert_eq!(hits(&faults, 1), [true]);
    }

    #[test]
    fn invalid_rules_are_rejected() {
        let faults = Faults::new(1);
        assert!(faults.add(FaultRule::new(FaultEffect::Reset).verb("push")).is_err());
        assert!(faults.add(FaultRule::new(FaultEffect::Reset).resource("sheep")).is_err());
        assert!(faults.add(FaultRule::new(FaultEffect::Reset).probability(2.0)).is_err());
        assert!(
            faults
                .add(FaultRule::new(FaultEffect::Error { code: 200, retry_after_seconds: None }))
                .is_err()
        );
    }
}

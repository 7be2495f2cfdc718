//! Faults on demand.
//!
//! Rules are looked at in order for every API request. Latencies add up; the first rule with another effect that fires
//! decides. Invariant: which requests are hit depends on the seed, the rules and the order of requests only.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::kinds::{Kind, KindId};
use crate::rng::SplitMix;

/// Which requests are hit, how often, and by what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultRule {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// `pods`, `pods/binding`, `deployments.apps`; empty means all. Without a subresource it means the object itself;
    /// `pods/*` means the object and all its subresources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Only requests for the object of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The share of matching requests that are hit, 0 to 1.
    #[serde(default = "always")]
    pub probability: f64,
    /// How many matching requests pass before the rule begins.
    #[serde(default)]
    pub skip: u64,
    /// How many requests are hit at most; without it there is no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// What happens to them.
    pub effect: Effect,
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
pub enum Effect {
    /// The request waits before it is looked at.
    Latency {
        /// The least wait.
        millis: u64,
        /// Up to this much more, evenly spread.
        #[serde(default)]
        jitter_millis: u64,
    },
    /// The request is refused with this status and not carried out.
    Error {
        /// HTTP status, 400 to 599.
        code: u16,
        /// Sent as `Retry-After`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_seconds: Option<u64>,
    },
    /// The connection is closed, nothing is carried out.
    Reset,
    /// The request is carried out, then the connection is closed without an answer.
    ResetAfter,
    /// The request is not carried out; the answer looks like success and makes no sense.
    Garbage,
    /// The request is carried out, and the connection closed after so many bytes of the answer.
    Truncate {
        /// Bytes that still come through.
        after_bytes: u64,
    },
    /// A watch begins and stays silent: no events, no bookmarks.
    Silence,
    /// A watch ends by itself after so many events.
    CloseWatch {
        /// Events that still come through.
        #[serde(default)]
        after_events: u64,
    },
}

impl FaultRule {
    /// A rule that hits every request.
    pub fn new(effect: Effect) -> Self {
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

    /// Only this verb; may be repeated.
    pub fn verb(mut self, verb: &str) -> Self {
        self.verbs.push(verb.to_owned());
        self
    }

    /// Only this resource; may be repeated.
    pub fn resource(mut self, resource: &str) -> Self {
        self.resources.push(resource.to_owned());
        self
    }

    /// Only the next `count` matching requests.
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Only this share of matching requests.
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
        if let Effect::Error { code, .. } = self.effect
            && !(400..600).contains(&code)
        {
            return Err(FaultError::Code(code));
        }
        Ok(())
    }

    fn concerns(&self, request: &Asked<'_>) -> bool {
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

/// Why a rule is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// The verb does not exist.
    #[error(
        "fault rule: unknown verb {0:?}; allowed are get, list, watch, create, update, patch, delete, deletecollection"
    )]
    Verb(String),
    /// The resource is not served.
    #[error(
        "fault rule: unknown resource {0:?}; a plural such as pods, pods/binding or deployments.apps is expected"
    )]
    Resource(String),
    /// The probability is not one.
    #[error("fault rule: probability {0} is not between 0 and 1")]
    Probability(f64),
    /// The code is no error.
    #[error("fault rule: code {0} is not between 400 and 599")]
    Code(u16),
}

/// What a rule is asked about.
pub(crate) struct Asked<'r> {
    pub(crate) verb: &'r str,
    pub(crate) kind: &'r Kind,
    pub(crate) subresource: &'r str,
    pub(crate) name: &'r str,
}

/// What is to be done to a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) delay: Duration,
    pub(crate) effect: Option<Effect>,
}

/// The faults of one server.
pub struct Faults {
    state: Mutex<FaultState>,
    /// One per kind: a change ends its watches, abruptly when it says so.
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

    /// Adds a rule behind those there are.
    pub fn add(&self, rule: FaultRule) -> Result<(), FaultError> {
        rule.check()?;
        self.lock().rules.push(ActiveRule::new(rule));
        Ok(())
    }

    /// Replaces all rules, and starts the random choices anew when a seed is given.
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

    /// The rules in force; used-up ones included, with what is left of their counts.
    pub fn rules(&self) -> Vec<FaultRule> {
        let state = self.lock();
        state
            .rules
            .iter()
            .map(|active| FaultRule { count: active.left, ..active.rule.clone() })
            .collect()
    }

    /// How many requests were hit so far.
    pub fn injected(&self) -> u64 {
        self.lock().injected
    }

    /// Ends the running watches of `kind`, or all: cleanly, or `abrupt`ly in the middle of the stream.
    pub fn drop_watches(&self, kind: Option<KindId>, abrupt: bool) {
        for (id, order) in KindId::all().zip(&self.drops) {
            if kind.is_none_or(|kind| kind.storage() == id.storage()) {
                order.send_replace(abrupt);
            }
        }
    }

    /// Changes when the watches of `kind` are to end.
    pub(crate) fn watch_drops(&self, kind: KindId) -> watch::Receiver<bool> {
        match self.drops.get(kind.index()) {
            Some(order) => order.subscribe(),
            None => watch::channel(false).1,
        }
    }

    pub(crate) fn judge(&self, asked: &Asked<'_>) -> Verdict {
        let mut state = self.lock();
        let FaultState { rng, rules, injected } = &mut *state;
        let mut verdict = Verdict::default();
        for active in rules.iter_mut().filter(|active| active.rule.concerns(asked)) {
            let is_of_watches =
                matches!(active.rule.effect, Effect::CloseWatch { .. } | Effect::Silence);
            if (is_of_watches && asked.verb != "watch") || !active.fires(rng) {
                continue;
            }
            *injected += 1;
            match &active.rule.effect {
                Effect::Latency { millis, jitter_millis } => {
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let asked = Asked { verb: "create", kind: PODS.get(), subresource: "binding", name: "a" };
        (0..n).map(|_| faults.judge(&asked).effect.is_some()).collect()
    }

    #[test]
    fn count_and_skip_bound_a_rule() {
        let faults = Faults::new(1);
        let rule = FaultRule {
            skip: 2,
            ..FaultRule::new(Effect::Reset).resource("pods/binding").count(3)
        };
        faults.add(rule).expect("valid");
        assert_eq!(hits(&faults, 7), [false, false, true, true, true, false, false]);
        assert_eq!(faults.injected(), 3);
    }

    #[test]
    fn probability_follows_the_seed() {
        let rule = FaultRule::new(Effect::Reset).probability(0.5);
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
    fn resources_are_told_apart_from_their_subresources() {
        let faults = Faults::new(1);
        faults.add(FaultRule::new(Effect::Reset).resource("pods")).expect("valid");
        assert_eq!(hits(&faults, 1), [false]);
        faults.add(FaultRule::new(Effect::Reset).resource("pods/*")).expect("valid");
        assert_eq!(hits(&faults, 1), [true]);
    }

    #[test]
    fn nonsense_is_refused() {
        let faults = Faults::new(1);
        assert!(faults.add(FaultRule::new(Effect::Reset).verb("push")).is_err());
        assert!(faults.add(FaultRule::new(Effect::Reset).resource("sheep")).is_err());
        assert!(faults.add(FaultRule::new(Effect::Reset).probability(2.0)).is_err());
        assert!(
            faults
                .add(FaultRule::new(Effect::Error { code: 200, retry_after_seconds: None }))
                .is_err()
        );
    }
}

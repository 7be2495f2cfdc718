//! The static side of a queue: its settings, the profiles, their gates and the events their plugins registered for.
//!
//! Answers to `buildQueueingHintMap` of the reference. Built once; what grows later are names of plugins and schedulers that
//! were not mentioned at construction, and the cache of resolved events.
//!
//! Invariant: the rejector that an event may help is always in [`ResolvedEvent::plugins`] of that event, whatever the
//! profile.

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_primitives::KeyedMap;
use rustc_hash::FxHashMap;

use crate::action::ActionType;
use crate::event::{ClusterEvent, EventLabel, EventResource};
use crate::rejectors::{PluginNames, RejectorId, RejectorSet};

/// The pseudo-plugin that stands for all extenders in rejector sets.
pub const EXTENDER_PLUGIN: &str = "Extender";

/// Settings of a queue: how long pods wait, and what is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Backoff after the first failure; doubled with every further one. Default 1 s.
    pub initial_backoff: Duration,
    /// The longest backoff; zero switches backoff off. Default 10 s.
    pub max_backoff: Duration,
    /// How long a pod may stay with the unschedulable pods without any event. Default 5 min.
    pub max_in_unschedulable: Duration,
    /// Whether pods in backoff are tried early when nothing else is ready. Default true. Feature `SchedulerPopFromBackoffQ`.
    pub pop_from_backoff: bool,
    /// Whether that goes for members of groups, too. Default false: they return to backoff without waiting for any event, so
    /// a group that does not fit would be tried again and again without a pause (`docs/spec/podgroups.md` §3).
    pub hurries_groups: bool,
    /// Whether it matters which event happens to a pod. Default true. Without, any event during a failed attempt is worth
    /// another one, and so is any scheduling-relevant update of an unschedulable pod itself; registrations should have no
    /// hints then. Feature `SchedulerQueueingHints`.
    pub uses_hints: bool,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            max_in_unschedulable: Duration::from_secs(300),
            pop_from_backoff: true,
            hurries_groups: false,
            uses_hints: true,
        }
    }
}

/// A profile's number: its place in the list given at construction. Scheduler names without a profile get higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileId(u16);

impl ProfileId {
    /// The profile at this place in the list. All places from 65,535 on share the last number.
    pub fn from_index(index: usize) -> Self {
        Self(u16::try_from(index).unwrap_or(u16::MAX))
    }

    /// The number as an index into the list of profiles.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a queueing hint. The owner of the queue chooses it at registration and gets it back in
/// [`QueuePolicy::hint`](crate::QueuePolicy::hint).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HintId(pub u32);

/// One profile: its PreEnqueue plugins and the events that its plugins register for.
///
/// Only plugins that can reject pods belong here (PreEnqueue, PreFilter, Filter, Reserve, Permit). The same plugin
/// name in two profiles is one plugin with two lists.
#[derive(Clone, Debug, Default)]
pub struct ProfileSpec {
    scheduler_name: String,
    gates: Vec<String>,
    registrations: Vec<(String, ClusterEvent, Option<HintId>)>,
}

impl ProfileSpec {
    /// A profile of this scheduler name, without plugins.
    pub fn new(scheduler_name: impl Into<String>) -> Self {
        Self { scheduler_name: scheduler_name.into(), ..Self::default() }
    }

    /// Adds a PreEnqueue plugin; they run in the order given.
    #[must_use]
    pub fn with_pre_enqueue(mut self, plugin: impl Into<String>) -> Self {
        self.gates.push(plugin.into());
        self
    }

    /// Registers `plugin` for events, each with the hint that decides whether it helps a pod; an event without a hint always
    /// does. With an empty list, pods that only this plugin rejected wait for the time-out.
    ///
    /// A plugin that registers for new nodes is registered for changed taints too: a node may be tainted when it is added,
    /// and become usable when the taint is removed.
    #[must_use]
    pub fn with_events<I>(mut self, plugin: &str, events: I) -> Self
    where
        I: IntoIterator<Item = (ClusterEvent, Option<HintId>)>,
    {
        let mut includes_new_nodes = false;
        let mut includes_taints = false;
        for (event, hint) in events {
            if *event.resource() == EventResource::Node {
                includes_new_nodes |= event.action().contains(ActionType::ADD);
                includes_taints |= event.action().contains(ActionType::UPDATE_NODE_TAINT);
            }
            self.registrations.push((plugin.to_owned(), event, hint));
        }
        if includes_new_nodes && !includes_taints {
            let taint = ClusterEvent::new(EventResource::Node, ActionType::UPDATE_NODE_TAINT);
            self.registrations.push((plugin.to_owned(), taint, None));
        }
        self
    }

    /// Registers `plugin` for [all events](ClusterEvent::catch_all), as is done for plugins that register for nothing
    /// themselves. `with_pod_groups` adds events about pod groups.
    #[must_use]
    pub fn with_catch_all(self, plugin: &str, with_pod_groups: bool) -> Self {
        self.with_events(
            plugin,
            ClusterEvent::catch_all(with_pod_groups).into_iter().map(|event| (event, None)),
        )
    }

    /// Registers the pseudo-plugin [`EXTENDER_PLUGIN`]; for every profile if there is any extender.
    #[must_use]
    pub fn with_extenders(self, with_pod_groups: bool) -> Self {
        self.with_catch_all(EXTENDER_PLUGIN, with_pod_groups)
    }

    /// The name by which pods choose the profile (`spec.schedulerName`).
    pub fn scheduler_name(&self) -> &str {
        &self.scheduler_name
    }

    /// Plugin, event and hint of every registration, the implied ones included.
    pub fn registrations(&self) -> impl Iterator<Item = (&str, &ClusterEvent, Option<HintId>)> {
        self.registrations.iter().map(|(plugin, event, hint)| (plugin.as_str(), event, *hint))
    }
}

/// A resolved event's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedId(u32);

/// The registrations that an incoming event satisfies.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedEvent {
    pub(crate) label: EventLabel,
    pub(crate) is_wildcard: bool,
    /// Plugins with a matching registration in any profile.
    pub(crate) plugins: RejectorSet,
    /// The matching registrations of every profile, in order of registration.
    pub(crate) by_profile: Vec<Vec<(RejectorId, Option<HintId>)>>,
}

impl ResolvedEvent {
    fn new(label: EventLabel, is_wildcard: bool) -> Self {
        Self { label, is_wildcard, plugins: RejectorSet::default(), by_profile: Vec::new() }
    }

    pub(crate) fn is_of_interest(&self) -> bool {
        self.is_wildcard || !self.plugins.is_empty()
    }
}

#[derive(Clone, Debug, Default)]
struct Profile {
    gates: Vec<RejectorId>,
    registrations: Vec<(RejectorId, ClusterEvent, Option<HintId>)>,
    /// The hints among these, by the number of their plugin.
    hints: Vec<Vec<HintId>>,
}

impl Profile {
    fn new(
        gates: Vec<RejectorId>,
        registrations: Vec<(RejectorId, ClusterEvent, Option<HintId>)>,
    ) -> Self {
        let mut hints: Vec<Vec<HintId>> = Vec::new();
        for (plugin, _, hint) in &registrations {
            if hints.len() <= plugin.index() {
                hints.resize_with(plugin.index() + 1, Vec::new);
            }
            hints[plugin.index()].extend(hint);
        }
        Self { gates, registrations, hints }
    }
}

/// All profiles, and what the queue learned about names and events.
#[derive(Clone, Debug)]
pub(crate) struct Profiles {
    pub(crate) plugins: PluginNames,
    scheduler_names: Vec<Arc<str>>,
    ids: KeyedMap<Arc<str>, ProfileId>,
    profiles: Vec<Profile>,
    resolved: Vec<ResolvedEvent>,
    unresolved: ResolvedEvent,
    resolved_ids: FxHashMap<(EventResource, ActionType), ResolvedId>,
}

impl Profiles {
    /// Of two profiles with the same scheduler name the first counts.
    pub(crate) fn new(specs: Vec<ProfileSpec>) -> Self {
        let mut all = Self {
            plugins: PluginNames::default(),
            scheduler_names: Vec::new(),
            ids: KeyedMap::default(),
            profiles: Vec::new(),
            resolved: Vec::new(),
            unresolved: ResolvedEvent::new(EventLabel::Named(""), false),
            resolved_ids: FxHashMap::default(),
        };
        for spec in specs {
            if all.ids.contains_key(spec.scheduler_name.as_str()) {
                continue;
            }
            all.intern(&spec.scheduler_name);
            let gates = spec.gates.iter().map(|plugin| all.plugins.intern(plugin)).collect();
            let registrations = spec
                .registrations
                .into_iter()
                .map(|(plugin, event, hint)| (all.plugins.intern(&plugin), event, hint))
                .collect();
            all.profiles.push(Profile::new(gates, registrations));
        }
        all
    }

    /// The number of a scheduler name, with or without a profile.
    pub(crate) fn intern(&mut self, scheduler_name: &str) -> ProfileId {
        if let Some(&id) = self.ids.get(scheduler_name) {
            return id;
        }
        let Some(id) = u16::try_from(self.scheduler_names.len()).ok().map(ProfileId) else {
            return ProfileId(u16::MAX);
        };
        let name: Arc<str> = scheduler_name.into();
        self.scheduler_names.push(name.clone());
        self.ids.insert(name, id);
        id
    }

    pub(crate) fn name(&self, profile: ProfileId) -> &str {
        self.scheduler_names.get(profile.index()).map_or("", |name| name)
    }

    /// Whether there is a profile of this number, and not only a name.
    pub(crate) fn is_known(&self, profile: ProfileId) -> bool {
        profile.index() < self.profiles.len()
    }

    pub(crate) fn gates(&self, profile: ProfileId) -> &[RejectorId] {
        self.profiles.get(profile.index()).map_or(&[], |profile| &profile.gates)
    }

    /// The hints that a plugin registered in a profile. They are asked for whenever a pod is parked, so that no search through
    /// all registrations is made.
    pub(crate) fn hints(&self, profile: ProfileId, plugin: RejectorId) -> &[HintId] {
        let profile = self.profiles.get(profile.index());
        profile.and_then(|profile| profile.hints.get(plugin.index())).map_or(&[], Vec::as_slice)
    }

    /// The registrations that `event` satisfies. Cached, since the same few events come in again and again.
    pub(crate) fn resolve(&mut self, event: &ClusterEvent) -> ResolvedId {
        let key = (event.resource().clone(), event.action());
        if let Some(&id) = self.resolved_ids.get(&key) {
            return id;
        }
        let mut resolved = ResolvedEvent::new(event.label(), event.is_wildcard());
        for profile in &self.profiles {
            let matching: Vec<_> = profile
                .registrations
                .iter()
                .filter(|(_, registered, _)| registered.matches(event))
                .map(|&(plugin, _, hint)| (plugin, hint))
                .collect();
            resolved.plugins.extend(matching.iter().map(|&(plugin, _)| plugin));
            resolved.by_profile.push(matching);
        }
        let id = ResolvedId(u32::try_from(self.resolved.len()).unwrap_or(u32::MAX));
        self.resolved.push(resolved);
        self.resolved_ids.insert(key, id);
        id
    }

    pub(crate) fn resolved(&self, id: ResolvedId) -> &ResolvedEvent {
        self.resolved.get(id.0 as usize).unwrap_or(&self.unresolved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(action: ActionType) -> ClusterEvent {
        ClusterEvent::new(EventResource::Node, action)
    }

    fn labels(spec: &ProfileSpec) -> Vec<String> {
        spec.registrations()
            .map(|(plugin, event, _)| format!("{plugin}:{}", event.action().bits()))
            .collect()
    }

    #[test]
    fn a_registration_for_new_nodes_includes_taints() {
        let spec =
            ProfileSpec::new("s").with_events("Name", [(node(ActionType::ADD), Some(HintId(1)))]);
        assert_eq!(labels(&spec), ["Name:1", "Name:16"]);
        let spec = ProfileSpec::new("s")
            .with_events("Taint", [(node(ActionType::ADD | ActionType::UPDATE_NODE_TAINT), None)])
            .with_events("Label", [(node(ActionType::UPDATE_NODE_LABEL), None)])
            .with_events(
                "Both",
                [(node(ActionType::ADD), None), (node(ActionType::UPDATE_NODE_TAINT), None)],
            );
        assert_eq!(labels(&spec), ["Taint:17", "Label:8", "Both:1", "Both:16"]);
    }

    #[test]
    fn interest_is_of_any_profile_and_hints_are_of_one() {
        let mut profiles = Profiles::new(vec![
            ProfileSpec::new("a").with_events("Fit", [(node(ActionType::DELETE), Some(HintId(1)))]),
            ProfileSpec::new("b")
                .with_events("Fit", [(node(ActionType::UPDATE_NODE_LABEL), Some(HintId(2)))]),
        ]);
        let fit = profiles.plugins.intern("Fit");
        let id = profiles.resolve(&node(ActionType::DELETE));
        assert_eq!(profiles.resolve(&node(ActionType::DELETE)), id);
        let resolved = profiles.resolved(id);
        assert_eq!(resolved.by_profile, [vec![(fit, Some(HintId(1)))], vec![]]);
        let none = profiles.resolve(&node(ActionType::ADD));
        assert!(!profiles.resolved(none).is_of_interest());
        let timeout = profiles.resolve(&ClusterEvent::UNSCHEDULABLE_TIMEOUT);
        assert!(profiles.resolved(timeout).is_of_interest());
    }

    #[test]
    fn extenders_get_the_catch_all_list() {
        let spec = ProfileSpec::new("s").with_extenders(true);
        assert_eq!(spec.registrations().count(), 11);
        assert!(
            spec.registrations().all(|(plugin, _, hint)| plugin == "Extender" && hint.is_none())
        );
    }
}

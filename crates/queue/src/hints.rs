//! Whether an event makes a pod worth another try.
//!
//! Answers to `isPodWorthRequeuing` and `determineSchedulingHintForInFlightPod` of the reference.

use crate::entry::{HintObject, QueueEntry, QueuedPod};
use crate::in_flight::LoggedEvent;
use crate::policy::{QueuePolicy, QueueingHint, Requeue, Topics};
use crate::profile::{Profiles, ResolvedEvent};
use crate::rejectors::RejectorId;
use crate::unschedulable::PodTopics;

/// A pod with more topics of one plugin waits for all events.
const MAX_TOPICS: usize = 256;

/// What a pod waits for, by the plugins that rejected it.
pub(crate) fn pod_topics<E, O, P>(pod: &QueuedPod<E>, profiles: &Profiles, policy: &P) -> PodTopics
where
    E: QueueEntry,
    O: HintObject<E>,
    P: QueuePolicy<E, O> + ?Sized,
{
    let mut all = PodTopics::new();
    for plugin in pod.rejectors().iter() {
        let n_before = all.len();
        for &hint in profiles.hints(pod.profile, plugin) {
            match policy.pod_topics(hint, &pod.entry) {
                None => {}
                Some(Topics::All) => all.push((plugin, None)),
                Some(Topics::Only(topics)) => {
                    all.extend(topics.into_iter().map(|topic| (plugin, Some(topic))));
                }
            }
        }
        if all.len() - n_before > MAX_TOPICS {
            all.truncate(n_before);
            all.push((plugin, None));
        }
    }
    all
}

/// What an event is about for the pods that a plugin rejected.
pub(crate) fn event_topics<E, O, P>(
    plugin: RejectorId,
    event: &ResolvedEvent,
    old: Option<&O>,
    new: Option<&O>,
    policy: &P,
) -> Topics
where
    E: QueueEntry,
    O: HintObject<E>,
    P: QueuePolicy<E, O> + ?Sized,
{
    let mut all = Vec::new();
    for &(registered, hint) in event.by_profile.iter().flatten() {
        if registered != plugin {
            continue;
        }
        match hint.map_or(Topics::All, |hint| policy.event_topics(hint, old, new)) {
            Topics::All => return Topics::All,
            Topics::Only(topics) => all.extend(topics),
        }
    }
    Topics::Only(all)
}

/// What an event on these objects means for `pod`.
///
/// If a plugin that answered "pending" says yes, that beats everything: it waits for something that is on its way, so
/// backoff would only add delay.
pub(crate) fn worth<E, O, P>(
    pod: &QueuedPod<E>,
    event: &ResolvedEvent,
    old: Option<&O>,
    new: Option<&O>,
    policy: &mut P,
) -> Requeue
where
    E: QueueEntry,
    O: HintObject<E>,
    P: QueuePolicy<E, O> + ?Sized,
{
    // The attempt ended with an error, which any change may have resolved.
    if !pod.has_rejectors() {
        return Requeue::AfterBackoff;
    }
    // A wildcard event concerns the pod that is its object, or every pod if it has none.
    if event.is_wildcard {
        let is_of_another = new.is_some_and(|new| !new.is_pod(pod.entry.uid()));
        return if is_of_another { Requeue::Skip } else { Requeue::AfterBackoff };
    }
    let Some(registrations) = event.by_profile.get(pod.profile.index()) else {
        // No profile has this scheduler name, so that no plugin can be consulted.
        return Requeue::AfterBackoff;
    };
    let mut best = Requeue::Skip;
    for &(plugin, hint) in registrations {
        if !pod.is_rejected_by(plugin) {
            continue;
        }
        let is_worth = match hint {
            None => true,
            Some(hint) => {
                policy.hint(hint, &event.label, &pod.entry, old, new) == QueueingHint::Queue
            }
        };
        if !is_worth {
            continue;
        }
        if pod.pending_plugins.contains(plugin) {
            return Requeue::Immediately;
        }
        // Only a pending plugin could still make it better.
        if pod.pending_plugins.is_empty() {
            return Requeue::AfterBackoff;
        }
        best = Requeue::AfterBackoff;
    }
    best
}

/// What the events mean together that `pod` missed while it was in flight.
pub(crate) fn worth_of_missed<'a, E, O, P>(
    pod: &QueuedPod<E>,
    missed: impl Iterator<Item = &'a LoggedEvent<O>>,
    profiles: &Profiles,
    policy: &mut P,
) -> Requeue
where
    E: QueueEntry,
    O: HintObject<E> + 'a,
    P: QueuePolicy<E, O> + ?Sized,
{
    let mut best = Requeue::Skip;
    for logged in missed {
        let event = profiles.resolved(logged.resolved);
        match worth(pod, event, logged.old.as_ref(), logged.new.as_ref(), policy) {
            Requeue::Skip => {}
            Requeue::Immediately => return Requeue::Immediately,
            Requeue::AfterBackoff if pod.pending_plugins.is_empty() => {
                return Requeue::AfterBackoff;
            }
            Requeue::AfterBackoff => best = Requeue::AfterBackoff,
        }
    }
    best
}

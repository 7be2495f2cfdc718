//! Topics by which queueing hints are asked about the pods that an event may concern.

use kube_scheduler_framework::api::{Object, Pod};
use kube_scheduler_framework::topics::{Topics, topic};
use kube_scheduler_framework::{
    ActionType, Context, EventObject, EventRegistration, EventResource,
};

/// Helps the pods for which a claim that comes or changes is one of theirs, as `is_own` says.
pub(crate) fn on_volume_claim(
    actions: ActionType,
    is_own: fn(&Pod, &Object) -> bool,
) -> EventRegistration {
    EventRegistration::on_object(
        EventResource::PersistentVolumeClaim,
        actions,
        move |_, pod, _, claim| claim.is_none_or(|claim| is_own(pod, claim)),
    )
    .by_topic(volume_claims, object)
}

/// The claims behind the volumes of a pod, for hints that ask whether a claim is one of the pod's.
fn volume_claims(pod: &Pod) -> Topics {
    let claims = pod.volumes.iter().filter_map(|volume| volume.claim_in(&pod.name));
    Topics::Only(claims.map(|claim| topic((&*pod.namespace, &*claim.name))).collect())
}

/// The object that an event has left, by namespace and name. Where there is none, hints answer yes to everybody.
fn object(_: &Context<'_>, _: Option<&EventObject>, new: Option<&EventObject>) -> Topics {
    match new.and_then(EventObject::as_object) {
        Some(object) => Topics::Only(vec![topic((&*object.namespace, &*object.name))]),
        None => Topics::All,
    }
}

/// What a pod was and is, for the topics of hints about pods.
pub(crate) fn pods<'a>(
    old: Option<&'a EventObject>,
    new: Option<&'a EventObject>,
) -> [Option<&'a Pod>; 2] {
    [old, new].map(|object| object.and_then(EventObject::as_pod).map(|pod| &**pod))
}

/// The labels that a pod had or has, none twice.
pub(crate) fn labels<'a>(
    old: Option<&'a Pod>,
    new: Option<&'a Pod>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let pairs = |pod: Option<&'a Pod>| pod.into_iter().flat_map(|pod| pod.labels.iter());
    // Both are sorted by key.
    let mut known = pairs(new).peekable();
    let lost = pairs(old).filter(move |pair| {
        while known.next_if(|other| other.0 < pair.0).is_some() {}
        known.peek() != Some(pair)
    });
    pairs(new).chain(lost)
}

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::testing::pod;

    use super::labels;

    #[test]
    fn labels_of_both_states_are_there_once() {
        let cases = [
            ("p", "p", vec![]),
            ("p label:a=1 label:c=1 label:d=1", "p label:b=1 label:c=2 label:d=1", {
                vec![("b", "1"), ("c", "2"), ("d", "1"), ("a", "1"), ("c", "1")]
            }),
            ("p label:b=1 label:z=1", "p label:a=1", vec![("a", "1"), ("b", "1"), ("z", "1")]),
        ];
        for (old, new, expected) in cases {
            let (old, new) = (pod(old).build(), pod(new).build());
            assert_eq!(labels(Some(&old), Some(&new)).collect::<Vec<_>>(), expected);
            assert_eq!(
                labels(None, Some(&new)).collect::<Vec<_>>(),
                new.labels.iter().collect::<Vec<_>>()
            );
            assert_eq!(
                labels(Some(&old), None).collect::<Vec<_>>(),
                old.labels.iter().collect::<Vec<_>>()
            );
        }
    }
}

//! Topics by which queueing hints are asked about the pods that an event may concern.

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::topics::{Topics, topic};
use kube_scheduler_framework::{Context, EventObject};

/// The claims behind the volumes of a pod, for hints that ask whether a claim is one of the pod's.
pub(crate) fn volume_claims(pod: &Pod) -> Topics {
    let claims = pod.volumes.iter().filter_map(|volume| volume.claim_in(&pod.name));
    Topics::Only(claims.map(|claim| topic((&*pod.namespace, &*claim.name))).collect())
}

/// The object that an event has left, by namespace and name. Where there is none, hints answer yes to everybody.
pub(crate) fn object(
    _: &Context<'_>,
    _: Option<&EventObject>,
    new: Option<&EventObject>,
) -> Topics {
    match new.and_then(EventObject::as_object) {
        Some(object) => Topics::Only(vec![topic((&*object.namespace, &*object.name))]),
        None => Topics::All,
    }
}

//! Pods that differ by their numbers alone: which class they are of.
//!
//! The pods of one StatefulSet or indexed Job carry labels that number them. To the plugins that look at labels through selectors
//! alone ([`SignatureWriter::selectable_labels`](kube_scheduler_framework::SignatureWriter::selectable_labels)) such pods are
//! alike as long as no selector is about one of these labels. So each of them has a strict number, of the signature with all
//! labels, and a loose one, of the signature without these. Which of them counts is decided anew whenever it is asked for.
//!
//! Invariant: pods with the same loose number get the same answers whenever it counts. Nothing that is kept by number goes stale
//! when the decision changes: a number means the same bytes all the time, and what is kept is compared with what it was read
//! from before it is used.

use kube_scheduler_api_types::well_known::NUMBERING_LABELS;
use kube_scheduler_api_types::{LabelSelector, Pod};
use kube_scheduler_cache::ClusterState;
use kube_scheduler_queue::{QueuedPod, Signature};

use crate::core::Core;
use crate::policy::Entry;
use crate::spreading_owner::spreading_owner;

/// The number of the class that a pod is of as things are now: pods of one class get the same answers. `None` for a pod that
/// is evaluated on its own. O(log objects + constraints).
pub(crate) fn class_of(core: &Core, queued: &QueuedPod<Entry>) -> Option<u64> {
    let Signature { strict, loose } = queued.signature()?;
    let is_loose = loose != strict && ignores_numbers(core, &queued.entry().0);
    let number = if is_loose { loose } else { strict };
    Some(number.get())
}

/// Whether no selector by which the pod is judged, or by which it judges others, is about a label that numbers pods: affinity
/// terms of any pod, its own constraints, and what it is spread by otherwise. O(log objects + constraints).
pub(crate) fn ignores_numbers(core: &Core, pod: &Pod) -> bool {
    // Those of all pods that are known, and of what is on nodes: an assumed pod may be older than what is known of it.
    let by_affinity =
        core.pods.select_by_number() || core.cluster.affinity_terms().select_by_number();
    let by_services = || {
        let services = core.cluster.objects().service_selectors(&pod.namespace);
        services.n_by_number > 0
    };
    !by_affinity
        && !pod.spreads_by_number()
        && !by_services()
        && !owner_selects_by_number(pod, &core.cluster)
}

/// Whether the controller that owns a pod selects its pods by their numbers.
fn owner_selects_by_number(pod: &Pod, cluster: &ClusterState) -> bool {
    spreading_owner(pod, cluster).is_some_and(|(owner, has_labels_only)| match has_labels_only {
        true => {
            let labels = &owner.json["spec"]["selector"];
            NUMBERING_LABELS.iter().any(|label| labels.get(label).is_some())
        }
        false => owner.read_as(LabelSelector::of_controller).selects_by_number(),
    })
}

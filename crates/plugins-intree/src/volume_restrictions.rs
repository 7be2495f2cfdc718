//! VolumeRestrictions: disks that cannot be used twice on one node, and claims that only one pod may use.
//!
//! Answers to `plugins/volumerestrictions/volume_restrictions.go` of the reference; behaviour in
//! `docs/spec/plugins-storage.md` §4.

mod disks;

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    ActionType, ClusterEvent, Context, CycleState, EnqueueExtensions, EventRegistration,
    EventResource, Filter, Handle, NodeView, Plugin, PluginArgs, PluginError, PreFilter,
    PreFilterExtensions, PreFilterOutcome, Sign, SignatureWriter, Status,
};

use self::disks::Disks;
use crate::event_topics;
use crate::volumes::{claim, names_claim, plain_claims, write_volumes};

pub(crate) const NAME: &str = "VolumeRestrictions";

const REASON_DISK: &str = "node(s) had no available disk";
const REASON_ONE_POD: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already \
     in-use by another pod";
const NO_STATE: &str = "cannot read \"PreFilterVolumeRestrictions\" from cycleState";

pub(crate) fn new(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let name = NAME.into();
    Ok(Arc::new(VolumeRestrictions {
        disk_rejection: Status::unschedulable(REASON_DISK).from_plugin(&name),
        one_pod_rejection: Status::unschedulable(REASON_ONE_POD).from_plugin(&name),
    }))
}

struct VolumeRestrictions {
    disk_rejection: Status,
    one_pod_rejection: Status,
}

/// What the pod has for itself: disks, and claims that only one pod may use, with how often others use them.
///
/// Quirk: at first every claim in use counts once, however often it is used; afterwards every volume of a pod that
/// comes or goes counts, whatever its namespace. Pinned by `other_pods_are_counted_by_volume_in_any_namespace`.
#[derive(Clone)]
struct Exclusives {
    disks: Arc<Disks>,
    names: Arc<BTreeSet<Arc<str>>>,
    n_conflicts: i64,
}

impl Exclusives {
    fn n_volumes_of(&self, pod: &Pod) -> i64 {
        let n = plain_claims(pod).filter(|name| self.names.contains(*name)).count();
        i64::try_from(n).unwrap_or(i64::MAX)
    }
}

/// Whether two pods of one namespace name the same claim.
fn share_claim(pod: &Pod, other: &Pod) -> bool {
    let own: BTreeSet<_> = plain_claims(pod).collect();
    !own.is_empty() && plain_claims(other).any(|name| own.contains(name))
}

plugin!(VolumeRestrictions, PreFilter, Filter, EnqueueExtensions, Sign);

impl PreFilter for VolumeRestrictions {
    fn pre_filter(&self, cx: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        let mut names = BTreeSet::new();
        for name in plain_claims(pod) {
            match claim(cx.cluster(), &pod.namespace, name) {
                Err(missing) => return Status::unresolvable(missing).into(),
                Ok(claim) => {
                    if claim.access_modes().any(|mode| mode == "ReadWriteOncePod") {
                        names.insert(name.clone());
                    }
                }
            }
        }
        let in_use = |name: &&Arc<str>| cx.cluster().pvc_ref_count(&pod.namespace, name) > 0;
        let n_conflicts = i64::try_from(names.iter().filter(in_use).count()).unwrap_or(i64::MAX);
        let disks = Disks::of(pod);
        if n_conflicts == 0 && disks.is_empty() {
            return PreFilterOutcome::skip();
        }
        state.insert(Exclusives { disks: Arc::new(disks), names: Arc::new(names), n_conflicts });
        PreFilterOutcome::success()
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        Some(self)
    }
}

impl PreFilterExtensions for VolumeRestrictions {
    fn may_fail(&self, state: &CycleState) -> bool {
        state.get::<Exclusives>().is_none()
    }

    fn concerns(&self, _: &Context<'_>, state: &CycleState, _: &Pod, added: &Pod) -> bool {
        state.get::<Exclusives>().is_none_or(|claims| claims.n_volumes_of(added) != 0)
    }

    fn add_pod(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        _: &Pod,
        added: &Pod,
        _: &NodeView<'_>,
    ) -> Status {
        let Some(claims) = state.get_mut::<Exclusives>() else { return Status::error(NO_STATE) };
        claims.n_conflicts += claims.n_volumes_of(added);
        Status::SUCCESS
    }

    fn remove_pod(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        _: &Pod,
        removed: &Pod,
        _: &NodeView<'_>,
    ) -> Status {
        let Some(claims) = state.get_mut::<Exclusives>() else { return Status::error(NO_STATE) };
        claims.n_conflicts -= claims.n_volumes_of(removed);
        Status::SUCCESS
    }
}

impl Filter for VolumeRestrictions {
    fn filter(
        &self,
        _: &Context<'_>,
        state: &CycleState,
        pod: &Pod,
        node: &NodeView<'_>,
    ) -> Status {
        // Only claims need what PreFilter found: a pod whose disks are in use is rejected for that without it, too.
        let known = state.get::<Exclusives>();
        let are_in_use = |disks: &Disks| {
            !disks.is_empty() && node.pods().any(|other| disks.are_in_conflict_with(other))
        };
        if known.map_or_else(|| are_in_use(&Disks::of(pod)), |known| are_in_use(&known.disks)) {
            return self.disk_rejection.clone();
        }
        match known {
            None => Status::error(NO_STATE),
            Some(known) if known.n_conflicts > 0 => self.one_pod_rejection.clone(),
            Some(_) => Status::SUCCESS,
        }
    }
}

impl Sign for VolumeRestrictions {
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        write_volumes(pod, signature)
    }
}

impl EnqueueExtensions for VolumeRestrictions {
    fn events_to_register(&self) -> Vec<EventRegistration> {
        vec![
            EventRegistration::on_pod(ActionType::DELETE, |_, pod, deleted, _| {
                let Some(deleted) = deleted else { return true };
                // Quirk: a disk held by a pod of another namespace is not waited for.
                deleted.namespace == pod.namespace
                    && (Disks::of(pod).are_in_conflict_with(deleted) || share_claim(pod, deleted))
            }),
            EventRegistration::always(ClusterEvent::new(EventResource::Node, ActionType::ADD)),
            event_topics::on_volume_claim(ActionType::ADD, names_claim),
        ]
    }
}

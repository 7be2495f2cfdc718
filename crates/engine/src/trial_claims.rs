//! Claims of devices while pods are taken off on trial. When a pod ends, its devices come free, once no other pod uses them: the
//! API server's controllers take them from the claim. A plan for what comes then has to see that.
//!
//! A claim whose users are gone already, and which has its devices still, counts as one that is about to lose them. A claim in
//! flight that has no object yet, as for extended resources, is not followed: its devices stay taken whatever is taken off, until
//! the claim is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::well_known::RESOURCE_GROUP;
use kube_scheduler_api_types::{Json, Object, Pod};
use kube_scheduler_cache::ClusterState;
use kube_scheduler_runtime::PodChange;

use crate::core::Core;

const CLAIM: &str = "ResourceClaim";

/// What following a claim with devices costs besides copying its JSON, in units of work. An estimate: its users are looked at,
/// and it gets two entries of maps.
const WORK_OF_CLAIM: u64 = 200;
/// So many bytes of JSON are copied for a unit.
const BYTES_OF_A_UNIT: u64 = 4;

/// How many claims there are, all of which have to be looked at. O(1).
pub(crate) fn n_claims(cluster: &ClusterState) -> usize {
    cluster.objects().n_objects(RESOURCE_GROUP, CLAIM)
}

/// What [following](TrialClaims::of) the claims costs besides looking at each, in units of work. O(claims).
pub(crate) fn work_of_claims(cluster: &ClusterState) -> u64 {
    let claims = cluster.objects().list(RESOURCE_GROUP, CLAIM).filter(|claim| has_devices(claim));
    claims.fold(0, |work: u64, claim| {
        let of_copy = claim.n_bytes() as u64 / BYTES_OF_A_UNIT;
        work.saturating_add(WORK_OF_CLAIM).saturating_add(of_copy)
    })
}

/// Whether a pod may need devices, by its specification. Claims matter to no other pod.
pub(crate) fn may_need_devices(pod: &Pod) -> bool {
    !pod.spec.resource_claims.is_empty() || !pod.spec.device_users.is_empty()
}

/// The claims that hold devices.
#[derive(Debug)]
pub(crate) struct TrialClaims {
    claims: Vec<TrialClaim>,
    /// By the UIDs of the pods on nodes that use them: their places in the list.
    by_user: BTreeMap<Arc<str>, Vec<usize>>,
}

#[derive(Debug)]
struct TrialClaim {
    /// With its devices, if it has some.
    allocated: Option<Arc<Object>>,
    /// The same without, once that was needed.
    released: Option<Arc<Object>>,
    /// With those that it is about to get, if there are some.
    pending: Option<Arc<Object>>,
    /// How many of its users are there.
    n_users: usize,
}

/// Namespace and name.
type Name<'a> = (&'a str, &'a str);

impl TrialClaims {
    /// From now on, claims follow what is [taken off](Self::pod_changed). O(claims and pods).
    pub(crate) fn of(core: &mut Core) -> Self {
        let mut all = Self::with_devices(core);
        let cluster = &mut core.cluster;
        for claim in all.claims.iter_mut().filter(|claim| claim.n_users == 0) {
            claim.release(cluster);
        }
        all
    }

    fn with_devices(core: &Core) -> Self {
        let (cluster, objects) = (&core.cluster, core.cluster.objects());
        let (mut claims, mut places) = (Vec::new(), BTreeMap::<Name<'_>, usize>::new());
        let mut users: Vec<BTreeSet<Arc<str>>> = Vec::new();
        for object in objects.list(RESOURCE_GROUP, CLAIM) {
            let allocated = has_devices(object).then(|| object.clone());
            let pending = objects.pending(RESOURCE_GROUP, CLAIM, &object.uid).cloned();
            if allocated.is_some() || pending.is_some() {
                places.insert((&*object.namespace, &*object.name), claims.len());
                claims.push(TrialClaim { allocated, released: None, pending, n_users: 0 });
                users.push(known_users(core, object));
            }
        }
        // A pod on its way to its node is no user yet that the claim names.
        for pod in cluster.order().iter().flat_map(|node| cluster.pods_on(*node)) {
            for name in pod.claim_names() {
                let at = places.get(&(&*pod.namespace, name));
                if let Some(users) = at.and_then(|at| users.get_mut(*at)) {
                    users.insert(pod.uid.clone());
                }
            }
        }
        let mut by_user: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
        for (at, (claim, users)) in claims.iter_mut().zip(users).enumerate() {
            // A claim without a known user does not lose its devices because a pod goes.
            let stays = users.is_empty() && !claim.has_listed_users();
            claim.n_users = if stays { 1 } else { users.len() };
            users.into_iter().for_each(|user| by_user.entry(user).or_default().push(at));
        }
        Self { claims, by_user }
    }

    /// A pod was taken off, or put back.
    pub(crate) fn pod_changed(&mut self, cluster: &mut ClusterState, change: PodChange, pod: &Pod) {
        let Self { claims, by_user } = self;
        for at in by_user.get(&pod.uid).into_iter().flatten() {
            let Some(claim) = claims.get_mut(*at) else { continue };
            let before = claim.n_users;
            claim.n_users = match change {
                PodChange::Removed => before.saturating_sub(1),
                PodChange::Added => before + 1,
            };
            match (before, claim.n_users) {
                (_, 0) => claim.release(cluster),
                (0, _) => claim.hold_again(cluster),
                _ => {}
            }
        }
    }
}

impl TrialClaim {
    /// Whether it has devices and lists users: it loses the devices when none of these is there any more.
    fn has_listed_users(&self) -> bool {
        self.allocated.as_ref().is_some_and(|claim| !listed_users(claim).is_empty())
    }

    fn release(&mut self, cluster: &mut ClusterState) {
        if let Some(object) = &self.allocated {
            let released = self.released.get_or_insert_with(|| Arc::new(without_devices(object)));
            cluster.upsert_object(released.clone());
        }
        if let Some(object) = &self.pending {
            cluster.objects_mut().remove_pending(RESOURCE_GROUP, CLAIM, &object.uid, true);
        }
    }

    fn hold_again(&self, cluster: &mut ClusterState) {
        if let Some(object) = &self.allocated {
            cluster.upsert_object(object.clone());
        }
        if let Some(object) = &self.pending {
            cluster.objects_mut().add_pending(object.clone());
        }
    }
}

fn has_devices(claim: &Object) -> bool {
    !claim.json["status"]["allocation"].is_null()
}

fn without_devices(claim: &Object) -> Object {
    let mut json = Json::clone(&claim.json);
    for field in ["reservedFor", "allocation", "devices"] {
        json.remove(&["status", field]);
    }
    claim.clone().with_json(json)
}

fn listed_users(claim: &Object) -> &[Json] {
    claim.json["status"]["reservedFor"].as_array().unwrap_or_default()
}

/// The UIDs of those who may use the claim, by its status, and are there. One that is no pod, or has no node, stays there
/// whatever is taken off.
fn known_users(core: &Core, claim: &Object) -> BTreeSet<Arc<str>> {
    let known = listed_users(claim).iter().filter(|user| {
        let text = |field: &str| user[field].as_str().unwrap_or_default();
        let is_known = core.pods.get(&claim.namespace, text("name"));
        text("resource") != "pods"
            || is_known.is_some_and(|pod| *pod.uid == *text("uid"))
            || core.cluster.pod(text("uid")).is_some()
    });
    known.map(|user| Arc::from(user["uid"].as_str().unwrap_or_default())).collect()
}

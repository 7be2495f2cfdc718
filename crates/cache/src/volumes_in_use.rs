//! Which volumes the pods on each node use: how many of each CSI driver, and which.
//!
//! A pod may name thousands of claims, and there may be such pods on every node. So what they stand for is looked up when a pod comes
//! or goes, and when a claim or a persistent volume changes in what it stands for, and not in each attempt on each node.
//! Classes are not looked up here: volumes that do not exist yet are counted by class, of which a cluster has few.
//!
//! Invariants: the counts of a node are those of the volumes of the pods there, ghosts included, by the claims and persistent volumes
//! that the API server reported; nothing is kept of a pod that is gone; counts are above zero.

mod counts;
mod of_node;
mod used_volume;

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::Equivalent;
use kube_scheduler_api_types::{ClaimOfVolume, Object, Pod, Volume, VolumeSource};
use smallvec::SmallVec;

use self::counts::Counts;
use self::used_volume::volume_name;
use crate::fork::CowMap;
use crate::node_table::NodeIdx;
use crate::objects::ObjectStore;

pub use self::of_node::NodeVolumes;
pub(crate) use self::of_node::VolumeChanges;
pub use self::used_volume::UsedVolume;

/// What an entry takes in memory, about, with its texts and users: some 130 bytes are in use for each claim of running pods that does not
/// exist (`bench tenants`, RunningClaims), and more if it stands for a volume.
const BYTES_PER_ENTRY: usize = 240;

/// Namespace and name of a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ClaimKey {
    namespace: Arc<str>,
    name: Arc<str>,
}

/// Lets a claim be looked up without allocating its key; field order and types hash like [`ClaimKey`].
#[derive(Clone, Copy, Hash)]
struct BorrowedKey<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl Equivalent<ClaimKey> for BorrowedKey<'_> {
    fn equivalent(&self, key: &ClaimKey) -> bool {
        *self.namespace == *key.namespace && *self.name == *key.name
    }
}

/// What a claim object means to the pods that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FoundClaim {
    volume: Option<UsedVolume>,
    /// The persistent volume that it names, which need not exist.
    volume_name: Option<Arc<str>>,
    /// The UID of its owner: generic ephemeral volumes need claims that were made for their pod.
    controller: Option<Arc<str>>,
}

impl FoundClaim {
    fn of(objects: &ObjectStore, claim: &Object) -> Self {
        Self {
            volume: UsedVolume::of_claim(objects, claim, true),
            volume_name: volume_name(claim).map(Arc::from),
            controller: claim.controller_uid().map(Arc::from),
        }
    }

    /// What there is under this name; a volume that names no claim has none.
    fn look_up(objects: &ObjectStore, key: BorrowedKey<'_>) -> Option<Box<Self>> {
        if key.name.is_empty() {
            return None;
        }
        let claim = objects.get("", "PersistentVolumeClaim", key.namespace, key.name);
        claim.map(|claim| Box::new(Self::of(objects, claim)))
    }

    /// What a volume stands for that has this claim, made for the pod with a UID if there is one.
    fn standing(&self, made_for: Option<&str>) -> Standing<'_> {
        match (made_for, &self.volume) {
            (Some(uid), _) if self.controller.as_deref() != Some(uid) => Standing::Broken,
            (_, Some(volume)) => Standing::Used(volume),
            (_, None) => Standing::Nothing,
        }
    }
}

/// What a volume of a pod stands for.
enum Standing<'a> {
    Nothing,
    Used(&'a UsedVolume),
    /// It cannot be counted, and so none of the pod's.
    Broken,
}

/// Who uses a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct User {
    node: NodeIdx,
    /// The UID of the pod, if it is about a generic ephemeral volume.
    made_for: Option<Arc<str>>,
}

impl User {
    fn of(pod: &Pod, claim: &ClaimOfVolume<'_>, node: NodeIdx) -> Self {
        Self { node, made_for: claim.is_ephemeral.then(|| pod.uid.clone()) }
    }
}

#[derive(Clone, Debug, Default)]
struct ClaimUse {
    /// `None` as long as there is no such claim.
    found: Option<Box<FoundClaim>>,
    /// In ascending order, each with the number of its volumes. Most claims have one user.
    users: SmallVec<[(User, u32); 1]>,
    /// How many `persistentVolumeClaim` volumes of pods on live nodes have the claim, by which it is decided whether a
    /// claim is in use (`docs/spec/core.md` §15). Pods on nodes that are gone are invisible to a cycle.
    n_on_live_nodes: u32,
}

impl ClaimUse {
    fn change(&mut self, user: User, comes: bool) {
        match (self.users.binary_search_by(|(other, _)| other.cmp(&user)), comes) {
            (Ok(at), true) => self.users[at].1 += 1,
            (Err(at), true) => self.users.insert(at, (user, 1)),
            (Ok(at), false) => {
                self.users[at].1 -= 1;
                if self.users[at].1 == 0 {
                    self.users.remove(at);
                }
            }
            (Err(_), false) => {}
        }
    }
}

/// The volumes that pods use, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumesInUse {
    counts: Counts,
    /// The claims that pods use.
    claims: CowMap<ClaimKey, ClaimUse>,
    /// Those of them that exist and name a persistent volume, by its name.
    by_volume: CowMap<Arc<str>, Arc<BTreeSet<ClaimKey>>>,
}

impl VolumesInUse {
    /// A pod has come to a node, or leaves it.
    pub(crate) fn change(
        &mut self,
        objects: &ObjectStore,
        pod: &Pod,
        place: (NodeIdx, bool),
        comes: bool,
    ) {
        for volume in pod.volumes.iter() {
            match without_claim(pod, volume) {
                Ok(None) => {}
                Ok(Some(used)) => self.counts.change(place.0, &used, 1, comes),
                Err(UncountableVolume) => self.counts.change_broken(place.0, &pod.uid, 1, comes),
            }
            match volume.claim_in(&pod.name) {
                Some(claim) if comes => self.use_claim(objects, pod, volume, &claim, place),
                Some(claim) => self.leave_claim(pod, &claim, place),
                None => {}
            }
        }
    }

    // Pods may have thousands of claims, so each is looked up once.
    fn use_claim(
        &mut self,
        objects: &ObjectStore,
        pod: &Pod,
        volume: &Volume,
        claim: &ClaimOfVolume<'_>,
        (node, is_live): (NodeIdx, bool),
    ) {
        let Self { counts, claims, by_volume } = self;
        let name = match &volume.source {
            VolumeSource::Claim { claim, .. } => claim.clone(),
            _ => Arc::from(&*claim.name),
        };
        let key = ClaimKey { namespace: pod.namespace.clone(), name };
        let claim_use = claims.get_or_insert_with(&key, || {
            let (namespace, name) = (&*key.namespace, &*key.name);
            let found = FoundClaim::look_up(objects, BorrowedKey { namespace, name });
            if let Some(volume) = found.as_ref().and_then(|found| found.volume_name.as_ref()) {
                name_volume(by_volume, volume, &key, true);
            }
            ClaimUse { found, ..ClaimUse::default() }
        });
        let user = User::of(pod, claim, node);
        if let Some(found) = &claim_use.found {
            counts.change_user(&user, 1, found, true);
        }
        claim_use.n_on_live_nodes += u32::from(is_live && !claim.is_ephemeral);
        claim_use.change(user, true);
    }

    fn leave_claim(
        &mut self,
        pod: &Pod,
        claim: &ClaimOfVolume<'_>,
        (node, is_live): (NodeIdx, bool),
    ) {
        let key = BorrowedKey { namespace: &pod.namespace, name: &claim.name };
        let Some(claim_use) = self.claims.get_mut(&key) else { return };
        let user = User::of(pod, claim, node);
        if let Some(found) = &claim_use.found {
            self.counts.change_user(&user, 1, found, false);
        }
        claim_use.n_on_live_nodes -= u32::from(is_live && !claim.is_ephemeral);
        claim_use.change(user, false);
        if claim_use.users.is_empty() {
            let found = claim_use.found.take();
            if let Some(volume) = found.and_then(|found| found.volume_name) {
                let key = ClaimKey { namespace: key.namespace.into(), name: key.name.into() };
                name_volume(&mut self.by_volume, &volume, &key, false);
            }
            self.claims.remove(&key);
        }
    }

    /// The node of a pod has got an object, or has lost it.
    pub(crate) fn change_live(&mut self, pod: &Pod, comes: bool) {
        for volume in pod.volumes.iter() {
            let VolumeSource::Claim { claim, .. } = &volume.source else { continue };
            let key = BorrowedKey { namespace: &pod.namespace, name: claim };
            if let Some(claim) = self.claims.get_mut(&key) {
                claim.n_on_live_nodes =
                    if comes { claim.n_on_live_nodes + 1 } else { claim.n_on_live_nodes - 1 };
            }
        }
    }

    /// Follows an object that was added (`old` is `None`), changed or removed (`new` is `None`). Both have the same name; `objects` has
    /// the new one.
    pub(crate) fn object_changed(
        &mut self,
        objects: &ObjectStore,
        old: Option<&Object>,
        new: Option<&Object>,
    ) {
        let Some(object) = new.or(old).filter(|object| object.group.is_empty()) else { return };
        match &*object.kind {
            "PersistentVolumeClaim" => {
                let key = BorrowedKey { namespace: &object.namespace, name: &object.name };
                self.claim_changed(objects, key);
            }
            "PersistentVolume" => {
                let seen = |volume: Option<&Object>| {
                    volume.map(|volume| UsedVolume::of_volume(volume, true))
                };
                // Most updates of a volume are about its status, and a volume may be named by thousands of claims.
                if seen(old) != seen(new)
                    && let Some(claims) = self.by_volume.get(&object.name).cloned()
                {
                    for ClaimKey { namespace, name } in claims.iter() {
                        self.claim_changed(objects, BorrowedKey { namespace, name });
                    }
                }
            }
            _ => {}
        }
    }

    fn claim_changed(&mut self, objects: &ObjectStore, key: BorrowedKey<'_>) {
        let Self { counts, claims, by_volume } = self;
        if !claims.contains_key(&key) {
            return;
        }
        let found = FoundClaim::look_up(objects, key);
        let Some(claim) = claims.get_mut(&key).filter(|claim| claim.found != found) else { return };
        let old = std::mem::replace(&mut claim.found, found);
        for (found, comes) in [(&old, false), (&claim.found, true)] {
            let Some(found) = found else { continue };
            for (user, n) in &claim.users {
                counts.change_user(user, *n, found, comes);
            }
            if let Some(volume) = &found.volume_name {
                let key = ClaimKey { namespace: key.namespace.into(), name: key.name.into() };
                name_volume(by_volume, volume, &key, comes);
            }
        }
    }

    /// How many volumes of pods on live nodes use a claim.
    pub(crate) fn n_on_live_nodes(&self, namespace: &str, name: &str) -> u32 {
        let claim = self.claims.get(&BorrowedKey { namespace, name });
        claim.map_or(0, |claim| claim.n_on_live_nodes)
    }

    /// How many entries there are in all tables.
    pub(crate) fn len(&self) -> usize {
        self.counts.len() + self.claims.len() + self.by_volume.len()
    }

    /// What they take in memory, about, in bytes. O(1).
    pub(crate) fn n_bytes(&self) -> usize {
        self.len() * BYTES_PER_ENTRY
    }
}

/// A volume cannot be counted, whatever claims there are.
struct UncountableVolume;

/// What a volume takes, as far as its claim does not matter.
fn without_claim(pod: &Pod, volume: &Volume) -> Result<Option<UsedVolume>, UncountableVolume> {
    match volume.claim_in(&pod.name) {
        None => UsedVolume::of_inline(&volume.source, true).map_err(|_| UncountableVolume),
        Some(claim) if claim.name.is_empty() => Err(UncountableVolume),
        Some(_) => Ok(None),
    }
}

/// Calls `visit` with what each volume of a pod stands for, wherever the pod is.
fn for_each_standing(objects: &ObjectStore, pod: &Pod, mut visit: impl FnMut(Standing<'_>)) {
    for volume in pod.volumes.iter() {
        match without_claim(pod, volume) {
            Ok(None) => {}
            Ok(Some(used)) => visit(Standing::Used(&used)),
            Err(UncountableVolume) => visit(Standing::Broken),
        }
        let Some(claim) = volume.claim_in(&pod.name) else { continue };
        let key = BorrowedKey { namespace: &pod.namespace, name: &claim.name };
        if let Some(found) = FoundClaim::look_up(objects, key) {
            visit(found.standing(claim.is_ephemeral.then_some(&pod.uid)));
        }
    }
}

/// Files a claim under the persistent volume that it names, or takes it out.
fn name_volume(
    by_volume: &mut CowMap<Arc<str>, Arc<BTreeSet<ClaimKey>>>,
    volume: &Arc<str>,
    claim: &ClaimKey,
    comes: bool,
) {
    if comes {
        let claims = by_volume.get_or_insert_with(volume, Arc::default);
        Arc::make_mut(claims).insert(claim.clone());
    } else if let Some(claims) = by_volume.get_mut(volume) {
        Arc::make_mut(claims).remove(claim);
        if claims.is_empty() {
            by_volume.remove(volume);
        }
    }
}

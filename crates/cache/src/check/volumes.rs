//! Volumes in use and users of claims, recomputed pod by pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::{Pod, VolumeSource};

use super::{PlainNode, Report};
use crate::state::ClusterState;
use crate::volumes_in_use::UsedVolume;

type Key = (Arc<str>, String);

/// What the pods of a node use.
#[derive(Default)]
struct PlainUses {
    volumes: BTreeSet<UsedVolume>,
    /// By UID.
    broken: BTreeSet<Arc<str>>,
}

pub(super) fn check(
    cluster: &ClusterState,
    plain: &BTreeMap<Arc<str>, PlainNode>,
    report: &mut Report,
) {
    check_claims(cluster, plain, report);
    let mut n_entries = 0;
    for (name, node) in plain {
        let Some(idx) = node.idx else { continue };
        let uses = uses_of(cluster, node);
        let found = cluster.volumes_on(idx);
        let of = |what: String| format!("{what} on node {name}");
        for volume in &uses.volumes {
            report.require(|| of(format!("{volume:?}")), found.contains(volume));
        }
        let (mut drivers, mut classes) = (BTreeMap::new(), BTreeMap::new());
        for volume in &uses.volumes {
            *match volume {
                UsedVolume::Existing { driver, .. } => drivers.entry(driver.clone()).or_insert(0),
                UsedVolume::Future { class, .. } => classes.entry(class.clone()).or_insert(0),
            } += 1;
        }
        for (driver, n) in &drivers {
            report.compare(|| of(format!("volumes of {driver}")), *n, found.n_of_driver(driver));
        }
        for (class, n) in &classes {
            report.compare(|| of(format!("volumes of {class}")), *n, found.n_of_class(class));
        }
        for uid in &uses.broken {
            report.require(|| of(format!("broken pod {uid}")), found.is_broken(uid));
        }
        let has_broken = !uses.broken.is_empty();
        report.compare(|| of("broken pods".to_owned()), has_broken, found.has_broken_pods());
        n_entries += uses.volumes.len() + drivers.len() + classes.len() + usize::from(has_broken);
    }
    let (claims, volumes) = claims_in_use(cluster, plain);
    n_entries += claims.len() + volumes.len();
    report.compare(|| "entries about volumes".to_owned(), n_entries, cluster.n_volumes_in_use());
}

fn uses_of(cluster: &ClusterState, node: &PlainNode) -> PlainUses {
    let mut uses = PlainUses::default();
    for pod in node.pods.values() {
        for volume in pod.volumes.iter() {
            let claim = match &volume.source {
                VolumeSource::Claim { claim, .. } => (claim.to_string(), None),
                VolumeSource::Ephemeral { .. } => {
                    (format!("{}-{}", pod.name, volume.name), Some(&*pod.uid))
                }
                inline => {
                    match UsedVolume::of_inline(inline, true) {
                        Ok(used) => uses.volumes.extend(used),
                        Err(_) => drop(uses.broken.insert(pod.uid.clone())),
                    }
                    continue;
                }
            };
            let (name, owner) = claim;
            let found = cluster.objects().get("", "PersistentVolumeClaim", &pod.namespace, &name);
            if name.is_empty() {
                uses.broken.insert(pod.uid.clone());
            } else if let Some(claim) = found {
                if owner.is_some_and(|uid| claim.controller_uid() != Some(uid)) {
                    uses.broken.insert(pod.uid.clone());
                } else {
                    uses.volumes.extend(UsedVolume::of_claim(cluster.objects(), claim, true));
                }
            }
        }
    }
    uses
}

/// The claims that pods name, and the volumes that these name.
fn claims_in_use(
    cluster: &ClusterState,
    plain: &BTreeMap<Arc<str>, PlainNode>,
) -> (BTreeSet<Key>, BTreeSet<String>) {
    let pods = plain.values().flat_map(|node| node.pods.values());
    let claims: BTreeSet<Key> = pods
        .flat_map(|pod| {
            let claims = pod.volumes.iter().filter_map(|volume| volume.claim_in(&pod.name));
            claims.map(|claim| (pod.namespace.clone(), claim.name.into_owned()))
        })
        .collect();
    let named = claims.iter().filter(|(_, name)| !name.is_empty());
    let found = named.filter_map(|(namespace, name)| {
        cluster.objects().get("", "PersistentVolumeClaim", namespace, name)
    });
    let volumes = found.filter_map(|claim| claim.json["spec"]["volumeName"].as_str());
    let volumes = volumes.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    (claims, volumes)
}

fn claims_of<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> BTreeMap<(Arc<str>, Arc<str>), u32> {
    let mut claims = BTreeMap::new();
    for pod in pods {
        for volume in pod.volumes.iter() {
            if let VolumeSource::Claim { claim, .. } = &volume.source {
                *claims.entry((pod.namespace.clone(), claim.clone())).or_insert(0) += 1;
            }
        }
    }
    claims
}

/// How many volumes of pods on live nodes have a claim; none is counted that no pod has.
fn check_claims(
    cluster: &ClusterState,
    plain: &BTreeMap<Arc<str>, PlainNode>,
    report: &mut Report,
) {
    let all = claims_of(plain.values().flat_map(|node| node.pods.values()));
    let on_live =
        plain.values().filter(|node| node.node.is_some()).flat_map(|node| node.pods.values());
    let expected = claims_of(on_live);
    for (key, _) in all {
        let found = cluster.pvc_ref_count(&key.0, &key.1);
        let n = expected.get(&key).copied().unwrap_or(0);
        report.compare(|| format!("users of claim {}/{}", key.0, key.1), n, found);
    }
}

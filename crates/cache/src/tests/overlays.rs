//! A hypothetical node against really changing a fork.

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Resources};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixtures::{N_CLAIMS, N_PODS, claim, node, pod, pod_uid};
use super::operations::{CheckedCluster, ops};
use crate::columns::{NodeVolumes, UsedVolume};
use crate::{ClusterState, NodeOverlay, check};

/// All that can be seen of the volumes on a node.
fn shown(volumes: &NodeVolumes<'_>) -> Vec<String> {
    let existing =
        [("ebs", "h"), ("ebs", "i"), ("disk.csi.azure.com", "h"), ("disk.csi.azure.com", "")];
    let existing = existing.map(|(driver, handle)| UsedVolume::existing(driver, handle));
    let claims = (0..N_CLAIMS).map(|which| claim(which, 0)).map(|claim| UsedVolume::Future {
        class: "fast".into(),
        namespace: claim.namespace.clone(),
        claim: claim.name.clone(),
    });
    let contained = existing.into_iter().chain(claims).filter(|volume| volumes.contains(volume));
    let drivers = ["ebs", "disk.csi.azure.com"].map(|driver| volumes.n_of_driver(driver));
    let broken = (0..N_PODS).map(pod_uid).filter(|uid| volumes.is_broken(uid));
    let all = (drivers, volumes.n_of_class("fast"), volumes.has_broken_pods());
    contained
        .map(|volume| format!("{volume:?}"))
        .chain(broken)
        .chain([format!("{all:?}")])
        .collect()
}

proptest! {
    #![proptest_config(crate::tests::cases(48))]

    #[test]
    fn an_overlay_is_what_a_fork_would_be(
        history in ops(30),
        changes in prop::collection::vec((any::<bool>(), any::<u8>(), any::<u32>()), 0..30),
    ) {
        let mut checked = CheckedCluster::default();
        for op in &history {
            checked.apply(op);
        }
        let cluster = &mut checked.cluster;
        let idx = cluster.add_node(node(0, 0));
        let mut fork = cluster.clone();
        let mut overlay = NodeOverlay::new(idx);
        // The same, whose volumes nobody asks for before the end.
        let mut asked_late = overlay.clone();
        for (is_addition, which, shape) in changes {
            let uid = pod_uid(which);
            if is_addition {
                // A pod that is known on this node comes back as it was, like a spared victim.
                let known = cluster.pod(&uid).filter(|pod| pod.node_name.as_deref() == Some("n0")).cloned();
                let added = known.unwrap_or_else(|| pod(which, 0, shape, 0));
                if fork.pod(&uid).is_none() {
                    prop_assert!(fork.add_pod(added.clone()).is_ok());
                    overlay.add_pod(cluster, &added);
                    asked_late.add_pod(cluster, &added);
                }
            } else if fork.node_of_pod(&uid) == Some(idx) {
                let removed = fork.remove_pod(&uid);
                prop_assert_eq!(overlay.remove_pod(cluster, &uid), removed);
                prop_assert!(asked_late.remove_pod(cluster, &uid).is_ok());
            } else {
                let error = overlay.remove_pod(cluster, &uid).map_err(|error| error.to_string());
                prop_assert_eq!(error, Err(format!("no corresponding pod {uid} in pods of node n0")));
            }
            prop_assert!(overlay.pods(cluster).eq(fork.pods_on(idx)));
            prop_assert_eq!(overlay.pod_count(cluster), fork.pod_count().get(idx));
            // What a removed pod mentioned is zero in an overlay, and gone in a fork.
            let amounts = |mut of: Resources| {
                of.scalars.retain(|(_, amount)| *amount != 0);
                of
            };
            let changed = fork.requested_on(idx);
            prop_assert_eq!(amounts(overlay.requested(cluster)), amounts(changed));
            prop_assert_eq!(overlay.non_zero_requested(cluster), fork.non_zero_requested_on(idx));
            prop_assert_eq!(overlay.used_ports(cluster), fork.used_ports(idx));
            let (would_be, are) = (overlay.volumes(cluster), fork.volumes_on(idx));
            prop_assert_eq!(shown(&would_be), shown(&are));
        }
        let (asked_often, asked_late) = (overlay.volumes(cluster), asked_late.volumes(cluster));
        prop_assert_eq!(shown(&asked_often), shown(&asked_late));
        prop_assert_eq!(check(&fork), []);
        prop_assert_eq!(check(cluster), []);
    }
}

/// Preemption puts the pods of a node back one after the other, and asks each time.
#[test]
fn volumes_are_looked_at_once_whenever_their_pod_comes_or_goes() {
    let mut cluster = ClusterState::new();
    let idx = cluster.add_node(node(0, 0));
    let claim = |at: usize| json!({"name": format!("v{at}"), "persistentVolumeClaim": {"claimName": format!("c{at}")}});
    let volumes: Vec<Value> = (0..10).map(claim).collect();
    let pod = |at: usize| {
        let json = json!({
            "metadata": {"namespace": "default", "name": format!("p{at}"), "uid": format!("p{at}")},
            "spec": {"nodeName": "n0", "volumes": volumes},
        });
        Arc::new(Pod::from_value(&json).unwrap())
    };
    let pods: Vec<Arc<Pod>> = (0..20).map(pod).collect();
    for pod in &pods {
        cluster.add_pod(pod.clone()).unwrap();
    }
    let mut overlay = NodeOverlay::new(idx);
    for pod in &pods {
        overlay.remove_pod(&cluster, &pod.uid).unwrap();
    }
    for _ in 0..3 {
        overlay.volumes(&cluster);
        assert_eq!(overlay.n_volumes_looked_up(), 200);
    }
    for (at, pod) in pods.iter().enumerate() {
        overlay.add_pod(&cluster, pod);
        overlay.volumes(&cluster);
        assert_eq!(overlay.n_volumes_looked_up(), 200 + 10 * (at + 1));
    }
    assert_eq!(shown(&overlay.volumes(&cluster)), shown(&cluster.volumes_on(idx)));
}

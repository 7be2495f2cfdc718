//! Random histories: the state against its recomputation, against the model, and against a follower of its log.

use kube_scheduler_api_types::Labels;
use proptest::prelude::*;

use super::counters::{N_SPECS, assert_counts, spec};
use super::fixtures::{
    LABEL_KEYS, N_CLAIMS, NAMESPACES, attachment, claim, csi_node, namespace, node, node_name, pod,
    pod_uid, volume,
};
use super::follower::Follower;
use super::model::Model;
use crate::domains::{CounterSpec, DomainCounts};
use crate::{ClusterState, check};

#[derive(Clone, Debug)]
pub(super) enum Op {
    Node { which: u8, shape: u32 },
    RemoveNode { which: u8 },
    AddPod { which: u8, on: u8, shape: u32 },
    Confirm { which: u8, status: u32 },
    UpdatePod { which: u8, on: u8, shape: u32 },
    AssumePod { which: u8, on: u8, shape: u32 },
    ForgetPod { which: u8 },
    ForgetPodAs { which: u8, on: u8 },
    RemovePod { which: u8 },
    RefreshOrder,
    EnsureLabel { which: usize },
    DropLabel { which: usize },
    ReadLabel { which: usize },
    Count { which: usize },
    CountAll { first: usize, n: usize },
    FollowRequested,
    Follow { which: usize },
    Namespace { which: usize, shape: u32 },
    RemoveNamespace { which: usize },
    CsiNode { which: u8, shape: u32 },
    RemoveCsiNode { which: u8 },
    Attachment { which: u8, on: u8, shape: u32 },
    RemoveAttachment { which: u8 },
    Claim { which: u8, shape: u32 },
    RemoveClaim { which: u8 },
    Volume { which: u8, shape: u32 },
    RemoveVolume { which: u8 },
    CatchUp,
    Fork,
    SwapFork,
}

fn op() -> impl Strategy<Value = Op> {
    let (which, on, shape) = (any::<u8>(), 0_u8..5, any::<u32>());
    let pod_op = (which, on.clone(), shape);
    prop_oneof![
        6 => (0_u8..5, shape).prop_map(|(which, shape)| Op::Node { which, shape }),
        2 => any::<u8>().prop_map(|which| Op::RemoveNode { which }),
        4 => pod_op.clone().prop_map(|(which, on, shape)| Op::AddPod { which, on, shape }),
        3 => (which, 0_u32..2).prop_map(|(which, status)| Op::Confirm { which, status }),
        3 => pod_op.clone().prop_map(|(which, on, shape)| Op::UpdatePod { which, on, shape }),
        6 => pod_op.prop_map(|(which, on, shape)| Op::AssumePod { which, on, shape }),
        2 => which.prop_map(|which| Op::ForgetPod { which }),
        2 => (which, on).prop_map(|(which, on)| Op::ForgetPodAs { which, on }),
        3 => which.prop_map(|which| Op::RemovePod { which }),
        3 => Just(Op::RefreshOrder),
        1 => (0_usize..3).prop_map(|which| Op::EnsureLabel { which }),
        1 => (0_usize..9).prop_map(|which| Op::DropLabel { which }),
        1 => (0_usize..3).prop_map(|which| Op::ReadLabel { which }),
        2 => (0..N_SPECS).prop_map(|which| Op::Count { which }),
        1 => (0..N_SPECS, 0..N_SPECS).prop_map(|(first, n)| Op::CountAll { first, n }),
        2 => Just(Op::FollowRequested),
        6 => (0_usize..N_SPECS).prop_map(|which| Op::Follow { which }),
        2 => (0_usize..2, shape).prop_map(|(which, shape)| Op::Namespace { which, shape }),
        1 => (0_usize..2).prop_map(|which| Op::RemoveNamespace { which }),
        3 => (0_u8..5, shape).prop_map(|(which, shape)| Op::CsiNode { which, shape }),
        1 => (0_u8..5).prop_map(|which| Op::RemoveCsiNode { which }),
        3 => (0_u8..3, 0_u8..5, shape)
            .prop_map(|(which, on, shape)| Op::Attachment { which, on, shape }),
        1 => (0_u8..3).prop_map(|which| Op::RemoveAttachment { which }),
        6 => (0..N_CLAIMS, shape).prop_map(|(which, shape)| Op::Claim { which, shape }),
        2 => (0..N_CLAIMS).prop_map(|which| Op::RemoveClaim { which }),
        3 => (0_u8..3, shape).prop_map(|(which, shape)| Op::Volume { which, shape }),
        1 => (0_u8..3).prop_map(|which| Op::RemoveVolume { which }),
        3 => Just(Op::CatchUp),
        1 => Just(Op::Fork),
        1 => Just(Op::SwapFork),
    ]
}

pub(super) fn ops(n: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..n)
}

/// A state with everything it is compared with.
#[derive(Clone, Default)]
pub(super) struct CheckedCluster {
    pub(super) cluster: ClusterState,
    model: Model,
    follower: Follower,
}

impl CheckedCluster {
    /// Applies an operation to state and model, and compares what they answer.
    pub(super) fn apply(&mut self, op: &Op) {
        let Self { cluster, model, follower } = self;
        let text = |error: crate::CacheError| error.to_string();
        let before = cluster.sequence();
        let (terms_before, version_before) =
            (shown_terms(cluster), cluster.affinity_terms_version());
        let (found, expected) = match *op {
            Op::Node { which, shape } => {
                let node = node(which, shape);
                model.add_node(&node);
                let idx = cluster.update_node(node.clone());
                assert_eq!(cluster.node_idx(&node.name), Some(idx));
                (Ok(()), Ok(()))
            }
            Op::RemoveNode { which } => {
                let name = node_name(which);
                (cluster.remove_node(&name).map_err(text), model.remove_node(&name))
            }
            Op::AddPod { which, on, shape } => {
                let pod = pod(which, on, shape, 0);
                let expected = model.add_pod(&pod);
                (cluster.add_pod(pod).map(drop).map_err(text), expected)
            }
            Op::Confirm { which, status } => match cluster.pod(&pod_uid(which)).cloned() {
                Some(known) if cluster.is_assumed(&known.uid) => {
                    let mut confirmed = (*pod(which, 0, 0, status)).clone();
                    let status = confirmed.status.clone();
                    confirmed = (*known).clone();
                    confirmed.status = status;
                    let confirmed = std::sync::Arc::new(confirmed);
                    let expected = model.add_pod(&confirmed);
                    let added = cluster.add_pod(confirmed);
                    assert_eq!(added.ok(), cluster.node_of_pod(&known.uid), "it stays on its node");
                    (Ok(()), expected)
                }
                _ => (Ok(()), Ok(())),
            },
            Op::UpdatePod { which, on, shape } => {
                let pod = pod(which, on, shape, 1);
                let expected = model.update_pod(&pod);
                (cluster.update_pod(pod).map(drop).map_err(text), expected)
            }
            Op::AssumePod { which, on, shape } => {
                let pod = pod(which, on, shape, 0);
                let expected = model.assume_pod(&pod);
                (cluster.assume_pod(pod).map(drop).map_err(text), expected)
            }
            Op::ForgetPod { which } => {
                let uid = pod_uid(which);
                (cluster.forget_pod(&uid).map(drop).map_err(text), model.forget_pod(&uid))
            }
            Op::ForgetPodAs { which, on } => {
                let pod = pod(which, on, 0, 0);
                (cluster.forget_pod_as(&pod).map(drop).map_err(text), model.forget_pod_as(&pod))
            }
            Op::RemovePod { which } => {
                let uid = pod_uid(which);
                (cluster.remove_pod(&uid).map(drop).map_err(text), model.remove_pod(&uid))
            }
            Op::RefreshOrder => {
                cluster.refresh_order();
                model.refresh_order();
                assert!(!cluster.order_is_stale());
                (Ok(()), Ok(()))
            }
            Op::EnsureLabel { which } => {
                cluster.ensure_label_column(LABEL_KEYS[which]);
                (Ok(()), Ok(()))
            }
            Op::DropLabel { which } => {
                if let Some(key) = LABEL_KEYS.get(which) {
                    cluster.drop_label_column(key);
                }
                (Ok(()), Ok(()))
            }
            Op::ReadLabel { which } => {
                cluster.label_column(LABEL_KEYS[which]);
                (Ok(()), Ok(()))
            }
            Op::Count { which } => {
                cluster.counted(&spec(which));
                (Ok(()), Ok(()))
            }
            Op::CountAll { first, n } => {
                let specs = (first..first + n).map(|which| spec(which % N_SPECS));
                // The same pods twice, by the same list of terms.
                let in_all =
                    |spec| [CounterSpec { topology_key: None, ..CounterSpec::clone(&spec) }, spec];
                let specs: Vec<CounterSpec> = specs.flat_map(in_all).collect();
                for (spec, counts) in specs.iter().zip(cluster.counted_all(&specs)) {
                    let expected = DomainCounts::count(cluster, spec);
                    // Pods are not counted by whose specification no node can count.
                    if counts.eligible().is_empty() {
                        assert!(expected.eligible().is_empty(), "{spec:?}");
                    } else {
                        assert_eq!(counts.plain(cluster), expected.plain(cluster), "{spec:?}");
                    }
                }
                (Ok(()), Ok(()))
            }
            Op::FollowRequested => {
                cluster.follow_requested();
                (Ok(()), Ok(()))
            }
            Op::Follow { which } => {
                cluster.follow(&spec(which));
                (Ok(()), Ok(()))
            }
            Op::Namespace { which, shape } => {
                let namespace = namespace(which, shape);
                model.namespaces.insert(namespace.name.to_string(), namespace.labels.clone());
                cluster.upsert_object(namespace);
                (Ok(()), Ok(()))
            }
            Op::RemoveNamespace { which } => {
                let known = model.namespaces.remove(NAMESPACES[which]).is_some();
                let removed = cluster.remove_object("", "Namespace", "", NAMESPACES[which]);
                assert_eq!(removed.is_some(), known);
                (Ok(()), Ok(()))
            }
            Op::CsiNode { which, shape } => {
                cluster.upsert_object(csi_node(which, shape));
                (Ok(()), Ok(()))
            }
            Op::RemoveCsiNode { which } => {
                cluster.remove_object("storage.k8s.io", "CSINode", "", &node_name(which));
                (Ok(()), Ok(()))
            }
            Op::Attachment { which, on, shape } => {
                cluster.upsert_object(attachment(which, on, shape));
                (Ok(()), Ok(()))
            }
            Op::RemoveAttachment { which } => {
                let name = format!("a{which}");
                cluster.remove_object("storage.k8s.io", "VolumeAttachment", "", &name);
                (Ok(()), Ok(()))
            }
            Op::Claim { which, shape } => {
                cluster.upsert_object(claim(which, shape));
                (Ok(()), Ok(()))
            }
            Op::RemoveClaim { which } => {
                let claim = claim(which, 0);
                cluster.remove_object("", &claim.kind, &claim.namespace, &claim.name);
                (Ok(()), Ok(()))
            }
            Op::Volume { which, shape } => {
                cluster.upsert_object(volume(which, shape));
                (Ok(()), Ok(()))
            }
            Op::RemoveVolume { which } => {
                cluster.remove_object("", "PersistentVolume", "", &format!("pv{which}"));
                (Ok(()), Ok(()))
            }
            Op::CatchUp => {
                follower.catch_up(cluster);
                (Ok(()), Ok(()))
            }
            Op::Fork | Op::SwapFork => (Ok(()), Ok(())),
        };
        assert_eq!(found, expected, "{op:?}");
        if found.is_err() {
            assert_eq!(cluster.sequence(), before, "a refused operation changes nothing");
        }
        let has_version = cluster.affinity_terms_version() == version_before;
        assert!(
            !has_version || shown_terms(cluster) == terms_before,
            "{op:?} changes terms and keeps their version"
        );
        assert!(has_version || found.is_ok(), "a refused operation keeps the version");
    }

    pub(super) fn assert_sound(&mut self) {
        assert_eq!(check(&self.cluster), []);
        self.model.assert_shown_by(&self.cluster);
        (0..N_SPECS).for_each(|which| assert_counts(&self.cluster, &self.model, which));
        let mut follower = self.follower.clone();
        follower.catch_up(&self.cluster);
        follower.assert_up_to_date(&self.cluster);
    }
}

/// What the version of the terms stands for: the terms, whether they have domains, and which of them, by number, mean pods
/// of every namespace and label that there are.
fn shown_terms(cluster: &ClusterState) -> Vec<String> {
    /// Pods of these shapes differ by namespace and label.
    const SHAPES: [u32; 4] = [0, 1 << 10, 2 << 10, 3 << 10];

    let terms = cluster.affinity_terms();
    let all = terms.iter().map(|carried| {
        format!("{:?} {:?} {}", carried.kind(), carried.term(), carried.domains().is_empty())
    });
    let about = SHAPES.iter().map(|shape| {
        let (pod, nothing) = (pod(0, 0, *shape, 0), Labels::default());
        let labels = cluster.objects().namespace_labels(&pod.namespace).unwrap_or(&nothing);
        let mut found: Vec<String> = terms
            .about(&pod, labels, |_| true)
            .map(|(id, carried)| format!("{id:?} {:?} {:?}", carried.kind(), carried.term()))
            .collect();
        found.sort_unstable();
        format!("{} {:?}: {found:?}", pod.namespace, pod.labels)
    });
    all.chain(about).collect()
}

proptest! {
    #![proptest_config(crate::tests::cases(48))]

    /// Forks go their own ways: each of the two is compared after every step of the other.
    #[test]
    fn every_history_gives_what_the_model_gives(ops in ops(90)) {
        let (mut checked, mut other) = (CheckedCluster::default(), CheckedCluster::default());
        for op in &ops {
            match op {
                Op::Fork => other = checked.clone(),
                Op::SwapFork => std::mem::swap(&mut checked, &mut other),
                _ => checked.apply(op),
            }
            checked.assert_sound();
            other.assert_sound();
        }
    }

    #[test]
    fn the_same_history_gives_the_same_slots_and_orders(ops in ops(60)) {
        let (mut a, mut b) = (CheckedCluster::default(), CheckedCluster::default());
        for op in &ops {
            a.apply(op);
        }
        for op in &ops {
            // A reader in between, or a fork, leaves no trace.
            let fork = b.cluster.clone();
            b.apply(op);
            drop(fork);
        }
        let show = |checked: &CheckedCluster| {
            let cluster = &checked.cluster;
            let names: Vec<_> = (0..cluster.capacity())
                .map(|at| cluster.node_name(crate::NodeIdx::from_index(at)).cloned())
                .collect();
            let pods: Vec<_> = cluster.all_pods().map(|(pod, node)| (pod.uid.clone(), node)).collect();
            let assumed: Vec<_> = cluster.assumed_pods().map(|pod| pod.uid.clone()).collect();
            (names, pods, assumed, cluster.order().to_vec(), cluster.sequence())
        };
        prop_assert_eq!(show(&a), show(&b));
    }
}

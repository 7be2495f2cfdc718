//! Random clusters and pods from a small world, so that things collide often.

use std::fmt::Write as _;

use kube_scheduler_framework::testing::{self, Fixture, NodeBuilder, PodBuilder};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

const KEYS: [&str; 4] = ["zone", "disk", "gen", "topology.kubernetes.io/zone"];
const VALUES: [&str; 5] = ["a", "b", "1", "7", ""];
const IMAGES: [&str; 4] = ["img:latest", "big:1", "other:2", "reg:5000/x:latest"];

fn maybe<S: Strategy<Value = Value> + 'static>(strategy: S) -> BoxedStrategy<Value> {
    prop_oneof![2 => strategy, 1 => Just(Value::Null)].boxed()
}

fn map_of(
    keys: &'static [&'static str],
    values: impl Strategy<Value = &'static str>,
    max: usize,
) -> impl Strategy<Value = Value> {
    prop::collection::vec((select(keys), values), 0..=max).prop_map(|pairs| {
        pairs
            .into_iter()
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect::<Map<_, _>>()
            .into()
    })
}

fn taint() -> impl Strategy<Value = Value> {
    let effects = select(&["NoSchedule", "PreferNoSchedule", "NoExecute"][..]);
    (select(&KEYS[..]), select(&["", "a", "5"][..]), effects)
        .prop_map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effect}))
}

fn toleration() -> impl Strategy<Value = Value> {
    (
        select(&["", "zone", "disk", "gen", "node.kubernetes.io/unschedulable"][..]),
        select(&["", "Equal", "Exists", "Lt", "Gt", "Strange"][..]),
        select(&["", "a", "5", "4"][..]),
        select(&["", "NoSchedule", "PreferNoSchedule", "NoExecute"][..]),
    )
        .prop_map(|(key, operator, value, effect)| {
            json!({"key": key, "operator": operator, "value": value, "effect": effect})
        })
}

fn amounts(
    keys: &'static [&'static str],
    units: &'static [&'static str],
) -> impl Strategy<Value = Value> {
    map_of(keys, select(units), 4)
}

const RESOURCES: [&str; 6] =
    ["cpu", "memory", "ephemeral-storage", "example.com/gpu", "example.com/nic", "hugepages-2Mi"];

fn requests() -> impl Strategy<Value = Value> {
    amounts(&RESOURCES, &["0", "1", "2", "500m", "1Gi", "3"])
}

pub(crate) fn node(name: String) -> impl Strategy<Value = NodeBuilder> {
    let images =
        prop::collection::vec((select(&IMAGES[..]), 0_i64..2_000), 0..3).prop_map(|images| {
            let images = images
                .into_iter()
                .map(|(name, mb)| json!({"names": [name], "sizeBytes": mb * 1_048_576}));
            images.collect::<Value>()
        });
    let features = prop::sample::subsequence(
        vec!["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"],
        0..=2,
    );
    (
        map_of(&KEYS, select(&VALUES[..]), 3),
        prop::collection::vec(taint(), 0..3),
        any::<bool>(),
        amounts(&RESOURCES, &["0", "2", "4", "1Gi", "8Gi"]),
        0_u32..4,
        images,
        features,
    )
        .prop_map(
            move |(labels, taints, unschedulable, mut allocatable, pods, images, features)| {
                allocatable["pods"] = json!(pods.to_string());
                testing::node(&format!("{name} host=- cpu=- memory=- pods=-")).with(json!({
                    "metadata": {"labels": labels},
                    "spec": {"taints": taints, "unschedulable": unschedulable},
                    "status": {"images": images, "declaredFeatures": features, "allocatable": allocatable},
                }))
            },
        )
}

fn requirement() -> impl Strategy<Value = Value> {
    (
        select(&["zone", "disk", "gen", "-bad"][..]),
        select(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"][..]),
        prop::collection::vec(select(&VALUES[..]), 0..3),
    )
        .prop_map(
            |(key, operator, values)| json!({"key": key, "operator": operator, "values": values}),
        )
}

fn term() -> impl Strategy<Value = Value> {
    let field = (select(&["In", "NotIn"][..]), prop::collection::vec(select(&["n0", "n1", "gone"][..]), 1..3))
        .prop_map(|(operator, values)| json!({"key": "metadata.name", "operator": operator, "values": values}));
    (prop::collection::vec(requirement(), 0..3), prop::collection::vec(field, 0..2)).prop_map(
        |(expressions, fields)| json!({"matchExpressions": expressions, "matchFields": fields}),
    )
}

pub(crate) fn node_affinity() -> impl Strategy<Value = Value> {
    let required =
        prop::collection::vec(term(), 0..3).prop_map(|terms| json!({"nodeSelectorTerms": terms}));
    let preferred = prop::collection::vec((0_i32..20, term()), 0..3).prop_map(|terms| {
        terms
            .into_iter()
            .map(|(weight, term)| json!({"weight": weight, "preference": term}))
            .collect::<Value>()
    });
    (maybe(required), maybe(preferred)).prop_map(|(required, preferred)| {
        json!({
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        })
    })
}

fn port() -> impl Strategy<Value = Value> {
    (
        select(&["", "0.0.0.0", "127.0.0.1", "::"][..]),
        select(&["", "TCP", "UDP"][..]),
        select(&[0, 80, 81][..]),
    )
        .prop_map(|(ip, protocol, port)| {
            json!({"hostIP": ip, "protocol": protocol, "hostPort": port, "containerPort": 1})
        })
}

fn containers(max: usize) -> impl Strategy<Value = Value> {
    let container = (
        requests(),
        prop::collection::vec(port(), 0..2),
        select(&["img", "big:1", "other:2", "none"][..]),
    );
    prop::collection::vec(container, 1..=max).prop_map(|containers| {
        let containers = containers.into_iter().enumerate().map(|(i, (requests, ports, image))| {
            json!({"name": format!("c{i}"), "image": image, "ports": ports, "resources": {"requests": requests}})
        });
        containers.collect::<Value>()
    })
}

/// Volumes, of which some are known to [`storage`]. None of them is for one pod only: what that means depends on other
/// nodes too.
fn volumes(max: usize) -> impl Strategy<Value = Value> {
    let claimed = |name: &str| json!({"persistentVolumeClaim": {"claimName": name}});
    let sources = vec![
        claimed("attached"),
        claimed("migrated"),
        claimed("pending"),
        claimed("placed"),
        claimed("gone"),
        json!({"gcePersistentDisk": {"pdName": "disk"}}),
        json!({"gcePersistentDisk": {"pdName": "disk", "readOnly": true}}),
        json!({"awsElasticBlockStore": {"volumeID": "vol-1"}}),
        json!({"iscsi": {"iqn": "target"}}),
        json!({"hostPath": {"path": "/"}}),
        json!({"configMap": {"name": "settings"}}),
    ];
    prop::collection::vec(select(sources), 0..=max).prop_map(|sources| {
        let named = sources.into_iter().enumerate().map(|(i, mut source)| {
            source["name"] = json!(format!("v{i}"));
            source
        });
        named.collect::<Value>()
    })
}

/// Claims, volumes and a class, and limits for every node.
fn storage(limits: &[(i64, Option<i64>)], attached: &[usize]) -> String {
    let mut objects = "
        pvc attached volume=csi; pv csi csi=csi.example.com:h
        pvc migrated volume=ebs; pv ebs {\"spec\": {\"awsElasticBlockStore\": {\"volumeID\": \"vol-1\"}}}
        pvc pending class=late; storageclass late provisioner=csi.example.com
        pvc placed volume=zonal
        pv zonal label:topology.kubernetes.io/zone=a__b {\"spec\": {\"hostPath\": {\"path\": \"/\"}}}
        attachment attachment driver=csi.example.com node=n1 volume=csi
    "
    .to_owned();
    for (i, node) in attached.iter().enumerate() {
        let _ =
            writeln!(objects, "attachment more{i} driver=csi.example.com node=n{node} volume=csi");
    }
    for (i, (csi, ebs)) in limits.iter().enumerate() {
        let ebs = json!({"name": "ebs.csi.aws.com", "allocatable": {"count": ebs}});
        let _ = writeln!(objects, "csinode n{i} driver=csi.example.com:{csi} driver={ebs}");
    }
    objects
}

pub(crate) fn pod(name: String) -> impl Strategy<Value = PodBuilder> {
    (
        containers(2),
        prop::collection::vec(toleration(), 0..3),
        maybe(map_of(&KEYS, select(&VALUES[..]), 2)),
        maybe(node_affinity()),
        select(&["", "", "", "n0", "gone"][..]),
        any::<(bool, bool)>(),
        maybe(requests()),
        volumes(2),
    )
        .prop_map(
            move |(
                containers,
                tolerations,
                selector,
                affinity,
                node_name,
                (host_network, host_users),
                level,
                volumes,
            )| {
                let pod = testing::pod(&name).with(json!({"spec": {
                    "containers": containers,
                    "tolerations": tolerations,
                    "nodeSelector": selector,
                    "affinity": {"nodeAffinity": affinity},
                    "hostNetwork": host_network,
                    "hostUsers": host_users,
                    "resources": {"requests": level},
                    "volumes": volumes,
                }}));
                if node_name.is_empty() { pod } else { pod.on(node_name) }
            },
        )
}

/// Up to six nodes with pods on them; some keys have label columns, one node may be gone from under its pods.
pub(crate) fn world() -> impl Strategy<Value = Fixture> {
    let nodes =
        (1_usize..6).prop_flat_map(|n| (0..n).map(|i| node(format!("n{i}"))).collect::<Vec<_>>());
    let pods = prop::collection::vec((0_usize..6, containers(1), volumes(2)), 0..8);
    // From full to ample; a driver may have no limit.
    let limits = prop::collection::vec((0_i64..5, prop::option::of(0_i64..4)), 0..6);
    let attached = prop::collection::vec(0_usize..6, 0..4);
    let columns = prop::sample::subsequence(KEYS.to_vec(), 0..=3);
    (nodes, pods, columns, any::<bool>(), any::<bool>(), limits, attached).prop_map(
        |(nodes, pods, columns, has_ghost, has_class, limits, attached)| {
            let n = nodes.len();
            let mut world = nodes.into_iter().fold(Fixture::new(), Fixture::with_node);
            for (i, (at, containers, volumes)) in pods.into_iter().enumerate() {
                let spec = json!({"containers": containers, "volumes": volumes});
                world = world.with_pod(
                    testing::pod(&format!("run{i} node=n{}", at % n)).with(json!({"spec": spec})),
                );
            }
            let class = if has_class { "deviceclass gpu resource=example.com/gpu" } else { "" };
            world = world.with(&storage(&limits, &attached)).with(class);
            for key in columns {
                world.cluster_mut().ensure_label_column(key);
            }
            if has_ghost && n > 1 {
                world.cluster_mut().remove_node("n0").unwrap();
                world.cluster_mut().refresh_order();
            }
            world
        },
    )
}

/// One change to one node.
pub(crate) fn changed(name: String) -> impl Strategy<Value = (NodeBuilder, Vec<&'static str>)> {
    // The parts that are taken from another random node; the rest stays.
    let parts = prop::sample::subsequence(
        vec!["labels", "taints", "unschedulable", "allocatable", "images", "features"],
        1..=2,
    );
    (node(name), parts)
}

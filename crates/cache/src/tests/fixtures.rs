//! Small nodes and pods, by number: a few bits of a number choose every property that matters.

use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod};

pub(super) const LABEL_KEYS: [&str; 3] =
    ["topology.kubernetes.io/zone", "disk", "kubernetes.io/hostname"];
pub(super) const N_NODES: u8 = 6;
pub(super) const N_PODS: u8 = 10;

pub(super) fn node_name(which: u8) -> String {
    format!("n{}", which % N_NODES)
}

pub(super) fn pod_uid(which: u8) -> String {
    format!("u{}", which % N_PODS)
}

/// A node: zones, other labels, taints, sizes, images, cordon and annotations vary with `shape`.
pub(super) fn node(which: u8, shape: u32) -> Arc<Node> {
    let pick = |shift: u32, n: u32| (shape >> shift) % n;
    let name = node_name(which);
    let zone = [
        "",
        r#","topology.kubernetes.io/zone":"a""#,
        r#","topology.kubernetes.io/zone":"b""#,
        r#","failure-domain.beta.kubernetes.io/region":"r","topology.kubernetes.io/zone":"a""#,
    ][pick(0, 4) as usize];
    let disk = ["", r#","disk":"""#, r#","disk":"ssd""#, r#","disk":"hdd""#][pick(2, 4) as usize];
    let taints = [
        "",
        r#"{"key":"x","effect":"NoSchedule"}"#,
        r#"{"key":"x","effect":"NoSchedule"},{"key":"y","value":"1","effect":"NoExecute"}"#,
        r#"{"key":"y","value":"1","effect":"NoExecute"},{"key":"x","effect":"NoSchedule"}"#,
    ][pick(4, 4) as usize];
    let gpu =
        ["", r#","example.com/gpu":"0""#, r#","example.com/gpu":"4""#, r#","hugepages-2Mi":"4Mi""#]
            [pick(6, 4) as usize];
    let images = [
        "",
        r#"{"names":["img-a","img-a:1"],"sizeBytes":10}"#,
        r#"{"names":["img-a"],"sizeBytes":20},{"names":["img-b"],"sizeBytes":5}"#,
        r#"{"names":["img-b","img-b"],"sizeBytes":7},{"names":["img-a","img-b"],"sizeBytes":30}"#,
    ][pick(8, 4) as usize];
    let is_cordoned = pick(10, 2) == 1;
    let (cpu, pods, note, ready) = (1 + pick(11, 3), 10 + pick(13, 2), pick(14, 2), pick(15, 2));
    let uid = pick(16, 8) / 7;
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","uid":"{name}-{uid}","annotations":{{"note":"{note}"}},
            "labels":{{"kubernetes.io/hostname":"{name}"{zone}{disk}}}}},
        "spec":{{"unschedulable":{is_cordoned},"taints":[{taints}]}},
        "status":{{"allocatable":{{"cpu":"{cpu}","memory":"1Gi","pods":"{pods}"{gpu}}},
            "conditions":[{{"type":"Ready","status":"{ready}"}}],"images":[{images}]}}}}"#
    );
    Arc::new(Node::from_json(json).unwrap())
}

/// A node with these labels, each with the name of the node as its value.
pub(super) fn labelled<'a>(which: u8, keys: impl IntoIterator<Item = &'a str>) -> Arc<Node> {
    let name = format!("n{which}");
    let labels: serde_json::Map<_, _> =
        keys.into_iter().map(|key| (key.to_owned(), name.clone().into())).collect();
    let json = serde_json::json!({"metadata": {"name": name, "uid": name, "labels": labels}});
    Arc::new(Node::from_value(&json).unwrap())
}

/// A pod on a node: requests, ports, affinity, claims and labels vary with `shape`, the status with `status`.
pub(super) fn pod(which: u8, on: u8, shape: u32, status: u32) -> Arc<Pod> {
    let pick = |shift: u32, n: u32| (shape >> shift) % n;
    let gpu = [
        "",
        r#","example.com/gpu":"0""#,
        r#","example.com/gpu":"2""#,
        r#","example.com/fpga":"1""#,
    ][pick(0, 4) as usize];
    let ports = [
        "",
        r#"{"containerPort":80,"hostPort":80}"#,
        r#"{"containerPort":80,"hostPort":80,"hostIP":"10.0.0.1"},{"containerPort":81,"hostPort":81,"protocol":"UDP"}"#,
        r#"{"containerPort":80,"hostPort":80,"hostIP":"10.0.0.1"}"#,
    ][pick(2, 4) as usize];
    let affinity = affinity(shape);
    let claims = [
        "",
        r#"{"name":"v","persistentVolumeClaim":{"claimName":"c1"}}"#,
        r#"{"name":"v","persistentVolumeClaim":{"claimName":"c1"}},{"name":"w","persistentVolumeClaim":{"claimName":"c1"}}"#,
        r#"{"name":"v","persistentVolumeClaim":{"claimName":"c2"}},{"name":"w","ephemeral":{"volumeClaimTemplate":{"spec":{}}}}"#,
        r#"{"name":"v","azureDisk":{"diskName":"d"}},{"name":"w","emptyDir":{}},{"name":"x","persistentVolumeClaim":{"claimName":""}}"#,
    ][(pick(6, 4) + pick(21, 2)) as usize];
    let (cpu, namespace, app) =
        (100 * pick(8, 3), ["default", "other"][pick(10, 2) as usize], pick(11, 2));
    let priority = [-5, 0, 7][pick(14, 3) as usize];
    let (uid, node) = (pod_uid(which), node_name(on));
    let deleted =
        if pick(12, 4) == 1 { r#""deletionTimestamp":"2026-01-01T00:00:00Z","# } else { "" };
    let json = format!(
        r#"{{"metadata":{{"name":"{uid}-name","namespace":"{namespace}","uid":"{uid}",{deleted}"labels":{{"app":"{app}"}}}},
        "spec":{{"nodeName":"{node}","priority":{priority},"affinity":{{{affinity}}},"volumes":[{claims}],
            "containers":[{{"name":"c","ports":[{ports}],"resources":{{"requests":{{"cpu":"{cpu}m","memory":"1Mi"{gpu}}}}}}}]}},
        "status":{{"conditions":[{{"type":"Ready","status":"{status}"}}]}}}}"#
    );
    Arc::new(Pod::from_json(json).unwrap())
}

pub(super) const NAMESPACES: [&str; 2] = ["default", "other"];

/// A namespace: one label or none.
pub(super) fn namespace(which: usize, shape: u32) -> Arc<Object> {
    let name = NAMESPACES[which % 2];
    let labels = ["", r#""team":"red""#, r#""team":"blue""#][(shape % 3) as usize];
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}","labels":{{{labels}}}}}}}"#
    );
    Arc::new(Object::from_json(json).unwrap())
}

/// The drivers of a node: none, with and without limits, the same twice, something broken.
pub(super) fn csi_node(which: u8, shape: u32) -> Arc<Object> {
    let name = node_name(which);
    let drivers = [
        "",
        r#"{"name":"ebs","allocatable":{"count":3}}"#,
        r#"{"name":"ebs"},{"name":"nfs","allocatable":{"count":0}}"#,
        r#"{"name":"ebs","allocatable":{"count":3}},{"name":"ebs","allocatable":{"count":4}}"#,
        r#"{"name":7,"allocatable":{"count":"many"}},{"name":"ebs"}"#,
    ][(shape % 5) as usize];
    let json = format!(
        r#"{{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{{"name":"{name}"}},"spec":{{"drivers":[{drivers}]}}}}"#
    );
    Arc::new(Object::from_json(json).unwrap())
}

/// A volume that is attached to a node; that of an inline volume and one without attacher are among them.
pub(super) fn attachment(which: u8, on: u8, shape: u32) -> Arc<Object> {
    let node = node_name(on);
    let source = [
        r#""persistentVolumeName":"pv1""#,
        r#""persistentVolumeName":"pv2""#,
        r#""inlineVolumeSpec":{}"#,
    ][(shape % 3) as usize];
    let attacher = ["ebs", "nfs", ""][((shape >> 8) % 3) as usize];
    let json = format!(
        r#"{{"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{{"name":"a{which}"}},
            "spec":{{"attacher":"{attacher}","nodeName":"{node}","source":{{{source}}}}}}}"#
    );
    Arc::new(Object::from_json(json).unwrap())
}

pub(super) const N_CLAIMS: u8 = 3 * 2 + N_PODS;

/// A claim that pods name, or that of the ephemeral volume of one: in this namespace or that, with and without a volume, class and
/// owner.
pub(super) fn claim(which: u8, shape: u32) -> Arc<Object> {
    let pick = |shift: u32, n: u32| (shape >> shift) % n;
    let (namespace, name, owner) = match which {
        0..6 => (
            NAMESPACES[usize::from(which % 2)],
            ["c1", "c2", ""][usize::from(which / 2)].to_owned(),
            0,
        ),
        _ => (NAMESPACES[0], format!("{}-name-w", pod_uid(which)), which),
    };
    let volume = ["", r#""volumeName":"""#, r#""volumeName":"pv0""#, r#""volumeName":"pv1""#]
        [pick(0, 4) as usize];
    let class =
        ["", r#","storageClassName":"fast""#, r#","storageClassName":"""#][pick(2, 3) as usize];
    let class = if volume.is_empty() { class.trim_start_matches(',') } else { class };
    let owner = [pod_uid(owner), "another".to_owned()][usize::from(pick(5, 4) == 3)].clone();
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim",
            "metadata":{{"name":"{name}","namespace":"{namespace}","ownerReferences":[{{"uid":"{owner}","controller":true}}]}},
            "spec":{{{volume}{class}}}}}"#
    );
    Arc::new(Object::from_json(json).unwrap())
}

/// A persistent volume: of CSI drivers, two with the same handle, of an in-tree plugin that is migrated, of none.
pub(super) fn volume(which: u8, shape: u32) -> Arc<Object> {
    let source = [
        r#""csi":{"driver":"ebs","volumeHandle":"h"}"#,
        r#""csi":{"driver":"ebs","volumeHandle":"i"}"#,
        r#""csi":{"driver":"ebs","volumeHandle":""}"#,
        r#""azureDisk":{"diskName":"d","diskURI":"h"}"#,
        r#""nfs":{}"#,
    ][(shape % 5) as usize];
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"PersistentVolume","metadata":{{"name":"pv{which}"}},"spec":{{{source}}}}}"#
    );
    Arc::new(Object::from_json(json).unwrap())
}

/// Terms of all kinds, by bits 4 to 6 and 12 to 20: none, empty, one, the same twice, with a namespace selector, broken.
fn affinity(shape: u32) -> String {
    let pick = |shift: u32, n: u32| (shape >> shift) % n;
    let key = ["z", LABEL_KEYS[0], LABEL_KEYS[1], LABEL_KEYS[2]][pick(12, 4) as usize];
    let namespaces =
        ["", r#","namespaceSelector":{"matchLabels":{"team":"a"}}"#][pick(14, 2) as usize];
    let operator = ["In", "Sideways"][usize::from(pick(15, 8) == 7)];
    let term = format!(
        r#"{{"topologyKey":"{key}"{namespaces},
            "labelSelector":{{"matchExpressions":[{{"key":"app","operator":"{operator}","values":["1"]}}]}}}}"#
    );
    let terms = [term.clone(), format!("{term},{term}")][pick(18, 2) as usize].clone();
    let required = format!(r#""requiredDuringSchedulingIgnoredDuringExecution":[{terms}]"#);
    let weight = 1 + pick(19, 2);
    let preferred = format!(
        r#""preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":{weight},"podAffinityTerm":{term}}}]"#
    );
    match pick(4, 8) {
        0 => String::new(),
        1 => r#""podAffinity":{}"#.to_owned(),
        2 => r#""podAntiAffinity":{}"#.to_owned(),
        3 => format!(r#""podAntiAffinity":{{{required}}}"#),
        4 => format!(r#""podAffinity":{{{required},{preferred}}}"#),
        _ => {
            format!(r#""podAntiAffinity":{{{required},{preferred}}},"podAffinity":{{{preferred}}}"#)
        }
    }
}

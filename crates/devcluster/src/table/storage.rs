//! Tables of volumes, claims, classes, and of the kinds of CSI and dynamic resources.

use jiff::Timestamp;
use serde_json::Value;

use super::{Column, Layout, age, column, name, number, or, wide};
use crate::object::{at, list_at, text_at};

const VOLUME: &[Column] = &[
    column("Name"),
    column("Capacity"),
    column("Access Modes"),
    column("Reclaim Policy"),
    column("Status"),
    column("Claim"),
    column("StorageClass"),
    column("VolumeAttributesClass"),
    column("Reason"),
    column("Age"),
    wide("VolumeMode"),
];
const CLAIM: &[Column] = &[
    column("Name"),
    column("Status"),
    column("Volume"),
    column("Capacity"),
    column("Access Modes"),
    column("StorageClass"),
    column("VolumeAttributesClass"),
    column("Age"),
    wide("VolumeMode"),
];
const STORAGE_CLASS: &[Column] = &[
    column("Name"),
    column("Provisioner"),
    column("ReclaimPolicy"),
    column("VolumeBindingMode"),
    column("AllowVolumeExpansion"),
    column("Age"),
];

pub(super) fn layout(kind: &str) -> Option<Layout> {
    Some(match kind {
        "PersistentVolume" => Layout { columns: VOLUME, cells: volume },
        "PersistentVolumeClaim" => Layout { columns: CLAIM, cells: claim },
        "StorageClass" => Layout { columns: STORAGE_CLASS, cells: storage_class },
        "CSINode" => Layout {
            columns: const { &[column("Name"), number("Drivers"), column("Age")] },
            cells: |value, now| {
                vec![
                    name(value),
                    list_at(value, &["spec", "drivers"]).len().into(),
                    age(value, now),
                ]
            },
        },
        "CSIDriver" => Layout {
            columns: const {
                &[column("Name"), column("AttachRequired"), column("PodInfoOnMount"), column("Age")]
            },
            cells: |value, now| {
                let flag = |field: &str, default: bool| {
                    at(value, &["spec", field])
                        .and_then(Value::as_bool)
                        .unwrap_or(default)
                        .to_string()
                        .into()
                };
                vec![
                    name(value),
                    flag("attachRequired", true),
                    flag("podInfoOnMount", false),
                    age(value, now),
                ]
            },
        },
        "ResourceClaim" => Layout {
            columns: const { &[column("Name"), column("State"), column("Age")] },
            cells: |value, now| {
                let allocated = at(value, &["status", "allocation"]).is_some();
                let reserved = !list_at(value, &["status", "reservedFor"]).is_empty();
                let state = match (allocated, reserved) {
                    (true, true) => "allocated,reserved",
                    (true, false) => "allocated",
                    (false, _) => "pending",
                };
                vec![name(value), state.into(), age(value, now)]
            },
        },
        "ResourceSlice" => Layout {
            columns: const {
                &[column("Name"), column("Node"), column("Driver"), column("Pool"), column("Age")]
            },
            cells: |value, now| {
                vec![
                    name(value),
                    or(text_at(value, &["spec", "nodeName"]), "<none>"),
                    text_at(value, &["spec", "driver"]).into(),
                    text_at(value, &["spec", "pool", "name"]).into(),
                    age(value, now),
                ]
            },
        },
        _ => return None,
    })
}

fn modes(value: &Value, path: &[&str]) -> Value {
    let short = |mode: &str| match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "?",
    };
    let modes: Vec<&str> =
        list_at(value, path).iter().filter_map(Value::as_str).map(short).collect();
    modes.join(",").into()
}

fn volume(value: &Value, now: Timestamp) -> Vec<Value> {
    let claim = text_at(value, &["spec", "claimRef", "name"]);
    let claim = if claim.is_empty() {
        String::new()
    } else {
        format!("{}/{claim}", text_at(value, &["spec", "claimRef", "namespace"]))
    };
    vec![
        name(value),
        text_at(value, &["spec", "capacity", "storage"]).into(),
        modes(value, &["spec", "accessModes"]),
        text_at(value, &["spec", "persistentVolumeReclaimPolicy"]).into(),
        text_at(value, &["status", "phase"]).into(),
        claim.into(),
        text_at(value, &["spec", "storageClassName"]).into(),
        or(text_at(value, &["spec", "volumeAttributesClassName"]), "<unset>"),
        text_at(value, &["status", "reason"]).into(),
        age(value, now),
        or(text_at(value, &["spec", "volumeMode"]), "<unset>"),
    ]
}

fn claim(value: &Value, now: Timestamp) -> Vec<Value> {
    let bound = !text_at(value, &["spec", "volumeName"]).is_empty();
    vec![
        name(value),
        text_at(value, &["status", "phase"]).into(),
        text_at(value, &["spec", "volumeName"]).into(),
        if bound { text_at(value, &["status", "capacity", "storage"]).into() } else { "".into() },
        if bound { modes(value, &["status", "accessModes"]) } else { "".into() },
        text_at(value, &["spec", "storageClassName"]).into(),
        or(text_at(value, &["spec", "volumeAttributesClassName"]), "<unset>"),
        age(value, now),
        or(text_at(value, &["spec", "volumeMode"]), "<unset>"),
    ]
}

fn storage_class(value: &Value, now: Timestamp) -> Vec<Value> {
    let is_default =
        at(value, &["metadata", "annotations", "storageclass.kubernetes.io/is-default-class"])
            .is_some_and(|flag| flag == "true");
    let own = text_at(value, &["metadata", "name"]);
    vec![
        if is_default { format!("{own} (default)").into() } else { own.into() },
        text_at(value, &["provisioner"]).into(),
        or(text_at(value, &["reclaimPolicy"]), "Delete"),
        or(text_at(value, &["volumeBindingMode"]), "Immediate"),
        at(value, &["allowVolumeExpansion"])
            .and_then(Value::as_bool)
            .unwrap_or(false)
            .to_string()
            .into(),
        age(value, now),
    ]
}

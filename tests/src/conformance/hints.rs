//! Queueing hints: whether an event makes a plugin that turned a pod down want it tried again.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use kube_scheduler_api_types::{Node, Object, Pod, Timestamp};
use kube_scheduler_config::{FeatureGates, load};
use kube_scheduler_engine::{Engine, EngineOptions, Input};
use kube_scheduler_framework::{ActionType, ClusterEvent, EventObject, EventResource};
use kube_scheduler_runtime::cluster_alone;
use serde_json::{Value, json};

use super::decisions::with_type;
use super::{Report, name_of, text};

pub(super) fn judge(case: &Value, report: &mut Report) {
    let engine = engine(&case["cluster"]);
    for (at, hint) in case["cases"].as_array().into_iter().flatten().enumerate() {
        let difference = engine
            .as_ref()
            .map_err(|error| anyhow!("{error:#}"))
            .and_then(|engine| difference(engine, hint))
            .unwrap_or_else(|error| Some(format!("{error:#}")));
        let label = || {
            format!(
                "{} case {at} {}/{}",
                name_of(case),
                text(&hint["resource"]),
                text(&hint["action"])
            )
        };
        report.count(label, difference);
    }
}

fn engine(cluster: &Value) -> Result<Engine> {
    let gates = FeatureGates::default();
    let source = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"});
    let config = load(&source.to_string(), &gates)?;
    let options = EngineOptions::default();
    let mut engine = Engine::new(&config, &kube_scheduler_plugins_intree::registry(), options)?;
    for (list, objects) in cluster.as_object().into_iter().flatten() {
        for object in objects.as_array().into_iter().flatten() {
            let input = match list.as_str() {
                "nodes" => Input::NodeApplied(Arc::new(Node::from_value(object)?)),
                "pods" => Input::PodApplied(Arc::new(Pod::from_value(object)?)),
                _ => Input::ObjectApplied(Arc::new(Object::from_value(with_type(list, object)?)?)),
            };
            engine.handle(input, Timestamp::EPOCH);
        }
    }
    Ok(engine)
}

fn difference(engine: &Engine, case: &Value) -> Result<Option<String>> {
    let pod = Pod::from_value(&case["pod"])?;
    let event =
        ClusterEvent::new(resource(text(&case["resource"]))?, action(text(&case["action"]))?);
    let old = object(event.resource(), &case["old"])?;
    let new = object(event.resource(), &case["new"])?;
    let cx = cluster_alone(engine.cluster(), Timestamp::EPOCH).unrecorded();
    let mut said: BTreeMap<&str, String> = BTreeMap::new();
    let profile = engine.profiles().first().context("a profile")?;
    for entry in profile.plugins() {
        let Some(extensions) = entry.plugin.as_enqueue_extensions() else { continue };
        let matching: Vec<_> = extensions
            .events_to_register()
            .into_iter()
            .filter(|registration| registration.event.matches(&event))
            .collect();
        for registration in matching {
            let answer = match &registration.hint {
                None => "Queue".to_owned(),
                Some(_) if !registration.concerns(&cx, &pod, old.as_ref(), new.as_ref()) => {
                    "QueueSkip".to_owned()
                }
                Some(hint) => match hint(&cx, &pod, old.as_ref(), new.as_ref()) {
                    Ok(true) => "Queue".to_owned(),
                    Ok(false) => "QueueSkip".to_owned(),
                    Err(error) => format!("error: {error}"),
                },
            };
            let known = said.entry(&*entry.name).or_insert_with(|| answer.clone());
            if known == "QueueSkip" {
                *known = answer;
            }
        }
    }
    let recorded: BTreeMap<&str, String> = case["hints"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(plugin, answer)| (plugin.as_str(), text(answer).to_owned()))
        .collect();
    Ok((said != recorded).then(|| format!("hints are {said:?}, recorded are {recorded:?}")))
}

fn resource(name: &str) -> Result<EventResource> {
    Ok(match name {
        "AssignedPod" => EventResource::AssignedPod,
        "UnschedulablePod" => EventResource::UnschedulablePod,
        "Node" => EventResource::Node,
        "PersistentVolume" => EventResource::PersistentVolume,
        "PersistentVolumeClaim" => EventResource::PersistentVolumeClaim,
        "storage.k8s.io/StorageClass" => EventResource::StorageClass,
        "storage.k8s.io/CSINode" => EventResource::CsiNode,
        "storage.k8s.io/CSIDriver" => EventResource::CsiDriver,
        "storage.k8s.io/CSIStorageCapacity" => EventResource::CsiStorageCapacity,
        "storage.k8s.io/VolumeAttachment" => EventResource::VolumeAttachment,
        "resource.k8s.io/ResourceClaim" => EventResource::ResourceClaim,
        "resource.k8s.io/ResourceSlice" => EventResource::ResourceSlice,
        "resource.k8s.io/DeviceClass" => EventResource::DeviceClass,
        other => return Err(anyhow!("unknown resource {other:?}")),
    })
}

fn action(name: &str) -> Result<ActionType> {
    Ok(match name {
        "Add" => ActionType::ADD,
        "Delete" => ActionType::DELETE,
        "Update" => ActionType::UPDATE,
        "UpdateNodeAllocatable" => ActionType::UPDATE_NODE_ALLOCATABLE,
        "UpdateNodeLabel" => ActionType::UPDATE_NODE_LABEL,
        "UpdateNodeTaint" => ActionType::UPDATE_NODE_TAINT,
        "UpdatePodGeneratedResourceClaim" => ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        "UpdatePodLabel" => ActionType::UPDATE_POD_LABEL,
        "UpdatePodScaleDown" => ActionType::UPDATE_POD_SCALE_DOWN,
        "UpdatePodToleration" => ActionType::UPDATE_POD_TOLERATION,
        other => return Err(anyhow!("unknown action {other:?}")),
    })
}

fn object(resource: &EventResource, value: &Value) -> Result<Option<EventObject>> {
    if value.is_null() {
        return Ok(None);
    }
    Ok(Some(match resource {
        EventResource::Node => EventObject::Node(Arc::new(Node::from_value(value)?)),
        EventResource::AssignedPod | EventResource::UnschedulablePod => {
            EventObject::Pod(Arc::new(Pod::from_value(value)?))
        }
        EventResource::PersistentVolume => other("persistentVolumes", value)?,
        EventResource::PersistentVolumeClaim => other("persistentVolumeClaims", value)?,
        EventResource::StorageClass => other("storageClasses", value)?,
        EventResource::CsiNode => other("csiNodes", value)?,
        EventResource::CsiDriver => other("csiDrivers", value)?,
        EventResource::CsiStorageCapacity => other("csiStorageCapacities", value)?,
        EventResource::VolumeAttachment => other("volumeAttachments", value)?,
        EventResource::ResourceClaim => other("resourceClaims", value)?,
        EventResource::ResourceSlice => other("resourceSlices", value)?,
        EventResource::DeviceClass => other("deviceClasses", value)?,
        _ => return Err(anyhow!("no objects of {resource:?} are recorded")),
    }))
}

fn other(list: &str, value: &Value) -> Result<EventObject> {
    Ok(EventObject::Other(Arc::new(Object::from_value(with_type(list, value)?)?)))
}

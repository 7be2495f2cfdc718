//! Pods.

use std::sync::Arc;

use crate::affinity::{NodeAffinity, PodAffinity};
use crate::features::{RESTART_ALL_CONTAINERS, USER_NAMESPACES_HOST_NETWORK};
use crate::images::normalized_image_name;
use crate::names::may_be_dra_extended_resource;
use crate::node_claims::NodeResourceClaim;
use crate::options::CompileOptions;
use crate::pod::{
    ConditionText, ContainerResources, ControllerRef, ExtendedResourceClaim, HostPort, Pod,
    PodCondition, PodImages, PodResourceClaim, PodSpec, PodStatus, RequestMapping,
};
use crate::requests::PodRequests;
use crate::storage::Volume;
use crate::taint::{TaintEffect, Toleration, TolerationOperator};
use crate::topology::TopologySpreadConstraint;
use crate::wire;

const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";
const DEFAULT_HOST_IP: &str = "0.0.0.0";
const DEFAULT_PROTOCOL: &str = "TCP";

impl Pod {
    /// Compiles a pod under the default feature gates.
    pub fn from_wire(pod: &wire::Pod) -> Self {
        Self::from_wire_with(pod, &CompileOptions::default())
    }

    /// Compiles a pod. A missing scheduler name becomes `default-scheduler`, as the API server would have it.
    pub(crate) fn from_wire_with(pod: &wire::Pod, options: &CompileOptions) -> Self {
        let metadata = &pod.metadata;
        let status = status(&pod.status);
        Self {
            uid: metadata.uid.0.clone(),
            namespace: metadata.namespace.0.clone(),
            name: metadata.name.0.clone(),
            resource_version: metadata.resource_version.0.clone(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.0,
            deletion_requested: metadata.deletion_timestamp.0,
            labels: metadata.labels.clone(),
            controller: controller(metadata),
            node_name: nonempty(&pod.spec.node_name),
            requests: Arc::new(requests(pod, &status, options)),
            volumes: volumes(&pod.spec),
            spec: Arc::new(spec(pod, options)),
            status: Arc::new(status),
            source: None,
        }
    }
}

impl Toleration {
    /// Makes a toleration of its JSON form.
    pub fn from_wire(toleration: &wire::Toleration) -> Self {
        Self {
            key: toleration.key.0.clone(),
            operator: TolerationOperator::from(&toleration.operator.0),
            value: toleration.value.0.clone(),
            effect: nonempty(&toleration.effect).as_ref().map(TaintEffect::from),
            toleration_seconds: toleration.toleration_seconds,
        }
    }
}

fn requests(pod: &wire::Pod, status: &PodStatus, options: &CompileOptions) -> PodRequests {
    let requests = PodRequests::from_wire(pod, options);
    match &*status.node_resource_claims {
        [] => requests,
        claims => requests.with_claims(claims),
    }
}

fn nonempty(text: &wire::Text) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| text.0.clone())
}

fn controller(metadata: &wire::ObjectMeta) -> Option<Arc<ControllerRef>> {
    let owner = metadata.owner_references.iter().find(|owner| owner.controller == Some(true))?;
    Some(Arc::new(ControllerRef {
        api_version: owner.api_version.0.clone(),
        kind: owner.kind.0.clone(),
        name: owner.name.0.clone(),
        uid: owner.uid.0.clone(),
    }))
}

fn spec(pod: &wire::Pod, options: &CompileOptions) -> PodSpec {
    let spec = &pod.spec;
    let namespace = &pod.metadata.namespace.0;
    let affinity = spec.affinity.as_deref();
    let pod_affinity =
        |affinity: &wire::PodAffinity| Arc::new(PodAffinity::from_wire(affinity, namespace));
    let constraint = |constraint: &wire::TopologySpreadConstraint| {
        TopologySpreadConstraint::from_wire(constraint, &pod.metadata.labels, options)
    };
    PodSpec {
        // Objects from files have not passed the API server, which fills this in.
        scheduler_name: nonempty(&spec.scheduler_name)
            .unwrap_or_else(|| DEFAULT_SCHEDULER_NAME.into()),
        priority: spec.priority,
        never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
        node_selector: spec.node_selector.clone(),
        node_affinity: affinity
            .and_then(|a| a.node_affinity.as_ref())
            .map(|a| Arc::new(NodeAffinity::from_wire(a))),
        pod_affinity: affinity.and_then(|a| a.pod_affinity.as_ref()).map(pod_affinity),
        pod_anti_affinity: affinity.and_then(|a| a.pod_anti_affinity.as_ref()).map(pod_affinity),
        tolerations: spec.tolerations.iter().map(Toleration::from_wire).collect(),
        topology_spread_constraints: spec
            .topology_spread_constraints
            .iter()
            .map(constraint)
            .collect(),
        host_ports: host_ports(spec),
        host_port_numbers: host_port_numbers(spec),
        images: images(spec),
        scheduling_gates: spec.scheduling_gates.iter().map(|gate| gate.name.0.clone()).collect(),
        resource_claims: spec
            .resource_claims
            .iter()
            .map(|claim| PodResourceClaim {
                name: claim.name.0.clone(),
                claim: claim.resource_claim_name.as_ref().map(|name| name.0.clone()),
                template: claim.resource_claim_template_name.as_ref().map(|name| name.0.clone()),
            })
            .collect(),
        device_users: device_users(spec),
        pod_group: spec
            .scheduling_group
            .as_ref()
            .and_then(|group| group.pod_group_name.as_ref())
            .and_then(nonempty),
        required_features: required_features(spec),
    }
}

fn device_users(spec: &wire::PodSpec) -> Arc<[ContainerResources]> {
    let containers = || {
        let init =
            spec.init_containers.iter().map(|container| (container, !container.is_restartable()));
        init.chain(spec.containers.iter().map(|container| (container, false)))
    };
    let uses_devices = |container: &wire::Container| {
        let resources = &container.resources;
        !resources.claims.is_empty()
            || resources.requests.iter().any(|(name, _)| may_be_dra_extended_resource(name))
    };
    if !containers().any(|(container, _)| uses_devices(container)) {
        return Arc::default();
    }
    let user = |(container, is_short_lived): (&wire::Container, bool)| ContainerResources {
        name: container.name.0.clone(),
        is_short_lived,
        requests: container.resources.requests.iter().cloned().collect(),
        claims: container.resources.claims.iter().map(|claim| claim.name.0.clone()).collect(),
    };
    containers().map(user).collect()
}

fn volumes(spec: &wire::PodSpec) -> Arc<[Volume]> {
    let volume = |volume: &wire::Volume| {
        Some(Volume { name: volume.name.0.clone(), source: volume.source.clone()? })
    };
    spec.volumes.iter().filter_map(volume).collect()
}

fn host_ports(spec: &wire::PodSpec) -> Arc<[HostPort]> {
    let sidecars = spec.init_containers.iter().filter(|container| container.is_restartable());
    let (mut protocol, mut ip) = (Arc::default(), Arc::default());
    sidecars
        .chain(spec.containers.iter())
        .flat_map(|container| container.ports.iter())
        .filter_map(|port| {
            Some(HostPort {
                port: port.host_port.filter(|number| *number > 0)?,
                protocol: share_latest(&mut protocol, &port.protocol, DEFAULT_PROTOCOL),
                ip: share_latest(&mut ip, &port.host_ip, DEFAULT_HOST_IP),
            })
        })
        .collect()
}

/// The text of an entry, in the allocation of the entry before if that has the same: lists repeat a few texts.
fn share_latest(latest: &mut Arc<str>, text: &str, default: &str) -> Arc<str> {
    let text = if text.is_empty() { default } else { text };
    if **latest != *text {
        *latest = text.into();
    }
    latest.clone()
}

fn host_port_numbers(spec: &wire::PodSpec) -> Arc<[i32]> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter());
    let mut numbers: Vec<i32> = containers
        .flat_map(|container| container.ports.iter())
        .filter_map(|port| port.host_port.filter(|number| *number != 0))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into()
}

fn images(spec: &wire::PodSpec) -> PodImages {
    let containers =
        spec.init_containers.iter().chain(spec.containers.iter()).map(|container| &container.image);
    let mounted = spec.volumes.iter().filter_map(|volume| volume.image_reference.as_ref());
    PodImages {
        names: containers.chain(mounted).map(|name| normalized_image_name(&name.0)).collect(),
        n_containers: spec.init_containers.len() + spec.containers.len(),
    }
}

fn required_features(spec: &wire::PodSpec) -> u64 {
    let mut bits = 0;
    let mut rules = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter())
        .flat_map(|container| container.restart_policy_rules.iter());
    if rules.any(|rule| &*rule.action == "RestartAllContainers") {
        bits |= RESTART_ALL_CONTAINERS;
    }
    if spec.host_network == Some(true) && spec.host_users == Some(false) {
        bits |= USER_NAMESPACES_HOST_NETWORK;
    }
    bits
}

fn status(status: &wire::PodStatus) -> PodStatus {
    PodStatus {
        phase: status.phase.0.clone(),
        started: status.start_time.0,
        nominated_node_name: nonempty(&status.nominated_node_name),
        conditions: status
            .conditions
            .iter()
            .map(|condition| PodCondition {
                text: Arc::new(ConditionText {
                    kind: condition.kind.0.clone(),
                    status: condition.status.0.clone(),
                    reason: condition.reason.0.clone(),
                    message: condition.message.0.clone(),
                    last_probe: condition.last_probe_time.0,
                    observed_generation: condition.observed_generation.unwrap_or_default(),
                }),
                last_transition: condition.last_transition_time.0,
            })
            .collect(),
        resource_claim_statuses: status
            .resource_claim_statuses
            .iter()
            .map(|claim| {
                (
                    claim.name.0.clone(),
                    claim.resource_claim_name.as_ref().map(|name| name.0.clone()),
                )
            })
            .collect(),
        extended_resource_claim: status.extended_resource_claim_status.as_ref().map(|claim| {
            Arc::new(ExtendedResourceClaim {
                claim: claim.resource_claim_name.0.clone(),
                mappings: claim
                    .request_mappings
                    .iter()
                    .map(|mapping| RequestMapping {
                        container_name: mapping.container_name.0.clone(),
                        resource_name: mapping.resource_name.0.clone(),
                        request_name: mapping.request_name.0.clone(),
                    })
                    .collect(),
            })
        }),
        node_resource_claims: status
            .node_allocatable_resource_claim_statuses
            .iter()
            .map(|claim| NodeResourceClaim {
                claim: claim.resource_claim_name.0.clone(),
                containers: claim.containers.iter().map(|name| name.0.clone()).collect(),
                resources: claim.resources.iter().cloned().collect(),
            })
            .collect(),
    }
}

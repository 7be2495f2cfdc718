//! TopologyPlacementGenerator: a group with a topology constraint goes into one topology domain.
//!
//! Answers to `plugins/topologyaware/topology_placement.go` of the reference; behaviour in `docs/spec/podgroups.md` §7.2.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::groups::{MemberPlace, PlacedGroup, Placement, PlacementGenerate};
use kube_scheduler_framework::{
    ClusterView, Context, EventResource, Handle, NodeIdx, Plugin, PluginArgs, PluginError, Status,
    extension_points,
};

use super::text_of;

pub(crate) const NAME: &str = "TopologyPlacementGenerator";

pub(crate) fn new(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(TopologyPlacementGenerator))
}

struct TopologyPlacementGenerator;

impl Plugin for TopologyPlacementGenerator {
    fn name(&self) -> &str {
        NAME
    }

    fn reads_objects(&self) -> Vec<EventResource> {
        vec![EventResource::PodGroup]
    }

    extension_points!(PlacementGenerate);
}

impl PlacementGenerate for TopologyPlacementGenerator {
    fn generate(
        &self,
        cx: &Context<'_>,
        group: PlacedGroup<'_>,
        parent: &Placement,
    ) -> Result<Vec<Placement>, Status> {
        let cluster = cx.cluster();
        let found = cluster
            .pod_group_object(group.namespace, group.name)
            .map_err(|error| Status::error(text_of(&error, group.name)))?;
        let Some(key) = found.topology_keys.as_ref().and_then(|keys| keys.first()) else {
            return Ok(vec![parent.clone()]);
        };
        let required = required_domain(cluster, group, key).map_err(|error| {
            Status::error(format!("cannot determine domain for already scheduled pods: {error}"))
        })?;
        let mut domains = domains(cluster, &parent.nodes, key);
        domains.retain(|domain| required.as_deref().is_none_or(|name| *name == *domain.name));
        Ok(domains)
    }
}

/// The nodes by the value of a label, in the order of the values.
fn domains(cluster: ClusterView<'_>, nodes: &[NodeIdx], key: &str) -> Vec<Placement> {
    let Some(column) = cluster.label_column(key) else {
        // There is a column the next time.
        let mut domains: BTreeMap<Arc<str>, Vec<NodeIdx>> = BTreeMap::new();
        for &idx in nodes {
            if let Some(domain) = domain_of(cluster, idx, key) {
                domains.entry(domain).or_default().push(idx);
            }
        }
        let domains = domains.into_iter();
        return domains.map(|(name, nodes)| Placement { name, nodes: nodes.into() }).collect();
    };
    let mut by_value: Vec<Vec<NodeIdx>> = vec![Vec::new(); column.n_ids()];
    for &idx in nodes {
        if let Some(nodes) = by_value.get_mut(column.id(idx).index()) {
            nodes.push(idx);
        }
    }
    let values = column.values().map(|(id, value, _)| (id.index(), value.clone()));
    let mut domains: Vec<Placement> = values
        .map(|(id, name)| Placement { name, nodes: std::mem::take(&mut by_value[id]).into() })
        .filter(|domain| !domain.nodes.is_empty())
        .collect();
    domains.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    domains
}

fn domain_of(cluster: ClusterView<'_>, node: NodeIdx, key: &str) -> Option<Arc<str>> {
    cluster.node(node)?.labels().get(key).map(Arc::from)
}

/// The domain that the group's scheduled pods are in.
fn required_domain(
    cluster: ClusterView<'_>,
    group: PlacedGroup<'_>,
    key: &str,
) -> Result<Option<Arc<str>>, String> {
    let Some(state) = cluster.pod_group(group.namespace, group.name) else { return Ok(None) };
    let is_scheduled = |place| place != MemberPlace::Unscheduled;
    let mut scheduled: Vec<&Arc<Pod>> =
        state.members().filter(|(_, place)| is_scheduled(*place)).map(|(pod, _)| pod).collect();
    let Some(first) = scheduled.first() else { return Ok(None) };
    if let Ok(domain) = domain_of_member(cluster, first, key)
        && let mut others = scheduled.iter().skip(1)
        && others.all(|pod| domain_of_member(cluster, pod, key).as_ref() == Ok(&domain))
    {
        return Ok(Some(domain));
    }
    // Which pod and which domains the error names goes by the order of the pods.
    scheduled.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let mut required: Option<Arc<str>> = None;
    for pod in scheduled {
        let domain = domain_of_member(cluster, pod, key)?;
        if let Some(earlier) = required.filter(|earlier| !earlier.is_empty() && *earlier != domain)
        {
            return Err(format!("more than 1 domain found for pod group: {earlier}, {domain}"));
        }
        required = Some(domain);
    }
    Ok(required)
}

/// The domain that a scheduled pod is in.
fn domain_of_member(cluster: ClusterView<'_>, pod: &Pod, key: &str) -> Result<Arc<str>, String> {
    let on = cluster.pod(&pod.uid).and_then(|placed| placed.node_name.clone());
    let node = on.or_else(|| pod.node_name.clone()).unwrap_or_default();
    let idx = cluster.node_idx(&node).ok_or_else(|| {
        let why = format!("nodeinfo not found for node name \"{node}\"");
        format!("getting node for pod {}: {why}", pod.key())
    })?;
    domain_of(cluster, idx, key)
        .ok_or_else(|| format!("no topology domain found for pod {}", pod.key()))
}

//! Pod groups of a crowd: objects that come and go, and pods that belong to them.

use anyhow::Result;
use kube_scheduler_config::{FeatureGates, Gate};
use kube_scheduler_engine::Input;
use serde_json::{Value, json};

use super::kinds::{NAMESPACES, ZONE};
use crate::history::{ApiServer, Numbers};

const KIND: &str = "PodGroup";
/// How many there may be in a namespace.
const N_GROUPS: u64 = 3;

/// The groups of a crowd and who draws them.
#[derive(Debug)]
pub(super) struct Groups {
    numbers: Numbers,
    are_there: bool,
    gates: FeatureGates,
    plans_exactly: bool,
}

impl Groups {
    pub(super) fn new(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed ^ 0x96_0095);
        let are_there = numbers.one_in(4);
        let gates = FeatureGates::default()
            .with(Gate::GenericWorkload, are_there)
            .with(Gate::GangScheduling, are_there)
            .with(Gate::TopologyAwareWorkloadScheduling, are_there && numbers.one_in(2));
        let plans_exactly = are_there && numbers.one_in(3);
        Self { numbers, are_there, gates, plans_exactly }
    }

    /// Without these, groups mean nothing to the scheduler.
    pub(super) fn gates(&self) -> FeatureGates {
        self.gates.clone()
    }

    /// Whether gangs are planned as a whole.
    pub(super) fn are_planned_exactly(&self) -> bool {
        self.plans_exactly
    }

    /// Groups come; those without pods go.
    pub(super) fn step(&mut self, server: &mut ApiServer) -> Result<Option<Input>> {
        if !self.are_there || !self.numbers.one_in(4) {
            return Ok(None);
        }
        let group = self.group();
        let metadata = &group["metadata"];
        let is_member = |pod: &Value| {
            pod["metadata"]["namespace"] == metadata["namespace"]
                && pod["spec"]["schedulingGroup"]["podGroupName"] == metadata["name"]
        };
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        if server.object(KIND, text("namespace"), text("name")).is_none() {
            return server.put_object(group).map(Some);
        }
        if server.pods.values().any(is_member) {
            return Ok(None);
        }
        server.delete_object(&group)
    }

    fn group(&mut self) -> Value {
        let namespace = self.numbers.pick(&NAMESPACES);
        let name = format!("group-{}", self.numbers.below(N_GROUPS));
        let policy = match self.numbers.below(5) {
            0 => json!({"basic": {}}),
            size => json!({"gang": {"minCount": 1 + size}}),
        };
        let mut spec = json!({"schedulingPolicy": policy});
        if self.numbers.one_in(4) {
            spec["schedulingConstraints"] = json!({"topology": [{"key": ZONE}]});
        }
        let uid = format!("{namespace}-{name}-{}", self.numbers.below(1_000_000));
        json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": KIND,
            "metadata": {"namespace": namespace, "name": name, "uid": uid}, "spec": spec})
    }

    /// Has some pods belong to groups.
    pub(super) fn give_group(&mut self, pod: &mut Value) {
        if self.are_there && self.numbers.one_in(2) {
            let name = format!("group-{}", self.numbers.below(N_GROUPS));
            pod["spec"]["schedulingGroup"] = json!({"podGroupName": name});
        }
    }
}

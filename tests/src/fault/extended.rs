//! Extended resources that device classes serve: pods that ask for them, the claims that schedulers make for them, and nodes
//! where a device plugin serves the same resource.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use kube_scheduler_api_types::Object;
use kube_scheduler_engine::PodRef;
use kube_scheduler_writes::Success;
use serde_json::{Value, json};

use super::claims::{CLAIM, Devices, IMPLICIT, RESOURCE, admits, is_reserved_for, may_be_devices};
use super::server::{Key, Refusal, Server, WriteResult};
use super::simulation::Simulation;

/// One in how many pods asks for one of them, and how many nodes have a device plugin.
const ASKING_ONE_IN: u64 = 6;
const PLUGIN_ONE_IN: u64 = 6;

fn asks_for_devices(pod: &Value) -> bool {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let requests = containers.filter_map(|it| it["resources"]["requests"].as_object());
    requests.flat_map(|requests| requests.keys()).any(|name| may_be_devices(name))
}

impl Simulation {
    /// Lets a pod that is about to be created ask for devices as extended resources, or not. Says whether it may have claims,
    /// too.
    ///
    /// Parity: as in the reference, a pod with both fails again and again on nodes where a device plugin serves the resource
    /// (`docs/spec/plugins-dra.md` §19). Simulations with device plugins have no such pods.
    pub(super) fn add_extended_resources(&mut self, pod: &mut Value) -> bool {
        let numbers = &mut self.devices.numbers;
        if !numbers.one_in(ASKING_ONE_IN) {
            return true;
        }
        let (name, n) = (numbers.pick(&[RESOURCE, IMPLICIT]), 1 + u64::from(numbers.one_in(4)));
        let Some(requests) = pod.pointer_mut("/spec/containers/0/resources/requests") else {
            return true;
        };
        requests[name] = n.to_string().into();
        !self.devices.has_plugins
    }

    /// Gives some of the nodes a device plugin.
    pub(super) fn add_device_plugin(&mut self, node: &mut Value) {
        let Devices { are_there, has_plugins, numbers, .. } = &mut self.devices;
        if !*are_there || !*has_plugins || !numbers.one_in(PLUGIN_ONE_IN) {
            return;
        }
        node["status"]["allocatable"][RESOURCE] = "1".into();
        let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.devices.with_plugin.insert(name);
    }

    /// A pod that one of our schedulers has just bound has the devices that serve its extended resources.
    pub(super) fn check_extended_resources_of(&self, pod: &PodRef) -> Result<()> {
        let key = (pod.namespace.to_string(), pod.name.to_string());
        let Some(json) = self.server.get("Pod", &key) else { return Ok(()) };
        let node = json["spec"]["nodeName"].as_str().context("a node")?;
        // Where there ever was a device plugin, the scheduler may have counted with it.
        if !asks_for_devices(json) || self.devices.with_plugin.contains(node) {
            return Ok(());
        }
        ensure!(self.setup.serves_extended(), "pod {pod} is bound to {node}, which has no devices");
        let name = json["status"]["extendedResourceClaimStatus"]["resourceClaimName"].as_str();
        let name = name.with_context(|| format!("pod {pod} is bound, and no claim is named"))?;
        let claim = self.server.get(CLAIM, &(key.0, name.to_owned()));
        let claim = claim.with_context(|| format!("pod {pod} is bound without claim {name}"))?;
        let allocation = &claim["status"]["allocation"];
        ensure!(!allocation.is_null(), "pod {pod} is bound and its claim {name} has no devices");
        ensure!(
            is_reserved_for(claim, &json["metadata"]["uid"]),
            "pod {pod} is bound and its claim {name} is reserved for {}",
            claim["status"]["reservedFor"]
        );
        ensure!(
            admits(&allocation["nodeSelector"], node),
            "pod {pod} is bound to {node}, its claim {name} to {}",
            allocation["nodeSelector"]
        );
        Ok(())
    }
}

impl Server {
    /// Stores a claim that a scheduler makes, under a name of its own.
    pub(super) fn create_claim(&mut self, object: &Object) -> Result<WriteResult<Success>> {
        let number = self.revision() + 1;
        let mut json = Value::from(&*object.json);
        let prefix = json["metadata"]["generateName"].as_str().context("a prefix")?;
        json["metadata"]["name"] = format!("{prefix}{number}").into();
        json["metadata"]["uid"] = format!("made-{number}").into();
        json["status"] = json!({});
        self.put_claim(json).map(|stored| Ok(Success::Stored(stored)))
    }

    /// Deletes a claim that a scheduler has made, whatever keeps it.
    pub(super) fn delete_made(&mut self, object: &Object) -> WriteResult<Success> {
        let key = (object.namespace.to_string(), object.name.to_string());
        let is_there = self.get(CLAIM, &key).is_some_and(|it| it["metadata"]["uid"] == *object.uid);
        if !is_there {
            return Ok(Success::AlreadyGone);
        }
        self.delete(CLAIM, &key);
        Ok(Success::Done)
    }

    /// Notes in a pod's status which claim serves its extended resources. It finds the pod by its name alone.
    pub(super) fn name_claim(&mut self, key: &Key, patch: &Value) -> Result<WriteResult<Success>> {
        const FIELD: &str = "extendedResourceClaimStatus";
        let is_there = self.change("Pod", key, |pod| {
            pod["status"][FIELD] = patch["status"][FIELD].clone();
        })?;
        let Some(pod) = self.get("Pod", key).filter(|_| is_there) else {
            return Ok(Err(Refusal::not_found("pods", key)));
        };
        let mut json = pod.clone();
        json["apiVersion"] = "v1".into();
        json["kind"] = "Pod".into();
        Ok(Ok(Success::Stored(Arc::new(Object::from_value(json)?))))
    }
}

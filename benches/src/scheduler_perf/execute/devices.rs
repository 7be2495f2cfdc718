//! Drivers, slices and claims of devices.

use std::sync::Arc;

use anyhow::{Result, bail};
use futures::stream::{self, StreamExt, TryStreamExt};
use kube_scheduler_api_types::Labels;
use kube_scheduler_devices::api::{DeviceClass, ResourceClaim, ResourceSlice};
use kube_scheduler_devices::{
    Allocator, CelSelectors, Classes, Features, Inventory, NodeRef, PodClaims, SelectorTable,
    Steps, Usage,
};
use serde_json::Value;

use super::super::cluster::WIDTH;
use super::super::objects::{fits, resource_slice};
use super::super::op::{AllocResourceClaims, CreateResourceClaims, CreateResourceDriver, counted};
use super::Executor;

const GROUP: &str = "/apis/resource.k8s.io/v1";
/// How long the search for the devices of a claim may take on a node: far more than any definition needs.
const MAX_STEPS: u64 = 10_000_000;

impl Executor<'_> {
    pub(super) async fn create_resource_driver(&mut self, op: &CreateResourceDriver) -> Result<()> {
        let n_devices = counted(
            "maxClaimsPerNodeParam",
            op.max_claims_per_node,
            &op.max_claims_per_node_param,
            &mut self.params,
        )?;
        let nodes = self.hands.api.send("GET", "/api/v1/nodes", None, "").await?;
        let names: Vec<&str> = nodes["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|node| node["metadata"]["name"].as_str())
            .filter(|name| fits(&op.nodes, name))
            .collect();
        let slice = |index: usize| Ok(resource_slice(&op.driver_name, names[index], n_devices));
        self.hands.create_all(names.len(), "", slice).await
    }

    pub(super) async fn create_resource_claims(&mut self, op: &CreateResourceClaims) -> Result<()> {
        let n = counted("countParam", op.count, &op.count_param, &mut self.params)?;
        let claim = self.template(&op.template_path)?.plain()?;
        self.need_namespace(&op.namespace).await?;
        self.hands.create_all(n, &op.namespace, |_| Ok(claim.clone())).await
    }

    /// Allocates the claims that are not allocated yet, one after the other, on one node after the other, and writes that to
    /// their statuses: they are in use before the pods come that are measured.
    pub(super) async fn alloc_resource_claims(&mut self, op: &AllocResourceClaims) -> Result<()> {
        let scope = match op.namespace.as_str() {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        let claims = self.listed(&format!("{GROUP}{scope}/resourceclaims")).await?;
        if claims.iter().all(|claim| !is_waiting(claim)) {
            return Ok(());
        }
        let everywhere = self.listed(&format!("{GROUP}/resourceclaims")).await?;
        let devices = Devices {
            slices: self.listed(&format!("{GROUP}/resourceslices")).await?,
            classes: self.listed(&format!("{GROUP}/deviceclasses")).await?,
            nodes: self.listed("/api/v1/nodes").await?,
        };
        let allocated = devices.allocated(claims, &everywhere)?;
        stream::iter(&allocated)
            .map(async |claim| {
                let namespace = claim["metadata"]["namespace"].as_str().unwrap_or_default();
                self.hands.replace(claim, namespace, &["status"]).await
            })
            .buffer_unordered(WIDTH)
            .try_collect::<()>()
            .await
    }

    async fn listed(&self, path: &str) -> Result<Vec<Value>> {
        let mut list = self.hands.api.send("GET", path, None, "").await?;
        let (version, kind) = (list["apiVersion"].take(), list["kind"].take());
        let kind = kind.as_str().and_then(|kind| kind.strip_suffix("List"));
        let Value::Array(mut items) = list["items"].take() else { return Ok(Vec::new()) };
        // Items of a list do not say what they are.
        for item in &mut items {
            item["apiVersion"] = version.clone();
            item["kind"] = kind.into();
        }
        Ok(items)
    }
}

fn is_waiting(claim: &Value) -> bool {
    claim["status"]["allocation"].is_null() && claim["metadata"]["deletionTimestamp"].is_null()
}

/// What claims are allocated from.
struct Devices {
    slices: Vec<Value>,
    classes: Vec<Value>,
    nodes: Vec<Value>,
}

impl Devices {
    /// Those of `claims` that wait, with what they get besides what is in use `everywhere`.
    fn allocated(&self, claims: Vec<Value>, everywhere: &[Value]) -> Result<Vec<Value>> {
        let features = Features::default();
        let slices: Result<Vec<_>, _> = self
            .slices
            .iter()
            .map(|slice| ResourceSlice::from_json(&slice.clone().into()).map(Arc::new))
            .collect();
        let table = SelectorTable::new(Arc::new(Inventory::new(slices?, features)));
        let classes = self.classes.iter().map(|class| {
            DeviceClass::from_json(&class.clone().into())
                .map(|class| (class.name.clone(), Arc::new(class)))
        });
        let classes: Classes = classes.collect::<Result<_, _>>()?;
        let selectors = Arc::new(CelSelectors::default());
        let nodes: Vec<(&str, Labels)> = self.nodes.iter().map(named).collect();
        let mut usage = Usage::default();
        for claim in everywhere {
            if let Some(held) = ResourceClaim::from_json(&claim.clone().into())?.status.allocation {
                usage.add(&held, features);
            }
        }
        let (mut allocated, mut n_shares, mut at) = (Vec::new(), 0, 0);
        for mut claim in claims.into_iter().filter(is_waiting) {
            // Every node has its turn, as far as it still has what is wanted.
            let wanted = Arc::new(ResourceClaim::from_json(&claim.clone().into())?);
            let claims = PodClaims::new([wanted.clone()]);
            let allocator =
                Allocator::new(table.clone(), &usage, classes.clone(), selectors.clone());
            let mut found = None;
            for tried in 0..nodes.len() {
                let (name, labels) = &nodes[(at + tried) % nodes.len()];
                let node = NodeRef { name, labels };
                let mut share = || {
                    n_shares += 1;
                    format!("00000000-0000-4000-8000-{n_shares:012x}").into()
                };
                let steps = Steps::new(MAX_STEPS);
                found = allocator.allocate(node, &claims, &steps, &mut share)?;
                if found.is_some() {
                    at += tried + 1;
                    break;
                }
            }
            let Some(allocation) = found.into_iter().flatten().next() else {
                bail!(
                    "claim {} cannot be allocated: no node has the devices left that it asks for",
                    wanted.key()
                );
            };
            usage.add(&allocation, features);
            claim["status"]["allocation"] = allocation.to_json();
            allocated.push(claim);
        }
        Ok(allocated)
    }
}

fn named(node: &Value) -> (&str, Labels) {
    let metadata = &node["metadata"];
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    (metadata["name"].as_str().unwrap_or_default(), labels.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn devices(n_nodes: usize, n_devices: usize) -> Devices {
        let nodes = (0..n_nodes).map(|at| json!({"metadata": {"name": format!("n{at}")}}));
        let slices = (0..n_nodes).map(|at| resource_slice("gpu", &format!("n{at}"), n_devices));
        let selector = json!({"cel": {"expression": "device.driver == 'gpu'"}});
        let class = json!({"metadata": {"name": "gpus"}, "spec": {"selectors": [selector]}});
        Devices { slices: slices.collect(), classes: vec![class], nodes: nodes.collect() }
    }

    fn claims(n: usize) -> Vec<Value> {
        let exactly =
            json!({"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 1});
        let request = json!({"name": "one", "exactly": exactly});
        let claim = |at: usize| {
            json!({
                "metadata": {"name": format!("c{at}"), "namespace": "default", "uid": format!("u{at}")},
                "spec": {"devices": {"requests": [request]}},
            })
        };
        (0..n).map(claim).collect()
    }

    /// Node and device of each claim.
    fn places(claims: &[Value]) -> Vec<String> {
        let result = |claim: &Value| claim["status"]["allocation"]["devices"]["results"][0].clone();
        claims
            .iter()
            .map(result)
            .map(|it| format!("{}/{}", it["pool"], it["device"]).replace('"', ""))
            .collect()
    }

    #[test]
    fn claims_are_spread_over_nodes_until_nothing_is_left() {
        let devices = devices(2, 2);
        let allocated = devices.allocated(claims(3), &[]).unwrap();
        assert_eq!(places(&allocated), ["n0/instance-0", "n1/instance-0", "n0/instance-1"]);
        // What is allocated stays so, here and in other namespaces.
        let mut more = claims(4);
        more[..3].clone_from_slice(&allocated);
        let allocated = devices.allocated(more.clone(), &more).unwrap();
        assert_eq!(places(&allocated), ["n1/instance-1"]);
        more[3] = allocated[0].clone();
        assert!(devices.allocated(more.clone(), &more).unwrap().is_empty());
        more.push(claims(5).remove(4));
        let error = devices.allocated(more.clone(), &more).unwrap_err().to_string();
        assert_eq!(
            error,
            "claim default/c4 cannot be allocated: no node has the devices left that it asks for"
        );
    }
}

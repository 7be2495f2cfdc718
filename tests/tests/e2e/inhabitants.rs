//! What stands in for the rest of a cluster: kubelets that run and end pods, and controllers that bind volumes, generate claims
//! of devices, and let deleted pod groups go.
//!
//! But for claims, they look at the whole cluster again and again, since it is small. Invariants: a pod is ended only after it was
//! deleted; a claim is bound only to the volume that the scheduler chose, or to one made on the node it chose; a claim of
//! devices is released only when no pod and no group is left for which it is reserved.

use std::time::Duration;

use kube_scheduler_tests::control_plane::{Api, control_claims};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// How often they look.
const INTERVAL: Duration = Duration::from_millis(100);

/// The provisioner that makes volumes here.
pub(crate) const PROVISIONER: &str = "e2e.example.com/volumes";

/// They live as long as this.
pub(crate) struct Inhabitants([JoinHandle<()>; 2]);

impl Inhabitants {
    pub(crate) fn start(api: Api) -> Self {
        let claims = api.clone();
        let claims = tokio::spawn(async move {
            loop {
                // It ends with a server that restarts.
                let _ = control_claims(claims.clone()).await;
                tokio::time::sleep(INTERVAL).await;
            }
        });
        let others = tokio::spawn(async move {
            loop {
                // Whatever fails is done in the next round.
                let _ = kubelets(&api).await;
                let _ = volumes(&api).await;
                let _ = groups(&api).await;
                tokio::time::sleep(INTERVAL).await;
            }
        });
        Self([claims, others])
    }
}

impl Drop for Inhabitants {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

async fn kubelets(api: &Api) -> anyhow::Result<()> {
    for pod in api.list("Pod").await? {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
            continue;
        }
        if pod["metadata"]["deletionTimestamp"].is_string() {
            api.delete("Pod", name, Some(0)).await?;
        } else if pod["status"]["phase"] == "Pending" {
            let running = json!({"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"phase": "Running"}});
            api.patch("Pod", name, "status", &running).await?;
        }
    }
    Ok(())
}

async fn volumes(api: &Api) -> anyhow::Result<()> {
    let volumes = api.list("PersistentVolume").await?;
    for volume in &volumes {
        if volume["status"]["phase"] == "Pending" && volume["spec"]["claimRef"].is_null() {
            let name = volume["metadata"]["name"].as_str().unwrap_or_default();
            let available = json!({"status": {"phase": "Available"}});
            api.patch("PersistentVolume", name, "status", &available).await?;
        }
    }
    let claims = api.list("PersistentVolumeClaim").await?;
    let pending: Vec<&Value> =
        claims.iter().filter(|claim| claim["spec"]["volumeName"].is_null()).collect();
    for claim in pending {
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        let chosen = volumes.iter().find(|volume| volume["spec"]["claimRef"]["name"] == name);
        if let Some(volume) = chosen {
            let volume_name = volume["metadata"]["name"].as_str().unwrap_or_default();
            bind(api, name, volume_name).await?;
            continue;
        }
        let node = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
        if let Some(node) = node.as_str() {
            let volume = made_for(claim, node);
            api.create(&volume).await?;
            bind(api, name, volume["metadata"]["name"].as_str().unwrap_or_default()).await?;
        }
    }
    Ok(())
}

async fn bind(api: &Api, claim: &str, volume: &str) -> anyhow::Result<()> {
    let status = json!({"status": {"phase": "Bound"}});
    api.patch("PersistentVolume", volume, "status", &status).await?;
    let bound = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume},
    });
    // The pod may go on as soon as its claim names the volume, so all the rest has to be there by then.
    api.patch("PersistentVolumeClaim", claim, "status", &status).await?;
    api.patch("PersistentVolumeClaim", claim, "", &bound).await.map(drop)
}

/// A volume that can be used on one node, as a provisioner of local disks makes it.
fn made_for(claim: &Value, node: &str) -> Value {
    let (metadata, spec) = (&claim["metadata"], &claim["spec"]);
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": format!("made-for-{}", metadata["name"].as_str().unwrap_or_default()),
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "capacity": spec["resources"]["requests"], "accessModes": spec["accessModes"],
            "storageClassName": spec["storageClassName"], "local": {"path": "/data"},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default",
                "name": metadata["name"], "uid": metadata["uid"]},
            "nodeAffinity": crate::objects::only_on(node),
        },
    })
}

/// Lets deleted groups go that no pod belongs to.
async fn groups(api: &Api) -> anyhow::Result<()> {
    let groups = api.list("PodGroup").await.unwrap_or_default();
    let pods = api.list("Pod").await?;
    for group in groups.iter().filter(|group| group["metadata"]["deletionTimestamp"].is_string()) {
        let name = &group["metadata"]["name"];
        if !pods.iter().any(|pod| pod["spec"]["schedulingGroup"]["podGroupName"] == *name) {
            let metadata = json!({"metadata": {"finalizers": null}});
            api.patch("PodGroup", name.as_str().unwrap_or_default(), "", &metadata).await?;
        }
    }
    Ok(())
}

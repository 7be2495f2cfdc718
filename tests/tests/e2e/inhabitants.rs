//! What stands in for the rest of a cluster: kubelets that run and end pods, and controllers that bind volumes and generate
//! claims of devices.
//!
//! They look at the whole cluster again and again, since it is small. Invariants: a pod is ended only after somebody
//! deleted it; a claim is bound only to the volume that the scheduler chose, or to one made on the node it chose; a claim of
//! devices is released only when no pod that has reserved it is left.

use std::time::Duration;

use kube_scheduler_tests::control_plane::Api;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// How often they look.
const INTERVAL: Duration = Duration::from_millis(100);

/// The provisioner that makes volumes here.
pub(crate) const PROVISIONER: &str = "e2e.example.com/volumes";

/// They live as long as this.
pub(crate) struct Inhabitants(JoinHandle<()>);

impl Inhabitants {
    pub(crate) fn start(api: Api) -> Self {
        Self(tokio::spawn(async move {
            loop {
                // Whatever fails is done in the next round.
                let _ = kubelets(&api).await;
                let _ = volumes(&api).await;
                let _ = device_claims(&api).await;
                tokio::time::sleep(INTERVAL).await;
            }
        }))
    }
}

impl Drop for Inhabitants {
    fn drop(&mut self) {
        self.0.abort();
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
    api.patch("PersistentVolumeClaim", claim, "", &bound).await?;
    api.patch("PersistentVolumeClaim", claim, "status", &status).await.map(drop)
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

/// Whether a pod has ended.
fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Generates the claims of pods, and releases and deletes those of pods that have ended or are gone.
async fn device_claims(api: &Api) -> anyhow::Result<()> {
    // Claims first: a pod that is missing then is gone, not new.
    let claims = api.list("ResourceClaim").await?;
    let pods = api.list("Pod").await?;
    for pod in pods.iter().filter(|pod| !has_ended(pod)) {
        let wants = pod["spec"]["resourceClaims"].as_array();
        for entry in wants.into_iter().flatten() {
            if entry["resourceClaimTemplateName"].is_string()
                && pod["status"]["resourceClaimStatuses"].is_null()
            {
                generate_claim(api, pod, entry).await?;
            }
        }
    }
    let is_needed =
        |uid: &Value| pods.iter().any(|pod| pod["metadata"]["uid"] == *uid && !has_ended(pod));
    for claim in &claims {
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        let reserved = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
        let kept: Vec<&Value> =
            reserved.iter().filter(|consumer| is_needed(&consumer["uid"])).collect();
        let owner = &claim["metadata"]["ownerReferences"][0]["uid"];
        let is_left = owner.is_string() && !is_needed(owner);
        let is_deleted = claim["metadata"]["deletionTimestamp"].is_string();
        if kept.is_empty() && (is_left || is_deleted || !reserved.is_empty()) {
            // By its revision, since the scheduler may reserve it meanwhile.
            let version = &claim["metadata"]["resourceVersion"];
            let status = json!({"metadata": {"resourceVersion": version},
                "status": {"reservedFor": null, "allocation": null}});
            let released = api.patch("ResourceClaim", name, "status", &status).await?;
            let version = &released["metadata"]["resourceVersion"];
            let metadata = json!({"metadata": {"resourceVersion": version, "finalizers": null}});
            api.patch("ResourceClaim", name, "", &metadata).await?;
        } else if kept.len() < reserved.len() {
            let version = &claim["metadata"]["resourceVersion"];
            let status = json!({"metadata": {"resourceVersion": version},
                "status": {"reservedFor": kept}});
            api.patch("ResourceClaim", name, "status", &status).await?;
        }
        if is_left {
            api.delete("ResourceClaim", name, None).await?;
        }
    }
    Ok(())
}

async fn generate_claim(api: &Api, pod: &Value, entry: &Value) -> anyhow::Result<()> {
    let (pod_name, entry_name) = (
        pod["metadata"]["name"].as_str().unwrap_or_default(),
        entry["name"].as_str().unwrap_or_default(),
    );
    let template = entry["resourceClaimTemplateName"].as_str().unwrap_or_default();
    let Some(template) = api.get("ResourceClaimTemplate", template).await? else { return Ok(()) };
    let name = format!("{pod_name}-{entry_name}");
    api.create(&json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "ownerReferences": [{"apiVersion": "v1", "kind": "Pod",
            "name": pod_name, "uid": pod["metadata"]["uid"], "controller": true}]},
        "spec": template["spec"]["spec"],
    }))
    .await?;
    let status = json!({"metadata": {"uid": pod["metadata"]["uid"]},
        "status": {"resourceClaimStatuses": [{"name": entry_name, "resourceClaimName": name}]}});
    api.patch("Pod", pod_name, "status", &status).await.map(drop)
}

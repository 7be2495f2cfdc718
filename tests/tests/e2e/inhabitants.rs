//! What stands in for the rest of a cluster: kubelets that run and end pods, and controllers that bind volumes, generate claims
//! of devices, and let deleted pod groups go.
//!
//! They look at the whole cluster again and again, since it is small. Invariants: a pod is ended only after it was
//! deleted; a claim is bound only to the volume that the scheduler chose, or to one made on the node it chose; a claim of
//! devices is released only when no pod and no group is left for which it is reserved.

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
                let _ = groups(&api).await;
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

/// Generates the claims of pods and of groups, and releases and deletes those of pods that have ended and of groups that are
/// gone.
async fn device_claims(api: &Api) -> anyhow::Result<()> {
    // Claims first: who is missing then is gone, not new.
    let claims = api.list("ResourceClaim").await?;
    let pods = api.list("Pod").await?;
    // Served where their gate is on.
    let groups = api.list("PodGroup").await.unwrap_or_default();
    for group in &groups {
        for entry in claims_from_templates(group) {
            generate_claim(api, "PodGroup", group, entry).await?;
        }
    }
    for pod in pods.iter().filter(|pod| !has_ended(pod)) {
        let group = &pod["spec"]["schedulingGroup"]["podGroupName"];
        let group = groups.iter().find(|known| known["metadata"]["name"] == *group);
        for entry in claims_from_templates(pod) {
            let shared = group.filter(|group| {
                let entries = group["spec"]["resourceClaims"].as_array();
                entries.is_some_and(|entries| entries.contains(entry))
            });
            let made = shared.map(|group| &group["status"]["resourceClaimStatuses"]);
            match made {
                None => generate_claim(api, "Pod", pod, entry).await?,
                Some(Value::Null) => {}
                Some(made) => note_claims(api, "Pod", pod, made).await?,
            }
        }
    }
    let is_pod =
        |uid: &Value| pods.iter().any(|pod| pod["metadata"]["uid"] == *uid && !has_ended(pod));
    let is_needed =
        |uid: &Value| is_pod(uid) || groups.iter().any(|group| group["metadata"]["uid"] == *uid);
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

/// The entries of a pod or group that claims are made for, as long as none was.
fn claims_from_templates(owner: &Value) -> impl Iterator<Item = &Value> {
    let entries = owner["spec"]["resourceClaims"].as_array().into_iter().flatten();
    entries.filter(|entry| {
        entry["resourceClaimTemplateName"].is_string()
            && owner["status"]["resourceClaimStatuses"].is_null()
    })
}

async fn generate_claim(api: &Api, kind: &str, owner: &Value, entry: &Value) -> anyhow::Result<()> {
    let (owner_name, entry_name) = (
        owner["metadata"]["name"].as_str().unwrap_or_default(),
        entry["name"].as_str().unwrap_or_default(),
    );
    // Items of a list do not say what they are.
    let version = if kind == "Pod" { "v1" } else { "scheduling.k8s.io/v1alpha2" };
    let template = entry["resourceClaimTemplateName"].as_str().unwrap_or_default();
    let Some(template) = api.get("ResourceClaimTemplate", template).await? else { return Ok(()) };
    let name = format!("{owner_name}-{entry_name}");
    api.create(&json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "ownerReferences": [{"apiVersion": version, "kind": kind,
            "name": owner_name, "uid": owner["metadata"]["uid"], "controller": true}]},
        "spec": template["spec"]["spec"],
    }))
    .await?;
    let made = json!([{"name": entry_name, "resourceClaimName": name}]);
    note_claims(api, kind, owner, &made).await
}

/// Writes into the status of a pod or group which claims were made for it.
async fn note_claims(api: &Api, kind: &str, owner: &Value, made: &Value) -> anyhow::Result<()> {
    let name = owner["metadata"]["name"].as_str().unwrap_or_default();
    let status = json!({"metadata": {"uid": owner["metadata"]["uid"]},
        "status": {"resourceClaimStatuses": made}});
    api.patch(kind, name, "status", &status).await.map(drop)
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

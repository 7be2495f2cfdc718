//! Reading a whole cluster once, with the rights of whoever asks: for questions that are answered without a scheduler.

use kube::Client;
use serde_json::{Value, json};

use crate::transport::{ConnectError, Endpoint};

/// What is read: the path without its last part, plural, `apiVersion`, kind, and whether nothing can be said without it.
const LISTS: [(&str, &str, &str, &str, bool); 23] = [
    ("/api/v1", "nodes", "v1", "Node", true),
    ("/api/v1", "pods", "v1", "Pod", true),
    ("/api/v1", "namespaces", "v1", "Namespace", false),
    ("/api/v1", "services", "v1", "Service", false),
    ("/api/v1", "replicationcontrollers", "v1", "ReplicationController", false),
    ("/api/v1", "persistentvolumes", "v1", "PersistentVolume", false),
    ("/api/v1", "persistentvolumeclaims", "v1", "PersistentVolumeClaim", false),
    ("/apis/apps/v1", "replicasets", "apps/v1", "ReplicaSet", false),
    ("/apis/apps/v1", "statefulsets", "apps/v1", "StatefulSet", false),
    ("/apis/policy/v1", "poddisruptionbudgets", "policy/v1", "PodDisruptionBudget", false),
    (
        "/apis/scheduling.k8s.io/v1",
        "priorityclasses",
        "scheduling.k8s.io/v1",
        "PriorityClass",
        false,
    ),
    ("/apis/storage.k8s.io/v1", "storageclasses", "storage.k8s.io/v1", "StorageClass", false),
    ("/apis/storage.k8s.io/v1", "csinodes", "storage.k8s.io/v1", "CSINode", false),
    ("/apis/storage.k8s.io/v1", "csidrivers", "storage.k8s.io/v1", "CSIDriver", false),
    (
        "/apis/storage.k8s.io/v1",
        "csistoragecapacities",
        "storage.k8s.io/v1",
        "CSIStorageCapacity",
        false,
    ),
    (
        "/apis/storage.k8s.io/v1",
        "volumeattachments",
        "storage.k8s.io/v1",
        "VolumeAttachment",
        false,
    ),
    ("/apis/resource.k8s.io/v1", "resourceclaims", "resource.k8s.io/v1", "ResourceClaim", false),
    (
        "/apis/resource.k8s.io/v1",
        "resourceclaimtemplates",
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        false,
    ),
    ("/apis/resource.k8s.io/v1", "resourceslices", "resource.k8s.io/v1", "ResourceSlice", false),
    ("/apis/resource.k8s.io/v1", "deviceclasses", "resource.k8s.io/v1", "DeviceClass", false),
    (
        "/apis/resource.k8s.io/v1beta2",
        "devicetaintrules",
        "resource.k8s.io/v1beta2",
        "DeviceTaintRule",
        false,
    ),
    (
        "/apis/scheduling.k8s.io/v1alpha2",
        "podgroups",
        "scheduling.k8s.io/v1alpha2",
        "PodGroup",
        false,
    ),
    (
        "/apis/scheduling.k8s.io/v1beta1",
        "podgroups",
        "scheduling.k8s.io/v1beta1",
        "PodGroup",
        false,
    ),
];

/// Objects in one answer of the API server.
const PAGE: usize = 500;

/// Why a cluster cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// There is no connection to be made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A list that nothing can be said without.
    #[error("cannot list {what}")]
    List {
        /// The plural of the kind.
        what: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Everything in a cluster that the default profile reads.
#[derive(Clone, Debug, Default)]
pub struct ClusterLists {
    /// By plural: a `List` in JSON.
    pub lists: Vec<(&'static str, String)>,
    /// Kinds that may not be listed by this user.
    pub missing: Vec<&'static str>,
}

impl ClusterLists {
    /// Reads the cluster page by page. A kind that the server does not have is left out; one that may not be read is named
    /// in [`missing`](Self::missing), unless it is nodes or pods. Nothing is written.
    ///
    /// # Errors
    /// If there is no connection, or nodes or pods cannot be listed.
    pub async fn read(endpoint: &Endpoint) -> Result<Self, ListError> {
        let client = endpoint.kube_client()?;
        let mut found = Self::default();
        for (prefix, plural, api_version, kind, is_required) in LISTS {
            match list(&client, &format!("{prefix}/{plural}")).await {
                Ok(mut items) => {
                    for item in &mut items {
                        item["apiVersion"] = api_version.into();
                        item["kind"] = kind.into();
                    }
                    if !items.is_empty() {
                        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
                        found.lists.push((plural, list.to_string()));
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 404 && !is_required => {}
                Err(kube::Error::Api(status)) if status.code == 403 && !is_required => {
                    found.missing.push(plural);
                }
                Err(error) => {
                    return Err(ListError::List { what: plural, source: error.into() });
                }
            }
        }
        Ok(found)
    }
}

async fn list(client: &Client, path: &str) -> Result<Vec<Value>, kube::Error> {
    let (mut items, mut token) = (Vec::new(), String::new());
    loop {
        let more = if token.is_empty() { String::new() } else { format!("&continue={token}") };
        let request = http::Request::get(format!("{path}?limit={PAGE}{more}")).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        let mut page: Value = client.request(request).await?;
        if let Value::Array(found) = page["items"].take() {
            items.extend(found);
        }
        match page["metadata"]["continue"].as_str() {
            // Tokens may have characters that a query may not.
            Some(next) if !next.is_empty() => token = escaped(next),
            _ => return Ok(items),
        }
    }
}

fn escaped(token: &str) -> String {
    percent_encoding::utf8_percent_encode(token, percent_encoding::NON_ALPHANUMERIC).to_string()
}

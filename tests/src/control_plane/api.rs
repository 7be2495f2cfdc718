//! A patient client of an API server, in plain JSON.
//!
//! Invariant: what is not an answer (a refused connection, a broken one, 429, 5xx) is asked again until [`PATIENCE`] is
//! over, because restarts of the server are part of the scenarios; answers are handed on.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use futures::io::AsyncBufRead;
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::time::Instant;

/// How long a server may be away.
const PATIENCE: Duration = Duration::from_secs(180);

/// What the scenarios use: kind, prefix of the path, plural, whether it lives in a namespace.
const KINDS: [(&str, &str, &str, bool); 19] = [
    ("Pod", "/api/v1", "pods", true),
    ("Node", "/api/v1", "nodes", false),
    ("Namespace", "/api/v1", "namespaces", false),
    ("PersistentVolume", "/api/v1", "persistentvolumes", false),
    ("PersistentVolumeClaim", "/api/v1", "persistentvolumeclaims", true),
    ("Event", "/apis/events.k8s.io/v1", "events", true),
    ("Lease", "/apis/coordination.k8s.io/v1", "leases", true),
    ("StorageClass", "/apis/storage.k8s.io/v1", "storageclasses", false),
    ("CSINode", "/apis/storage.k8s.io/v1", "csinodes", false),
    ("PriorityClass", "/apis/scheduling.k8s.io/v1", "priorityclasses", false),
    ("PodGroup", "/apis/scheduling.k8s.io/v1alpha2", "podgroups", true),
    ("PodDisruptionBudget", "/apis/policy/v1", "poddisruptionbudgets", true),
    ("ClusterRoleBinding", "/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", false),
    ("RoleBinding", "/apis/rbac.authorization.k8s.io/v1", "rolebindings", true),
    ("ResourceClaim", "/apis/resource.k8s.io/v1", "resourceclaims", true),
    ("ResourceClaimTemplate", "/apis/resource.k8s.io/v1", "resourceclaimtemplates", true),
    ("ResourceSlice", "/apis/resource.k8s.io/v1", "resourceslices", false),
    ("DeviceClass", "/apis/resource.k8s.io/v1", "deviceclasses", false),
    ("DeviceTaintRule", "/apis/resource.k8s.io/v1beta2", "devicetaintrules", false),
];

/// The API of one server, as one user.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
}

impl Api {
    /// The server and the user of a kubeconfig.
    ///
    /// # Errors
    /// If it is no kubeconfig.
    pub async fn of_kubeconfig(text: &str) -> Result<Self> {
        let kubeconfig = Kubeconfig::from_yaml(text)?;
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        Ok(Self { client: kube::Client::try_from(config)? })
    }

    /// What a client reaches.
    pub const fn of_client(client: kube::Client) -> Self {
        Self { client }
    }

    /// A client for any server, whose certificate is not verified, as the user of a kubeconfig or anonymously.
    ///
    /// # Errors
    /// If the address is none, or the kubeconfig.
    pub async fn of_server(url: &str, kubeconfig: Option<&str>) -> Result<Self> {
        let mut config = match kubeconfig {
            Some(text) => {
                let kubeconfig = Kubeconfig::from_yaml(text)?;
                kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                    .await?
            }
            None => kube::Config::new(url.parse()?),
        };
        config.cluster_url = url.parse()?;
        config.accept_invalid_certs = true;
        config.default_retry = false;
        Ok(Self { client: kube::Client::try_from(config)? })
    }

    /// The text behind a path; asked for once.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub async fn text(&self, path: &str) -> Result<String> {
        let request = Request::get(path).body(Vec::new())?;
        Ok(self.client.request_text(request).await?)
    }

    /// What the server goes on sending, such as the lines of a watch; asked for once.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub async fn stream(&self, path: &str) -> Result<impl AsyncBufRead + use<>> {
        let request = Request::get(path).body(Vec::new())?;
        Ok(self.client.request_stream(request).await?)
    }

    /// Where the objects of a kind are, or one of them when `name` is not empty; namespaced ones in `default`.
    ///
    /// # Errors
    /// If the kind is not known here.
    pub fn path(kind: &str, name: &str) -> Result<String> {
        Self::path_in(kind, "default", name)
    }

    fn path_in(kind: &str, namespace: &str, name: &str) -> Result<String> {
        let (_, prefix, plural, is_namespaced) = KINDS
            .iter()
            .find(|known| known.0 == kind)
            .with_context(|| format!("kind {kind} is not among those of the suite"))?;
        let scope = if *is_namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        Ok(format!("{prefix}{scope}/{plural}{name}"))
    }

    /// An object, or nothing if there is none of that name.
    ///
    /// # Errors
    /// If the server refuses, or is away for longer than three minutes.
    pub async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        match self.send("GET", &Self::path(kind, name)?, None, "").await {
            Ok(object) => Ok(Some(object)),
            Err(error) if code(&error) == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All objects of a kind.
    ///
    /// # Errors
    /// If the server refuses, or is away for longer than three minutes.
    pub async fn list(&self, kind: &str) -> Result<Vec<Value>> {
        match self.send("GET", &Self::path(kind, "")?, None, "").await?.get_mut("items") {
            Some(Value::Array(items)) => Ok(std::mem::take(items)),
            _ => bail!("a list of {kind} without items"),
        }
    }

    /// Creates an object; that it is there already is no error, since the answer to the first try may have been lost.
    ///
    /// # Errors
    /// If the server refuses, or is away for longer than three minutes.
    pub async fn create(&self, object: &Value) -> Result<()> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        let path = Self::path_in(kind, namespace, "")?;
        match self.send("POST", &path, Some(object), "application/json").await {
            Err(error) if code(&error) != Some(409) => {
                Err(error.context(format!("create {kind} {}", object["metadata"]["name"])))
            }
            _ => Ok(()),
        }
    }

    /// Creates several.
    ///
    /// # Errors
    /// If the server refuses, or is away for longer than three minutes.
    pub async fn create_all(&self, objects: impl IntoIterator<Item = Value>) -> Result<()> {
        for object in objects {
            self.create(&object).await?;
        }
        Ok(())
    }

    /// A merge patch; `subresource` may be empty.
    ///
    /// # Errors
    /// If the server refuses, or is away for longer than three minutes.
    pub async fn patch(
        &self,
        kind: &str,
        name: &str,
        subresource: &str,
        patch: &Value,
    ) -> Result<Value> {
        let mut path = Self::path(kind, name)?;
        if !subresource.is_empty() {
            path = format!("{path}/{subresource}");
        }
        self.send("PATCH", &path, Some(patch), "application/merge-patch+json").await
    }

    /// Deletes an object, with the grace it asks for unless `grace` says otherwise. That it is gone is no error.
    ///
    /// # Errors
    /// If the server refuses, or is away for longer than three minutes.
    pub async fn delete(&self, kind: &str, name: &str, grace: Option<u32>) -> Result<()> {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(seconds) = grace {
            options["gracePeriodSeconds"] = seconds.into();
        }
        let path = Self::path(kind, name)?;
        match self.send("DELETE", &path, Some(&options), "application/json").await {
            Err(error) if code(&error) != Some(404) => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes all objects of a kind at once.
    ///
    /// # Errors
    /// If the server refuses, or is away for longer than three minutes.
    pub async fn clear(&self, kind: &str) -> Result<()> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        let path = Self::path(kind, "")?;
        self.send("DELETE", &path, Some(&options), "application/json").await.map(drop)
    }

    /// Any request with a JSON answer.
    ///
    /// # Errors
    /// If the server refuses, or is away for longer than three minutes.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        content_type: &str,
    ) -> Result<Value> {
        let give_up = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(20);
        loop {
            let mut request = Request::builder().method(method).uri(path);
            if body.is_some() {
                request = request.header("Content-Type", content_type);
            }
            let body = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
            let error = match self.client.request_text(request.body(body)?).await {
                Ok(text) => {
                    return serde_json::from_str(&text)
                        .with_context(|| format!("{method} {path} answers {text:?}"));
                }
                Err(kube::Error::Api(status)) if status.code < 500 && status.code != 429 => {
                    return Err(anyhow!(kube::Error::Api(status)));
                }
                Err(error) => error,
            };
            if Instant::now() + pause > give_up {
                return Err(anyhow!(error).context(format!("{method} {path}")));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }
}

/// The HTTP status of a refusal.
pub fn code(error: &anyhow::Error) -> Option<u16> {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

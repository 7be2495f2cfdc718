//! Reading a whole cluster once, with the rights of the user: for questions that are answered without a scheduler.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::kinds::{Form, WatchedKind};
use crate::lookup::{escaped, read};
use crate::newest::NewestRevision;
use crate::transport::{ConnectError, Endpoint};

/// Objects in one answer of the API server.
const PAGE: usize = 500;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a list is restarted from its first page because the server no longer kept the next one.
const MAX_RESTARTS: u32 = 3;

/// Why a cluster cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// There is no connection to be made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A list failed that is needed for any answer.
    #[error("cannot list {what}")]
    List {
        /// The plural of the kind, with the group behind a dot.
        what: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An object could not be read, for this reason: the API server's words, if it has refused.
    #[error("{0}")]
    Object(String),
}

/// Everything in a cluster that the default profile reads.
#[derive(Clone, Debug, Default)]
pub struct ClusterLists {
    /// By plural, with the group behind a dot: a `List` in JSON.
    pub lists: Vec<(String, String)>,
    /// Kinds that may not be listed by this user.
    pub missing: Vec<String>,
    newest: NewestRevision,
}

impl ClusterLists {
    /// Reads the cluster page by page. A kind that the server does not have is left out; one that may not be read is named
    /// in [`missing`](Self::missing), unless it is nodes or pods. Nothing is written.
    ///
    /// # Errors
    /// If there is no connection, nodes or pods may not be listed, or a list fails for another reason.
    pub async fn read(endpoint: &Endpoint) -> Result<Self, ListError> {
        let client = endpoint.kube_client()?;
        let mut found = Self::default();
        for kind in WatchedKind::all_readable() {
            found.add(&client, kind).await?;
        }
        Ok(found)
    }

    /// Reads the objects of one kind, by plural with the group behind a dot; empty if this user may not list them.
    ///
    /// # Errors
    /// If there is no connection, or the list fails for another reason.
    pub async fn read_kind(endpoint: &Endpoint, name: &str) -> Result<Self, ListError> {
        let client = endpoint.kube_client()?;
        let mut found = Self::default();
        for kind in WatchedKind::all_readable().into_iter().filter(|kind| kind.name == name) {
            found.add(&client, kind).await?;
        }
        Ok(found)
    }

    /// One pod as the API server has it, also one that has ended; `None` if there is none.
    ///
    /// # Errors
    /// If there is no connection, or this user may not get the pod.
    pub async fn read_pod(
        endpoint: &Endpoint,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ListError> {
        let client = endpoint.kube_client()?;
        let path = format!("/api/v1/namespaces/{}/pods/{}", escaped(namespace), escaped(name));
        read(&client, &path).await.map_err(ListError::Object)
    }

    /// The first `max` namespaces, by name, that have a pod of this name, also one that has ended.
    ///
    /// # Errors
    /// If there is no connection, or this user may not list the pods of all namespaces.
    pub async fn namespaces_with_pod(
        endpoint: &Endpoint,
        name: &str,
        max: usize,
    ) -> Result<Vec<String>, ListError> {
        let client = endpoint.kube_client()?;
        let named = escaped(name);
        let path = format!("/api/v1/pods?fieldSelector=metadata.name%3D{named}&limit={max}");
        let found = read(&client, &path).await.map_err(ListError::Object)?;
        let pods = found.as_ref().and_then(|list| list["items"].as_array()).into_iter().flatten();
        // A server may give more than was asked for.
        let pods = pods.filter(|pod| pod["metadata"]["name"] == *name);
        let namespaces: BTreeSet<&str> =
            pods.filter_map(|pod| pod["metadata"]["namespace"].as_str()).collect();
        Ok(namespaces.into_iter().take(max).map(str::to_owned).collect())
    }

    /// The newest revision of all objects that were read. The lists are read one after the other: what changed meanwhile may be
    /// missing although it has an older one.
    pub fn resource_version(&self) -> Option<String> {
        self.newest.resource_version()
    }

    async fn add(&mut self, client: &Client, kind: WatchedKind) -> Result<(), ListError> {
        let is_required = kind.form != Form::Generic;
        // A server may serve a kind in several versions: the objects are the same ones.
        let versions = match kind.versions {
            [] => vec![kind],
            all => all.iter().map(|version| kind.clone().in_version(version)).collect(),
        };
        for kind in versions {
            match list(client, &kind.path).await {
                Ok(mut items) => {
                    for item in &mut items {
                        let version = item["metadata"]["resourceVersion"].as_str();
                        self.newest.see_version(version.unwrap_or_default());
                        item["apiVersion"] = kind.api_version.as_str().into();
                        item["kind"] = kind.kind.into();
                    }
                    if !items.is_empty() {
                        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
                        self.lists.push((kind.name, list.to_string()));
                    }
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if status.code == 404 && !is_required => {}
                Err(kube::Error::Api(status)) if status.code == 403 && !is_required => {
                    self.missing.push(kind.name);
                    return Ok(());
                }
                Err(error) => {
                    let source: Box<dyn std::error::Error + Send + Sync> = match error {
                        // The error's own text has the message twice and prints the answer as a data structure.
                        kube::Error::Api(status) => status.message.into(),
                        error => error.into(),
                    };
                    return Err(ListError::List { what: kind.name, source });
                }
            }
        }
        Ok(())
    }
}

/// All objects at `path`. A list whose pages have expired on the server is read again from the start.
async fn list(client: &Client, path: &str) -> Result<Vec<Value>, kube::Error> {
    let (mut items, mut token) = (Vec::new(), String::new());
    let mut n_restarts = 0;
    loop {
        let more = if token.is_empty() { String::new() } else { format!("&continue={token}") };
        let request = http::Request::get(format!("{path}?limit={PAGE}{more}")).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        let page = tokio::time::timeout(PATIENCE, client.request(request)).await;
        let page = page.unwrap_or_else(|_| {
            let late = format!("no answer within {PATIENCE:?}");
            Err(kube::Error::Service(late.into()))
        });
        let mut page: Value = match page {
            Err(kube::Error::Api(status)) if status.code == 410 && n_restarts < MAX_RESTARTS => {
                n_restarts += 1;
                (items, token) = (Vec::new(), String::new());
                continue;
            }
            page => page?,
        };
        if let Value::Array(found) = page["items"].take() {
            items.extend(found);
        }
        match page["metadata"]["continue"].as_str() {
            // Tokens may have characters that a query may not.
            Some(next) if !next.is_empty() => token = escaped(next).to_string(),
            _ => return Ok(items),
        }
    }
}

//! A running cluster as one value: store, server, hollow nodes, controllers and faults, started and stopped together.

mod builder;
mod manifest;
mod standing;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::access::{Authority, CertificateError, Denial, User};
use crate::api::WriteOptions;
use crate::api::create::{create, create_in};
use crate::api::delete::{DeleteOptions, delete};
use crate::api::update::{Part, Target, modify};
use crate::faults::Faults;
use crate::files;
use crate::hollow::{self, NodeTemplate};
use crate::kinds::KindId;
use crate::listener;
use crate::object::StoredObject;
use crate::persist::{self, PersistError};
use crate::selectors::Selection;
use crate::server::Server;
use crate::status::StatusError;
use crate::store::{Listing, Store};
use crate::volumes::Volumes;
use crate::watch::Watcher;
pub use builder::DevClusterBuilder;
use manifest::placed;

/// The bearer token in the administrator's kubeconfig.
const ADMINISTRATORS_TOKEN: &str = "devcluster";

/// Why a cluster cannot be started, stopped or connected to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The port is not available.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The state file cannot be read or written.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// A certificate cannot be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A kubeconfig cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// A running cluster. Dropping it stops the server without saving the state; [`DevCluster::shutdown`] saves it first.
pub struct DevCluster {
    address: SocketAddr,
    store: Arc<Store>,
    faults: Arc<Faults>,
    server: Arc<Server>,
    volumes: Option<Volumes>,
    shutdown: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    state_file: Option<PathBuf>,
}

impl DevCluster {
    /// Options for a new cluster.
    pub fn builder() -> DevClusterBuilder {
        DevClusterBuilder::default()
    }

    /// Answers the requests on `stream`, as if a client had connected without TLS, until the stream ends.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        listener::exchange(self.server.clone(), stream, None).await;
    }

    /// Base address, such as `http://127.0.0.1:41234`; `https://` with TLS.
    pub fn url(&self) -> String {
        let scheme = if self.server.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The administrator's kubeconfig for this cluster, as YAML.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_with(&format!("    token: {ADMINISTRATORS_TOKEN}\n"))
    }

    /// A kubeconfig for `user`, as YAML: with a new certificate, or without TLS with a new token.
    ///
    /// # Errors
    /// If the user is in more groups than a certificate can name.
    pub fn kubeconfig_for(&self, user: &User) -> Result<String, ClusterError> {
        let Some(tls) = &self.server.tls else {
            let token = self.store.write(|state| Ok(state.rng.uuid())).unwrap_or_default();
            self.add_token(&token, user.clone());
            return Ok(self.kubeconfig_with(&format!("    token: {token}\n")));
        };
        let identity = tls.authority.client(user)?;
        Ok(self.kubeconfig_with(&format!(
            "    client-certificate-data: {}\n    client-key-data: {}\n",
            BASE64.encode(identity.certificate),
            BASE64.encode(identity.key),
        )))
    }

    fn kubeconfig_with(&self, credentials: &str) -> String {
        let authority = match self.authority() {
            Some(authority) => {
                format!("    certificate-authority-data: {}\n", BASE64.encode(authority.pem()))
            }
            None => String::new(),
        };
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: devcluster\n  cluster:\n    server: {}\n{authority}\
             contexts:\n- name: devcluster\n  context:\n    cluster: devcluster\n    user: devcluster\n\
             current-context: devcluster\nusers:\n- name: devcluster\n  user:\n{credentials}",
            self.url()
        )
    }

    /// Writes [`DevCluster::kubeconfig`] to a file that only its owner can read. An existing file is replaced; a link is
    /// not followed.
    ///
    /// # Errors
    /// If the file cannot be written, or `path` exists and is not a regular file.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>) -> Result<(), ClusterError> {
        write_secret(path.as_ref(), &self.kubeconfig())
    }

    /// Writes [`DevCluster::kubeconfig_for`] a user to a file, as [`DevCluster::write_kubeconfig`] does.
    ///
    /// # Errors
    /// Those of both.
    pub fn write_kubeconfig_for(
        &self,
        user: &User,
        path: impl AsRef<Path>,
    ) -> Result<(), ClusterError> {
        write_secret(path.as_ref(), &self.kubeconfig_for(user)?)
    }

    /// The authority that signs the certificates of the server and of users; `None` without TLS.
    pub fn authority(&self) -> Option<&Authority> {
        self.server.tls.as_ref().map(|tls| &tls.authority)
    }

    /// The authority of front proxies, which name the user they act for in headers; `None` without TLS. The server itself
    /// accepts no front proxy: this is for servers that delegate authentication to the cluster.
    pub fn front_proxy(&self) -> Option<&Authority> {
        self.server.tls.as_ref().map(|tls| &tls.front_proxy)
    }

    /// Gives a user a bearer token from now on. Has no effect without TLS, RBAC and tokens of the builder, because then
    /// every request counts as the administrator's.
    pub fn add_token(&self, token: &str, user: User) {
        self.server.access.add_token(token.to_owned(), user);
    }

    /// The requests that were rejected because no role allows them, the oldest first; at most the last 10,000.
    pub fn denied(&self) -> Vec<Denial> {
        self.server.access.denied()
    }

    /// The stored objects.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The faults that the server injects.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The controllers of volumes; `None` if the builder has turned them off.
    pub fn volumes(&self) -> Option<&Volumes> {
        self.volumes.as_ref()
    }

    /// Adds `count` hollow nodes, whose numbers continue after the number of existing nodes.
    ///
    /// # Errors
    /// If a node of that name exists, or the template makes an invalid node.
    pub fn add_hollow_nodes(
        &self,
        count: usize,
        template: &NodeTemplate,
    ) -> Result<Vec<Arc<StoredObject>>, StatusError> {
        hollow::add_nodes(&self.store, count, template)
    }

    /// Closes every connection, rejects new ones for `downtime`, then continues with the same state on the same port.
    pub fn restart(&self, downtime: Duration) {
        self.server.restart(downtime);
    }

    /// Creates one object as a POST would. Namespaced objects without a namespace go to `default`.
    ///
    /// # Errors
    /// Those of a POST.
    pub fn create(&self, object: Value) -> Result<Arc<StoredObject>, StatusError> {
        let (kind, namespace, object) = placed(object)?;
        create(&self.store, kind, &namespace, object, &WriteOptions::default())
    }

    /// Creates many objects while holding the store's lock once, and returns how many.
    ///
    /// # Errors
    /// Those of a POST for the first object that is rejected; the ones before it stay.
    pub fn bulk_create(
        &self,
        objects: impl IntoIterator<Item = Value>,
    ) -> Result<usize, StatusError> {
        self.bulk(objects, false)
    }

    /// Like [`DevCluster::bulk_create`], but keeps the statuses, uids and timestamps that the objects come with. Meant for
    /// the dump of another cluster.
    ///
    /// # Errors
    /// As [`DevCluster::bulk_create`].
    pub fn load(&self, objects: impl IntoIterator<Item = Value>) -> Result<usize, StatusError> {
        self.bulk(objects, true)
    }

    /// One object; `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, kind: KindId, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
        self.store.get(kind, namespace, name)
    }

    /// The selected objects of a kind.
    pub fn list(&self, kind: KindId, selection: &Selection) -> Listing {
        self.store.list(kind, selection)
    }

    /// The selected objects of a kind, and a watch of all changes after that.
    ///
    /// # Errors
    /// None in practice: listing the current state cannot fail.
    pub fn list_and_watch(
        &self,
        kind: KindId,
        selection: Selection,
    ) -> Result<(Vec<Arc<StoredObject>>, Watcher), StatusError> {
        Watcher::list_and_watch(self.store.clone(), kind, selection)
    }

    /// Changes an object in place, status included, as a PUT of the object and one of its status would.
    ///
    /// # Errors
    /// Those of a PUT.
    pub fn edit(
        &self,
        kind: KindId,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<StoredObject>, StatusError> {
        let main = Target { kind, namespace, name, part: Part::Main };
        let mut status = None;
        let options = WriteOptions::default();
        let changed = modify(&self.store, main, &options, |old| {
            let mut new = old.clone();
            change(&mut new);
            status = new.get("status").cloned();
            Ok(new)
        })?;
        let (true, Some(status)) = (kind.get().has_status, status) else { return Ok(changed) };
        modify(&self.store, Target { part: Part::Status, ..main }, &options, |old| {
            let mut new = old.clone();
            crate::object::map_mut(&mut new).insert("status".into(), status);
            Ok(new)
        })
    }

    /// Deletes an object as a DELETE without options would.
    ///
    /// # Errors
    /// Those of a DELETE.
    pub fn delete(&self, kind: KindId, namespace: &str, name: &str) -> Result<(), StatusError> {
        delete(&self.store, kind, namespace, name, &DeleteOptions::default()).map(|_| ())
    }

    /// Stops serving, waits for the cluster's tasks, and saves the state if there is a file for it.
    ///
    /// # Errors
    /// If the state cannot be saved.
    pub async fn shutdown(mut self) -> Result<(), ClusterError> {
        self.shutdown.cancel();
        for task in std::mem::take(&mut self.tasks) {
            if let Err(error) = task.await {
                error!(%error, "a task of the devcluster failed");
            }
        }
        if let Some(path) = &self.state_file {
            persist::save(&self.store, path)?;
        }
        Ok(())
    }

    fn bulk(
        &self,
        objects: impl IntoIterator<Item = Value>,
        keep_status: bool,
    ) -> Result<usize, StatusError> {
        let options = WriteOptions { keep_status, ..WriteOptions::default() };
        self.store.write(|state| {
            let mut created = 0;
            for object in objects {
                let (kind, namespace, object) = placed(object)?;
                create_in(state, kind, &namespace, object, &options)?;
                created += 1;
            }
            Ok(created)
        })
    }
}

impl Drop for DevCluster {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn write_secret(path: &Path, text: &str) -> Result<(), ClusterError> {
    files::replace(path, |out| out.write_all(text.as_bytes()))
        .map_err(|source| ClusterError::Write { path: path.to_owned(), source })
}

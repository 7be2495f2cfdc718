//! The cluster as one value: store, server, hollow nodes and faults, started and stopped together.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::access::{
    Access, Authority, CertificateError, Denial, Tls, User, authentication_config, standing_policy,
};
use crate::api::WriteOptions;
use crate::api::create::{create, create_in};
use crate::api::delete::{DeleteOptions, delete};
use crate::api::update::{Part, Target, modify};
use crate::clock::{Clock, SystemClock};
use crate::controller;
use crate::defaults::system_priority_classes;
use crate::events;
use crate::faults::Faults;
use crate::hollow::{self, Hollow, HollowOptions, NodeTemplate};
use crate::kinds::{EVENTS_V1, KindId, NAMESPACES, PRIORITY_CLASSES};
use crate::object::{Object, text_at};
use crate::persist::{self, PersistError};
use crate::selectors::Selection;
use crate::server::{Server, ServerOptions};
use crate::status::ApiError;
use crate::store::{Listing, Store, StoreOptions};
use crate::volumes::{self, VolumeOptions, Volumes};
use crate::watch::Watcher;

/// Why a cluster does not start or stop cleanly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The port cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The state file.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// The certificates.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A file to be written for others.
    #[error("cannot write {path}")]
    Write {
        /// The file in question.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Options of a cluster; see [`DevCluster::builder`].
#[derive(Clone)]
pub struct DevClusterBuilder {
    port: u16,
    seed: u64,
    clock: Arc<dyn Clock>,
    history: usize,
    events_kept: usize,
    events_ttl: Duration,
    bookmark_interval: Duration,
    watch_timeout: Duration,
    pub(crate) protobuf: bool,
    hollow: Option<HollowOptions>,
    disruption_controller: bool,
    volumes: Option<VolumeOptions>,
    persist: Option<(PathBuf, Duration)>,
    tls: bool,
    rbac: bool,
    tokens: BTreeMap<String, User>,
}

impl Default for DevClusterBuilder {
    fn default() -> Self {
        Self {
            port: 0,
            seed: 0,
            clock: Arc::new(SystemClock),
            history: 65_536,
            events_kept: 20_000,
            events_ttl: Duration::from_secs(3600),
            bookmark_interval: Duration::from_secs(60),
            watch_timeout: Duration::from_secs(1800),
            protobuf: false,
            hollow: Some(HollowOptions::default()),
            disruption_controller: true,
            volumes: Some(VolumeOptions::default()),
            persist: None,
            tls: false,
            rbac: false,
            tokens: BTreeMap::new(),
        }
    }
}

impl DevClusterBuilder {
    /// The port on 127.0.0.1; 0, the default, takes any free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The seed of uids, generated names and faults; 0 by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Where timestamps come from; the machine by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How many changes per kind a watch can fall behind before it gets 410; 65,536 by default.
    pub fn history(mut self, changes: usize) -> Self {
        self.history = changes;
        self
    }

    /// How many events are kept, and how long; 20,000 and an hour by default.
    pub fn events(mut self, kept: usize, ttl: Duration) -> Self {
        self.events_kept = kept;
        self.events_ttl = ttl;
        self
    }

    /// How often idle watches get bookmarks; a minute by default.
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.bookmark_interval = interval;
        self
    }

    /// How long a watch lasts that asks for no other time; half an hour by default.
    pub fn watch_timeout(mut self, timeout: Duration) -> Self {
        self.watch_timeout = timeout;
        self
    }

    /// How hollow nodes behave, or `None` to leave bound pods alone.
    pub fn hollow(mut self, options: Option<HollowOptions>) -> Self {
        self.hollow = options;
        self
    }

    /// Whether the status of disruption budgets is kept up to date; true by default.
    pub fn disruption_controller(mut self, on: bool) -> Self {
        self.disruption_controller = on;
        self
    }

    /// How volumes are bound and made, or `None` to leave claims and volumes alone.
    pub fn volumes(mut self, options: Option<VolumeOptions>) -> Self {
        self.volumes = options;
        self
    }

    /// Keeps the state in a file: read at the start, written at every `interval` with changes and at shutdown.
    pub fn persist(mut self, path: impl Into<PathBuf>, interval: Duration) -> Self {
        self.persist = Some((path.into(), interval));
        self
    }

    /// Serves TLS, with a certificate of an authority that stands in the kubeconfig, and knows users by certificates of
    /// the same authority; off by default. Whoever shows neither certificate nor token is anonymous then.
    pub fn tls(mut self, on: bool) -> Self {
        self.tls = on;
        self
    }

    /// Refuses what no role allows; off by default. The roles and bindings are objects as any others, and those of the
    /// control plane's scheduler are there from the start. [`DevCluster::kubeconfig`] is the administrator's.
    pub fn rbac(mut self, on: bool) -> Self {
        self.rbac = on;
        self
    }

    /// Gives a user a bearer token. Tokens that nobody was given are refused from then on.
    pub fn token(mut self, token: impl Into<String>, user: User) -> Self {
        self.tokens.insert(token.into(), user);
        self
    }

    /// Starts the cluster on the current tokio runtime.
    pub async fn start(self) -> Result<DevCluster, ClusterError> {
        let store = Arc::new(Store::new(StoreOptions {
            clock: self.clock,
            seed: self.seed,
            history: self.history,
            events_kept: self.events_kept,
            events_ttl_seconds: i64::try_from(self.events_ttl.as_secs()).unwrap_or(i64::MAX),
        }));
        if let Some((path, _)) = &self.persist {
            persist::load(&store, path)?;
        }
        add_standing_objects(&store);
        let tls = if self.tls { Some(tls(&store)?) } else { None };
        add_access_objects(&store, tls.as_ref(), self.rbac);
        let authenticates = self.tls || !self.tokens.is_empty();
        let mut tokens = self.tokens;
        tokens.entry(ADMINISTRATORS_TOKEN.to_owned()).or_insert_with(User::administrator);
        let access = Access::new(tokens, authenticates, self.rbac);

        let wanted = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port);
        let refused = |source| ClusterError::Listen { address: wanted, source };
        let listener = TcpListener::bind(wanted).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;

        // Another stream of random numbers than the names take theirs from.
        let faults = Arc::new(Faults::new(self.seed ^ 0x66_61_75_6c_74));
        let options = ServerOptions {
            bookmark_interval: self.bookmark_interval,
            watch_timeout: self.watch_timeout,
            protobuf: self.protobuf,
        };
        let server = Arc::new(Server::new(store.clone(), faults.clone(), access, tls, options));
        let shutdown = CancellationToken::new();
        let mut tasks = vec![tokio::spawn(server.clone().serve(listener, shutdown.clone()))];
        if let Some(options) = self.hollow {
            tasks.push(tokio::spawn(hollow::run(store.clone(), options, shutdown.clone())));
        }
        if self.disruption_controller {
            tasks.push(tokio::spawn(controller::run(store.clone(), shutdown.clone())));
        }
        let volumes = self.volumes.map(|options| {
            let (volumes, task) = volumes::controllers(store.clone(), options, shutdown.clone());
            tasks.push(tokio::spawn(task));
            volumes
        });
        let state_file = self.persist.as_ref().map(|(path, _)| path.clone());
        if let Some((path, interval)) = self.persist {
            tasks.push(tokio::spawn(save_periodically(
                store.clone(),
                path,
                interval,
                shutdown.clone(),
            )));
        }
        info!(%address, "devcluster serves");
        let hollow = Hollow::new(store.clone());
        Ok(DevCluster {
            address,
            store,
            faults,
            server,
            hollow,
            volumes,
            shutdown,
            tasks,
            state_file,
        })
    }
}

/// A running cluster. Dropping it stops the server without saving; [`DevCluster::shutdown`] does it in order.
pub struct DevCluster {
    address: SocketAddr,
    store: Arc<Store>,
    faults: Arc<Faults>,
    server: Arc<Server>,
    hollow: Hollow,
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

    /// Base address, such as `http://127.0.0.1:41234`; `https://` with TLS.
    pub fn url(&self) -> String {
        let scheme = if self.server.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The administrator's kubeconfig for this cluster, as YAML.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_with(&format!("    token: {ADMINISTRATORS_TOKEN}\n"))
    }

    /// A kubeconfig with a certificate of `user`, or with a new token of his where there is no TLS.
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

    /// The authority behind the server's certificate and those of users; `None` without TLS.
    pub fn authority(&self) -> Option<&Authority> {
        self.server.tls.as_ref().map(|tls| &tls.authority)
    }

    /// The authority of proxies that tell in headers whom they speak for; `None` without TLS. The API server itself
    /// believes no such proxy: this is for servers that take their configuration from it.
    pub fn front_proxy(&self) -> Option<&Authority> {
        self.server.tls.as_ref().map(|tls| &tls.front_proxy)
    }

    /// Gives a user a bearer token, from now on. Without TLS, RBAC or tokens of the builder it changes nothing, since
    /// everyone is the administrator then.
    pub fn add_token(&self, token: &str, user: User) {
        self.server.access.add_token(token.to_owned(), user);
    }

    /// The requests that were refused for want of a right, the oldest first; the last 10,000 are kept.
    pub fn denied(&self) -> Vec<Denial> {
        self.server.access.denied()
    }

    /// Writes [`DevCluster::kubeconfig`] to a file.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>) -> Result<(), ClusterError> {
        let path = path.as_ref();
        std::fs::write(path, self.kubeconfig())
            .map_err(|source| ClusterError::Write { path: path.to_owned(), source })
    }

    /// The objects.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The faults.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The hollow nodes.
    pub fn hollow(&self) -> &Hollow {
        &self.hollow
    }

    /// The volume controllers; `None` when claims and volumes are left alone.
    pub fn volumes(&self) -> Option<&Volumes> {
        self.volumes.as_ref()
    }

    /// Adds `count` hollow nodes.
    pub fn add_hollow_nodes(
        &self,
        count: usize,
        template: &NodeTemplate,
    ) -> Result<Vec<Arc<Object>>, ApiError> {
        self.hollow.add_nodes(count, template)
    }

    /// Closes every connection, refuses new ones for `downtime`, then goes on with the same state on the same port.
    pub fn restart(&self, downtime: Duration) {
        self.server.restart(downtime);
    }

    /// Creates one object as a POST would. Namespaced objects without a namespace go to `default`.
    pub fn create(&self, object: Value) -> Result<Arc<Object>, ApiError> {
        let (kind, namespace, object) = placed(object)?;
        create(&self.store, kind, &namespace, object, &WriteOptions::default())
    }

    /// Creates many objects under one hold of the lock, up to the first that is refused.
    pub fn bulk_create(&self, objects: impl IntoIterator<Item = Value>) -> Result<usize, ApiError> {
        self.bulk(objects, false)
    }

    /// Like [`DevCluster::bulk_create`], but statuses, uids and timestamps that come with the objects are kept, as is
    /// right for the dump of another cluster.
    pub fn load(&self, objects: impl IntoIterator<Item = Value>) -> Result<usize, ApiError> {
        self.bulk(objects, true)
    }

    /// One object; `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, kind: KindId, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.store.get(kind, namespace, name)
    }

    /// The selected objects of a kind.
    pub fn list(&self, kind: KindId, selection: &Selection) -> Listing {
        self.store.list(kind, selection)
    }

    /// The selected objects of a kind and a watch that goes on from there.
    pub fn list_and_watch(
        &self,
        kind: KindId,
        selection: Selection,
    ) -> Result<(Vec<Arc<Object>>, Watcher), ApiError> {
        Watcher::list_and_watch(self.store.clone(), kind, selection)
    }

    /// Changes an object in place, status included, as several requests at once would.
    pub fn edit(
        &self,
        kind: KindId,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<Object>, ApiError> {
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

    /// Deletes an object as a DELETE would, with its own grace.
    pub fn delete(&self, kind: KindId, namespace: &str, name: &str) -> Result<(), ApiError> {
        delete(&self.store, kind, namespace, name, &DeleteOptions::default()).map(|_| ())
    }

    /// Stops serving, waits for the tasks and saves the state when there is a file for it.
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
    ) -> Result<usize, ApiError> {
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

/// The storage kind of a manifest, its namespace, and the manifest in the stored form.
fn placed(object: Value) -> Result<(KindId, String, Value), ApiError> {
    let (api_version, kind_name) = (text_at(&object, &["apiVersion"]), text_at(&object, &["kind"]));
    let kind = KindId::by_manifest(api_version, kind_name)
        .filter(|kind| !kind.get().review)
        .ok_or_else(|| {
            ApiError::bad_request(format!(
                "no matches for kind {kind_name:?} in version {api_version:?}"
            ))
        })?;
    let namespace = match text_at(&object, &["metadata", "namespace"]) {
        _ if !kind.get().namespaced => String::new(),
        "" => "default".to_owned(),
        own => own.to_owned(),
    };
    let object = if kind == EVENTS_V1 { events::to_core(object) } else { object };
    Ok((kind.storage(), namespace, object))
}

/// What every cluster has from the start; after a restart from a file most of it is there already.
fn add_standing_objects(store: &Store) {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"]
        .into_iter()
        .map(|name| (NAMESPACES, json!({"metadata": {"name": name}})));
    let classes = system_priority_classes().map(|class| (PRIORITY_CLASSES, class));
    for (kind, object) in namespaces.chain(classes) {
        // Refused only when it exists.
        let _ = create(store, kind, "", object, &WriteOptions::default());
    }
}

/// The token of the kubeconfig.
const ADMINISTRATORS_TOKEN: &str = "devcluster";

/// The policy and what delegated authentication reads.
fn add_access_objects(store: &Store, tls: Option<&Tls>, rbac: bool) {
    let config =
        authentication_config(tls.map(|tls| &tls.authority), tls.map(|tls| &tls.front_proxy));
    let policy = if rbac { standing_policy() } else { Vec::new() };
    for object in policy.into_iter().chain([config]) {
        let Ok((kind, namespace, object)) = placed(object) else { continue };
        // Refused only when it exists.
        let _ = create(store, kind, &namespace, object, &WriteOptions::default());
    }
}

/// TLS with authorities whose keys are kept in the cluster, so that they survive with it.
fn tls(store: &Store) -> Result<Tls, CertificateError> {
    let clients = kept_authority(store, "devcluster-ca")?;
    Tls::new(clients, kept_authority(store, "devcluster-front-proxy-ca")?)
}

fn kept_authority(store: &Store, name: &str) -> Result<Authority, CertificateError> {
    const KEY: &str = "ca.key";
    let secrets = KindId::by_plural("", "v1", "secrets");
    let kept = secrets.and_then(|secrets| store.get(secrets, "kube-system", name));
    if let Some(secret) = kept
        && let Ok(key) = BASE64.decode(text_at(&secret.value(), &["data", KEY]))
        && let Ok(key) = String::from_utf8(key)
    {
        return Authority::from_key(name, &key);
    }
    let authority = Authority::generate(name)?;
    if let Some(secrets) = secrets {
        let data = json!({KEY: BASE64.encode(authority.key())});
        let secret = json!({"metadata": {"name": name}, "type": "Opaque", "data": data});
        // Refused only when one exists that holds no key; then the new one is not kept.
        let _ = create(store, secrets, "kube-system", secret, &WriteOptions::default());
    }
    Ok(authority)
}

async fn save_periodically(
    store: Arc<Store>,
    path: PathBuf,
    interval: Duration,
    shutdown: CancellationToken,
) {
    let mut saved = 0;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        let version = store.resource_version();
        if version == saved {
            continue;
        }
        let (own_store, own_path) = (store.clone(), path.clone());
        let result =
            tokio::task::spawn_blocking(move || persist::save(&own_store, &own_path)).await;
        match result {
            Ok(Ok(())) => saved = version,
            Ok(Err(error)) => {
                error!(%error, source = ?std::error::Error::source(&error), "state not saved")
            }
            Err(error) => error!(%error, "state not saved"),
        }
    }
}

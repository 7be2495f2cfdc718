//! The options of a cluster, and its start.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::{ADMINISTRATORS_TOKEN, ClusterError, DevCluster, standing};
use crate::access::{Access, User};
use crate::clock::{Clock, SystemClock};
use crate::devices::{self, SampleDevices};
use crate::faults::Faults;
use crate::hollow::{self, HollowOptions};
use crate::server::{Server, ServerOptions};
use crate::store::{Store, StoreOptions};
use crate::volumes::{self, VolumeOptions};
use crate::{controller, garbage, group_protection, listener, persist, workloads};

/// Options of a cluster; made by [`DevCluster::builder`].
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
    protobuf: bool,
    hollow: Option<HollowOptions>,
    disruption_controller: bool,
    volumes: Option<VolumeOptions>,
    claims: bool,
    devices: Option<SampleDevices>,
    workloads: bool,
    state_file: Option<StateFile>,
    tls: bool,
    rbac: bool,
    tokens: BTreeMap<String, User>,
}

/// Where the state of a cluster is saved, and how often.
#[derive(Clone)]
struct StateFile {
    path: PathBuf,
    interval: Duration,
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
            claims: true,
            devices: None,
            workloads: false,
            state_file: None,
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

    /// The source of timestamps; the machine's clock by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How many changes per kind a watch can fall behind before it gets status 410; 65,536 by default.
    pub fn history(mut self, changes: usize) -> Self {
        self.history = changes;
        self
    }

    /// How many events (objects of kind Event) are kept, and for how long; 20,000 and an hour by default.
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

    /// When a watch ends whose request sets no `timeoutSeconds`; after half an hour by default.
    pub fn watch_timeout(mut self, timeout: Duration) -> Self {
        self.watch_timeout = timeout;
        self
    }

    /// Whether pods and nodes are listed and watched in protobuf by clients that accept it, and whether bindings and
    /// events are read in this form. By default everything is sent as JSON, which is how objects are stored, and
    /// schedulers have to write JSON; all other bodies are read in protobuf in any case, since kubectl sends it.
    pub fn protobuf(mut self, is_offered: bool) -> Self {
        self.protobuf = is_offered;
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

    /// How volumes are bound and provisioned, or `None` to leave claims and volumes alone.
    pub fn volumes(mut self, options: Option<VolumeOptions>) -> Self {
        self.volumes = options;
        self
    }

    /// Whether pods get resource claims from templates, and claims are released when their pods have ended; true by default.
    pub fn claim_controller(mut self, on: bool) -> Self {
        self.claims = on;
        self
    }

    /// Which sample devices nodes and zones have, with device classes for them; `None`, the default, for none.
    pub fn devices(mut self, devices: Option<SampleDevices>) -> Self {
        self.devices = devices;
        self
    }

    /// Whether Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets and Jobs get their pods, and
    /// whether objects are deleted with their owners; false by default, so that in tests nothing happens but what the test
    /// does.
    pub fn workloads(mut self, on: bool) -> Self {
        self.workloads = on;
        self
    }

    /// Saves the state in a file: it is read at the start if it exists, and written at shutdown and after every
    /// `interval` with changes. Only its owner can read it, since secrets are part of the state.
    pub fn persist(mut self, path: impl Into<PathBuf>, interval: Duration) -> Self {
        self.state_file = Some(StateFile { path: path.into(), interval });
        self
    }

    /// Serves TLS, and authenticates users by certificates of the authority that has signed the server's certificate and
    /// that the kubeconfig contains; off by default. With TLS, a client that sends neither certificate nor token is
    /// anonymous.
    pub fn tls(mut self, on: bool) -> Self {
        self.tls = on;
        self
    }

    /// Rejects requests that no role allows; off by default. Roles and bindings are ordinary objects, and those of the
    /// control plane's scheduler exist from the start. [`DevCluster::kubeconfig`] stays the administrator's.
    pub fn rbac(mut self, on: bool) -> Self {
        self.rbac = on;
        self
    }

    /// Gives a user a bearer token. From then on unknown tokens are rejected.
    pub fn token(mut self, token: impl Into<String>, user: User) -> Self {
        self.tokens.insert(token.into(), user);
        self
    }

    /// Starts the cluster on the current tokio runtime.
    ///
    /// # Errors
    /// If the port is not free, the state file cannot be read, or certificates cannot be made.
    pub async fn start(self) -> Result<DevCluster, ClusterError> {
        let store = Arc::new(Store::new(StoreOptions {
            clock: self.clock,
            seed: self.seed,
            history: self.history,
            events_kept: self.events_kept,
            events_ttl_seconds: i64::try_from(self.events_ttl.as_secs()).unwrap_or(i64::MAX),
        }));
        // First, since what the file contains takes precedence over the objects that every cluster starts with.
        if let Some(file) = &self.state_file {
            persist::load(&store, &file.path)?;
        }
        standing::add_objects(&store);
        let tls = if self.tls { Some(standing::tls(&store)?) } else { None };
        standing::add_access_objects(&store, tls.as_ref(), self.rbac);
        let authenticates = self.tls || !self.tokens.is_empty();
        let mut tokens = self.tokens;
        tokens.entry(ADMINISTRATORS_TOKEN.to_owned()).or_insert_with(User::administrator);
        let access = Access::new(tokens, authenticates, self.rbac);

        let wanted = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port);
        let failed = |source| ClusterError::Listen { address: wanted, source };
        let socket = TcpListener::bind(wanted).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;

        // A stream of random numbers of its own, so that faults do not change names and uids.
        let faults = Arc::new(Faults::new(self.seed ^ 0x66_61_75_6c_74));
        let options = ServerOptions {
            bookmark_interval: self.bookmark_interval,
            watch_timeout: self.watch_timeout,
            protobuf: self.protobuf,
        };
        let server = Arc::new(Server::new(store.clone(), faults.clone(), access, tls, options));
        let shutdown = CancellationToken::new();
        let mut tasks =
            vec![tokio::spawn(listener::serve(server.clone(), socket, shutdown.clone()))];
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
        if self.claims {
            tasks.push(tokio::spawn(devices::run_claims(store.clone(), shutdown.clone())));
        }
        tasks.push(tokio::spawn(group_protection::run(store.clone(), shutdown.clone())));
        if let Some(devices) = self.devices {
            tasks.push(tokio::spawn(devices::run_driver(store.clone(), devices, shutdown.clone())));
        }
        if self.workloads {
            tasks.push(tokio::spawn(garbage::run(store.clone(), shutdown.clone())));
            tasks.push(tokio::spawn(workloads::run(store.clone(), shutdown.clone())));
        }
        let state_file = self.state_file.as_ref().map(|file| file.path.clone());
        if let Some(file) = self.state_file {
            tasks.push(tokio::spawn(save_periodically(store.clone(), file, shutdown.clone())));
        }
        info!(%address, "devcluster serves");
        Ok(DevCluster { address, store, faults, server, volumes, shutdown, tasks, state_file })
    }
}

async fn save_periodically(store: Arc<Store>, file: StateFile, shutdown: CancellationToken) {
    let mut saved = 0;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(file.interval) => {}
        }
        let version = store.resource_version();
        if version == saved {
            continue;
        }
        let (store, path) = (store.clone(), file.path.clone());
        let result = tokio::task::spawn_blocking(move || persist::save(&store, &path)).await;
        match result {
            Ok(Ok(())) => saved = version,
            Ok(Err(error)) => {
                error!(%error, source = ?std::error::Error::source(&error), "state not saved")
            }
            Err(error) => error!(%error, "state not saved"),
        }
    }
}

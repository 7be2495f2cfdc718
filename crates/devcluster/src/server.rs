//! What all connections of a server share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_scheduler_api_types::lock;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Tls};
use crate::faults::Faults;
use crate::store::Store;

/// Options of the server.
#[derive(Debug, Clone)]
pub(crate) struct ServerOptions {
    pub(crate) bookmark_interval: Duration,
    pub(crate) watch_timeout: Duration,
    /// Whether pods and nodes are listed and watched in protobuf by clients that accept it.
    pub(crate) protobuf: bool,
}

/// The state behind every request.
pub(crate) struct Server {
    pub(crate) store: Arc<Store>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) access: Access,
    pub(crate) tls: Option<Tls>,
    pub(crate) options: ServerOptions,
    epoch: Mutex<Epoch>,
}

/// The time between two restarts.
#[derive(Clone)]
pub(crate) struct Epoch {
    /// Cancelled by the restart that ends the epoch.
    pub(crate) over: CancellationToken,
    /// How long the server was unreachable before the epoch.
    pub(crate) downtime: Duration,
}

impl Server {
    pub(crate) fn new(
        store: Arc<Store>,
        faults: Arc<Faults>,
        access: Access,
        tls: Option<Tls>,
        options: ServerOptions,
    ) -> Self {
        let epoch = Mutex::new(Epoch { over: CancellationToken::new(), downtime: Duration::ZERO });
        Self { store, faults, access, tls, options, epoch }
    }

    /// Closes all connections, and makes the server unreachable for `downtime`.
    pub(crate) fn restart(&self, downtime: Duration) {
        let mut epoch = lock(&self.epoch);
        let ended =
            std::mem::replace(&mut *epoch, Epoch { over: CancellationToken::new(), downtime });
        ended.over.cancel();
    }

    /// The current epoch.
    pub(crate) fn epoch(&self) -> Epoch {
        lock(&self.epoch).clone()
    }
}

//! The listener: HTTP/1.1 on loopback, over TLS if that is wanted.
//!
//! Invariants: a restart closes every connection and, for its downtime, the port; what is stored survives it; the port
//! stays the same for the life of the server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::access::{Access, Tls, User};
use crate::faults::Faults;
use crate::routes;
use crate::store::Store;

/// Timers and habits of the server.
#[derive(Debug, Clone)]
pub(crate) struct ServerOptions {
    pub(crate) bookmark_interval: Duration,
    pub(crate) watch_timeout: Duration,
    /// Whether pods and nodes are listed and watched in protobuf by whoever asks for it.
    pub(crate) protobuf: bool,
}

/// What every connection shares.
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
struct Epoch {
    over: CancellationToken,
    downtime: Duration,
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

    /// Closes all connections and stays unreachable for `downtime`.
    pub(crate) fn restart(&self, downtime: Duration) {
        let mut epoch = self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
        let ended =
            std::mem::replace(&mut *epoch, Epoch { over: CancellationToken::new(), downtime });
        ended.over.cancel();
    }

    /// Serves until `shutdown`.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener, shutdown: CancellationToken) {
        let Ok(address) = listener.local_addr() else { return };
        let mut listener = Some(listener);
        while !shutdown.is_cancelled() {
            let over = self.epoch().over;
            if let Some(open) = listener.take() {
                self.accept(&open, &over, &shutdown).await;
            }
            if shutdown.is_cancelled() {
                return;
            }
            let downtime = self.epoch().downtime;
            tokio::select! {
                () = tokio::time::sleep(downtime) => {}
                () = shutdown.cancelled() => return,
            }
            listener = self.reopen(address, &shutdown).await;
        }
    }

    fn epoch(&self) -> Epoch {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn accept(
        self: &Arc<Self>,
        listener: &TcpListener,
        over: &CancellationToken,
        shutdown: &CancellationToken,
    ) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = over.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    tokio::spawn(self.clone().connection(stream, over.clone(), shutdown.clone()));
                }
                Err(error) => {
                    warn!(%error, "accept failed");
                    // Most likely out of file descriptors; do not spin.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        over: CancellationToken,
        shutdown: CancellationToken,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "no TCP_NODELAY");
        }
        let served = async {
            match &self.tls {
                None => self.clone().exchange(stream, None).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok((stream, user)) => self.clone().exchange(stream, user).await,
                    Err(error) => debug!(%error, "no TLS handshake"),
                },
            }
        };
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            () = shutdown.cancelled() => {}
            () = served => {}
        }
    }

    /// Answers the requests of one connection, whose certificate was for `user`.
    async fn exchange(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        user: Option<User>,
    ) {
        let user = user.map(Arc::new);
        let service =
            service_fn(move |request| routes::handle(self.clone(), user.clone(), request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.await {
            debug!(%error, "connection ended");
        }
    }

    async fn reopen(
        &self,
        address: SocketAddr,
        shutdown: &CancellationToken,
    ) -> Option<TcpListener> {
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => return Some(listener),
                Err(error) => warn!(%error, %address, "cannot reopen the port yet"),
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
                () = shutdown.cancelled() => return None,
            }
        }
    }
}

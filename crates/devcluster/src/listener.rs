//! The listener: HTTP/1.1 on loopback, over TLS if the cluster has it.
//!
//! Invariants: a restart closes every connection and, for its downtime, the port; what is stored survives it; the port
//! stays the same for the life of the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::access::User;
use crate::routes;
use crate::server::Server;

/// The wait after a failed accept or bind, so that the loop does not spin.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// Serves until `shutdown`.
pub(crate) async fn serve(server: Arc<Server>, socket: TcpListener, shutdown: CancellationToken) {
    let Ok(address) = socket.local_addr() else { return };
    let mut socket = Some(socket);
    while !shutdown.is_cancelled() {
        let over = server.epoch().over;
        if let Some(open) = socket.take() {
            accept(&server, &open, &over, &shutdown).await;
        }
        if shutdown.is_cancelled() {
            return;
        }
        let downtime = server.epoch().downtime;
        tokio::select! {
            () = tokio::time::sleep(downtime) => {}
            () = shutdown.cancelled() => return,
        }
        socket = reopen(address, &shutdown).await;
    }
}

async fn accept(
    server: &Arc<Server>,
    socket: &TcpListener,
    over: &CancellationToken,
    shutdown: &CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = over.cancelled() => return,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (over, shutdown) = (over.clone(), shutdown.clone());
                tokio::spawn(connection(server.clone(), stream, over, shutdown));
            }
            Err(error) => {
                // Most likely there are no file descriptors left.
                warn!(%error, "accept failed");
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

async fn connection(
    server: Arc<Server>,
    stream: TcpStream,
    over: CancellationToken,
    shutdown: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "no TCP_NODELAY");
    }
    let served = async {
        match &server.tls {
            None => exchange(server.clone(), stream, None).await,
            Some(tls) => match tls.accept(stream).await {
                Ok((stream, user)) => exchange(server.clone(), stream, user).await,
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

/// Answers the requests of one connection; `user` is the one of the client certificate.
pub(crate) async fn exchange(
    server: Arc<Server>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    user: Option<User>,
) {
    let user = user.map(Arc::new);
    let service = service_fn(move |request| routes::handle(server.clone(), user.clone(), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        debug!(%error, "connection ended");
    }
}

async fn reopen(address: SocketAddr, shutdown: &CancellationToken) -> Option<TcpListener> {
    loop {
        match TcpListener::bind(address).await {
            Ok(socket) => return Some(socket),
            Err(error) => warn!(%error, %address, "cannot reopen the port yet"),
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_DELAY) => {}
            () = shutdown.cancelled() => return None,
        }
    }
}

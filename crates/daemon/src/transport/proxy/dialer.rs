//! Connects to where a URL leads, or to the proxy on the way there.
//!
//! Invariant: whatever goes over TLS to its end is not seen by the proxy, which passes on a connection (`CONNECT`, SOCKS 5). What
//! does not, is handed to an HTTP proxy one request at a time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::Connection;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::{BoxError, Service};

use super::{Protocol, Proxy};
use crate::transport::stream::ConnectedStream;

type Tcp = TokioIo<TcpStream>;
type Stream = MaybeHttpsStream<Tcp>;
/// A connection to where a URL leads, or to a proxy that reads requests.
type DialedStream = ConnectedStream<Stream>;

/// Connects to where a URL leads, or to the proxy on the way there.
#[derive(Clone)]
pub(crate) struct Dialer<C> {
    way: Way<C>,
    /// The proxy, for messages.
    proxy: Arc<str>,
}

#[derive(Clone)]
enum Way<C> {
    Direct(C),
    /// The proxy reads each request, and where it goes.
    Forward {
        proxy: Uri,
        connector: HttpsConnector<C>,
    },
    Tunnel(Tunnel<HttpsConnector<C>>),
    Socks(SocksV5<HttpsConnector<C>>),
}

/// What happened on the way to a proxy or beyond.
#[derive(Debug, thiserror::Error)]
#[error("through the {proxy}")]
struct ProxiedError {
    proxy: Arc<str>,
    #[source]
    source: BoxError,
}

impl<C> Dialer<C> {
    /// The way to URLs of one server. `connector` connects to hosts. `tls` is for the connection to the proxy, if that is made over
    /// TLS; `is_tls` is whether the server is spoken to in TLS.
    pub(crate) fn new(
        connector: C,
        proxy: Option<&Proxy>,
        is_tls: bool,
        tls: &rustls::ClientConfig,
    ) -> Self {
        let Some(proxy) = proxy else {
            return Self { way: Way::Direct(connector), proxy: Arc::from("") };
        };
        let name = proxy.to_string().into();
        let address = proxy.address.clone();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls.clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let way = match (proxy.protocol, is_tls) {
            (Protocol::Socks5, _) => {
                let mut socks = SocksV5::new(address, connector);
                if let Some((user, password)) = proxy.user_and_password.clone() {
                    socks = socks.with_auth(user, password);
                }
                Way::Socks(socks)
            }
            (_, false) => Way::Forward { proxy: address, connector },
            (_, true) => {
                let mut tunnel = Tunnel::new(address, connector);
                if let Some(authorization) = proxy.authorization() {
                    tunnel = tunnel.with_auth(authorization);
                }
                Way::Tunnel(tunnel)
            }
        };
        Self { way, proxy: name }
    }
}

type DialFuture = Pin<Box<dyn Future<Output = Result<DialedStream, BoxError>> + Send>>;

impl<C> Service<Uri> for Dialer<C>
where
    C: Service<Uri, Response = Tcp>,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = DialedStream;
    type Error = BoxError;
    type Future = DialFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &mut self.way {
            Way::Direct(connector) => connector.poll_ready(cx).map_err(Into::into),
            Way::Forward { connector, .. } => connector.poll_ready(cx),
            Way::Tunnel(tunnel) => tunnel.poll_ready(cx).map_err(Into::into),
            Way::Socks(socks) => socks.poll_ready(cx).map_err(Into::into),
        }
    }

    fn call(&mut self, uri: Uri) -> DialFuture {
        match &mut self.way {
            Way::Direct(connector) => {
                let connecting = connector.call(uri);
                Box::pin(async move {
                    let stream = connecting.await.map_err(Into::into)?;
                    Ok(dialed(MaybeHttpsStream::Http(stream), false))
                })
            }
            Way::Forward { proxy, connector } => {
                let connecting = connector.call(proxy.clone());
                proxied(self.proxy.clone(), true, connecting)
            }
            Way::Tunnel(tunnel) => proxied(self.proxy.clone(), false, tunnel.call(uri)),
            Way::Socks(socks) => {
                // Its usual port is that of https.
                let uri = with_port(uri);
                proxied(self.proxy.clone(), false, socks.call(uri))
            }
        }
    }
}

/// A URL with a port.
fn with_port(uri: Uri) -> Uri {
    let (None, Some("http"), Some(host)) = (uri.port(), uri.scheme_str(), uri.host()) else {
        return uri;
    };
    format!("http://{host}:80/").parse().unwrap_or(uri)
}

fn proxied<E: Into<BoxError>>(
    proxy: Arc<str>,
    is_forwarded: bool,
    connecting: impl Future<Output = Result<Stream, E>> + Send + 'static,
) -> DialFuture {
    Box::pin(async move {
        match connecting.await {
            Ok(stream) => Ok(dialed(stream, is_forwarded)),
            Err(error) => Err(ProxiedError { proxy, source: error.into() }.into()),
        }
    })
}

/// With `is_forwarded` each request that is sent names the server.
fn dialed(stream: Stream, is_forwarded: bool) -> DialedStream {
    ConnectedStream::new(
        stream,
        if is_forwarded { |stream| stream.connected().proxy(true) } else { Stream::connected },
    )
}

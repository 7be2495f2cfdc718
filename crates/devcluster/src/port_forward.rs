//! `pods/portforward`: a WebSocket that carries the bytes of connections to ports of a pod, in the protocol `v4.channel.k8s.io`.
//!
//! Pods of this cluster do not run, but something on this machine may stand for one: a pod whose address is a loopback one is
//! forwarded to. One port is forwarded at a time, which is what clients ask for.
//!
//! Invariants: nothing outside of this machine is connected to; a frame from the client, and what is kept for it, is of limited
//! size; a stream ends with either side, and with the server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tracing::debug;

use crate::body::Body;
use crate::kinds::PODS;
use crate::object::text_at;
use crate::server::Server;
use crate::status::StatusError;

const PROTOCOL: &str = "v4.channel.k8s.io";
/// Data of the first port, and errors of the first port.
const DATA: u8 = 0;
const ERRORS: u8 = 1;
/// How much of a connection is sent in one frame.
const PIECE: usize = 16 << 10;
/// How long a frame may be.
const MAX_FRAME: usize = 1 << 20;

/// Switches the connection of a request to forwarding to a pod.
pub(crate) fn open(
    server: &Arc<Server>,
    (namespace, name): (&str, &str),
    ports: Option<&str>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, StatusError> {
    let pod = server
        .store
        .get(PODS, namespace, name)
        .ok_or_else(|| StatusError::not_found(PODS.get(), name))?;
    let port: u16 = ports
        .and_then(|ports| ports.parse().ok())
        .ok_or_else(|| StatusError::bad_request("query parameter ports: expected one port"))?;
    let address = text_at(&pod.value(), &["status", "podIP"]).parse::<IpAddr>().ok();
    let address = address.filter(IpAddr::is_loopback).ok_or_else(|| {
        StatusError::bad_request(format!(
            "pod {name} does not run on this machine: only pods with a loopback address can be forwarded to"
        ))
    })?;
    let headers = request.headers();
    let has = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let (true, true, Some(key)) =
        (has(UPGRADE, "websocket"), has(SEC_WEBSOCKET_PROTOCOL, PROTOCOL), key)
    else {
        let message = format!("expected a WebSocket with protocol {PROTOCOL}");
        return Err(StatusError::bad_request(message));
    };
    let accept = HeaderValue::try_from(derive_accept_key(key))
        .map_err(|error| StatusError::bad_request(error.to_string()))?;
    let upgrade = hyper::upgrade::on(&mut request);
    let over = server.epoch().over;
    tokio::spawn(async move {
        let forwarded = forward(upgrade, SocketAddr::new(address, port));
        tokio::select! {
            () = over.cancelled() => {}
            ended = forwarded => if let Err(error) = ended {
                debug!(%error, "port-forward ended");
            }
        }
    });
    let mut response = Response::new(Body::whole(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

type ForwardResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Carries bytes until one side ends.
async fn forward(upgrade: OnUpgrade, to: SocketAddr) -> ForwardResult {
    let upgraded: TokioIo<Upgraded> = TokioIo::new(upgrade.await?);
    let limits = WebSocketConfig::default()
        .max_message_size(Some(MAX_FRAME))
        .max_frame_size(Some(MAX_FRAME));
    let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(limits)).await;
    let (mut sink, mut frames) = socket.split();
    // Each channel begins with the port that it is for.
    let [low, high] = to.port().to_le_bytes();
    for channel in [DATA, ERRORS] {
        sink.send(Message::Binary(vec![channel, low, high].into())).await?;
    }
    let mut pod = match TcpStream::connect(to).await {
        Ok(pod) => pod,
        Err(error) => {
            let mut text = vec![ERRORS];
            text.extend_from_slice(format!("cannot connect to {to}: {error}").as_bytes());
            sink.send(Message::Binary(text.into())).await?;
            sink.close().await?;
            return Ok(());
        }
    };
    let (mut from_pod, mut to_pod) = pod.split();
    // Neither way waits for the other.
    let outwards = async {
        let mut piece = vec![DATA; PIECE];
        loop {
            match from_pod.read(&mut piece[1..]).await? {
                0 => return ForwardResult::Ok(()),
                n => sink.send(Message::Binary(Bytes::copy_from_slice(&piece[..=n]))).await?,
            }
        }
    };
    let inwards = async {
        while let Some(frame) = frames.next().await.transpose()? {
            match frame {
                Message::Binary(frame) => {
                    if let Some((&DATA, data)) = frame.split_first() {
                        to_pod.write_all(data).await?;
                    }
                }
                Message::Close(_) => break,
                // Pings are answered by the library.
                _ => {}
            }
        }
        ForwardResult::Ok(())
    };
    tokio::select! {
        ended = outwards => ended?,
        ended = inwards => ended?,
    }
    sink.close().await?;
    Ok(())
}

//! One connection after another: handshake, requests, end.
//!
//! Invariants: a connection is closed after a while if the peer sends nothing or half of a request, or takes nothing of an answer
//! in HTTP/1.1, and also if all has been answered but the peer does not close it; a new connection is always accepted, and the
//! number of connections and what each of them holds in memory are bounded; stopping lets answers under way finish within their
//! time; a handler that panics ends its request only.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use http::header::CONNECTION;
use http::{HeaderValue, Request, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube_scheduler_api_types::lock;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::admission::{Admission, ConnectionLimits, Place};
use super::listener;
use super::options::ConnectionPatience;
use super::plain_http;
use super::reply::{self, Reply};
use super::tls::TlsState;

/// What a connection may hold in memory, about, in bytes, while it has not authenticated.
pub(crate) const MAX_HELD: usize = 160 << 10;
/// How many connections are kept. Those that have not authenticated may hold 60 MiB together.
pub(crate) const CONNECTION_LIMITS: ConnectionLimits = ConnectionLimits {
    unauthenticated: 384,
    unauthenticated_of_one_address: 256,
    authenticated: 512,
};
/// How long the head of a request may be.
const MAX_HEAD: usize = 64 << 10;
/// Names and values in a head.
const MAX_HEADERS: usize = 512;
/// How long the heads of all requests under way on one connection may be.
const MAX_HEADS: usize = 2 * MAX_HEAD;
/// What a client of HTTP/2 may send before it is asked for more, over all streams: no page takes a long body.
const WINDOW: u32 = 64 << 10;
const DEFAULT_STREAMS: u32 = 100;
/// What a client of HTTP/1.1 takes of an answer, or all the rest of it, in the time that a connection may be idle.
const LEAST_TAKEN: usize = 64 << 10;
/// When accepting fails, most likely for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// After each connection for which another had to go: with this pause even the oldest of 256 connections has had a quarter of
/// a second for its request.
const EVICTION_PAUSE: Duration = Duration::from_millis(1);
/// How often to say that connections are being evicted.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// A request as a handler gets it.
pub(crate) struct Call {
    pub(crate) request: Request<Incoming>,
    pub(crate) peer: Arc<Peer>,
}

/// Who is at the other end.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// The certificate of the client and its chain, not judged yet.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) response: Reply,
    /// Whether the caller has authenticated.
    pub(crate) is_to_known_caller: bool,
    /// Whether the connection ends with it, if it is one of HTTP/2: those cost much to keep.
    pub(crate) ends_connection: bool,
}

/// Settings of all connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) patience: ConnectionPatience,
    pub(crate) http2_max_streams: u32,
}

/// Serves until `stop` becomes true, then lets answers under way finish.
pub(crate) async fn serve<H, F>(
    listener: TcpListener,
    tls: watch::Receiver<Arc<TlsState>>,
    (admission, limits): (Admission, Limits),
    handler: H,
    mut stop: watch::Receiver<bool>,
) where
    H: Fn(Call) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let mut is_failing = false;
    let mut complained: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            // The stop first: while clients keep connecting, a connection is always ready.
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = accept(&listener) => accepted,
        };
        // The set keeps connections that have ended until they are taken out.
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, address)) => {
                is_failing = false;
                let (place, displaced) = admission.admit(address.ip());
                // Certificates as they are now: they may have been replaced since the last handshake.
                let (tls, handler, stop) = (tls.borrow().clone(), handler.clone(), stop.clone());
                connections.spawn(async move {
                    let place = Arc::new(place);
                    let connection =
                        connection(stream, address, &tls, limits, handler, stop, place.clone());
                    let ended = tokio::select! {
                        biased;
                        () = place.evicted() => Err("another connection needed its place".into()),
                        ended = connection => ended,
                    };
                    if let Err(error) = ended {
                        tracing::debug!(peer = %address, err = %error, "A connection ended early");
                    }
                });
                if displaced {
                    if complained.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY) {
                        complained = Some(Instant::now());
                        tracing::warn!(
                            peer = %address,
                            "The secure port has too many connections that do not authenticate; closing the oldest"
                        );
                    }
                    tokio::time::sleep(EVICTION_PAUSE).await;
                }
            }
            Err(error) => {
                // Once per outage: with no file descriptors left, every try fails.
                if !is_failing {
                    tracing::error!(err = %error, "The secure port accepts no connection; trying again");
                }
                is_failing = true;
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // Clients that come while answers under way finish are refused; in the queue of an open listener they would wait in vain.
    drop(listener);
    tracing::info!("[graceful-termination] secure server has stopped listening");
    let all_over = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.patience.shutdown, all_over).await.is_err() {
        tracing::warn!("Giving up on answers under way");
    }
    tracing::info!("[graceful-termination] secure server is exiting");
}

async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, address) = listener.accept().await?;
    listener::prepare(&stream)?;
    Ok((stream, address))
}

type ConnectionError = Box<dyn std::error::Error + Send + Sync>;

async fn connection<H, F>(
    mut stream: TcpStream,
    address: SocketAddr,
    tls: &TlsState,
    limits: Limits,
    handler: H,
    mut stop: watch::Receiver<bool>,
    place: Arc<Place>,
) -> Result<(), ConnectionError>
where
    H: Fn(Call) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let acceptor = TlsAcceptor::from(tls.for_address(stream.local_addr()?.ip()));
    let handshake = async {
        // A silent peer costs no more than its socket.
        stream.readable().await?;
        plain_http::turn_away(&mut stream).await?;
        acceptor.accept(stream).await
    };
    let stream = tokio::select! {
        stream = tokio::time::timeout(limits.patience.header, handshake) => {
            stream.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??
        }
        _ = stop.wait_for(|stop| *stop) => return Ok(()),
    };
    let session = stream.get_ref().1;
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let certificates = session.peer_certificates().unwrap_or_default();
    let peer = Arc::new(Peer {
        address,
        certificates: certificates.iter().map(|der| der.clone().into_owned()).collect(),
    });
    let authenticated = move || place.mark_authenticated();
    requests(stream, is_http2, peer, limits, handler, stop, authenticated).await
}

/// Answers requests until the connection ends. `authenticated` is called with every request of a caller who has authenticated.
pub(super) async fn requests<S, H, F>(
    stream: S,
    is_http2: bool,
    peer: Arc<Peer>,
    limits: Limits,
    handler: H,
    mut stop: watch::Receiver<bool>,
    authenticated: impl Fn() + Clone + Send + Sync + 'static,
) -> Result<(), ConnectionError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    H: Fn(Call) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let activity = Arc::new(Activity::new(is_http2));
    let io = TokioIo::new(ObservedStream { stream, activity: activity.clone() });
    let service = {
        let activity = activity.clone();
        service_fn(move |request: Request<Incoming>| {
            let (handler, activity) = (handler.clone(), activity.clone());
            let authenticated = authenticated.clone();
            let call = Call { request, peer: peer.clone() };
            async move {
                let answer = answered(handler, call, &activity).await;
                if answer.is_to_known_caller {
                    authenticated();
                }
                Ok::<_, std::convert::Infallible>(answer.response)
            }
        })
    };
    let guard = async {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => CloseMode::InOrder,
            () = activity.ended() => CloseMode::InOrder,
            () = activity.given_up(limits.patience) => CloseMode::AtOnce,
        }
    };
    if is_http2 {
        let builder = http2_builder(limits);
        let mut connection = std::pin::pin!(builder.serve_connection(io, service));
        tokio::select! {
            result = connection.as_mut() => return Ok(result?),
            // An idle client of HTTP/2 is sent a notice that the connection ends.
            _ = guard => connection.as_mut().graceful_shutdown(),
        }
        take_leave(connection, limits.patience).await
    } else {
        let mut builder = http1::Builder::new();
        // Slow heads are seen to by the guard, which can distinguish them from pauses between requests.
        builder.header_read_timeout(None).max_buf_size(MAX_HEAD).max_headers(MAX_HEADERS);
        let mut connection = std::pin::pin!(builder.serve_connection(io, service));
        let leave = tokio::select! {
            result = connection.as_mut() => return Ok(result?),
            leave = guard => leave,
        };
        if let CloseMode::AtOnce = leave {
            return Ok(());
        }
        connection.as_mut().graceful_shutdown();
        take_leave(connection, limits.patience).await
    }
}

/// The answer to one call. A handler that panics costs its own request only.
async fn answered<H, F>(handler: H, call: Call, activity: &Arc<Activity>) -> Answer
where
    H: Fn(Call) -> F,
    F: Future<Output = Answer>,
{
    let _under_way = activity.begin();
    let refusal = |response| Answer { response, is_to_known_caller: false, ends_connection: false };
    let length = head_length(&call.request);
    // The buffer that the head was read into may be larger than the limit that it was given.
    if length > MAX_HEAD as u32 {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        let mut response = reply::plain(status, format!("at most {MAX_HEAD} bytes are allowed\n"));
        if call.request.version() != Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        return refusal(response);
    }
    let Ok(_head) = activity.heads.try_acquire_many(length) else {
        let text = "the requests under way on this connection are too long\n";
        return refusal(reply::plain(StatusCode::TOO_MANY_REQUESTS, text));
    };
    let version = call.request.version();
    let answer = AssertUnwindSafe(handler(call)).catch_unwind().await;
    let answer = answer.unwrap_or_else(|_| refusal(reply::panicked()));
    // HTTP/1.1 has a header for this; here the guard ends the connection.
    if answer.ends_connection && version == Version::HTTP_2 {
        activity.end();
    }
    answer
}

/// In bytes, about.
fn head_length(request: &Request<Incoming>) -> u32 {
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    let uri = request.uri();
    let target = uri.path().len() + uri.query().map_or(0, str::len);
    u32::try_from(headers.sum::<usize>() + target).unwrap_or(u32::MAX)
}

/// HTTP/2 with heads bounded as in HTTP/1.1, and windows for short bodies.
fn http2_builder(limits: Limits) -> http2::Builder<TokioExecutor> {
    let streams = match limits.http2_max_streams {
        0 => DEFAULT_STREAMS,
        streams => streams,
    };
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_header_list_size(MAX_HEAD as u32);
    builder
}

/// How a connection ends that the peer does not end.
enum CloseMode {
    /// Answers under way are finished.
    InOrder,
    /// The peer has used up its time.
    AtOnce,
}

/// Waits for the end of a connection that was asked to end, but not for ever.
async fn take_leave(
    connection: impl Future<Output = hyper::Result<()>>,
    patience: ConnectionPatience,
) -> Result<(), ConnectionError> {
    match tokio::time::timeout(patience.header, connection).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}

/// What happens on a connection, for the guard to see.
struct Activity {
    state: Mutex<State>,
    /// Counts the heads of requests only where frames do not.
    is_http2: bool,
    ended: Notify,
    /// Bytes that heads of requests may still take.
    heads: Semaphore,
}

struct State {
    n_under_way: usize,
    /// When the connection began, its last answer ended, or the peer had taken enough of that, or all.
    quiet_since: Instant,
    /// Bytes that the peer has taken since.
    n_taken: usize,
    /// When the first byte came after that.
    head_start: Option<Instant>,
}

impl Activity {
    fn new(is_http2: bool) -> Self {
        let now = Instant::now();
        // A new connection has its first request in hand already, as far as patience goes.
        let head_start = (!is_http2).then_some(now);
        Self {
            state: Mutex::new(State { n_under_way: 0, quiet_since: now, n_taken: 0, head_start }),
            is_http2,
            ended: Notify::new(),
            heads: Semaphore::new(MAX_HEADS),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn heard(&self) {
        if !self.is_http2 {
            let mut state = self.lock();
            if state.n_under_way == 0 {
                state.head_start.get_or_insert_with(Instant::now);
            }
        }
    }

    /// The peer has taken bytes of an answer, for which the handler has done its part. Single ones give it no more time: it could keep
    /// the answer for ever. Clients of HTTP/2 are answered when they ask whether the connection is alive, too, which is no use of it.
    fn sent(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(n @ 1..)) = polled
            && !self.is_http2
        {
            let mut state = self.lock();
            state.n_taken += n;
            if state.n_taken >= LEAST_TAKEN {
                state.n_taken %= LEAST_TAKEN;
                state.give_time();
            }
        }
    }

    /// The peer has taken all that there is for it.
    fn flushed(&self, polled: &Poll<io::Result<()>>) {
        if !self.is_http2 && matches!(polled, Poll::Ready(Ok(()))) {
            let mut state = self.lock();
            if std::mem::take(&mut state.n_taken) > 0 {
                state.give_time();
            }
        }
    }

    fn begin(self: &Arc<Self>) -> ActivityGuard {
        self.lock().n_under_way += 1;
        ActivityGuard(self.clone())
    }

    /// Asks for the end of the connection.
    fn end(&self) {
        self.ended.notify_one();
    }

    async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Ends when the peer has used up its time.
    async fn given_up(&self, patience: ConnectionPatience) {
        loop {
            let deadline = {
                let state = self.lock();
                match (state.n_under_way, state.head_start) {
                    (0, Some(head_start)) => head_start + patience.header,
                    (0, None) => state.quiet_since + patience.idle,
                    _ => Instant::now() + patience.idle.min(patience.header),
                }
            };
            if deadline <= Instant::now() {
                return;
            }
            // A head may begin meanwhile; its deadline must not be missed by much.
            let look_again = Instant::now() + patience.header / 4;
            tokio::time::sleep_until(deadline.min(look_again)).await;
        }
    }
}

impl State {
    /// Restarts the time that the peer has, from now.
    fn give_time(&mut self) {
        let now = Instant::now();
        self.quiet_since = now;
        // The head of the next request need not come before the answer to this one has been read.
        self.head_start = self.head_start.map(|_| now);
    }
}

struct ActivityGuard(Arc<Activity>);

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.n_under_way -= 1;
        if state.n_under_way == 0 {
            state.quiet_since = Instant::now();
            state.n_taken = 0;
            state.head_start = None;
        }
    }
}

/// A stream whose bytes are noticed.
struct ObservedStream<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for ObservedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.heard();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ObservedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.activity.sent(&polled);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.activity.flushed(&polled);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.activity.sent(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;

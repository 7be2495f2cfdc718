//! How long connections to the API server took to set up, for a log that shows it (`docs/spec/observability.md` §5.3).
//!
//! Invariant: nothing is kept unless the log shows it, and then of the latest [`MAX_CONNECTIONS`] connections alone.

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Extensions, Uri};
use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiResolver, Name};
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection, HttpInfo};
use kube_scheduler_api_types::lock;
use tower::Service;

use super::log;

const MAX_CONNECTIONS: usize = 256;

/// The steps of setting up a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) dns: Duration,
    pub(super) dial: Duration,
    pub(super) tls: Duration,
}

/// How long an answer took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ResponseTimes {
    pub(super) total: Duration,
    /// Until there was a connection; `None` if there never was, or if times are not logged.
    pub(super) connection: Option<Duration>,
    /// How the connection was set up, if it was for this request.
    pub(super) setup: Option<Setup>,
}

#[derive(Debug, Default)]
struct LatestTimes {
    dns: Duration,
    /// By local address, with the time when each was ready.
    connections: VecDeque<(SocketAddr, Setup, Instant)>,
}

/// What is known of the connections of one client.
#[derive(Debug, Default)]
pub(super) struct ConnectionTimes(Mutex<LatestTimes>);

impl ConnectionTimes {
    fn latest(&self) -> MutexGuard<'_, LatestTimes> {
        lock(&self.0)
    }

    /// The setup of a connection, if it was ready after `start`.
    fn setup_since(&self, start: Instant, address: SocketAddr) -> Option<Setup> {
        let latest = self.latest();
        let known = latest.connections.iter().rev().find(|(known, ..)| *known == address);
        known.filter(|(.., ready)| *ready >= start).map(|(_, setup, _)| *setup)
    }

    fn reached(&self, step: Step, address: SocketAddr, elapsed: Duration) {
        let mut latest = self.latest();
        let now = Instant::now();
        match step {
            Step::Dial => {
                let dns = std::mem::take(&mut latest.dns).min(elapsed);
                let setup = Setup { dns, dial: elapsed - dns, tls: Duration::ZERO };
                if latest.connections.len() == MAX_CONNECTIONS {
                    latest.connections.pop_front();
                }
                latest.connections.push_back((address, setup, now));
            }
            Step::Tls => {
                let known =
                    latest.connections.iter_mut().rev().find(|(known, ..)| *known == address);
                if let Some((_, setup, ready)) = known {
                    setup.tls = elapsed.saturating_sub(setup.dns + setup.dial);
                    *ready = now;
                }
            }
        }
    }

    /// The times of a request from `start` to now. It got its connection after `connection`.
    pub(super) fn of(
        &self,
        start: Instant,
        captured: &CaptureConnection,
        connection: Duration,
    ) -> ResponseTimes {
        let total = start.elapsed();
        let connected = captured.connection_metadata();
        let Some(connected) = &*connected else {
            return ResponseTimes { total, ..ResponseTimes::default() };
        };
        let setup =
            addresses(connected).and_then(|info| self.setup_since(start, info.local_addr()));
        ResponseTimes { total, connection: Some(connection), setup }
    }
}

fn addresses(connected: &Connected) -> Option<HttpInfo> {
    let mut extras = Extensions::new();
    connected.get_extras(&mut extras);
    extras.remove()
}

type Answer<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// Resolves names, and takes the time.
#[derive(Clone)]
pub(super) struct TimedResolver {
    inner: GaiResolver,
    times: Arc<ConnectionTimes>,
}

impl TimedResolver {
    pub(super) fn new(times: Arc<ConnectionTimes>) -> Self {
        Self { inner: GaiResolver::new(), times }
    }
}

impl Service<Name> for TimedResolver {
    type Response = GaiAddrs;
    type Error = std::io::Error;
    type Future = Answer<GaiAddrs, std::io::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (start, times) = (Instant::now(), self.times.clone());
        let answer = self.inner.call(name);
        Box::pin(async move {
            let addresses = answer.await?;
            times.latest().dns = start.elapsed();
            Ok(addresses)
        })
    }
}

/// What a connector does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// It resolves the name and connects.
    Dial,
    /// It makes TLS of a connection, if that is asked for.
    Tls,
}

/// A connector that takes the time.
#[derive(Clone)]
pub(super) struct TimedConnector<S> {
    inner: S,
    step: Step,
    times: Arc<ConnectionTimes>,
}

impl<S> TimedConnector<S> {
    pub(super) fn new(inner: S, step: Step, times: &Arc<ConnectionTimes>) -> Self {
        Self { inner, step, times: times.clone() }
    }
}

impl<S> Service<Uri> for TimedConnector<S>
where
    S: Service<Uri>,
    S::Response: Connection,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Answer<S::Response, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let start = Instant::now();
        let (step, times) = (self.step, self.times.clone());
        let connecting = self.inner.call(uri);
        Box::pin(async move {
            let stream = connecting.await?;
            if log::shows_times()
                && let Some(info) = addresses(&stream.connected())
            {
                if matches!(step, Step::Dial) {
                    let address = info.remote_addr();
                    tracing::trace!(target: "V9", network = "tcp", %address, "HTTP Trace: Dial succeed");
                }
                times.reached(step, info.local_addr(), start.elapsed());
            }
            Ok(stream)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_set_up_for_one_request() {
        let times = ConnectionTimes::default();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let ms = Duration::from_millis;
        let start = Instant::now();
        times.latest().dns = ms(5);
        times.reached(Step::Dial, address, ms(15));
        times.reached(Step::Tls, address, ms(45));
        let setup = Setup { dns: ms(5), dial: ms(10), tls: ms(30) };
        assert_eq!(times.setup_since(start, address), Some(setup));
        let later = Instant::now() + ms(1);
        assert_eq!(times.setup_since(later, address), None);
        let other = SocketAddr::from(([127, 0, 0, 1], 2));
        assert_eq!(times.setup_since(start, other), None);
    }

    #[test]
    fn only_the_latest_connections_are_kept() {
        let times = ConnectionTimes::default();
        let start = Instant::now();
        for port in 0..1_000 {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            times.reached(Step::Dial, address, Duration::ZERO);
        }
        assert_eq!(times.latest().connections.len(), MAX_CONNECTIONS);
        let last = SocketAddr::from(([127, 0, 0, 1], 999));
        assert!(times.setup_since(start, last).is_some());
    }
}

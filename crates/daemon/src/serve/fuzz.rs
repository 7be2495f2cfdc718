//! The secure port without TLS, on a stream in memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::CompileOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use super::admission::Admission;
use super::answers::Answers;
use super::authentication::Authenticator;
use super::authorization::Authorizer;
use super::connection::{self, Limits, Peer};
use super::exposition::Scrapes;
use super::health::Slis;
use super::site::{Site, SiteSources};
use super::zpages::ZPages;
use super::{
    AuthenticationOptions, AuthorizationOptions, ConnectionPatience, Introspection, ServeError,
};
use crate::inbox::Inbox;
use crate::metrics::{Metrics, MetricsOptions};
use crate::progress::Progress;

/// Serves one connection on which a client sends `bytes`, in HTTP/2 if `is_http2`, and returns the answers. Every page is
/// readable without authentication, except pages that take time.
///
/// # Errors
/// If the site cannot be set up.
pub async fn secure_port(is_http2: bool, bytes: &[u8]) -> Result<Vec<u8>, ServeError> {
    let gates = kube_scheduler_config::FeatureGates::default();
    let metrics = Arc::new(Metrics::new(0.0, MetricsOptions::default(), &gates));
    let authentication = AuthenticationOptions { skip_lookup: true, ..Default::default() };
    let authorization =
        AuthorizationOptions { always_allow_paths: vec!["/*".to_owned()], ..Default::default() };
    let (authenticator, _trust) = Authenticator::new(&authentication, &metrics).await?;
    let authorizer = Authorizer::new(&authorization, &metrics).await?;
    let (inbox, core) = Inbox::open();
    // The core has ended, so pages that ask it say so at once.
    drop(core);
    let (_progress, progress) = watch::channel(Progress::default());
    let (_terminating, is_terminating) = watch::channel(false);
    let (_hangs, core_hangs) = watch::channel(false);
    let sources = SiteSources {
        metrics,
        progress,
        configz: "{}".into(),
        is_terminating,
        core_hangs,
        inbox,
        started_at: 0.0,
        elects: true,
        // Profiles take as long as they are asked to.
        has_profiling: false,
        pod_options: CompileOptions::default(),
    };
    let site = Arc::new(Site {
        authenticator,
        authorizer,
        zpages: ZPages::new(Introspection::default(), 0.0),
        verbosity: None,
        slis: Slis::default(),
        answers: Answers::default(),
        scrapes: Scrapes::default(),
        admission: Admission::new(connection::CONNECTION_LIMITS),
        sources,
    });
    let handler = move |call| {
        let site = site.clone();
        async move { site.answer(call).await }
    };
    let short = Duration::from_millis(20);
    let patience =
        ConnectionPatience { header: short, idle: short, question: short, shutdown: short };
    let limits = Limits { patience, http2_max_streams: 0 };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let peer = Arc::new(Peer { address, certificates: Vec::new() });
    let (stream, client) = tokio::io::duplex(64 << 10);
    let (_stop, stop) = watch::channel(false);
    let (mut answers, mut requests) = tokio::io::split(client);
    let mut received = Vec::new();
    let ask = async {
        // A write fails when the server has closed the connection. Then there is nothing more to send.
        if requests.write_all(bytes).await.is_ok() {
            let _ = requests.shutdown().await;
        }
    };
    let serving = connection::requests(stream, is_http2, peer, limits, handler, stop, || {});
    let (_served, (), _read) = tokio::join!(serving, ask, answers.read_to_end(&mut received));
    Ok(received)
}

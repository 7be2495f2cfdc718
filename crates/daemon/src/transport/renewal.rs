//! A client that goes on with what stands in files of certificates now.
//!
//! A check belongs to a request: a scheduler that does anything sends some every few seconds, be it to keep its lease, and one that
//! sends none needs no certificate. After a change new requests use new connections; those under way, watches among them, end on
//! the old ones, which are then closed. The reference breaks them off. A plugin for credentials is run again then, while requests
//! wait.
//!
//! Invariant: there is always a client: files that cannot be used change nothing, and are reported once by each client.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Instant;

use http::Request;
use hyper_util::client::legacy::{Client, ResponseFuture};
use kube::client::Body;
use kube_scheduler_api_types::lock;
use tower::{BoxError, Service};

use super::connection::Wire;
use super::credentials::{Contents, CredentialFiles};

type ClientFactory =
    Box<dyn Fn(&kube::Config) -> Result<Client<Wire, Body>, BoxError> + Send + Sync>;

/// What stands in the files, and a client with it.
type Renewal = (Contents, Client<Wire, Body>);

/// A client that goes on with what stands in files now.
#[derive(Clone)]
pub(super) struct RenewedClient(Arc<RenewalState>);

struct RenewalState {
    config: kube::Config,
    files: CredentialFiles,
    make: ClientFactory,
    current: Mutex<CurrentClient>,
}

struct CurrentClient {
    client: Client<Wire, Body>,
    contents: Contents,
    read: Instant,
    complaint: Option<String>,
}

impl RenewedClient {
    /// A client that `make` makes of `config` with what stands in the files.
    pub(super) fn new(
        config: kube::Config,
        files: CredentialFiles,
        make: ClientFactory,
    ) -> Result<Self, BoxError> {
        let contents = files.read()?;
        let client = made(&config, &contents, &make)?;
        let current = CurrentClient { client, contents, read: Instant::now(), complaint: None };
        Ok(Self(Arc::new(RenewalState { config, files, make, current: Mutex::new(current) })))
    }

    fn client(&self) -> Client<Wire, Body> {
        let shared = &*self.0;
        let mut current = lock(&shared.current);
        if !shared.files.is_empty() && current.read.elapsed() >= shared.files.reread_after {
            // Also if the files cannot be used: otherwise every request would read them until they can.
            current.read = Instant::now();
            match shared.changed(&current.contents) {
                Ok(None) => current.complaint = None,
                Ok(Some((contents, client))) => {
                    let server = shared.config.cluster_url.to_string();
                    tracing::info!(
                        server,
                        "Certificate rotation detected, using the new credentials for new connections"
                    );
                    (current.contents, current.client) = (contents, client);
                    current.complaint = None;
                }
                Err(error) => {
                    let text = error.to_string();
                    // Once per error, because the files are read again and again while they are broken.
                    if current.complaint.as_ref() != Some(&text) {
                        let server = shared.config.cluster_url.to_string();
                        tracing::error!(err = %text, server, "Files of certificates have changed and cannot be used; going on with the former");
                        current.complaint = Some(text);
                    }
                }
            }
        }
        current.client.clone()
    }
}

impl RenewalState {
    /// What has changed, if anything has.
    fn changed(&self, old: &Contents) -> Result<Option<Renewal>, BoxError> {
        let contents = self.files.read()?;
        if contents == *old {
            return Ok(None);
        }
        if contents.has_empty_file() {
            return Err("a file is empty".into());
        }
        let client = made(&self.config, &contents, &self.make)?;
        Ok(Some((contents, client)))
    }
}

fn made(
    config: &kube::Config,
    contents: &Contents,
    make: &ClientFactory,
) -> Result<Client<Wire, Body>, BoxError> {
    let mut config = config.clone();
    contents.put_into(&mut config)?;
    make(&config)
}

impl Service<Request<Body>> for RenewedClient {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper_util::client::legacy::Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> ResponseFuture {
        self.client().request(request)
    }
}

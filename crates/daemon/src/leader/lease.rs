//! The requests about one lease, and the event that says who leads.
//!
//! Invariants: a lease is replaced only in the version that was read or written last; no request waits longer than its
//! timeout; following a lease is a convenience whose failures have no other effect.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use kube_scheduler_api_types::Timestamp;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::record::{Lease, Record};
use crate::announcement::{ANNOTATION, Announcement, CertificateDigest, STANDBYS, Standbys};
use crate::backoff::Backoff;
use crate::clock::to_micro_time;
use crate::transport::{Api, ApiError, Call};

/// A lease is renewed every few seconds, so a stream that is silent for so long is dead.
const SILENCE: Duration = Duration::from_secs(60);
/// How long not to ask again after the server refused to show changes.
const REFUSED_PAUSE: Duration = Duration::from_secs(300);
/// No lease is as large.
const MAX_LINE: usize = 1024 * 1024;

/// One lease on a server.
#[derive(Clone, Debug)]
pub(crate) struct LeaseClient {
    api: Api,
    namespace: Arc<str>,
    name: Arc<str>,
    /// Of the certificate by which the holder can be known, where it has one.
    certificate: Option<watch::Receiver<CertificateDigest>>,
}

impl LeaseClient {
    pub(crate) fn new(api: Api, namespace: &str, name: &str) -> Self {
        Self { api, namespace: namespace.into(), name: name.into(), certificate: None }
    }

    /// This client, which also writes into the lease by which certificate the holder can be known.
    pub(crate) fn announcing(self, certificate: watch::Receiver<CertificateDigest>) -> Self {
        Self { certificate: Some(certificate), ..self }
    }

    /// Adds to a lease by which certificate its holder can be known, if it has a holder.
    fn announce(&self, lease: &mut Lease, record: &Record) {
        if let Some(certificate) = self.certificate.as_ref().filter(|_| !record.holder.is_empty()) {
            let certificate = *certificate.borrow();
            let announcement = Announcement { identity: record.holder.clone(), certificate };
            lease.annotate(ANNOTATION, announcement.text());
        }
    }

    /// `<namespace>/<name>`, for messages.
    pub(crate) fn describe(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub(crate) async fn read(&self, timeout: Duration) -> Result<Lease, ApiError> {
        self.call(Call::get(format!("{}/{}", self.collection(), self.name)), timeout).await
    }

    pub(crate) async fn create(
        &self,
        record: &Record,
        timeout: Duration,
    ) -> Result<Lease, ApiError> {
        let mut lease = Lease::fresh(&self.namespace, &self.name, record);
        self.announce(&mut lease, record);
        self.call(Call::post(self.collection(), lease.to_json()), timeout).await
    }

    pub(crate) async fn replace(
        &self,
        mut lease: Lease,
        record: &Record,
        timeout: Duration,
    ) -> Result<Lease, ApiError> {
        lease.set_record(record);
        self.announce(&mut lease, record);
        let path = format!("{}/{}", self.collection(), self.name);
        self.call(Call::put(path, lease.to_json()), timeout).await
    }

    /// Adds to a lease that another one holds by which certificate this standby can be known, unless that stands there already;
    /// what the lease says about its holder stays as it is.
    pub(crate) async fn announce_standby(
        &self,
        held: &Lease,
        identity: &str,
        now: Timestamp,
        timeout: Duration,
    ) -> Result<Option<Lease>, ApiError> {
        let Some(certificate) = self.certificate.as_ref().map(|certificate| *certificate.borrow())
        else {
            return Ok(None);
        };
        let own = Announcement { identity: identity.to_owned(), certificate };
        let known = Standbys::parse(held.annotation(STANDBYS));
        if known.has_current(&own, now) {
            return Ok(None);
        }
        let mut lease = held.clone();
        lease.annotate(STANDBYS, known.with(&own, &held.record().holder, now).text());
        let path = format!("{}/{}", self.collection(), self.name);
        self.call(Call::put(path, lease.to_json()), timeout).await.map(Some)
    }

    /// Reports what the lease says whenever it changes, until the receiver is gone.
    pub(crate) async fn follow(self, seen: watch::Sender<Option<Record>>) {
        let mut backoff = Backoff::of_reflector();
        loop {
            let began = Instant::now();
            let pause = match self.follow_once(&seen).await {
                Ok(()) if began.elapsed() > SILENCE => {
                    backoff.succeed();
                    Duration::ZERO
                }
                Ok(()) => backoff.fail(Instant::now()),
                Err(error) => {
                    tracing::debug!(target: "V4", lock = self.describe(), %error, "Lease is not followed; it is read now and then");
                    let is_refused = matches!(error.code(), Some(403..=405));
                    if is_refused { REFUSED_PAUSE } else { backoff.fail(Instant::now()) }
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = seen.closed() => return,
            }
        }
    }

    async fn follow_once(&self, seen: &watch::Sender<Option<Record>>) -> Result<(), ApiError> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(rename = "type")]
            what: &'a str,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        let query = format!(
            "watch=true&fieldSelector=metadata.name%3D{}&timeoutSeconds=3600&allowWatchBookmarks=true",
            self.name
        );
        let call = Call::get(format!("{}?{query}", self.collection())).timeout(SILENCE);
        let (mut body, _) = self.api.stream(&call).await?;
        let mut bytes: Vec<u8> = Vec::new();
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(SILENCE, body.frame()).await {
            bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
            while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = bytes.drain(..=end).collect();
                let Ok(line) = serde_json::from_slice::<Line<'_>>(&line) else { return Ok(()) };
                // Such as that the revision is gone. The next watch names none, so it begins with the lease as it is then.
                if line.what == "ERROR" {
                    return Ok(());
                }
                let lease = Lease::parse(line.object.get().as_bytes());
                // In case the server ignores the field selector and sends all leases of the namespace.
                let lease = lease.filter(|lease| lease.metadata("name") == &*self.name);
                if let ("ADDED" | "MODIFIED", Some(lease)) = (line.what, lease) {
                    seen.send_replace(Some(lease.record()));
                }
            }
            // A line that never ends must not fill the memory.
            if bytes.len() > MAX_LINE {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Writes an event about the lease, once. No caller waits for it and nothing depends on it.
    pub(crate) async fn record_event(
        &self,
        lease: &Lease,
        component: &str,
        message: &str,
        now: Timestamp,
        timeout: Duration,
    ) {
        let at = now.floor_to_second().to_string();
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{}.{:x}", self.name, now.as_nanos()),
                "namespace": &*self.namespace,
            },
            "involvedObject": {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "namespace": &*self.namespace,
                "name": &*self.name,
                "uid": lease.metadata("uid"),
                "resourceVersion": lease.metadata("resourceVersion"),
            },
            "reason": "LeaderElection",
            "message": message,
            "source": {"component": component},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
            "type": "Normal",
            "eventTime": null,
            "reportingComponent": component,
            "reportingInstance": "",
        });
        let path = format!("/api/v1/namespaces/{}/events", self.namespace);
        let call = Call::post(path, body.to_string().into_bytes()).timeout(timeout);
        if let Err(error) = self.api.call(&call).await {
            tracing::debug!(lock = self.describe(), at = to_micro_time(now), %error, "Event was not written");
        }
    }

    fn collection(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    async fn call(&self, call: Call, timeout: Duration) -> Result<Lease, ApiError> {
        let answer = self.api.call(&call.timeout(timeout)).await?;
        Lease::parse(&answer).ok_or_else(|| ApiError::unclear("the answer is no lease"))
    }
}

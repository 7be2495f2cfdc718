//! Sends spans to the collector in batches, in the background.
//!
//! Invariants: one request at a time, each with a timeout; a batch that cannot be delivered is dropped and counted, and that is
//! logged once a minute at most.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Span, TracingOptions, otlp};
use crate::metrics::Metrics;
use crate::transport::{Api, Call, ConnectError, Endpoint};

/// A batch goes out when it has this many spans or is this old, as in the reference's client.
const MAX_BATCH: usize = 512;
const MAX_AGE: Duration = Duration::from_secs(5);
/// The longest that an export may take.
const TIMEOUT: Duration = Duration::from_secs(10);
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
const PATH: &str = "/v1/traces";

#[derive(Debug)]
pub(crate) struct Exporter {
    api: Api,
    spans: mpsc::Receiver<Span>,
    metrics: Arc<Metrics>,
    max_age: Duration,
    complained: Option<Instant>,
}

impl Exporter {
    /// An exporter to the collector that the options name, which is not asked anything yet.
    pub(crate) fn new(
        options: &TracingOptions,
        spans: mpsc::Receiver<Span>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ConnectError> {
        let api = Endpoint::from_url(&options.endpoint)?.client("tracing")?;
        Ok(Self { api, spans, metrics, max_age: MAX_AGE, complained: None })
    }

    /// Exports until the core has ended and its last spans are out.
    pub(crate) async fn run(mut self) {
        let mut batch = Vec::with_capacity(MAX_BATCH);
        while let Some(first) = self.spans.recv().await {
            batch.push(first);
            let due = Instant::now() + self.max_age;
            while batch.len() < MAX_BATCH {
                match tokio::time::timeout_at(due, self.spans.recv()).await {
                    Ok(Some(span)) => batch.push(span),
                    Ok(None) | Err(_) => break,
                }
            }
            self.export(&batch).await;
            batch.clear();
        }
    }

    async fn export(&mut self, batch: &[Span]) {
        let body = otlp::request(batch).to_string().into_bytes();
        let Err(error) = self.api.call(&Call::post(PATH, body).timeout(TIMEOUT)).await else {
            return;
        };
        self.metrics.count_dropped_spans(batch.len() as u64);
        if self.complained.is_none_or(|last| last.elapsed() >= COMPLAIN_EVERY) {
            self.complained = Some(Instant::now());
            tracing::warn!(%error, spans = batch.len(), "Failed to export spans; they are dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::Timestamp;
    use kube_scheduler_config::FeatureGates;

    use super::*;
    use crate::metrics::MetricsOptions;
    use crate::transport::closed_port::ClosedPort;

    fn span(id: u64) -> Span {
        Span {
            trace: [1, 1],
            id,
            parent: None,
            name: "Scheduling attempt",
            started: Timestamp::EPOCH,
            ended: Timestamp::EPOCH,
            attributes: Vec::new(),
            error: None,
        }
    }

    fn exporter(endpoint: String, spans: mpsc::Receiver<Span>) -> (Exporter, Arc<Metrics>) {
        let metrics =
            Arc::new(Metrics::new(1.0, MetricsOptions::default(), &FeatureGates::default()));
        let options = TracingOptions { endpoint, sampling_rate_per_million: 1 };
        (Exporter::new(&options, spans, metrics.clone()).unwrap(), metrics)
    }

    #[tokio::test]
    async fn a_collector_that_is_away_costs_its_spans_only() {
        let port = ClosedPort::new();
        let (out, spans) = mpsc::channel(2_048);
        let (exporter, metrics) = exporter(port.address().to_string(), spans);
        // More than a batch.
        for id in 0..MAX_BATCH as u64 + 3 {
            out.try_send(span(id)).unwrap();
        }
        drop(out);
        exporter.run().await;
        assert!(metrics.text().contains("kube_scheduler_rs_spans_dropped_total 515\n"));
    }

    #[test]
    fn addresses_must_be_addresses() {
        let (_, spans) = mpsc::channel(1);
        let metrics =
            Arc::new(Metrics::new(1.0, MetricsOptions::default(), &FeatureGates::default()));
        let options =
            TracingOptions { endpoint: "ftp://x".to_owned(), sampling_rate_per_million: 1 };
        assert!(Exporter::new(&options, spans, metrics).is_err());
    }
}

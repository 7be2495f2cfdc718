//! Authorities that the cluster publishes in a ConfigMap, looked up and followed.
//!
//! Invariants: what cannot be read or used changes nothing; a cluster that is away is asked again with growing pauses;
//! the following costs one watch and no polling.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use serde::Deserialize;

use super::request_header::{FrontProxy, Headers};
use super::trust::{Authorities, MissingParts, TrustUpdate};
use crate::backoff::Backoff;
use crate::transport::{Api, ApiError, Call};

const CONFIG_MAP: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const SELECTOR: &str = "fieldSelector=metadata.name%3Dextension-apiserver-authentication";
/// For the answer to a question; the reference's.
const TIMEOUT: Duration = Duration::from_secs(10);
/// After how many seconds a watch is restarted, so that a dead connection does not hide changes for ever.
const WATCH_SECONDS: u64 = 300;
/// One ConfigMap is at most a megabyte, and JSON escapes may double that.
const MAX_EVENT: usize = 4 << 20;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigMap {
    metadata: Metadata,
    data: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

#[derive(Debug, Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: serde_json::Value,
}

/// Looks up in the cluster what no file says.
pub(crate) struct Lookup {
    api: Api,
    wanted: MissingParts,
    /// The problem that was logged last, so that it is logged once.
    complaint: Option<String>,
}

impl Lookup {
    pub(crate) fn new(api: Api, wanted: MissingParts) -> Self {
        Self { api, wanted, complaint: None }
    }

    /// Asks once. A cluster that publishes nothing is no failure.
    pub(crate) async fn once(&mut self) -> Result<TrustUpdate, String> {
        match self.get().await {
            Ok(map) => self.read(&map),
            Err(error) if error.code() == Some(404) => Ok(TrustUpdate::default()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Reports everything that is found, now and later. Never ends.
    pub(crate) async fn follow(mut self, mut report: impl FnMut(TrustUpdate)) {
        let mut backoff = Backoff::of_reflector();
        let mut has_warned = false;
        loop {
            match self.get().await {
                Ok(map) => {
                    backoff.succeed();
                    has_warned = false;
                    self.pass_on(&map, &mut report);
                    self.watch(&map.metadata.resource_version, &mut report).await;
                }
                Err(error) if !has_warned => {
                    has_warned = true;
                    tracing::warn!(
                        "Error looking up in-cluster authentication configuration: {error}"
                    );
                    tracing::warn!(
                        "Continuing without authentication configuration. This may treat all requests as anonymous."
                    );
                }
                Err(_) => {}
            }
            // After a watch as well: a server that ends each at once must not make this spin.
            tokio::time::sleep(backoff.fail(Instant::now())).await;
        }
    }

    async fn get(&self) -> Result<ConfigMap, ApiError> {
        let body = self.api.call(&Call::get(CONFIG_MAP).timeout(TIMEOUT)).await?;
        serde_json::from_slice(&body).map_err(|error| ApiError::unclear(error.to_string()))
    }

    /// Reports changes until the watch ends.
    async fn watch(&mut self, version: &str, report: &mut impl FnMut(TrustUpdate)) {
        let path = format!(
            "{CONFIG_MAPS}?watch=true&{SELECTOR}&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        );
        let Ok((mut body, _)) = self.api.stream(&Call::get(path).timeout(TIMEOUT)).await else {
            return;
        };
        let over = tokio::time::sleep(Duration::from_secs(WATCH_SECONDS) + TIMEOUT);
        tokio::pin!(over);
        let mut read: Vec<u8> = Vec::new();
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = &mut over => return,
            };
            let Some(Ok(frame)) = frame else { return };
            let Ok(data) = frame.into_data() else { continue };
            read.extend_from_slice(&data);
            while let Some(end) = read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = read.drain(..=end).collect();
                let Ok(event) = serde_json::from_slice::<Event>(&line) else { return };
                match event.kind.as_str() {
                    "ADDED" | "MODIFIED" => {
                        let Ok(map) = serde_json::from_value(event.object) else { return };
                        self.pass_on(&map, report);
                    }
                    // What was trusted stays trusted, as in the reference.
                    "DELETED" | "BOOKMARK" => {}
                    _ => return,
                }
            }
            if read.len() > MAX_EVENT {
                return;
            }
        }
    }

    fn pass_on(&mut self, map: &ConfigMap, report: &mut impl FnMut(TrustUpdate)) {
        match self.read(map) {
            Ok(found) => {
                self.complaint = None;
                report(found);
            }
            Err(problem) => {
                if self.complaint.as_ref() != Some(&problem) {
                    tracing::error!(
                        err = %problem,
                        "configmap/extension-apiserver-authentication in kube-system cannot be used"
                    );
                    self.complaint = Some(problem);
                }
            }
        }
    }

    fn read(&self, map: &ConfigMap) -> Result<TrustUpdate, String> {
        let value = |key: &str| {
            let text = map.data.as_ref().and_then(|data| data.get(key));
            text.filter(|text| !text.is_empty())
        };
        let authorities = |key: &str| {
            let read = value(key).map(|text| Authorities::read(text.as_bytes()));
            read.transpose().map_err(|problem| format!("{key}: {problem}"))
        };
        let list = |key: &str| -> Result<Vec<String>, String> {
            let read = value(key).map(|text| serde_json::from_str(text));
            let read = read.transpose().map_err(|error| format!("{key}: {error}"))?;
            Ok(read.unwrap_or_default())
        };
        let mut found = TrustUpdate::default();
        if self.wanted.client_ca {
            found.client_ca = authorities("client-ca-file")?.map(Arc::new);
        }
        if self.wanted.front_proxy
            && let Some(authorities) = authorities("requestheader-client-ca-file")?
        {
            let headers = Headers {
                allowed_names: list("requestheader-allowed-names")?,
                username: list("requestheader-username-headers")?,
                uid: list("requestheader-uid-headers")?,
                group: list("requestheader-group-headers")?,
                extra_prefix: list("requestheader-extra-headers-prefix")?,
            };
            found.front_proxy = Some(Arc::new(FrontProxy { authorities, headers }));
        }
        Ok(found)
    }
}

//! A client of a running scheduler that answers questions: reached through the API server if it is registered there, at the
//! leader's pod, or at its secure port.

mod leader;

use std::path::Path;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use kube::Client;
use kube_scheduler_answers::{API_VERSION, QuestionKind};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use self::leader::Candidate;
use crate::lookup::escaped;
use crate::transport::{ConnectError, Endpoint};
pub use leader::LeaseName;

/// How long a pod may take to say that it answers questions, before another one is tried.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a running scheduler gives no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// There is no connection to be made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The file of certificate authorities cannot be used.
    #[error("{path}: {problem}")]
    Authority {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The API server does not lead to a scheduler now, or not for this user; or the leader is not reached at its pod.
    #[error("{url} does not lead to a scheduler that answers questions: {message}")]
    NotReached {
        /// The API server.
        url: String,
        /// Why, in its words.
        message: String,
    },
    /// The question is refused.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// Why, in the scheduler's words.
        message: String,
    },
    /// The question did not arrive, or what came back is no answer.
    #[error("cannot ask {url}")]
    Request {
        /// Who was asked.
        url: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// How the certificate of a scheduler's secure port is verified.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// As the kubeconfig has it for the API server.
    AsApiServer,
    /// By one of the authorities in this PEM file.
    Authority(&'a Path),
    /// Its certificate is not checked.
    Anybody,
}

/// A client of a scheduler that runs, for questions to it.
#[derive(Clone)]
pub struct RunningScheduler {
    client: Client,
    url: String,
}

impl std::fmt::Debug for RunningScheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningScheduler").field("url", &self.url).finish_non_exhaustive()
    }
}

impl RunningScheduler {
    /// The one that is registered with the API server; `None` if none is.
    ///
    /// # Errors
    /// If there is no connection to the API server, or [`AskError::NotReached`].
    pub async fn registered(endpoint: &Endpoint) -> Result<Option<Self>, AskError> {
        let running = Self::new(endpoint)?;
        match running.client.request::<Value>(get(&format!("/apis/{API_VERSION}"))?).await {
            Ok(_) => Ok(Some(running)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(match running.failed(error) {
                AskError::Refused { code: 403 | 503, message } => {
                    AskError::NotReached { url: running.url, message }
                }
                error => error,
            }),
        }
    }

    /// The one that holds a lease, at its pod, by the API server's port-forward, or else one that waits for the lease; `None` if
    /// none of them answers questions.
    ///
    /// It is asked with the credentials for the API server, which are sent only to the owner of the certificate that it has
    /// announced in the lease.
    ///
    /// # Errors
    /// If there is no connection to the API server, or [`AskError::NotReached`], with the reason of the first that was tried.
    pub async fn leading(endpoint: &Endpoint, lease: &LeaseName) -> Result<Option<Self>, AskError> {
        let api_server = endpoint.kube_client()?;
        let mut first = None;
        for candidate in leader::candidates(&api_server, lease).await? {
            match Self::at_pod(endpoint, &api_server, lease, &candidate).await {
                Err(error @ AskError::NotReached { .. }) => first = first.or(Some(error)),
                other => return other.map(Some),
            }
        }
        first.map_or(Ok(None), Err)
    }

    async fn at_pod(
        endpoint: &Endpoint,
        api_server: &Client,
        lease: &LeaseName,
        candidate: &Candidate,
    ) -> Result<Self, AskError> {
        let port = leader::port_of(api_server, lease, candidate).await?;
        let url = format!(
            "pod {}/{} by {}, as {} of lease {lease}",
            port.namespace,
            port.name,
            endpoint.url(),
            candidate.role
        );
        let client = endpoint.client_of_pod(port)?;
        let running = Self { client, url };
        let greeting = running.client.request::<Value>(get(&format!("/apis/{API_VERSION}"))?);
        match timeout(PATIENCE, greeting).await {
            Ok(Ok(_)) => Ok(running),
            Ok(Err(error)) => {
                let error = running.failed(error);
                let mut message = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    message = format!("{message}: {cause}");
                    source = cause.source();
                }
                Err(AskError::NotReached { url: running.url, message })
            }
            Err(_) => {
                let message = format!("it has not answered within {PATIENCE:?}");
                Err(AskError::NotReached { url: running.url, message })
            }
        }
    }

    /// The one at `url`, the address of its secure port. It is asked with the credentials for the API server.
    ///
    /// # Errors
    /// If the address is invalid, or the authorities cannot be used.
    pub fn at(endpoint: &Endpoint, url: &str, trust: Trust<'_>) -> Result<Self, AskError> {
        let authorities = match trust {
            Trust::Authority(path) => Some(authorities(path)?),
            Trust::AsApiServer | Trust::Anybody => None,
        };
        let is_checked = !matches!(trust, Trust::Anybody);
        Self::new(&endpoint.elsewhere(url, authorities, is_checked)?)
    }

    fn new(endpoint: &Endpoint) -> Result<Self, AskError> {
        Ok(Self { client: endpoint.kube_client()?, url: endpoint.url() })
    }

    /// Its address, or by whom it is reached.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks a question in `namespace`; a question about the whole cluster has none. `rendered` asks for the answer as a `table`
    /// or a `wide` one, too. Gives the answer with `apiVersion` and `kind`.
    ///
    /// # Errors
    /// If the question is refused or does not arrive.
    pub async fn ask(
        &self,
        kind: QuestionKind,
        namespace: &str,
        spec: &Value,
        rendered: Option<&str>,
    ) -> Result<Value, AskError> {
        let question = json!({"apiVersion": API_VERSION, "kind": kind.kind(), "spec": spec});
        let place = match kind.is_namespaced() {
            true => format!("namespaces/{}/", escaped(namespace)),
            false => String::new(),
        };
        let query = rendered.map(|form| format!("?rendered={form}")).unwrap_or_default();
        let request =
            Request::post(format!("/apis/{API_VERSION}/{place}{}{query}", kind.resource()))
                .header(CONTENT_TYPE, "application/json")
                .body(question.to_string().into_bytes())
                .map_err(|error| self.failed(kube::Error::HttpError(error)))?;
        let mut answered: Value =
            self.client.request(request).await.map_err(|error| self.failed(error))?;
        let mut answer = json!({
            "apiVersion": API_VERSION,
            // A drain is answered as any other change.
            "kind": if kind == QuestionKind::Drain { QuestionKind::WhatIf } else { kind }.kind(),
        });
        let (Value::Object(status), Value::Object(answer_fields)) =
            (answered["status"].take(), &mut answer)
        else {
            let error = "the answer has no status".into();
            return Err(AskError::Request { url: self.url.clone(), source: error });
        };
        answer_fields.extend(status);
        Ok(answer)
    }

    fn failed(&self, error: kube::Error) -> AskError {
        match error {
            kube::Error::Api(status) => {
                let reason = StatusCode::from_u16(status.code)
                    .ok()
                    .and_then(|code| code.canonical_reason())
                    .unwrap_or("refused");
                let message = match status.message.is_empty() {
                    true => reason.to_owned(),
                    false => status.message.clone(),
                };
                AskError::Refused { code: status.code, message }
            }
            error => AskError::Request { url: self.url.clone(), source: error.into() },
        }
    }
}

fn get(path: &str) -> Result<Request<Vec<u8>>, AskError> {
    let request = Request::get(path).body(Vec::new());
    request.map_err(|error| AskError::Request { url: path.to_owned(), source: error.into() })
}

fn authorities(path: &Path) -> Result<Vec<Vec<u8>>, AskError> {
    let refused =
        |problem: String| AskError::Authority { path: path.display().to_string(), problem };
    let found: Result<Vec<CertificateDer<'_>>, _> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found = found.map_err(|error| refused(error.to_string()))?;
    if found.is_empty() {
        return Err(refused("there is no certificate in it".to_owned()));
    }
    Ok(found.iter().map(|certificate| certificate.to_vec()).collect())
}

//! Where the API server is and who we are there: from a kubeconfig, from a URL, or from the pod that this process runs in.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{HeaderValue, USER_AGENT};
use kube::config::ExecInteractiveMode;

use super::connection::{self, Traffic, Way};
use super::credentials::CredentialFiles;
use super::http2::Http2Options;
use super::outage::Outage;
use super::pod::{self, PodPort};
use super::proxy::Proxies;
use super::times::ConnectionTimes;
use super::{Api, Call, kubeconfig};
use crate::backoff::Backoff;
use crate::version::{KUBERNETES_VERSION, architecture};

/// Why no client for an API server can be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The kubeconfig cannot be read or makes no sense.
    #[error("kubeconfig {}", path.display())]
    Kubeconfig {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The address is not the URL of a server.
    #[error(
        "--master {address:?} is not the URL of an API server; expected is http(s)://HOST[:PORT]"
    )]
    Master {
        /// What was given.
        address: String,
    },
    /// Credentials would go to an address without encryption, or to none.
    #[error(
        "--server {address:?} is not the URL of a secure port; expected is https://HOST[:PORT]"
    )]
    Server {
        /// What was given.
        address: String,
    },
    /// Nothing says where the API server is.
    #[error(
        "no API server is configured: give --kubeconfig FILE, --master URL or clientConnection.kubeconfig, or run inside a cluster"
    )]
    NotConfigured,
    /// The service account of this pod cannot be used.
    #[error("in-cluster configuration")]
    InCluster(#[source] Box<dyn StdError + Send + Sync>),
    /// Certificates or credentials are unusable.
    #[error("client for {server}")]
    Client {
        /// Where it would have connected.
        server: String,
        /// What is wrong.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// Where the API server is and who we are there.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(super) config: kube::Config,
    /// What of it stands in files that may change.
    pub(super) files: CredentialFiles,
    /// Which proxy leads to the server, unless `config` says so.
    pub(super) proxies: Arc<Proxies>,
    pub(super) http2: Http2Options,
    pub(super) origin: String,
    /// Shared by all clients.
    pub(super) outage: Arc<Outage>,
}

impl Endpoint {
    /// The API server as the reference finds it: from a kubeconfig, its address replaced by `master` if given; from
    /// `master` alone; else from the cluster this process runs in as a pod. Neither `$KUBECONFIG` nor `~/.kube/config` counts.
    ///
    /// # Errors
    /// As those of [`from_kubeconfig`](Self::from_kubeconfig) or [`from_url`](Self::from_url), whichever is used; else
    /// [`ConnectError::NotConfigured`] outside of a pod, [`ConnectError::InCluster`] if token or authority cannot be read.
    pub async fn resolve(
        kubeconfig: Option<&Path>,
        master: Option<&str>,
    ) -> Result<Self, ConnectError> {
        match (kubeconfig, master) {
            (Some(path), master) => Self::from_kubeconfig(path, master).await,
            (None, Some(master)) => Self::from_url(master),
            (None, None) => Self::in_cluster(),
        }
    }

    /// The API server that a kubeconfig file means, its address replaced by `master` if given. A file that says nothing about a
    /// server means the cluster that this process runs in.
    ///
    /// # Errors
    /// If the file cannot be read or used, or `master` is no address.
    pub async fn from_kubeconfig(path: &Path, master: Option<&str>) -> Result<Self, ConnectError> {
        let master = master.map(parse_url).transpose()?;
        Self::from_files(&[path], None, master, Self::around)
    }

    /// The API server that a context of kubeconfig files means; the current one without `context`. Files are merged as kubectl
    /// merges those of `$KUBECONFIG`: of a name, and of the current context, the first counts.
    ///
    /// # Errors
    /// [`ConnectError::Kubeconfig`] if a file cannot be read, or there is no such context or none that can be used.
    pub async fn from_context(
        paths: &[impl AsRef<Path>],
        context: Option<&str>,
    ) -> Result<Self, ConnectError> {
        let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
        Self::from_files(&paths, context, None, Self::around)
    }

    /// An API server that asks for no credentials, at this URL.
    ///
    /// # Errors
    /// If the URL is none.
    pub fn from_url(url: &str) -> Result<Self, ConnectError> {
        Ok(Self::new(kube::Config::new(parse_url(url)?), "(from --master)".to_owned()))
    }

    /// The cluster that this process runs in as a pod, with the credentials of its service account.
    pub(crate) fn in_cluster() -> Result<Self, ConnectError> {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if !is_set("KUBERNETES_SERVICE_HOST") || !is_set("KUBERNETES_SERVICE_PORT") {
            return Err(ConnectError::NotConfigured);
        }
        let config =
            kube::Config::incluster().map_err(|error| ConnectError::InCluster(error.into()))?;
        Ok(Self::new(config, "(from the service account)".to_owned()))
    }

    /// Another server with the same credentials, which are sent over TLS alone. Unless `is_checked` is false its certificate is
    /// checked, by `authorities`, or by those of this endpoint if there are none, also where this endpoint's own
    /// certificate is not checked.
    pub(crate) fn elsewhere(
        &self,
        url: &str,
        authorities: Option<Vec<Vec<u8>>>,
        is_checked: bool,
    ) -> Result<Self, ConnectError> {
        let mut config = self.config.clone();
        config.cluster_url = parse_url(url)
            .ok()
            .filter(|url| url.scheme_str() == Some("https"))
            .ok_or_else(|| ConnectError::Server { address: url.to_owned() })?;
        // What leads to the other address, and who has signed its certificate.
        config.tls_server_name = None;
        config.proxy_url = None;
        if authorities.is_some() {
            config.root_cert_file = None;
        }
        let files = self.files.clone();
        let files = if authorities.is_some() { files.without_authority() } else { files };
        config.root_cert = authorities.or(config.root_cert);
        config.accept_invalid_certs = !is_checked;
        let (proxies, http2) = (self.proxies.clone(), self.http2);
        Ok(Self { files, proxies, http2, ..Self::new(config, self.origin.clone()) })
    }

    /// This endpoint, whose credential plugins get nothing of this process's standard input.
    #[must_use]
    pub fn without_input(mut self) -> Self {
        if let Some(exec) = &mut self.config.auth_info.exec {
            exec.interactive_mode = Some(ExecInteractiveMode::Never);
        }
        self
    }

    /// Whether the credentials can be used by their receiver, as tokens and passwords can, and a client certificate cannot.
    /// Credentials of a plugin count, because they may be tokens.
    pub fn has_bearer_credentials(&self) -> bool {
        let auth = &self.config.auth_info;
        auth.token.is_some()
            || auth.token_file.is_some()
            || auth.username.is_some()
            || auth.exec.is_some()
            || auth.auth_provider.is_some()
    }

    /// The URL of the API server.
    pub fn url(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// The namespace that the kubeconfig's context means; `default` if it names none.
    pub fn namespace(&self) -> &str {
        match &*self.config.default_namespace {
            "" => "default",
            named => named,
        }
    }

    /// A kube client over the kind of connection that the scheduler uses, for programs that measure or test it.
    ///
    /// # Errors
    /// If the connection cannot be set up, for example because a certificate cannot be used. Nothing is sent yet.
    pub fn kube_client(&self) -> Result<kube::Client, ConnectError> {
        Ok(self.connect(self.config.clone(), Traffic::Requests)?.0)
    }

    /// A client with the same credentials for what listens at a port of a pod, by this API server's port-forward. Nothing is sent
    /// yet.
    pub(crate) fn client_of_pod(&self, port: PodPort) -> Result<kube::Client, ConnectError> {
        // Only HTTP/1.1 connections become streams.
        let api_server = self.connect(self.config.clone(), Traffic::LongAnswers)?.0;
        let server = format!("pod {}/{}", port.namespace, port.name);
        pod::client(self.config.clone(), api_server, port)
            .map_err(|source| ConnectError::Client { server, source })
    }

    fn connect(
        &self,
        config: kube::Config,
        traffic: Traffic,
    ) -> Result<(kube::Client, Arc<ConnectionTimes>), ConnectError> {
        let way = Way { config, files: &self.files, proxies: &self.proxies, http2: self.http2 };
        connection::client(way, traffic)
            .map_err(|source| ConnectError::Client { server: self.url(), source })
    }

    pub(super) fn new(mut config: kube::Config, origin: String) -> Self {
        config.default_retry = false;
        let (files, proxies) = (CredentialFiles::default(), Proxies::of_environment());
        let http2 = Http2Options::of_environment();
        Self { config, files, proxies, http2, origin, outage: Arc::default() }
    }

    /// A client whose requests say what they are for. Nothing is sent yet.
    pub(crate) fn client(&self, purpose: &str) -> Result<Api, ConnectError> {
        self.client_for(purpose, Traffic::Requests)
    }

    /// A client as of [`client`](Self::client), for answers so long that each had better have a connection to itself.
    pub(crate) fn client_for_long_answers(&self, purpose: &str) -> Result<Api, ConnectError> {
        self.client_for(purpose, Traffic::LongAnswers)
    }

    fn client_for(&self, purpose: &str, traffic: Traffic) -> Result<Api, ConnectError> {
        let mut config = self.config.clone();
        // The reference's form, with the Kubernetes version that this scheduler replaces where the reference has its commit.
        let agent = format!(
            "kube-scheduler-rs/{} ({}/{}) kubernetes/{}/{purpose}",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            architecture(),
            KUBERNETES_VERSION.git_version
        );
        if let Ok(agent) = HeaderValue::try_from(agent) {
            config.headers.push((USER_AGENT, agent));
        }
        let (client, times) = self.connect(config, traffic)?;
        let opening = (traffic == Traffic::Requests).then(Arc::default);
        let host = self.config.cluster_url.authority().map_or("", |host| host.as_str()).into();
        let base = self.url().trim_end_matches('/').into();
        Ok(Api {
            client,
            host,
            base,
            times,
            metrics: None,
            fence: None,
            is_json_only: Arc::default(),
            opening,
            outage: self.outage.clone(),
            served_versions: Arc::default(),
        })
    }

    /// Logs when the server has not answered for `patience`, and again when it does. Any answer counts.
    pub(crate) async fn watch_reachability(self, api: Api, patience: Duration) {
        let given_up = tokio::time::Instant::now() + patience;
        let (server, origin) = (self.url(), self.origin);
        let mut is_reported = false;
        let mut backoff =
            Backoff::new(Duration::from_millis(50), Duration::from_secs(30), Duration::MAX);
        loop {
            let request = Call::get("/version").timeout(patience.max(Duration::from_secs(1)));
            let error = match api.call(&request).await {
                Err(error) if error.code().is_none() => error,
                _ if is_reported => return tracing::info!(server, "The API server answers"),
                _ => return,
            };
            if !is_reported && tokio::time::Instant::now() >= given_up {
                is_reported = true;
                tracing::warn!(err = %error, server, origin, "The API server does not answer; trying on");
            }
            let pause = backoff.fail(Instant::now());
            let pause = if is_reported { pause } else { pause.min(patience / 4) };
            tokio::time::sleep(pause).await;
        }
    }
}

fn parse_url(text: &str) -> Result<http::Uri, ConnectError> {
    kubeconfig::address(text).ok_or_else(|| ConnectError::Master { address: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_a_scheme_mean_plain_http() {
        assert_eq!(Endpoint::from_url("127.0.0.1:8080").unwrap().url(), "http://127.0.0.1:8080/");
        assert_eq!(Endpoint::from_url("https://a.example").unwrap().url(), "https://a.example/");
        for bad in ["", "http://", "ftp://a", "http://a b"] {
            assert!(matches!(Endpoint::from_url(bad), Err(ConnectError::Master { .. })), "{bad:?}");
        }
    }

    #[test]
    fn a_client_certificate_is_no_bearer_credential() {
        type Change = fn(&mut kube::config::AuthInfo);
        let with = |change: Change| {
            let mut endpoint = Endpoint::from_url("https://a.example").unwrap();
            change(&mut endpoint.config.auth_info);
            endpoint
        };
        let exec: Change = |auth| {
            auth.exec = Some(serde_json::from_value(serde_json::json!({"command": "c"})).unwrap())
        };
        let bearers: [Change; 5] = [
            |auth| auth.token = Some("t".to_owned().into()),
            |auth| auth.token_file = Some("t".to_owned()),
            |auth| auth.username = Some("u".to_owned()),
            |auth| {
                let provider = serde_json::json!({"name": "p", "config": {}});
                auth.auth_provider = Some(serde_json::from_value(provider).unwrap());
            },
            exec,
        ];
        for (at, change) in bearers.into_iter().enumerate() {
            assert!(with(change).has_bearer_credentials(), "{at}");
        }
        assert!(!with(|_| {}).has_bearer_credentials());
        let certificate = with(|auth| auth.client_certificate = Some("c".to_owned()));
        assert!(!certificate.has_bearer_credentials());
        let exec = with(exec).without_input().config.auth_info.exec.unwrap();
        assert!(matches!(exec.interactive_mode, Some(ExecInteractiveMode::Never)));
    }
}

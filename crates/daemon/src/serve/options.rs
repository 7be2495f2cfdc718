//! What an operator can say about the secure port, in plain data: the reference's flags without any command line.
//!
//! Invariant: the defaults are the reference's.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::version::KUBERNETES_VERSION;

/// The port of the reference.
const DEFAULT_PORT: u16 = 10259;

/// How the secure port is served.
#[derive(Clone, Debug)]
pub struct ServingOptions {
    /// Where to listen; `--bind-address` and `--secure-port`. An unspecified address means all interfaces and both
    /// address families. Port 0 takes any free port, so a caller whose users mean "off" by it must not serve at all.
    pub address: SocketAddr,
    /// `--cert-dir`: where a certificate made by ourselves is kept, as `kube-scheduler.crt` and `.key`. Without it such a
    /// certificate lives in memory only.
    pub cert_dir: Option<PathBuf>,
    /// `--tls-cert-file`: the certificate and its chain in PEM. Wants a key beside it, and makes `cert_dir` moot.
    pub tls_cert_file: Option<PathBuf>,
    /// `--tls-private-key-file`: the key of that certificate, in PEM.
    pub tls_private_key_file: Option<PathBuf>,
    /// `--tls-sni-cert-key`: further certificates for names that clients ask for. Earlier ones win.
    pub tls_sni_cert_keys: Vec<SniCertificate>,
    /// `--tls-min-version`: `VersionTLS10` to `VersionTLS13`, or nothing for TLS 1.2.
    pub tls_min_version: String,
    /// `--tls-cipher-suites` for TLS 1.2; those of TLS 1.3 cannot be chosen. Nothing means all.
    pub tls_cipher_suites: Vec<String>,
    /// `--tls-curve-preferences`, as the numbers of RFC 8446 `NamedGroup`. Nothing means all.
    pub tls_curve_preferences: Vec<i32>,
    /// `--disable-http2-serving`.
    pub disable_http2: bool,
    /// `--http2-max-streams-per-connection`; 0 means 100.
    pub http2_max_streams: u32,
    /// `--permit-port-sharing`: `SO_REUSEPORT`.
    pub permit_port_sharing: bool,
    /// `--permit-address-sharing`: `SO_REUSEADDR`.
    pub permit_address_sharing: bool,
    /// How often files are looked at for changes; ten seconds.
    pub reload_interval: Duration,
    /// How long connections may take.
    pub patience: ConnectionPatience,
    /// How callers are authenticated.
    pub authentication: AuthenticationOptions,
    /// What they may do.
    pub authorization: AuthorizationOptions,
    /// What `/flagz` and `/statusz` show, and what `/debug/flags/v` changes.
    pub introspection: Introspection,
}

impl Default for ServingOptions {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), DEFAULT_PORT),
            cert_dir: None,
            tls_cert_file: None,
            tls_private_key_file: None,
            tls_sni_cert_keys: Vec::new(),
            tls_min_version: String::new(),
            tls_cipher_suites: Vec::new(),
            tls_curve_preferences: Vec::new(),
            disable_http2: false,
            http2_max_streams: 0,
            permit_port_sharing: false,
            permit_address_sharing: false,
            reload_interval: Duration::from_secs(10),
            patience: ConnectionPatience::default(),
            authentication: AuthenticationOptions::default(),
            authorization: AuthorizationOptions::default(),
            introspection: Introspection::default(),
        }
    }
}

/// A certificate for certain names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniCertificate {
    /// Certificate and chain, in PEM.
    pub cert_file: PathBuf,
    /// Its key, in PEM.
    pub key_file: PathBuf,
    /// Names it is for: domains, `*.` domains, or addresses. None means those in the certificate.
    pub names: Vec<String>,
}

/// How long a connection may take for what.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionPatience {
    /// For the TLS handshake, and for the head of a request once it has started; 32 seconds.
    pub header: Duration,
    /// Between requests; 90 seconds.
    pub idle: Duration,
    /// For the body of a question about scheduling once its head is there; 10 seconds.
    pub question: Duration,
    /// For answers under way when the server stops; 5 seconds.
    pub shutdown: Duration,
}

impl Default for ConnectionPatience {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(32),
            idle: Duration::from_secs(90),
            question: Duration::from_secs(10),
            shutdown: Duration::from_secs(5),
        }
    }
}

/// How callers are recognised.
#[derive(Clone, Debug)]
pub struct AuthenticationOptions {
    /// `--authentication-kubeconfig`: where tokens are reviewed and the cluster's authorities are looked up. Without it
    /// the surrounding cluster is asked; without one, tokens mean nothing.
    pub kubeconfig: Option<PathBuf>,
    /// `--authentication-token-webhook-cache-ttl`.
    pub token_cache_ttl: Duration,
    /// `--client-ca-file`: authorities whose certificates identify callers. Looked up in the cluster when not given.
    pub client_ca_file: Option<PathBuf>,
    /// Whether the certificate of a caller says the user's uid: the gate `AllowParsingUserUIDFromCertAuth`.
    pub certificates_have_uids: bool,
    /// Proxies that pass on requests of other users, which they name in headers.
    pub request_header: RequestHeaderOptions,
    /// `--authentication-skip-lookup`.
    pub skip_lookup: bool,
    /// `--authentication-tolerate-lookup-failure`.
    pub tolerate_lookup_failure: bool,
}

impl Default for AuthenticationOptions {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            token_cache_ttl: Duration::from_secs(10),
            client_ca_file: None,
            certificates_have_uids: true,
            request_header: RequestHeaderOptions::default(),
            skip_lookup: false,
            tolerate_lookup_failure: true,
        }
    }
}

/// The `--requestheader-*` flags. They count only with a `client_ca_file`; otherwise the cluster's settings do.
#[derive(Clone, Debug)]
pub struct RequestHeaderOptions {
    /// `--requestheader-client-ca-file`: authorities that sign certificates of proxies.
    pub client_ca_file: Option<PathBuf>,
    /// Common names of proxies; none means any with a certificate by one of the authorities.
    pub allowed_names: Vec<String>,
    /// Headers that may hold the user, in order.
    pub username_headers: Vec<String>,
    /// Headers that may hold the user's uid, in order.
    pub uid_headers: Vec<String>,
    /// Headers that hold groups.
    pub group_headers: Vec<String>,
    /// Beginnings of headers that hold further attributes.
    pub extra_header_prefixes: Vec<String>,
}

impl Default for RequestHeaderOptions {
    fn default() -> Self {
        Self {
            client_ca_file: None,
            allowed_names: Vec::new(),
            username_headers: vec!["x-remote-user".to_owned()],
            uid_headers: Vec::new(),
            group_headers: vec!["x-remote-group".to_owned()],
            extra_header_prefixes: vec!["x-remote-extra-".to_owned()],
        }
    }
}

/// Who may see what.
#[derive(Clone, Debug)]
pub struct AuthorizationOptions {
    /// `--authorization-kubeconfig`: who is asked. Without it the surrounding cluster is; without one, whatever is not
    /// always allowed is forbidden.
    pub kubeconfig: Option<PathBuf>,
    /// `--authorization-webhook-cache-authorized-ttl`.
    pub authorized_ttl: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`.
    pub unauthorized_ttl: Duration,
    /// `--authorization-always-allow-paths`: exact paths, or beginnings that end in `*`.
    pub always_allow_paths: Vec<String>,
}

impl Default for AuthorizationOptions {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            authorized_ttl: Duration::from_secs(10),
            unauthorized_ttl: Duration::from_secs(10),
            always_allow_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
        }
    }
}

/// What a program says about itself.
#[derive(Clone, Debug)]
pub struct Introspection {
    /// All flags with their values, for `/flagz`. `None` leaves that page out.
    pub flags: Option<BTreeMap<String, String>>,
    /// Whether `/statusz` is served.
    pub statusz: bool,
    /// What it was built with.
    pub toolchain: String,
    /// The version of Kubernetes it replaces, such as `1.36.2`.
    pub binary_version: String,
    /// The version whose behaviour it shows, such as `1.36`.
    pub emulation_version: String,
    /// Changes how much is logged. `None` leaves `/debug/flags/v` without effect.
    pub verbosity: Option<VerbositySetter>,
}

impl Default for Introspection {
    fn default() -> Self {
        Self {
            flags: None,
            statusz: true,
            toolchain: concat!("rustc ", env!("CARGO_PKG_RUST_VERSION")).to_owned(),
            binary_version: KUBERNETES_VERSION.git_version.trim_start_matches('v').to_owned(),
            emulation_version: "1.36".to_owned(),
            verbosity: None,
        }
    }
}

/// Changes the verbosity of the log while the program runs.
#[derive(Clone)]
pub struct VerbositySetter(pub(crate) Arc<dyn Fn(u32) -> Result<(), VerbosityError> + Send + Sync>);

/// A verbosity that cannot be set, and why: the text is returned to the client of the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VerbosityError(pub String);

impl VerbositySetter {
    /// Calls `set` with the verbosity that a client asks for. An error of `set` is returned to the client as text.
    pub fn new(set: impl Fn(u32) -> Result<(), VerbosityError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(set))
    }
}

impl std::fmt::Debug for VerbositySetter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VerbositySetter")
    }
}

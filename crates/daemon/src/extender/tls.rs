//! Certificates and keys for calls to an extender.
//!
//! Quirk: `enableHTTPS` without a CA turns the check of the server's certificate off; whether TLS is used at all is decided by
//! the URL alone. Pinned by `https_without_a_ca_checks_nothing`.

use std::fs;

use ::http::Uri;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use kube::client::ConfigExt as _;
use kube_scheduler_config::{ExtenderConfig, ExtenderTls};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::connection::Transport;
use crate::transport::proxy::{Dialer, Proxy};

/// Certificates and keys that cannot be used. The texts are the reference's where it has them.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtenderTlsError {
    /// A CA is given although every certificate is to be trusted.
    #[error("specifying a root certificates file with the insecure flag is not allowed")]
    RootAndInsecure,
    /// A file cannot be read.
    #[error("{operation} {path}: {reason}")]
    File {
        /// What failed: `open` or `read`.
        operation: &'static str,
        /// Which file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A field is no base64.
    #[error("tlsConfig.{field}: illegal base64 data: {reason}")]
    Base64 {
        /// Which field.
        field: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The CA cannot be used.
    #[error("unable to load root certificates: {0}")]
    Root(String),
    /// The client's certificate or key cannot be used.
    #[error("{0}")]
    Identity(String),
}

/// What of the configuration is about TLS, read from files and decoded.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Material {
    is_insecure: bool,
    server_name: String,
    ca: Option<Vec<u8>>,
    /// Certificate and key.
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Material {
    /// Reads what an extender is configured with.
    pub(super) fn load(config: &ExtenderConfig) -> Result<Self, ExtenderTlsError> {
        let none = ExtenderTls::default();
        let tls = config.tls_config.as_ref().unwrap_or(&none);
        let is_given = |data: &str, file: &str| !data.is_empty() || !file.is_empty();
        let has_ca = is_given(&tls.ca_data, &tls.ca_file);
        let has_identity =
            is_given(&tls.cert_data, &tls.cert_file) && is_given(&tls.key_data, &tls.key_file);
        let is_insecure = tls.insecure || (config.enable_https && !has_ca);
        if !has_ca && !has_identity && !is_insecure && tls.server_name.is_empty() {
            return Ok(Self::default());
        }
        if has_ca && is_insecure {
            return Err(ExtenderTlsError::RootAndInsecure);
        }
        let ca = data_or_file("caData", &tls.ca_data, &tls.ca_file)?;
        let cert = data_or_file("certData", &tls.cert_data, &tls.cert_file)?;
        let key = data_or_file("keyData", &tls.key_data, &tls.key_file)?;
        let identity = if has_identity { cert.zip(key) } else { None };
        Ok(Self { is_insecure, server_name: tls.server_name.clone(), ca, identity })
    }

    /// The way to the extender at a URL, with these certificates, through a proxy if there is one.
    pub(super) fn transport(
        &self,
        proxy: Option<&Proxy>,
        url: &Uri,
    ) -> Result<Transport, ExtenderTlsError> {
        // Only what it says about TLS counts; the address is not used.
        let mut config = kube::Config::new(Uri::from_static("https://localhost"));
        config.accept_invalid_certs = self.is_insecure;
        if let Some(ca) = &self.ca {
            config.root_cert = Some(root_certificates(ca)?);
        }
        if let Some((cert, key)) = &self.identity {
            check_identity(cert, key)?;
            config.auth_info.client_certificate_data = Some(STANDARD.encode(cert));
            config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
        }
        let unusable = |why: String| ExtenderTlsError::Identity(format!("tls: {why}"));
        let tls = config.rustls_client_config().map_err(|error| unusable(chain(&error)))?;
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        let dialer = Dialer::new(http, proxy, url.scheme_str() == Some("https"), &tls);
        let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        if !self.server_name.is_empty() {
            let name = ServerName::try_from(self.server_name.clone())
                .map_err(|error| unusable(format!("invalid server name: {error}")))?;
            https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let connector = https.enable_http1().wrap_connector(dialer);
        Ok(Transport::new(connector))
    }
}

/// What is given in place counts more than what is in a file.
fn data_or_file(
    field: &'static str,
    data: &str,
    file: &str,
) -> Result<Option<Vec<u8>>, ExtenderTlsError> {
    if !data.is_empty() {
        let decoded = STANDARD.decode(data.trim_ascii());
        return decoded
            .map(Some)
            .map_err(|error| ExtenderTlsError::Base64 { field, reason: error.to_string() });
    }
    if file.is_empty() {
        return Ok(None);
    }
    fs::read(file).map(Some).map_err(|error| {
        let is_directory = error.kind() == std::io::ErrorKind::IsADirectory;
        let reason = error.to_string();
        let reason = reason.split(" (os error").next().unwrap_or_default().to_lowercase();
        let operation = if is_directory { "read" } else { "open" };
        ExtenderTlsError::File { operation, path: file.to_owned(), reason }
    })
}

fn root_certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, ExtenderTlsError> {
    let refused = |reason: &str| ExtenderTlsError::Root(reason.to_owned());
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|_| refused("unable to parse bytes as PEM block"))?;
    if certificates.is_empty() {
        let has_blocks = pem.windows(10).any(|bytes| bytes == b"-----BEGIN");
        return Err(refused(match (pem.is_empty(), has_blocks) {
            // An empty file trusts no certificate.
            (true, _) => return Ok(Vec::new()),
            (false, true) => "no valid certificate authority data seen",
            (false, false) => "unable to parse bytes as PEM block",
        }));
    }
    let mut roots = rustls::RootCertStore::empty();
    for certificate in &certificates {
        roots
            .add(certificate.clone())
            .map_err(|error| refused(&format!("failed to parse certificate: {error}")))?;
    }
    Ok(certificates.into_iter().map(|certificate| certificate.to_vec()).collect())
}

fn check_identity(cert: &[u8], key: &[u8]) -> Result<(), ExtenderTlsError> {
    let nothing_in = |what: &str| {
        ExtenderTlsError::Identity(format!("tls: failed to find any PEM data in {what} input"))
    };
    if !CertificateDer::pem_slice_iter(cert).any(|certificate| certificate.is_ok()) {
        return Err(nothing_in("certificate"));
    }
    PrivateKeyDer::from_pem_slice(key).map_err(|_| nothing_in("key")).map(drop)
}

/// An error with its causes.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let this = error.to_string();
        if !text.contains(&this) {
            text.push_str(": ");
            text.push_str(&this);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(change: impl FnOnce(&mut ExtenderConfig, &mut ExtenderTls)) -> String {
        let mut config = ExtenderConfig { url_prefix: "https://a".into(), ..Default::default() };
        let mut tls = ExtenderTls::default();
        change(&mut config, &mut tls);
        config.tls_config = Some(tls);
        let made = Material::load(&config)
            .and_then(|material| material.transport(None, &Uri::default()).map(drop));
        made.err().map(|error| error.to_string()).unwrap_or_default()
    }

    fn base64(text: &str) -> String {
        STANDARD.encode(text)
    }

    #[test]
    fn https_without_a_ca_checks_nothing() {
        let config = ExtenderConfig { enable_https: true, ..Default::default() };
        assert!(Material::load(&config).unwrap().is_insecure);
        assert!(!Material::load(&ExtenderConfig::default()).unwrap().is_insecure);
        assert_eq!(
            error(|config, tls| {
                config.enable_https = true;
                tls.insecure = true;
            }),
            ""
        );
    }

    #[test]
    fn mistakes_are_reported_in_the_words_of_the_reference() {
        assert_eq!(
            error(|_, tls| {
                tls.insecure = true;
                tls.ca_file = "/nowhere".into();
            }),
            "specifying a root certificates file with the insecure flag is not allowed"
        );
        assert_eq!(
            error(|_, tls| tls.ca_file = "/nowhere/ca.pem".into()),
            "open /nowhere/ca.pem: no such file or directory"
        );
        assert_eq!(error(|_, tls| tls.ca_file = "/".into()), "read /: is a directory");
        assert_eq!(
            error(|_, tls| tls.ca_data = base64("nonsense")),
            "unable to load root certificates: unable to parse bytes as PEM block"
        );
        let block = "-----BEGIN OTHER-----\nAAAA\n-----END OTHER-----\n";
        assert_eq!(
            error(|_, tls| tls.ca_data = base64(block)),
            "unable to load root certificates: no valid certificate authority data seen"
        );
        let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let text = error(|_, tls| tls.ca_data = base64(bad));
        assert!(
            text.starts_with("unable to load root certificates: failed to parse certificate: "),
            "{text}"
        );
        assert_eq!(
            error(|_, tls| {
                tls.cert_data = base64("x");
                tls.key_data = base64("x");
            }),
            "tls: failed to find any PEM data in certificate input"
        );
        assert!(error(|_, tls| tls.ca_data = "%%%".into()).starts_with("tlsConfig.caData: "));
        // A certificate without its key counts for nothing.
        assert_eq!(error(|_, tls| tls.cert_file = "/nowhere".into()), "");
    }
}

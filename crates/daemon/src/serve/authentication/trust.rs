//! The certificate authorities that are trusted for clients and for proxies.
//!
//! Invariant: a bundle that cannot be used never replaces one that can.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{DistinguishedName, RootCertStore};

use super::request_header::{FrontProxy, Headers};
use crate::serve::error::ServeError;
use crate::serve::options::AuthenticationOptions;
use crate::serve::tls::read_certificates;

/// A bundle of authorities.
#[derive(Clone, Debug)]
pub(crate) struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
    subjects: Vec<DistinguishedName>,
}

impl Authorities {
    /// The authorities of a PEM text.
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for (number, certificate) in read_certificates(text)?.into_iter().enumerate() {
            roots.add(certificate).map_err(|error| {
                format!("certificate number {} is no authority: {error}", number + 1)
            })?;
        }
        let subjects = roots.subjects();
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { verifier, subjects })
    }

    /// Whether one of them has signed this client certificate.
    pub(crate) fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
    ) -> Result<(), String> {
        match self.verifier.verify_client_cert(leaf, chain, UnixTime::now()) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("verifying certificate failed: {error}")),
        }
    }
}

/// Everything that is trusted at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    pub(crate) client_ca: Option<Arc<Authorities>>,
    pub(crate) front_proxy: Option<Arc<FrontProxy>>,
}

/// What was found in the cluster; what is `None` was not, and stays as it was.
#[derive(Debug, Default)]
pub(crate) struct TrustUpdate {
    pub(crate) client_ca: Option<Arc<Authorities>>,
    pub(crate) front_proxy: Option<Arc<FrontProxy>>,
}

impl Trust {
    /// The names of all authorities.
    pub(crate) fn subjects(&self) -> Vec<DistinguishedName> {
        let clients = self.client_ca.iter().flat_map(|authorities| &authorities.subjects);
        let proxies = self.front_proxy.iter().flat_map(|proxy| &proxy.authorities.subjects);
        clients.chain(proxies).cloned().collect()
    }

    pub(crate) fn with_found(&self, found: TrustUpdate) -> Self {
        Self {
            client_ca: found.client_ca.or_else(|| self.client_ca.clone()),
            front_proxy: found.front_proxy.or_else(|| self.front_proxy.clone()),
        }
    }

    pub(crate) fn with_files(&self, files: &Self) -> Self {
        Self {
            client_ca: files.client_ca.clone().or_else(|| self.client_ca.clone()),
            front_proxy: files.front_proxy.clone().or_else(|| self.front_proxy.clone()),
        }
    }
}

/// Which parts have to be looked up in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MissingParts {
    pub(crate) client_ca: bool,
    pub(crate) front_proxy: bool,
}

impl MissingParts {
    pub(crate) const fn is_any(self) -> bool {
        self.client_ca || self.front_proxy
    }
}

/// The authorities that stand in files.
pub(crate) struct Anchors {
    client_ca: Option<Bundle>,
    front_proxy: Option<(Bundle, Headers)>,
    trust: Trust,
}

struct Bundle {
    path: PathBuf,
    read: Vec<u8>,
    complaint: Option<String>,
}

impl Anchors {
    pub(crate) fn load(options: &AuthenticationOptions) -> Result<Self, ServeError> {
        let headers = Headers::of(&options.request_header);
        let mut trust = Trust::default();
        let client_ca = match &options.client_ca_file {
            Some(path) => {
                let purpose = "unable to load client CA provider";
                let loaded = Bundle::load(path).map_err(ServeError::for_purpose(purpose));
                let (bundle, authorities) = loaded?;
                trust.client_ca = Some(Arc::new(authorities));
                Some(bundle)
            }
            None => None,
        };
        let front_proxy = match &options.request_header.client_ca_file {
            Some(path) => {
                let purpose = "unable to create request header authentication config";
                let loaded = Bundle::load(path).map_err(ServeError::for_purpose(purpose));
                let (bundle, authorities) = loaded?;
                trust.front_proxy =
                    Some(Arc::new(FrontProxy { authorities, headers: headers.clone() }));
                Some((bundle, headers))
            }
            None => None,
        };
        Ok(Self { client_ca, front_proxy, trust })
    }

    pub(crate) fn trust(&self) -> &Trust {
        &self.trust
    }

    pub(crate) fn has_files(&self) -> bool {
        self.client_ca.is_some() || self.front_proxy.is_some()
    }

    pub(crate) fn missing(&self) -> MissingParts {
        MissingParts {
            client_ca: self.client_ca.is_none(),
            front_proxy: self.front_proxy.is_none(),
        }
    }

    /// Reads the files again. Says whether anything is new.
    pub(crate) fn reload(&mut self) -> bool {
        let mut is_new = false;
        if let Some(authorities) = self.client_ca.as_mut().and_then(Bundle::reload) {
            self.trust.client_ca = Some(Arc::new(authorities));
            is_new = true;
        }
        if let Some((bundle, headers)) = &mut self.front_proxy
            && let Some(authorities) = bundle.reload()
        {
            let headers = headers.clone();
            self.trust.front_proxy = Some(Arc::new(FrontProxy { authorities, headers }));
            is_new = true;
        }
        is_new
    }
}

impl Bundle {
    fn load(path: &Path) -> Result<(Self, Authorities), ServeError> {
        let read = fs::read(path).map_err(|error| ServeError::read(path, &error))?;
        let authorities = Authorities::read(&read)
            .map_err(|problem| ServeError::Malformed { path: path.to_owned(), problem })?;
        Ok((Self { path: path.to_owned(), read, complaint: None }, authorities))
    }

    /// What is new in the file. A file that is no good is complained about once.
    fn reload(&mut self) -> Option<Authorities> {
        let result = fs::read(&self.path).map_err(|error| error.to_string()).and_then(|read| {
            if read == self.read {
                return Ok(None);
            }
            let authorities = Authorities::read(&read)?;
            self.read = read;
            Ok(Some(authorities))
        });
        match result {
            Ok(authorities) => {
                self.complaint = None;
                authorities
            }
            Err(problem) => {
                if self.complaint.as_ref() != Some(&problem) {
                    tracing::error!(file = %self.path.display(), err = %problem, "A bundle of authorities has changed and cannot be used; going on with the former");
                    self.complaint = Some(problem);
                }
                None
            }
        }
    }
}

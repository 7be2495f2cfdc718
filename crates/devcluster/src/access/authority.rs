//! A certificate authority for one cluster: it signs the certificates of the server and of its users.
//!
//! Invariant: an authority made from the key of an earlier one is trusted by the same clients, so that certificates
//! issued before a restart stay valid after it.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::user::User;

/// Why a certificate cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// Generating the key or the certificate failed.
    #[error("cannot make a certificate for {subject:?}")]
    Make {
        /// The name that the certificate was for.
        subject: String,
        /// The cause.
        source: rcgen::Error,
    },
    /// The TLS library does not accept the server's certificate and key.
    #[error("cannot serve TLS")]
    Tls(#[from] rustls::Error),
    /// The TLS library does not accept the authority as the one for client certificates.
    #[error("cannot check client certificates")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// A certificate made here names at most one group.
    #[error("a certificate names one group, but user {user:?} is in {count}")]
    Groups {
        /// The user's name.
        user: String,
        /// How many groups the user is in.
        count: usize,
    },
}

/// A certificate with its key, both in PEM.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Identity {
    /// The certificate, in PEM.
    pub certificate: String,
    /// The private key, in PEM.
    pub key: String,
}

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Authority {
    /// A new authority with a new key.
    ///
    /// # Errors
    /// If the key cannot be generated, or `name` cannot be the name of a certificate.
    pub fn generate(name: &str) -> Result<Self, CertificateError> {
        let key = KeyPair::generate().map_err(failed(name))?;
        Self::of(name, key)
    }

    /// The authority of an earlier run, by its key in PEM.
    pub(crate) fn from_key(name: &str, key: &str) -> Result<Self, CertificateError> {
        Self::of(name, KeyPair::from_pem(key).map_err(failed(name))?)
    }

    fn of(name: &str, key: KeyPair) -> Result<Self, CertificateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let certificate = params.self_signed(&key).map_err(failed(name))?;
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// The authority's own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub(crate) fn certificate(&self) -> &rcgen::Certificate {
        &self.certificate
    }

    /// The authority's key, in PEM.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A certificate for a server that clients reach under these DNS names and IP addresses.
    ///
    /// # Errors
    /// If a name is neither an IP address nor a DNS name.
    pub fn server(&self, names: &[&str]) -> Result<Identity, CertificateError> {
        let subject = names.first().copied().unwrap_or("server");
        let alternatives: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(alternatives).map_err(failed(subject))?;
        params.distinguished_name.push(DnType::CommonName, subject);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params, subject)
    }

    /// A client certificate for a user: the common name is the user's name, the organization the user's group.
    ///
    /// # Errors
    /// If the user is in more than one group, the group of all authenticated users not counted.
    pub fn client(&self, user: &User) -> Result<Identity, CertificateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user.name.as_str());
        match user.own_groups().as_slice() {
            [] => {}
            [group] => params.distinguished_name.push(DnType::OrganizationName, *group),
            groups => {
                let (user, count) = (user.name.clone(), groups.len());
                return Err(CertificateError::Groups { user, count });
            }
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, &user.name)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        subject: &str,
    ) -> Result<Identity, CertificateError> {
        params.use_authority_key_identifier_extension = true;
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let key = KeyPair::generate().map_err(failed(subject))?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed(subject))?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

fn failed(subject: &str) -> impl FnOnce(rcgen::Error) -> CertificateError {
    let subject = subject.to_owned();
    move |source| CertificateError::Make { subject, source }
}

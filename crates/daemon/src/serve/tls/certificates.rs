//! The server's certificates: read from files or self-signed, and chosen by the name that a client asks for.
//!
//! Invariants: every chain has the key that belongs to it; the reading of files is all or nothing, so that a pair that is
//! being replaced is never half new.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::InconsistentKeys;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::self_signed;
use crate::announcement::CertificateDigest;
use crate::serve::error::ServeError;
use crate::serve::identity::subject_of;
use crate::serve::options::ServingOptions;

/// What files in the directory of certificates are called.
const PAIR_NAME: &str = "kube-scheduler";

/// A certificate and where it comes from.
struct Source {
    /// `None` for one made by ourselves, which never changes.
    files: Option<Pair>,
    /// Names given explicitly.
    names: Vec<String>,
    /// The contents of the files when they were last whole.
    read: Contents,
    certified: Arc<CertifiedKey>,
}

#[derive(PartialEq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

#[derive(Clone)]
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

/// All certificates.
pub(crate) struct Certificates {
    /// For all names.
    main: Source,
    /// Certificates for clients that ask for certain names.
    named: Vec<Source>,
}

/// A certificate for each name, and one for all other names.
#[derive(Clone, Debug)]
pub(crate) struct CertificateChoice {
    by_name: Arc<BTreeMap<String, Arc<CertifiedKey>>>,
    otherwise: Arc<CertifiedKey>,
}

impl Certificates {
    /// Reads what `options` name, or makes a certificate.
    pub(crate) fn load(
        options: &ServingOptions,
        provider: &CryptoProvider,
    ) -> Result<Self, ServeError> {
        let main = main_source(options, provider)?;
        let named = options.tls_sni_cert_keys.iter().map(|sni| {
            let pair = Pair { certificate: sni.cert_file.clone(), key: sni.key_file.clone() };
            let read = Source::read(pair, sni.names.clone(), provider);
            read.map_err(ServeError::for_purpose("failed to load SNI cert and key"))
        });
        Ok(Self { main, named: named.collect::<Result<_, _>>()? })
    }

    /// Reads the files again. Says whether anything is new.
    pub(crate) fn reload(&mut self, provider: &CryptoProvider) -> Result<bool, ServeError> {
        let mut renewed = Vec::new();
        for source in std::iter::once(&mut self.main).chain(&mut self.named) {
            let Some(pair) = &source.files else { continue };
            let read = pair.read()?;
            if read != source.read {
                let certified = pair.certify(&read, provider)?;
                renewed.push((source, read, certified));
            }
        }
        let is_new = !renewed.is_empty();
        for (source, read, certified) in renewed {
            source.read = read;
            source.certified = certified;
        }
        Ok(is_new)
    }

    /// Which certificate for which name. Explicit names win over those in certificates, earlier certificates over later.
    pub(crate) fn chosen(&self) -> CertificateChoice {
        let mut found = BTreeMap::new();
        let mut explicit = BTreeMap::new();
        for source in self.named.iter().rev() {
            if source.names.is_empty() {
                let leaf = source.certified.cert.first();
                for name in leaf.map(|leaf| names_of(leaf)).unwrap_or_default() {
                    found.insert(name, source.certified.clone());
                }
            }
            for name in &source.names {
                explicit.insert(name.to_ascii_lowercase(), source.certified.clone());
            }
        }
        found.append(&mut explicit);
        CertificateChoice { by_name: Arc::new(found), otherwise: self.main.certified.clone() }
    }
}

impl CertificateChoice {
    /// The addresses that certificates were given for, each with what to show to a client that names nothing.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (IpAddr, Self)> + '_ {
        self.by_name.iter().filter_map(|(name, certified)| {
            let address = name.parse::<IpAddr>().ok()?.to_canonical();
            Some((address, Self { by_name: self.by_name.clone(), otherwise: certified.clone() }))
        })
    }

    /// The digest of the certificate for names that no other is for.
    pub(crate) fn usual(&self) -> CertificateDigest {
        // A chain without a certificate is not loaded.
        let none = CertificateDer::from(Vec::new());
        CertificateDigest::of(self.otherwise.cert.first().unwrap_or(&none))
    }

    fn for_name(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        self.by_name.get(&name).or_else(|| {
            let (_, domain) = name.split_once('.')?;
            self.by_name.get(&format!("*.{domain}"))
        })
    }
}

impl ResolvesServerCert for CertificateChoice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.for_name(name));
        Some(named.unwrap_or(&self.otherwise).clone())
    }
}

impl Source {
    fn read(pair: Pair, names: Vec<String>, provider: &CryptoProvider) -> Result<Self, ServeError> {
        let read = pair.read()?;
        let certified = pair.certify(&read, provider)?;
        Ok(Self { files: Some(pair), names, read, certified })
    }
}

impl Pair {
    fn read(&self) -> Result<Contents, ServeError> {
        Ok(Contents { certificate: read_file(&self.certificate)?, key: read_file(&self.key)? })
    }

    fn certify(
        &self,
        read: &Contents,
        provider: &CryptoProvider,
    ) -> Result<Arc<CertifiedKey>, ServeError> {
        let malformed =
            |path: &Path, problem: String| ServeError::Malformed { path: path.to_owned(), problem };
        let chain = read_certificates(&read.certificate)
            .map_err(|problem| malformed(&self.certificate, problem))?;
        let key = PrivateKeyDer::from_pem_slice(&read.key).map_err(|error| {
            malformed(
                &self.key,
                match error {
                    pem::Error::NoItemsFound => "no private key in PEM found".to_owned(),
                    other => format!("not a private key in PEM: {other}"),
                },
            )
        })?;
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|error| malformed(&self.key, format!("unusable private key: {error}")))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // A key file without the public key cannot be compared here; the first handshake fails then.
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
                Ok(Arc::new(certified))
            }
            Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                Err(ServeError::KeyMismatch {
                    certificate: self.certificate.clone(),
                    key: self.key.clone(),
                })
            }
            Err(error) => {
                Err(malformed(&self.certificate, format!("malformed certificate: {error}")))
            }
        }
    }
}

/// The certificate for all names, by what is configured: files, else a directory, else nothing.
fn main_source(options: &ServingOptions, provider: &CryptoProvider) -> Result<Source, ServeError> {
    let given = (options.tls_cert_file.clone(), options.tls_private_key_file.clone());
    let pair = match (given, &options.cert_dir) {
        ((Some(certificate), Some(key)), _) => Pair { certificate, key },
        ((Some(_), None), _) => {
            return Err(ServeError::MissingFile { missing: "--tls-private-key-file" });
        }
        ((None, Some(_)), _) => return Err(ServeError::MissingFile { missing: "--tls-cert-file" }),
        ((None, None), None) => {
            let made = self_signed::make(options.address.ip())?;
            let read = Contents {
                certificate: made.certificates.into_bytes(),
                key: made.key.into_bytes(),
            };
            // Only for messages, which are never shown.
            let pair = Pair { certificate: "in memory".into(), key: "in memory".into() };
            let certified = pair.certify(&read, provider)?;
            tracing::info!("Generated self-signed cert in-memory");
            return Ok(Source { files: None, names: Vec::new(), read, certified });
        }
        ((None, None), Some(directory)) => {
            let pair = Pair {
                certificate: directory.join(format!("{PAIR_NAME}.crt")),
                key: directory.join(format!("{PAIR_NAME}.key")),
            };
            make_missing(&pair, options.address.ip())?;
            pair
        }
    };
    Source::read(pair, Vec::new(), provider)
}

/// Makes the pair unless it is there.
fn make_missing(pair: &Pair, address: IpAddr) -> Result<(), ServeError> {
    let is_there = |path: &Path| fs::File::open(path).is_ok();
    match (is_there(&pair.certificate), is_there(&pair.key)) {
        (true, true) => return Ok(()),
        (true, false) => return Err(ServeError::HalfPair { path: pair.key.clone() }),
        (false, true) => return Err(ServeError::HalfPair { path: pair.certificate.clone() }),
        (false, false) => {}
    }
    let made = self_signed::make(address)?;
    write_file(&pair.certificate, made.certificates.as_bytes(), 0o644)?;
    write_file(&pair.key, made.key.as_bytes(), 0o600)?;
    tracing::info!(
        "Generated self-signed cert ({}, {})",
        pair.certificate.display(),
        pair.key.display()
    );
    Ok(())
}

fn write_file(path: &Path, contents: &[u8], mode: u32) -> Result<(), ServeError> {
    let write = || -> io::Result<()> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(mode);
        options.open(path)?.write_all(contents)
    };
    write().map_err(|source| ServeError::Write { path: path.to_owned(), source })
}

fn read_file(path: &Path) -> Result<Vec<u8>, ServeError> {
    fs::read(path).map_err(|error| ServeError::read(path, &error))
}

/// The certificates of a PEM text: at least one, each well-formed.
pub(crate) fn read_certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("not certificates in PEM: {error}"))?;
    if certificates.is_empty() {
        return Err("no certificate in PEM found".to_owned());
    }
    for (number, certificate) in certificates.iter().enumerate() {
        Certificate::from_der(certificate)
            .map_err(|error| format!("malformed certificate number {}: {error}", number + 1))?;
    }
    Ok(certificates)
}

/// The names a certificate is for, in lower case: its common name, domains and addresses.
pub(crate) fn names_of(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = Certificate::from_der(certificate) else { return Vec::new() };
    let tbs = certificate.tbs_certificate();
    let mut names = Vec::new();
    let common_name = subject_of(tbs.subject()).common_name;
    if !common_name.is_empty() {
        names.push(common_name.to_ascii_lowercase());
    }
    let alternatives = tbs.get_extension::<SubjectAltName>().ok().flatten();
    for name in alternatives.iter().flat_map(|(_, names)| &names.0) {
        match name {
            GeneralName::DnsName(domain) => names.push(domain.to_string().to_ascii_lowercase()),
            GeneralName::IpAddress(octets) => {
                let octets = octets.as_bytes();
                let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
                let v6 = || <[u8; 16]>::try_from(octets).map(IpAddr::from);
                names.extend(v4.or_else(|_| v6()).ok().map(|address| address.to_string()));
            }
            _ => {}
        }
    }
    names
}

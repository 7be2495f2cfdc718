//! Certificates and keys in files that a kubeconfig names, and which credentials are sent without encryption.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// How often files are looked at again at most. They are small, and read while requests wait.
pub(super) const REREAD_AFTER: Duration = Duration::from_secs(10);

/// Files with certificates and keys. What a kubeconfig contains itself is not among them: it counts more, and does not change.
#[derive(Clone, Debug)]
pub(super) struct CredentialFiles {
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    authority: Option<PathBuf>,
    /// How often they are looked at again at most.
    pub(super) reread_after: Duration,
}

impl Default for CredentialFiles {
    fn default() -> Self {
        Self { certificate: None, key: None, authority: None, reread_after: REREAD_AFTER }
    }
}

/// What stands in the files.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Contents {
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
    /// With the path.
    authority: Option<(PathBuf, Vec<u8>)>,
}

impl CredentialFiles {
    /// Those of a cluster and a user.
    pub(super) fn of(cluster: &Cluster, user: &AuthInfo) -> Self {
        let file = |file: &Option<String>, has_data: bool| {
            file.as_ref().filter(|file| !has_data && !file.is_empty()).map(PathBuf::from)
        };
        let is_given = |data: &Option<String>| data.as_ref().is_some_and(|data| !data.is_empty());
        Self {
            certificate: file(&user.client_certificate, is_given(&user.client_certificate_data)),
            key: file(&user.client_key, user.client_key_data.is_some()),
            authority: file(
                &cluster.certificate_authority,
                is_given(&cluster.certificate_authority_data),
            ),
            reread_after: REREAD_AFTER,
        }
    }

    /// The same for a server whose authority is in no file.
    pub(super) fn without_authority(mut self) -> Self {
        self.authority = None;
        self
    }

    /// Whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.certificate.is_none() && self.key.is_none() && self.authority.is_none()
    }

    /// What stands in the files now.
    pub(super) fn read(&self) -> Result<Contents, String> {
        let read = |what: &str, path: &Option<PathBuf>| {
            let read = |path: &Path| {
                let shown = path.display();
                fs::read(path).map_err(|error| format!("{what} {shown}: {}", reason(&error)))
            };
            path.as_deref().map(read).transpose()
        };
        let authority = read("certificate-authority", &self.authority)?;
        Ok(Contents {
            certificate: read("client-certificate", &self.certificate)?,
            key: read("client-key", &self.key)?,
            authority: self.authority.clone().zip(authority),
        })
    }
}

impl Contents {
    /// The authorities, if they stand in a file. An empty file has none, so that no server is trusted.
    pub(super) fn authorities(&self) -> Result<Option<Vec<Vec<u8>>>, String> {
        let Some((path, pem)) = &self.authority else { return Ok(None) };
        let refused = |why| format!("certificate-authority {}: {why}", path.display());
        authorities(pem).map(Some).map_err(refused)
    }

    /// Whether there is a file without anything in it, which may be one that is being written.
    pub(super) fn has_empty_file(&self) -> bool {
        let authority = self.authority.as_ref().map(|(_, pem)| pem);
        let files = [self.certificate.as_ref(), self.key.as_ref(), authority];
        files.into_iter().flatten().any(Vec::is_empty)
    }

    /// Puts all of it in the place of the files.
    pub(super) fn put_into(&self, config: &mut kube::Config) -> Result<(), String> {
        if let Some(authorities) = self.authorities()? {
            config.root_cert = Some(authorities);
        }
        if let Some(certificate) = &self.certificate {
            config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
        }
        if let Some(key) = &self.key {
            config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
        }
        Ok(())
    }
}

/// The authorities in base64 of PEM.
pub(super) fn authorities_in_base64(data: &str) -> Result<Vec<Vec<u8>>, String> {
    let refused = |why: String| format!("certificate-authority-data: {why}");
    // Go's reader passes over line breaks.
    let data: String = data.split_whitespace().collect();
    let pem = STANDARD.decode(data).map_err(|error| refused(error.to_string()))?;
    authorities(&pem).map_err(refused)
}

fn authorities(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| format!("no valid PEM: {error}"))?;
    if certificates.is_empty() && !pem.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    Ok(certificates.into_iter().map(|certificate| certificate.to_vec()).collect())
}

/// What is left of credentials where they would be sent without encryption: whom to act as, which is no secret.
pub(super) fn without_secrets(auth: AuthInfo) -> AuthInfo {
    AuthInfo {
        impersonate: auth.impersonate,
        impersonate_uid: auth.impersonate_uid,
        impersonate_groups: auth.impersonate_groups,
        impersonate_user_extra: auth.impersonate_user_extra,
        ..AuthInfo::default()
    }
}

/// What is wrong with a file, as a part of a sentence.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_counts_more_than_the_files_it_names() {
        let mut cluster =
            Cluster { certificate_authority: Some("ca".into()), ..Cluster::default() };
        let mut user = AuthInfo {
            client_certificate: Some("crt".into()),
            client_key: Some("key".into()),
            ..AuthInfo::default()
        };
        let files = CredentialFiles::of(&cluster, &user);
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(
            (files.certificate, files.key, files.authority),
            (path("crt"), path("key"), path("ca"))
        );
        cluster.certificate_authority_data = Some("data".into());
        user.client_certificate_data = Some("data".into());
        user.client_key_data = Some("data".to_owned().into());
        assert!(CredentialFiles::of(&cluster, &user).is_empty());
    }

    #[test]
    fn authorities_that_make_no_sense_are_refused() {
        assert_eq!(authorities(b""), Ok(Vec::new()));
        assert_eq!(authorities(b"rubbish"), Err("there is no certificate in it".to_owned()));
        let half = b"-----BEGIN CERTIFICATE-----\nAAAA\n";
        assert!(authorities(half).unwrap_err().starts_with("no valid PEM: "));
        assert!(
            authorities_in_base64("%").unwrap_err().starts_with("certificate-authority-data: ")
        );
    }
}

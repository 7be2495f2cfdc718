//! How a leader lets others know it at its secure port: the digest of its certificate, in an annotation of its lease.
//!
//! Who may write the lease decides who leads, so what stands there is as trustworthy as leadership itself. A client that has read
//! it from the API server can tell the leader from whatever else answers, also where the certificate is self-signed.
//!
//! Invariant: an announcement that names another holder than the lease does is none.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use serde_json::Value;

/// The annotation: the identity of the holder, a space, and the digest.
pub(crate) const ANNOTATION: &str = "answers.kube-scheduler.rs/serving-certificate";

const N_BYTES: usize = 32;

/// The SHA-256 digest of a certificate in DER. Its text is hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CertificateDigest([u8; N_BYTES]);

impl CertificateDigest {
    /// The digest of a certificate.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut bytes = [0; N_BYTES];
        for (to, from) in bytes.iter_mut().zip(digest(&SHA256, certificate).as_ref()) {
            *to = *from;
        }
        Self(bytes)
    }
}

impl fmt::Display for CertificateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CertificateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for CertificateDigest {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut bytes = [0; N_BYTES];
        if text.len() != 2 * N_BYTES || !text.is_ascii() {
            return Err(());
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * at..2 * at + 2).ok_or(())?;
            *byte = u8::from_str_radix(digits, 16).map_err(drop)?;
        }
        Ok(Self(bytes))
    }
}

/// What a leader announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// The holder of the lease.
    pub(crate) identity: String,
    /// Of the certificate that its secure port shows.
    pub(crate) certificate: CertificateDigest,
}

impl Announcement {
    /// That of the present holder in a lease; `None` if there is no holder, or it has announced nothing.
    pub(crate) fn in_lease(lease: &Value) -> Option<Self> {
        let holder =
            lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty())?;
        let text = lease["metadata"]["annotations"][ANNOTATION].as_str()?;
        let (identity, certificate) = text.rsplit_once(' ')?;
        let certificate = certificate.parse().ok()?;
        (identity == holder).then(|| Self { identity: identity.to_owned(), certificate })
    }

    /// The text of the annotation.
    pub(crate) fn text(&self) -> String {
        let mut text = self.identity.clone();
        // Writing to a string does not fail.
        let _ = write!(text, " {}", self.certificate);
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_announcement_counts_for_its_own_holder_only() {
        let certificate = CertificateDigest::of(&CertificateDer::from(b"abc".to_vec()));
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(certificate.to_string(), known);
        let announcement = Announcement { identity: "a pod_1".to_owned(), certificate };
        let lease = |holder: &str, text: &str| json!({"metadata": {"annotations": {ANNOTATION: text}}, "spec": {"holderIdentity": holder}});
        let text = announcement.text();
        assert_eq!(Announcement::in_lease(&lease("a pod_1", &text)), Some(announcement));
        for (holder, text) in [
            ("another", &*text),
            ("", &text),
            ("", &format!(" {known}")),
            ("a pod_1", "a pod_1"),
            ("a pod_1", "a pod_1 7"),
            ("a pod_1", &format!("a pod_1 {}", known.replace('b', "x"))),
            ("a pod_1", &format!("a pod_1 {}", "é".repeat(32))),
        ] {
            assert_eq!(Announcement::in_lease(&lease(holder, text)), None, "{holder} {text}");
        }
        assert_eq!(Announcement::in_lease(&json!({"spec": {"holderIdentity": "a pod_1"}})), None);
    }
}

//! How schedulers let others know them at their secure ports: the digests of their certificates, in annotations of their lease. The
//! leader has one of its own; standbys share another one.
//!
//! Who may write the lease decides who leads, so what stands there is as trustworthy as leadership itself. A client that has read
//! it from the API server can tell a scheduler from whatever else answers, also where the certificate is self-signed.
//!
//! Invariants: an announcement as leader that names another holder than the lease does is none; the list of standbys has a limited
//! length, and who does not announce itself again drops out of it.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use serde_json::Value;

/// The annotation: the identity of the holder, a space, and the digest.
pub(crate) const ANNOTATION: &str = "answers.kube-scheduler.rs/serving-certificate";

/// The annotation of those that wait to lead: a line for each, with the identity, the digest and the time.
pub(crate) const STANDBYS: &str = "answers.kube-scheduler.rs/standby-certificates";

/// How many standbys the list has at most.
const MAX_STANDBYS: usize = 16;
/// After how long a standby announces itself again, and after how long one that does not is left out.
const REPEAT: Duration = Duration::from_secs(600);
const FORGET: Duration = Duration::from_secs(1800);

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

/// Who waits to lead, as announced in a lease, the latest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standbys(Vec<(Announcement, Timestamp)>);

impl Standbys {
    /// From the text of the annotation. Lines that make no sense are left out.
    pub(crate) fn parse(text: &str) -> Self {
        let standby = |line: &str| {
            let (rest, at) = line.rsplit_once(' ')?;
            let (identity, certificate) = rest.rsplit_once(' ')?;
            let (identity, certificate) = (identity.to_owned(), certificate.parse().ok()?);
            Some((Announcement { identity, certificate }, Timestamp::parse(at)?))
        };
        let mut all: Vec<_> = text.lines().filter_map(standby).collect();
        all.sort_by_key(|(_, at)| *at);
        let n_old = all.len().saturating_sub(MAX_STANDBYS);
        Self(all.split_off(n_old))
    }

    /// Those in a lease.
    pub(crate) fn in_lease(lease: &Value) -> Self {
        Self::parse(lease["metadata"]["annotations"][STANDBYS].as_str().unwrap_or_default())
    }

    /// The announcements that are not out of date, the latest first.
    pub(crate) fn into_latest(self, now: Timestamp) -> impl Iterator<Item = Announcement> {
        let current = self.0.into_iter().rev().filter(move |(_, at)| now < *at + FORGET);
        current.map(|(announcement, _)| announcement)
    }

    /// Whether an announcement need not be repeated yet.
    pub(crate) fn has_current(&self, own: &Announcement, now: Timestamp) -> bool {
        self.0.iter().any(|(known, at)| known == own && now < *at + REPEAT)
    }

    /// The list with a new announcement, without one of the holder and what is out of date.
    pub(crate) fn with(mut self, own: &Announcement, holder: &str, now: Timestamp) -> Self {
        // It would be taken for several lines.
        if own.identity.contains(['\n', '\r']) {
            return self;
        }
        self.0.retain(|(known, at)| {
            known.identity != own.identity && known.identity != holder && now < *at + FORGET
        });
        self.0.push((own.clone(), now));
        let n_old = self.0.len().saturating_sub(MAX_STANDBYS);
        Self(self.0.split_off(n_old))
    }

    /// The text of the annotation.
    pub(crate) fn text(&self) -> String {
        let lines = self.0.iter().map(|(known, at)| format!("{} {at}", known.text()));
        lines.collect::<Vec<_>>().join("\n")
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

    #[test]
    fn standbys_are_listed_while_they_announce_themselves() {
        let at = |minutes: i64| Timestamp::from_millis(1_000_000_000 + minutes * 60_000);
        let named = |identity: &str, bytes: &[u8]| Announcement {
            identity: identity.to_owned(),
            certificate: CertificateDigest::of(&CertificateDer::from(bytes.to_vec())),
        };
        let (one, two) = (named("one pod_1", b"1"), named("two_2", b"2"));
        let list = Standbys::default().with(&one, "leader", at(0)).with(&two, "leader", at(5));
        let list = Standbys::parse(&list.text());
        let identities = |list: &Standbys, minute: i64| {
            list.clone().into_latest(at(minute)).map(|one| one.identity).collect::<Vec<_>>()
        };
        assert_eq!(identities(&list, 29), ["two_2", "one pod_1"]);
        assert_eq!(identities(&list, 30), ["two_2"]);
        let lease = json!({"metadata": {"annotations": {STANDBYS: list.text()}}});
        assert_eq!(Standbys::in_lease(&lease), list);
        assert_eq!(Standbys::in_lease(&json!({})), Standbys::default());
        // Announced again before it is forgotten, or with another certificate.
        assert!(list.has_current(&one, at(9)) && !list.has_current(&one, at(10)));
        assert!(!list.has_current(&named("one pod_1", b"3"), at(1)));
        assert!(!list.has_current(&named("two_2", b"1"), at(6)));
        let later = list.clone().with(&two, "leader", at(30));
        assert_eq!(identities(&later, 0), ["two_2"]);
        // Who leads is no standby any more.
        assert_eq!(identities(&list.with(&two, "one pod_1", at(6)), 6), ["two_2"]);
        // The list does not grow without bounds, and an identity does not stand for two.
        let many = (0..40).fold(Standbys::default(), |list, n| {
            list.with(&named(&format!("pod_{n}"), b"1"), "leader", at(1))
        });
        assert_eq!((many.0.len(), &*many.0[15].0.identity), (MAX_STANDBYS, "pod_39"));
        let text = many.text();
        assert_eq!(Standbys::parse(&[&*text, &*text].join("\n")).0.len(), MAX_STANDBYS);
        assert_eq!(many.clone().with(&named("a\nb", b"1"), "leader", at(1)), many);
        for bad in ["", "x", "x y 2026-01-01T00:00:00Z", "one abc soon"] {
            assert_eq!(Standbys::parse(bad), Standbys::default(), "{bad}");
        }
    }
}

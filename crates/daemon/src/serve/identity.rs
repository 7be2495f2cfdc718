//! Who a caller is.

use std::collections::BTreeMap;
use std::time::SystemTime;

use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::asn1::Any;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::name::Name;

/// The group of all users who proved who they are.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of all others.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user that all others are.
pub(crate) const ANONYMOUS: &str = "system:anonymous";

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
/// The attribute that Kubernetes reads a user's uid from.
const USER_UID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57683.2");
/// Under which a user's credential is named.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// A user as authorization sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub(crate) fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    /// The same user, in the group of those who proved who they are.
    pub(crate) fn authenticated(mut self) -> Self {
        let is_counted = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if !self.is_anonymous() && !self.groups.iter().any(is_counted) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// The user that a certificate names, `None` if it names none. Unless `has_uid`, attributes with a uid mean nothing, not even
    /// where they are wrong.
    pub(crate) fn of_certificate(
        certificate: &CertificateDer<'_>,
        has_uid: bool,
    ) -> Result<Option<Self>, String> {
        let parsed = Certificate::from_der(certificate)
            .map_err(|error| format!("malformed certificate: {error}"))?;
        let subject = subject_of(parsed.tbs_certificate().subject());
        if subject.common_name.is_empty() {
            return Ok(None);
        }
        let uid = match &*subject.uids {
            _ if !has_uid => String::new(),
            [] => String::new(),
            [uid] if uid.is_empty() => return Err("UID cannot be an empty string".to_owned()),
            [uid] => uid.clone(),
            several => {
                return Err(format!("expected 1 UID, but found multiple: [{}]", several.join(" ")));
            }
        };
        let fingerprint = digest(&SHA256, certificate);
        let hex: String = fingerprint.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(Self {
            name: subject.common_name,
            uid,
            groups: subject.organizations,
            extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={hex}")])]),
        }))
    }
}

/// For how many seconds more a certificate is valid, fewer than 0 when it has run out; `None` if it cannot be read.
pub(crate) fn remaining_lifetime(certificate: &CertificateDer<'static>) -> Option<f64> {
    let parsed = Certificate::from_der(certificate).ok()?;
    let end = parsed.tbs_certificate().validity().not_after.to_unix_duration();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(end.as_secs_f64() - now.as_secs_f64())
}

/// What matters of a subject.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    pub(crate) common_name: String,
    pub(crate) organizations: Vec<String>,
    uids: Vec<String>,
}

/// Reads a subject. Of several common names the last counts.
pub(crate) fn subject_of(name: &Name) -> Subject {
    let mut subject = Subject::default();
    for attribute in name.iter() {
        let Some(text) = text_of(&attribute.value) else { continue };
        if attribute.oid == COMMON_NAME {
            subject.common_name = text;
        } else if attribute.oid == ORGANIZATION {
            subject.organizations.push(text);
        } else if attribute.oid == USER_UID {
            subject.uids.push(text);
        }
    }
    subject
}

fn text_of(value: &Any) -> Option<String> {
    let is_text = matches!(value.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String);
    is_text.then(|| String::from_utf8(value.value().to_vec()).ok()).flatten()
}

//! The user whom a client's certificate is for. The TLS layer has checked its signature before.
//!
//! Invariant: malformed bytes name no user, and never cause a panic.

use x509_cert::Certificate;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};

use super::user::User;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// The user that a certificate in DER is for: the common name is the user's name (of several the last one counts),
/// organizations are groups. `None` if the bytes are no certificate or it has no common name.
pub(super) fn user_of(certificate: &[u8]) -> Option<User> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let (mut name, mut groups) = (None, Vec::new());
    for attribute in certificate.tbs_certificate().subject().iter() {
        let tag = attribute.value.tag();
        if !matches!(tag, Tag::Utf8String | Tag::PrintableString | Tag::Ia5String) {
            continue;
        }
        let Ok(text) = std::str::from_utf8(attribute.value.value()) else { continue };
        if attribute.oid == COMMON_NAME {
            name = Some(text);
        } else if attribute.oid == ORGANIZATION {
            groups.push(text);
        }
    }
    Some(groups.into_iter().fold(User::new(name?), User::group))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::access::Authority;

    fn der(user: &User) -> Vec<u8> {
        let identity = Authority::generate("test").expect("made").client(user).expect("made");
        CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("PEM").to_vec()
    }

    #[test]
    fn name_and_group_come_back() {
        let jane = User::new("jäne").group("system:masters");
        assert_eq!(user_of(&der(&jane)), Some(jane));
        assert_eq!(user_of(&der(&User::new("joe"))), Some(User::new("joe")));
    }

    #[test]
    fn cut_or_damaged_certificates_name_no_user_and_do_not_panic() {
        let good = der(&User::new("jane").group("staff"));
        for length in 0..good.len() {
            assert_eq!(user_of(&good[..length]), None);
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            for byte in [0x00, 0x7f, 0x80, 0x84, 0xff] {
                bad[at] = byte;
                let _ = user_of(&bad);
            }
        }
    }
}

//! The subject of a client's certificate, whose signature has been checked before.
//!
//! Only the way to two kinds of attributes is read: common name, which is the user, and organisation, which are his
//! groups. Invariant: malformed bytes are nothing, never a panic.

use super::User;

const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANISATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The user that a certificate in DER is for.
pub(super) fn user_of(certificate: &[u8]) -> Option<User> {
    let mut outer = Reader(certificate);
    let mut certificate = Reader(outer.value_of(SEQUENCE)?);
    let mut body = Reader(certificate.value_of(SEQUENCE)?);
    if body.next_is(VERSION) {
        body.value_of(VERSION)?;
    }
    body.value_of(INTEGER)?;
    // Signature algorithm, issuer, validity.
    for _ in 0..3 {
        body.value_of(SEQUENCE)?;
    }
    let mut subject = Reader(body.value_of(SEQUENCE)?);
    let (mut name, mut groups) = (None, Vec::new());
    while let Some((_, set)) = subject.next() {
        let mut attributes = Reader(set);
        while let Some((_, attribute)) = attributes.next() {
            let mut attribute = Reader(attribute);
            let kind = attribute.value_of(OBJECT_IDENTIFIER)?;
            let (_, value) = attribute.next()?;
            let text = || std::str::from_utf8(value).ok().map(str::to_owned);
            match kind {
                COMMON_NAME => name = Some(text()?),
                ORGANISATION => groups.push(text()?),
                _ => {}
            }
        }
    }
    let user = User::new(name?);
    Some(groups.into_iter().fold(user, User::group))
}

/// Reads one value after another.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn next_is(&self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    fn value_of(&mut self, tag: u8) -> Option<&'b [u8]> {
        if self.next_is(tag) { self.next().map(|(_, value)| value) } else { None }
    }

    fn next(&mut self) -> Option<(u8, &'b [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first & 0x80 != 0 {
            let n_bytes = usize::from(first & 0x7f);
            if n_bytes == 0 || n_bytes > 4 {
                return None;
            }
            let bytes = rest.get(..n_bytes)?;
            length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            rest = rest.get(n_bytes..)?;
        }
        let value = rest.get(..length)?;
        self.0 = rest.get(length..)?;
        Some((tag, value))
    }
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
    fn cut_or_damaged_certificates_are_nobody_and_no_panic() {
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

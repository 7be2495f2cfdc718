//! A certificate of our own, for when none is configured.
//!
//! Parity: names, lifetime and usages are the reference's; keys are ECDSA P-256 where it makes RSA-2048.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use ring::rand::{SecureRandom, SystemRandom};

use crate::serve::error::ServeError;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How far clocks may be apart.
const SKEW: Duration = Duration::from_secs(60 * 60);

/// A certificate and its key in PEM: the certificate first, then the authority made for it alone.
pub(crate) struct SelfSigned {
    pub(crate) certificates: String,
    pub(crate) key: String,
}

/// Makes a certificate for this machine, and for `address` if that is a particular one.
pub(crate) fn make(address: IpAddr) -> Result<SelfSigned, ServeError> {
    generate(address).map_err(ServeError::SelfSigned)
}

fn generate(address: IpAddr) -> Result<SelfSigned, String> {
    let text = |error: rcgen::Error| error.to_string();
    let now = SystemTime::now();
    let stamp = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();

    let mut authority = params(format!("localhost-ca@{stamp}"), Vec::new(), now)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages.push(KeyUsagePurpose::KeyCertSign);
    let authority_key = KeyPair::generate().map_err(text)?;
    let authority_pem = authority.self_signed(&authority_key).map_err(text)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let mut names = vec!["localhost".to_owned(), IpAddr::V4(Ipv4Addr::LOCALHOST).to_string()];
    let particular = address.to_string();
    if !address.is_unspecified() && !names.contains(&particular) {
        names.push(particular);
    }
    let mut own = params(format!("localhost@{stamp}"), names, now)?;
    own.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    let key = KeyPair::generate().map_err(text)?;
    let own_pem = own.signed_by(&key, &issuer).map_err(text)?.pem();
    Ok(SelfSigned { certificates: own_pem + &authority_pem, key: key.serialize_pem() })
}

fn params(name: String, names: Vec<String>, now: SystemTime) -> Result<CertificateParams, String> {
    let mut params = CertificateParams::new(names).map_err(|error| error.to_string())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let from = now - SKEW;
    params.not_before = from.into();
    params.not_after = (from + YEAR).into();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    let mut serial = [0; 8];
    SystemRandom::new()
        .fill(&mut serial)
        .map_err(|_| "the system gives no random numbers".to_owned())?;
    // Positive, and never zero.
    serial[0] = serial[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(params)
}

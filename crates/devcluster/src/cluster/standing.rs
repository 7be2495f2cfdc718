//! Objects that every cluster has from the start, and the authorities behind its certificates.
//!
//! In a cluster that was restored from a file most of these exist already, so creating them again is not an error.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use super::manifest::placed;
use crate::access::{Authority, CertificateError, Tls, authentication_config, standing_policy};
use crate::api::WriteOptions;
use crate::api::create::create;
use crate::defaults::system_priority_classes;
use crate::kinds::{KindId, NAMESPACES, PRIORITY_CLASSES};
use crate::object::text_at;
use crate::store::Store;

/// Namespaces and priority classes.
pub(super) fn add_objects(store: &Store) {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"]
        .into_iter()
        .map(|name| (NAMESPACES, json!({"metadata": {"name": name}})));
    let classes = system_priority_classes().map(|class| (PRIORITY_CLASSES, class));
    for (kind, object) in namespaces.chain(classes) {
        // Rejected only when it exists.
        let _ = create(store, kind, "", object, &WriteOptions::default());
    }
}

/// With `rbac` the policy, and always the configuration that servers read to delegate authentication.
pub(super) fn add_access_objects(store: &Store, tls: Option<&Tls>, rbac: bool) {
    let config =
        authentication_config(tls.map(|tls| &tls.authority), tls.map(|tls| &tls.front_proxy));
    let policy = if rbac { standing_policy() } else { Vec::new() };
    for object in policy.into_iter().chain([config]) {
        let Ok((kind, namespace, object)) = placed(object) else { continue };
        // Rejected only when it exists.
        let _ = create(store, kind, &namespace, object, &WriteOptions::default());
    }
}

/// TLS with authorities whose keys are stored as secrets of the cluster, so that they are persisted together with it.
pub(super) fn tls(store: &Store) -> Result<Tls, CertificateError> {
    let clients = stored_authority(store, "devcluster-ca")?;
    Tls::new(clients, stored_authority(store, "devcluster-front-proxy-ca")?)
}

fn stored_authority(store: &Store, name: &str) -> Result<Authority, CertificateError> {
    const KEY: &str = "ca.key";
    let secrets = KindId::by_plural("", "v1", "secrets");
    let stored = secrets.and_then(|secrets| store.get(secrets, "kube-system", name));
    if let Some(secret) = stored
        && let Ok(key) = BASE64.decode(text_at(&secret.value(), &["data", KEY]))
        && let Ok(key) = String::from_utf8(key)
    {
        return Authority::from_key(name, &key);
    }
    let authority = Authority::generate(name)?;
    if let Some(secrets) = secrets {
        let data = json!({KEY: BASE64.encode(authority.key())});
        let secret = json!({"metadata": {"name": name}, "type": "Opaque", "data": data});
        // Rejected only when a secret without a key exists; then the authority lives as long as this process.
        let _ = create(store, secrets, "kube-system", secret, &WriteOptions::default());
    }
    Ok(authority)
}

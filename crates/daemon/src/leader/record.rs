//! What a lease says about who leads, and its form in `coordination.k8s.io/v1`.
//!
//! Invariants: two records are equal only if holder, times to the microsecond, duration and transitions are, so that no
//! renewal is ever mistaken for the one before; what a lease carries beside its spec survives an update.

use kube_scheduler_api_types::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::clock::to_micro_time;

/// The spec of a lease, as leader election reads and writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Who leads; empty when the lease was given back.
    pub(crate) holder: String,
    /// How long others wait after the last renewal, in whole seconds.
    pub(crate) duration_seconds: i32,
    /// When the holder got it.
    pub(crate) acquired: Option<Timestamp>,
    /// When the holder last renewed it.
    pub(crate) renewed: Option<Timestamp>,
    /// How often the lease went from one holder to another.
    pub(crate) transitions: i32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i32>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<i32>,
}

/// A lease as the server stores it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lease(Map<String, Value>);

impl Lease {
    /// A lease that does not exist yet.
    pub(crate) fn fresh(namespace: &str, name: &str, record: &Record) -> Self {
        let mut lease = Map::new();
        lease.insert("apiVersion".to_owned(), "coordination.k8s.io/v1".into());
        lease.insert("kind".to_owned(), "Lease".into());
        lease.insert("metadata".to_owned(), json!({"namespace": namespace, "name": name}));
        let mut lease = Self(lease);
        lease.set_record(record);
        lease
    }

    /// Reads a lease; `None` if the text is none.
    pub(crate) fn parse(json: &[u8]) -> Option<Self> {
        let Ok(Value::Object(lease)) = serde_json::from_slice(json) else { return None };
        lease.get("metadata")?.get("name")?.as_str()?;
        Some(Self(lease))
    }

    /// What it says. A member that makes no sense counts as missing.
    pub(crate) fn record(&self) -> Record {
        let spec = self.0.get("spec").map(Spec::deserialize);
        let spec = spec.and_then(Result::ok).unwrap_or_default();
        let time = |text: Option<String>| text.and_then(|text| Timestamp::parse(&text));
        Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquired: time(spec.acquire_time),
            renewed: time(spec.renew_time),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    /// Replaces the whole spec.
    pub(crate) fn set_record(&mut self, record: &Record) {
        let time = |at: Option<Timestamp>| at.map(to_micro_time);
        let spec = json!({
            "holderIdentity": record.holder,
            "leaseDurationSeconds": record.duration_seconds,
            "acquireTime": time(record.acquired),
            "renewTime": time(record.renewed),
            "leaseTransitions": record.transitions,
        });
        self.0.insert("spec".to_owned(), spec);
    }

    /// Adds an annotation, or replaces its value.
    pub(crate) fn annotate(&mut self, name: &str, value: String) {
        let metadata = self.0.entry("metadata").or_insert_with(|| json!({}));
        let Some(metadata) = metadata.as_object_mut() else { return };
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[name] = value.into();
    }

    /// The value of an annotation; empty when it is missing.
    pub(crate) fn annotation(&self, name: &str) -> &str {
        let annotations = self.0.get("metadata").and_then(|metadata| metadata.get("annotations"));
        annotations.and_then(|all| all.get(name)).and_then(Value::as_str).unwrap_or_default()
    }

    /// A member of its metadata; empty when it is missing.
    pub(crate) fn metadata(&self, member: &str) -> &str {
        let metadata = self.0.get("metadata").and_then(|metadata| metadata.get(member));
        metadata.and_then(Value::as_str).unwrap_or_default()
    }

    /// The bytes to send.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_the_way_through_a_lease() {
        let record = Record {
            holder: "a_1".to_owned(),
            duration_seconds: 15,
            acquired: Timestamp::parse("2026-11-21T10:00:00.000001Z"),
            renewed: Timestamp::parse("2026-11-21T10:00:02.5Z"),
            transitions: 3,
        };
        let mut lease = Lease::parse(
            br#"{"metadata":{"name":"kube-scheduler","labels":{"a":"b"},"resourceVersion":"7"},"spec":{"strategy":"x"}}"#,
        )
        .unwrap();
        assert_eq!(lease.record(), Record::default());
        lease.set_record(&record);
        assert_eq!(Lease::parse(&lease.to_json()).unwrap().record(), record);
        let text = String::from_utf8(lease.to_json()).unwrap();
        assert!(text.contains(r#""labels":{"a":"b"}"#) && !text.contains("strategy"), "{text}");
        assert!(text.contains(r#""renewTime":"2026-11-21T10:00:02.500000Z""#), "{text}");
        assert_eq!(lease.metadata("resourceVersion"), "7");
        lease.annotate("a", "1".to_owned());
        lease.annotate("a", "2".to_owned());
        let text = String::from_utf8(lease.to_json()).unwrap();
        assert!(text.contains(r#""annotations":{"a":"2"}"#), "{text}");
        assert_eq!(lease.metadata("uid"), "");
    }

    #[test]
    fn what_is_no_lease_is_refused_and_odd_members_are_missing() {
        for bad in [&b"<html>"[..], b"[]", b"{}", br#"{"metadata":{}}"#] {
            assert_eq!(Lease::parse(bad), None);
        }
        let odd = br#"{"metadata":{"name":"x"},"spec":{"holderIdentity":"a","renewTime":"soon"}}"#;
        let record = Lease::parse(odd).unwrap().record();
        assert_eq!((record.holder.as_str(), record.renewed), ("a", None));
        let broken = br#"{"metadata":{"name":"x"},"spec":{"holderIdentity":7}}"#;
        assert_eq!(Lease::parse(broken).unwrap().record(), Record::default());
    }
}

//! Objects in protobuf: all built-in kinds as kubectl and other clients write them, pods and nodes also as an API server
//! writes them.
//!
//! Invariant: malformed input is an error, never a panic.

mod decode;
pub(crate) mod encode;
#[cfg(test)]
mod equality;
pub(crate) mod schema;

use serde_json::Value;

use crate::object::map_mut;
pub(crate) use decode::DecodeError;

/// Parses an object in its envelope.
///
/// # Errors
/// If it is malformed, is of a kind that is not known, or has a field that is not known.
pub(crate) fn object(body: &[u8]) -> Result<Value, DecodeError> {
    let envelope = decode::envelope(body).ok_or(DecodeError::Malformed { path: Vec::new() })?;
    let Some(message) = schema::message_of(envelope.api_version, envelope.kind) else {
        return Err(DecodeError::UnknownKind {
            kind: envelope.kind.to_owned(),
            api_version: envelope.api_version.to_owned(),
        });
    };
    let mut object = decode::message(message, envelope.raw)?;
    map_mut(&mut object).insert("apiVersion".into(), envelope.api_version.into());
    map_mut(&mut object).insert("kind".into(), envelope.kind.into());
    Ok(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::encode::MAGIC;
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).expect("short")], content].concat()
    }

    fn namespace() -> Vec<u8> {
        let label = field(11, &[field(1, b"team"), field(2, b"a")].concat());
        let meta = field(1, &[field(1, b"foo"), field(2, b""), label].concat());
        let types = field(1, &[field(1, b"v1"), field(2, b"Namespace")].concat());
        [MAGIC, &types, &field(2, &meta), &field(3, b""), &field(4, b"")].concat()
    }

    #[test]
    fn a_namespace_is_read() {
        let expected = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "foo", "labels": {"team": "a"}},
        });
        assert_eq!(object(&namespace()), Ok(expected));
    }

    #[test]
    fn a_review_keeps_its_spec() {
        let of_pods = field(1, &[field(2, b"list"), field(5, b"pods")].concat());
        let spec = [of_pods, field(3, b"joe"), field(4, b"a"), field(4, b"b")].concat();
        let types = field(
            1,
            &[field(1, b"authorization.k8s.io/v1"), field(2, b"SubjectAccessReview")].concat(),
        );
        let raw = field(2, &[field(1, b""), field(2, &spec)].concat());
        let review = object(&[MAGIC, &types, &raw].concat()).expect("a review");
        assert_eq!(
            review["spec"],
            json!({"resourceAttributes": {"verb": "list", "resource": "pods"}, "user": "joe",
                "groups": ["a", "b"]})
        );
    }

    #[test]
    fn truncated_bodies_are_no_objects_and_no_panics() {
        let body = namespace();
        for length in 0..body.len() - 5 {
            let _ = object(&body[..length]);
        }
        let malformed = Err(DecodeError::Malformed { path: Vec::new() });
        assert_eq!(object(b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), malformed);
        assert_eq!(object(b"{}"), malformed);
    }

    fn of(api_version: &[u8], kind: &[u8], raw: &[u8]) -> Vec<u8> {
        let types = field(1, &[field(1, api_version), field(2, kind)].concat());
        [MAGIC, &types, &field(2, raw)].concat()
    }

    #[test]
    fn what_is_not_known_is_named_and_nothing_is_left_out() {
        let pod_spec = field(2, &field(15, &field(2, b"x")));
        let template = field(3, &pod_spec);
        let body = of(b"apps/v1", b"Deployment", &field(2, &template));
        let error =
            object(&body).expect_err("no field of a pod's spec is an image pull secret's 2");
        assert_eq!(
            error.to_string(),
            "spec.template.spec.imagePullSecrets has the field number 2, which this server does not know"
        );
        let error = object(&of(b"example.com/v1", b"Widget", b"")).expect_err("no such kind");
        assert_eq!(
            error.to_string(),
            "\"Widget\" in version \"example.com/v1\" is not read in this form"
        );
        let error =
            object(&of(b"v1", b"ConfigMap", &field(1, &field(1, b"\xff")))).expect_err("no UTF-8");
        assert_eq!(error.to_string(), "metadata.name is malformed");
    }

    #[test]
    fn kinds_of_the_same_name_are_distinguished() {
        let claim = field(2, &field(3, b"fast"));
        let error =
            object(&of(b"resource.k8s.io/v1", b"ResourceClaim", &claim)).expect_err("not v1");
        assert_eq!(
            error.to_string(),
            "spec has the field number 3, which this server does not know"
        );
        let core = object(&of(b"v1", b"Event", &field(4, b"said"))).expect("a core event");
        assert_eq!(core["message"], "said");
        let modern =
            object(&of(b"events.k8s.io/v1", b"Event", &field(10, b"said"))).expect("an event");
        assert_eq!(modern["note"], "said");
    }

    #[test]
    fn every_kind_that_is_served_has_a_message() {
        let kinds = crate::kinds::KindId::all().map(crate::kinds::KindId::get);
        for kind in kinds.filter(|kind| !kind.is_custom()) {
            assert!(schema::message_of(&kind.api_version(), kind.kind).is_some(), "{}", kind.kind);
        }
    }
}

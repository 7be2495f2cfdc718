//! Objects in protobuf: pods and nodes as an API server writes them; bindings and events as schedulers write them;
//! namespaces and reviews, which kubectl and client-go always write in this form.
//!
//! Invariant: malformed input is an error, never a panic.

mod decode;
pub(crate) mod encode;
#[cfg(test)]
mod equality;
mod schema;

use serde_json::Value;

use crate::object::map_mut;

/// Parses an object in its envelope; `None` if it is malformed, or of a kind that is not read in this form.
pub(crate) fn object(body: &[u8]) -> Option<Value> {
    let envelope = decode::envelope(body)?;
    let is_read = match (envelope.api_version, envelope.kind) {
        ("v1", "Binding" | "Namespace") | ("events.k8s.io/v1", "Event") => true,
        (_, kind) => kind.ends_with("Review"),
    };
    let mut object = decode::message(envelope.kind, envelope.raw).filter(|_| is_read)?;
    map_mut(&mut object).insert("apiVersion".into(), envelope.api_version.into());
    map_mut(&mut object).insert("kind".into(), envelope.kind.into());
    Some(object)
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
        assert_eq!(object(&namespace()), Some(expected));
    }

    #[test]
    fn a_review_keeps_its_spec() {
        let of_pods = field(1, &[field(2, b"list"), field(5, b"pods"), field(8, b"x")].concat());
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
        assert_eq!(object(b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
        assert_eq!(object(b"{}"), None);
    }
}

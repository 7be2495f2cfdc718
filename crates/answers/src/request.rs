//! Questions in the form of API objects that are only ever created, as a SubjectAccessReview is: what is asked in `spec`, the
//! answer in `status`.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::explanation::Subject;
use crate::pod_name::PodName;
use crate::{API_GROUP, API_VERSION};

/// Why a request is not a question.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// It is no JSON, or has another form.
    #[error("the request is not of kind {kind}: {error}")]
    Form {
        /// The kind of question that was expected.
        kind: &'static str,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// A field has a value that is not allowed.
    #[error("{field}: {problem}")]
    Field {
        /// Its path.
        field: &'static str,
        /// What is wrong, and what is allowed.
        problem: String,
    },
}

/// What a question about one pod asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuestionKind {
    /// Why it is where it is: an [`Explanation`](crate::Explanation).
    Explanation,
    /// Which pods would be evicted for it: a [`Preemption`](crate::Preemption).
    Preemption,
}

impl QuestionKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Explanation, Self::Preemption];

    /// The `kind` of the object.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Explanation => "Explanation",
            Self::Preemption => "Preemption",
        }
    }

    /// The resource in the path, and in the rights of users.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Explanation => "explanations",
            Self::Preemption => "preemptions",
        }
    }

    /// The resource's name in the singular.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Explanation => "explanation",
            Self::Preemption => "preemption",
        }
    }
}

/// A question about one pod: `spec.podName` for one that exists, or `spec.pod` for one as an API server would store it.
#[derive(Clone, Debug)]
pub struct PodQuestion {
    /// What is asked for.
    pub kind: QuestionKind,
    /// The pod.
    pub subject: Subject,
    /// Whether to look for small changes that make it fit; only an explanation has them.
    pub suggest: bool,
    namespace: Arc<str>,
    metadata: Map<String, Value>,
    spec: Value,
}

/// A question about one pod over HTTP, as it is sent, and as it comes back with its answer.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "PodQuestion")]
pub(crate) struct Envelope {
    api_version: String,
    kind: String,
    /// As of any object; the namespace is that of the path.
    #[serde(default)]
    metadata: Map<String, Value>,
    /// What is asked.
    #[schemars(with = "Spec")]
    spec: Value,
    /// The answer: a value of the same kind without `apiVersion` and `kind`, which stand at the top. Of a question it is
    /// ignored.
    #[serde(default, rename = "status")]
    _status: Value,
}

/// What is asked: either `podName` or `pod`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "PodQuestionSpec")]
struct Spec {
    /// A pod that exists.
    pod_name: Option<String>,
    /// A pod as an API server would store it, which need not exist.
    pod: Option<Value>,
    /// Whether to look for small changes that make it fit: of an explanation only.
    #[serde(default)]
    suggest: bool,
}

impl PodQuestion {
    /// Reads a question about a pod of `namespace`.
    ///
    /// # Errors
    /// If the body is no such question, or about another namespace.
    pub fn from_json(
        asked: QuestionKind,
        namespace: &str,
        body: &[u8],
    ) -> Result<Self, RequestError> {
        let form = |error| RequestError::Form { kind: asked.kind(), error };
        let Envelope { api_version, kind, mut metadata, spec, .. } =
            serde_json::from_slice(body).map_err(form)?;
        let expected = asked.kind();
        if api_version != API_VERSION || kind != expected {
            let problem = format!(
                "{api_version:?}, kind {kind:?}: expected {API_VERSION:?}, kind {expected:?}"
            );
            return Err(RequestError::Field { field: "apiVersion", problem });
        }
        in_namespace(metadata.get("namespace"), namespace, "metadata.namespace")?;
        metadata.insert("namespace".to_owned(), namespace.into());
        let Spec { pod_name, pod, suggest } = Spec::deserialize(&spec).map_err(form)?;
        if suggest && asked != QuestionKind::Explanation {
            let problem = format!("a question of kind {expected} has no suggestions");
            return Err(RequestError::Field { field: "spec.suggest", problem });
        }
        let namespace: Arc<str> = namespace.into();
        let subject = match (pod_name, pod) {
            (Some(name), None) if !name.is_empty() => {
                Subject::Known(PodName { namespace: namespace.clone(), name: name.into() })
            }
            (None, Some(pod)) => Subject::Manifest(Arc::new(manifest(pod, &namespace)?)),
            _ => {
                let problem = "expected either podName or pod".to_owned();
                return Err(RequestError::Field { field: "spec", problem });
            }
        };
        Ok(Self { kind: asked, subject, suggest, namespace, metadata, spec })
    }

    /// The namespace of the question.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The object with its answer.
    ///
    /// # Errors
    /// If the answer cannot be serialised; no such answer is known.
    pub fn answered<A: Serialize>(self, answer: &A) -> Result<Value, serde_json::Error> {
        let mut status = serde_json::to_value(answer)?;
        if let Some(status) = status.as_object_mut() {
            // They stand at the top.
            status.remove("apiVersion");
            status.remove("kind");
        }
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), API_VERSION.into());
        object.insert("kind".to_owned(), self.kind.kind().into());
        object.insert("metadata".to_owned(), self.metadata.into());
        object.insert("spec".to_owned(), self.spec);
        object.insert("status".to_owned(), status);
        Ok(object.into())
    }
}

fn in_namespace(
    given: Option<&Value>,
    namespace: &str,
    field: &'static str,
) -> Result<(), RequestError> {
    match given {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(given)) if given.is_empty() || given == namespace => Ok(()),
        Some(other) => {
            let problem = format!("{other}: the request is about namespace {namespace:?}");
            Err(RequestError::Field { field, problem })
        }
    }
}

fn manifest(mut pod: Value, namespace: &Arc<str>) -> Result<Pod, RequestError> {
    let meta = pod.get("metadata").and_then(|meta| meta.get("namespace"));
    in_namespace(meta, namespace, "spec.pod.metadata.namespace")?;
    if pod["spec"]["priority"].is_null() && !pod["spec"]["priorityClassName"].is_null() {
        let problem = "is not set although there is a priorityClassName: send the pod as an API server would store it, \
                       for example from kubectl create --dry-run=server -o json"
            .to_owned();
        return Err(RequestError::Field { field: "spec.pod.spec.priority", problem });
    }
    let pod = Pod::from_json(std::mem::take(&mut pod).to_string())
        .map_err(|error| RequestError::Field { field: "spec.pod", problem: error.to_string() })?;
    let name: Arc<str> = if pod.name.is_empty() { "pod".into() } else { pod.name.clone() };
    // No pod that is there has this UID.
    let uid = format!("{API_GROUP}/{namespace}/{name}").into();
    Ok(Pod { namespace: namespace.clone(), name, uid, ..pod })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<PodQuestion, String> {
        read_as(QuestionKind::Explanation, value)
    }

    fn read_as(kind: QuestionKind, value: &Value) -> Result<PodQuestion, String> {
        PodQuestion::from_json(kind, "web", value.to_string().as_bytes())
            .map_err(|error| error.to_string())
    }

    fn question(spec: Value) -> Value {
        json!({"apiVersion": API_VERSION, "kind": "Explanation", "spec": spec})
    }

    #[test]
    fn a_pod_is_named_or_given() {
        let named = read(&question(json!({"podName": "a", "suggest": true}))).unwrap();
        let Subject::Known(name) = &named.subject else { panic!("{named:?}") };
        assert_eq!((name.to_string().as_str(), named.suggest), ("web/a", true));
        let spec = json!({"containers": [{"name": "c"}], "schedulerName": "default-scheduler"});
        let given =
            read(&question(json!({"pod": {"metadata": {"generateName": "x-"}, "spec": spec}})));
        let Subject::Manifest(pod) = given.unwrap().subject else { panic!("not a manifest") };
        assert_eq!(pod.key(), "web/pod");
    }

    #[test]
    fn a_question_is_of_the_kind_that_its_path_says() {
        let question =
            |spec: Value| json!({"apiVersion": API_VERSION, "kind": "Preemption", "spec": spec});
        let read = |spec: Value| read_as(QuestionKind::Preemption, &question(spec));
        assert_eq!(read(json!({"podName": "a"})).unwrap().kind, QuestionKind::Preemption);
        let error = read(json!({"podName": "a", "suggest": true})).unwrap_err();
        assert_eq!(error, "spec.suggest: a question of kind Preemption has no suggestions");
        let other = read_as(QuestionKind::Explanation, &question(json!({"podName": "a"})));
        assert!(other.unwrap_err().contains("kind \"Preemption\": expected"));
    }

    #[test]
    fn mistakes_are_named() {
        let pod =
            |meta: Value, spec: Value| question(json!({"pod": {"metadata": meta, "spec": spec}}));
        for (request, expected) in [
            (json!([]), "the request is not of kind Explanation: "),
            (question(json!({"podNme": "a"})), "unknown field `podNme`"),
            (question(json!({})), "spec: expected either podName or pod"),
            (question(json!({"podName": ""})), "spec: expected either podName or pod"),
            (question(json!({"podName": "a", "pod": {}})), "spec: expected either podName or pod"),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "spec": {}}),
                "apiVersion: \"v1\", kind \"Pod\": expected",
            ),
            (
                pod(json!({"namespace": "other"}), json!({})),
                "spec.pod.metadata.namespace: \"other\": the request is about namespace \"web\"",
            ),
            (
                pod(json!({}), json!({"priorityClassName": "high"})),
                "spec.pod.spec.priority: is not set",
            ),
            (question(json!({"pod": 7})), "spec.pod: "),
        ] {
            let error = read(&request).unwrap_err();
            assert!(error.contains(expected), "{request}: {error}");
        }
    }
}

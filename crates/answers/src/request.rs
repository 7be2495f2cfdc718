//! Questions in the form of API objects that are only ever created, as a SubjectAccessReview is: what is asked in `spec`, the
//! answer in `status`.

mod asked;
mod kind;
mod objects;
mod rules;
mod specs;

use std::borrow::Cow;
use std::sync::Arc;

use kube_scheduler_api_types::CompileOptions;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use self::asked::Computation;
use self::asked::ParsedRequest;
pub use self::kind::QuestionKind;
use self::objects::Objects;
pub use self::rules::{LabelError, check_key, check_pair};
use self::specs::{
    CapacitySpec, DrainSpec, FragmentationSpec, PodQuestionSpec, QueueSpec, WhatIfSpec,
};
use crate::API_VERSION;
use crate::explanation::Visibility;
use crate::manifests::FieldProblem;
use crate::typed::Mistake;

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
        field: Cow<'static, str>,
        /// What is wrong, and what is allowed.
        problem: String,
    },
}

impl From<FieldProblem> for RequestError {
    fn from(FieldProblem { field, problem }: FieldProblem) -> Self {
        Self::Field { field: field.into(), problem }
    }
}

/// A question over HTTP.
#[derive(Clone, Debug)]
pub struct Question {
    /// Which of the answers is asked for, such as an explanation.
    pub kind: QuestionKind,
    /// What the caller must be allowed to list to ask this: nodes, if the question names some; pods of all namespaces, if it is
    /// about pods of other namespaces than its own.
    pub demands: Visibility,
    pub(crate) asked: Computation,
    /// What comes with its pods.
    pub(crate) objects: Objects,
    namespace: Arc<str>,
    metadata: Map<String, Value>,
    spec: Value,
}

/// A question over HTTP, as it is sent, and as it comes back with its answer.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Question")]
pub(crate) struct Envelope {
    api_version: String,
    kind: String,
    /// As of any object; the namespace is that of the path.
    #[serde(default)]
    metadata: Map<String, Value>,
    /// What is asked.
    #[serde(default)]
    #[schemars(schema_with = "any_spec")]
    spec: Value,
    /// The answer: a value of the same kind (of a `Drain`: a `WhatIf`) without `apiVersion` and `kind`, which stand at the top.
    /// Besides, `resourceVersion` has the newest revision of all objects that had been seen, `isLeading` is false where the
    /// scheduler that was asked is a standby, and `rendered` has the answer as a table if the request asked for one. Of a
    /// question it is ignored.
    #[serde(default, rename = "status")]
    _status: Value,
}

/// A question as the arguments of a call.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The namespace of the question; that of the kubeconfig's context if it is not given. Questions about the whole cluster have
    /// none.
    #[serde(default)]
    namespace: Option<String>,
    /// What is asked.
    #[serde(default)]
    spec: Value,
}

/// The schema of what is asked: one for each kind of question.
fn any_spec(generator: &mut SchemaGenerator) -> schemars::Schema {
    // A question about a preemption has the form of one for an explanation.
    let kinds = QuestionKind::ALL.into_iter().filter(|kind| *kind != QuestionKind::Preemption);
    let specs: Vec<schemars::Schema> = kinds.map(|kind| kind.spec_schema(generator)).collect();
    schemars::json_schema!({"anyOf": specs})
}

impl QuestionKind {
    /// The schema of its `spec`, by reference to the generator's definitions.
    pub(crate) fn spec_schema(self, generator: &mut SchemaGenerator) -> schemars::Schema {
        match self {
            Self::Explanation | Self::Preemption => generator.subschema_for::<PodQuestionSpec>(),
            Self::WhatIf => generator.subschema_for::<WhatIfSpec>(),
            Self::Drain => generator.subschema_for::<DrainSpec>(),
            Self::Capacity => generator.subschema_for::<CapacitySpec>(),
            Self::Queue => generator.subschema_for::<QueueSpec>(),
            Self::Fragmentation => generator.subschema_for::<FragmentationSpec>(),
        }
    }

    /// The schema of a question of this kind as the arguments of a call, by reference to the generator's definitions.
    pub(crate) fn arguments_schema(self, generator: &mut SchemaGenerator) -> schemars::Schema {
        let spec = self.spec_schema(generator);
        let mut arguments = Arguments::json_schema(generator);
        if let Some(properties) = arguments.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("spec".to_owned(), spec.to_value());
            if !self.is_namespaced() {
                properties.remove("namespace");
            }
        }
        arguments
    }
}

/// What goes into the metadata of an answer over HTTP, besides the answer itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// How far the cluster had been seen: the newest revision of all objects.
    pub resource_version: Option<String>,
    /// Whether the scheduler leads. If not, it decides about no pod, and its answer should say so ([`Answer::of_standby`]).
    ///
    /// [`Answer::of_standby`]: crate::Answer::of_standby
    pub is_leading: bool,
    /// The answer as text for people, as the command line prints it.
    pub rendered: Option<String>,
}

impl Question {
    /// How many bytes a question may have. Read, JSON of small maps takes up to eighty times as much.
    pub const MAX_LENGTH: usize = 256 << 10;

    /// Reads a question that was asked in `namespace`, which is empty for the whole cluster. Pods in it are read with
    /// `options`, those of the scheduler that answers.
    ///
    /// # Errors
    /// If the body is no such question, or about another namespace.
    pub fn from_json(
        kind: QuestionKind,
        namespace: &str,
        body: &[u8],
        options: &CompileOptions,
    ) -> Result<Self, RequestError> {
        let form = |error| RequestError::Form { kind: kind.kind(), error };
        let envelope: Envelope = serde_json::from_slice(body).map_err(form)?;
        let Envelope { api_version, kind: given, mut metadata, spec, .. } = envelope;
        let expected = kind.kind();
        if api_version != API_VERSION || given != expected {
            let problem = format!(
                "{api_version:?}, kind {given:?}: expected {API_VERSION:?}, kind {expected:?}"
            );
            return Err(RequestError::Field { field: "apiVersion".into(), problem });
        }
        in_namespace(metadata.get("namespace"), namespace, "metadata.namespace")?;
        if !namespace.is_empty() {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        Self::new(kind, namespace, metadata, spec, options)
    }

    /// Reads a question from the arguments of a call, such as `{"namespace": "shop", "spec": {"podName": "web"}}`. Without a
    /// namespace it is in `default_namespace`. Pods in it are read with `options`.
    ///
    /// # Errors
    /// If they are none of a question of this kind.
    pub fn from_arguments(
        kind: QuestionKind,
        arguments: &Value,
        default_namespace: &str,
        options: &CompileOptions,
    ) -> Result<Self, RequestError> {
        let Arguments { namespace, spec } = typed("", arguments)?;
        let namespace = match namespace {
            Some(given) if !given.is_empty() && !kind.is_namespaced() => {
                let problem = format!(
                    "{given:?}: a question of kind {} is about the whole cluster",
                    kind.kind()
                );
                return Err(RequestError::Field { field: "namespace".into(), problem });
            }
            Some(given) if !given.is_empty() => given,
            _ if kind.is_namespaced() => default_namespace.to_owned(),
            _ => String::new(),
        };
        Self::new(kind, &namespace, Map::new(), spec, options)
    }

    fn new(
        kind: QuestionKind,
        namespace: &str,
        metadata: Map<String, Value>,
        spec: Value,
        options: &CompileOptions,
    ) -> Result<Self, RequestError> {
        let namespace: Arc<str> = namespace.into();
        let ParsedRequest { asked, demands, objects } =
            ParsedRequest::from_spec(kind, &namespace, &spec, options)?;
        Ok(Self { kind, demands, asked, objects, namespace, metadata, spec })
    }

    /// This question, for an engine that was given the objects of a cluster and has tried none of its pods: what waits for what is
    /// found out first.
    #[must_use]
    pub fn of_objects(mut self) -> Self {
        if let Computation::Queue { options } = &mut self.asked {
            options.from_objects = true;
        }
        self
    }

    /// The `spec` of the question, as it was sent.
    pub fn spec(&self) -> &Value {
        &self.spec
    }

    /// The namespace of the question; empty for the whole cluster.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The object with its answer.
    ///
    /// # Errors
    /// If the answer cannot be serialised; no such answer is known.
    pub fn answered<A: Serialize>(
        self,
        answer: &A,
        notes: Notes,
    ) -> Result<Value, serde_json::Error> {
        let mut status = serde_json::to_value(answer)?;
        if let Some(status) = status.as_object_mut() {
            // They stand at the top.
            status.remove("apiVersion");
            status.remove("kind");
            let Notes { resource_version, is_leading, rendered } = notes;
            status.insert("isLeading".to_owned(), is_leading.into());
            for (name, text) in [("resourceVersion", resource_version), ("rendered", rendered)] {
                if let Some(text) = text {
                    status.insert(name.to_owned(), text.into());
                }
            }
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
    field: impl Into<Cow<'static, str>>,
) -> Result<(), RequestError> {
    match given {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(given)) if given.is_empty() || given == namespace => Ok(()),
        Some(other) => {
            let problem = match namespace {
                "" => format!("{other}: the request is about the whole cluster"),
                namespace => format!("{other}: the request is about namespace {namespace:?}"),
            };
            Err(RequestError::Field { field: field.into(), problem })
        }
    }
}

/// A value with its type; a missing one is an empty one. `at` is its path, for errors.
fn typed<T: DeserializeOwned>(at: &str, value: &Value) -> Result<T, RequestError> {
    let empty = Value::Object(Map::new());
    let value = if value.is_null() { &empty } else { value };
    crate::typed::typed(value).map_err(|Mistake { path, problem }| {
        let field = match (at, &*path) {
            ("", "") => "arguments".to_owned(),
            ("", path) => path.trim_start_matches('.').to_owned(),
            (at, path) => format!("{at}{path}"),
        };
        RequestError::Field { field: field.into(), problem }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::explanation::Subject;
    use crate::what_if::Change;

    fn read(value: &Value) -> Result<Question, String> {
        read_as(QuestionKind::Explanation, value)
    }

    fn read_as(kind: QuestionKind, value: &Value) -> Result<Question, String> {
        Question::from_json(kind, "web", value.to_string().as_bytes(), &CompileOptions::default())
            .map_err(|error| error.to_string())
    }

    fn question(spec: Value) -> Value {
        json!({"apiVersion": API_VERSION, "kind": "Explanation", "spec": spec})
    }

    #[test]
    fn questions_for_which_nothing_is_tried_again_and_again_are_brief() {
        let is_brief = |kind, spec: Value| {
            let (arguments, options) = (json!({"spec": spec}), CompileOptions::default());
            Question::from_arguments(kind, &arguments, "web", &options).unwrap().is_brief()
        };
        let pod = || json!({"podName": "web"});
        let suggested = json!({"podName": "web", "suggest": true});
        assert!(is_brief(QuestionKind::Explanation, pod()));
        assert!(!is_brief(QuestionKind::Explanation, suggested));
        assert!(is_brief(QuestionKind::Preemption, pod()));
        assert!(is_brief(QuestionKind::Queue, json!({})));
        let changes = json!({"changes": [{"cordon": {"name": "a"}}]});
        assert!(!is_brief(QuestionKind::WhatIf, changes));
        assert!(!is_brief(QuestionKind::Drain, json!({"nodes": ["a"]})));
        assert!(!is_brief(QuestionKind::Fragmentation, json!({})));
    }

    #[test]
    fn a_pod_is_named_or_given() {
        let named = read(&question(json!({"podName": "a", "suggest": true}))).unwrap();
        let Computation::Explanation { subject: Subject::Known(name), suggest: true } =
            &named.asked
        else {
            panic!("{named:?}")
        };
        assert_eq!(name.to_string(), "web/a");
        let spec = json!({"containers": [{"name": "c"}], "schedulerName": "default-scheduler"});
        let given =
            read(&question(json!({"pod": {"metadata": {"generateName": "x-"}, "spec": spec}})));
        let Computation::Explanation { subject: Subject::Manifest(pod), .. } = given.unwrap().asked
        else {
            panic!("not a manifest")
        };
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

    fn read_spec(kind: QuestionKind, namespace: &str, spec: &Value) -> Result<Question, String> {
        let body = json!({"apiVersion": API_VERSION, "kind": kind.kind(), "spec": spec});
        let options = CompileOptions::default();
        Question::from_json(kind, namespace, body.to_string().as_bytes(), &options)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn changes_are_read_in_their_order_and_say_what_their_reader_must_see() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}});
        let own = json!({"changes": [
            {"addPods": {"pod": pod, "count": 2}}, {"deletePod": {"name": "b"}},
        ]});
        let question = read_spec(QuestionKind::WhatIf, "web", &own).unwrap();
        assert_eq!(question.demands, Visibility { nodes: false, all_pods: false });
        let Computation::WhatIf { changes } = &question.asked else { panic!("{question:?}") };
        let [Change::AddPod(first), Change::AddPod(second), Change::DeletePod(gone)] = &changes[..]
        else {
            panic!("{changes:?}")
        };
        assert_eq!((first.key(), second.key()), ("web/a-1".to_owned(), "web/a-2".to_owned()));
        assert_eq!((&*first.spec.scheduler_name, &*gone.namespace), ("default-scheduler", "web"));
        assert_ne!(first.uid, second.uid);
        let other = json!({"changes": [{"deletePod": {"name": "b", "namespace": "other"}}]});
        let question = read_spec(QuestionKind::WhatIf, "web", &other).unwrap();
        assert_eq!(question.demands, Visibility { nodes: false, all_pods: true });
        for (namespace, all_pods) in [("web", false), ("other", true)] {
            let evict = json!({"changes": [{"evictPod": {"name": "b", "namespace": namespace}}]});
            let question = read_spec(QuestionKind::WhatIf, "web", &evict).unwrap();
            assert_eq!(question.demands, Visibility { nodes: false, all_pods });
            let Computation::WhatIf { changes } = &question.asked else { panic!("{question:?}") };
            let [Change::EvictPod(name)] = &changes[..] else { panic!("{changes:?}") };
            assert_eq!(name.to_string(), format!("{namespace}/b"));
        }
        let taint = json!({"changes": [
            {"taint": {"name": "n", "key": "k", "effect": "NoExecute"}},
            {"drain": {"name": "n", "disableEviction": true}},
        ]});
        let question = read_spec(QuestionKind::WhatIf, "web", &taint).unwrap();
        assert_eq!(question.demands, Visibility { nodes: true, all_pods: false });
    }

    #[test]
    fn pods_that_are_counted_are_those_that_would_stand_there_one_by_one() {
        let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
        let pod = |meta: Value| json!({"pod": {"metadata": meta, "spec": spec}});
        let changes = |changes: Value| {
            let spec = json!({"changes": changes});
            let question = read_spec(QuestionKind::WhatIf, "web", &spec).unwrap();
            format!("{:?}", question.asked)
        };
        let single = |name: &str| json!({"addPods": pod(json!({"name": name}))});
        let mut counted = pod(json!({"generateName": "a-"}));
        counted["count"] = json!(2);
        counted["first"] = json!(9);
        let singles = json!([single("a-00009"), single("a-00010")]);
        assert_eq!(changes(json!([{"addPods": counted}])), changes(singles));
        // One that has a name goes by it.
        counted["pod"]["metadata"] = json!({"name": "a", "generateName": "b-"});
        let singles = json!([single("a-9"), single("a-10")]);
        assert_eq!(changes(json!([{"addPods": counted}])), changes(singles));
    }

    #[test]
    fn what_is_asked_for_is_bounded() {
        let pod = json!({"spec": {"containers": [{"name": "c"}]}});
        let add = |count: u64| json!({"addPods": {"pod": pod, "count": count}});
        let label = json!({"label": {"name": "n", "key": "k", "colour": "red"}});
        for (kind, namespace, spec, expected) in [
            (QuestionKind::WhatIf, "web", json!({"changes": []}), "spec.changes: expected one"),
            (QuestionKind::WhatIf, "web", json!({"changes": [add(u64::MAX)]}), "too many changes"),
            (
                QuestionKind::WhatIf,
                "web",
                json!({"changes": [add(6_000), add(6_000)]}),
                "spec.changes: too many changes: at most 10000 are allowed",
            ),
            (
                QuestionKind::WhatIf,
                "web",
                json!({"changes": [{"addPods": {"pod": pod, "count": 2, "first": 1_000_001}}]}),
                "spec.changes.addPods.first: 1000001: at most 1000000 is allowed",
            ),
            (
                QuestionKind::WhatIf,
                "web",
                json!({"changes": [{"addPods": {"pod": pod, "first": 2}}]}),
                "spec.changes.addPods.first: is the number of the first of several: expected a count",
            ),
            (QuestionKind::WhatIf, "web", json!({"changes": [label]}), "unknown field `colour`"),
            (QuestionKind::WhatIf, "web", json!({"changes": [{"explode": {}}]}), "unknown variant"),
            (
                QuestionKind::WhatIf,
                "web",
                json!({"changes": [{"addPodGroup": {"podGroup": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}}}]}),
                "spec.changes.addPodGroup.podGroup: expected a PodGroup of scheduling.k8s.io with a name",
            ),
            (QuestionKind::Drain, "", json!({"nodes": []}), "spec.nodes: expected one node"),
            (
                QuestionKind::Drain,
                "",
                json!({"nodes": [7]}),
                "spec.nodes[0]: invalid type: integer",
            ),
            (QuestionKind::Capacity, "web", json!({}), "spec: missing field `pod`"),
            (
                QuestionKind::WhatIf,
                "web",
                json!({"changes": [add(1), {"taint": {"name": "n", "key": "k", "effect": "Never"}}]}),
                "spec.changes[1].taint.effect: unknown variant `Never`",
            ),
            (QuestionKind::Queue, "web", json!({"limit": 10_001}), "spec.limit: 10001: at most"),
            (QuestionKind::Fragmentation, "", json!({"maxShapes": 201}), "spec.maxShapes: 201"),
            (
                QuestionKind::Capacity,
                "web",
                json!({"pod": pod, "max": 100_001}),
                "spec.max: 100001: at most 100000 is allowed",
            ),
            (
                QuestionKind::Capacity,
                "web",
                json!({"pod": pod, "max": 0}),
                "spec.max: 0: expected 1 or more",
            ),
            (
                QuestionKind::WhatIf,
                "web",
                json!({"changes": [{"taint": {"name": "n", "key": "!!", "effect": "NoSchedule"}}]}),
                "spec.changes.taint: \"!!\": ",
            ),
            (
                QuestionKind::WhatIf,
                "web",
                json!({"changes": [{"label": {"name": "n", "key": "", "value": "a"}}]}),
                "spec.changes.label: \"\": ",
            ),
            (
                QuestionKind::WhatIf,
                "web",
                json!({"changes": [{"label": {"name": "n", "key": "k", "value": "a b"}}]}),
                "spec.changes.label: \"a b\": ",
            ),
            (
                QuestionKind::WhatIf,
                "web",
                json!({"changes": [{"addNodesLike": {"name": "n", "count": 0}}]}),
                "spec.changes.addNodesLike.count: 0: expected 1 or more",
            ),
            (
                QuestionKind::WhatIf,
                "web",
                json!({"changes": [add(0)]}),
                "addPods.count: 0: expected",
            ),
            (QuestionKind::Fragmentation, "", json!({"by": ""}), "spec.by: \"\": "),
        ] {
            let error = read_spec(kind, namespace, &spec).unwrap_err();
            assert!(error.contains(expected), "{spec}: {error}");
        }
        let without_spec = json!({"apiVersion": API_VERSION, "kind": "Queue"}).to_string();
        assert!(
            Question::from_json(
                QuestionKind::Queue,
                "web",
                without_spec.as_bytes(),
                &CompileOptions::default()
            )
            .is_ok()
        );
        let in_namespace = json!({"apiVersion": API_VERSION, "kind": "Fragmentation",
                                  "metadata": {"namespace": "web"}});
        let error = Question::from_json(
            QuestionKind::Fragmentation,
            "",
            in_namespace.to_string().as_bytes(),
            &CompileOptions::default(),
        );
        assert!(error.unwrap_err().to_string().contains("about the whole cluster"));
    }

    #[test]
    fn pods_are_read_as_the_scheduler_reads_them() {
        let pod = json!({"spec": {
            "resources": {"requests": {"cpu": "5"}}, "containers": [{"name": "c"}],
        }});
        let body = question(json!({"pod": pod})).to_string();
        let cpu = |pod_level_resources| {
            let mut options = CompileOptions::default();
            options.pod_level_resources = pod_level_resources;
            let kind = QuestionKind::Explanation;
            let read = Question::from_json(kind, "web", body.as_bytes(), &options).unwrap();
            let Computation::Explanation { subject: Subject::Manifest(pod), .. } = read.asked
            else {
                panic!("a pod is asked about")
            };
            pod.requests.fit.milli_cpu
        };
        assert_eq!((cpu(true), cpu(false)), (5_000, 0));
    }
}

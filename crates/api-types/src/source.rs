//! The object as the API server sent it, for extenders and others who are shown objects in full.
//!
//! No decision reads it, and it costs kilobytes per object: the decoder of objects keeps it only where it is configured
//! to. Invariants: the text is one JSON object with `metadata`, `spec` and `status` and nothing else,
//! as the reference's typed clients would write it; managed fields are left out.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The JSON of a pod or a node with all fields but `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    json: Box<str>,
    resource_names: Box<[Arc<str>]>,
}

/// Why the JSON of an object cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object cannot be kept in full: {0}")]
pub struct SourceError(String);

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow, default)]
    metadata: BTreeMap<Cow<'a, str>, &'a RawValue>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    resources: Option<Resources>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Option<BTreeMap<String, IgnoredAny>>,
    limits: Option<BTreeMap<String, IgnoredAny>>,
}

impl Source {
    /// What it takes in memory, about, in bytes. O(resource names).
    pub(crate) fn n_bytes(&self) -> usize {
        let names = self.resource_names.iter().map(|name| size_of::<Arc<str>>() + name.len());
        size_of::<Self>() + self.json.len() + names.sum::<usize>()
    }

    /// Keeps a pod.
    ///
    /// # Errors
    /// If the text is no pod.
    pub fn of_pod(json: &str) -> Result<Self, SourceError> {
        let parts = read(json)?;
        let spec: PodSpec = match parts.spec {
            Some(spec) => serde_json::from_str::<Option<PodSpec>>(spec.get())
                .map_err(|error| SourceError(error.to_string()))?
                .unwrap_or_default(),
            None => PodSpec::default(),
        };
        let mut names = BTreeSet::new();
        for container in spec.containers.into_iter().chain(spec.init_containers).flatten() {
            let resources = container.resources.unwrap_or_default();
            for name in resources.requests.into_iter().chain(resources.limits).flatten() {
                names.insert(Arc::from(name.0));
            }
        }
        Ok(Self { json: written(&parts), resource_names: names.into_iter().collect() })
    }

    /// Keeps a node.
    ///
    /// # Errors
    /// If the text is no node.
    pub fn of_node(json: &str) -> Result<Self, SourceError> {
        Ok(Self { json: written(&read(json)?), resource_names: Box::default() })
    }

    /// The object as JSON, without `kind`, `apiVersion` and managed fields.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The names of everything that the containers and init containers of a pod request or limit, sorted. The quantity does
    /// not matter; what is requested at the level of the pod and for its overhead is not among them.
    pub fn resource_names(&self) -> &[Arc<str>] {
        &self.resource_names
    }
}

fn read(json: &str) -> Result<Parts<'_>, SourceError> {
    serde_json::from_str(json).map_err(|error| SourceError(error.to_string()))
}

fn written(parts: &Parts<'_>) -> Box<str> {
    let mut json = String::from("{\"metadata\":{");
    let mut is_first = true;
    for (name, value) in &parts.metadata {
        if name == "managedFields" {
            continue;
        }
        if !is_first {
            json.push(',');
        }
        is_first = false;
        json.push_str(&serde_json::Value::from(&**name).to_string());
        json.push(':');
        json.push_str(value.get());
    }
    json.push('}');
    for (name, part) in [("spec", parts.spec), ("status", parts.status)] {
        json.push_str(",\"");
        json.push_str(name);
        json.push_str("\":");
        json.push_str(part.map_or("{}", RawValue::get));
    }
    json.push('}');
    json.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_kept_but_what_managers_wrote_about_themselves() {
        let text = r#"{"kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "a", "managedFields": [{"manager": "x"}], "annotations": {"q\"": "é"}},
            "spec": {"containers": [{"name": "c", "env": [{"name": "E", "value": "1"}]}], "newField": 1.50},
            "status": {"phase": "Pending"}}"#;
        let source = Source::of_pod(text).unwrap();
        let kept: serde_json::Value = serde_json::from_str(source.json()).unwrap();
        assert_eq!(
            kept,
            serde_json::json!({
                "metadata": {"name": "a", "annotations": {"q\"": "é"}},
                "spec": {"containers": [{"name": "c", "env": [{"name": "E", "value": "1"}]}], "newField": 1.5},
                "status": {"phase": "Pending"},
            })
        );
        assert!(source.json().contains("1.50"), "numbers stay as they were written");
    }

    #[test]
    fn resources_are_those_of_containers_and_init_containers() {
        let text = r#"{"metadata": {"name": "a"}, "spec": {
            "overhead": {"x.io/overhead": "1"},
            "resources": {"requests": {"x.io/pod": "1"}},
            "initContainers": [{"restartPolicy": "Always", "resources": {"limits": {"x.io/init": "0"}}}],
            "containers": [{"resources": {"requests": {"cpu": "1"}, "limits": null}}, {"resources": null}],
            "ephemeralContainers": [{"resources": {"requests": {"x.io/ephemeral": "1"}}}]}}"#;
        let names: Vec<String> = Source::of_pod(text)
            .unwrap()
            .resource_names()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["cpu", "x.io/init"]);
        assert_eq!(
            Source::of_pod(r#"{"spec": {"containers": null}}"#).unwrap().resource_names(),
            []
        );
    }

    #[test]
    fn what_is_missing_is_empty() {
        let node = Source::of_node(r#"{"metadata":{"name":"n"}}"#).unwrap();
        assert_eq!(node.json(), r#"{"metadata":{"name":"n"},"spec":{},"status":{}}"#);
        assert!(
            Source::of_node("[]").is_err()
                && Source::of_pod(r#"{"spec":{"containers":1}}"#).is_err()
        );
    }
}

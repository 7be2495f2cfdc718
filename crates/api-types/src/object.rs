//! Objects of all other kinds: identity and labels read, the rest kept as compact JSON for the plugin that cares.

mod form;

use std::sync::Arc;

use serde::Deserialize;

use self::form::ObjectForm;
use crate::compile::{DecodeError, decode, parse};
use crate::labels::Labels;
use crate::wire::{ObjectMeta, Text};
use crate::{Json, Timestamp};

/// One object of the API. Cloning copies a few pointers.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// API group, empty for the core group.
    pub group: Arc<str>,
    /// Version within the group.
    pub version: Arc<str>,
    /// `kind`, such as `ResourceClaim`.
    pub kind: Arc<str>,
    /// Namespace, empty for cluster-wide kinds.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`: tells objects of the same name apart.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`: the revision, an opaque text.
    pub resource_version: Arc<str>,
    /// When the object was created.
    pub created: Option<Timestamp>,
    /// `metadata.labels`.
    pub labels: Labels,
    /// The whole object, as it was read.
    pub json: Arc<Json>,
    form: ObjectForm,
    n_bytes: usize,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Header {
    api_version: Text,
    kind: Text,
    #[serde(deserialize_with = "crate::wire::or_default")]
    metadata: ObjectMeta,
}

impl Object {
    /// Whether objects of a kind of an API group select pods: services, and the controllers that own pods by what they select. Pods
    /// without spread constraints are spread by these (`docs/spec/plugins-topology.md` §1.3).
    pub fn selects_pods(group: &str, kind: &str) -> bool {
        let of_core = group.is_empty() && matches!(kind, "Service" | "ReplicationController");
        of_core || (group == "apps" && matches!(kind, "ReplicaSet" | "StatefulSet"))
    }

    /// An object from parsed JSON, which is kept as it is.
    ///
    /// # Errors
    /// If the JSON is no object, or `apiVersion`, `kind` or metadata have a wrong type.
    pub fn from_value(json: impl Into<Json>) -> Result<Self, DecodeError> {
        Self::read(json.into())
    }

    fn read(json: Json) -> Result<Self, DecodeError> {
        let n_bytes = json.n_bytes();
        let json = Arc::new(json);
        let header: Header = decode("object", &json)?;
        let (group, version) = match header.api_version.split_once('/') {
            Some((group, version)) => (group.into(), version.into()),
            None => (Arc::default(), header.api_version.0),
        };
        Ok(Self {
            group,
            version,
            kind: header.kind.0,
            namespace: header.metadata.namespace.0,
            name: header.metadata.name.0,
            uid: header.metadata.uid.0,
            resource_version: header.metadata.resource_version.0,
            created: header.metadata.creation_timestamp.0,
            labels: header.metadata.labels,
            json,
            form: ObjectForm::default(),
            n_bytes,
        })
    }

    /// An object from JSON text.
    ///
    /// # Errors
    /// If the text is no JSON, and as [`from_value`](Self::from_value).
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, DecodeError> {
        parse("object", json.as_ref()).and_then(Self::read)
    }

    /// Sets one field of the JSON, making the maps on the way to it. What was read of the object besides (identity,
    /// revision, labels) stays as it is. O(values).
    pub fn set_field(&mut self, path: &[&str], value: Json) {
        self.form = ObjectForm::default();
        let json = Arc::make_mut(&mut self.json);
        json.set(path, value);
        self.n_bytes = json.n_bytes();
    }

    /// This object with other JSON. What was read of the object besides stays as it is.
    #[must_use]
    pub fn with_json(self, json: impl Into<Json>) -> Self {
        let json: Json = json.into();
        let n_bytes = json.n_bytes();
        Self { json: Arc::new(json), form: ObjectForm::default(), n_bytes, ..self }
    }

    /// What it takes in memory, about, in bytes: its JSON and its own fields, without allocators' overhead and without what
    /// [`read_as`](Self::read_as) keeps. O(1).
    pub const fn n_bytes(&self) -> usize {
        size_of::<Self>() + self.n_bytes
    }

    /// What `read` makes of the JSON, as a type of the caller's. The first answer is kept as long as the object, and the copies that
    /// are made of it afterwards. Callers that ask for another type have it made each time.
    pub fn read_as<T: Send + Sync + 'static>(&self, read: impl Fn(&Json) -> T) -> Arc<T> {
        self.form.get(&self.json, read)
    }

    /// The UID of the owner that controls it: that of the first owner reference that says so.
    pub fn controller_uid(&self) -> Option<&str> {
        let owners = self.json["metadata"]["ownerReferences"].as_array()?;
        let controller = owners.iter().find(|owner| owner["controller"] == true)?;
        Some(controller["uid"].as_str().unwrap_or_default())
    }

    /// `group/version`, or the version alone for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `namespace/name`, or the name alone for cluster-wide kinds.
    pub fn key(&self) -> String {
        if self.namespace.is_empty() {
            self.name.to_string()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_follow_the_json() {
        let of = |text: &str| json!({"kind": "Thing", "metadata": {"name": "a"}, "text": text});
        let mut object = Object::from_value(of("short")).unwrap();
        let short = object.n_bytes();
        object.set_field(&["text"], json!("x".repeat(105)).into());
        assert_eq!(object.n_bytes(), short + 100);
        assert_eq!(object.with_json(of("short")).n_bytes(), short);
    }
}

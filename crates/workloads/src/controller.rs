//! An object that other objects are created for, and what all pods of templates have in common.

use serde_json::{Value, json};

use crate::json::{at, group_and_kind, int_at, meta_mut, text_at};

/// An object with a controller, such as a ReplicaSet.
#[derive(Clone, Copy, Debug)]
pub struct Controller<'v> {
    /// The whole object.
    pub value: &'v Value,
    /// `metadata.namespace`, empty if it has none.
    pub namespace: &'v str,
    /// `metadata.name`.
    pub name: &'v str,
    /// `metadata.uid`.
    pub uid: &'v str,
}

/// How a pod is named.
#[derive(Clone, Copy, Debug)]
pub enum PodNaming<'n> {
    /// The controller's name and an end that the API server makes up.
    Generated,
    /// Exactly so.
    Exactly(&'n str),
}

impl<'v> Controller<'v> {
    /// The controller whose object is `value`. Fields that are missing count as empty.
    pub fn new(value: &'v Value) -> Self {
        let meta = |field| text_at(value, &["metadata", field]);
        Self { value, namespace: meta("namespace"), name: meta("name"), uid: meta("uid") }
    }

    /// A count in the spec, such as `replicas`; negative ones count as 0.
    pub fn count(&self, field: &str, default: i64) -> i64 {
        int_at(self.value, &["spec", field]).unwrap_or(default).max(0)
    }

    /// A count in the spec that an API server would refuse because it is negative, with its field.
    pub fn negative_count(&self) -> Option<(&'static str, i64)> {
        let counts = match group_and_kind(self.value) {
            ("apps", "Deployment" | "ReplicaSet" | "StatefulSet")
            | ("", "ReplicationController") => &["replicas"][..],
            ("batch", "Job") => &["parallelism", "completions"],
            _ => &[],
        };
        let given = |field: &&'static str| Some((*field, int_at(self.value, &["spec", *field])?));
        counts.iter().filter_map(given).find(|(_, count)| *count < 0)
    }

    /// `spec.template`, null when there is none.
    pub fn template(&self) -> &'v Value {
        at(self.value, &["spec", "template"]).unwrap_or(&Value::Null)
    }

    /// The object with nothing but what it selects, which is all that pods are spread by; its template may be long. Of a service, too.
    pub fn selecting(&self) -> Value {
        let field = |path| at(self.value, path).cloned().unwrap_or_default();
        json!({
            "apiVersion": field(&["apiVersion"]), "kind": field(&["kind"]),
            "metadata": {"namespace": field(&["metadata", "namespace"]), "name": field(&["metadata", "name"])},
            "spec": {"selector": field(&["spec", "selector"])},
        })
    }

    /// The owner reference that this controller puts on its objects.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": text_at(self.value, &["apiVersion"]), "kind": text_at(self.value, &["kind"]),
            "name": self.name, "uid": self.uid, "controller": true, "blockOwnerDeletion": true,
        })
    }

    /// A pod of the template: its labels, annotations, finalizers and spec.
    pub fn pod(&self, name: PodNaming<'_>) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "spec": self.template().get("spec").cloned().unwrap_or_default(),
        });
        for field in ["labels", "annotations", "finalizers"] {
            if let Some(value) = at(self.template(), &["metadata", field]) {
                meta_mut(&mut pod).insert(field.into(), value.clone());
            }
        }
        match name {
            PodNaming::Generated => {
                meta_mut(&mut pod).insert("generateName".into(), format!("{}-", self.name).into())
            }
            PodNaming::Exactly(name) => meta_mut(&mut pod).insert("name".into(), name.into()),
        };
        self.adopt(&mut pod);
        pod
    }

    /// Puts an object into the controller's namespace, and makes the controller its owner.
    pub(crate) fn adopt(&self, dependent: &mut Value) {
        let meta = meta_mut(dependent);
        if !self.namespace.is_empty() {
            meta.insert("namespace".into(), self.namespace.into());
        }
        meta.insert("ownerReferences".into(), json!([self.reference()]));
    }
}

/// A short text for a template, in letters that names may have: the same for the same template. Kubernetes hashes another
/// form of the template, so its text differs.
pub fn template_hash(template: &Value) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = template.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    let letters = (0..10).map(|_| {
        let letter = LETTERS[(hash % 27) as usize];
        hash /= 27;
        char::from(letter)
    });
    letters.collect()
}

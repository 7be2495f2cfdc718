//! The API server of a history: what exists, with resource versions, and the watch events that the engine gets.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use kube_scheduler_api_types::{Node, Object, Pod};
use kube_scheduler_engine::Input;
use serde_json::Value;

use super::Numbers;

/// Namespace and name.
pub(crate) type PodKey = (String, String);
/// Kind, namespace and name.
type ObjectKey = (String, String, String);

/// Everything that exists.
#[derive(Debug, Default)]
pub(crate) struct ApiServer {
    revision: u64,
    pub(crate) pods: BTreeMap<PodKey, Value>,
    nodes: BTreeMap<String, Value>,
    objects: BTreeMap<ObjectKey, Value>,
}

impl ApiServer {
    fn stamp(&mut self, object: &mut Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
    }

    /// Stores a node and gives the watch event.
    pub(crate) fn put_node(&mut self, mut node: Value) -> Result<Input> {
        self.stamp(&mut node);
        let input = Input::NodeApplied(Arc::new(Node::from_value(&node)?));
        self.nodes.insert(text(&node["metadata"]["name"]), node);
        Ok(input)
    }

    /// A node, if it exists.
    pub(crate) fn node(&self, name: &str) -> Option<&Value> {
        self.nodes.get(name)
    }

    /// Removes a node, if it exists.
    pub(crate) fn delete_node(&mut self, name: &str) -> Option<Input> {
        self.nodes.remove(name)?;
        Some(Input::NodeDeleted { name: name.into() })
    }

    /// Stores an object and gives the watch event. An object that exists keeps its UID.
    pub(crate) fn put_object(&mut self, mut object: Value) -> Result<Input> {
        let key = object_key(&object);
        if let Some(before) = self.objects.get(&key)
            && !before["metadata"]["uid"].is_null()
        {
            object["metadata"]["uid"] = before["metadata"]["uid"].clone();
        }
        self.stamp(&mut object);
        let input = Input::ObjectApplied(Arc::new(Object::from_value(object.clone())?));
        self.objects.insert(key, object);
        Ok(input)
    }

    /// An object, if it exists.
    pub(crate) fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(kind.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    /// All objects of a kind.
    pub(crate) fn objects_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |((of, ..), _)| of == kind).map(|(_, object)| object)
    }

    /// Removes the object of this name, if it exists, and gives the watch event.
    pub(crate) fn delete_object(&mut self, object: &Value) -> Result<Option<Input>> {
        let Some(object) = self.objects.remove(&object_key(object)) else { return Ok(None) };
        Ok(Some(Input::ObjectDeleted(Arc::new(Object::from_value(object)?))))
    }

    /// Writes an object in place of the revision that it carries, as the API server would: the watch event and the stored
    /// object, or the reason of a refusal.
    pub(crate) fn replace_object(
        &mut self,
        object: &Object,
    ) -> Result<std::result::Result<(Input, Arc<Object>), &'static str>> {
        let json = Value::from(&*object.json);
        let key = object_key(&json);
        let Some(before) = self.objects.get(&key) else { return Ok(Err("NotFound")) };
        if before["metadata"]["resourceVersion"] != *object.resource_version {
            return Ok(Err("Conflict"));
        }
        let input = self.put_object(json)?;
        let stored = Object::from_value(self.objects[&key].clone())?;
        Ok(Ok((input, Arc::new(stored))))
    }

    /// Does one thing that the volume controllers would do, if there is any: complete the binding of a claim whose volume
    /// points to it, or make a volume for a claim whose node is chosen.
    ///
    /// A volume can be used where nodes have these labels in common with the chosen one.
    pub(crate) fn control_volumes(
        &mut self,
        topology: fn(&Self, &str) -> Vec<(String, String)>,
    ) -> Result<Vec<Input>> {
        let pending = |claim: &Value| claim["spec"]["volumeName"].is_null();
        let claims: Vec<Value> = self
            .objects
            .iter()
            .filter(|((kind, ..), claim)| kind == "PersistentVolumeClaim" && pending(claim))
            .map(|(_, claim)| claim.clone())
            .collect();
        for mut claim in claims {
            let uid = claim["metadata"]["uid"].clone();
            let volume = self.objects.iter().find(|((kind, ..), volume)| {
                kind == "PersistentVolume" && volume["spec"]["claimRef"]["uid"] == uid
            });
            let (mut volume, name) = match volume {
                Some(((_, _, name), volume)) => (volume.clone(), name.clone()),
                None => {
                    let annotations = &claim["metadata"]["annotations"];
                    let node = text(&annotations["volume.kubernetes.io/selected-node"]);
                    if node.is_empty() {
                        continue;
                    }
                    let name = format!("pv-of-{}", text(&uid));
                    let labels = topology(self, &node);
                    (super::shapes::provisioned(&name, &labels, &claim), name)
                }
            };
            volume["status"]["phase"] = "Bound".into();
            claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
            claim["spec"]["volumeName"] = name.into();
            claim["status"]["phase"] = "Bound".into();
            return Ok(vec![self.put_object(volume)?, self.put_object(claim)?]);
        }
        Ok(Vec::new())
    }

    /// Removes one object, whichever the numbers choose.
    pub(crate) fn delete_any_object(&mut self, numbers: &mut Numbers) -> Result<Option<Input>> {
        let Some(key) = any_key(&self.objects, numbers) else { return Ok(None) };
        let Some(object) = self.objects.remove(&key) else { return Ok(None) };
        Ok(Some(Input::ObjectDeleted(Arc::new(Object::from_value(object)?))))
    }

    /// Stores a pod and gives the watch event.
    pub(crate) fn put_pod(&mut self, mut pod: Value) -> Result<Input> {
        self.stamp(&mut pod);
        let input = Input::PodApplied(Arc::new(Pod::from_value(&pod)?));
        self.pods.insert(pod_key(&pod), pod);
        Ok(input)
    }

    /// Changes a pod, if it exists, and gives the watch event.
    pub(crate) fn change_pod(
        &mut self,
        key: &PodKey,
        change: impl FnOnce(&mut Value),
    ) -> Result<Option<Input>> {
        let Some(mut pod) = self.pods.get(key).cloned() else { return Ok(None) };
        change(&mut pod);
        self.put_pod(pod).map(Some)
    }

    /// Removes a pod, if it exists.
    pub(crate) fn delete_pod(&mut self, key: &PodKey) -> Option<Input> {
        self.pods.remove(key)?;
        Some(Input::PodDeleted { namespace: key.0.as_str().into(), name: key.1.as_str().into() })
    }

    /// The pod with this UID.
    pub(crate) fn pod_of(&self, uid: &str) -> Option<PodKey> {
        self.pods.iter().find(|(_, pod)| pod["metadata"]["uid"] == *uid).map(|(key, _)| key.clone())
    }

    /// One pod, whichever the numbers choose.
    pub(crate) fn any_pod(&self, numbers: &mut Numbers) -> Option<PodKey> {
        any_key(&self.pods, numbers)
    }

    /// Removes everything, in any order of kinds.
    pub(crate) fn clear(&mut self) -> Result<Vec<Input>> {
        let mut inputs = Vec::new();
        for key in self.pods.keys().cloned().collect::<Vec<_>>() {
            inputs.extend(self.delete_pod(&key));
        }
        for name in self.nodes.keys().cloned().collect::<Vec<_>>() {
            inputs.extend(self.delete_node(&name));
        }
        for (_, object) in std::mem::take(&mut self.objects) {
            inputs.push(Input::ObjectDeleted(Arc::new(Object::from_value(object)?)));
        }
        Ok(inputs)
    }
}

fn any_key<K: Ord + Clone>(map: &BTreeMap<K, Value>, numbers: &mut Numbers) -> Option<K> {
    let n = u64::try_from(map.len()).ok().filter(|n| *n > 0)?;
    map.keys().nth(usize::try_from(numbers.below(n)).ok()?).cloned()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn pod_key(pod: &Value) -> PodKey {
    (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]))
}

fn object_key(object: &Value) -> ObjectKey {
    let metadata = &object["metadata"];
    (text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

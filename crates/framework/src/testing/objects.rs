//! Builders of nodes, pods and other objects: a statement of the [grammar](super::grammar), and methods for what a program
//! computes.

use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::{Node, Object, Pod};
use serde_json::{Value, json};

use super::grammar;
use super::json::{merge, push};

/// A node with 4 CPUs, 8 GiB and room for 110 pods, unless the words behind its name say otherwise: `node("n1 cpu=2 zone=a")`.
///
/// # Panics
/// If the text is no statement of the [grammar].
pub fn node(text: &str) -> NodeBuilder {
    NodeBuilder(read(grammar::one_of(&grammar::NODE, text)))
}

/// A pod of the default scheduler in the namespace `default` with one container that asks for nothing, unless the words behind
/// its name say otherwise: `pod("web cpu=500m label:app=web")`.
///
/// # Panics
/// If the text is no statement of the [grammar].
pub fn pod(text: &str) -> PodBuilder {
    PodBuilder(read(grammar::one_of(&grammar::POD, text)))
}

/// An object of any kind: `object("pvc data storage=5Gi class=fast")`.
///
/// # Panics
/// If the text is no statement of the [grammar].
pub fn object(text: &str) -> ObjectBuilder {
    ObjectBuilder(read(grammar::one(text)))
}

fn read<T>(result: Result<T, impl fmt::Display>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// What builders have in common. `$decoded` is what the scheduler keeps of the JSON.
macro_rules! builders {
    ($($(#[$doc:meta])* $builder:ident => $object:ident by |$json:ident| $decoded:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $builder(pub(super) Value);

        impl $builder {
            /// With these fields of the API object added, map by map.
            #[must_use]
            pub fn with(mut self, fields: Value) -> Self {
                merge(&mut self.0, fields);
                self
            }

            /// What it describes, as the scheduler keeps it.
            ///
            /// # Panics
            /// If it does not decode.
            pub fn build(&self) -> Arc<$object> {
                let $json = &self.0;
                Arc::new(read($decoded))
            }
        }

        impl From<$builder> for Arc<$object> {
            fn from(builder: $builder) -> Self {
                builder.build()
            }
        }
    )*};
}

builders! {
    /// A builder of a node; see [`node`](super::node).
    NodeBuilder => Node by |json| Node::from_value(json);
    /// A builder of a pod; see [`pod`](super::pod).
    PodBuilder => Pod by |json| Pod::from_value(json);
    /// An object of any kind under construction.
    ObjectBuilder => Object by |json| Object::from_value(json.clone());
}

/// Methods that set one field of the API object.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) sets $([$step:expr])+ to $value:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $($arg: $type),*) -> Self {
            self.0$([$step])+ = $value.into();
            self
        }
    )*};
}

impl NodeBuilder {
    setters! {
        /// With a label.
        label(key: &str, value: &str) sets ["metadata"]["labels"][key] to value;
        /// With an annotation.
        annotation(key: &str, value: &str) sets ["metadata"]["annotations"][key] to value;
        /// With so much of a resource, such as `("example.com/gpu", "4")`.
        allocatable(resource: &str, amount: &str) sets ["status"]["allocatable"][resource] to amount;
        /// Makes the node cordoned.
        cordoned() sets ["spec"]["unschedulable"] to true;
    }

    /// With a taint; `effect` is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        push(&mut self.0["spec"]["taints"], json!({"key": key, "value": value, "effect": effect}));
        self
    }

    /// The API object, to create it in a cluster.
    pub fn to_json(&self) -> Value {
        self.0.clone()
    }
}

impl PodBuilder {
    setters! {
        /// Sets the namespace.
        namespace(namespace: &str) sets ["metadata"]["namespace"] to namespace;
        /// With a label.
        label(key: &str, value: &str) sets ["metadata"]["labels"][key] to value;
        /// Sets `spec.schedulerName`, the name of the profile.
        scheduler_name(name: &str) sets ["spec"]["schedulerName"] to name;
        /// Sets `spec.priority`.
        priority(priority: i32) sets ["spec"]["priority"] to priority;
        /// Asking for so much of a resource.
        request(resource: &str, amount: &str)
            sets ["spec"]["containers"][0]["resources"]["requests"][resource] to amount;
        /// Only for nodes with this label.
        node_selector(key: &str, value: &str) sets ["spec"]["nodeSelector"][key] to value;
        /// Lets the pod run on a node.
        on(node: &str) sets ["spec"]["nodeName"] to node;
    }

    /// Tolerating every taint with this key.
    #[must_use]
    pub fn toleration(mut self, key: &str) -> Self {
        push(&mut self.0["spec"]["tolerations"], json!({"key": key, "operator": "Exists"}));
        self
    }

    /// The API object without what the API server gives itself, to create it in a cluster.
    pub fn to_json(&self) -> Value {
        let mut json = self.0.clone();
        if let Some(metadata) = json["metadata"].as_object_mut() {
            metadata.remove("uid");
        }
        json
    }
}

impl ObjectBuilder {
    /// The object as the API server would send it.
    pub fn to_json(&self) -> Value {
        self.0.clone()
    }
}

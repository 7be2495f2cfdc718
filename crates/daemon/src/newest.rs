//! How far the cluster has been seen: the newest revision of all objects that came in.
//!
//! All objects of a cluster are numbered together, as Kubernetes promises for what etcd stores; a server that numbers them
//! otherwise gives none.

use kube_scheduler_engine::Input;

/// The newest revision seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NewestRevision(u64);

impl NewestRevision {
    /// Updates it from an input's object.
    pub(crate) fn see(&mut self, input: &Input) {
        let version = match input {
            Input::PodApplied(pod) => &pod.resource_version,
            Input::NodeApplied(node) => &node.resource_version,
            Input::ObjectApplied(object) | Input::ObjectDeleted(object) => &object.resource_version,
            _ => return,
        };
        self.see_version(version);
    }

    /// Updates it from the revision of an object.
    pub(crate) fn see_version(&mut self, version: &str) {
        if let Ok(version) = version.parse() {
            self.0 = self.0.max(version);
        }
    }

    /// The revision as Kubernetes writes it; `None` before anything was seen.
    pub(crate) fn resource_version(self) -> Option<String> {
        (self.0 > 0).then(|| self.0.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_scheduler_api_types::Pod;
    use serde_json::json;

    use super::*;

    #[test]
    fn it_never_goes_back_and_ignores_what_is_no_number() {
        let mut newest = NewestRevision::default();
        assert_eq!(newest.resource_version(), None);
        for (version, expected) in [("7", "7"), ("12", "12"), ("9", "12"), ("x", "12"), ("", "12")]
        {
            let pod = json!({"metadata": {"name": "p", "resourceVersion": version}});
            newest.see(&Input::PodApplied(Arc::new(Pod::from_value(&pod).unwrap())));
            assert_eq!(newest.resource_version().as_deref(), Some(expected), "{version}");
        }
    }
}

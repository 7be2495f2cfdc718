//! What nodes and drivers say about storage: CSINode, CSIDriver.

use kube_scheduler_framework::api::{InTreePlugin, Object};

use super::objects::annotation;

/// Annotation of a CSINode: in-tree plugins that are migrated there.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// What a node says about the drivers on it. Has the name of its node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CsiNode<'a>(pub(crate) &'a Object);

impl<'a> CsiNode<'a> {
    /// The migrated in-tree plugins as written; empty when there is no such annotation.
    pub(crate) fn migrated_plugins(self) -> &'a str {
        annotation(self.0, MIGRATED_PLUGINS).unwrap_or_default()
    }

    /// Whether an in-tree plugin is migrated, and listed as such. Names are compared as they stand between the commas.
    pub(crate) fn has_migrated(self, plugin: InTreePlugin) -> bool {
        plugin.is_migration_on()
            && self.migrated_plugins().split(',').any(|name| name == plugin.name())
    }

    /// The drivers, with how many volumes each can attach, in order.
    pub(crate) fn drivers(self) -> impl Iterator<Item = (&'a str, Option<i64>)> {
        self.0.json["spec"]["drivers"].as_array().into_iter().flatten().map(|driver| {
            let name = driver["name"].as_str().unwrap_or_default();
            (name, driver["allocatable"]["count"].as_i64())
        })
    }
}

/// What a driver wants of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CsiDriver<'a>(pub(crate) &'a Object);

impl CsiDriver<'_> {
    /// `spec.storageCapacity`: the capacity it publishes is to be respected.
    pub(crate) fn publishes_capacity(self) -> bool {
        self.0.json["spec"]["storageCapacity"].as_bool().unwrap_or_default()
    }

    /// `spec.preventPodSchedulingIfMissing`: pods that need it must not go to nodes without it.
    pub(crate) fn is_required_on_nodes(self) -> bool {
        self.0.json["spec"]["preventPodSchedulingIfMissing"].as_bool().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_lists_its_migrated_plugins_to_the_letter() {
        let object = Object::from_value(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": "n", "annotations": {
                "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs, kubernetes.io/cinder,kubernetes.io/azure-file",
            }},
        }))
        .unwrap();
        let node = CsiNode(&object);
        assert!(node.has_migrated(InTreePlugin::AwsElasticBlockStore));
        assert!(!node.has_migrated(InTreePlugin::Cinder));
        assert!(!node.has_migrated(InTreePlugin::AzureFile));
    }
}

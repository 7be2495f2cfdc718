//! Classes of resource names: native, extended, scalar (`docs/spec/plugins-node.md` §2.2).
//!
//! Invariant: every function is total and linear in the length of the name.

use crate::validation::label_key_messages;

/// The name of the resource CPU time.
pub const CPU: &str = "cpu";
/// The name of the resource memory.
pub const MEMORY: &str = "memory";
/// The name of the resource local ephemeral storage.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// The number of pods that a node may run.
pub const PODS: &str = "pods";
/// Prefix of the resources that stand for a device class by its name.
pub const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

const HUGE_PAGES_PREFIX: &str = "hugepages-";
const ATTACHABLE_VOLUMES_PREFIX: &str = "attachable-volumes-";
const QUOTA_REQUEST_PREFIX: &str = "requests.";

/// Whether the name belongs to Kubernetes: no domain, or a `kubernetes.io/` anywhere.
fn is_native_resource(name: &str) -> bool {
    !name.contains('/') || is_prefixed_native_resource(name)
}

/// Whether `kubernetes.io/` is part of the name. Quirk: anywhere, so `notkubernetes.io/x` counts.
fn is_prefixed_native_resource(name: &str) -> bool {
    name.contains("kubernetes.io/")
}

/// Whether the name is an extended resource, such as `nvidia.com/gpu`.
pub fn is_extended_resource(name: &str) -> bool {
    // The reference validates the name quota would use, so the limit on the domain is shorter by that prefix.
    !is_native_resource(name)
        && !name.starts_with(QUOTA_REQUEST_PREFIX)
        && label_key_messages(&format!("{QUOTA_REQUEST_PREFIX}{name}")).is_empty()
}

/// Whether the name is a size of huge pages.
fn is_huge_page_resource(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX)
}

/// Whether the name is a limit of attachable volumes.
fn is_attachable_volume_resource(name: &str) -> bool {
    name.starts_with(ATTACHABLE_VOLUMES_PREFIX)
}

/// Whether the scheduler counts the resource in whole units: extended, huge pages, prefixed native, attachable volumes.
pub fn is_scalar_resource(name: &str) -> bool {
    is_huge_page_resource(name)
        || is_attachable_volume_resource(name)
        || is_prefixed_native_resource(name)
        || is_extended_resource(name)
}

/// Whether dynamic resource allocation may serve the resource.
pub fn is_dra_extended_resource(name: &str) -> bool {
    name.starts_with(DEVICE_CLASS_PREFIX) || is_extended_resource(name)
}

/// Whether dynamic resource allocation might serve the resource, without [checking](is_dra_extended_resource) that the name
/// is valid: for questions that are asked of every pod.
pub fn may_be_dra_extended_resource(name: &str) -> bool {
    name.starts_with(DEVICE_CLASS_PREFIX) || !is_native_resource(name)
}

/// Whether `spec.resources` of a pod may set the resource.
pub(crate) fn is_pod_level_resource(name: &str) -> bool {
    matches!(name, CPU | MEMORY) || is_huge_page_resource(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        for name in ["nvidia.com/gpu", "example.com/foo", "a.b/c_d.e"] {
            assert!(
                is_extended_resource(name)
                    && is_scalar_resource(name)
                    && is_dra_extended_resource(name),
                "{name}"
            );
        }
        for name in
            ["hugepages-2Mi", "attachable-volumes-csi-x", "kubernetes.io/x", "notkubernetes.io/x"]
        {
            assert!(!is_extended_resource(name) && is_scalar_resource(name), "{name}");
        }
        for name in [
            "cpu",
            "memory",
            "pods",
            "storage",
            "foo",
            "a/b/c",
            "requests.example.com/x",
            "A.com/x",
            ".com/x",
        ] {
            assert!(!is_scalar_resource(name), "{name}");
        }
        let class = "deviceclass.resource.kubernetes.io/gpu";
        assert!(
            is_dra_extended_resource(class)
                && is_scalar_resource(class)
                && !is_extended_resource(class)
        );
        assert!(!is_dra_extended_resource("hugepages-2Mi"));
    }

    #[test]
    fn quota_prefix_counts_towards_the_length_of_the_domain() {
        let label = "a".repeat(63);
        let domain = |rest: usize| format!("{label}.{label}.{label}.{}/x", "b".repeat(rest));
        // 3 * 64 + 52 = 244 bytes and 9 more for the prefix.
        assert!(is_extended_resource(&domain(52)));
        assert!(!is_extended_resource(&domain(53)));
    }
}

//! Amounts of resources by name: what pods ask for, what nodes have left, and how both are written.

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, PodRequests, Resources};
use kube_scheduler_cache::columns::ResourceColumns;
use kube_scheduler_cache::{ClusterState, NodeIdx};

/// The resources that every node has.
const BASIC: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What a pod asks for by resource, as NodeResourcesFit counts it: CPU in thousandths, memory and storage in bytes; these three
/// also if nothing is asked, then the others by name.
pub(crate) fn requested(pod: &Pod) -> Vec<(Arc<str>, i64)> {
    let fit = &pod.requests.fit;
    let basic = [fit.milli_cpu, fit.memory, fit.ephemeral_storage];
    let basic = BASIC.into_iter().zip(basic).map(|(name, amount)| (Arc::from(name), amount));
    basic.chain(fit.scalars.iter().map(|(name, amount)| (Arc::from(&**name), *amount))).collect()
}

/// How much of what [`requested`] says is the pod's overhead: the rest is what its manifest asks for.
pub(crate) fn overhead_of(pod: &Pod, resource: &str) -> i64 {
    let Some(overhead) = &pod.requests.overhead else { return 0 };
    match resource {
        "cpu" => overhead.milli_cpu,
        "memory" => overhead.memory,
        "ephemeral-storage" => overhead.ephemeral_storage,
        _ => overhead.scalar(resource).unwrap_or(0),
    }
}

/// The overhead of a pod as manifests write it, if there is any of this resource.
pub(crate) fn written_overhead(resource: &str, overhead: i64) -> Option<String> {
    (overhead != 0).then(|| quantity(resource, overhead))
}

/// What is said after an amount that comes without the pod's overhead.
pub(crate) fn beside_overhead(overhead: Option<&str>) -> String {
    overhead.map(|overhead| format!(", beside {overhead} of overhead")).unwrap_or_default()
}

/// A copy of the pod whose request for `resource` is `amount`. The resource must be one that the pod asks for already, or CPU,
/// memory or ephemeral storage.
pub(crate) fn with_request(pod: &Pod, resource: &str, amount: i64) -> Pod {
    let mut requests: PodRequests = (*pod.requests).clone();
    for counted in [&mut requests.fit, &mut requests.accounted] {
        set(counted, resource, amount);
    }
    Pod { requests: Arc::new(requests), ..pod.clone() }
}

fn set(resources: &mut Resources, name: &str, amount: i64) {
    match name {
        "cpu" => resources.milli_cpu = amount,
        "memory" => resources.memory = amount,
        "ephemeral-storage" => resources.ephemeral_storage = amount,
        _ => {
            for (known, value) in &mut resources.scalars {
                if **known == *name {
                    *value = amount;
                }
            }
        }
    }
}

/// How much of a resource a node has.
pub(crate) fn allocatable(cluster: &ClusterState, resource: &str, idx: NodeIdx) -> i64 {
    let columns = cluster.allocatable();
    amount(columns, resource, idx).or(columns.scalar_at(resource, idx)).unwrap_or(0)
}

/// The node's allocatable amount of a resource less what its pods request; negative if they request more than there is.
pub(crate) fn free(cluster: &ClusterState, resource: &str, idx: NodeIdx) -> i64 {
    let used = amount(cluster.requested(), resource, idx);
    let used = used.or_else(|| cluster.requested_scalar(resource, idx)).unwrap_or(0);
    allocatable(cluster, resource, idx).saturating_sub(used)
}

/// The amount of a basic resource.
fn amount(columns: &ResourceColumns, resource: &str, idx: NodeIdx) -> Option<i64> {
    match resource {
        "cpu" => Some(columns.milli_cpu().get(idx)),
        "memory" => Some(columns.memory().get(idx)),
        "ephemeral-storage" => Some(columns.ephemeral_storage().get(idx)),
        _ => None,
    }
}

/// An amount as manifests write it: thousandths for CPU (`1500m`), bytes with the largest suffix of powers of 1,024 that says
/// exactly as much (`8Gi`), and otherwise a number without a unit.
pub(crate) fn quantity(resource: &str, amount: i64) -> String {
    const SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

    if resource == "cpu" {
        return format!("{amount}m");
    }
    let (mut amount, mut suffix) = (amount, "");
    if is_in_bytes(resource) && amount != 0 {
        for larger in SUFFIXES {
            if amount % 1024 != 0 {
                break;
            }
            (amount, suffix) = (amount / 1024, larger);
        }
    }
    format!("{amount}{suffix}")
}

fn is_in_bytes(resource: &str) -> bool {
    matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use super::quantity;

    #[test]
    fn bytes_have_a_suffix_where_it_is_exact() {
        for (resource, amount, expected) in [
            ("cpu", 1_500, "1500m"),
            ("memory", 8 << 30, "8Gi"),
            ("memory", (1 << 30) + (1 << 29), "1536Mi"),
            ("memory", 1_000_000_000, "1000000000"),
            ("memory", 1_025, "1025"),
            ("memory", 0, "0"),
            ("memory", i64::MAX, "9223372036854775807"),
            ("ephemeral-storage", 3 << 60 >> 1, "1536Pi"),
            ("hugepages-2Mi", 4 << 20, "4Mi"),
            ("example.com/gpu", 1_024, "1024"),
        ] {
            assert_eq!(quantity(resource, amount), expected);
        }
    }
}

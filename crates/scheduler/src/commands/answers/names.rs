//! Names of pods as users write them, and what is said of one that there is not.

use anyhow::Result;
use kube_scheduler_answers::{PodName, PodNameError};

/// What kubectl takes for pods before a `/`.
const PODS: [&str; 3] = ["pod", "pods", "po"];

/// What it takes for things that have pods, or that are none.
const OTHERS: [&str; 25] = [
    "deployment",
    "deployments",
    "deploy",
    "replicaset",
    "replicasets",
    "rs",
    "statefulset",
    "statefulsets",
    "sts",
    "daemonset",
    "daemonsets",
    "ds",
    "job",
    "jobs",
    "cronjob",
    "cronjobs",
    "cj",
    "replicationcontroller",
    "replicationcontrollers",
    "rc",
    "podgroup",
    "podgroups",
    "node",
    "nodes",
    "no",
];

/// A pod by name: `NAMESPACE/NAME`, or in `namespace` `NAME`, which may have `pod/` before it.
pub(super) fn name_in(namespace: &str, text: &str) -> Result<PodName, PodNameError> {
    let name = match text.split_once('/') {
        Some((kind, name)) if is_among(&PODS, kind) && !name.contains('/') => name,
        _ => text,
    };
    PodName::parse_in(namespace, name)
}

/// Pods by name; those that name no namespace are in `namespace`.
pub(super) fn names_in(namespace: &str, pods: &[String]) -> Result<Vec<PodName>> {
    pods.iter().map(|pod| Ok(name_in(namespace, pod)?)).collect()
}

/// What a user may have meant by a pod that does not exist.
pub(crate) fn hint_about(missing: &PodName) -> Option<String> {
    let PodName { namespace, name } = missing;
    is_among(&OTHERS, namespace).then(|| {
        format!(
            "{namespace}/{name} means pod {name} of namespace {namespace}: ask about a pod by its name, or about a workload with its manifest, by --pods or what-if --add"
        )
    })
}

fn is_among(kinds: &[&str], kind: &str) -> bool {
    // As in deployments.apps.
    let kind = kind.split('.').next().unwrap_or(kind);
    kinds.iter().any(|known| known.eq_ignore_ascii_case(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_may_be_named_as_for_kubectl() {
        let named = |text: &str| name_in("shop", text).map(|name| name.to_string());
        for text in ["web", "pod/web", "pods/web", "po/web", "Pod/web", "shop/web"] {
            assert_eq!(named(text), Ok("shop/web".to_owned()), "{text}");
        }
        assert_eq!(named("bank/web"), Ok("bank/web".to_owned()));
        for text in ["pod/", "/web", "pod/shop/web"] {
            assert!(named(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_pod_is_told() {
        let hint = |text: &str| hint_about(&name_in("shop", text).unwrap());
        for text in ["deployment/web", "deployments.apps/web", "sts/db", "node/n1"] {
            assert!(hint(text).is_some(), "{text}");
        }
        assert_eq!((hint("web"), hint("bank/web")), (None, None));
    }
}

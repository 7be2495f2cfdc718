//! Template files, and what stands in for those that a definition leaves out.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use kube_scheduler_devcluster::KINDS;
use serde_json::{Value, json};

use super::go_template::{Env, render};

/// Templates of one definition file, each read once.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    path: PathBuf,
    text: String,
}

impl Template {
    /// Reads a template; `path` is relative to the definition's directory.
    pub(crate) fn read(directory: &Path, path: &str) -> Result<Self> {
        let path = directory.join(path);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(Self { path, text })
    }

    /// The object of this number, expressions filled in.
    pub(crate) fn object(&self, env: Env<'_>) -> Result<Value> {
        let located = || self.path.display().to_string();
        let text = render(&self.text, env).with_context(located)?;
        serde_saphyr::from_str(&text).map_err(|error| anyhow!(error)).with_context(located)
    }

    /// The object as it is written, for files whose expressions are not filled in.
    pub(crate) fn plain(&self) -> Result<Value> {
        serde_saphyr::from_str(&self.text)
            .map_err(|error| anyhow!(error))
            .with_context(|| self.path.display().to_string())
    }
}

/// The pod of operations without a template.
pub(crate) fn base_pod() -> Value {
    let resources = json!({"cpu": "100m", "memory": "500Mi"});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "pod-"},
        "spec": {"containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10.1",
            "ports": [{"containerPort": 80}],
            "resources": {"limits": resources, "requests": resources}}]},
    })
}

/// The node of operations without a template.
pub(crate) fn base_node(name_prefix: &str) -> Value {
    let resources = json!({"pods": "110", "cpu": "4", "memory": "32Gi"});
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"generateName": name_prefix},
        "status": {"capacity": resources, "allocatable": resources, "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// Where objects like `object` are. A namespace is needed by kinds that live in one and refused by others.
pub(crate) fn collection(object: &Value, namespace: &str) -> Result<String> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let group = version.rsplit_once('/').map_or("", |(group, _)| group);
    let known = KINDS
        .iter()
        .find(|known| known.group == group && known.kind == kind && !known.review)
        .with_context(|| {
            let near = KINDS.iter().filter(|known| known.group == group).map(|known| known.kind);
            let near: Vec<&str> = near.collect();
            format!(
                "kind {kind:?} of {version:?} is not known; known of that group are: {}",
                near.join(", ")
            )
        })?;
    let root =
        if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{version}") };
    match (known.namespaced, namespace.is_empty()) {
        (true, false) => Ok(format!("{root}/namespaces/{namespace}/{}", known.plural)),
        (false, true) => Ok(format!("{root}/{}", known.plural)),
        (true, true) => Err(anyhow!("namespace not set, but {kind} lives in one")),
        (false, false) => Err(anyhow!("namespace {namespace:?} set, but {kind} lives in none")),
    }
}

/// A ResourceSlice of a node, with this many devices.
pub(crate) fn resource_slice(driver: &str, node: &str, n_devices: usize) -> Value {
    let device = |index: usize| {
        json!({
            "name": format!("instance-{index}"),
            "attributes": {"model": {"string": "A100"}, "family": {"string": "GPU"},
                "driverVersion": {"version": "1.2.3"}, "dra.example.com/numa": {"int": index}},
            "capacity": {"memory": {"value": "1Gi"}},
        })
    };
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node},
        "spec": {"driver": driver, "nodeName": node,
            "pool": {"name": node, "generation": 0, "resourceSliceCount": 1},
            "devices": (0..n_devices).map(device).collect::<Vec<_>>()},
    })
}

/// Whether a name fits a shell pattern with `*`, `?` and `[a-z]`.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = rest.as_str();
            name.char_indices()
                .map(|(at, _)| at)
                .chain([name.len()])
                .any(|at| fits(rest, &name[at..]))
        }
        Some(first) => {
            let mut names = name.chars();
            let Some(c) = names.next() else { return false };
            let (is_equal, rest) = match first {
                '?' => (true, rest.as_str()),
                '[' => match rest.as_str().split_once(']') {
                    Some((class, rest)) => (in_class(class, c), rest),
                    None => return false,
                },
                '\\' => (rest.next() == Some(c), rest.as_str()),
                other => (other == c, rest.as_str()),
            };
            is_equal && fits(rest, names.as_str())
        }
    }
}

fn in_class(class: &str, c: char) -> bool {
    let (class, wanted) = match class.strip_prefix('^') {
        Some(class) => (class, false),
        None => (class, true),
    };
    let chars: Vec<char> = class.chars().collect();
    let mut at = 0;
    let mut is_in = false;
    while at < chars.len() {
        if chars.get(at + 1) == Some(&'-') && at + 2 < chars.len() {
            is_in |= (chars[at]..=chars[at + 2]).contains(&c);
            at += 3;
        } else {
            is_in |= chars[at] == c;
            at += 1;
        }
    }
    is_in == wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_where_they_live() {
        let at = |version: &str, kind: &str, namespace: &str| {
            collection(&json!({"apiVersion": version, "kind": kind}), namespace)
                .map_err(|error| error.to_string())
        };
        assert_eq!(at("v1", "Pod", "a").unwrap(), "/api/v1/namespaces/a/pods");
        assert_eq!(at("v1", "Node", "").unwrap(), "/api/v1/nodes");
        assert_eq!(
            at("resource.k8s.io/v1", "DeviceClass", "").unwrap(),
            "/apis/resource.k8s.io/v1/deviceclasses"
        );
        assert_eq!(at("v1", "Pod", "").unwrap_err(), "namespace not set, but Pod lives in one");
        assert_eq!(
            at("v1", "Node", "a").unwrap_err(),
            "namespace \"a\" set, but Node lives in none"
        );
        assert!(
            at("v1", "Podd", "a").unwrap_err().starts_with("kind \"Podd\" of \"v1\" is not known")
        );
    }

    #[test]
    fn patterns_are_those_of_shells() {
        for (pattern, name, expected) in [
            ("scheduler-perf-dra-*", "scheduler-perf-dra-x", true),
            ("scheduler-perf-dra-*", "node-x", false),
            ("*", "", true),
            ("a?c", "abc", true),
            ("a[0-9]c", "a5c", true),
            ("a[^0-9]c", "a5c", false),
            ("a\\*c", "a*c", true),
            ("a", "ab", false),
            ("*b", "aab", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}

//! The worst pods that a tenant can create, as far as we know: each kind once cost the core seconds or hundreds of megabytes.

pub mod beside;

use serde_json::{Map, Value, json};

/// A kind of pods.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What there is much of.
    pub name: &'static str,
    /// How many of them are too many.
    pub n_pods: usize,
    /// Metadata and specification of one of them, by number.
    pub pod: fn(usize, Share) -> Value,
}

/// How large pods are, as a share of the worst.
#[derive(Clone, Copy, Debug)]
pub struct Share(pub usize);

impl Share {
    /// All of it.
    pub const WHOLE: Self = Self(1);

    fn of(self, n: usize) -> usize {
        n / self.0
    }
}

/// All kinds, plain pods first.
pub const KINDS: [Kind; 15] = [
    Kind { name: "Plain", n_pods: 20, pod: |_, _| pod(json!({})) },
    Kind { name: "SpreadConstraints", n_pods: 4, pod: spread },
    Kind { name: "NamespacesTimesValues", n_pods: 20, pod: namespaces },
    Kind { name: "RequiredTerms", n_pods: 4, pod: required_terms },
    Kind { name: "NodeSelector", n_pods: 4, pod: node_selector },
    Kind { name: "TopologyKeys", n_pods: 20, pod: preferred_keys },
    Kind { name: "RunningTopologyKeys", n_pods: 20, pod: running_keys },
    Kind { name: "RunningNegativeTerms", n_pods: 20, pod: running_negative_terms },
    Kind { name: "RunningTermsForOthers", n_pods: 20, pod: running_terms_for_others },
    Kind { name: "Resources", n_pods: 4, pod: resources },
    Kind { name: "RunningResources", n_pods: 4, pod: running_resources },
    Kind { name: "RunningPorts", n_pods: 4, pod: running_ports },
    Kind { name: "RunningClaims", n_pods: 4, pod: running_claims },
    Kind { name: "Labels", n_pods: 60, pod: labels },
    Kind { name: "RunningLabels", n_pods: 60, pod: running_labels },
];

fn pod(spec: Value) -> Value {
    json!({"metadata": {"labels": {"app": "evil"}}, "spec": spec})
}

fn spread(_: usize, share: Share) -> Value {
    let constraint = |at| {
        json!({"maxSkew": 1, "topologyKey": format!("unknown/{at}"), "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "evil"}}})
    };
    let term = |at| json!({"matchExpressions": [{"key": format!("a/{at}"), "operator": "Exists"}]});
    pod(json!({
        "topologySpreadConstraints": list(share.of(300), constraint),
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": list(share.of(1000), term)}}},
    }))
}

fn namespaces(which: usize, share: Share) -> Value {
    let texts = |prefix: &str| list(share.of(2000), |at| format!("{prefix}{which}-{at}").into());
    let selector =
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": texts("v")}]});
    let term = json!({"topologyKey": "zone", "namespaces": texts("n"), "labelSelector": selector});
    pod(
        json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": term}]}}}),
    )
}

fn term(which: usize, at: usize) -> Value {
    json!({"topologyKey": format!("k{which}/{at}"), "labelSelector": {"matchLabels": {"app": "evil"}}})
}

fn required_terms(which: usize, share: Share) -> Value {
    let terms = list(share.of(4000), |at| term(which, at));
    pod(
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}),
    )
}

fn node_selector(which: usize, share: Share) -> Value {
    let pairs: Map<String, Value> =
        (0..share.of(40_000)).map(|at| (format!("k{which}/{at}"), "x".into())).collect();
    pod(json!({"nodeSelector": pairs}))
}

fn preferred_keys(which: usize, share: Share) -> Value {
    let terms = list(share.of(3000), |at| json!({"weight": 1, "podAffinityTerm": term(which, at)}));
    pod(
        json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}),
    )
}

fn running_keys(which: usize, share: Share) -> Value {
    let term = |at| json!({"topologyKey": format!("k{which}/{at}"), "labelSelector": {}});
    let terms = list(share.of(3000), term);
    pod(json!({"nodeName": "n1", "affinity": {"podAntiAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}))
}

/// Terms that may mean any pod, and mean none that has an application: what pods are without cannot be looked up.
fn running_negative_terms(which: usize, share: Share) -> Value {
    let term = |at| {
        json!({"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {"matchExpressions": [
            {"key": format!("k{which}-{at}"), "operator": "DoesNotExist"}, {"key": "app", "operator": "DoesNotExist"}]}})
    };
    pod(json!({"nodeName": "n1", "affinity": {"podAntiAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": list(share.of(3000), term)}}}))
}

/// Terms about a label that pods of others have.
fn running_terms_for_others(which: usize, share: Share) -> Value {
    let term = |at| {
        json!({"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {"matchLabels":
            {"app": "first", "of": format!("t{which}-{at}")}}})
    };
    pod(json!({"nodeName": "n1", "affinity": {"podAntiAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": list(share.of(3000), term)}}}))
}

fn resources(which: usize, share: Share) -> Value {
    let requests: Map<String, Value> = (0..share.of(20_000))
        .map(|at| (format!("example.com/r{which}-{at}"), "1".into()))
        .collect();
    pod(json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}))
}

fn running_resources(which: usize, share: Share) -> Value {
    let mut pod = resources(which, share);
    pod["spec"]["nodeName"] = "n1".into();
    pod
}

/// Ports of different addresses, each before the one that was named last.
fn running_ports(which: usize, share: Share) -> Value {
    let n = share.of(15_000);
    let port =
        |at| json!({"hostIP": format!("10.0.0.{which}"), "hostPort": n - at, "containerPort": 1});
    pod(json!({"nodeName": "n1", "containers": [{"name": "c", "ports": list(n, port)}]}))
}

fn running_claims(which: usize, share: Share) -> Value {
    let volume = |at| json!({"name": format!("v{at}"), "persistentVolumeClaim": {"claimName": format!("c{which}-{at}")}});
    pod(json!({"nodeName": "n1", "volumes": list(share.of(10_000), volume)}))
}

fn running_labels(which: usize, share: Share) -> Value {
    let mut pod = labels(which, share);
    pod["spec"]["nodeName"] = "n1".into();
    pod
}

fn labels(which: usize, share: Share) -> Value {
    let labels: Map<String, Value> = (0..share.of(60_000))
        .map(|at| (format!("k{which}-{at}"), format!("v{at}").into()))
        .collect();
    json!({"metadata": {"labels": labels}, "spec": {}})
}

/// The worst specification of an object of this kind, by number; nothing if a tenant may not write such objects, or nothing is known to
/// be bad about them.
pub fn worst_object(kind: &str, which: usize, share: Share) -> Option<Value> {
    let texts = |prefix: &str, n| list(share.of(n), |at| format!("{prefix}{which}-{at}").into());
    let pairs = |n| -> Map<String, Value> {
        (0..share.of(n)).map(|at| (format!("k{which}-{at}"), "v".into())).collect()
    };
    // Whatever is none of these.
    let none_of = |_| json!({"key": "app", "operator": "NotIn", "values": texts("v", 2000)});
    Some(match kind {
        "Service" if which.is_multiple_of(2) => json!({"selector": pairs(30_000)}),
        "Service" => json!({"selector": {}}),
        "PodDisruptionBudget" => json!({"selector": {"matchExpressions": list(20, none_of)}}),
        "PersistentVolumeClaim" => json!({
            "storageClassName": "local", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "selector": {"matchLabels": pairs(20_000), "matchExpressions": list(20, none_of)},
        }),
        "ResourceClaim" => {
            let numbers = list(share.of(3000), |at| at.into());
            let numbers = Value::from(numbers);
            let selector = |at| {
                let text = format!("{numbers}.all(x, {numbers}.all(y, x < y + 1000 + {at}))");
                json!({"cel": {"expression": text}})
            };
            json!({"devices": {"requests": [{"name": "gpu", "exactly": {
                "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1,
                "selectors": list(32, selector),
            }}]}})
        }
        _ => return None,
    })
}

fn list(n: usize, one: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..n).map(one).collect()
}

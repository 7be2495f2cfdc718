//! `/metrics/resources`: what every pod asks for and is limited to.
//!
//! Invariant: series come sorted by their labels, so that two scrapes of the same cluster are the same text.

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Quantity};

use crate::metrics::TextPage;

const REST_OF_HELP: &str = "workloads on the cluster, broken down by pod. This shows the resource usage the scheduler and \
                            kubelet expect per pod for resources along with the unit for the resource if any.";

/// The two metrics about these pods.
pub(crate) fn text(mut pods: Vec<Arc<Pod>>) -> String {
    // What is over on its node takes nothing; without a node nothing is ever over.
    pods.retain(|pod| !(pod.is_assigned() && matches!(&*pod.status.phase, "Succeeded" | "Failed")));
    let node = |pod: &Pod| pod.node_name.clone().unwrap_or_default();
    pods.sort_by(|a, b| (&a.namespace, node(a), &a.name).cmp(&(&b.namespace, node(b), &b.name)));
    let mut page = TextPage::default();
    let name = "kube_pod_resource_limit";
    metric(&mut page, name, "Resources limit for", &pods, |pod| &pod.requests.limits);
    let name = "kube_pod_resource_request";
    metric(&mut page, name, "Resources requested by", &pods, |pod| &pod.requests.spec_totals);
    page.into_string()
}

type Amounts = [(Arc<str>, Quantity)];

fn metric(
    page: &mut TextPage,
    name: &str,
    help: &str,
    pods: &[Arc<Pod>],
    amounts: impl Fn(&Pod) -> &Amounts,
) {
    let mut has_started = false;
    for pod in pods {
        let priority = pod.spec.priority.map(|priority| priority.to_string()).unwrap_or_default();
        for (resource, amount) in amounts(pod) {
            if amount.is_zero() {
                continue;
            }
            if !has_started {
                page.metric(name, "gauge", &format!("[STABLE] {help} {REST_OF_HELP}"));
                has_started = true;
            }
            let labels = [
                ("namespace", &*pod.namespace),
                ("node", pod.node_name.as_deref().unwrap_or_default()),
                ("pod", &*pod.name),
                ("priority", priority.as_str()),
                ("resource", &**resource),
                ("scheduler", &*pod.spec.scheduler_name),
                ("unit", unit(resource)),
            ];
            page.sample(name, &labels, amount.approximate());
        }
    }
}

fn unit(resource: &str) -> &'static str {
    match resource {
        "cpu" => "cores",
        "memory" | "storage" | "ephemeral-storage" => "bytes",
        _ if resource.starts_with("hugepages-") => "bytes",
        _ if resource.starts_with("attachable-volumes-") => "integer",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, spec: Value, phase: &str) -> Arc<Pod> {
        let object = json!({
            "metadata": {"namespace": "ns", "name": name, "uid": name},
            "spec": spec,
            "status": {"phase": phase},
        });
        Arc::new(Pod::from_json(object.to_string()).unwrap())
    }

    fn container(resources: Value) -> Value {
        json!([{"name": "c", "resources": resources}])
    }

    #[test]
    fn pods_show_what_they_take() {
        let full = json!({
            "nodeName": "n1", "schedulerName": "s", "priority": 0,
            "containers": container(json!({
                "requests": {"cpu": "100m", "memory": "2.5Gi", "x.example/gpu": "0", "hugepages-2Mi": "2Mi"},
                "limits": {"cpu": "200m"},
            })),
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "250m", "attachable-volumes-x": "2"}}}],
            "overhead": {"memory": "1Ki", "cpu": "1m"},
        });
        let waiting = json!({"schedulerName": "s", "containers": container(json!({"requests": {"cpu": "1"}}))});
        let over =
            json!({"nodeName": "n1", "containers": container(json!({"requests": {"cpu": "1"}}))});
        let text = text(vec![
            pod("waiting", waiting, "Succeeded"),
            pod("over", over.clone(), "Succeeded"),
            pod("failed", over, "Failed"),
            pod("full", full, "Running"),
        ]);
        let expected = "\
# TYPE kube_pod_resource_limit gauge
kube_pod_resource_limit{namespace=\"ns\",node=\"n1\",pod=\"full\",priority=\"0\",resource=\"cpu\",scheduler=\"s\",unit=\"cores\"} 0.201
# TYPE kube_pod_resource_request gauge
kube_pod_resource_request{namespace=\"ns\",node=\"\",pod=\"waiting\",priority=\"\",resource=\"cpu\",scheduler=\"s\",unit=\"cores\"} 1
kube_pod_resource_request{namespace=\"ns\",node=\"n1\",pod=\"full\",priority=\"0\",resource=\"attachable-volumes-x\",scheduler=\"s\",unit=\"integer\"} 2
kube_pod_resource_request{namespace=\"ns\",node=\"n1\",pod=\"full\",priority=\"0\",resource=\"cpu\",scheduler=\"s\",unit=\"cores\"} 0.251
kube_pod_resource_request{namespace=\"ns\",node=\"n1\",pod=\"full\",priority=\"0\",resource=\"hugepages-2Mi\",scheduler=\"s\",unit=\"bytes\"} 2.097152e+06
kube_pod_resource_request{namespace=\"ns\",node=\"n1\",pod=\"full\",priority=\"0\",resource=\"memory\",scheduler=\"s\",unit=\"bytes\"} 2.684355584e+09
";
        let without_help: String = text
            .lines()
            .filter(|line| !line.starts_with("# HELP"))
            .flat_map(|line| [line, "\n"])
            .collect();
        assert_eq!(without_help, expected);
        let helps: Vec<&str> = text.lines().filter(|line| line.starts_with("# HELP")).collect();
        assert_eq!(
            helps,
            [
                "# HELP kube_pod_resource_limit [STABLE] Resources limit for workloads on the cluster, broken down by pod. \
                 This shows the resource usage the scheduler and kubelet expect per pod for resources along with the unit \
                 for the resource if any.",
                "# HELP kube_pod_resource_request [STABLE] Resources requested by workloads on the cluster, broken down by \
                 pod. This shows the resource usage the scheduler and kubelet expect per pod for resources along with the \
                 unit for the resource if any.",
            ]
        );
    }

    #[test]
    fn nothing_to_report_is_nothing() {
        assert_eq!(text(Vec::new()), "");
    }
}

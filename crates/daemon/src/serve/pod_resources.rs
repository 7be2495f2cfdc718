//! `/metrics/resources`: what every pod asks for and is limited to.
//!
//! Invariants: series come sorted by their labels, so that two scrapes of the same cluster are the same text; what one pod
//! adds to the text is bounded, whatever it consists of, and does not depend on other pods; no text is longer than [`PART`] and what one
//! pod adds to it.

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, Quantity};

use crate::metrics::TextPage;

/// About how long a part of the text is, in bytes.
const PART: usize = 64 << 10;
/// How many series of a metric a pod has beside those of [`BASIC`] resources. A pod that runs somewhere has some twenty at most: what
/// devices and page sizes a node has.
const MAX_SERIES: usize = 64;
/// How long the labels of these series are in total, in bytes, and those of basic resources as much again. A series has three hundred as
/// a rule; the API server bounds all labels but that of the scheduler.
const MAX_LENGTH: usize = 32 << 10;
/// Resources that are not left out because of others with names that come before.
const BASIC: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

const REST_OF_HELP: &str = "workloads on the cluster, broken down by pod. This shows the resource usage the scheduler and \
                            kubelet expect per pod for resources along with the unit for the resource if any.";
const LIMIT: &str = "kube_pod_resource_limit";
const REQUEST: &str = "kube_pod_resource_request";
/// Parity: only here, and only for pods with which kube-scheduler would have more series.
const LEFT_OUT: &str = "kube_scheduler_rs_pod_resources_left_out";

/// The metrics about some pods, as parts of one text.
pub(super) struct PodResources {
    pods: Vec<Arc<Pod>>,
    /// Whether they are those and in the order that the text has. That is left to who asks for the first part.
    is_sorted: bool,
    /// The metric under way, in the order of the text.
    metric: Option<Metric>,
    /// Whether it has a series.
    has_started: bool,
    /// The next of its pods.
    at: usize,
}

#[derive(Clone, Copy)]
enum Metric {
    Limit,
    Request,
    LeftOut,
}

type Amounts = [(Arc<str>, Quantity)];
type Labels<'p> = [(&'static str, &'p str); 7];

impl PodResources {
    pub(super) fn new(pods: Vec<Arc<Pod>>) -> Self {
        let metric = Some(Metric::Limit);
        Self { pods, is_sorted: false, metric, has_started: false, at: 0 }
    }

    fn sort(&mut self) {
        // What is over on its node takes nothing; without a node nothing is ever over.
        let is_over = |pod: &Pod| pod.is_assigned() && pod.has_ended();
        self.pods.retain(|pod| !is_over(pod));
        let node = |pod: &Pod| pod.node_name.clone().unwrap_or_default();
        self.pods.sort_by(|a, b| {
            (&a.namespace, node(a), &a.name).cmp(&(&b.namespace, node(b), &b.name))
        });
        self.is_sorted = true;
    }
}

impl Iterator for PodResources {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if !self.is_sorted {
            self.sort();
        }
        let mut page = TextPage::default();
        while let Some(metric) = self.metric
            && page.len() < PART
        {
            let Some(pod) = self.pods.get(self.at) else {
                (self.metric, self.at, self.has_started) = (metric.next(), 0, false);
                continue;
            };
            self.at += 1;
            let mut sample = |labels: &[(&str, &str)], value| {
                if !std::mem::replace(&mut self.has_started, true) {
                    page.metric(metric.name(), "gauge", &metric.help());
                }
                page.sample(metric.name(), labels, value);
            };
            match metric {
                Metric::Limit => {
                    series(pod, &pod.requests.limits, |labels, value| sample(&labels, value));
                }
                Metric::Request => {
                    series(pod, &pod.requests.spec_totals, |labels, value| sample(&labels, value));
                }
                Metric::LeftOut => match left_out(pod) {
                    0 => {}
                    n => sample(&[("namespace", &*pod.namespace), ("pod", &*pod.name)], n as f64),
                },
            }
        }
        (page.len() > 0).then(|| page.into_string())
    }
}

impl Metric {
    const fn next(self) -> Option<Self> {
        match self {
            Self::Limit => Some(Self::Request),
            Self::Request => Some(Self::LeftOut),
            Self::LeftOut => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Limit => LIMIT,
            Self::Request => REQUEST,
            Self::LeftOut => LEFT_OUT,
        }
    }

    fn help(self) -> String {
        match self {
            Self::Limit => format!("[STABLE] Resources limit for {REST_OF_HELP}"),
            Self::Request => format!("[STABLE] Resources requested by {REST_OF_HELP}"),
            Self::LeftOut => format!(
                "Series of {REQUEST} and {LIMIT} that are left out, because the pod has too many or they are too long."
            ),
        }
    }
}

/// Shows the series about these amounts of the pod, and returns how many are left out.
fn series(pod: &Pod, amounts: &Amounts, mut show: impl FnMut(Labels<'_>, f64)) -> usize {
    let priority = pod.spec.priority.map(|priority| priority.to_string()).unwrap_or_default();
    // Number and length of those shown, of basic resources and of others.
    let (mut basic, mut others) = ((0, 0), (0, 0));
    let mut n_left_out = 0;
    for (resource, amount) in amounts {
        if amount.is_zero() {
            continue;
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
        let length: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        let is_basic = BASIC.contains(&&**resource);
        let (n_shown, length_shown) = if is_basic { &mut basic } else { &mut others };
        if *n_shown >= MAX_SERIES || *length_shown + length > MAX_LENGTH {
            n_left_out += 1;
            continue;
        }
        *n_shown += 1;
        *length_shown += length;
        show(labels, amount.approximate());
    }
    n_left_out
}

fn left_out(pod: &Pod) -> usize {
    let of = |amounts: &Amounts| series(pod, amounts, |_, _| {});
    of(&pod.requests.limits) + of(&pod.requests.spec_totals)
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

    fn text(pods: Vec<Arc<Pod>>) -> String {
        PodResources::new(pods).collect()
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

    /// A pod that runs on a node, with these resources and a bit of CPU and memory.
    fn with_resources(
        name: &str,
        scheduler: &str,
        resources: impl IntoIterator<Item = String>,
    ) -> Arc<Pod> {
        let mut amounts: serde_json::Map<String, Value> =
            resources.into_iter().map(|resource| (resource, json!("1"))).collect();
        amounts.extend(["cpu", "memory"].map(|name| (name.to_owned(), json!("2"))));
        let containers = container(json!({"requests": amounts, "limits": amounts}));
        let spec = json!({"nodeName": "n1", "schedulerName": scheduler, "containers": containers});
        pod(name, spec, "Running")
    }

    fn invented(n: usize) -> impl Iterator<Item = String> {
        (0..n).map(|at| format!("a.example/{at:06}"))
    }

    fn lines<'t>(text: &'t str, metric: &str, pod: &str) -> Vec<&'t str> {
        let (start, of_pod) = (format!("{metric}{{"), format!("pod=\"{pod}\""));
        text.lines().filter(|line| line.starts_with(&start) && line.contains(&of_pod)).collect()
    }

    #[test]
    fn a_pod_has_so_many_series_and_others_lose_none() {
        let honest = with_resources("honest", "s", invented(MAX_SERIES));
        let alone = text(vec![honest.clone()]);
        assert!(!alone.contains(LEFT_OUT));
        let greedy = with_resources("greedy", "s", invented(5_000));
        let both = text(vec![greedy, honest]);
        for metric in [LIMIT, REQUEST] {
            let of_honest = lines(&both, metric, "honest");
            assert_eq!(of_honest, lines(&alone, metric, "honest"));
            assert_eq!(of_honest.len(), MAX_SERIES + 2);
            let of_greedy = lines(&both, metric, "greedy");
            assert_eq!(of_greedy.len(), MAX_SERIES + 2);
            // However many names come before them.
            for basic in ["cpu", "memory"] {
                let label = format!("resource=\"{basic}\"");
                assert!(of_greedy.iter().any(|line| line.contains(&label)), "{basic}");
            }
        }
        let rest = 2 * (5_000 - MAX_SERIES);
        let expected = format!("{LEFT_OUT}{{namespace=\"ns\",pod=\"greedy\"}} {rest}\n");
        assert!(both.ends_with(&expected), "{}", &both[both.len() - 300..]);
        assert_eq!(both.matches(&format!("# TYPE {LEFT_OUT} gauge\n")).count(), 1);
    }

    /// The API server does not validate the name of a pod's scheduler, and each series has it.
    #[test]
    fn a_pod_has_so_much_text() {
        let longest = "\"".repeat(MAX_LENGTH);
        let pods = vec![with_resources("p", &longest, invented(MAX_SERIES))];
        let expected = format!(" {}\n", 2 * (MAX_SERIES + 2));
        let none = text(pods);
        assert!(
            none.starts_with(&format!("# HELP {LEFT_OUT} ")) && none.ends_with(&expected),
            "{none}"
        );
        for (length, n_others) in [(1_000, 30), (MAX_LENGTH / 3, 2)] {
            let scheduler = "\"".repeat(length);
            let text = text(vec![with_resources("p", &scheduler, invented(1_000))]);
            // Each quotation mark takes two bytes.
            let most = 2 * 2 * (2 * MAX_LENGTH) + 2 * (MAX_SERIES + 3) * 100 + 1_000;
            assert!(text.len() <= most, "{length}: {} of {most}", text.len());
            assert_eq!(lines(&text, REQUEST, "p").len(), n_others + 2, "{length}");
        }
    }

    #[test]
    fn the_text_comes_in_parts() {
        let pods: Vec<Arc<Pod>> = (0..1_000)
            .map(|at| with_resources(&format!("p{at:04}"), "s", invented(at % (2 * MAX_SERIES))))
            .collect();
        let parts: Vec<String> = PodResources::new(pods.clone()).collect();
        let longest = text(vec![pods[MAX_SERIES].clone()]).len();
        let (last, others) = parts.split_last().unwrap();
        assert!(others.len() > 100 && others.iter().all(|part| part.len() >= PART));
        assert!(parts.iter().all(|part| part.len() < PART + longest) && !last.is_empty());
        // The same as pod by pod, but for what begins a metric.
        let whole = parts.concat();
        let of_pods: Vec<String> = pods.iter().map(|pod| text(vec![pod.clone()])).collect();
        for metric in [LIMIT, REQUEST, LEFT_OUT] {
            let start = format!("{metric}{{");
            let of = |text: &str| -> Vec<String> {
                text.lines().filter(|line| line.starts_with(&start)).map(str::to_owned).collect()
            };
            let expected: Vec<String> = of_pods.iter().flat_map(|text| of(text)).collect();
            assert!(of(&whole) == expected && !expected.is_empty(), "{metric}");
            assert_eq!(whole.matches(&format!("# TYPE {metric} ")).count(), 1);
        }
    }
}

//! Files with benchmark definitions: test cases, and the workloads that each is run with.
//!
//! The format is the one of the reference's scheduler_perf. Paths in a file are relative to its directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::op::Op;

/// A file with its test cases.
#[derive(Clone, Debug)]
pub struct Definitions {
    /// Where templates are looked for.
    pub(crate) directory: PathBuf,
    pub(crate) test_cases: Vec<TestCase>,
}

/// A sequence of operations, and the workloads that fill it in.
#[derive(Clone, Debug)]
pub(crate) struct TestCase {
    pub(crate) settings: Settings,
    pub(crate) ops: Vec<Op>,
}

/// A test case without its operations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Settings {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) feature_gates: BTreeMap<String, bool>,
    #[serde(default)]
    pub(crate) metrics_collector_config: Option<MetricsCollectorConfig>,
    #[serde(default)]
    pub(crate) workloads: Vec<Workload>,
    #[serde(default)]
    pub(crate) scheduler_config_path: String,
    #[serde(default)]
    pub(crate) default_pod_template_path: Option<String>,
    #[serde(default)]
    pub(crate) labels: Vec<String>,
    #[serde(default)]
    pub(crate) default_threshold_metric_selector: Option<MetricSelector>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Workload {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) params: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) labels: Vec<String>,
    #[serde(default)]
    pub(crate) threshold: Threshold,
    #[serde(default)]
    pub(crate) threshold_metric_selector: Option<MetricSelector>,
    #[serde(default)]
    pub(crate) feature_gates: BTreeMap<String, bool>,
}

/// What a result is compared with: one number, or one per topic.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a number, or a mapping from topics to numbers")]
pub(crate) enum Threshold {
    Number(f64),
    ByTopic(BTreeMap<String, f64>),
}

impl Default for Threshold {
    fn default() -> Self {
        Self::Number(0.0)
    }
}

impl Threshold {
    /// Zero stands for none.
    pub(crate) fn of_topic(&self, topic: &str) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::ByTopic(numbers) => numbers.get(topic).copied().unwrap_or(0.0),
        }
    }

    fn is_negative(&self) -> bool {
        match self {
            Self::Number(number) => *number < 0.0,
            Self::ByTopic(numbers) => numbers.values().any(|number| *number < 0.0),
        }
    }
}

/// Which result a threshold is about.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct MetricSelector {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) data_bucket: String,
    #[serde(default)]
    pub(crate) expect_lower: bool,
}

impl Default for MetricSelector {
    fn default() -> Self {
        Self {
            name: "SchedulingThroughput".to_owned(),
            labels: BTreeMap::new(),
            data_bucket: "Average".to_owned(),
            expect_lower: false,
        }
    }
}

/// Histograms of the scheduler to report, with the labels to split them by.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct MetricsCollectorConfig {
    #[serde(default)]
    pub(crate) metrics: BTreeMap<String, Option<Vec<LabelValues>>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct LabelValues {
    pub(crate) label: String,
    /// Which values are reported; for defaults of ours, none means all.
    #[serde(default)]
    pub(crate) values: Vec<String>,
}

impl Definitions {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read or breaks a rule; the message has the place and what is allowed.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("read {shown}"))?;
        let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
        let test_cases = test_cases(&text).with_context(|| shown.to_string())?;
        Ok(Self { directory, test_cases })
    }

    /// Test cases and workloads with all their labels, in the file's order.
    pub fn workloads(&self) -> impl Iterator<Item = (&str, &str, Vec<&str>)> {
        self.test_cases.iter().flat_map(|case| {
            let settings = &case.settings;
            settings.workloads.iter().map(|workload| {
                let labels = settings.labels.iter().chain(&workload.labels);
                (
                    settings.name.as_str(),
                    workload.name.as_str(),
                    labels.map(String::as_str).collect(),
                )
            })
        })
    }
}

fn test_cases(text: &str) -> Result<Vec<TestCase>> {
    let written: Vec<Value> = serde_saphyr::from_str(text)?;
    ensure!(!written.is_empty(), "no test cases defined");
    let mut names = BTreeSet::new();
    let mut cases = Vec::new();
    for (index, value) in written.into_iter().enumerate() {
        let name = match value["name"].as_str() {
            Some(name) => format!("test case {name}"),
            None => format!("test case {index}"),
        };
        let case = test_case(value).context(name)?;
        if !names.insert(case.settings.name.clone()) {
            bail!("test case {}: name is not unique", case.settings.name);
        }
        cases.push(case);
    }
    Ok(cases)
}

fn test_case(mut value: Value) -> Result<TestCase> {
    let written = value.as_object_mut().and_then(|fields| fields.remove("workloadTemplate"));
    let settings: Settings = serde_json::from_value(value)?;
    let written = match written {
        Some(Value::Array(ops)) => ops,
        None | Some(Value::Null) => Vec::new(),
        Some(_) => bail!("workloadTemplate: expected is a list of operations"),
    };
    ensure!(!written.is_empty(), "no ops defined");
    let mut ops = Vec::new();
    for (index, op) in written.into_iter().enumerate() {
        ops.push(Op::read(op).with_context(|| format!("op {index}"))?);
    }
    ensure!(
        ops.iter().any(Op::collects_metrics),
        "no op in the workload template collects metrics: set collectMetrics in a createPods, or use \
         startCollectingMetrics and stopCollectingMetrics"
    );
    ensure!(!settings.workloads.is_empty(), "no workloads defined");
    let mut names = BTreeSet::new();
    for workload in &settings.workloads {
        let name = &workload.name;
        ensure!(names.insert(name), "workload name {name} is not unique");
        ensure!(
            !workload.threshold.is_negative(),
            "workload {name}: threshold should be non-negative"
        );
        let selector = workload
            .threshold_metric_selector
            .as_ref()
            .or(settings.default_threshold_metric_selector.as_ref());
        if let Some(selector) = selector {
            ensure!(
                !selector.data_bucket.is_empty(),
                "workload {name}: dataBucket should be set for metric {}",
                selector.name
            );
        }
    }
    Ok(TestCase { settings, ops })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = "
- name: Basic
  labels: [a]
  workloadTemplate:
  - opcode: createNodes
    count: 1
  - opcode: createPods
    count: 1
    collectMetrics: true
  workloads:
  - name: one
    labels: [b]
    threshold: {x: 5}
    params: {n: 5}
";

    fn refused(text: &str) -> String {
        format!("{:#}", test_cases(text).unwrap_err())
    }

    #[test]
    fn labels_of_test_case_and_workload_add_up() {
        let definitions =
            Definitions { directory: PathBuf::new(), test_cases: test_cases(CASE).unwrap() };
        let all: Vec<_> = definitions.workloads().collect();
        assert_eq!(all, [("Basic", "one", vec!["a", "b"])]);
        let workload = &definitions.test_cases[0].settings.workloads[0];
        assert_eq!(workload.threshold.of_topic("x"), 5.0);
        assert_eq!(workload.threshold.of_topic("y"), 0.0);
    }

    #[test]
    fn errors_name_test_case_op_and_what_is_allowed() {
        assert_eq!(
            refused(&CASE.replace("count: 1\n    coll", "counts: 1\n    coll")),
            "test case Basic: op 1: createPods: unknown field `counts`, expected one of `count`, `countParam`, \
             `countMultiplierParam`, `steadyState`, `steadyStateParam`, `duration`, `durationParam`, `collectMetrics`, `namespace`, \
             `podTemplatePath`, `skipWaitToCompletion`, `persistentVolumeTemplatePath`, \
             `persistentVolumeClaimTemplatePath`, `templateParams`"
        );
        assert!(refused(&CASE.replace("params", "parms")).contains("unknown field `parms`"));
        assert!(refused(&CASE.replace("collectMetrics: true", "")).contains("collects metrics"));
        assert!(refused(&CASE.replace("{x: 5}", "-1")).contains("should be non-negative"));
        assert!(refused(&CASE.replace("{x: 5}", "high")).contains("a number, or a mapping"));
        assert!(refused(&(CASE.to_owned() + CASE)).ends_with("name is not unique"));
        assert_eq!(refused("[]"), "no test cases defined");
    }
}

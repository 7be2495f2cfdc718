//! Results in the form that the reference's dashboards read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;

use super::definition::MetricSelector;

/// One result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DataItem {
    /// From a name such as `Average` or `Perc99` to the number.
    pub data: BTreeMap<String, f64>,
    /// The unit of all numbers.
    pub unit: String,
    /// What was measured (`Metric`), where (`Name`), and more for metrics with labels.
    pub labels: BTreeMap<String, String>,
}

/// All results of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DataItems {
    /// Of the format: `v1`.
    pub version: String,
    /// The results, in the order of the workloads.
    pub data_items: Vec<DataItem>,
}

impl DataItem {
    pub(crate) fn new(name: &str, metric: &str, unit: &str) -> Self {
        let labels = [("Name", name), ("Metric", metric)];
        let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned()));
        Self { data: BTreeMap::new(), unit: unit.to_owned(), labels: labels.into() }
    }

    pub(crate) fn with(mut self, bucket: &str, value: f64) -> Self {
        self.data.insert(bucket.to_owned(), value);
        self
    }

    /// Average and percentiles of samples; the percentiles are samples themselves. Nothing without samples.
    pub(crate) fn with_samples(self, samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let at = |percent: usize| sorted.get((n * percent).div_ceil(100).checked_sub(1)?).copied();
        Some(
            self.with("Average", sorted.iter().sum::<f64>() / n as f64)
                .with("Perc50", at(50)?)
                .with("Perc90", at(90)?)
                .with("Perc95", at(95)?)
                .with("Perc99", at(99)?),
        )
    }

    fn metric(&self) -> &str {
        self.labels.get("Metric").map_or("", String::as_str)
    }
}

impl DataItems {
    /// Gives all results the same labels, as the dashboards need them.
    pub fn new(mut data_items: Vec<DataItem>) -> Self {
        let labels: BTreeSet<String> =
            data_items.iter().flat_map(|item| item.labels.keys().cloned()).collect();
        for item in &mut data_items {
            for label in &labels {
                item.labels.entry(label.clone()).or_insert_with(|| "not applicable".to_owned());
            }
        }
        Self { version: "v1".to_owned(), data_items }
    }

    /// As a table: throughput, lengths of time and memory; with `is_long` the scheduler's own metrics too.
    pub fn table(&self, is_long: bool) -> String {
        let mut text = String::new();
        let mut row = |name: &str, metric: &str, values: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<72} {metric:<24} {values}");
        };
        row("NAME", "METRIC", "VALUES");
        for item in self.data_items.iter().filter(|item| is_long || !is_internal(item.metric())) {
            let labels: Vec<&str> = item
                .labels
                .iter()
                .filter(|(label, value)| {
                    !["Name", "Metric"].contains(&label.as_str()) && *value != "not applicable"
                })
                .map(|(_, value)| value.as_str())
                .collect();
            let metric = [&[item.metric()], labels.as_slice()].concat().join(" ");
            let values: Vec<String> = item
                .data
                .iter()
                .map(|(bucket, value)| format!("{bucket}={value:.3}"))
                .chain([item.unit.clone()])
                .collect();
            let name = item.labels.get("Name").map_or("", String::as_str);
            row(name.trim_start_matches("BenchmarkPerfScheduling/"), &metric, &values.join(" "));
        }
        text
    }
}

fn is_internal(metric: &str) -> bool {
    metric.starts_with("scheduler_")
}

/// Puts a threshold into the results that it is about, and returns those that miss it.
pub(crate) fn apply_threshold(
    items: &mut [DataItem],
    threshold: f64,
    selector: &MetricSelector,
) -> Vec<String> {
    let mut missed = Vec::new();
    if threshold == 0.0 {
        return missed;
    }
    let bucket = &selector.data_bucket;
    for item in items {
        let has_labels =
            selector.labels.iter().all(|(label, value)| item.labels.get(label) == Some(value));
        if item.metric() != selector.name || !has_labels {
            continue;
        }
        item.data.insert(format!("{bucket}Threshold"), threshold);
        let place = item.labels.get("Name").map_or("", String::as_str);
        let metric = &selector.name;
        let Some(value) = item.data.get(bucket) else {
            missed
                .push(format!("{place}: no data present for {metric:?} metric {bucket:?} bucket"));
            continue;
        };
        let (holds, side) = if selector.expect_lower {
            (*value < threshold, "lower")
        } else {
            (*value > threshold, "higher")
        };
        if !holds {
            missed.push(format!(
                "{place}: expected {metric:?} {bucket:?} to be {side}: got {value:.6}, want {threshold:.6}"
            ));
        }
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        let item = DataItem::new("n", "m", "u").with_samples(&samples).unwrap();
        let value = |bucket: &str| item.data[bucket];
        assert_eq!(value("Average"), 5.5);
        assert_eq!((value("Perc50"), value("Perc90")), (5.0, 9.0));
        assert_eq!((value("Perc95"), value("Perc99")), (10.0, 10.0));
        assert_eq!(DataItem::default().with_samples(&[]), None);
    }

    #[test]
    fn all_items_get_all_labels() {
        let mut one = DataItem::new("a", "m", "s");
        one.labels.insert("plugin".into(), "P".into());
        let items = DataItems::new(vec![one, DataItem::new("b", "m", "s").with("Average", 1.0)]);
        assert_eq!(items.data_items[1].labels["plugin"], "not applicable");
        let json = serde_json::to_value(&items).unwrap();
        assert_eq!(json["version"], "v1");
        assert_eq!(json["dataItems"][1]["data"]["Average"], 1.0);
    }

    #[test]
    fn a_threshold_is_put_beside_its_value_and_judged() {
        let mut items =
            vec![DataItem::new("a", "SchedulingThroughput", "pods/s").with("Average", 5.0)];
        let selector = MetricSelector::default();
        assert_eq!(apply_threshold(&mut items, 0.0, &selector), Vec::<String>::new());
        assert_eq!(apply_threshold(&mut items, 4.0, &selector), Vec::<String>::new());
        assert_eq!(items[0].data["AverageThreshold"], 4.0);
        assert_eq!(
            apply_threshold(&mut items, 6.0, &selector),
            [
                "a: expected \"SchedulingThroughput\" \"Average\" to be higher: got 5.000000, want 6.000000"
            ]
        );
        let lower = MetricSelector { expect_lower: true, ..selector };
        assert_eq!(apply_threshold(&mut items, 6.0, &lower), Vec::<String>::new());
        let other = MetricSelector { data_bucket: "Max".into(), ..lower };
        assert_eq!(
            apply_threshold(&mut items, 6.0, &other),
            ["a: no data present for \"SchedulingThroughput\" metric \"Max\" bucket"]
        );
    }
}

//! `/metrics/fragmentation`: how much of what is free the mix of pods could not use, as metrics.
//!
//! They cost nothing while nobody asks for them, and as much as a question of this kind for each scrape.

use kube_scheduler_answers::{API_VERSION, Answer, Question, QuestionKind};
use kube_scheduler_api_types::{CompileOptions, Quantity};
use serde_json::json;

use super::problem::Problem;
use crate::metrics::TextPage;

const FREE: &str = "kube_scheduler_rs_fragmentation_free";
const UNUSABLE: &str = "kube_scheduler_rs_fragmentation_unusable";

/// The question about nodes by the values of a label, or about all of them.
pub(super) fn question(
    by: Option<&str>,
    pod_options: &CompileOptions,
) -> Result<Question, Problem> {
    let mut body =
        json!({"apiVersion": API_VERSION, "kind": QuestionKind::Fragmentation.kind(), "spec": {}});
    if let Some(by) = by {
        body["spec"]["by"] = by.into();
    }
    let body = body.to_string();
    let question =
        Question::from_json(QuestionKind::Fragmentation, "", body.as_bytes(), pod_options);
    question.map_err(|error| Problem::bad_request(error.to_string()))
}

/// The answer as metrics, in cores, bytes and numbers.
pub(super) fn text(answer: &Answer) -> String {
    let Answer::Fragmentation(answer) = answer else { return String::new() };
    let mut samples: Vec<(Option<&str>, &str, &str, &str)> = Vec::new();
    let all = answer.resources.iter();
    samples.extend(all.map(|of| (None, &*of.resource, &*of.free, &*of.unusable)));
    if !answer.pools.is_empty() {
        // They sum up to those of all nodes.
        samples.clear();
    }
    for pool in &answer.pools {
        let name = Some(pool.pool.as_deref().unwrap_or_default());
        let resources = pool.resources.iter();
        samples.extend(resources.map(|of| (name, &*of.resource, &*of.free, &*of.unusable)));
    }
    let mut page = TextPage::default();
    for (metric, help, is_free) in [
        (FREE, "What the pods on nodes leave of a resource, in cores, bytes or numbers.", true),
        (
            UNUSABLE,
            "What of that a pod of the running mix which asks for the resource cannot use, in the mean.",
            false,
        ),
    ] {
        page.metric(metric, "gauge", help);
        for (pool, resource, free, unusable) in &samples {
            let pool = pool.map(|pool| ("pool", pool));
            let labels: Vec<(&str, &str)> =
                pool.into_iter().chain([("resource", *resource)]).collect();
            page.sample(metric, &labels, amount(if is_free { free } else { unusable }));
        }
    }
    page.into_string()
}

/// A quantity as answers have it: thousandths, or units.
fn amount(quantity: &str) -> f64 {
    match quantity.strip_suffix('m') {
        Some(thousandths) => thousandths.parse::<f64>().unwrap_or_default() / 1000.0,
        None => Quantity::parse(quantity).map(|amount| amount.approximate()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_scheduler_answers::{Inquiry, Interrupt};
    use kube_scheduler_api_types::{Node, Pod, Timestamp};
    use kube_scheduler_config::{Configuration, FeatureGates};
    use kube_scheduler_engine::{Engine, EngineOptions, Input};

    use super::*;

    #[test]
    fn every_pool_has_its_numbers() {
        let mut config = Configuration::default();
        kube_scheduler_config::default(&mut config, &FeatureGates::default());
        let registry = kube_scheduler_plugins_intree::registry();
        let mut engine = Engine::new(&config, &registry, EngineOptions::default()).unwrap();
        let now = Timestamp::from_millis(1_000_000);
        for (name, cpu) in [("a", "2500m"), ("b", "1")] {
            let node = json!({"metadata": {"name": name, "labels": {"zone": name}},
                "status": {"allocatable": {"cpu": cpu, "pods": "110"}}});
            let node = Arc::new(Node::from_value(&node).unwrap());
            engine.handle(Input::NodeApplied(node), now);
        }
        let pod = json!({"metadata": {"name": "p", "uid": "p"}, "spec": {"schedulerName": "default-scheduler",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
        engine.handle(Input::PodApplied(Arc::new(Pod::from_value(&pod).unwrap())), now);
        let metrics = |by: Option<&str>| {
            let Ok(question) = question(by, &CompileOptions::default()) else {
                panic!("the question is refused")
            };
            let inquiry = Inquiry::new(&question, &engine, now);
            let text = text(&inquiry.answer(&question, &Interrupt::default()).unwrap());
            let lines = text.lines().filter(|line| line.contains("cpu")).map(str::to_owned);
            lines.collect::<Vec<_>>()
        };
        let expected = [
            "kube_scheduler_rs_fragmentation_free{pool=\"a\",resource=\"cpu\"} 2.5",
            "kube_scheduler_rs_fragmentation_free{pool=\"b\",resource=\"cpu\"} 1",
            "kube_scheduler_rs_fragmentation_unusable{pool=\"a\",resource=\"cpu\"} 0",
            "kube_scheduler_rs_fragmentation_unusable{pool=\"b\",resource=\"cpu\"} 1",
        ];
        assert_eq!(metrics(Some("zone")), expected);
        let expected = [
            "kube_scheduler_rs_fragmentation_free{resource=\"cpu\"} 3.5",
            "kube_scheduler_rs_fragmentation_unusable{resource=\"cpu\"} 1",
        ];
        assert_eq!(metrics(None), expected);
    }

    #[test]
    fn amounts_are_numbers() {
        let amounts = ["1500m", "0m", "75161927680", "2", "x"].map(amount);
        assert_eq!(amounts, [1.5, 0.0, 75_161_927_680.0, 2.0, 0.0]);
    }
}

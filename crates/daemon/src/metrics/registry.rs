//! Metric families under the reference's rules: stability in the help text, series that appear when first touched, label
//! values that can be narrowed down, families that can be switched off.
//!
//! Invariants: what is registered is printed in the order of names, its series in the order of label values, as Go's
//! client does; a family with labels and without series is not printed at all; recording never fails: a wrong number of
//! labels is ignored, as is everything about a family that is switched off. No lock is held while waiting for anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use kube_scheduler_api_types::{lock, named_enum};
use kube_scheduler_framework::{Metric, MetricFamily, MetricKind};

use super::options::MetricsOptions;
use super::text::TextPage;

/// [`MetricKind`] as a constant: buckets are written out when the family is registered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram(Buckets),
}

impl Kind {
    fn written_out(self) -> MetricKind {
        match self {
            Self::Counter => MetricKind::Counter,
            Self::Gauge => MetricKind::Gauge,
            Self::Histogram(buckets) => MetricKind::Histogram(buckets.bounds()),
        }
    }
}

named_enum! {
    /// What is promised about a family.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum Stability {
        Stable = "STABLE",
        Beta = "BETA",
        Alpha = "ALPHA",
        /// Outside of the reference's promises: what the Go client brings, and what is our own.
        Unmarked = "",
    }
}

/// Upper bounds of a histogram's buckets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Buckets {
    /// The first, the factor, how many.
    Exponential(f64, f64, usize),
    Fixed(&'static [f64]),
}

impl Buckets {
    fn bounds(self) -> Vec<f64> {
        match self {
            // By repeated multiplication, as in Go, so that the bounds are equal to the last digit.
            Self::Exponential(first, factor, n) => {
                std::iter::successors(Some(first), |bound| Some(bound * factor)).take(n).collect()
            }
            Self::Fixed(bounds) => bounds.to_vec(),
        }
    }
}

/// A family as it is registered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Desc {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) stability: Stability,
    pub(crate) help: &'static str,
    /// In alphabetical order.
    pub(crate) labels: &'static [&'static str],
}

impl Desc {
    pub(crate) const fn counter(
        name: &'static str,
        stability: Stability,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Counter, stability, help, labels }
    }

    pub(crate) const fn gauge(
        name: &'static str,
        stability: Stability,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Gauge, stability, help, labels }
    }

    pub(crate) const fn histogram(
        name: &'static str,
        stability: Stability,
        labels: &'static [&'static str],
        buckets: Buckets,
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Histogram(buckets), stability, help, labels }
    }
}

/// One family. Label values are given in the order of the family's labels, which is alphabetical.
#[derive(Debug)]
pub(crate) struct Family {
    family: MetricFamily,
    is_disabled: bool,
    /// By label: the only values it may have, if they are limited.
    allowed: Vec<Option<BTreeSet<String>>>,
    n_unexpected: Arc<AtomicU64>,
}

impl Family {
    /// Adds to a counter or gauge.
    pub(crate) fn add(&self, labels: &[&str], by: f64) {
        self.with(labels).inspect(|metric| metric.add(by));
    }

    /// One more.
    pub(crate) fn inc(&self, labels: &[&str]) {
        self.add(labels, 1.0);
    }

    /// Sets a gauge, or a counter that is counted elsewhere.
    pub(crate) fn set(&self, labels: &[&str], to: f64) {
        self.with(labels).inspect(|metric| metric.replace(to));
    }

    /// One more value of a histogram.
    pub(crate) fn observe(&self, labels: &[&str], observed: f64) {
        self.add(labels, observed);
    }

    /// Values of a histogram that were counted elsewhere, by the same buckets.
    pub(crate) fn absorb(&self, labels: &[&str], counts: &[u64], sum: f64) {
        self.with(labels).inspect(|metric| metric.absorb(counts, sum));
    }

    /// Sets the series of a gauge with one label; those that are not named go to zero.
    pub(crate) fn set_all<'a>(&self, values: impl Iterator<Item = (&'a str, f64)>) {
        for series in self.family.series() {
            self.family.with(&[&series.labels[0]]).set(0.0);
        }
        values.for_each(|(label, value)| self.set(&[label], value));
    }

    fn with(&self, labels: &[&str]) -> Option<Metric> {
        if self.is_disabled || labels.len() != self.family.labels().len() {
            return None;
        }
        let narrowed = labels.iter().zip(&self.allowed).map(|(value, allowed)| {
            if allowed.as_ref().is_some_and(|allowed| !allowed.contains(*value)) {
                self.n_unexpected.fetch_add(1, Relaxed);
                return "unexpected";
            }
            *value
        });
        Some(self.family.with(&narrowed.collect::<Vec<_>>()))
    }

    /// Makes the one series of a family without labels, which is there from the start.
    fn prepare(&self) {
        if self.family.labels().is_empty() {
            self.with(&[]);
        }
    }

    /// Starts over. What is true at the moment stays true: gauges are left alone.
    fn reset(&self) {
        if *self.family.kind() != MetricKind::Gauge {
            self.family.clear();
            self.prepare();
        }
    }
}

const REGISTERED: Desc = Desc::counter(
    "registered_metrics_total",
    Stability::Beta,
    &["deprecated_version", "stability_level"],
    "The count of registered metrics broken by stability level and deprecation version.",
);
const DISABLED: Desc =
    Desc::counter("disabled_metrics_total", Stability::Beta, &[], "The count of disabled metrics.");
const HIDDEN: Desc =
    Desc::counter("hidden_metrics_total", Stability::Beta, &[], "The count of hidden metrics.");
const UNEXPECTED: Desc = Desc::counter(
    "cardinality_enforcement_unexpected_categorizations_total",
    Stability::Alpha,
    &[],
    "The count of unexpected categorizations during cardinality enforcement.",
);

/// All families of one endpoint.
#[derive(Debug)]
pub(crate) struct Registry {
    options: MetricsOptions,
    families: Mutex<BTreeMap<&'static str, Arc<Family>>>,
    n_unexpected: Arc<AtomicU64>,
}

impl Registry {
    /// A registry with the families that describe it.
    pub(crate) fn new(options: MetricsOptions) -> Self {
        let registry = Self { options, families: Mutex::default(), n_unexpected: Arc::default() };
        registry.register(REGISTERED);
        registry.register(HIDDEN);
        registry.register(UNEXPECTED);
        let disabled: BTreeSet<&str> = registry
            .options
            .disabled
            .iter()
            .map(String::as_str)
            .filter(|name| !name.is_empty())
            .collect();
        let n_disabled = disabled.len();
        registry.register(DISABLED).set(&[], n_disabled as f64);
        registry
    }

    /// The family of this description; the same one every time it is asked for.
    pub(crate) fn register(&self, desc: Desc) -> Arc<Family> {
        if let Some(known) = self.families().get(desc.name) {
            return known.clone();
        }
        let is_disabled = self.options.disabled.iter().any(|name| name == desc.name);
        let help = match desc.stability {
            Stability::Unmarked => desc.help.to_owned(),
            marked => format!("[{}] {}", marked.as_str(), desc.help),
        };
        let labels = desc.labels.iter().map(|label| (*label).to_owned()).collect();
        let family = Arc::new(Family {
            allowed: desc
                .labels
                .iter()
                .map(|label| self.options.allowed(desc.name, label))
                .collect(),
            family: MetricFamily::new(desc.name.to_owned(), help, desc.kind.written_out(), labels),
            n_unexpected: self.n_unexpected.clone(),
            is_disabled,
        });
        family.prepare();
        self.families().insert(desc.name, family.clone());
        let count = |desc: Desc, labels: &[&str]| {
            let counter = self.families().get(desc.name).cloned();
            counter.inspect(|counter| counter.inc(labels));
        };
        if is_disabled {
            count(HIDDEN, &[]);
        } else if desc.stability != Stability::Unmarked {
            count(REGISTERED, &["", desc.stability.as_str()]);
        }
        family
    }

    /// Counters and histograms start over.
    pub(crate) fn reset(&self) {
        self.families().values().for_each(|family| family.reset());
    }

    /// Everything, as text.
    pub(crate) fn print(&self, page: &mut TextPage) {
        let families = self.families().clone();
        for (name, family) in families {
            if name == UNEXPECTED.name {
                family.set(&[], self.n_unexpected.load(Relaxed) as f64);
            }
            if !family.family.series().is_empty() {
                page.family(&family.family);
            }
        }
    }

    fn families(&self) -> MutexGuard<'_, BTreeMap<&'static str, Arc<Family>>> {
        lock(&self.families)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHEEP: Desc =
        Desc::counter("sheep_total", Stability::Stable, &["colour", "field"], "Sheep, counted.");
    const AGE: Desc = Desc::histogram(
        "age_years",
        Stability::Alpha,
        &[],
        Buckets::Exponential(1.0, 2.0, 2),
        "How old.",
    );
    const OWN: Desc = Desc::gauge("own", Stability::Unmarked, &[], "Ours.");

    fn text(registry: &Registry) -> String {
        let mut page = TextPage::default();
        registry.print(&mut page);
        page.into_string()
    }

    #[test]
    fn families_and_series_are_sorted_and_those_without_series_left_out() {
        let registry = Registry::new(MetricsOptions::default());
        let sheep = registry.register(SHEEP);
        registry.register(AGE).observe(&[], 1.5);
        registry.register(OWN);
        assert!(!text(&registry).contains("sheep"), "no series yet");
        sheep.inc(&["white", "south"]);
        sheep.add(&["black", "south"], 2.0);
        sheep.inc(&["black", "north"]);
        sheep.inc(&["too few"]);
        let expected = "\
# HELP age_years [ALPHA] How old.
# TYPE age_years histogram
age_years_bucket{le=\"1\"} 0
age_years_bucket{le=\"2\"} 1
age_years_bucket{le=\"+Inf\"} 1
age_years_sum 1.5
age_years_count 1
# HELP cardinality_enforcement_unexpected_categorizations_total [ALPHA] The count of unexpected categorizations during cardinality enforcement.
# TYPE cardinality_enforcement_unexpected_categorizations_total counter
cardinality_enforcement_unexpected_categorizations_total 0
# HELP disabled_metrics_total [BETA] The count of disabled metrics.
# TYPE disabled_metrics_total counter
disabled_metrics_total 0
# HELP hidden_metrics_total [BETA] The count of hidden metrics.
# TYPE hidden_metrics_total counter
hidden_metrics_total 0
# HELP own Ours.
# TYPE own gauge
own 0
# HELP registered_metrics_total [BETA] The count of registered metrics broken by stability level and deprecation version.
# TYPE registered_metrics_total counter
registered_metrics_total{deprecated_version=\"\",stability_level=\"ALPHA\"} 2
registered_metrics_total{deprecated_version=\"\",stability_level=\"BETA\"} 3
registered_metrics_total{deprecated_version=\"\",stability_level=\"STABLE\"} 1
# HELP sheep_total [STABLE] Sheep, counted.
# TYPE sheep_total counter
sheep_total{colour=\"black\",field=\"north\"} 1
sheep_total{colour=\"black\",field=\"south\"} 2
sheep_total{colour=\"white\",field=\"south\"} 1
";
        assert_eq!(text(&registry), expected);
        registry.reset();
        let text = text(&registry);
        assert!(!text.contains("sheep"));
        assert!(text.contains("age_years_count 0"), "{text}");
    }

    #[test]
    fn families_can_be_switched_off_and_labels_narrowed() {
        let options = MetricsOptions {
            disabled: vec!["age_years".to_owned(), String::new()],
            allow_labels: [(
                ("sheep_total".to_owned(), "colour".to_owned()),
                vec!["white".to_owned(), "black".to_owned()],
            )]
            .into(),
        };
        let registry = Registry::new(options);
        registry.register(AGE).observe(&[], 1.0);
        registry.register(SHEEP).inc(&["green", "south"]);
        registry.register(SHEEP).inc(&["white", "south"]);
        let text = text(&registry);
        assert!(!text.contains("age_years"));
        for line in [
            "sheep_total{colour=\"unexpected\",field=\"south\"} 1",
            "sheep_total{colour=\"white\",field=\"south\"} 1",
            "disabled_metrics_total 1",
            "hidden_metrics_total 1",
            "cardinality_enforcement_unexpected_categorizations_total 1",
        ] {
            assert!(text.lines().any(|printed| printed == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn labels_of_descriptions_are_sorted() {
        for desc in super::super::catalog::ALL {
            assert!(desc.labels.is_sorted(), "{}", desc.name);
        }
    }
}

//! The metrics of plugins, on the same page as the scheduler's own.

use kube_scheduler_framework::{FamilySample, MetricKind, PluginMetrics, Sample};

use super::text::{Histogram, TextPage};

/// Writes all of them, in the order of their names. Labels come out in alphabetical order, as everywhere on the page.
pub(crate) fn print(metrics: &PluginMetrics, page: &mut TextPage) {
    for family in metrics.gather() {
        let FamilySample { name, help, kind, labels, samples } = &family;
        let kind_name = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram(_) => "histogram",
        };
        page.metric(name, kind_name, help);
        for Sample { labels: values, value, buckets } in samples {
            let mut pairs: Vec<(&str, &str)> =
                labels.iter().zip(values).map(|(key, value)| (&**key, &**value)).collect();
            pairs.sort_unstable();
            match kind {
                MetricKind::Histogram(bounds) => {
                    page.histogram(name, &pairs, &Histogram::counted(bounds, buckets, *value));
                }
                MetricKind::Counter | MetricKind::Gauge => page.sample(name, &pairs, *value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_look_like_all_others() {
        let metrics = PluginMetrics::new();
        metrics.counter("gang_total", "Gangs.", &["z", "a"]).unwrap().with(&["1", "2"]).inc();
        let sizes = metrics.histogram("gang_size", "Sizes.", &[], &[1.0]).unwrap().with(&[]);
        [1.0, 3.0].into_iter().for_each(|size| sizes.add(size));
        let mut page = TextPage::default();
        print(&metrics, &mut page);
        let expected = "# HELP gang_size Sizes.\n# TYPE gang_size histogram\ngang_size_bucket{le=\"1\"} 1\n\
            gang_size_bucket{le=\"+Inf\"} 2\ngang_size_sum 4\ngang_size_count 2\n\
            # HELP gang_total Gangs.\n# TYPE gang_total counter\ngang_total{a=\"2\",z=\"1\"} 1\n";
        assert_eq!(page.into_string(), expected);
    }
}

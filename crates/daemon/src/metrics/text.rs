//! The Prometheus text exposition format 0.0.4, as Go's client prints it.
//!
//! Invariants: labels come out in the order given, which callers keep alphabetical; numbers look as Go formats them,
//! because dashboards and tests compare `le` as text.

use std::fmt::Write;

use kube_scheduler_framework::{MetricFamily, MetricKind, MetricSeries};

/// A page of metrics under construction.
#[derive(Debug, Default)]
pub(crate) struct TextPage(String);

impl TextPage {
    /// Begins a metric.
    pub(crate) fn metric(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ =
            writeln!(self.0, "# HELP {name} {}", help.replace('\\', "\\\\").replace('\n', "\\n"));
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
    }

    /// One value of the metric that was started last.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        if !labels.is_empty() {
            self.0.push('{');
            for (i, (key, value)) in labels.iter().enumerate() {
                let separator = if i == 0 { "" } else { "," };
                let _ = write!(self.0, "{separator}{key}=\"{}\"", escaped(value));
            }
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {}", GoFloat(value));
    }

    /// A family with all its series. Labels come out in alphabetical order.
    pub(crate) fn family(&mut self, family: &MetricFamily) {
        let (name, kind) = (family.name(), family.kind());
        let kind_name = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram(_) => "histogram",
        };
        self.metric(name, kind_name, family.help());
        for MetricSeries { labels, value, buckets } in family.series() {
            let mut pairs: Vec<(&str, &str)> = family
                .labels()
                .iter()
                .zip(&labels)
                .map(|(key, value)| (&**key, &**value))
                .collect();
            pairs.sort_unstable();
            match kind {
                MetricKind::Histogram(bounds) => {
                    self.histogram(name, &pairs, bounds, &buckets, value);
                }
                MetricKind::Counter | MetricKind::Gauge => self.sample(name, &pairs, value),
            }
        }
    }

    /// One series of a histogram: how many observations were at most as large as each bound, their sum and their number.
    fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        let bucket = format!("{name}_bucket");
        let mut so_far = 0;
        let ends = bounds.iter().map(|bound| GoFloat(*bound).to_string());
        for (end, count) in ends.chain(["+Inf".to_owned()]).zip(counts) {
            so_far += count;
            let mut with_end = labels.to_vec();
            with_end.push(("le", &end));
            self.sample(&bucket, &with_end, so_far as f64);
        }
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, so_far as f64);
    }

    /// How long it is so far, in bytes.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A number as Go's `strconv` formats it with `'g'` and the shortest precision.
struct GoFloat(f64);

impl std::fmt::Display for GoFloat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_infinite() {
            return f.write_str(if self.0 > 0.0 { "+Inf" } else { "-Inf" });
        }
        if self.0.is_nan() {
            return f.write_str("NaN");
        }
        // `1.5e-5`: shortest digits that read back to the same number.
        let text = format!("{:e}", self.0);
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if !(-4..6).contains(&exponent) {
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(f, "{digits}e{sign}{:02}", exponent.unsigned_abs())
        } else {
            write!(f, "{}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::PluginMetrics;

    use super::*;

    #[test]
    fn numbers_look_as_in_go() {
        let cases: [(f64, &str); 12] = [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.000_015_000_000_000_000_002, "1.5000000000000002e-05"),
            (2621.44, "2621.44"),
            (999_999.0, "999999"),
            (1_000_000.0, "1e+06"),
            (2_684_354_560.0, "2.68435456e+09"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ];
        for (number, text) in cases {
            assert_eq!(GoFloat(number).to_string(), text);
        }
    }

    #[test]
    fn histograms_count_upwards() {
        let (kind, labels) = (MetricKind::Histogram(vec![1.0, 2.0]), vec!["a".to_owned()]);
        let family = MetricFamily::new("h".to_owned(), "Help.".to_owned(), kind, labels);
        family.with(&["x\"y"]).absorb(&[2, 1, 1], 12.0);
        let mut page = TextPage::default();
        page.family(&family);
        let expected = "# HELP h Help.\n# TYPE h histogram\nh_bucket{a=\"x\\\"y\",le=\"1\"} 2\n\
            h_bucket{a=\"x\\\"y\",le=\"2\"} 3\nh_bucket{a=\"x\\\"y\",le=\"+Inf\"} 4\n\
            h_sum{a=\"x\\\"y\"} 12\nh_count{a=\"x\\\"y\"} 4\n";
        assert_eq!(page.into_string(), expected);
    }

    #[test]
    fn families_of_plugins_look_like_all_others() {
        let metrics = PluginMetrics::new();
        metrics.counter("gang_total", "Gangs.", &["z", "a"]).unwrap().with(&["1", "2"]).inc();
        let sizes = metrics.histogram("gang_size", "Sizes.", &[], &[1.0]).unwrap().with(&[]);
        [1.0, 3.0].into_iter().for_each(|size| sizes.add(size));
        let mut page = TextPage::default();
        metrics.families().iter().for_each(|family| page.family(family));
        let expected = "# HELP gang_size Sizes.\n# TYPE gang_size histogram\ngang_size_bucket{le=\"1\"} 1\n\
            gang_size_bucket{le=\"+Inf\"} 2\ngang_size_sum 4\ngang_size_count 2\n\
            # HELP gang_total Gangs.\n# TYPE gang_total counter\ngang_total{a=\"2\",z=\"1\"} 1\n";
        assert_eq!(page.into_string(), expected);
    }
}

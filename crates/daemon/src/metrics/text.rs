//! The Prometheus text exposition format 0.0.4, as Go's client prints it.
//!
//! Invariants: labels come out in the order given, which callers keep alphabetical; numbers look as Go formats them,
//! because dashboards and tests compare `le` as text.

use std::fmt::Write;

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

    /// One value of the metric begun last.
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

    /// All values of one histogram.
    pub(crate) fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        let bucket = format!("{name}_bucket");
        let mut so_far = 0;
        let ends = histogram
            .bounds
            .iter()
            .map(|bound| GoFloat(*bound).to_string())
            .chain(["+Inf".to_owned()]);
        for (end, count) in ends.zip(&histogram.counts) {
            so_far += count;
            let mut with_end = labels.to_vec();
            with_end.push(("le", &end));
            self.sample(&bucket, &with_end, so_far as f64);
        }
        self.sample(&format!("{name}_sum"), labels, histogram.sum);
        self.sample(&format!("{name}_count"), labels, so_far as f64);
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A distribution over fixed buckets.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    bounds: Vec<f64>,
    /// One more than bounds.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// `n` buckets whose bounds start at `first` and grow by `factor`, by repeated multiplication as in Go.
    pub(crate) fn exponential(first: f64, factor: f64, n: usize) -> Self {
        let bounds: Vec<f64> =
            std::iter::successors(Some(first), |bound| Some(bound * factor)).take(n).collect();
        Self { counts: vec![0; n + 1], bounds, sum: 0.0 }
    }

    /// What somebody else counted: one count more than bounds.
    pub(crate) fn counted(bounds: &[f64], counts: &[u64], sum: f64) -> Self {
        Self { bounds: bounds.to_vec(), counts: counts.to_vec(), sum }
    }

    /// Buckets with these upper bounds.
    pub(crate) fn with_bounds(bounds: &[f64]) -> Self {
        Self { counts: vec![0; bounds.len() + 1], bounds: bounds.to_vec(), sum: 0.0 }
    }

    /// Values that were counted elsewhere, by the same buckets.
    pub(crate) fn absorb(&mut self, counts: &[u64], sum: f64) {
        for (count, more) in self.counts.iter_mut().zip(counts) {
            *count += more;
        }
        self.sum += sum;
    }

    pub(crate) fn observe(&mut self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts[at] += 1;
        self.sum += value;
    }
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
        let mut histogram = Histogram::exponential(1.0, 2.0, 2);
        for value in [0.5, 1.0, 1.5, 9.0] {
            histogram.observe(value);
        }
        let mut page = TextPage::default();
        page.metric("h", "histogram", "Help.");
        page.histogram("h", &[("a", "x\"y")], &histogram);
        let expected = "# HELP h Help.\n# TYPE h histogram\nh_bucket{a=\"x\\\"y\",le=\"1\"} 2\n\
            h_bucket{a=\"x\\\"y\",le=\"2\"} 3\nh_bucket{a=\"x\\\"y\",le=\"+Inf\"} 4\n\
            h_sum{a=\"x\\\"y\"} 12\nh_count{a=\"x\\\"y\"} 4\n";
        assert_eq!(page.into_string(), expected);
    }
}

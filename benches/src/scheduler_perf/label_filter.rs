//! Which workloads are wanted: by label, and by name.

/// Labels that a workload must have (`short`, `+short`) or must not have (`-short`); empty lets everything through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelFilter {
    conditions: Vec<(String, bool)>,
}

impl LabelFilter {
    /// Reads conditions with commas between them.
    pub fn parse(text: &str) -> Self {
        let condition = |text: &str| match text.strip_prefix('-') {
            Some(label) => (label.to_owned(), false),
            None => (text.strip_prefix('+').unwrap_or(text).to_owned(), true),
        };
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        Self { conditions: parts.map(condition).collect() }
    }

    /// Whether something with these labels is wanted.
    pub fn lets_through<'a>(&self, labels: impl Iterator<Item = &'a str> + Clone) -> bool {
        self.conditions
            .iter()
            .all(|(label, wanted)| labels.clone().any(|own| own == label) == *wanted)
    }
}

/// Whether a name, `TestCase/Workload`, is meant by a filter: a part of it, or all of it if that is a name itself.
pub fn is_meant(filter: &str, test_case: &str, workload: &str) -> bool {
    format!("{test_case}/{workload}").contains(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lets(filter: &str, labels: &[&str]) -> bool {
        LabelFilter::parse(filter).lets_through(labels.iter().copied())
    }

    #[test]
    fn all_conditions_must_hold() {
        assert!(lets("", &[]));
        assert!(lets("performance", &["performance", "short"]));
        assert!(lets("performance,+short", &["performance", "short"]));
        assert!(!lets("performance,-short", &["performance", "short"]));
        assert!(!lets("performance,short", &["performance"]));
        assert!(lets("-performance", &["integration-test"]));
    }

    #[test]
    fn names_may_contain_slashes() {
        assert!(is_meant("Unschedulable/5Nodes/1Init", "Unschedulable", "5Nodes/1Init/10Pods"));
        assert!(is_meant("5Nodes", "Unschedulable", "5Nodes/1Init/10Pods"));
        assert!(!is_meant("500Nodes", "Unschedulable", "5Nodes/1Init/10Pods"));
    }
}

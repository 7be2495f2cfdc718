//! Whether memory and waits were the same at the end of a soak as at its beginning.

use std::fmt;
use std::time::Duration;

/// Late waits may be this many times as long as early ones.
const MAX_RATIO: f64 = 1.5;

/// How long pods waited, sample by sample.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitSeries {
    /// The 99th percentile of each sample in which a pod was bound, and whether as many pods were there as were to be from its
    /// beginning on.
    p99s: Vec<(Duration, bool)>,
    is_full: bool,
}

impl WaitSeries {
    /// Adds a sample; `is_full` says whether as many pods are there at its end as are to be.
    pub(super) fn add(&mut self, p99: Option<Duration>, is_full: bool) {
        let was_full = std::mem::replace(&mut self.is_full, is_full);
        self.p99s.extend(p99.map(|p99| (p99, was_full)));
    }

    /// The medians of the first third of the samples and of the last. With fewer pods each takes less time, so only samples count
    /// during which all were there; all samples if there are no such. Nothing if no pod was bound.
    pub(super) fn early_and_late(&self) -> Option<(Duration, Duration)> {
        let any_is_full = self.p99s.iter().any(|(_, is_full)| *is_full);
        let counted = self.p99s.iter().filter(|(_, is_full)| *is_full || !any_is_full);
        let p99s: Vec<Duration> = counted.map(|(p99, _)| *p99).collect();
        let n = p99s.len().div_ceil(3);
        Some((median(p99s.get(..n)?)?, median(p99s.get(p99s.len() - n..)?)?))
    }
}

/// The greater one of the two in the middle.
fn median(waits: &[Duration]) -> Option<Duration> {
    let mut sorted = waits.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// What a soak has found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What the scheduler held in memory when it had read the nodes, before the first pod.
    pub before_bytes: u64,
    /// What it held a while after all pods were deleted.
    pub after_bytes: u64,
    /// How much more that may be.
    pub max_growth: u64,
    /// How long 99 of 100 pods waited at most, early and late; nothing if none was bound.
    pub p99s: Option<(Duration, Duration)>,
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn millis(wait: Duration) -> f64 {
    wait.as_secs_f64() * 1e3
}

impl Verdict {
    /// What is not as it was; nothing if all is.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let growth = self.after_bytes.saturating_sub(self.before_bytes);
        if growth > self.max_growth {
            problems.push(format!(
                "memory is not given back: {:.1} MiB more than before the first pod, where {:.1} may be",
                mib(growth),
                mib(self.max_growth)
            ));
        }
        match self.p99s {
            None => problems.push("no pod was bound".to_owned()),
            Some((early, late)) if late.as_secs_f64() > MAX_RATIO * early.as_secs_f64() => {
                problems.push(format!(
                    "pods wait longer and longer: late p99 {:.1} ms is more than {MAX_RATIO} times early p99 {:.1} ms",
                    millis(late),
                    millis(early)
                ));
            }
            Some(_) => {}
        }
        problems
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (mib(self.before_bytes), mib(self.after_bytes));
        write!(f, "memory: {before:.1} MiB before the first pod, {after:.1} MiB after the last")?;
        if let Some((early, late)) = self.p99s {
            write!(f, "\np99: early {:.1} ms, late {:.1} ms", millis(early), millis(late))?;
        }
        let problems = self.problems();
        if problems.is_empty() {
            return write!(f, "\nboth are as they were");
        }
        problems.iter().try_for_each(|problem| write!(f, "\nFAILED: {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn medians_are_of_samples_with_all_pods() {
        let mut waited = WaitSeries::default();
        assert_eq!(waited.early_and_late(), None);
        // All pods are there at the end of the second sample, so the third is the first that counts.
        for (p99, is_full) in [(1, false), (2, true)] {
            waited.add(Some(ms(p99)), is_full);
        }
        assert_eq!(waited.early_and_late(), Some((ms(1), ms(2))));
        for p99 in [8, 90, 7, 10, 11, 12, 50, 13] {
            waited.add(Some(ms(p99)), true);
        }
        waited.add(None, true);
        assert_eq!(waited.early_and_late(), Some((ms(8), ms(13))));
    }

    #[test]
    fn growth_and_longer_waits_are_problems() {
        let flat = Verdict {
            before_bytes: 50 << 20,
            after_bytes: 90 << 20,
            max_growth: 40 << 20,
            p99s: Some((ms(10), ms(15))),
        };
        assert_eq!(flat.problems(), Vec::<String>::new());
        assert!(flat.to_string().ends_with("both are as they were"), "{flat}");
        let grown = Verdict { after_bytes: (90 << 20) + 1, p99s: Some((ms(10), ms(16))), ..flat };
        assert_eq!(grown.problems().len(), 2, "{grown}");
        assert_eq!(Verdict { p99s: None, ..flat }.problems(), ["no pod was bound"]);
    }
}

//! Log lines about one search for a node: every plugin's score at verbosity 10, and where the time went when it was slow.
//!
//! Behaviour: `docs/spec/observability.md` §5.2 and §6. The engine reports the steps and the scores; the times are taken here.
//!
//! Invariant: taking the times costs two looks at the clock for a search that is quick, and no text is made for it.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::{GroupReport, NodeScores, Observer, PodRef, SearchStep};
use tracing::Level;

/// A search of this length and more is worth a trace.
const SLOW: Duration = Duration::from_millis(100);
/// From this verbosity on, slow searches are traced.
const TRACES_FROM: u8 = 2;
/// From this verbosity on, a trace has all steps, not only the long ones.
const ALL_STEPS_FROM: u8 = 4;
/// From this verbosity on, every score is logged.
const SCORES_FROM: u8 = 10;

/// Where lines go.
pub(crate) trait Lines {
    /// The verbosity at the moment.
    fn verbosity(&self) -> u8;
    /// A search starts.
    fn started(&mut self, pod: &PodRef);
    /// A plugin's weighted score of a node.
    fn plugin_scored(&mut self, pod: &PodRef, plugin: &str, node: &str, score: i64);
    /// A node's score over all plugins.
    fn final_score(&mut self, pod: &PodRef, node: &str, score: i64);
    /// A slow search, in several lines that belong together.
    fn trace(&mut self, text: &str);
}

/// The log of this process.
pub(crate) struct ProcessLog;

impl Lines for ProcessLog {
    fn verbosity(&self) -> u8 {
        // The log's verbosity is set by target.
        if tracing::enabled!(target: "V10", Level::TRACE) {
            SCORES_FROM
        } else if tracing::enabled!(target: "V4", Level::DEBUG) {
            ALL_STEPS_FROM
        } else if tracing::enabled!(target: "V2", Level::DEBUG) {
            TRACES_FROM
        } else {
            0
        }
    }

    fn started(&mut self, pod: &PodRef) {
        tracing::debug!(target: "V4", %pod, "About to try and schedule pod");
        tracing::debug!(target: "V3", %pod, "Attempting to schedule pod");
    }

    fn plugin_scored(&mut self, pod: &PodRef, plugin: &str, node: &str, score: i64) {
        tracing::trace!(target: "V10", %pod, plugin, node, score, "Plugin scored node for pod");
    }

    fn final_score(&mut self, pod: &PodRef, node: &str, score: i64) {
        tracing::trace!(target: "V10", %pod, node, score, "Calculated node's final score for pod");
    }

    fn trace(&mut self, text: &str) {
        tracing::info!(target: "V2f", "{text}");
    }
}

/// Follows searches, one after the other.
pub(crate) struct CycleLog<'a> {
    lines: &'a mut dyn Lines,
    now: &'a dyn Fn() -> Timestamp,
    verbosity: u8,
    started: Timestamp,
    steps: [Option<Timestamp>; 2],
    group: Option<GroupOutcome>,
}

/// How a group cycle ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupOutcome {
    /// As metrics name it.
    pub(crate) result: &'static str,
    /// When it was decided.
    pub(crate) decided: Timestamp,
}

const STEPS: [&str; 2] = ["Computing predicates done", "Prioritizing done"];

impl<'a> CycleLog<'a> {
    pub(crate) fn new(lines: &'a mut dyn Lines, now: &'a dyn Fn() -> Timestamp) -> Self {
        let verbosity = lines.verbosity();
        Self { lines, now, verbosity, started: Timestamp::EPOCH, steps: [None; 2], group: None }
    }

    /// How the cycle ended if it was a group's.
    pub(crate) const fn group(&self) -> Option<GroupOutcome> {
        self.group
    }

    fn end(&mut self, pod: &PodRef, ended: Timestamp) {
        let total = ended.saturating_since(self.started);
        if total < SLOW {
            return;
        }
        let steps: Vec<(&str, Timestamp)> =
            STEPS.into_iter().zip(self.steps).filter_map(|(name, at)| Some((name, at?))).collect();
        let threshold = match self.verbosity {
            ALL_STEPS_FROM.. => Duration::ZERO,
            _ => SLOW / u32::try_from(steps.len() + 1).unwrap_or(1),
        };
        self.lines.trace(&trace_text(pod, self.started, ended, &steps, threshold));
    }
}

impl Observer for CycleLog<'_> {
    fn reached(&mut self, pod: &PodRef, step: SearchStep) {
        if self.verbosity < TRACES_FROM {
            return;
        }
        let now = (self.now)();
        match step {
            SearchStep::Started => {
                (self.started, self.steps) = (now, [None; 2]);
                self.lines.started(pod);
            }
            SearchStep::NodesFiltered => self.steps[0] = Some(now),
            SearchStep::NodesScored => self.steps[1] = Some(now),
            SearchStep::Ended => self.end(pod, now),
            _ => {}
        }
    }

    fn wants_group_attempts(&self) -> bool {
        false
    }

    fn group_decided(&mut self, report: &GroupReport) {
        let result = if report.waits_for_preemption {
            "waiting_on_preemption"
        } else if report.status.is_success() {
            "scheduled"
        } else if report.status.is_rejected() {
            "unschedulable"
        } else {
            "error"
        };
        self.group = Some(GroupOutcome { result, decided: (self.now)() });
    }

    fn wants_scores(&self) -> bool {
        self.verbosity >= SCORES_FROM
    }

    fn scored(&mut self, pod: &PodRef, nodes: &[(Arc<str>, NodeScores)]) {
        for (node, scores) in nodes {
            for (plugin, score) in &scores.by_plugin {
                self.lines.plugin_scored(pod, plugin, node, *score);
            }
        }
        for (node, scores) in nodes {
            self.lines.final_score(pod, node, scores.total);
        }
    }
}

/// The trace in the form of the reference's tracing library. Steps shorter than `threshold` are left out.
fn trace_text(
    pod: &PodRef,
    started: Timestamp,
    ended: Timestamp,
    steps: &[(&str, Timestamp)],
    threshold: Duration,
) -> String {
    let number = number_of(started);
    let total = ended.saturating_since(started);
    let mut text = format!(
        "Trace[{number}]: \"Scheduling\" namespace:{},name:{} ({}) (total time: {}ms):",
        pod.namespace,
        pod.name,
        day_and_time(started),
        total.as_millis()
    );
    let mut before = started;
    for (name, at) in steps {
        let length = at.saturating_since(before);
        if length >= threshold {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\nTrace[{number}]: ---{name:?} {}ms ({})",
                length.as_millis(),
                time_of_day(*at)
            );
        }
        before = *at;
    }
    let total = go_text(total);
    let _ = write!(text, "\nTrace[{number}]: [{total}] [{total}] END\n");
    text
}

/// Ties the lines of one trace together; the reference draws it at random from as many.
fn number_of(started: Timestamp) -> u32 {
    let mixed = started.as_nanos().unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    u32::try_from(mixed).unwrap_or(0)
}

/// A length as Go writes it, such as `150.123ms`.
fn go_text(length: Duration) -> String {
    kube_scheduler_config::Duration::from_nanos(
        i64::try_from(length.as_nanos()).unwrap_or(i64::MAX),
    )
    .to_string()
}

fn time_of_day(at: Timestamp) -> String {
    parts(at).1
}

/// Such as `02-Jan-2006 15:04:05.000`.
fn day_and_time(at: Timestamp) -> String {
    let (day, time) = parts(at);
    format!("{day} {time}")
}

/// The day and the time of day with milliseconds, in UTC.
fn parts(at: Timestamp) -> (String, String) {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = at.floor_to_second().to_string();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let month = part(5..7).parse().unwrap_or(1_usize).saturating_sub(1);
    let month = MONTHS.get(month).copied().unwrap_or_default();
    let millis = at.as_nanos().rem_euclid(1_000_000_000) / 1_000_000;
    (format!("{}-{month}-{}", part(8..10), part(0..4)), format!("{}.{millis:03}", part(11..19)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[derive(Default)]
    struct Page {
        verbosity: u8,
        lines: Vec<String>,
    }

    impl Lines for Page {
        fn verbosity(&self) -> u8 {
            self.verbosity
        }

        fn started(&mut self, _: &PodRef) {}

        fn plugin_scored(&mut self, pod: &PodRef, plugin: &str, node: &str, score: i64) {
            self.lines.push(format!("{pod} {plugin} {node} {score}"));
        }

        fn final_score(&mut self, pod: &PodRef, node: &str, score: i64) {
            self.lines.push(format!("{pod} {node} {score}"));
        }

        fn trace(&mut self, text: &str) {
            self.lines.push(text.to_owned());
        }
    }

    fn pod() -> PodRef {
        PodRef { namespace: "default".into(), name: "web-1".into(), uid: "u".into() }
    }

    /// What is logged of a search whose steps come this many microseconds after its start.
    fn logged(verbosity: u8, steps: &[(SearchStep, u64)]) -> Vec<String> {
        let start = Timestamp::parse("2006-01-02T15:04:05Z").unwrap();
        let clock = Cell::new(start);
        let mut page = Page { verbosity, ..Page::default() };
        let now = || clock.get();
        let mut log = CycleLog::new(&mut page, &now);
        log.reached(&pod(), SearchStep::Started);
        for (step, micros) in steps {
            clock.set(start + Duration::from_micros(*micros));
            log.reached(&pod(), *step);
        }
        page.lines
    }

    use SearchStep::{Ended, NodesFiltered, NodesScored};

    #[test]
    fn a_slow_search_is_reported_with_its_long_steps() {
        let lines =
            logged(2, &[(NodesFiltered, 120_000), (NodesScored, 150_000), (Ended, 150_123)]);
        let number = lines[0].split(['[', ']']).nth(1).unwrap();
        assert!(number.parse::<u32>().unwrap() < 1 << 31);
        assert_eq!(
            lines,
            [format!(
                "Trace[{number}]: \"Scheduling\" namespace:default,name:web-1 (02-Jan-2006 15:04:05.000) (total time: 150ms):\n\
                 Trace[{number}]: ---\"Computing predicates done\" 120ms (15:04:05.120)\n\
                 Trace[{number}]: [150.123ms] [150.123ms] END\n"
            )]
        );
    }

    #[test]
    fn more_steps_are_reported_when_more_is_wanted() {
        let steps = [(NodesFiltered, 120_000), (NodesScored, 150_000), (Ended, 150_000)];
        assert_eq!(logged(2, &steps)[0].matches("---").count(), 1);
        assert_eq!(logged(4, &steps)[0].matches("---").count(), 2);
        assert!(logged(4, &steps)[0].contains("---\"Prioritizing done\" 30ms (15:04:05.150)"));
    }

    #[test]
    fn a_single_step_counts_from_half_the_limit() {
        let seen =
            |filtered| logged(2, &[(NodesFiltered, filtered), (Ended, 110_000)])[0].contains("---");
        assert!(seen(50_000) && !seen(49_999));
    }

    #[test]
    fn quick_searches_and_low_verbosity_report_nothing() {
        assert!(logged(9, &[(NodesFiltered, 99_000), (Ended, 99_999)]).is_empty());
        assert!(logged(1, &[(NodesFiltered, 200_000), (Ended, 300_000)]).is_empty());
        assert_eq!(logged(2, &[(Ended, 100_000)])[0].matches("---").count(), 0);
    }

    #[test]
    fn scores_come_by_node_and_plugin_then_the_sums() {
        let by_plugin = |a, b| vec![(Arc::from("A"), a), (Arc::from("B"), b)];
        let nodes = [
            (Arc::from("n1"), NodeScores { total: 70, by_plugin: by_plugin(20, 50) }),
            (Arc::from("n2"), NodeScores { total: 30, by_plugin: by_plugin(-20, 50) }),
        ];
        for (verbosity, wants) in [(9, false), (10, true)] {
            let mut page = Page { verbosity, ..Page::default() };
            let log = CycleLog::new(&mut page, &|| Timestamp::EPOCH);
            assert_eq!(log.wants_scores(), wants);
        }
        let mut page = Page { verbosity: 10, ..Page::default() };
        CycleLog::new(&mut page, &|| Timestamp::EPOCH).scored(&pod(), &nodes);
        assert_eq!(
            page.lines,
            [
                "default/web-1 A n1 20",
                "default/web-1 B n1 50",
                "default/web-1 A n2 -20",
                "default/web-1 B n2 50",
                "default/web-1 n1 70",
                "default/web-1 n2 30",
            ]
        );
    }
}

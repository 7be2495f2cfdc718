//! What came out of rounds: for programs as JSON, for people as a table.

use std::fmt::Write;

use serde::Serialize;

/// What one round gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// The program's name, or `ceiling`.
    pub subject: String,
    /// Which API server.
    pub server: String,
    /// The requests of the pods.
    pub shape: String,
    /// How many nodes there were.
    pub nodes: usize,
    /// How many pods were pending.
    pub pods: usize,
    /// How many of them were seen bound.
    pub bound: usize,
    /// From the first binding that was seen to the last.
    pub pods_per_second: f64,
    /// How long that was.
    pub first_to_last_seconds: f64,
    /// From the start of the program to the first binding that was seen.
    pub first_bind_millis: Option<f64>,
    /// User and system time of the program until the last binding was seen.
    pub cpu_seconds: f64,
    /// The same until its events were written, or the grace for that was over.
    pub cpu_seconds_with_events: f64,
    /// The most physical memory the program held, events included.
    pub peak_memory_bytes: u64,
    /// How many `Scheduled` events there were in the end; nothing for the ceiling, which writes none.
    pub scheduled_events: Option<usize>,
    /// User and system time of the API server and its store from the start of the program to the last binding; nothing
    /// for a server that was there before.
    pub server_cpu_seconds: Option<f64>,
}

/// Rounds of the ceiling and of a scheduler that were played in turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pair {
    /// The requests of the pods.
    pub shape: String,
    /// Medians of pods per second.
    pub ceiling: f64,
    /// The same of the scheduler.
    pub scheduler: f64,
    /// How much of the ceiling the scheduler reached, where 1 is all of it: the quotient of the medians.
    pub ratio: f64,
}

impl Pair {
    /// Compares medians. Nothing if one side has no rounds.
    pub fn of(shape: &str, ceilings: &[f64], schedulers: &[f64]) -> Option<Self> {
        let (ceiling, scheduler) = (median(ceilings)?, median(schedulers)?);
        let ratio = if ceiling > 0.0 { scheduler / ceiling } else { 0.0 };
        Some(Self { shape: shape.to_owned(), ceiling, scheduler, ratio })
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[sorted.len() / 2]))
}

/// All rounds as a table, and the pairs below.
pub fn table(rounds: &[Figures], pairs: &[Pair]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:<20} {:<14} {:>6} {:>6} {:<13} {:>8} {:>11} {:>7} {:>8} {:>9} {:>7} {:>10}",
        "SUBJECT",
        "SHAPE",
        "NODES",
        "PODS",
        "BOUND",
        "PODS/S",
        "FIRST BIND",
        "CPU",
        "+EVENTS",
        "PEAK RSS",
        "EVENTS",
        "SERVER CPU"
    );
    for round in rounds {
        let _ = writeln!(
            text,
            "{:<20} {:<14} {:>6} {:>6} {:<13} {:>8.0} {:>11} {:>7} {:>8} {:>9} {:>7} {:>10}",
            round.subject,
            round.shape,
            round.nodes,
            round.pods,
            round.bound,
            round.pods_per_second,
            round.first_bind_millis.map_or("-".to_owned(), |millis| format!("{millis:.0} ms")),
            format!("{:.1} s", round.cpu_seconds),
            format!("{:.1} s", round.cpu_seconds_with_events),
            format!("{:.0} MiB", round.peak_memory_bytes as f64 / f64::from(1 << 20)),
            round.scheduled_events.map_or("-".to_owned(), |n| n.to_string()),
            round.server_cpu_seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.1} s")),
        );
    }
    for pair in pairs {
        let _ = writeln!(
            text,
            "{}: {:.1} % of the ceiling (medians: {:.0} of {:.0} pods/s)",
            pair.shape,
            pair.ratio * 100.0,
            pair.scheduler,
            pair.ceiling
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_compared() {
        let pair = Pair::of("plain", &[100.0, 300.0, 200.0], &[150.0, 170.0]).unwrap();
        assert_eq!((pair.ceiling, pair.scheduler, pair.ratio), (200.0, 160.0, 0.8));
        assert_eq!(Pair::of("plain", &[], &[1.0]), None);
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let round = Figures {
            subject: "ceiling".into(),
            server: "given".into(),
            shape: "plain".into(),
            nodes: 5,
            pods: 10,
            bound: 10,
            pods_per_second: 1234.4,
            first_to_last_seconds: 0.1,
            first_bind_millis: Some(12.3),
            cpu_seconds: 0.5,
            cpu_seconds_with_events: 0.5,
            peak_memory_bytes: 3 << 20,
            scheduled_events: None,
            server_cpu_seconds: None,
        };
        let text = table(&[round], &[]);
        let cells: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = "ceiling plain 5 10 10 1234 12 ms 0.5 s 0.5 s 3 MiB - -";
        assert_eq!(cells.join(" "), expected);
    }
}

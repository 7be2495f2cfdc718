//! Lines as they come out, by form and by verbosity.

use std::io;
use std::sync::{Mutex, MutexGuard};

use kube_scheduler_api_types::lock;
use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use super::*;
use crate::flags::value::ModuleVerbosity;

/// What has been logged.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Page {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Interest in events is kept for the whole process: tests that log take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    lock(&TURN)
}

fn logged(is_json: bool, verbosities: Verbosities, log: impl FnOnce(&Verbosities)) -> String {
    let _turn = turn();
    let page = Page::default();
    let verbosities = Arc::new(verbosities);
    let layer = tracing_subscriber::fmt::layer().with_writer(page.clone()).with_ansi(false);
    let registry = tracing_subscriber::registry().with(Filter::new(verbosities.clone()));
    let log = || {
        tracing::callsite::rebuild_interest_cache();
        log(&verbosities);
    };
    if is_json {
        tracing::subscriber::with_default(registry.with(layer.event_format(JsonLines)), log);
    } else {
        tracing::subscriber::with_default(registry.with(layer.event_format(Klog)), log);
    }
    page.text()
}

/// The lines after their headers.
fn said(log: impl FnOnce(&Verbosities), verbosities: Verbosities) -> Vec<String> {
    let text = logged(false, verbosities, log);
    text.lines()
        .map(|line| line.split_once("] ").map_or(line, |(_, said)| said).to_owned())
        .collect()
}

#[test]
fn text_is_klogs() {
    let line = logged(false, Verbosities::new(0, Vec::new()), |_| {
        tracing::warn!(pod = "x/p", n = 3, error = "no \"room\"", "Failed to bind pod");
    });
    let (head, rest) = line.split_once("] ").unwrap();
    assert_eq!(rest, "\"Failed to bind pod\" pod=\"x/p\" n=3 err=\"no \\\"room\\\"\"\n");
    let parts: Vec<&str> = head.split_whitespace().collect();
    let &[day, time, pid, caller] = parts.as_slice() else { panic!("{head}") };
    assert!(day.len() == 5 && day.starts_with('W'), "{head}");
    assert!(time.len() == 15 && time.as_bytes()[8] == b'.', "{head}");
    assert_eq!(pid, std::process::id().to_string());
    assert!(caller.starts_with("tests.rs:"), "{head}");
    // The process is aligned to the right in seven places.
    assert_eq!(head.find(pid).unwrap() + pid.len(), 29, "{head}");
}

#[test]
fn what_went_wrong_comes_first_where_something_did() {
    let lines = said(
        |_| {
            tracing::error!(pod = "x/p", err = "boom", "Error updating pod");
            tracing::debug!(
                pod = "x/p",
                err = "no room",
                "Unable to schedule pod; no fit; waiting"
            );
        },
        Verbosities::new(2, Vec::new()),
    );
    let expected = [
        "\"Error updating pod\" err=\"boom\" pod=\"x/p\"",
        "\"Unable to schedule pod; no fit; waiting\" pod=\"x/p\" err=\"no room\"",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn lists_are_printed_as_lists() {
    let log = |_: &Verbosities| {
        let (missed, redundant) = (["a-uid", "b\"c"], [""; 0]);
        tracing::info!(missedPods = ?missed, redundantPods = ?redundant, "Cache mismatch");
        tracing::info!(missedNodes = ?redundant, redundantNodes = ?missed, "Cache mismatch");
    };
    let both = r#"["a-uid","b\"c"]"#;
    let expected = [
        format!("\"Cache mismatch\" missedPods={both} redundantPods=[]"),
        format!("\"Cache mismatch\" missedNodes=[] redundantNodes={both}"),
    ];
    assert_eq!(said(log, Verbosities::new(0, Vec::new())), expected);
    let text = logged(true, Verbosities::new(0, Vec::new()), log);
    assert!(
        text.lines()
            .next()
            .unwrap()
            .ends_with(&format!("\"missedPods\":{both},\"redundantPods\":[]}}"))
    );
}

#[test]
fn no_value_breaks_out_of_its_line() {
    let text = logged(false, Verbosities::new(5, Vec::new()), |_| {
        let forged = "one\nE0101 00:00:00.000000 1 x.rs:1] \"forged\"\r\u{1b}[2K\n";
        tracing::info!(value = forged, "a\nb");
        tracing::debug!(target: "V1f", "FLAG: --x=\"y\"\nI: \u{1b}");
        tracing::info!(value = "\u{1b}[31m", "bell \u{7}");
        tracing::info!(value = "x".repeat(3_000_000), "huge");
    });
    assert!(text.len() < 1_000_000);
    assert!(
        text.lines().all(|line| line.starts_with(['I', '\t', ' '])),
        "a line begins with what was logged"
    );
    assert!(!text.contains(['\u{1b}', '\r', '\u{7}']));
    assert!(text.contains("] \"a\\nb\" value=<\n\tone\n\tE0101"), "{text:.400}");
    assert!(text.contains("] FLAG: --x=\"y\"\nI: \u{fffd}\n"), "{text:.800}");
    assert!(text.contains("... (3000000 bytes in total)\""));
}

#[test]
fn json_is_one_object_per_line() {
    let text = logged(true, Verbosities::new(4, Vec::new()), |_| {
        tracing::warn!(pod = "x/p", n = 3, error = "no\nroom", "Failed to bind pod");
        tracing::error!(node = "n1", "Lost");
        tracing::debug!(target: "V4", is = true, "Pod rejected by plugin");
    });
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [warning, error, info] = lines.as_slice() else { panic!("{text}") };
    assert!(warning["ts"].as_f64().unwrap() > 1e12);
    assert_eq!(
        (&warning["msg"], &warning["v"], &warning["n"]),
        (&"Failed to bind pod".into(), &0.into(), &3.into())
    );
    assert_eq!((&warning["pod"]["name"], &warning["pod"]["namespace"]), (&"p".into(), &"x".into()));
    assert_eq!(warning["err"], "no\nroom");
    assert!(warning["caller"].as_str().unwrap().starts_with("logging/tests.rs:"));
    assert_eq!((error.get("v"), &error["node"]), (None, &"n1".into()));
    assert_eq!((&info["v"], &info["is"]), (&4.into(), &true.into()));
    assert!(text.starts_with("{\"ts\":"), "{text}");
}

#[test]
fn json_has_objects_where_the_reference_has_them() {
    let text = logged(true, Verbosities::new(5, Vec::new()), |_| {
        tracing::debug!(target: "V3", node = "n1", "Add event for node");
        tracing::debug!(target: "V2", pod = "x/p", node = "n1", "Successfully bound pod to node");
        tracing::trace!(target: "V5", PV = "v", node = "n1", pod = "x/p", "PersistentVolume and node matches for pod");
        tracing::info!(
            lock = "kube-system/kube-scheduler",
            "Attempting to acquire leader lease..."
        );
    });
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let node = serde_json::json!({"name": "n1"});
    assert_eq!((&lines[0]["node"], &lines[1]["node"]), (&node, &"n1".into()));
    assert_eq!((&lines[2]["node"], &lines[2]["PV"]), (&node, &serde_json::json!({"name": "v"})));
    assert_eq!(lines[3]["lock"], "kube-system/kube-scheduler");
}

fn at_all_verbosities() {
    tracing::error!("E");
    tracing::warn!("W");
    tracing::info!("I");
    tracing::debug!(target: "V1", "1");
    tracing::debug!("2");
    tracing::error!(target: "kube_client::client::builder", "2e");
    tracing::info!(target: "V3", "3");
    tracing::trace!(target: "V4", "4");
    tracing::trace!("5");
    tracing::debug!(target: "hyper::proto", "8");
    tracing::trace!(target: "V10", "10");
    tracing::trace!(target: "kube_client::client", "11");
}

#[test]
fn each_verbosity_shows_what_is_below_it() {
    let expected = ["E", "W", "I", "1", "2", "2e", "3", "4", "5", "8", "10", "11"];
    for (verbosity, n) in [
        (-1, 1),
        (0, 3),
        (1, 4),
        (2, 6),
        (3, 7),
        (4, 8),
        (5, 9),
        (7, 9),
        (8, 10),
        (10, 11),
        (99, 12),
    ] {
        let lines = said(|_| at_all_verbosities(), Verbosities::new(verbosity, Vec::new()));
        let wanted: Vec<String> = expected[..n].iter().map(|text| format!("\"{text}\"")).collect();
        assert_eq!(lines, wanted, "-v={verbosity}");
    }
}

#[test]
fn verbosity_changes_while_the_program_runs() {
    let lines = said(
        |verbosities| {
            for verbosity in [0, 4, 0, 10] {
                verbosities.set(verbosity);
                let is_on = tracing::enabled!(target: "V4", tracing::Level::DEBUG);
                tracing::debug!(target: "V4", is_on, "4");
                assert_eq!(is_on, verbosity >= 4);
            }
        },
        Verbosities::new(0, Vec::new()),
    );
    assert_eq!(lines, ["\"4\" is_on=true", "\"4\" is_on=true"]);
}

#[test]
fn files_can_be_louder_than_the_rest() {
    let module = |pattern: &str, verbosity| ModuleVerbosity {
        pattern: pattern.to_owned(),
        verbosity: Verbosity(verbosity),
    };
    let lines = |modules| said(|_| at_all_verbosities(), Verbosities::new(1, modules)).len();
    assert_eq!(lines(vec![]), 4);
    assert_eq!(lines(vec![module("tests", 4)]), 8);
    assert_eq!(lines(vec![module("logging/t*", 4)]), 8);
    assert_eq!(lines(vec![module("others", 9)]), 4);
    // The first that matches decides, and less than everywhere is not less.
    assert_eq!(lines(vec![module("tests", 0), module("*", 9)]), 4);
}

#[test]
fn times_are_utc_with_microseconds() {
    let at = Timestamp::parse("2026-11-21T10:00:00.25Z").unwrap();
    assert_eq!(text::date_and_time(at), ("1121".to_owned(), "10:00:00.250000".to_owned()));
}

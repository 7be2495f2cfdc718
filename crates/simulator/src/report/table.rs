//! A report in columns, as kubectl prints them: the details first, so that the summary is the last thing on a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kube_scheduler_answers::Columns;

use super::data::{PendingReason, Report};
use super::devices::{DeviceCounts, DeviceReport};
use super::timeline::{TimelineReport, WaitTimes};

/// The whole report.
pub(super) fn render(report: &Report, shows_pending: bool, shows_nodes: bool) -> String {
    let mut out = String::new();
    placements(report, &mut out);
    preempted(report, &mut out);
    if shows_pending {
        pending(report, &mut out);
    } else {
        obstacles(report, &mut out);
    }
    if shows_nodes {
        nodes(report, &mut out);
    }
    if let Some(found) = &report.devices {
        devices(found, shows_nodes, &mut out);
    }
    for explanation in &report.explanations {
        explanation.write(shows_nodes, &mut out);
    }
    if let Some(timeline) = &report.timeline {
        use_over_time(timeline, &mut out);
    }
    summary(report, &mut out);
    out
}

/// `namespace/name` as two cells.
fn name_cells(key: &str) -> [String; 2] {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    [namespace.to_owned(), name.to_owned()]
}

fn placements(report: &Report, out: &mut String) {
    let mut columns = Columns::new(&["NAMESPACE", "NAME", "NODE"]);
    for placement in &report.placements {
        let [namespace, name] = name_cells(&placement.pod);
        columns.push(vec![namespace, name, placement.node.clone()]);
    }
    columns.print(out);
}

fn preempted(report: &Report, out: &mut String) {
    let mut columns = Columns::new(&["NAMESPACE", "PREEMPTED", "NODE", "BY"]);
    for preempted in &report.preempted {
        let [namespace, name] = name_cells(&preempted.pod);
        let by = preempted.by.clone().unwrap_or_default();
        columns.push(vec![namespace, name, preempted.node.clone(), by]);
    }
    columns.print(out);
}

fn pending(report: &Report, out: &mut String) {
    let mut columns = Columns::new(&["NAMESPACE", "PENDING", "REASON", "MESSAGE"]);
    for pending in &report.pending {
        let [namespace, name] = name_cells(&pending.pod);
        columns.push(vec![namespace, name, pending.reason.to_string(), pending.message.clone()]);
    }
    columns.print(out);
}

/// Pending pods by reason and message, the most frequent first.
fn obstacles(report: &Report, out: &mut String) {
    let mut counts: BTreeMap<(PendingReason, &str), usize> = BTreeMap::new();
    for pending in &report.pending {
        *counts.entry((pending.reason, &pending.message)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let mut columns = Columns::new(&["PENDING", "REASON", "MESSAGE"]);
    for ((reason, message), n) in counts {
        columns.push(vec![n.to_string(), reason.to_string(), message.to_owned()]);
    }
    columns.print(out);
}

fn nodes(report: &Report, out: &mut String) {
    let mut head = vec!["NODE", "PODS"];
    let resources: Vec<&str> =
        report.utilisation.keys().map(String::as_str).filter(|name| *name != "pods").collect();
    head.extend(&resources);
    let upper: Vec<String> = head.iter().map(|name| name.to_uppercase()).collect();
    let mut columns = Columns::new(&upper);
    for usage in &report.node_usage {
        let mut row = vec![usage.node.clone(), usage.pods.to_string()];
        row.extend(resources.iter().map(|name| {
            usage
                .utilisation
                .get(*name)
                .map_or_else(|| "-".to_owned(), |fraction| percent(*fraction))
        }));
        columns.push(row);
    }
    columns.print(out);
}

fn devices(report: &DeviceReport, shows_nodes: bool, out: &mut String) {
    let cells = |counts: &DeviceCounts| {
        [counts.devices, counts.used, counts.blocked, counts.free].map(|n| n.to_string())
    };
    if shows_nodes {
        let head = ["NODE", "POOL", "DRIVER", "DEVICES", "USED", "BLOCKED", "FREE"];
        let mut columns = Columns::new(&head);
        for pool in &report.pools {
            let node = pool.node.clone().unwrap_or_else(|| "-".to_owned());
            let mut row = vec![node, pool.pool.clone(), pool.driver.clone()];
            row.extend(cells(&pool.counts));
            columns.push(row);
        }
        columns.print(out);
    }
    let mut columns = Columns::new(&["CLASS", "ALLOCATED"]);
    for class in &report.classes {
        columns.push(vec![class.class.clone(), class.allocated.to_string()]);
    }
    columns.print(out);
    let head = ["DRIVER", "DEVICES", "USED", "BLOCKED", "FREE", "FRAGMENTATION"];
    let mut columns = Columns::new(&head);
    for driver in &report.drivers {
        let mut row = vec![driver.driver.clone()];
        row.extend(cells(&driver.counts));
        row.push(percent(driver.fragmentation));
        columns.push(row);
    }
    columns.print(out);
}

fn use_over_time(timeline: &TimelineReport, out: &mut String) {
    let mut columns = Columns::new(&["RESOURCE", "MEAN USE", "PEAK USE"]);
    for (name, used) in &timeline.resources {
        columns.push(vec![name.clone(), percent(used.mean), percent(used.peak)]);
    }
    columns.print(out);
    let WaitTimes { mean, p50, p99, max } = timeline.wait_seconds;
    let waits = format!("mean {mean:.1} s, p50 {p50:.1} s, p99 {p99:.1} s, longest {max:.1} s");
    let _ = writeln!(out, "timeline:     {:.0} s; waits: {waits}", timeline.seconds);
}

fn percent(fraction: f64) -> String {
    format!("{:.1}%", fraction * 100.0)
}

fn summary(report: &Report, out: &mut String) {
    let pods = &report.pods;
    let always = [
        ("total", pods.total),
        ("scheduled", pods.scheduled),
        ("unschedulable", pods.unschedulable),
        ("gated", pods.gated),
    ];
    let rare = [
        ("already running", pods.already_running),
        ("preempted", pods.preempted),
        ("skipped", pods.skipped),
        ("deleted without a node", pods.deleted),
        ("finished", pods.finished),
    ];
    let shown = always.into_iter().chain(rare.into_iter().filter(|(_, n)| *n > 0));
    let counts: Vec<String> = shown.map(|(name, n)| format!("{n} {name}")).collect();
    let _ = writeln!(out, "pods:         {}", counts.join(", "));
    let _ = writeln!(out, "nodes:        {} of {} used", report.nodes.used, report.nodes.total);
    let shares: Vec<String> = report
        .utilisation
        .iter()
        .map(|(name, fraction)| format!("{name} {}", percent(*fraction)))
        .collect();
    let _ = writeln!(out, "utilisation:  {}", shares.join(", "));
    let _ = match report.decisions_per_second {
        Some(speed) => writeln!(out, "decisions:    {} ({speed:.0} per second)", report.decisions),
        None => writeln!(out, "decisions:    {}", report.decisions),
    };
}

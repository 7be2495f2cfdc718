//! A queue for people.

use std::fmt::Write as _;

use super::data::{Queue, QueuedPodAnswer, WaitingGroup};
use crate::columns::Columns;
use crate::explanation::examples_cell;
use crate::format::count;

impl Queue {
    /// The answer in columns; wide ones say until when a pod waits, how often it was tried, where it is nominated to and which
    /// events may bring it back.
    pub fn table(&self, wide: bool) -> String {
        let mut out = String::new();
        let mut head = vec!["ORDER", "POD", "PRIORITY", "STAGE", "BY", "GOES TO"];
        if wide {
            head.extend(["UNTIL", "ATTEMPTS", "NOMINATED TO", "MAY COME BACK WITH"]);
        }
        let mut pods = Columns::new(&head);
        self.pods.iter().for_each(|pod| pods.push(pod.cells(wide)));
        pods.print(&mut out);
        if self.pods.len() < self.n_pods {
            let more = count(self.n_pods - self.pods.len(), "more pod");
            let _ = writeln!(out, "and {more}\n");
        }
        let mut groups = Columns::new(&["WAITING", "STAGE", "PODS", "MESSAGE"]);
        let held_up = self.groups.iter().filter(|group| group.why().is_some());
        held_up.for_each(|group| groups.push(group.cells(wide)));
        groups.print(&mut out);
        if self.groups.len() < self.n_groups {
            let more = count(self.n_groups - self.groups.len(), "more group");
            let _ = writeln!(out, "and {more}\n");
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "note: {warning}");
        }
        if self.n_being_deleted > 0 {
            let pods = count(self.n_being_deleted, "pod");
            let are = if self.n_being_deleted == 1 { "is" } else { "are" };
            let _ = writeln!(
                out,
                "note: {pods} without a node {are} being deleted, and {are} never scheduled"
            );
        }
        let wait = if self.n_pods == 1 { "pod waits" } else { "pods wait" };
        let _ = write!(out, "{} {wait}", self.n_pods);
        for (at, (stage, n)) in self.by_stage.iter().enumerate() {
            let _ = write!(out, "{}{n} {stage}", if at == 0 { ": " } else { ", " });
        }
        out.push('\n');
        out
    }
}

impl QueuedPodAnswer {
    fn cells(&self, wide: bool) -> Vec<String> {
        let place = &self.place;
        let by = if place.held_by.is_empty() { &place.rejected_by } else { &place.held_by };
        let mut cells = vec![
            self.order.to_string(),
            self.pod.clone(),
            self.priority.to_string(),
            place.stage.to_owned(),
            by.join(", "),
            self.goes_to.clone().unwrap_or_default(),
        ];
        if wide {
            cells.push(place.until.clone().unwrap_or_default());
            cells.push(place.attempts.to_string());
            cells.push(place.nominated_node.clone().unwrap_or_default());
            cells.push(place.waits_for.join(", "));
        }
        cells
    }
}

impl WaitingGroup {
    fn cells(&self, wide: bool) -> Vec<String> {
        vec![
            self.count.to_string(),
            self.stage.to_owned(),
            examples_cell(&self.examples, self.count, wide),
            self.why().unwrap_or_default(),
        ]
    }

    /// What they wait for: the message, or else the plugins that hold them up; `None` if nothing does.
    fn why(&self) -> Option<String> {
        let by = if self.held_by.is_empty() { &self.rejected_by } else { &self.held_by };
        let plugins = || (!by.is_empty()).then(|| format!("by {}", by.join(", ")));
        self.message.clone().or_else(plugins)
    }
}

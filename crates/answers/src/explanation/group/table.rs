//! A group for people.

use std::fmt::Write as _;

use super::{DomainsAnswer, GroupAnswer, GroupAttempt};
use crate::columns::Columns;
use crate::explanation::table::names;
use crate::format::count;

impl GroupAnswer {
    /// Where the group stands, one line for each thing that is known, and the domains in columns.
    pub(crate) fn write(&self, out: &mut String) {
        let needed = match self.min_count {
            Some(min_count) => format!("{min_count} needed together, "),
            None => String::new(),
        };
        let stages: Vec<String> =
            self.stages.iter().map(|(stage, n)| format!(", {n} {stage}")).collect();
        let _ = writeln!(
            out,
            "group {}: {needed}{}, {} scheduled{}",
            self.name,
            count(self.n_pods, "pod"),
            self.n_scheduled,
            stages.concat()
        );
        if let Some(missing) = &self.waits_for {
            let _ = writeln!(out, "  {missing}");
        }
        if let Some(attempt) = &self.attempt {
            attempt.write(out);
        }
        if self.attempt.as_ref().is_none_or(|attempt| attempt.domains.is_empty()) {
            out.push('\n');
        }
    }
}

impl GroupAttempt {
    fn write(&self, out: &mut String) {
        let pods = count(self.n_tried, "pod");
        let verdict = match self.verdict {
            "Fits" => "fits",
            "FitsAfterPreemption" => "fits once pods are evicted for it",
            "Error" => "cannot be scheduled because of an error",
            _ => "does not fit",
        };
        let domain = self.chosen.as_ref().map(|chosen| format!(", in {chosen}"));
        let _ = writeln!(out, "  tried now with {pods}: {verdict}{}", domain.unwrap_or_default());
        let texts = [Some(&self.message), self.no_domains.as_ref(), self.preemption.as_ref()];
        for text in texts.into_iter().flatten().filter(|text| !text.is_empty()) {
            let _ = writeln!(out, "  {text}");
        }
        if !self.victims.is_empty() {
            let _ = writeln!(out, "  preemption would evict: {}", names(&self.victims));
        }
        if self.is_abridged {
            let _ = writeln!(out, "  domains are not listed: there are too many domains and pods");
        }
        let mut columns = Columns::new(&["DOMAINS", "NODES", "PLACED", "NOT PLACED", "REASON"]);
        for domains in &self.domains {
            let mut first =
                Some([domains.names(), domains.nodes.to_string(), domains.n_placed.to_string()]);
            for failed in &domains.failed {
                let mut row = Vec::from(first.take().unwrap_or_default());
                let more = if failed.count > failed.examples.len() { ", …" } else { "" };
                row.push(format!("{} ({}{more})", failed.count, failed.examples.join(", ")));
                row.push(failed.message.clone());
                columns.push(row);
            }
            if let Some(first) = first {
                let mut row = Vec::from(first);
                row.extend([String::new(), domains.message.clone()]);
                columns.push(row);
            }
        }
        if !self.domains.is_empty() {
            out.push('\n');
            columns.print(out);
        }
    }
}

impl DomainsAnswer {
    fn names(&self) -> String {
        match (&self.examples[..], self.count) {
            ([], 1) => "-".to_owned(),
            ([], n) => n.to_string(),
            (examples, n) if n > examples.len() => format!("{n}: {}, …", examples.join(", ")),
            (examples, _) => examples.join(", "),
        }
    }
}

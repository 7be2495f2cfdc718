//! Health checks in the reference's form: a list of named checks behind each of three endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use kube_scheduler_api_types::{lock, named_enum};

use crate::metrics::TextPage;

named_enum! {
    /// One thing that can be well or not.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum Check {
        /// The lease, if held, is renewed in time, and will be: the core thread does not hang.
        LeaderElection = "leaderElection",
        /// The process answers, and its core thread does not hang.
        Ping = "ping",
        /// The scheduler is not terminating.
        Shutdown = "shutdown",
        /// Everything in the cluster has been seen.
        Sync = "sched-handler-sync",
    }
}

named_enum! {
    /// Where checks can be asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum Endpoint {
        Healthz = "healthz",
        Livez = "livez",
        Readyz = "readyz",
    }
}

impl Endpoint {
    /// What is checked, in order. `elects` says whether this process takes part in an election.
    pub(crate) const fn checks(self, elects: bool) -> &'static [Check] {
        match (self, elects) {
            (Self::Healthz, true) => &[Check::LeaderElection],
            (Self::Healthz, false) | (Self::Livez, _) => &[Check::Ping],
            (Self::Readyz, true) => &[Check::LeaderElection, Check::Shutdown, Check::Sync],
            (Self::Readyz, false) => &[Check::Shutdown, Check::Sync],
        }
    }
}

/// Whether all is well, and the answer to a request with this query. Counts the checks in `slis`.
pub(crate) fn root(
    endpoint: Endpoint,
    checks: &[Check],
    query: &[(String, String)],
    slis: &Slis,
    failure: impl Fn(Check) -> Option<String>,
) -> (bool, String) {
    let is_verbose = query.iter().any(|(key, _)| key == "verbose");
    let mut unknown: BTreeSet<&str> =
        query.iter().filter(|(key, _)| key == "exclude").map(|(_, value)| value.as_str()).collect();
    let excluded = unknown.clone();
    let name = endpoint.as_str();
    let mut failed = Vec::new();
    let mut text = String::new();
    for check in checks {
        let check_name = check.as_str();
        if excluded.contains(check_name) {
            unknown.remove(check_name);
            text.push_str(&format!("[+]{check_name} excluded: ok\n"));
            continue;
        }
        let reason = failure(*check);
        slis.count(*check, endpoint, reason.is_none());
        match reason {
            Some(reason) => {
                text.push_str(&format!("[-]{check_name} failed: reason withheld\n"));
                failed.push((check_name, reason));
            }
            None => text.push_str(&format!("[+]{check_name} ok\n")),
        }
    }
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
        text.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            names.join(",")
        ));
    }
    let is_well = failed.is_empty();
    if !is_well {
        let names: Vec<&str> = failed.iter().map(|(name, _)| *name).collect();
        let reasons: Vec<String> =
            failed.iter().map(|(name, reason)| format!("[-]{name} failed: {reason}")).collect();
        tracing::debug!(target: "V2f", "{} check failed: {name}\n{}", names.join(","), reasons.join("\n"));
    } else if !is_verbose {
        return (true, "ok".to_owned());
    }
    text.push_str(&format!("{name} check {}\n", if is_well { "passed" } else { "failed" }));
    (is_well, text)
}

/// How often which check was well, for `/metrics/slis`.
#[derive(Debug, Default)]
pub(crate) struct Slis(Mutex<BTreeMap<(&'static str, &'static str), Sli>>);

#[derive(Clone, Copy, Debug, Default)]
struct Sli {
    is_well: bool,
    n_well: u64,
    n_failed: u64,
}

impl Slis {
    fn count(&self, check: Check, endpoint: Endpoint, is_well: bool) {
        let mut all = lock(&self.0);
        let sli = all.entry((check.as_str(), endpoint.as_str())).or_default();
        sli.is_well = is_well;
        if is_well {
            sli.n_well += 1;
        } else {
            sli.n_failed += 1;
        }
    }

    /// Forgets all counts.
    pub(crate) fn reset(&self) {
        lock(&self.0).clear();
    }

    /// The counts as metrics.
    pub(crate) fn print(&self, page: &mut TextPage) {
        let all = lock(&self.0).clone();
        if all.is_empty() {
            return;
        }
        let name = "kubernetes_healthcheck";
        let help = "[STABLE] This metric records the result of a single healthcheck.";
        page.metric(name, "gauge", help);
        for ((check, kind), sli) in &all {
            let labels = [("name", *check), ("type", *kind)];
            page.sample(name, &labels, f64::from(u8::from(sli.is_well)));
        }
        let name = "kubernetes_healthchecks_total";
        page.metric(
            name,
            "counter",
            "[STABLE] This metric records the results of all healthcheck.",
        );
        for ((check, kind), sli) in &all {
            for (status, n) in [("error", sli.n_failed), ("success", sli.n_well)] {
                if n > 0 {
                    let labels = [("name", *check), ("status", status), ("type", *kind)];
                    page.sample(name, &labels, n as f64);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(endpoint: Endpoint, query: &[(&str, &str)]) -> (bool, String) {
        let query: Vec<(String, String)> =
            query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let unsynced = |check| (check == Check::Sync).then(|| "not yet".to_owned());
        root(endpoint, endpoint.checks(false), &query, &Slis::default(), unsynced)
    }

    #[test]
    fn answers_are_short_when_well_and_long_when_not() {
        assert_eq!(asked(Endpoint::Healthz, &[]), (true, "ok".to_owned()));
        let verbose = "[+]ping ok\nhealthz check passed\n".to_owned();
        assert_eq!(asked(Endpoint::Healthz, &[("verbose", "")]), (true, verbose));
        let failed =
            "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n"
                .to_owned();
        assert_eq!(asked(Endpoint::Readyz, &[]), (false, failed));
        assert_eq!(
            asked(Endpoint::Readyz, &[("exclude", "sched-handler-sync")]),
            (true, "ok".to_owned())
        );
        let (is_well, text) = asked(
            Endpoint::Livez,
            &[("verbose", ""), ("exclude", "foo"), ("exclude", "bar"), ("exclude", "foo")],
        );
        assert!(is_well && text.contains("no matches for \"bar\",\"foo\"\n"), "{text}");
    }

    #[test]
    fn electing_changes_what_is_checked() {
        assert_eq!(Endpoint::Healthz.checks(true), [Check::LeaderElection]);
        assert_eq!(Endpoint::Livez.checks(true), [Check::Ping]);
        let names: Vec<&str> =
            Endpoint::Readyz.checks(true).iter().map(|check| check.as_str()).collect();
        assert_eq!(names, ["leaderElection", "shutdown", "sched-handler-sync"]);
    }

    #[test]
    fn counts_are_metrics() {
        let slis = Slis::default();
        slis.count(Check::Ping, Endpoint::Livez, true);
        slis.count(Check::Ping, Endpoint::Livez, true);
        slis.count(Check::Sync, Endpoint::Readyz, false);
        let mut page = TextPage::default();
        slis.print(&mut page);
        let text = page.into_string();
        for line in [
            "kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1",
            "kubernetes_healthcheck{name=\"sched-handler-sync\",type=\"readyz\"} 0",
            "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"livez\"} 2",
            "kubernetes_healthchecks_total{name=\"sched-handler-sync\",status=\"error\",type=\"readyz\"} 1",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} is missing in\n{text}");
        }
        slis.reset();
        let mut page = TextPage::default();
        slis.print(&mut page);
        assert_eq!(page.into_string(), "");
    }
}

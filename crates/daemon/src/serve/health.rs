//! Health checks in upstream's form: a list of named checks behind each of three endpoints.

/// One thing that can be well or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The process answers.
    Ping,
    /// Termination has not begun.
    Shutdown,
    /// Everything in the cluster has been seen.
    Sync,
}

impl Check {
    /// Its name in paths and answers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Shutdown => "shutdown",
            Self::Sync => "sched-handler-sync",
        }
    }
}

/// Where checks can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Healthz,
    Livez,
    Readyz,
}

impl Endpoint {
    /// What is checked, in order.
    pub(crate) const fn checks(self) -> &'static [Check] {
        match self {
            Self::Healthz | Self::Livez => &[Check::Ping],
            Self::Readyz => &[Check::Shutdown, Check::Sync],
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

/// Whether all is well, and the answer to a request with this query.
pub(crate) fn root(
    endpoint: Endpoint,
    query: &str,
    failure: impl Fn(Check) -> Option<&'static str>,
) -> (bool, String) {
    let mut is_verbose = false;
    let mut excluded: Vec<&str> = Vec::new();
    for part in query.split('&') {
        match part.split_once('=').unwrap_or((part, "")) {
            ("verbose", _) => is_verbose = true,
            ("exclude", name) => excluded.push(name),
            _ => {}
        }
    }
    let name = endpoint.name();
    let mut is_well = true;
    let mut text = String::new();
    for check in endpoint.checks() {
        let check_name = check.name();
        if let Some(at) = excluded.iter().position(|name| *name == check_name) {
            excluded.remove(at);
            text.push_str(&format!("[+]{check_name} excluded: ok\n"));
        } else if let Some(reason) = failure(*check) {
            is_well = false;
            tracing::debug!("{check_name} check failed: {name}: {reason}");
            text.push_str(&format!("[-]{check_name} failed: reason withheld\n"));
        } else {
            text.push_str(&format!("[+]{check_name} ok\n"));
        }
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        text.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            names.join(", ")
        ));
    }
    if is_well && !is_verbose {
        return (true, "ok".to_owned());
    }
    text.push_str(&format!("{name} check {}\n", if is_well { "passed" } else { "failed" }));
    (is_well, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsynced(check: Check) -> Option<&'static str> {
        (check == Check::Sync).then_some("not yet")
    }

    #[test]
    fn answers_are_short_when_well_and_long_when_not() {
        assert_eq!(root(Endpoint::Healthz, "", unsynced), (true, "ok".to_owned()));
        let verbose = "[+]ping ok\nhealthz check passed\n".to_owned();
        assert_eq!(root(Endpoint::Healthz, "verbose", unsynced), (true, verbose));
        let failed =
            "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n"
                .to_owned();
        assert_eq!(root(Endpoint::Readyz, "", unsynced), (false, failed));
        assert_eq!(
            root(Endpoint::Readyz, "exclude=sched-handler-sync", unsynced),
            (true, "ok".to_owned())
        );
        let (is_well, text) = root(Endpoint::Livez, "verbose&exclude=foo", unsynced);
        assert!(is_well && text.contains("no matches for \"foo\""), "{text}");
    }
}

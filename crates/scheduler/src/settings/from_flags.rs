//! Flags that set fields of the configuration.

use kube_scheduler_config::Configuration;

use crate::flags::Flags;

/// Deprecated flags that have no effect when there is a configuration file.
const IGNORED_WITH_FILE: [&str; 6] = [
    "contention-profiling",
    "kube-api-burst",
    "kube-api-content-type",
    "kube-api-qps",
    "kubeconfig",
    "profiling",
];

/// The given flags that the configuration file overrides.
pub(super) fn overruled(flags: &Flags) -> Vec<&'static str> {
    IGNORED_WITH_FILE.into_iter().filter(|name| flags.is_given(name)).collect()
}

/// Sets what deprecated flags give in a configuration that is not from a file.
pub(super) fn apply_deprecated(flags: &Flags, config: &mut Configuration) {
    let given = &flags.deprecated;
    if flags.is_given("profiling") {
        config.enable_profiling = Some(given.profiling);
    }
    if flags.is_given("contention-profiling") {
        config.enable_contention_profiling = Some(given.contention_profiling);
    }
    let connection = &mut config.client_connection;
    if flags.is_given("kubeconfig") {
        connection.kubeconfig.clone_from(&given.kubeconfig);
    }
    if flags.is_given("kube-api-content-type") {
        connection.content_type.clone_from(&given.kube_api_content_type);
    }
    if flags.is_given("kube-api-qps") {
        connection.qps = given.kube_api_qps;
    }
    if flags.is_given("kube-api-burst") {
        connection.burst = given.kube_api_burst;
    }
}

/// Sets what the leader election flags give in a configuration with defaults filled in.
pub(super) fn apply_leader_election(flags: &Flags, config: &mut Configuration) {
    let given = &flags.leader_election;
    let election = &mut config.leader_election;
    if flags.is_given("leader-elect") {
        election.leader_elect = Some(given.leader_elect);
    }
    if flags.is_given("leader-elect-lease-duration") {
        election.lease_duration = given.lease_duration;
    }
    if flags.is_given("leader-elect-renew-deadline") {
        election.renew_deadline = given.renew_deadline;
    }
    if flags.is_given("leader-elect-retry-period") {
        election.retry_period = given.retry_period;
    }
    if flags.is_given("leader-elect-resource-lock") {
        election.resource_lock.clone_from(&given.resource_lock);
    }
    if flags.is_given("leader-elect-resource-name") {
        election.resource_name.clone_from(&given.resource_name);
    }
    if flags.is_given("leader-elect-resource-namespace") {
        election.resource_namespace.clone_from(&given.resource_namespace);
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_config::{FeatureGates, default};

    use super::*;
    use crate::flags::CommandLine;

    #[test]
    fn lease_parameters_that_cannot_work_are_rejected_as_by_the_elector() {
        let checked = |line: &str| {
            let mut config = Configuration::default();
            default(&mut config, &FeatureGates::default());
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let Ok(CommandLine::Flags(flags)) = Flags::parse(&args) else { panic!("{line}") };
            apply_leader_election(&flags, &mut config);
            config
                .leader_election
                .check()
                .map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(checked(""), "");
        assert_eq!(checked("--leader-elect=false --leader-elect-resource-lock=x"), "");
        let cases = [
            (
                "--leader-elect-resource-lock=foo",
                "couldn't create resource lock: Invalid lock-type foo",
            ),
            (
                "--leader-elect-resource-lock=endpoints",
                "couldn't create resource lock: endpoints lock is removed, migrate to leases",
            ),
            (
                "--leader-elect-lease-duration=10s",
                "couldn't create leader elector: leaseDuration must be greater than renewDeadline",
            ),
            (
                "--leader-elect-retry-period=9s",
                "couldn't create leader elector: renewDeadline must be greater than retryPeriod*JitterFactor",
            ),
            (
                "--leader-elect-retry-period=0",
                "couldn't create leader elector: retryPeriod must be greater than zero",
            ),
        ];
        for (line, text) in cases {
            assert_eq!(checked(line), text, "{line}");
        }
    }
}

//! Leader election. What is given here goes before the configuration file; what is not leaves the file alone.

use kube_scheduler_config::{Configuration, Duration};

use super::{Flags, section};

section! {
    /// Who schedules when several run.
    LeaderElectionFlags {
        /// Whether to wait for the lease.
        leader_elect: bool = true, "leader-elect",
            "Start a leader election client and gain leadership before executing the main loop. Enable this when running \
             replicated components for high availability.";
        /// How long others wait after the last renewal.
        lease_duration: Duration = Duration::from_secs(15), "leader-elect-lease-duration",
            "The duration that non-leader candidates will wait after observing a leadership renewal until attempting to \
             acquire leadership of a led but unrenewed leader slot. This is effectively the maximum duration that a \
             leader can be stopped before it is replaced by another candidate. This is only applicable if leader election \
             is enabled.";
        /// How long the leader tries to renew.
        renew_deadline: Duration = Duration::from_secs(10), "leader-elect-renew-deadline",
            "The interval between attempts by the acting master to renew a leadership slot before it stops leading. This \
             must be less than the lease duration. This is only applicable if leader election is enabled.";
        /// The pause between tries.
        retry_period: Duration = Duration::from_secs(2), "leader-elect-retry-period",
            "The duration the clients should wait between attempting acquisition and renewal of a leadership. This is \
             only applicable if leader election is enabled.";
        /// The kind of lock.
        resource_lock: String = "leases".to_owned(), "leader-elect-resource-lock",
            "The type of resource object that is used for locking during leader election. Supported options are \
             'leases'.";
        /// The name of the lease.
        resource_name: String = "kube-scheduler".to_owned(), "leader-elect-resource-name",
            "The name of resource object that is used for locking during leader election.";
        /// Its namespace.
        resource_namespace: String = "kube-system".to_owned(), "leader-elect-resource-namespace",
            "The namespace of resource object that is used for locking during leader election.";
    }
}

/// Puts what was given into the configuration, defaults filled in.
pub(crate) fn apply(flags: &Flags, config: &mut Configuration) {
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

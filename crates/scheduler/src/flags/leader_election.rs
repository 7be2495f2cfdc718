//! Leader election. Flags that are given override the configuration file.

use kube_scheduler_config::Duration;

use super::section::section;

section! {
    /// Which one of several schedulers is active.
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

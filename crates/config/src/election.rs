//! Whether a leader can be elected with the times and the lock that a configuration names.
//!
//! The elector refuses these when it starts, with texts of its own. Validation finds most of them before, in a file; flags
//! without a file are not validated, and the jitter is checked here only.

use crate::duration::Duration;
use crate::v1::LeaderElection;

/// Why leader election cannot be had as configured. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaderElectionError {
    /// The kind of lock does not exist any more, or never did.
    #[error("couldn't create resource lock: {0}")]
    Lock(String),
    /// The three times cannot work together, such as a renewal deadline after the end of the lease.
    #[error("couldn't create leader elector: {0}")]
    Timing(&'static str),
}

impl LeaderElection {
    /// Checks what an elector needs, defaults filled in. All is well if no leader is to be elected.
    ///
    /// # Errors
    /// If the lock is not of kind `leases`, or the times cannot work.
    pub fn check(&self) -> Result<(), LeaderElectionError> {
        if self.leader_elect != Some(true) {
            return Ok(());
        }
        let removed = |to: &str| {
            let text = format!("{} lock is removed, {to} to leases", self.resource_lock);
            Err(LeaderElectionError::Lock(text))
        };
        match self.resource_lock.as_str() {
            "leases" => {}
            "endpoints" | "configmaps" | "endpointsleases" => return removed("migrate"),
            "configmapsleases" => return removed("migrated"),
            other => return Err(LeaderElectionError::Lock(format!("Invalid lock-type {other}"))),
        }
        let wrong = |text| Err(LeaderElectionError::Timing(text));
        let [lease, renew, retry] =
            [self.lease_duration, self.renew_deadline, self.retry_period].map(Duration::as_nanos);
        if lease <= renew {
            return wrong("leaseDuration must be greater than renewDeadline");
        }
        // The reference multiplies by 1.2 in floating point and cuts off; so does this, for all that can matter.
        if i128::from(renew) <= i128::from(retry) * 6 / 5 {
            return wrong("renewDeadline must be greater than retryPeriod*JitterFactor");
        }
        if lease < 1 {
            return wrong("leaseDuration must be greater than zero");
        }
        if renew < 1 {
            return wrong("renewDeadline must be greater than zero");
        }
        if retry < 1 {
            return wrong("retryPeriod must be greater than zero");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Configuration, FeatureGates, default};

    use super::*;

    fn checked(change: impl FnOnce(&mut LeaderElection)) -> String {
        let mut config = Configuration::default();
        default(&mut config, &FeatureGates::default());
        change(&mut config.leader_election);
        config.leader_election.check().map_or_else(|error| error.to_string(), |()| "well".into())
    }

    #[test]
    fn the_defaults_are_well_and_nothing_matters_without_an_election() {
        assert_eq!(checked(|_| ()), "well");
        let change = |election: &mut LeaderElection| {
            election.leader_elect = Some(false);
            election.resource_lock = "x".into();
        };
        assert_eq!(checked(change), "well");
    }

    #[test]
    fn locks_that_are_no_more_say_where_to_go() {
        for (lock, text) in [
            ("endpoints", "endpoints lock is removed, migrate to leases"),
            ("configmaps", "configmaps lock is removed, migrate to leases"),
            ("endpointsleases", "endpointsleases lock is removed, migrate to leases"),
            ("configmapsleases", "configmapsleases lock is removed, migrated to leases"),
            ("foo", "Invalid lock-type foo"),
        ] {
            let reported = checked(|election| election.resource_lock = lock.into());
            assert_eq!(reported, format!("couldn't create resource lock: {text}"));
        }
    }

    #[test]
    fn times_that_cannot_work_are_refused() {
        for (times, text) in [
            (["10s", "10s", "2s"], "leaseDuration must be greater than renewDeadline"),
            (
                ["15s", "10s", "8334ms"],
                "renewDeadline must be greater than retryPeriod*JitterFactor",
            ),
            (["15s", "10s", "0"], "retryPeriod must be greater than zero"),
            (["0", "-1s", "-2s"], "leaseDuration must be greater than zero"),
            (["1s", "0", "-1s"], "renewDeadline must be greater than zero"),
        ] {
            let [lease, renew, retry] = times.map(|time| Duration::parse(time).unwrap());
            let reported = checked(|election| {
                election.lease_duration = lease;
                election.renew_deadline = renew;
                election.retry_period = retry;
            });
            assert_eq!(reported, format!("couldn't create leader elector: {text}"));
        }
        assert_eq!(
            checked(|election| election.retry_period = Duration::parse("8333ms").unwrap()),
            "well"
        );
    }
}

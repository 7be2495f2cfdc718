//! Which of several schedulers decides: leader election on a Lease, as the reference does it.
//!
//! A candidate that does not lead keeps its caches up to date and writes nothing but, now and then and beside what the lease says of
//! its holder, by which certificate it can be known. `election` holds the rules without any clock or network; `elector` carries them out,
//! and keeps the fence that stops writes the moment leadership may have ended; `catch_up` lies between the lease and the first decision.
//!
//! Invariants: at any time at most one of the schedulers that share a lease is allowed to write; a scheduler that led and
//! does not any more never leads again in the same process.

mod catch_up;
mod election;
mod elector;
mod lease;
mod record;

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_config::{Configuration, Duration as ConfigDuration, LeaderElectionError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::announcement::CertificateDigest;
use crate::backoff::{random_bits, random_jitter};
use crate::clock::Clock;
use crate::fence::{self, Fence};
use crate::metrics::Metrics;
use crate::transport::Api;
pub(crate) use catch_up::catch_up;
use election::{Election, Timing};
use elector::Elector;
pub(crate) use elector::Leadership;
use lease::LeaseClient;

/// Options of leader election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElectionOptions {
    timing: Timing,
    namespace: String,
    name: String,
    identity: Option<String>,
    delays_cache: bool,
}

impl LeaderElectionOptions {
    /// As a configuration wants it, defaults filled in; `None` if it wants none.
    ///
    /// # Errors
    /// If the lock is not of kind `leases`, or the times cannot work.
    pub fn of(config: &Configuration) -> Result<Option<Self>, LeaderElectionError> {
        let wanted = &config.leader_election;
        if wanted.leader_elect != Some(true) {
            return Ok(None);
        }
        wanted.check()?;
        let length = |length: ConfigDuration| length.to_std().unwrap_or_default();
        let timing = Timing {
            lease_duration: length(wanted.lease_duration),
            renew_deadline: length(wanted.renew_deadline),
            retry_period: length(wanted.retry_period),
        };
        Ok(Some(Self {
            timing,
            namespace: wanted.resource_namespace.clone(),
            name: wanted.resource_name.clone(),
            identity: None,
            delays_cache: config.delay_cache_until_active,
        }))
    }

    /// Who this candidate is; no two may be the same. By default the name of the host and a random UUID.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Whether caches stay empty until it leads.
    pub(crate) const fn delays_cache(&self) -> bool {
        self.delays_cache
    }
}

/// `<host>_<random UUID>`.
fn fresh_identity(hostname: &str) -> String {
    let (high, low) = (random_bits(), random_bits());
    let bits = (u128::from(high) << 64) | u128::from(low);
    let uuid = uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid();
    format!("{hostname}_{uuid}")
}

/// A candidate at work. Dropping it ends it as a crash would.
#[derive(Debug)]
pub(crate) struct Candidate {
    leadership: watch::Receiver<Leadership>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// A candidate that has not started.
pub(crate) struct Candidacy {
    elector: Elector,
    leadership: watch::Receiver<Leadership>,
}

impl Candidacy {
    /// Prepares a candidate. The fence is closed while it does not lead; it neither leads nor tries to while `core_hangs`.
    pub(crate) fn new(
        options: LeaderElectionOptions,
        api: Api,
        clock: Clock,
        metrics: Arc<Metrics>,
        core_hangs: watch::Receiver<bool>,
        hostname: &str,
        component: String,
    ) -> (Self, Fence) {
        let (keeper, fence) = fence::closed(move || clock.now());
        let (sender, leadership) = watch::channel(Leadership::Standby);
        let identity = options.identity.unwrap_or_else(|| fresh_identity(hostname));
        metrics.set_leading(false);
        let elector = Elector {
            election: Election::new(identity, options.timing, clock.now()),
            lease: LeaseClient::new(api, &options.namespace, &options.name),
            clock,
            fence: keeper,
            leadership: sender,
            metrics,
            core_hangs,
            component,
            timeout: (options.timing.renew_deadline / 2).max(Duration::from_secs(1)),
            release_within: options.timing.renew_deadline,
            held: None,
            has_written: false,
            jitter: random_jitter(),
        };
        (Self { elector, leadership }, fence)
    }

    /// This candidate, which announces in the lease by which certificate it can be known when it leads.
    pub(crate) fn announcing(mut self, certificate: watch::Receiver<CertificateDigest>) -> Self {
        self.elector.lease = self.elector.lease.announcing(certificate);
        self
    }

    /// Where the candidate stands.
    pub(crate) fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Begins to contend.
    pub(crate) fn begin(self) -> Candidate {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(self.elector.run(stopped));
        Candidate { leadership: self.leadership, stop, task }
    }
}

impl Candidate {
    /// Waits until leadership is lost; for ever if it never is.
    pub(crate) async fn lost(&mut self) {
        // An elector that broke down renews nothing any more, and has closed the fence: leadership counts as lost.
        let _ = self.leadership.wait_for(|leadership| *leadership == Leadership::Lost).await;
    }

    /// Gives the lease back and ends. Whatever the lease guards must have ended before.
    pub(crate) async fn end(mut self) {
        self.stop.send_replace(true);
        // It ends by itself, within the time that giving back may take.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(change: impl FnOnce(&mut Configuration)) -> Configuration {
        let gates = kube_scheduler_config::FeatureGates::default();
        let mut config = Configuration::default();
        kube_scheduler_config::default(&mut config, &gates);
        change(&mut config);
        config
    }

    #[test]
    fn the_defaults_are_the_references() {
        let options = LeaderElectionOptions::of(&config(|_| {})).unwrap().unwrap();
        assert_eq!(
            options.timing,
            Timing {
                lease_duration: Duration::from_secs(15),
                renew_deadline: Duration::from_secs(10),
                retry_period: Duration::from_secs(2),
            }
        );
        assert_eq!((&*options.namespace, &*options.name), ("kube-system", "kube-scheduler"));
        let off = config(|config| config.leader_election.leader_elect = Some(false));
        assert_eq!(LeaderElectionOptions::of(&off), Ok(None));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let wrong = config(|config| config.leader_election.resource_lock = "endpoints".into());
        assert_eq!(
            LeaderElectionOptions::of(&wrong).unwrap_err().to_string(),
            "couldn't create resource lock: endpoints lock is removed, migrate to leases"
        );
    }

    #[test]
    fn identities_are_never_the_same() {
        let (one, other) = (fresh_identity("host"), fresh_identity("host"));
        assert_ne!(one, other);
        assert!(one.starts_with("host_") && one.len() == "host_".len() + 36, "{one}");
    }
}

//! The volume controllers: they bind claims to volumes, provision volumes, and reclaim them.
//!
//! One task has the roles of three programs of a real cluster:
//! - the *volume binder* of the controller manager: claims of immediate classes get the smallest volume that fits;
//!   bindings that a scheduler has started, by naming a claim in a volume, are completed; phases are kept up to date;
//!   volumes whose claim is gone are deleted or released according to their reclaim policy;
//! - an *external provisioner* for every class whose provisioner is not `kubernetes.io/no-provisioner`: claims of
//!   immediate classes get a new volume when none fits; claims that wait for their first consumer get one once a scheduler
//!   has put `volume.kubernetes.io/selected-node` on them. The volume can be used around that node: by the topology
//!   keys that its CSINode lists for the driver, else in its zone, else on that node alone. [`Volumes::set_fault`] makes
//!   provisioning stall or fail; a failure removes the selected node from the claim, as real provisioners do;
//! - the *ephemeral volume controller*: claims for generic ephemeral volumes are created and deleted with their pods.
//!
//! Volumes have no data, nothing is attached, and there is no finalizer that protects volumes in use. Invariants: a
//! claim is bound to one volume and a volume to one claim; both sides of a binding are written together; what was
//! decided because of a watch event is checked again under the store's lock before it is written.

mod binder;
mod claims;
mod ephemeral;
mod provisioner;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::history::ChangeType;
use crate::kinds::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES};
use crate::object::{StoredObject, key_of};
use crate::selectors::Selection;
use crate::status::StatusError;
use crate::store::{State, Store};
use crate::watch::{WatchEvent, Watcher};
use binder::{Need, needs_of_claim, settle_volume};
use claims::claim_of;

/// How volumes are provisioned.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct VolumeOptions {
    /// Time from the moment a claim can have a volume to the creation of that volume; none by default.
    pub provision_latency: Duration,
}

/// How provisioning fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ProvisionFault {
    /// Not at all.
    #[default]
    None,
    /// No volume is made until the fault is cleared; claims keep their selected node.
    Stall,
    /// Some attempts fail; each failure removes the selected node from its claim.
    Fail {
        /// How many more attempts fail.
        times: u64,
    },
}

/// The volume controllers of a running cluster.
#[derive(Debug)]
pub struct Volumes {
    fault: Arc<watch::Sender<ProvisionFault>>,
}

impl Volumes {
    /// Sets or, with [`ProvisionFault::None`], clears the fault.
    pub fn set_fault(&self, fault: ProvisionFault) {
        self.fault.send_replace(fault);
    }

    /// The current fault; the number of failures counts down.
    pub fn fault(&self) -> ProvisionFault {
        *self.fault.borrow()
    }
}

/// The handle of the controllers, and their task.
pub(crate) fn controllers(
    store: Arc<Store>,
    options: VolumeOptions,
    shutdown: CancellationToken,
) -> (Volumes, impl Future<Output = ()>) {
    let fault = Arc::new(watch::Sender::new(ProvisionFault::None));
    (Volumes { fault: fault.clone() }, run(store, options, fault, shutdown))
}

async fn run(
    store: Arc<Store>,
    options: VolumeOptions,
    fault: Arc<watch::Sender<ProvisionFault>>,
    shutdown: CancellationToken,
) {
    while !shutdown.is_cancelled() {
        let mut task = VolumeTask::new(store.clone(), options.clone(), fault.clone());
        if let Err(error) = task.follow(&shutdown).await {
            // Too far behind its watches: start over from the current state.
            debug!(%error, "volume controllers lost their watch");
        }
    }
}

struct VolumeTask {
    store: Arc<Store>,
    options: VolumeOptions,
    fault: Arc<watch::Sender<ProvisionFault>>,
    /// Volumes as of the last watch event, parsed once.
    volumes: BTreeMap<String, Value>,
    stale_volumes: BTreeSet<String>,
    stale_claims: BTreeSet<String>,
    /// Claims for which there is neither a volume nor a provisioner.
    waiting: BTreeSet<String>,
    /// Claims whose volume is being provisioned, and when that is done.
    due: BTreeMap<String, Instant>,
}

impl VolumeTask {
    fn new(
        store: Arc<Store>,
        options: VolumeOptions,
        fault: Arc<watch::Sender<ProvisionFault>>,
    ) -> Self {
        Self {
            store,
            options,
            fault,
            volumes: BTreeMap::new(),
            stale_volumes: BTreeSet::new(),
            stale_claims: BTreeSet::new(),
            waiting: BTreeSet::new(),
            due: BTreeMap::new(),
        }
    }

    async fn follow(&mut self, shutdown: &CancellationToken) -> Result<(), StatusError> {
        let all = |kind| Watcher::list_and_watch(self.store.clone(), kind, Selection::all());
        let (classes, mut class_watch) = all(STORAGE_CLASSES)?;
        // Only changes of classes matter: they may give waiting claims a provisioner.
        drop(classes);
        let (volumes, mut volume_watch) = all(PERSISTENT_VOLUMES)?;
        let (claims, mut claim_watch) = all(PERSISTENT_VOLUME_CLAIMS)?;
        let (pods, mut pod_watch) = all(PODS)?;
        volumes.iter().for_each(|volume| self.see_volume(volume, false));
        self.stale_claims.extend(claims.iter().map(|claim| key(claim)));
        ephemeral::remove_orphans(&self.store, &claims);
        ephemeral::create_claims(&self.store, pods.iter());
        let mut fault_watch = self.fault.subscribe();
        loop {
            self.work();
            let fault = *fault_watch.borrow_and_update();
            // While provisioning stalls, no claim becomes due.
            let wake = if fault == ProvisionFault::Stall {
                None
            } else {
                self.due.values().min().copied()
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                changed = fault_watch.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                }
                events = class_watch.next() => {
                    drop(events?);
                    self.stale_claims.append(&mut self.waiting);
                }
                events = volume_watch.next() => {
                    for event in events? {
                        self.see_volume(&event.object, event.change_type == ChangeType::Deleted);
                    }
                }
                events = claim_watch.next() => {
                    for event in events? {
                        self.see_claim(&event);
                    }
                }
                events = pod_watch.next() => ephemeral::follow(&self.store, &events?),
                () = wait_until(wake) => {}
            }
        }
    }

    fn see_volume(&mut self, object: &StoredObject, is_gone: bool) {
        let value = object.value();
        let claim = claim_of(&value);
        match &claim {
            Some(claim) => {
                self.stale_claims.insert(claim.clone());
            }
            // Any of the waiting claims may want it.
            None => self.stale_claims.append(&mut self.waiting),
        }
        if is_gone {
            self.volumes.remove(object.name());
        } else {
            self.volumes.insert(object.name().to_owned(), value);
            self.stale_volumes.insert(object.name().to_owned());
        }
    }

    fn see_claim(&mut self, event: &WatchEvent) {
        let claim = key(&event.object);
        if event.change_type != ChangeType::Deleted {
            self.stale_claims.insert(claim);
            return;
        }
        self.waiting.remove(&claim);
        self.due.remove(&claim);
        let left =
            self.volumes.iter().filter(|(_, value)| claim_of(value).as_ref() == Some(&claim));
        self.stale_volumes.extend(left.map(|(name, _)| name.clone()));
    }

    /// Brings everything stale up to date, in one write.
    fn work(&mut self) {
        let now = Instant::now();
        let is_stalled = *self.fault.borrow() == ProvisionFault::Stall;
        if self.stale_volumes.is_empty() && self.stale_claims.is_empty() && self.due.is_empty() {
            return;
        }
        let store = self.store.clone();
        // The closure returns no error; a write that is rejected leaves its object as it is.
        let _ = store.write(|state| {
            for name in std::mem::take(&mut self.stale_volumes) {
                settle_volume(state, &name);
            }
            for claim in std::mem::take(&mut self.stale_claims) {
                self.settle_claim(state, &claim, now);
            }
            let ready = |due: &Instant| !is_stalled && *due <= now;
            let ready: Vec<String> =
                self.due.iter().filter(|(_, due)| ready(due)).map(|(key, _)| key.clone()).collect();
            for claim in ready {
                self.due.remove(&claim);
                self.provision(state, &claim);
            }
            Ok(())
        });
    }

    fn settle_claim(&mut self, state: &mut State, claim: &str, now: Instant) {
        self.waiting.remove(claim);
        match needs_of_claim(state, claim, &self.volumes) {
            Need::Nothing => {
                self.due.remove(claim);
            }
            Need::Volume => {
                self.due.remove(claim);
                self.waiting.insert(claim.to_owned());
            }
            Need::Provisioning => {
                let due = now + self.options.provision_latency;
                self.due.entry(claim.to_owned()).or_insert(due);
            }
        }
    }

    fn provision(&mut self, state: &mut State, claim: &str) {
        let mut fails = false;
        self.fault.send_if_modified(|fault| {
            if let ProvisionFault::Fail { times } = fault {
                fails = *times > 0;
                *times = times.saturating_sub(1);
                if *times == 0 {
                    *fault = ProvisionFault::None;
                }
            }
            fails
        });
        if fails {
            if !provisioner::reject_selected_node(state, claim) {
                // No scheduler will choose again, so the next attempt starts by itself.
                self.due.insert(claim.to_owned(), Instant::now() + self.options.provision_latency);
            }
        } else if let Err(error) = provisioner::provision(state, claim) {
            debug!(%error, claim, "no volume made");
        }
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn key(object: &StoredObject) -> String {
    key_of(object.namespace(), object.name())
}

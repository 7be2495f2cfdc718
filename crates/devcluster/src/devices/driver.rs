//! The sample driver: it publishes the classes of its devices, and their slices as nodes come and go.
//!
//! Invariants: a node that exists has its slices, also after one was deleted; the slices of a node that is gone are
//! deleted; a zone has its pool as long as a node is in it. Classes are published once and belong to the administrator then.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::well_known::ZONE;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::sample::{self, SampleDevices, is_sample, zone_slice};
use crate::api::WriteOptions;
use crate::api::create::create_in;
use crate::api::delete::{DeleteOptions, delete_in};
use crate::history::ChangeType;
use crate::kinds::{DEVICE_CLASSES, NODES, RESOURCE_SLICES};
use crate::object::{StoredObject, text_at};
use crate::selectors::Selection;
use crate::status::StatusError;
use crate::store::{State, Store};
use crate::watch::{WatchEvent, Watcher};

/// How many nodes are looked at in one write.
const BATCH: usize = 64;

/// Runs until `shutdown`.
pub(crate) async fn run(store: Arc<Store>, devices: SampleDevices, shutdown: CancellationToken) {
    // The closure returns no error, so neither does the write.
    let _ = store.write(|state| {
        publish_classes(state);
        Ok(())
    });
    while !shutdown.is_cancelled() {
        let mut task = DriverTask {
            store: store.clone(),
            devices: devices.clone(),
            stale_nodes: BTreeSet::new(),
            stale_zones: BTreeSet::new(),
        };
        if let Err(error) = task.follow(&shutdown).await {
            // Too far behind its watches: start over from the current state.
            debug!(%error, "sample driver lost its watch");
        }
    }
}

struct DriverTask {
    store: Arc<Store>,
    devices: SampleDevices,
    stale_nodes: BTreeSet<String>,
    stale_zones: BTreeSet<String>,
}

impl DriverTask {
    async fn follow(&mut self, shutdown: &CancellationToken) -> Result<(), StatusError> {
        let all = |kind| Watcher::list_and_watch(self.store.clone(), kind, Selection::all());
        let (slices, mut slice_watch) = all(RESOURCE_SLICES)?;
        let (nodes, mut node_watch) = all(NODES)?;
        slices.iter().for_each(|slice| self.see_slice(slice));
        nodes.iter().for_each(|node| self.see_node(node));
        loop {
            while self.work() {
                tokio::task::yield_now().await;
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                events = slice_watch.next() => {
                    let gone = events?.into_iter().filter(|event| event.change_type == ChangeType::Deleted);
                    gone.for_each(|event| self.see_slice(&event.object));
                }
                events = node_watch.next() => {
                    let changed = events?.into_iter().filter(matters);
                    changed.for_each(|event| self.see_node(&event.object));
                }
            }
        }
    }

    fn see_slice(&mut self, slice: &StoredObject) {
        let value = slice.value();
        if !is_sample(text_at(&value, &["spec", "driver"])) {
            return;
        }
        match text_at(&value, &["spec", "nodeName"]) {
            "" => self.stale_zones.insert(text_at(&value, &["spec", "pool", "name"]).to_owned()),
            node => self.stale_nodes.insert(node.to_owned()),
        };
    }

    fn see_node(&mut self, node: &StoredObject) {
        self.stale_nodes.insert(node.name().to_owned());
        self.stale_zones.extend(node.label(ZONE).map(str::to_owned));
    }

    /// Looks at some nodes and zones; returns whether more are left.
    fn work(&mut self) -> bool {
        if self.stale_nodes.is_empty() && self.stale_zones.is_empty() {
            return false;
        }
        let store = self.store.clone();
        // The closure returns no error, so neither does the write.
        let _ = store.write(|state| {
            for _ in 0..BATCH {
                let Some(node) = self.stale_nodes.pop_first() else { break };
                settle_node(state, &self.devices, &node);
            }
            for zone in std::mem::take(&mut self.stale_zones) {
                settle_zone(state, &self.devices, &zone);
            }
            Ok(())
        });
        !self.stale_nodes.is_empty()
    }
}

/// Whether a node came or went; its other changes do not matter to a driver.
fn matters(event: &WatchEvent) -> bool {
    event.change_type != ChangeType::Modified
}

/// Publishes the classes that do not exist.
pub(super) fn publish_classes(state: &mut State) {
    for class in sample::classes() {
        // Rejected only when it exists.
        let _ = create_in(state, DEVICE_CLASSES, "", class, &WriteOptions::default());
    }
}

/// Publishes or deletes the slices of a node.
pub(super) fn settle_node(state: &mut State, devices: &SampleDevices, name: &str) {
    let node = state.get(NODES, "", name).cloned();
    let Some(node) = node else {
        let orphans = state
            .objects(RESOURCE_SLICES)
            .filter(|slice| slice.field(0) == name && is_sample(slice.field(1)));
        let orphans: Vec<String> = orphans.map(|slice| slice.name().to_owned()).collect();
        orphans.iter().for_each(|slice| delete(state, slice));
        return;
    };
    for slice in devices.of_node(&node.value()) {
        let name = text_at(&slice, &["metadata", "name"]).to_owned();
        let known = state.get(RESOURCE_SLICES, "", &name);
        match known.map(|known| known.owners().iter().any(|uid| **uid == *node.uid())) {
            Some(true) => continue,
            // It belonged to an earlier node of the same name.
            Some(false) => delete(state, &name),
            None => {}
        }
        publish(state, slice);
    }
}

/// Publishes or deletes the slice of a zone.
pub(super) fn settle_zone(state: &mut State, devices: &SampleDevices, zone: &str) {
    let is_used = state.objects(NODES).any(|node| node.label(ZONE) == Some(zone));
    let name = zone_slice(zone);
    let is_there = state.get(RESOURCE_SLICES, "", &name).is_some();
    match (is_used, is_there) {
        (true, false) => {
            if let Some(slice) = devices.of_zone(zone) {
                publish(state, slice);
            }
        }
        (false, true) => delete(state, &name),
        _ => {}
    }
}

fn publish(state: &mut State, slice: serde_json::Value) {
    if let Err(error) = create_in(state, RESOURCE_SLICES, "", slice, &WriteOptions::default()) {
        debug!(%error, "no slice published");
    }
}

fn delete(state: &mut State, slice: &str) {
    // Rejected only when it is gone.
    let _ = delete_in(state, RESOURCE_SLICES, "", slice, &DeleteOptions::default());
}

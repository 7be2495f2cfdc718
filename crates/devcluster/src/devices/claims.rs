//! The controller of resource claims over the store in memory; the rules are in [`rules`](super::rules).

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::rules::{ClaimController, ClaimKind, ClaimStore};
use crate::api::WriteOptions;
use crate::api::create::create_in;
use crate::api::delete::{DeleteOptions, delete_in};
use crate::api::update::{Part, Target, modify_in};
use crate::history::ChangeType;
use crate::kinds::{KindId, POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS};
use crate::object::StoredObject;
use crate::selectors::Selection;
use crate::status::StatusError;
use crate::store::{State, Store};
use crate::watch::{WatchEvent, Watcher};

/// Runs until `shutdown`.
pub(crate) async fn run(store: Arc<Store>, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        if let Err(error) = follow(&store, &shutdown).await {
            // Too far behind its watches: start over from the current state.
            debug!(%error, "claim controller lost its watch");
        }
    }
}

async fn follow(store: &Arc<Store>, shutdown: &CancellationToken) -> Result<(), StatusError> {
    let mut controller = ClaimController::default();
    let all = |kind| Watcher::list_and_watch(store.clone(), kind, Selection::all());
    let (templates, mut template_watch) = all(RESOURCE_CLAIM_TEMPLATES)?;
    // Only changes of templates matter: pods and groups that wait may get their claims.
    drop(templates);
    let (claims, mut claim_watch) = all(RESOURCE_CLAIMS)?;
    let (groups, mut group_watch) = all(POD_GROUPS)?;
    let (pods, mut pod_watch) = all(PODS)?;
    let listed = [(ClaimKind::Group, groups), (ClaimKind::Claim, claims), (ClaimKind::Pod, pods)];
    for (kind, objects) in listed {
        objects.iter().for_each(|object| see(&mut controller, kind, object, ChangeType::Added));
    }
    loop {
        if !controller.is_idle() {
            // The closure returns no error, so neither does the write.
            let _ = store.write(|state| {
                controller.work(state);
                Ok(())
            });
        }
        let (kind, events) = tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            events = template_watch.next() => (ClaimKind::Template, events?),
            events = group_watch.next() => (ClaimKind::Group, events?),
            events = claim_watch.next() => (ClaimKind::Claim, events?),
            events = pod_watch.next() => (ClaimKind::Pod, events?),
        };
        for WatchEvent { change_type, object } in events {
            see(&mut controller, kind, &object, change_type);
        }
    }
}

fn see(
    controller: &mut ClaimController,
    kind: ClaimKind,
    object: &StoredObject,
    change: ChangeType,
) {
    // Most pods have no claims and need not be parsed. They may have reserved one nevertheless.
    if kind == ClaimKind::Pod && !has_claims(object) {
        return controller.claims_are_stale(object.uid());
    }
    controller.see(kind, &object.value(), change == ChangeType::Deleted);
}

/// A cheap look at the text.
fn has_claims(pod: &StoredObject) -> bool {
    const FIELD: &[u8] = b"\"resourceClaims\":";
    pod.json().windows(FIELD.len()).any(|window| window == FIELD)
}

fn stored(kind: ClaimKind) -> KindId {
    match kind {
        ClaimKind::Pod => PODS,
        ClaimKind::Group => POD_GROUPS,
        ClaimKind::Template => RESOURCE_CLAIM_TEMPLATES,
        ClaimKind::Claim => RESOURCE_CLAIMS,
    }
}

impl ClaimStore for State {
    fn get(&self, kind: ClaimKind, namespace: &str, name: &str) -> Option<Value> {
        Self::get(self, stored(kind), namespace, name).map(|object| object.value())
    }

    fn owned_claims(&self, _: &str, uid: &str) -> Vec<Value> {
        let dependents = self.dependents.of(uid);
        let claims = dependents.filter(|(kind, _)| *kind == RESOURCE_CLAIMS);
        let claims = claims.filter_map(|(_, key)| {
            let (namespace, name) = key.split_once('/')?;
            ClaimStore::get(self, ClaimKind::Claim, namespace, name)
        });
        claims.collect()
    }

    fn create_claim(&mut self, namespace: &str, claim: Value) -> Option<String> {
        match create_in(self, RESOURCE_CLAIMS, namespace, claim, &WriteOptions::default()) {
            Ok(claim) => Some(claim.name().to_owned()),
            Err(error) => {
                debug!(%error, namespace, "no claim made");
                None
            }
        }
    }

    fn put_status(&mut self, kind: ClaimKind, object: Value) {
        self.put(stored(kind), object);
    }

    fn change_claim(
        &mut self,
        namespace: &str,
        name: &str,
        is_status: bool,
        change: &mut dyn FnMut(&mut Value),
    ) {
        let part = if is_status { Part::Status } else { Part::Main };
        let target = Target { kind: RESOURCE_CLAIMS, namespace, name, part };
        // Rejected only when it is gone.
        let _ = modify_in(self, target, &WriteOptions::default(), |old| {
            let mut new = old.clone();
            change(&mut new);
            Ok(new)
        });
    }

    fn delete_claim(&mut self, namespace: &str, name: &str, uid: &str) {
        let options = DeleteOptions { uid: Some(uid.to_owned()), ..DeleteOptions::default() };
        // Rejected only when it is gone.
        let _ = delete_in(self, RESOURCE_CLAIMS, namespace, name, &options);
    }
}

//! What a scheduler does on its way to its first decision: which kinds it follows, and when it may begin.

use std::collections::BTreeSet;

use kube_scheduler_engine::Engine;
use kube_scheduler_framework::ClusterEvent;
use tokio::sync::watch;

use crate::extender::HttpExtenders;
use crate::inbox::{Inbox, Observation};
use crate::kinds::WatchedKind;
use crate::leader::{Leadership, catch_up};
use crate::progress::Progress;
use crate::transport::Api;
use crate::watch::Position;

/// Waits until this scheduler leads; at once where there is no election. `false` if it never will.
pub(super) async fn until_leading(leadership: Option<watch::Receiver<Leadership>>) -> bool {
    let Some(mut leadership) = leadership else { return true };
    let is_settled = |leadership: &Leadership| *leadership != Leadership::Standby;
    leadership.wait_for(is_settled).await.is_ok_and(|leadership| *leadership == Leadership::Leading)
}

/// Lets decisions begin once this scheduler leads and has seen what was done before.
pub(super) async fn lead(
    leadership: Option<watch::Receiver<Leadership>>,
    delays_cache: bool,
    api: Api,
    positions: Vec<Position>,
    inbox: Inbox,
    mut progress: watch::Receiver<Progress>,
) {
    if !until_leading(leadership.clone()).await {
        return;
    }
    if delays_cache {
        tracing::info!("Starting informers and waiting for sync...");
        // Lists that begin after the lease was acquired show all that was done before.
        if progress.wait_for(|progress| progress.is_synced).await.is_err() {
            return;
        }
        tracing::info!("Sync completed");
    } else if leadership.is_some() {
        catch_up(&api, positions).await;
    }
    // A core that has ended needs no orders.
    let _ = inbox.observe(Observation::Lead);
}

/// What the plugins want to hear of, and what is always followed.
pub(super) fn followed_kinds(engine: &Engine, extenders: &HttpExtenders) -> Vec<WatchedKind> {
    let mut names = BTreeSet::new();
    if !extenders.extenders.is_empty() {
        // Whatever happens may change an extender's mind.
        let events = ClusterEvent::catch_all(false);
        names.extend(events.iter().map(|event| event.resource().as_str().to_owned()));
    }
    for entry in engine.profiles().iter().flat_map(|profile| profile.plugins()) {
        let reads = entry.plugin.reads_objects();
        names.extend(reads.iter().map(|resource| resource.as_str().to_owned()));
        let Some(extensions) = entry.plugin.as_enqueue_extensions() else { continue };
        names.extend(
            extensions
                .events_to_register()
                .iter()
                .map(|registration| registration.event.resource().as_str().to_owned()),
        );
    }
    let kinds = WatchedKind::all_for(names.iter().map(String::as_str)).into_iter();
    kinds.map(|kind| kind.keeping(extenders.pods, extenders.nodes)).collect()
}

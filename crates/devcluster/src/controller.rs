//! The disruption controller: it keeps the status of disruption budgets up to date, which preemption and eviction read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::api::disruption;
use crate::history::ChangeType;
use crate::kinds::{DISRUPTION_BUDGETS, PODS};
use crate::object::StoredObject;
use crate::selectors::Selection;
use crate::status::StatusError;
use crate::store::Store;
use crate::watch::Watcher;

/// Changes within this time are handled together.
const SETTLE: Duration = Duration::from_millis(20);

/// Runs until `shutdown`.
pub(crate) async fn run(store: Arc<Store>, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        // An error means that a watch is too far behind; the next round starts from the current state.
        let _ = follow(&store, &shutdown).await;
    }
}

async fn follow(store: &Arc<Store>, shutdown: &CancellationToken) -> Result<(), StatusError> {
    let (budgets, mut budget_watch) =
        Watcher::list_and_watch(store.clone(), DISRUPTION_BUDGETS, Selection::all())?;
    let (_, mut pod_watch) = Watcher::list_and_watch(store.clone(), PODS, Selection::all())?;
    let mut stale: BTreeSet<String> = budgets.iter().map(|budget| namespace_of(budget)).collect();
    let mut guarded = stale.clone();
    loop {
        if !stale.is_empty() {
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(SETTLE) => {}
            }
            let namespaces: Vec<String> = std::mem::take(&mut stale).into_iter().collect();
            disruption::refresh(store, &namespaces);
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            events = budget_watch.next() => {
                for event in events? {
                    let namespace = namespace_of(&event.object);
                    if event.change_type != ChangeType::Deleted {
                        guarded.insert(namespace.clone());
                    }
                    stale.insert(namespace);
                }
            }
            events = pod_watch.next() => {
                let namespaces = events?.into_iter().map(|event| namespace_of(&event.object));
                stale.extend(namespaces.filter(|namespace| guarded.contains(namespace)));
            }
        }
    }
}

fn namespace_of(object: &StoredObject) -> String {
    object.namespace().to_owned()
}

//! Watches: resuming, bookmarks, streamed lists, selections, lost history.

use std::time::Duration;

use kube::api::{Patch, PatchParams, WatchParams};
use kube_scheduler_devcluster::{DevCluster, PODS};
use serde_json::json;

use crate::served_cluster::{next, still, watch, with};

#[tokio::test]
async fn a_watch_starts_with_what_is_there_and_goes_on() {
    let served = still().await;
    served.create_pod("a").await;
    let mut events = watch(&served.pods(), &WatchParams::default(), "0").await;
    assert_eq!(next(&mut events).await, "ADDED a");
    served.create_pod("b").await;
    assert_eq!(next(&mut events).await, "ADDED b");
    served.bind("b", "node-1").await.expect("bound");
    assert_eq!(next(&mut events).await, "MODIFIED b");
    served.pods().delete("a", &Default::default()).await.expect("deleted");
    assert_eq!(next(&mut events).await, "DELETED a");
}

#[tokio::test]
async fn a_watch_resumes_behind_its_version() {
    let served = still().await;
    served.create_pod("a").await;
    let version = served.cluster.store().resource_version();
    served.create_pod("b").await;
    let mut events = watch(&served.pods(), &WatchParams::default(), &version.to_string()).await;
    assert_eq!(next(&mut events).await, "ADDED b");
}

#[tokio::test]
async fn lost_history_is_an_error_event_with_410() {
    let served = still().await;
    served.create_pod("a").await;
    let version = served.cluster.store().resource_version();
    served.create_pod("b").await;
    served.cluster.store().compact_history(Some(PODS));
    let mut events = watch(&served.pods(), &WatchParams::default(), &version.to_string()).await;
    assert_eq!(next(&mut events).await, "ERROR 410");
    assert_eq!(next(&mut events).await, "END");
}

#[tokio::test]
async fn a_short_history_loses_slow_watches_only() {
    let served = with(DevCluster::builder().hollow(None).history(3)).await;
    let start = served.cluster.store().resource_version();
    for name in ["a", "b", "c"] {
        served.create_pod(name).await;
    }
    let mut events = watch(&served.pods(), &WatchParams::default(), &start.to_string()).await;
    assert_eq!(next(&mut events).await, "ADDED a");
    served.create_pod("d").await;
    let mut late = watch(&served.pods(), &WatchParams::default(), &start.to_string()).await;
    assert_eq!(next(&mut late).await, "ERROR 410");
}

#[tokio::test]
async fn bookmarks_carry_the_version_of_other_kinds_writes() {
    let served =
        with(DevCluster::builder().hollow(None).bookmark_interval(Duration::from_millis(5))).await;
    let start = served.cluster.store().resource_version();
    let mut events = watch(&served.pods(), &WatchParams::default(), &start.to_string()).await;
    served
        .cluster
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}))
        .expect("created");
    let current = served.cluster.store().resource_version();
    assert!(current > start);
    loop {
        use futures::StreamExt;
        match events.next().await {
            Some(Ok(kube::api::WatchEvent::Bookmark(bookmark))) => {
                let version: u64 = bookmark.metadata.resource_version.parse().expect("a version");
                if version == current {
                    break;
                }
            }
            other => panic!("only bookmarks are expected, got {other:?}"),
        }
    }
}

#[tokio::test]
async fn streamed_lists_end_with_their_bookmark() {
    let served = still().await;
    served.create_pod("a").await;
    served.create_pod("b").await;
    let mut events = watch(&served.pods(), &WatchParams::streaming_lists(), "0").await;
    assert_eq!(next(&mut events).await, "ADDED a");
    assert_eq!(next(&mut events).await, "ADDED b");
    assert_eq!(next(&mut events).await, "BOOKMARK end");
    served.create_pod("c").await;
    assert_eq!(next(&mut events).await, "ADDED c");
}

#[tokio::test]
async fn an_empty_streamed_list_has_its_bookmark_too() {
    let served = still().await;
    let mut events = watch(&served.pods(), &WatchParams::streaming_lists(), "0").await;
    assert_eq!(next(&mut events).await, "BOOKMARK end");
}

#[tokio::test]
async fn objects_enter_and_leave_a_selection() {
    let served = still().await;
    served.create_pod("a").await;
    let params = WatchParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
    let mut events = watch(&served.pods(), &params, "0").await;
    assert_eq!(next(&mut events).await, "ADDED a");
    let phase = async |phase: &str| {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        served.pods().patch_status("a", &PatchParams::default(), &patch).await.expect("patched")
    };
    phase("Running").await;
    assert_eq!(next(&mut events).await, "MODIFIED a");
    phase("Succeeded").await;
    assert_eq!(next(&mut events).await, "DELETED a");
    phase("Running").await;
    assert_eq!(next(&mut events).await, "ADDED a");
}

#[tokio::test]
async fn a_watch_ends_after_its_timeout() {
    let served =
        with(DevCluster::builder().hollow(None).watch_timeout(Duration::from_millis(5))).await;
    served.create_pod("a").await;
    let lines = served.get("/api/v1/namespaces/default/pods?watch=true").await;
    assert_eq!(
        (lines["type"].as_str(), lines["object"]["metadata"]["name"].as_str()),
        (Some("ADDED"), Some("a"))
    );
}

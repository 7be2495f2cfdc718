//! Watches: resuming, bookmarks, streamed lists, selections, lost history.

use std::time::Duration;

use kube::api::{Patch, PatchParams, WatchParams};
use kube_scheduler_devcluster::{DevCluster, PODS};
use serde_json::json;

use crate::world::{next, still, watch, with};

#[tokio::test]
async fn a_watch_starts_with_what_is_there_and_goes_on() {
    let world = still().await;
    world.create_pod("a").await;
    let mut events = watch(&world.pods(), &WatchParams::default(), "0").await;
    assert_eq!(next(&mut events).await, "ADDED a");
    world.create_pod("b").await;
    assert_eq!(next(&mut events).await, "ADDED b");
    world.bind("b", "node-1").await.expect("bound");
    assert_eq!(next(&mut events).await, "MODIFIED b");
    world.pods().delete("a", &Default::default()).await.expect("deleted");
    assert_eq!(next(&mut events).await, "DELETED a");
}

#[tokio::test]
async fn a_watch_resumes_behind_its_version() {
    let world = still().await;
    world.create_pod("a").await;
    let version = world.cluster.store().resource_version();
    world.create_pod("b").await;
    let mut events = watch(&world.pods(), &WatchParams::default(), &version.to_string()).await;
    assert_eq!(next(&mut events).await, "ADDED b");
}

#[tokio::test]
async fn lost_history_is_an_error_event_with_410() {
    let world = still().await;
    world.create_pod("a").await;
    let version = world.cluster.store().resource_version();
    world.create_pod("b").await;
    world.cluster.store().compact_history(Some(PODS));
    let mut events = watch(&world.pods(), &WatchParams::default(), &version.to_string()).await;
    assert_eq!(next(&mut events).await, "ERROR 410");
    assert_eq!(next(&mut events).await, "END");
}

#[tokio::test]
async fn a_short_history_loses_slow_watches_only() {
    let world = with(DevCluster::builder().hollow(None).history(3)).await;
    let start = world.cluster.store().resource_version();
    for name in ["a", "b", "c"] {
        world.create_pod(name).await;
    }
    let mut events = watch(&world.pods(), &WatchParams::default(), &start.to_string()).await;
    assert_eq!(next(&mut events).await, "ADDED a");
    world.create_pod("d").await;
    let mut late = watch(&world.pods(), &WatchParams::default(), &start.to_string()).await;
    assert_eq!(next(&mut late).await, "ERROR 410");
}

#[tokio::test]
async fn bookmarks_carry_the_version_of_other_kinds_writes() {
    let world =
        with(DevCluster::builder().hollow(None).bookmark_interval(Duration::from_millis(5))).await;
    let start = world.cluster.store().resource_version();
    let mut events = watch(&world.pods(), &WatchParams::default(), &start.to_string()).await;
    world
        .cluster
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}))
        .expect("created");
    let current = world.cluster.store().resource_version();
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
    let world = still().await;
    world.create_pod("a").await;
    world.create_pod("b").await;
    let mut events = watch(&world.pods(), &WatchParams::streaming_lists(), "0").await;
    assert_eq!(next(&mut events).await, "ADDED a");
    assert_eq!(next(&mut events).await, "ADDED b");
    assert_eq!(next(&mut events).await, "BOOKMARK end");
    world.create_pod("c").await;
    assert_eq!(next(&mut events).await, "ADDED c");
}

#[tokio::test]
async fn an_empty_streamed_list_has_its_bookmark_too() {
    let world = still().await;
    let mut events = watch(&world.pods(), &WatchParams::streaming_lists(), "0").await;
    assert_eq!(next(&mut events).await, "BOOKMARK end");
}

#[tokio::test]
async fn objects_enter_and_leave_a_selection() {
    let world = still().await;
    world.create_pod("a").await;
    let params = WatchParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
    let mut events = watch(&world.pods(), &params, "0").await;
    assert_eq!(next(&mut events).await, "ADDED a");
    let phase = async |phase: &str| {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        world.pods().patch_status("a", &PatchParams::default(), &patch).await.expect("patched")
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
    let world =
        with(DevCluster::builder().hollow(None).watch_timeout(Duration::from_millis(5))).await;
    world.create_pod("a").await;
    let lines = world.get("/api/v1/namespaces/default/pods?watch=true").await;
    assert_eq!(
        (lines["type"].as_str(), lines["object"]["metadata"]["name"].as_str()),
        (Some("ADDED"), Some("a"))
    );
}

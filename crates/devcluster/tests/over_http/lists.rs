//! Lists: selectors, pages, versions.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::served_cluster::{pod_value, refusal, still};

fn names(list: &kube::core::ObjectList<Pod>) -> Vec<String> {
    list.items.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test]
async fn pages_show_the_state_at_the_first_page() {
    let served = still().await;
    for name in ["a", "b", "c", "d", "e"] {
        served.create_pod(name).await;
    }
    let first = served.pods().list(&ListParams::default().limit(2)).await.expect("listed");
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(
        first.metadata.remaining_item_count, None,
        "a namespace is a selection, so the rest is not counted"
    );

    // Neither what goes nor what comes in between shows in the later pages.
    served.pods().delete("c", &Default::default()).await.expect("deleted");
    served.create_pod("cc").await;
    let token = first.metadata.continue_.clone().expect("a token");
    let second = served
        .pods()
        .list(&ListParams::default().limit(2).continue_token(&token))
        .await
        .expect("listed");
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    let token = second.metadata.continue_.clone().expect("a token");
    let third = served
        .pods()
        .list(&ListParams::default().limit(2).continue_token(&token))
        .await
        .expect("listed");
    assert_eq!(names(&third), ["e"]);
    assert_eq!(third.metadata.continue_.unwrap_or_default(), "");

    let all: Api<Pod> = Api::all(served.client.clone());
    let page = all.list(&ListParams::default().limit(2)).await.expect("listed");
    assert_eq!(page.metadata.remaining_item_count, Some(3));
}

#[tokio::test]
async fn a_page_token_expires_with_the_history() {
    let served = still().await;
    for name in ["a", "b", "c"] {
        served.create_pod(name).await;
    }
    let first = served.pods().list(&ListParams::default().limit(1)).await.expect("listed");
    served.create_pod("d").await;
    served.cluster.store().compact_history(None);
    let token = first.metadata.continue_.clone().expect("a token");
    let result = served.pods().list(&ListParams::default().limit(1).continue_token(&token)).await;
    assert_eq!(refusal(result).1, "Expired");
    let result = served.pods().list(&ListParams::default().limit(1).continue_token("zz")).await;
    assert_eq!(refusal(result).0, 400);
}

#[tokio::test]
async fn selectors_select() {
    let served = still().await;
    for (name, tier) in [("a", "web"), ("b", "db"), ("c", "web")] {
        let mut pod = pod_value(name);
        pod["metadata"]["labels"] = json!({"tier": tier});
        served.cluster.create(pod).expect("created");
    }
    served.bind("a", "node-1").await.expect("bound");
    let by = async |params: ListParams| names(&served.pods().list(&params).await.expect("listed"));
    assert_eq!(by(ListParams::default().labels("tier in (web, cache)")).await, ["a", "c"]);
    assert_eq!(by(ListParams::default().labels("tier!=web")).await, ["b"]);
    assert_eq!(by(ListParams::default().fields("spec.nodeName=")).await, ["b", "c"]);
    assert_eq!(
        by(ListParams::default().fields("spec.nodeName=node-1,status.phase!=Failed")).await,
        ["a"]
    );
    assert_eq!(by(ListParams::default().fields("metadata.name==c")).await, ["c"]);
    let (code, _, message) =
        refusal(served.pods().list(&ListParams::default().fields("spec.color=red")).await);
    assert_eq!(code, 400);
    assert!(message.ends_with("field label not supported: spec.color"), "{message}");
    assert_eq!(refusal(served.pods().list(&ListParams::default().labels("a in (b")).await).0, 400);
}

#[tokio::test]
async fn a_version_from_the_future_is_refused() {
    let served = still().await;
    let result = served
        .pods()
        .list(&ListParams::default().at("999999").matching(kube::api::VersionMatch::NotOlderThan))
        .await;
    assert_eq!(refusal(result).1, "Timeout");
}

#[tokio::test]
async fn long_lists_arrive_whole() {
    let served = still().await;
    let pods = (0..2_000).map(|index| pod_value(&format!("pod-{index:04}")));
    assert_eq!(served.cluster.bulk_create(pods).expect("created"), 2_000);
    let list = served.pods().list(&ListParams::default()).await.expect("listed");
    assert_eq!(list.items.len(), 2_000);
    assert_eq!(list.items.last().map(ResourceExt::name_any).as_deref(), Some("pod-1999"));
}

#[tokio::test]
async fn a_selected_part_of_a_collection_is_deleted() {
    let served = still().await;
    for (name, tier) in [("a", "web"), ("b", "db"), ("c", "web")] {
        let mut pod = pod_value(name);
        pod["metadata"]["labels"] = json!({"tier": tier});
        served.cluster.create(pod).expect("created");
    }
    let params = ListParams::default().labels("tier=web");
    served.pods().delete_collection(&Default::default(), &params).await.expect("deleted");
    assert_eq!(names(&served.pods().list(&ListParams::default()).await.expect("listed")), ["b"]);
}

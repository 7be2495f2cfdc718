//! The workload controllers and the garbage collector as tasks, over HTTP.

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube_scheduler_devcluster::{DevCluster, NodeTemplate};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::served_cluster::{ServedCluster, next, watch, with};

async fn served() -> ServedCluster {
    let served = with(DevCluster::builder().workloads(true)).await;
    served.cluster.add_hollow_nodes(2, &NodeTemplate::default()).expect("added");
    served
}

fn api<K>(served: &ServedCluster) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    Api::namespaced(served.client.clone(), "default")
}

/// Follows an object until it is as wanted.
async fn until<K>(api: &Api<K>, name: &str, is_wanted: impl Fn(&K) -> bool)
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = api.watch(&parameters, "0").await.expect("watch opens").boxed();
    while let Some(event) = events.next().await {
        match event.expect("an event") {
            WatchEvent::Added(object) | WatchEvent::Modified(object) if is_wanted(&object) => {
                return;
            }
            _ => {}
        }
    }
    panic!("the watch ended");
}

/// Pods without a scheduler: the template names the node.
fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"nodeName": "hollow-00000", "containers": [{"name": "main", "image": "a:1"}]},
    })
}

fn is_available(deployment: &Deployment, wanted: i32) -> bool {
    deployment.status.as_ref().is_some_and(|status| {
        status.available_replicas == Some(wanted)
            && status.updated_replicas == Some(wanted)
            && status.replicas == Some(wanted)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_runs_is_scaled_and_goes_with_its_pods() {
    let served = served().await;
    let deployments: Api<Deployment> = api(&served);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template()},
    });
    let deployment = serde_json::from_value(deployment).expect("a deployment");
    deployments.create(&PostParams::default(), &deployment).await.expect("created");
    until(&deployments, "web", |one| is_available(one, 3)).await;
    let scale = Patch::Merge(json!({"spec": {"replicas": 5}}));
    deployments.patch_scale("web", &PatchParams::default(), &scale).await.expect("scaled");
    until(&deployments, "web", |one| is_available(one, 5)).await;
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "a:2"}]}}}});
    deployments
        .patch("web", &PatchParams::default(), &Patch::Strategic(image))
        .await
        .expect("changed");
    until(&deployments, "web", |one| {
        let generation = one.metadata.generation;
        let observed = one.status.as_ref().and_then(|status| status.observed_generation);
        generation == Some(3) && observed == generation && is_available(one, 5)
    })
    .await;
    let mut events = watch(&deployments, &WatchParams::default(), "0").await;
    deployments.delete("web", &DeleteParams::foreground()).await.expect("deleted");
    loop {
        match next(&mut events).await.as_str() {
            "DELETED web" => break,
            event => {
                assert!(event.starts_with("ADDED") || event.starts_with("MODIFIED"), "{event}")
            }
        }
    }
    let all = ListParams::default();
    assert!(api::<ReplicaSet>(&served).list(&all).await.expect("listed").items.is_empty());
    assert!(api::<Pod>(&served).list(&all).await.expect("listed").items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_completes() {
    let served = served().await;
    let jobs: Api<Job> = api(&served);
    let mut template = template();
    template["spec"]["restartPolicy"] = "Never".into();
    // Else they would run for a second.
    template["metadata"]["annotations"] = json!({"devcluster/run-seconds": "0"});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"completions": 4, "parallelism": 2, "template": template},
    });
    let job = serde_json::from_value(job).expect("a job");
    jobs.create(&PostParams::default(), &job).await.expect("created");
    until(&jobs, "j", |job| {
        let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Complete"))
    })
    .await;
}

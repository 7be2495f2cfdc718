//! Gangs as scheduler-plugins has them, with the plugin Coscheduling.

use kube_scheduler_tests::control_plane::code;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{asking, node, with};
use crate::scheduler::Running;
use crate::wait::until;

const GROUPS: &str = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups";

/// Has the server serve the kind, if it does not, and gives the scheduler the right to read it, which its role does not.
async fn prepare(cluster: &Cluster) {
    let api = cluster.api();
    if api.send("GET", GROUPS, None, "").await.is_err() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "minMember": {"type": "integer", "format": "int32", "minimum": 1},
                "scheduleTimeoutSeconds": {"type": "integer", "format": "int32"},
            }},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "podgroups.scheduling.x-k8s.io", "annotations": {"api-approved.kubernetes.io":
                "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"}},
            "spec": {
                "group": "scheduling.x-k8s.io", "scope": "Namespaced",
                "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
                "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}],
            },
        });
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        api.send("POST", path, Some(&definition), "application/json").await.unwrap();
        until("the definition counts", async || api.send("GET", GROUPS, None, "").await.is_ok())
            .await;
    }
    let rights = json!([{"apiGroups": ["scheduling.x-k8s.io"], "resources": ["podgroups"],
        "verbs": ["get", "list", "watch"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "coscheduling"}, "rules": rights});
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let made = api.send("POST", path, Some(&role), "application/json").await;
    assert!(
        made.is_ok() || made.is_err_and(|error| code(&error) == Some(409)),
        "a second scenario"
    );
    api.create(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "coscheduling"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "coscheduling"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}],
    }))
    .await
    .unwrap();
    let may = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "system:kube-scheduler", "resourceAttributes":
            {"group": "scheduling.x-k8s.io", "resource": "podgroups", "verb": "list"}}});
    until("the scheduler may list groups", async || {
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = api.send("POST", path, Some(&may), "application/json").await.unwrap();
        answer["status"]["allowed"] == true
    })
    .await;
}

async fn create_group(cluster: &Cluster, name: &str, min_member: usize) {
    let group = json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name}, "spec": {"minMember": min_member}});
    cluster.api().send("POST", GROUPS, Some(&group), "application/json").await.unwrap();
}

/// A pod of a group that asks for so much.
fn member(name: &str, group: &str, cpu: &str) -> Value {
    with(
        asking(name, cpu),
        json!({"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": group}}}),
    )
}

async fn start(cluster: &Cluster) -> Running {
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {
            "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
            "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
        }}],
    });
    Running::start_configured(cluster, &config).await
}

async fn end(cluster: &Cluster, scheduler: Running) {
    scheduler.stop().await;
    cluster.api().send("DELETE", GROUPS, None, "").await.unwrap();
}

pub(crate) async fn all_of_a_group_of_scheduler_plugins_or_none(cluster: &Cluster) {
    let api = cluster.api();
    prepare(cluster).await;
    // Nodes of 4 CPUs: room for three of the four.
    for i in 0..3 {
        api.create(&node(&format!("node-{i}"))).await.unwrap();
    }
    let scheduler = start(cluster).await;
    create_group(cluster, "large", 4).await;
    for i in 0..4 {
        api.create(&member(&format!("large-{i}"), "large", "3")).await.unwrap();
    }
    let waits = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled";
    let mut n_waiting = 0;
    for i in 0..4 {
        let said = cluster.until_unschedulable(&format!("large-{i}")).await;
        match said.contains(waits) {
            true => n_waiting += 1,
            false => assert!(said.contains("3 Insufficient cpu"), "{said}"),
        }
    }
    assert_eq!((n_waiting, cluster.n_bound().await), (3, 0));
    api.create(&node("node-3")).await.unwrap();
    cluster.until_bound(4).await;
    // A gang that has no room holds none: pods that come later go first.
    create_group(cluster, "missing", 2).await;
    api.create(&member("missing-0", "missing", "1")).await.unwrap();
    api.create(&asking("single", "1")).await.unwrap();
    cluster.node_of("single").await;
    assert_eq!(cluster.n_bound().await, 5, "one of two does not start");
    end(cluster, scheduler).await;
}

pub(crate) async fn two_half_fitting_groups_do_not_hold_each_other_up(cluster: &Cluster) {
    let api = cluster.api();
    prepare(cluster).await;
    for i in 0..4 {
        api.create(&node(&format!("node-{i}"))).await.unwrap();
    }
    for group in ["red", "blue"] {
        create_group(cluster, group, 3).await;
    }
    // In turn, so that each could have two of the four nodes.
    for i in 0..3 {
        for group in ["red", "blue"] {
            api.create(&member(&format!("{group}-{i}"), group, "3")).await.unwrap();
        }
    }
    let scheduler = start(cluster).await;
    cluster.until_bound(3).await;
    let bound = cluster.placements().await;
    let of = |group: &str| {
        bound.iter().filter(|(pod, node)| pod.starts_with(group) && node.is_some()).count()
    };
    let (first, second) = if of("red") > 0 { ("red", "blue") } else { ("blue", "red") };
    assert_eq!((of(first), of(second)), (3, 0), "{bound:?}");
    for i in 0..3 {
        api.delete("Pod", &format!("{first}-{i}"), Some(0)).await.unwrap();
    }
    for i in 0..3 {
        cluster.node_of(&format!("{second}-{i}")).await;
    }
    end(cluster, scheduler).await;
}

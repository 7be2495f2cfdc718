//! TLS, users and what they may do.

use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use kube_scheduler_devcluster::{DevCluster, DevClusterBuilder, KindId, User};
use serde_json::{Value, json};

use crate::served_cluster::{pod, refusal};

fn still() -> DevClusterBuilder {
    DevCluster::builder().hollow(None).disruption_controller(false).volumes(None)
}

async fn client_of(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a configuration");
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

async fn client_for(cluster: &DevCluster, user: &User) -> Client {
    client_of(&cluster.kubeconfig_for(user).expect("credentials")).await
}

/// Posts a review and returns its status.
async fn reviewed(client: &Client, group: &str, plural: &str, spec: Value) -> Value {
    let request = Request::post(format!("/apis/{group}/v1/{plural}"))
        .header("Content-Type", "application/json")
        .body(serde_json::to_vec(&json!({"spec": spec})).expect("json"))
        .expect("a request");
    let review: Value = client.request(request).await.expect("reviewed");
    review["status"].clone()
}

async fn who_am_i(client: &Client) -> Value {
    reviewed(client, "authentication.k8s.io", "selfsubjectreviews", json!({})).await["userInfo"]
        .clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_reported_by_certificates_and_tokens() {
    for builder in [still().tls(true), still().rbac(true), still().tls(true).rbac(true)] {
        let cluster = builder.start().await.expect("starts");
        let admin = client_of(&cluster.kubeconfig()).await;
        let groups = json!(["system:masters", "system:authenticated"]);
        assert_eq!(
            who_am_i(&admin).await,
            json!({"username": "kubernetes-admin", "groups": groups})
        );
        let jane = client_for(&cluster, &User::new("jane").group("staff")).await;
        assert_eq!(
            who_am_i(&jane).await,
            json!({"username": "jane", "groups": ["staff", "system:authenticated"]})
        );
        cluster.shutdown().await.expect("stops");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_do_not_get_in() {
    let cluster = still().tls(true).rbac(true).start().await.expect("starts");
    let other = still().tls(true).start().await.expect("starts");
    // Someone else's server is not believed, and someone else's users are not either.
    let misled = cluster.kubeconfig().replace(&cluster.url(), &other.url());
    assert!(client_of(&misled).await.apiserver_version().await.is_err());
    let theirs = other.kubeconfig_for(&User::administrator()).expect("a kubeconfig");
    let trusting: Vec<String> = theirs
        .replace(&other.url(), &cluster.url())
        .lines()
        .map(|line| match line.contains("certificate-authority-data") {
            true => {
                let ours = cluster.kubeconfig();
                ours.lines().find(|line| line.contains("authority-data")).expect("TLS").to_owned()
            }
            false => line.to_owned(),
        })
        .collect();
    assert!(client_of(&trusting.join("\n")).await.apiserver_version().await.is_err());

    let guessed = cluster.kubeconfig().replace("token: devcluster", "token: guessed");
    let pods: Api<Pod> = Api::default_namespaced(client_of(&guessed).await);
    assert_eq!(refusal(pods.list(&ListParams::default()).await).0, 401);
    let anonymous = cluster.kubeconfig().replace("    token: devcluster", "    {}");
    let client = client_of(&anonymous).await;
    client.apiserver_version().await.expect("the version is public");
    let pods: Api<Pod> = Api::default_namespaced(client);
    let (code, reason, message) = refusal(pods.list(&ListParams::default()).await);
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        message,
        "pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" in the \
         namespace \"default\""
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scheduler_may_do_its_work_and_no_more() {
    let cluster = still().rbac(true).start().await.expect("starts");
    let admin: Api<Pod> = Api::default_namespaced(client_of(&cluster.kubeconfig()).await);
    admin.create(&PostParams::default(), &pod("a")).await.expect("created");
    let client = client_for(&cluster, &User::kube_scheduler()).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.list(&ListParams::default()).await.expect("listed");
    assert_eq!(refusal(pods.create(&PostParams::default(), &pod("b")).await).0, 403);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let map = maps.get("extension-apiserver-authentication").await.expect("readable");
    assert!(
        map.data.unwrap_or_default().is_empty(),
        "without TLS there is no authority to publish"
    );
    let one = ListParams::default().fields("metadata.name=extension-apiserver-authentication");
    assert_eq!(maps.list(&one).await.expect("listed by name").items.len(), 1);
    assert_eq!(refusal(maps.list(&ListParams::default()).await).0, 403);
    let denied: Vec<_> =
        cluster.denied().into_iter().map(|one| (one.user.name, one.verb, one.resource)).collect();
    let denial = |verb: &str, resource: &str| {
        ("system:kube-scheduler".to_owned(), verb.to_owned(), resource.to_owned())
    };
    assert_eq!(denied, [denial("create", "pods"), denial("list", "configmaps")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_answer_by_the_stored_policy() {
    let cluster = still().rbac(true).start().await.expect("starts");
    cluster.add_token("secret", User::new("joe").group("staff"));
    let client = client_for(&cluster, &User::kube_scheduler()).await;
    let token = |token: &str| {
        reviewed(&client, "authentication.k8s.io", "tokenreviews", json!({"token": token}))
    };
    assert_eq!(
        token("secret").await,
        json!({"authenticated": true,
            "user": {"username": "joe", "groups": ["staff", "system:authenticated"]}})
    );
    assert_ne!(token("guessed").await["authenticated"], true);

    let metrics = |user: &str, groups: Value| {
        let spec = json!({"user": user, "groups": groups,
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
        reviewed(&client, "authorization.k8s.io", "subjectaccessreviews", spec)
    };
    assert_eq!(metrics("joe", json!(["staff"])).await, json!({"allowed": false}));
    assert_eq!(metrics("root", json!(["system:masters"])).await["allowed"], true);
    let watcher = metrics("joe", json!(["system:monitoring"])).await;
    assert_eq!(
        watcher["reason"],
        "RBAC: allowed by ClusterRoleBinding \"system:monitoring\" of ClusterRole \"system:monitoring\" to Group \
         \"system:monitoring\""
    );

    // A binding counts as soon as it is there, and no longer.
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "joe"}, "subjects": [{"kind": "User", "name": "joe"}],
        "roleRef": {"kind": "ClusterRole", "name": "system:monitoring"},
    });
    cluster.create(binding).expect("created");
    assert_eq!(metrics("joe", json!(["staff"])).await["allowed"], true);
    let bindings = KindId::by_plural("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
        .expect("served");
    cluster.delete(bindings, "", "joe").expect("deleted");
    assert_eq!(metrics("joe", json!(["staff"])).await["allowed"], false);

    let own = |verb: &str, resource: &str| {
        let spec = json!({"resourceAttributes": {"verb": verb, "resource": resource}});
        reviewed(&client, "authorization.k8s.io", "selfsubjectaccessreviews", spec)
    };
    assert_eq!(own("list", "pods").await["allowed"], true);
    assert_eq!(own("create", "pods").await["allowed"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_outlive_a_restart() {
    let files = tempfile::tempdir().expect("a directory");
    let state = files.path().join("state");
    let start = |port: u16| {
        let builder = still().tls(true).rbac(true).port(port);
        builder.persist(state.clone(), std::time::Duration::from_secs(3600)).start()
    };
    // No other process gets the port meanwhile, unless it asks for just this one.
    let reserved = tokio::net::TcpSocket::new_v4().expect("a socket");
    reserved.set_reuseaddr(true).expect("set");
    reserved.bind(([127, 0, 0, 1], 0).into()).expect("a port is free");
    let port = reserved.local_addr().expect("it is bound").port();
    let cluster = start(port).await.expect("starts");
    let kubeconfig = cluster.kubeconfig_for(&User::kube_scheduler()).expect("credentials");
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}))
        .expect("created");
    cluster.shutdown().await.expect("stops");

    let cluster = start(port).await.expect("starts on the same port");
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client_of(&kubeconfig).await);
    assert_eq!(nodes.list(&ListParams::default()).await.expect("listed").items.len(), 1);
    cluster.shutdown().await.expect("stops");
}

#[tokio::test]
async fn files_with_credentials_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let files = tempfile::tempdir().expect("a directory");
    let (state, admin) = (files.path().join("state"), files.path().join("admin"));
    let scheduler = files.path().join("scheduler");
    std::fs::write(&admin, "an old one").expect("written");
    let builder = still().persist(state.clone(), std::time::Duration::from_secs(3600));
    let cluster = builder.start().await.expect("starts");
    cluster.write_kubeconfig(&admin).expect("written");
    cluster.write_kubeconfig_for(&User::kube_scheduler(), &scheduler).expect("written");
    assert_eq!(std::fs::read_to_string(&admin).expect("read"), cluster.kubeconfig());
    cluster.shutdown().await.expect("stops");
    for path in [state, admin, scheduler] {
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_act_as_others_only_with_the_right_to() {
    let cluster = still().rbac(true).start().await.expect("starts");
    let rule = |resource: &str, name: &str| json!({"apiGroups": [""], "resources": [resource], "resourceNames": [name], "verbs": ["impersonate"]});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "actor"},
        "rules": [rule("users", "bob"), rule("groups", "staff")],
    });
    cluster.create(role).expect("created");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "actor"},
        "subjects": [{"kind": "User", "name": "jane"}], "roleRef": {"kind": "ClusterRole", "name": "actor"},
    });
    cluster.create(binding).expect("created");
    let admin = client_of(&cluster.kubeconfig()).await;
    let jane = client_for(&cluster, &User::new("jane")).await;
    let review = async |client: &Client,
                        headers: &[(&str, &str)],
                        group: &str,
                        plural: &str,
                        spec: Value| {
        let mut request = Request::post(format!("/apis/{group}/v1/{plural}"))
            .header("Content-Type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = serde_json::to_vec(&json!({"spec": spec})).expect("json");
        client.request::<Value>(request.body(body).expect("a request")).await
    };
    let who = async |client: &Client, headers: &[(&str, &str)]| {
        let review =
            review(client, headers, "authentication.k8s.io", "selfsubjectreviews", json!({})).await;
        review.map(|review| review["status"]["userInfo"].clone())
    };
    // What `kubectl auth can-i create pods --as=bob` asks.
    let can_create = json!({"resourceAttributes": {"verb": "create", "resource": "pods"}});
    let may = async |client: &Client, headers: &[(&str, &str)]| {
        let spec = can_create.clone();
        let review =
            review(client, headers, "authorization.k8s.io", "selfsubjectaccessreviews", spec).await;
        review.map(|review| review["status"]["allowed"].clone())
    };
    let bob = ("Impersonate-User", "bob");
    assert_eq!(may(&admin, &[]).await.expect("answered"), true);
    assert_eq!(may(&admin, &[bob]).await.expect("answered"), false);
    let own = json!({"username": "bob", "groups": ["system:authenticated"]});
    assert_eq!(who(&admin, &[bob]).await.expect("answered"), own);
    assert_eq!(who(&jane, &[bob]).await.expect("answered"), own);
    let staff = ("Impersonate-Group", "staff");
    assert_eq!(
        who(&jane, &[bob, staff]).await.expect("answered"),
        json!({"username": "bob", "groups": ["staff", "system:authenticated"]})
    );
    let robot = [("Impersonate-User", "system:serviceaccount:default:robot")];
    let groups =
        ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(who(&admin, &robot).await.expect("answered")["groups"], json!(groups));

    let masters = ("Impersonate-Group", "system:masters");
    for (headers, code, why) in [
        (&[("Impersonate-User", "eve")][..], 403, "cannot impersonate resource \"users\""),
        (&[bob, masters], 403, "groups \"system:masters\" is forbidden"),
        (
            &robot,
            403,
            "cannot impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"default\"",
        ),
        (&[staff], 400, "without a user"),
        (&[bob, ("Impersonate-Uid", "7")], 400, "impersonate-uid is not supported"),
        (&[bob, ("Impersonate-Extra-Scope", "x")], 400, "impersonate-extra-scope is not supported"),
    ] {
        let (found, _, message) = refusal(who(&jane, headers).await);
        assert_eq!(found, code, "{headers:?} {message}");
        assert!(message.contains(why), "{message}");
    }
    assert!(
        cluster.denied().iter().any(|denial| denial.verb == "impersonate" && denial.name == "eve")
    );
}

#[tokio::test]
async fn without_rbac_everybody_acts_as_anybody() {
    let cluster = still().start().await.expect("starts");
    let client = client_of(&cluster.kubeconfig()).await;
    let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("Content-Type", "application/json")
        .header("Impersonate-User", "bob")
        .body(b"{}".to_vec())
        .expect("a request");
    let review: Value = client.request(request).await.expect("answered");
    assert_eq!(review["status"]["userInfo"]["username"], "bob");
}

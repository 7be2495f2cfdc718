//! Questions to the leader at its pod: found by its lease, reached by the API server's port-forward, known by its certificate.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube_scheduler_answers::QuestionKind;
use kube_scheduler_daemon::{
    AskError, AuthenticationOptions, AuthorizationOptions, Daemon, Endpoint, LeaseName,
    RunningScheduler, ServingOptions,
};
use kube_scheduler_devcluster::{DevCluster, LEASES, PODS, User};
use kube_scheduler_plugins_intree::registry;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::cluster::{ClosedPort, Running, cluster_of, pod, until};
use crate::https::{Authority, Client, options};
use crate::leader::election;

/// A cluster with TLS and RBAC, a scheduler that leads, and a pod that stands for it.
struct LedCluster {
    cluster: DevCluster,
    running: Running,
    directory: TempDir,
    /// The kubeconfig of schedulers.
    own: std::path::PathBuf,
}

const STANDBYS: &str = "answers.kube-scheduler.rs/standby-certificates";

fn lease_name() -> LeaseName {
    LeaseName { namespace: "kube-system".to_owned(), name: "kube-scheduler".to_owned() }
}

fn kubeconfig(cluster: &DevCluster, directory: &Path, user: &User) -> std::path::PathBuf {
    let path = directory.join(format!("{}.conf", user.name.replace(':', "-")));
    std::fs::write(&path, cluster.kubeconfig_for(user).unwrap()).unwrap();
    path
}

/// A scheduler that answers questions and takes part in the election.
async fn scheduler(own: &Path, identity: &str) -> Running {
    let own = own.to_owned();
    let endpoint = Endpoint::from_kubeconfig(&own, None).await.unwrap();
    let serving = ServingOptions {
        authentication: AuthenticationOptions {
            kubeconfig: Some(own.clone()),
            ..AuthenticationOptions::default()
        },
        authorization: AuthorizationOptions {
            kubeconfig: Some(own),
            ..AuthorizationOptions::default()
        },
        ..options()
    };
    let builder = Daemon::builder(endpoint, registry())
        .serving(Some(serving))
        .leader_election(Some(election(identity)));
    Running::start(builder).await
}

impl LedCluster {
    async fn new() -> Self {
        let directory = tempdir().unwrap();
        let cluster = cluster_of(DevCluster::builder().tls(true).rbac(true), 2).await;
        let mut large = pod("large");
        large["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "8"}});
        cluster.create(large).unwrap();
        let own = kubeconfig(&cluster, directory.path(), &User::kube_scheduler());
        let running = scheduler(&own, "scheduler-0_1").await;
        let handle = running.handle.clone();
        until("it leads", || handle.progress().is_leading).await;
        Self { cluster, running, directory, own }
    }

    /// One more scheduler, which has announced that it waits for the lease.
    async fn standby(&self, identity: &str) -> Running {
        let standby = scheduler(&self.own, identity).await;
        let is_announced = || {
            let lease = self.lease();
            let standbys = &lease["metadata"]["annotations"][STANDBYS];
            standbys.as_str().is_some_and(|standbys| standbys.contains(identity))
        };
        until("it is announced", is_announced).await;
        standby
    }

    fn lease(&self) -> Value {
        self.cluster.get(LEASES, "kube-system", "kube-scheduler").unwrap().value().clone()
    }

    /// Has a pod stand for the scheduler, or for something else that listens at the port.
    fn stand_in(&self, name: &str, port: u16, spec: &Value) {
        let mut pod = pod(name);
        pod["metadata"]["namespace"] = "kube-system".into();
        pod["spec"]["nodeName"] = "control-plane".into();
        pod["spec"]["containers"][0]["args"] = json!([format!("--secure-port={port}")]);
        for (key, value) in spec.as_object().into_iter().flatten() {
            pod["spec"][key] = value.clone();
        }
        pod["metadata"]["labels"] = json!({"component": "kube-scheduler"});
        self.cluster.create(pod).unwrap();
        self.cluster
            .edit(PODS, "kube-system", name, |pod| {
                pod["status"]["phase"] = "Running".into();
                pod["status"]["podIP"] = "127.0.0.1".into();
            })
            .unwrap();
    }

    fn port(&self) -> u16 {
        port_of(&self.running)
    }

    /// Lets a user do what rules say in a namespace.
    fn allow(&self, user: &str, namespace: &str, rules: &Value) {
        let version = "rbac.authorization.k8s.io/v1";
        let metadata = json!({"name": user, "namespace": namespace});
        self.cluster
            .create(json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules}))
            .unwrap();
        self.cluster
            .create(json!({
                "apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            }))
            .unwrap();
    }

    async fn leading(&self, user: &User) -> Result<Option<RunningScheduler>, AskError> {
        let path = kubeconfig(&self.cluster, self.directory.path(), user);
        let endpoint = Endpoint::from_kubeconfig(&path, None).await.unwrap();
        RunningScheduler::leading(&endpoint, &lease_name()).await
    }

    async fn refused(&self, user: &User) -> String {
        match self.leading(user).await {
            Err(error @ AskError::NotReached { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

fn port_of(scheduler: &Running) -> u16 {
    scheduler.handle.address().unwrap().port()
}

/// What a scheduler says of itself: whether it leads, and whether tables about pods that wait have a note that it does not.
async fn says_of_itself(scheduler: &RunningScheduler) -> (Value, bool) {
    let mut said = Vec::new();
    for (kind, spec, has_note) in [
        (QuestionKind::Explanation, json!({"podName": "large"}), true),
        (QuestionKind::Queue, json!({}), true),
        (QuestionKind::Fragmentation, json!({}), false),
    ] {
        let answer = scheduler.ask(kind, "default", &spec, Some("table")).await.unwrap();
        let note = "note: the scheduler that was asked does not lead, and tries no pod";
        let is_there = answer["rendered"].as_str().unwrap().contains(note);
        assert_eq!(is_there, has_note && answer["isLeading"] == false, "{answer:#}");
        said.push((answer["isLeading"].clone(), is_there));
    }
    assert!(said.iter().all(|(is_leading, _)| *is_leading == said[0].0), "{said:?}");
    said.swap_remove(0)
}

async fn explained(scheduler: &RunningScheduler) -> Result<Value, AskError> {
    let spec = json!({"podName": "large"});
    scheduler.ask(QuestionKind::Explanation, "default", &spec, None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_is_asked_at_its_pod_with_the_rights_of_the_user() {
    let led = LedCluster::new().await;
    let administrator = User::administrator();
    let said = led.refused(&administrator).await;
    assert!(
        said.contains(
            "its holder \"scheduler-0_1\" is no scheduler's pod of namespace kube-system"
        ),
        "{said}"
    );
    led.stand_in("scheduler-0", led.port(), &json!({}));
    let scheduler = led.leading(&administrator).await.unwrap().unwrap();
    let url = scheduler.url();
    assert!(url.starts_with("pod kube-system/scheduler-0 by https://127.0.0.1:"), "{url}");
    assert!(url.ends_with("as holder of lease kube-system/kube-scheduler"), "{url}");
    let answer = explained(&scheduler).await.unwrap();
    assert_eq!((&answer["verdict"], &answer["nodes"]), (&json!("DoesNotFit"), &json!(2)));
    assert!(answer["rejected"][0]["examples"].is_array(), "{answer}");

    // The rights that the documentation names are enough, and each of them is needed.
    let reach = [
        json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "resourceNames": ["kube-scheduler"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}),
        json!({"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create", "get"]}),
    ];
    for (user, n, expected) in [
        ("nothing", 0, "leases.coordination.k8s.io"),
        ("lease", 1, "pods \"scheduler-0\" is forbidden"),
        ("pods", 2, "portforward"),
    ] {
        led.allow(user, "kube-system", &json!(reach[..n]));
        let said = led.refused(&User::new(user)).await;
        assert!(said.contains(expected), "{user}: {said}");
    }
    led.allow("tenant", "kube-system", &json!(reach));
    let tenant = led.leading(&User::new("tenant")).await.unwrap().unwrap();
    let refused = explained(&tenant).await.unwrap_err();
    assert!(matches!(refused, AskError::Refused { code: 403, .. }), "{refused:?}");
    let asks = json!([{"apiGroups": ["answers.kube-scheduler.rs"], "resources": ["explanations"], "verbs": ["create"]}]);
    led.allow("asking-tenant", "kube-system", &json!(reach));
    led.allow("asking-tenant", "default", &asks);
    let tenant = led.leading(&User::new("asking-tenant")).await.unwrap().unwrap();
    let answer = explained(&tenant).await.unwrap();
    assert_eq!(answer["rejected"][0]["count"], 2, "{answer}");
    assert!(!answer.to_string().contains("hollow-"), "{answer}");
    led.running.stop().await;

    // Who has given the lease back is no leader any more.
    assert!(led.cluster.get(LEASES, "kube-system", "kube-scheduler").is_some());
    let path = kubeconfig(&led.cluster, led.directory.path(), &administrator);
    let endpoint = Endpoint::from_kubeconfig(&path, None).await.unwrap();
    assert!(RunningScheduler::leading(&endpoint, &lease_name()).await.unwrap().is_none());
    let other = LeaseName { name: "other".to_owned(), ..lease_name() };
    assert!(RunningScheduler::leading(&endpoint, &other).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_asked_where_the_leader_is_not_reached() {
    let led = LedCluster::new().await;
    let standby = led.standby("scheduler-1_1").await;
    let administrator = User::administrator();
    // The leader's reason is the one that is given.
    let said = led.refused(&administrator).await;
    assert!(said.contains("its holder \"scheduler-0_1\" is no scheduler's pod"), "{said}");
    led.stand_in("scheduler-1", port_of(&standby), &json!({}));
    let found = led.leading(&administrator).await.unwrap().unwrap();
    let url = found.url();
    assert!(url.starts_with("pod kube-system/scheduler-1 by https://127.0.0.1:"), "{url}");
    assert!(url.ends_with("as standby of lease kube-system/kube-scheduler"), "{url}");
    assert_eq!(explained(&found).await.unwrap()["verdict"], "DoesNotFit");
    assert_eq!(says_of_itself(&found).await, (json!(false), true));
    // Announcing it has cost nobody the lease, and what the holder writes keeps it.
    let holder = |lease: &Value| lease["spec"]["holderIdentity"].clone();
    let renewed = |lease: &Value| lease["spec"]["renewTime"].clone();
    let before = led.lease();
    until("it is renewed", || renewed(&led.lease()) != renewed(&before)).await;
    let after = led.lease();
    assert_eq!(holder(&after), "scheduler-0_1");
    assert_eq!(
        after["metadata"]["annotations"][STANDBYS], before["metadata"]["annotations"][STANDBYS],
        "it is announced once"
    );
    assert!(led.running.handle.progress().is_leading && !standby.handle.progress().is_leading);
    // The leader comes first.
    led.stand_in("scheduler-0", led.port(), &json!({}));
    let found = led.leading(&administrator).await.unwrap().unwrap();
    assert!(found.url().ends_with("as holder of lease kube-system/kube-scheduler"));
    // It takes over.
    led.running.stop().await;
    until("it leads", || standby.handle.progress().is_leading).await;
    let path = kubeconfig(&led.cluster, led.directory.path(), &administrator);
    let endpoint = Endpoint::from_kubeconfig(&path, None).await.unwrap();
    let found = RunningScheduler::leading(&endpoint, &lease_name()).await.unwrap().unwrap();
    assert!(found.url().ends_with("as holder of lease kube-system/kube-scheduler"));
    assert_eq!(says_of_itself(&found).await, (json!(true), false));
    standby.stop().await;
}

/// Why a port cannot be reached, the kubelet says.
#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_nobody_listens_at_is_named() {
    let led = LedCluster::new().await;
    let port = ClosedPort::new();
    let closed = port.address().port();
    led.stand_in("scheduler-0", closed, &json!({}));
    let said = led.refused(&User::administrator()).await;
    assert!(said.contains("port-forward: cannot connect to 127.0.0.1:"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_the_host_network_is_found_by_its_node() {
    let led = LedCluster::new().await;
    let spec = json!({"nodeName": "scheduler-0", "hostNetwork": true});
    led.stand_in("kube-scheduler-scheduler-0", led.port(), &spec);
    let scheduler = led.leading(&User::administrator()).await.unwrap().unwrap();
    assert!(scheduler.url().starts_with("pod kube-system/kube-scheduler-scheduler-0 by"));
    assert_eq!(explained(&scheduler).await.unwrap()["verdict"], "DoesNotFit");
}

/// Shows a certificate, whatever key is behind it.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    bytes: AtomicUsize,
}

/// Something else that listens, shows `certificate` (its own without), and counts what it gets behind the handshake.
async fn impostor(certificate: Option<Vec<u8>>) -> (u16, Arc<Counts>) {
    let identity = Authority::new("impostor").server(&["kube-scheduler.invalid", "localhost"]);
    let certificate = CertificateDer::from(certificate.unwrap_or_else(|| identity.der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let key = provider.key_provider.load_private_key(key).unwrap();
    let shown = Shown(Arc::new(CertifiedKey::new(vec![certificate], key)));
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(shown));
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let counts = Arc::<Counts>::default();
    let counting = counts.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counting.connections.fetch_add(1, Ordering::SeqCst);
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut bytes = [0; 1024];
            while let Ok(n @ 1..) = stream.read(&mut bytes).await {
                counting.bytes.fetch_add(n, Ordering::SeqCst);
            }
        }
    });
    (port, counts)
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_not_sent_to_an_impostor() {
    // One has a certificate of its own, one that of the leader, and not the key to it.
    for copies in [false, true] {
        let led = LedCluster::new().await;
        let shown = Client::new(led.running.handle.address().unwrap()).shown().await;
        let (port, counts) = impostor(copies.then_some(shown)).await;
        led.stand_in("scheduler-0", port, &json!({}));
        let administrator = User::administrator();
        let refused = timeout(Duration::from_secs(60), led.refused(&administrator));
        let said = refused.await.expect("an answer is waited for");
        assert!(said.contains(if copies { "ignature" } else { "certificate" }), "{said}");
        assert!(counts.connections.load(Ordering::SeqCst) > 0, "no connection was made");
        assert_eq!(counts.bytes.load(Ordering::SeqCst), 0, "something was sent to an impostor");
    }
    // In the place of a standby.
    let led = LedCluster::new().await;
    let _standby = led.standby("scheduler-1_1").await;
    let (port, counts) = impostor(None).await;
    led.stand_in("scheduler-1", port, &json!({}));
    led.refused(&User::administrator()).await;
    assert!(counts.connections.load(Ordering::SeqCst) > 0, "no connection was made");
    assert_eq!(counts.bytes.load(Ordering::SeqCst), 0, "something was sent to an impostor");
    // A pod with the right name alone is no scheduler's.
    let led = LedCluster::new().await;
    let mut other = pod("scheduler-0");
    other["metadata"]["namespace"] = "kube-system".into();
    led.cluster.create(other).unwrap();
    let said = led.refused(&User::administrator()).await;
    assert!(said.contains("is no scheduler's pod"), "{said}");
}

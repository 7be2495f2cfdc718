//! Who may see what on the secure port.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use kube_scheduler_daemon::{
    AuthenticationOptions, Daemon, Endpoint, RequestHeaderOptions, ServingOptions,
};
use kube_scheduler_devcluster::{DevCluster, User};
use kube_scheduler_plugins_intree::registry;
use serde_json::json;
use tempfile::{TempDir, tempdir};

use crate::cluster::{Running, cluster, cluster_of, daemon};
use crate::https::{Authority, Client, IssuedCertificate, ReviewServer, options, until_asked};

/// A scheduler that asks a review server about its callers.
struct ReviewedScheduler {
    reviews: ReviewServer,
    running: Running,
    directory: TempDir,
}

impl ReviewedScheduler {
    async fn new(change: impl FnOnce(&mut ServingOptions, &TempDir)) -> Self {
        let directory = tempdir().unwrap();
        let reviews = ReviewServer::start().await;
        let mut options = reviews.options(directory.path());
        change(&mut options, &directory);
        let cluster = cluster(1).await;
        let running = Running::start(daemon(&cluster).serving(Some(options))).await;
        Self { reviews, running, directory }
    }

    fn client(&self) -> Client {
        Client::new(self.running.handle.address().unwrap())
    }
}

/// Has verdicts kept for longer than any test takes.
fn never_forget(options: &mut ServingOptions) {
    let hour = Duration::from_secs(3600);
    options.authentication.token_cache_ttl = hour;
    options.authorization.authorized_ttl = hour;
    options.authorization.unauthorized_ttl = hour;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_see_health_only() {
    let cluster = cluster(1).await;
    let running = Running::start(daemon(&cluster).serving(Some(options()))).await;
    let client = Client::new(running.handle.address().unwrap());
    for open in ["/healthz", "/livez", "/healthz?verbose"] {
        assert_eq!(client.get(open).await.code, 200, "{open}");
    }
    for closed in ["/metrics", "/healthz/ping", "/configz", "/nothing", "/", "/healthz/../metrics"]
    {
        let reply = client.get(closed).await;
        assert_eq!(reply.code, 403, "{closed}");
        assert!(reply.head.contains("cache-control: no-cache, private"), "{reply:?}");
        assert!(reply.head.contains("x-content-type-options: nosniff"), "{reply:?}");
    }
    assert_eq!(
        client.get("/metrics").await.body,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"forbidden: \
         User \\\"system:anonymous\\\" cannot get path \\\"/metrics\\\"\",\"reason\":\"Forbidden\",\"details\":{},\
         \"code\":403}\n"
    );
    // Without an API server to ask, tokens and certificates mean nothing.
    let reply = client.clone().with_header("Authorization", "Bearer x").get("/healthz").await;
    assert_eq!(reply.code, 200);
    let stranger = Authority::new("ca").client("jane", &["system:masters"]);
    assert_eq!(client.with_certificate(&stranger).get("/metrics").await.code, 403);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_reviewed_once_and_decide_who_asks() {
    let reviewed = ReviewedScheduler::new(|options, _| never_forget(options)).await;
    {
        let mut state = reviewed.reviews.state.lock().unwrap();
        let user = json!({"username": "prometheus", "uid": "7", "groups": ["system:monitoring"], "extra": {"k": ["v"]}});
        state.tokens.insert("good".to_owned(), user);
        state.reason = "not for you".to_owned();
    }
    reviewed.reviews.allow("prometheus", "/metrics");
    let client = reviewed.client().with_header("Authorization", "Bearer good");
    for _ in 0..3 {
        let reply = client.get("/metrics").await;
        assert_eq!(reply.code, 200);
        // The one that asks, at least.
        let counts = reply.body.lines().filter_map(|line| {
            line.strip_prefix("kube_scheduler_rs_table_entries{table=\"connections of ")
        });
        let counts = counts.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok());
        assert!(counts.sum::<f64>() >= 1.0, "{}", reply.body);
    }
    let reply = client.get("/configz").await;
    assert_eq!(reply.code, 403);
    assert!(
        reply
            .body
            .contains("User \\\"prometheus\\\" cannot get path \\\"/configz\\\": not for you"),
        "{}",
        reply.body
    );
    assert_eq!(client.ask("DELETE", "/configz", "").await.code, 403);
    {
        let state = reviewed.reviews.state.lock().unwrap();
        assert_eq!(state.token_reviews.len(), 1);
        let asked: Vec<_> = state.access_reviews.iter().map(|review| &review["spec"]).collect();
        assert_eq!(asked.len(), 3, "each question once: {asked:?}");
        assert_eq!(
            *asked[0],
            json!({
                "user": "prometheus", "uid": "7", "extra": {"k": ["v"]},
                "groups": ["system:monitoring", "system:authenticated"],
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            })
        );
        assert_eq!(asked[2]["nonResourceAttributes"]["verb"], "delete");
    }
    // A caller with a bad token is not anonymous: it is rejected even where anonymous callers are allowed.
    let bad = reviewed.client().with_header("Authorization", "Bearer bad");
    for _ in 0..2 {
        let reply = bad.get("/healthz").await;
        assert_eq!((reply.code, reply.body.contains("\"Unauthorized\"")), (401, true), "{reply:?}");
    }
    assert_eq!(
        reviewed.reviews.state.lock().unwrap().token_reviews.len(),
        2,
        "refusals are kept too"
    );
    reviewed.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verdicts_are_forgotten_in_time() {
    let reviewed = ReviewedScheduler::new(|options, _| {
        options.authentication.token_cache_ttl = Duration::ZERO;
        options.authorization.authorized_ttl = Duration::ZERO;
        options.authorization.unauthorized_ttl = Duration::ZERO;
    })
    .await;
    reviewed
        .reviews
        .state
        .lock()
        .unwrap()
        .tokens
        .insert("good".to_owned(), json!({"username": "jane"}));
    let client = reviewed.client().with_header("Authorization", "Bearer good");
    assert_eq!(client.get("/configz").await.code, 403);
    reviewed.reviews.allow("jane", "/configz");
    assert_eq!(client.get("/configz").await.code, 200);
    reviewed.reviews.state.lock().unwrap().tokens.clear();
    assert_eq!(client.get("/configz").await.code, 401);
    reviewed.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_review_server_opens_nothing() {
    let reviewed = ReviewedScheduler::new(|options, _| {
        options.authorization.always_allow_paths.push("/metrics".to_owned());
    })
    .await;
    reviewed.reviews.state.lock().unwrap().broken = Some(500);
    let client = reviewed.client();
    // In parallel: each of these is tried a few times before it is given up.
    let token = client.clone().with_header("Authorization", "Bearer good");
    let (healthz, metrics, configz, token) = tokio::join!(
        client.get("/healthz"),
        client.get("/metrics"),
        client.get("/configz"),
        token.get("/healthz"),
    );
    assert_eq!((healthz.code, metrics.code, token.code), (200, 200, 401));
    assert_eq!(
        (configz.code, configz.body.as_str()),
        (500, "Internal Server Error: \"/configz\": out of order\n")
    );
    reviewed.running.stop().await;
}

/// Strangers at one address send tokens that nobody has and ask for paths that nobody knows, and the API server is slow with them.
#[tokio::test(flavor = "multi_thread")]
async fn one_address_does_not_keep_others_from_being_reviewed() {
    /// What `Limits` in `serve/review/slots.rs` says.
    const SHARE: usize = 4;
    let reviewed = ReviewedScheduler::new(|_, _| {}).await;
    let user = json!({"username": "prometheus"});
    reviewed.reviews.state.lock().unwrap().tokens.insert("good".to_owned(), user);
    reviewed.reviews.allow("prometheus", "/metrics");
    reviewed.reviews.holds.send_replace(true);
    let stranger = reviewed.client().calling_from([127, 0, 0, 2]);
    let flood: Vec<_> = (0..40)
        .flat_map(|at| {
            let token = format!("Bearer held-{at}");
            let with_token = stranger.clone().with_header("Authorization", &token);
            [(with_token, "/metrics".to_owned()), (stranger.clone(), format!("/held/{at}"))]
        })
        .map(|(client, path)| tokio::spawn(async move { client.get(&path).await.code }))
        .collect();
    let asked = || {
        let state = reviewed.reviews.state.lock().unwrap();
        (state.token_reviews.len(), state.access_reviews.len())
    };
    until_asked("its share", || async { asked() == (SHARE, SHARE) }).await;
    let prometheus = reviewed.client().with_header("Authorization", "Bearer good");
    assert_eq!(prometheus.get("/metrics").await.code, 200);
    // Who is known already is none of the strangers, whatever the address.
    reviewed.reviews.allow("prometheus", "/configz");
    let neighbour = prometheus.calling_from([127, 0, 0, 2]);
    assert_eq!(neighbour.get("/configz").await.code, 200);
    assert_eq!(asked(), (SHARE + 1, SHARE + 2), "all others of the flood wait");
    reviewed.reviews.holds.send_replace(false);
    for (at, code) in futures::future::join_all(flood).await.into_iter().enumerate() {
        let expected = if at % 2 == 0 { 401 } else { 403 };
        // On a slow machine some have waited for too long.
        let code = code.unwrap();
        assert!(code == expected || code == 429, "{at}: {code}");
    }
    reviewed.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificates_name_callers() {
    let authority = Authority::new("client-ca");
    let reviewed = ReviewedScheduler::new(|options, directory| {
        let file = directory.path().join("ca.crt");
        std::fs::write(&file, &authority.pem).unwrap();
        options.authentication.client_ca_file = Some(file);
    })
    .await;
    reviewed.reviews.allow("jane", "/metrics");
    let jane = reviewed.client().with_certificate(&authority.client("jane", &["devs"]));
    assert_eq!(jane.get("/metrics").await.code, 200);
    assert_eq!(jane.get("/configz").await.code, 403);
    {
        let state = reviewed.reviews.state.lock().unwrap();
        let spec = &state.access_reviews[0]["spec"];
        assert_eq!(spec["groups"], json!(["devs", "system:authenticated"]));
        let credential = &spec["extra"]["authentication.kubernetes.io/credential-id"][0];
        assert!(credential.as_str().unwrap().starts_with("X509SHA256="), "{spec}");
    }
    let n_asked = reviewed.reviews.state.lock().unwrap().access_reviews.len();
    let admin = reviewed.client().with_certificate(&authority.client("root", &["system:masters"]));
    assert_eq!(admin.get("/configz").await.code, 200);
    assert_eq!(admin.get("/nothing").await.body, "404 page not found\n");
    assert_eq!(reviewed.reviews.state.lock().unwrap().access_reviews.len(), n_asked);

    let yesterday = SystemTime::now() - Duration::from_secs(86_400);
    let expired = authority.client_until("jane", &[], yesterday);
    let foreign = Authority::new("client-ca").client("jane", &["devs"]);
    let server = authority.server(&["jane"]);
    for (what, certificate) in
        [("expired", &expired), ("foreign", &foreign), ("for servers", &server)]
    {
        let client = reviewed.client().with_certificate(certificate);
        assert_eq!(client.get("/healthz").await.code, 401, "{what}");
        // A good token makes up for a bad certificate.
        reviewed
            .reviews
            .state
            .lock()
            .unwrap()
            .tokens
            .insert("good".to_owned(), json!({"username": "jane"}));
        let client = client.with_header("Authorization", "Bearer good");
        assert_eq!(client.get("/metrics").await.code, 200, "{what}");
    }

    // Another authority takes over, and the old one counts no longer.
    let next = Authority::new("next-ca");
    std::fs::write(reviewed.directory.path().join("ca.crt"), &next.pem).unwrap();
    let newcomer = reviewed.client().with_certificate(&next.client("jane", &[]));
    until_asked("the new authority", || async { newcomer.get("/metrics").await.code == 200 }).await;
    assert_eq!(jane.get("/metrics").await.code, 401);
    std::fs::write(reviewed.directory.path().join("ca.crt"), "rubbish").unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(newcomer.get("/metrics").await.code, 200);
    reviewed.running.stop().await;
}

/// The gate AllowParsingUserUIDFromCertAuth.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_say_uids_unless_that_is_off() {
    for has_uid in [true, false] {
        let authority = Authority::new("client-ca");
        let reviewed = ReviewedScheduler::new(|options, directory| {
            let file = directory.path().join("ca.crt");
            std::fs::write(&file, &authority.pem).unwrap();
            options.authentication.client_ca_file = Some(file);
            options.authentication.certificates_have_uids = has_uid;
        })
        .await;
        reviewed.reviews.allow("jane", "/metrics");
        let jane = reviewed.client().with_certificate(&authority.client_with_uid("jane", "7"));
        assert_eq!(jane.get("/metrics").await.code, 200);
        let asked = reviewed.reviews.state.lock().unwrap().access_reviews[0]["spec"]["uid"].clone();
        assert_eq!(asked, if has_uid { json!("7") } else { json!(null) });
        // One that makes no sense is none of our business then.
        let nobody = reviewed.client().with_certificate(&authority.client_with_uid("jane", ""));
        let code = if has_uid { 401 } else { 200 };
        assert_eq!(nobody.get("/metrics").await.code, code);
        reviewed.running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_speak_for_others() {
    let (clients, proxies) = (Authority::new("client-ca"), Authority::new("proxy-ca"));
    let reviewed = ReviewedScheduler::new(|options, directory| {
        let write = |name: &str, authority: &Authority| {
            let file = directory.path().join(name);
            std::fs::write(&file, &authority.pem).unwrap();
            Some(file)
        };
        options.authentication.client_ca_file = write("clients.crt", &clients);
        options.authentication.request_header = RequestHeaderOptions {
            client_ca_file: write("proxies.crt", &proxies),
            allowed_names: vec!["aggregator".to_owned()],
            ..RequestHeaderOptions::default()
        };
    })
    .await;
    reviewed.reviews.allow("jane", "/metrics");
    let speaking = |client: Client| {
        client
            .with_header("X-Remote-User", "jane")
            .with_header("X-Remote-Group", "a")
            .with_header("X-Remote-Group", "b")
            .with_header("X-Remote-Extra-Scopes", "s")
    };
    let proxy = reviewed.client().with_certificate(&proxies.client("aggregator", &[]));
    assert_eq!(speaking(proxy.clone()).get("/metrics").await.code, 200);
    assert_eq!(
        reviewed.reviews.state.lock().unwrap().access_reviews[0]["spec"],
        json!({
            "user": "jane", "groups": ["a", "b", "system:authenticated"], "extra": {"scopes": ["s"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        })
    );
    // Only certificates that may be a client's are counted.
    let is_counted = |n: usize| {
        let count = format!("apiserver_client_certificate_expiration_seconds_count {n}");
        reviewed.running.handle.metrics().lines().any(|line| line == count)
    };
    assert!(is_counted(0), "{}", reviewed.running.handle.metrics());
    // A proxy's request that names no user is anonymous: the proxy's certificate is not a client's.
    assert_eq!(proxy.get("/healthz").await.code, 401);
    assert!(is_counted(1), "{}", reviewed.running.handle.metrics());
    let impostor = reviewed.client().with_certificate(&proxies.client("other", &[]));
    assert_eq!(speaking(impostor).get("/healthz").await.code, 401);
    // Headers of a caller that is no proxy are ignored.
    assert_eq!(speaking(reviewed.client()).get("/metrics").await.code, 403);
    let joe = reviewed.client().with_certificate(&clients.client("joe", &[]));
    let reply = speaking(joe).get("/metrics").await;
    assert!(reply.code == 403 && reply.body.contains("User \\\"joe\\\""), "{reply:?}");
    reviewed.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn authorities_are_looked_up_in_the_cluster_and_followed() {
    let reviewed = ReviewedScheduler::new(|_, _| {}).await;
    // As long as no authority is known, a certificate says nothing.
    let early = reviewed.client().with_certificate(&Authority::new("early").client("joe", &[]));
    assert_eq!(early.get("/healthz").await.code, 200);
    let uncounted = "apiserver_client_certificate_expiration_seconds_count 0\n";
    assert!(reviewed.running.handle.metrics().contains(uncounted));
    let publish = |clients: &Authority, proxies: &Authority| {
        reviewed.reviews.published.send_replace(BTreeMap::from([
            ("client-ca-file".to_owned(), clients.pem.clone()),
            ("requestheader-client-ca-file".to_owned(), proxies.pem.clone()),
            ("requestheader-allowed-names".to_owned(), "[\"front\"]".to_owned()),
            ("requestheader-username-headers".to_owned(), "[\"X-Who\"]".to_owned()),
        ]));
    };
    reviewed.reviews.allow("jane", "/metrics");
    for round in 0..2 {
        let (clients, proxies) = (Authority::new("client-ca"), Authority::new("proxy-ca"));
        publish(&clients, &proxies);
        let jane = reviewed.client().with_certificate(&clients.client("jane", &[]));
        until_asked("the authority of clients", || async {
            jane.get("/metrics").await.code == 200
        })
        .await;
        let front = reviewed.client().with_certificate(&proxies.client("front", &[]));
        let front = front.with_header("X-Who", "jane");
        assert_eq!(front.get("/metrics").await.code, 200, "round {round}");
    }
    // What is no good changes nothing.
    let clients = Authority::new("client-ca");
    let proxies = Authority::new("proxy-ca");
    publish(&clients, &proxies);
    let jane = reviewed.client().with_certificate(&clients.client("jane", &[]));
    until_asked("the last authority", || async { jane.get("/metrics").await.code == 200 }).await;
    let rubbish = BTreeMap::from([("client-ca-file".to_owned(), "rubbish".to_owned())]);
    reviewed.reviews.published.send_replace(rubbish);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(jane.get("/metrics").await.code, 200);
    reviewed.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_that_must_succeed_is_an_error_at_start_when_it_does_not() {
    let directory = tempdir().unwrap();
    let reviews = ReviewServer::start().await;
    reviews.state.lock().unwrap().broken = Some(403);
    let cluster = cluster(1).await;
    let mut options = reviews.options(directory.path());
    options.authentication.tolerate_lookup_failure = false;
    let error = daemon(&cluster).serving(Some(options.clone())).start().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "unable to load configmap based request-header-client-ca-file: out of order"
    );
    options.authentication.skip_lookup = true;
    drop(daemon(&cluster).serving(Some(options.clone())).start().await.unwrap());
    options.authentication = AuthenticationOptions {
        kubeconfig: Some(directory.path().join("none")),
        ..AuthenticationOptions::default()
    };
    let error = daemon(&cluster).serving(Some(options)).start().await.unwrap_err();
    assert_eq!(error.to_string(), "failed to get delegated authentication kubeconfig");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_roles_tells_who_may_see_what() {
    let monitor = User::new("prometheus").group("system:monitoring");
    let builder = DevCluster::builder().tls(true).rbac(true).token("secret", monitor);
    let cluster = cluster_of(builder, 1).await;
    let directory = tempdir().unwrap();
    let kubeconfig = directory.path().join("scheduler.conf");
    let scheduler = User::kube_scheduler();
    std::fs::write(&kubeconfig, cluster.kubeconfig_for(&scheduler).unwrap()).unwrap();
    let mut options = options();
    options.authentication.kubeconfig = Some(kubeconfig.clone());
    options.authorization.kubeconfig = Some(kubeconfig.clone());
    let endpoint = Endpoint::from_kubeconfig(&kubeconfig, None).await.unwrap();
    let builder = Daemon::builder(endpoint, registry()).serving(Some(options));
    let running = Running::start(builder).await;
    let client = Client::new(running.handle.address().unwrap());

    let prometheus = client.clone().with_header("Authorization", "Bearer secret");
    for (path, code) in
        [("/metrics", 200), ("/metrics/slis", 200), ("/livez/ping", 200), ("/configz", 403)]
    {
        assert_eq!(prometheus.get(path).await.code, code, "{path}");
    }
    let guessed = client.clone().with_header("Authorization", "Bearer guessed");
    assert_eq!(guessed.get("/healthz").await.code, 401);
    assert_eq!(client.get("/metrics").await.code, 403);

    // Certificates by the authority that the cluster publishes are accepted, such as those of its administrators.
    let identity = cluster.authority().unwrap().client(&User::administrator()).unwrap();
    let issued = IssuedCertificate { certificate: identity.certificate, key: identity.key };
    let administrator = client.with_certificate(&issued);
    until_asked("the published authority", || async {
        administrator.get("/configz").await.code == 200
    })
    .await;
    running.stop().await;
    assert!(cluster.denied().is_empty(), "{:?}", cluster.denied());
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_and_reviews_are_counted() {
    let ca = Authority::new("ca");
    let reviewed = ReviewedScheduler::new(|options, directory| {
        let path = directory.path().join("ca.crt");
        std::fs::write(&path, &ca.pem).unwrap();
        options.authentication.client_ca_file = Some(path);
        never_forget(options);
    })
    .await;
    reviewed.reviews.allow("jane", "/metrics");
    let jane =
        reviewed.client().with_certificate(&ca.client("jane@example.org", &["system:masters"]));
    assert_eq!(jane.get("/healthz").await.code, 200);
    let stranger = reviewed.client();
    assert_eq!(stranger.get("/metrics").await.code, 403);
    let bad = stranger.with_header("Authorization", "Bearer bad");
    for _ in 0..2 {
        assert_eq!(bad.get("/metrics").await.code, 401);
    }
    let text = reviewed.running.handle.metrics();
    for line in [
        "authenticated_user_requests{username=\"email_id\"} 1",
        "authenticated_user_requests{username=\"other\"} 1",
        "authentication_attempts{result=\"success\"} 2",
        "authentication_attempts{result=\"error\"} 2",
        "authentication_token_cache_request_total{status=\"miss\"} 1",
        "authentication_token_cache_request_total{status=\"hit\"} 1",
        "authentication_token_cache_request_duration_seconds_count{status=\"miss\"} 1",
        "authentication_token_cache_fetch_total{status=\"ok\"} 1",
        "authentication_token_cache_active_fetch_count{status=\"blocked\"} 0",
        "authentication_token_cache_active_fetch_count{status=\"in_flight\"} 0",
        "authentication_duration_seconds_count{result=\"success\"} 2",
        "authorization_attempts_total{result=\"allowed\"} 1",
        "authorization_attempts_total{result=\"no-opinion\"} 1",
        "authorization_duration_seconds_count{result=\"allowed\"} 1",
        "apiserver_client_certificate_expiration_seconds_count 1",
        "apiserver_client_certificate_expiration_seconds_bucket{le=\"0\"} 0",
        "apiserver_delegated_authn_request_total{code=\"201\"} 1",
        "apiserver_delegated_authn_request_duration_seconds_count{code=\"201\"} 1",
        "apiserver_delegated_authz_request_total{code=\"201\"} 1",
        "apiserver_delegated_authz_request_duration_seconds_count{code=\"201\"} 1",
    ] {
        assert!(text.lines().any(|printed| printed == line), "{line} is missing in\n{text}");
    }
    reviewed.running.stop().await;
}

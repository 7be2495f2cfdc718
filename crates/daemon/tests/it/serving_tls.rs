//! The secure port's TLS: certificates, their reload, and connections that misbehave.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube_scheduler_daemon::{ConnectionPatience, ServingOptions, SniCertificate};
use kube_scheduler_devcluster::DevCluster;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::{TempDir, tempdir};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;

use crate::cluster::{Running, cluster, daemon};
use crate::https::{Authority, Client, IssuedCertificate, options, until_asked};

async fn serving(cluster: &DevCluster, options: ServingOptions) -> Running {
    Running::start(daemon(cluster).serving(Some(options))).await
}

/// One that knows the clients with certificates by this authority, and the directory with the authority's file.
async fn serving_clients_of(cluster: &DevCluster, authority: &Authority) -> (TempDir, Running) {
    let directory = tempdir().unwrap();
    let ca = directory.path().join("ca.crt");
    std::fs::write(&ca, &authority.pem).unwrap();
    let mut options = options();
    options.authentication.client_ca_file = Some(ca);
    options.authentication.skip_lookup = true;
    let running = serving(cluster, options).await;
    (directory, running)
}

fn client(running: &Running) -> Client {
    Client::new(running.handle.address().unwrap())
}

async fn start_error(cluster: &DevCluster, options: ServingOptions) -> String {
    let error = daemon(cluster).serving(Some(options)).start().await.unwrap_err();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Options with this certificate.
fn showing(directory: &std::path::Path, issued: &IssuedCertificate) -> ServingOptions {
    let (certificate, key) = issued.write(directory, "serving");
    ServingOptions {
        tls_cert_file: Some(certificate),
        tls_private_key_file: Some(key),
        ..options()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_certificate_one_is_made_in_memory() {
    let cluster = cluster(1).await;
    let running = serving(&cluster, options()).await;
    let shown = client(&running).shown().await;
    let certificate = Certificate::from_der(&shown).unwrap();
    let tbs = certificate.tbs_certificate();
    assert!(tbs.subject().to_string().starts_with("CN=localhost@"), "{}", tbs.subject());
    assert!(tbs.issuer().to_string().starts_with("CN=localhost-ca@"), "{}", tbs.issuer());
    let (_, names) = tbs.get_extension::<SubjectAltName>().unwrap().unwrap();
    let names = format!("{names:?}");
    assert!(names.contains("localhost") && names.contains("127, 0, 0, 1"), "{names}");
    assert_eq!(client(&running).get("/healthz").await.body, "ok");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_directory_is_filled_once_and_used_again() {
    let cluster = cluster(1).await;
    let directory = tempdir().unwrap();
    let directory = directory.path().join("not/there/yet");
    let options = ServingOptions { cert_dir: Some(directory.clone()), ..options() };
    let mut shown = Vec::new();
    for _ in 0..2 {
        let running = serving(&cluster, options.clone()).await;
        let pem = std::fs::read_to_string(directory.join("kube-scheduler.crt")).unwrap();
        let authority = pem.rsplit_once("-----BEGIN").unwrap().1;
        let trusting =
            Client::trusting(running.handle.address().unwrap(), &format!("-----BEGIN{authority}"));
        assert_eq!(trusting.get("/healthz").await.code, 200);
        assert_eq!(trusting.asking_for("localhost").get("/healthz").await.code, 200);
        shown.push(client(&running).shown().await);
        running.stop().await;
    }
    assert_eq!(shown[0], shown[1]);
    for (file, mode) in [("kube-scheduler.crt", 0o644), ("kube-scheduler.key", 0o600)] {
        let mode_there = std::fs::metadata(directory.join(file)).unwrap().permissions().mode();
        assert_eq!(mode_there & 0o777 & mode, mode_there & 0o777, "{file}: {mode_there:o}");
    }
    std::fs::remove_file(directory.join("kube-scheduler.key")).unwrap();
    let text = start_error(&cluster, options).await;
    assert!(
        text.ends_with("kube-scheduler.key, certificate and key must be supplied as a pair"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_certificate_is_shown_and_a_broken_one_is_not() {
    let cluster = cluster(1).await;
    let directory = tempdir().unwrap();
    let authority = Authority::new("ca");
    let [first, second, third] = [(); 3].map(|()| authority.server(&["127.0.0.1"]));
    let running = serving(&cluster, showing(directory.path(), &first)).await;
    let client = Client::trusting(running.handle.address().unwrap(), &authority.pem);
    assert_eq!(client.shown().await, first.der());
    let mut old_connection = client.connect().await.unwrap();

    second.write(directory.path(), "serving");
    until_asked("the second certificate", || async { client.shown().await == second.der() }).await;

    // Half of a new pair, then rubbish, then nothing at all: meanwhile the second one is shown.
    std::fs::write(directory.path().join("serving.crt"), &third.certificate).unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(client.shown().await, second.der());
    std::fs::write(directory.path().join("serving.crt"), "rubbish").unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(client.shown().await, second.der());
    std::fs::remove_file(directory.path().join("serving.crt")).unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(client.shown().await, second.der());

    third.write(directory.path(), "serving");
    until_asked("the third certificate", || async { client.shown().await == third.der() }).await;

    // A client that was connected meanwhile is still served.
    old_connection
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    old_connection.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_cannot_be_used_are_errors_at_start() {
    let cluster = cluster(1).await;
    let directory = tempdir().unwrap();
    let authority = Authority::new("ca");
    let (good, other) = (authority.server(&["a.example"]), authority.server(&["a.example"]));
    let given = showing(directory.path(), &good);
    let file = |name: &str| directory.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(file(name), text).unwrap();

    let lacks_key = ServingOptions { tls_private_key_file: None, ..given.clone() };
    assert_eq!(
        start_error(&cluster, lacks_key).await,
        "missing filename for serving cert: --tls-private-key-file is not given"
    );
    let lacks_certificate = ServingOptions { tls_cert_file: None, ..given.clone() };
    assert_eq!(
        start_error(&cluster, lacks_certificate).await,
        "missing filename for serving cert: --tls-cert-file is not given"
    );
    let text = start_error(
        &cluster,
        ServingOptions { tls_cert_file: Some(file("none.crt")), ..given.clone() },
    )
    .await;
    assert!(
        text.starts_with(&format!(
            "open {}: no such file or directory",
            file("none.crt").display()
        )),
        "{text}"
    );

    write("rubbish.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let cases = [
        ("no PEM", "hello", "no certificate in PEM found"),
        ("a key instead", good.key.as_str(), "no certificate in PEM found"),
        ("cut short", &good.certificate[..good.certificate.len() / 2], "not certificates in PEM"),
        (
            "no certificate inside",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "malformed certificate number 1",
        ),
    ];
    for (what, contents, expected) in cases {
        write("bad.crt", contents);
        let options = ServingOptions { tls_cert_file: Some(file("bad.crt")), ..given.clone() };
        let text = start_error(&cluster, options).await;
        let expected = format!("{}: {expected}", file("bad.crt").display());
        assert!(text.starts_with(&expected), "{what}: {text}");
    }
    for (what, contents, expected) in [
        ("no PEM", "hello", "no private key in PEM found"),
        ("a certificate instead", good.certificate.as_str(), "no private key in PEM found"),
        (
            "no key inside",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "unusable private key",
        ),
    ] {
        write("bad.key", contents);
        let options =
            ServingOptions { tls_private_key_file: Some(file("bad.key")), ..given.clone() };
        let text = start_error(&cluster, options).await;
        let expected = format!("{}: {expected}", file("bad.key").display());
        assert!(text.starts_with(&expected), "{what}: {text}");
    }
    let (_, other_key) = other.write(directory.path(), "other");
    let mixed = ServingOptions { tls_private_key_file: Some(other_key.clone()), ..given.clone() };
    assert_eq!(
        start_error(&cluster, mixed).await,
        format!(
            "private key {} does not match public key of certificate {}",
            other_key.display(),
            file("serving.crt").display()
        )
    );
    let text = start_error(
        &cluster,
        ServingOptions {
            tls_sni_cert_keys: vec![SniCertificate {
                cert_file: file("none.crt"),
                key_file: file("none.key"),
                names: Vec::new(),
            }],
            ..given
        },
    )
    .await;
    assert!(text.starts_with("failed to load SNI cert and key: open "), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_an_error_at_start() {
    let cluster = cluster(1).await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let text = start_error(&cluster, ServingOptions { address, ..options() }).await;
    let expected = format!(
        "failed to create listener: failed to listen on {address}: listen tcp {address}: bind: address already in use"
    );
    assert_eq!(text, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_choose_among_certificates() {
    let cluster = cluster(1).await;
    let directory = tempdir().unwrap();
    let authority = Authority::new("ca");
    let main = authority.server(&["main.example"]);
    let [found, wildcard, explicit, by_address] = [
        authority.server(&["found.example"]),
        authority.server(&["*.wild.example", "explicit.example"]),
        authority.server(&["whatever.example"]),
        authority.server(&["whatever.example"]),
    ];
    let mut options = showing(directory.path(), &main);
    for (name, issued, names) in [
        ("found", &found, vec![]),
        ("wildcard", &wildcard, vec![]),
        ("explicit", &explicit, vec!["explicit.example".to_owned()]),
    ] {
        let (cert_file, key_file) = issued.write(directory.path(), name);
        options.tls_sni_cert_keys.push(SniCertificate { cert_file, key_file, names });
    }
    let running = serving(&cluster, options.clone()).await;
    for (name, expected) in [
        ("main.example", &main),
        ("unknown.example", &main),
        ("found.example", &found),
        ("a.wild.example", &wildcard),
        ("a.b.wild.example", &main),
        ("explicit.example", &explicit),
    ] {
        let shown = client(&running).asking_for(name).shown().await;
        assert_eq!(shown, expected.der(), "{name}");
    }
    assert_eq!(client(&running).shown().await, main.der());
    running.stop().await;

    // An address counts where no name is asked for.
    let (cert_file, key_file) = by_address.write(directory.path(), "address");
    let names = vec!["127.0.0.1".to_owned()];
    options.tls_sni_cert_keys.push(SniCertificate { cert_file, key_file, names });
    let running = serving(&cluster, options).await;
    assert_eq!(client(&running).shown().await, by_address.der());
    assert_eq!(client(&running).asking_for("found.example").shown().await, found.der());
    assert_eq!(client(&running).asking_for("main.example").shown().await, by_address.der());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_and_protocols_are_as_configured() {
    let cluster = cluster(1).await;
    let old_only = |mut client: Client| {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        client.config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS12])
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        client
    };
    let running = serving(
        &cluster,
        ServingOptions {
            tls_min_version: "VersionTLS13".to_owned(),
            disable_http2: true,
            ..options()
        },
    )
    .await;
    let error = old_only(client(&running)).connect().await.unwrap_err().to_string();
    assert!(error.contains("ProtocolVersion"), "{error}");
    let mut both = client(&running);
    both.config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = both.connect().await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    drop(stream);
    running.stop().await;

    let running = serving(&cluster, options()).await;
    // TLS 1.2 is spoken: what is refused is the unknown authority, by the client.
    let error = old_only(client(&running)).connect().await.unwrap_err().to_string();
    assert!(error.contains("UnknownIssuer"), "{error}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_is_spoken_and_anonymous_callers_do_not_keep_it() {
    let cluster = cluster(1).await;
    let running = serving(&cluster, options()).await;
    let mut client = client(&running);
    client.config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = client.connect().await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let ended = tokio::spawn(connection);
    let request =
        http::Request::get("https://x/healthz").body(Empty::<bytes::Bytes>::new()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&body[..], b"ok");
    // The server ends the connection of an anonymous caller, while the client would have stayed.
    tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap().unwrap().unwrap();
    drop(sender);
    running.stop().await;
}

/// Reads until the server ends the connection; how it does so does not matter.
async fn until_closed(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut reply = Vec::new();
    let reading = async { while stream.read_buf(&mut reply).await.is_ok_and(|n| n > 0) {} };
    tokio::time::timeout(Duration::from_secs(60), reading).await.unwrap();
    String::from_utf8_lossy(&reply).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_silent_peers_are_given_up() {
    let cluster = cluster(1).await;
    // Long enough for a handshake on a busy machine.
    let patience = ConnectionPatience {
        header: Duration::from_secs(10),
        idle: Duration::from_secs(13),
        ..ConnectionPatience::default()
    };
    let running = serving(&cluster, ServingOptions { patience, ..options() }).await;
    let address = running.handle.address().unwrap();
    let half_a_handshake = |start: &'static [u8]| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(start).await.unwrap();
        assert_eq!(until_closed(&mut stream).await, "");
    };
    let endless_head = async {
        let stream = client(&running).connect().await.unwrap();
        let (mut reading, mut writing) = tokio::io::split(stream);
        let writing = tokio::spawn(async move {
            let mut is_open = writing.write_all(b"GET /healthz HTTP/1.1\r\n").await.is_ok();
            while is_open {
                tokio::time::sleep(Duration::from_millis(50)).await;
                is_open =
                    writing.write_all(b"x: y\r\n").await.is_ok() && writing.flush().await.is_ok();
            }
        });
        assert_eq!(until_closed(&mut reading).await, "");
        drop(reading);
        tokio::time::timeout(Duration::from_secs(60), writing).await.unwrap().unwrap();
    };
    let done_and_staying = async {
        let mut stream = client(&running).connect().await.unwrap();
        let start = tokio::time::Instant::now();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let reply = until_closed(&mut stream).await;
        assert!(reply.ends_with("\r\n\r\nok"), "{reply}");
        assert!(start.elapsed() >= Duration::from_millis(12_500), "it may stay a while");
    };
    tokio::join!(
        half_a_handshake(b""),
        half_a_handshake(b"\x16\x03\x01\x02\x00\x01"),
        endless_head,
        done_and_staying,
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_are_too_long_are_refused() {
    let cluster = cluster(1).await;
    let running = serving(&cluster, options()).await;
    let reply = client(&running).with_header("x", &"y".repeat(60 << 10)).get("/healthz").await;
    assert_eq!(reply.code, 200, "sixty kilobytes are fine");
    let mut stream = client(&running).connect().await.unwrap();
    let head = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nx: {}\r\n\r\n", "y".repeat(80 << 10));
    // The server may hang up before it has read all that.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.flush().await;
    let reply = until_closed(&mut stream).await;
    assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 431"), "{reply}");
    let reply = client(&running).get(&format!("/{}", "z".repeat(70_000))).await;
    assert!([0, 414, 431].contains(&reply.code), "{reply:?}");
    assert_eq!(client(&running).get("/healthz").await.code, 200);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_gets_through_a_crowd_of_silent_connections() {
    let cluster = cluster(1).await;
    // None of them goes by itself meanwhile.
    let patience =
        ConnectionPatience { header: Duration::from_secs(600), ..ConnectionPatience::default() };
    let running = serving(&cluster, ServingOptions { patience, ..options() }).await;
    let address = running.handle.address().unwrap();
    // More than there is room for, from the address that the probe comes from as well.
    let mut crowd = Vec::new();
    for _ in 0..600 {
        crowd.push(TcpStream::connect(address).await.unwrap());
    }
    for _ in 0..3 {
        assert_eq!(client(&running).get("/livez").await.body, "ok");
    }
    // The oldest had to go, and nothing was sent to it.
    assert_eq!(until_closed(&mut crowd[0]).await, "");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_caller_is_not_displaced_by_strangers() {
    let cluster = cluster(1).await;
    let authority = Authority::new("clients");
    let (_directory, running) = serving_clients_of(&cluster, &authority).await;
    let known = client(&running).with_certificate(&authority.client("jane", &["system:masters"]));
    let mut known = known.connect().await.unwrap();
    let mut stranger = client(&running).connect().await.unwrap();
    let ask = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    for stream in [&mut known, &mut stranger] {
        stream.write_all(ask).await.unwrap();
        until_ok(stream).await;
    }
    let mut crowd = Vec::new();
    for _ in 0..300 {
        crowd.push(TcpStream::connect(running.handle.address().unwrap()).await.unwrap());
    }
    assert_eq!(until_closed(&mut stranger).await, "", "it is older than all of the crowd");
    known.write_all(ask).await.unwrap();
    until_ok(&mut known).await;
    running.stop().await;
}

/// They are kept as long as the connection. Those of up to 64 KiB are refused once they are read, before they are copied or a
/// signature is verified; of a longer message no more is read.
#[tokio::test(flavor = "multi_thread")]
async fn client_certificates_that_are_too_long_end_the_handshake() {
    let cluster = cluster(1).await;
    let authority = Authority::new("clients");
    let (_directory, running) = serving_clients_of(&cluster, &authority).await;
    let issued = authority.client("jane", &["system:masters"]);
    let showing = |n: usize| {
        let chain = std::iter::repeat_n(authority.pem.as_str(), n);
        let all: Vec<&str> = [issued.certificate.as_str()].into_iter().chain(chain).collect();
        let certificate = all.join("\n");
        client(&running).with_certificate(&IssuedCertificate { certificate, ..issued.clone() })
    };
    let n_bytes = CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap().len();
    let n_allowed = ((16 << 10) - issued.der().len()) / n_bytes;
    assert_eq!(showing(n_allowed).get("/configz").await.code, 200);
    for n in [n_allowed + 1, (80 << 10) / n_bytes] {
        // The server may hang up before the client has sent everything.
        let reply = match showing(n).connect().await {
            Ok(mut stream) => {
                let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await;
                until_closed(&mut stream).await
            }
            Err(_) => String::new(),
        };
        assert_eq!(reply, "", "{n} certificates of {n_bytes} bytes");
    }
    assert_eq!(client(&running).get("/livez").await.code, 200);
    running.stop().await;
}

/// Reads up to the end of an answer that is well.
async fn until_ok(stream: &mut (impl AsyncReadExt + Unpin)) {
    let mut reply = Vec::new();
    let reading = async {
        while !reply.ends_with(b"\r\n\r\nok") {
            assert!(stream.read_buf(&mut reply).await.unwrap() > 0, "it was closed");
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_can_be_shared_on_request() {
    let cluster = cluster(1).await;
    let first = serving(&cluster, ServingOptions { permit_port_sharing: true, ..options() }).await;
    let address = first.handle.address().unwrap();
    let text = start_error(&cluster, ServingOptions { address, ..options() }).await;
    assert!(text.contains("address already in use"), "{text}");
    let sharing = ServingOptions { address, permit_port_sharing: true, ..options() };
    let second = serving(&cluster, sharing).await;
    assert_eq!(second.handle.address(), Some(address));
    first.stop().await;
    assert_eq!(client(&second).get("/healthz").await.code, 200);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_is_not_served() {
    let cluster = cluster(1).await;
    let running = serving(&cluster, options()).await;
    let answer =
        "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    let address = running.handle.address().unwrap();
    for (sent, expected) in [
        (&b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"[..], Some(answer)),
        (b"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Some(answer)),
        // The rest is not waited for.
        (b"P", Some(answer)),
        (b"hello\r\n", None),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let reply = until_closed(&mut stream).await;
        assert!(!reply.contains("200"), "{reply}");
        let is_http = reply.starts_with("HTTP/");
        assert_eq!(is_http.then_some(&*reply), expected, "{}", String::from_utf8_lossy(sent));
    }
    assert_eq!(client(&running).get("/healthz").await.code, 200);
    running.stop().await;
}

#[test]
fn the_test_certificates_are_certificates() {
    let issued = Authority::new("ca").client("jane", &["devs"]);
    let der = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
    let subject = Certificate::from_der(&der).unwrap().tbs_certificate().subject().to_string();
    assert!(subject.contains("CN=jane") && subject.contains("O=devs"), "{subject}");
}

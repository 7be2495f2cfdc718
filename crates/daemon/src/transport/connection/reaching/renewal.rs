//! Certificates and authorities in files that change.

use std::time::Duration;

use serde_json::json;
use tempfile::{TempDir, tempdir};

use super::servers::{Authority, IssuedCertificate, Server};
use super::{DEADLINE, ask, kubeconfig};
use crate::transport::{Api, Endpoint};
/// A scheduler's credentials in files, and a server that knows their authorities.
struct Rotation {
    directory: TempDir,
    clients: Authority,
    server: Server,
}

impl Rotation {
    async fn new(authority: &Authority, protocols: &[&str]) -> Self {
        let clients = Authority::new();
        let server = Server::start(Some(authority.tls(&clients, protocols))).await;
        let rotation = Self { directory: tempdir().unwrap(), clients, server };
        rotation.write("ca.crt", &authority.pem);
        rotation
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// Puts a new certificate and its key in place.
    fn renew(&self) -> IssuedCertificate {
        let issued = self.clients.client("scheduler");
        self.write("client.crt", &issued.certificate);
        self.write("client.key", &issued.key);
        issued
    }

    /// A client that looks at the files with every request.
    async fn api(&self) -> Api {
        let cluster = json!({"certificate-authority": "ca.crt"});
        let user = json!({"client-certificate": "client.crt", "client-key": "client.key"});
        let url = format!("https://{}", self.server.address);
        let path = kubeconfig(self.directory.path(), &url, &cluster, &user);
        let mut endpoint = Endpoint::from_kubeconfig(&path, None).await.unwrap();
        endpoint.files.reread_after = Duration::ZERO;
        endpoint.client("test").unwrap()
    }

    /// By which connection and with which certificate a request comes.
    async fn way(&self, api: &Api) -> (usize, Option<Vec<u8>>) {
        assert_eq!(ask(api).await.unwrap(), "{}");
        let seen = self.server.last();
        (seen.connection, seen.certificate)
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_used_and_old_connections_end() {
    for protocols in [&["h2"][..], &["http/1.1"]] {
        let rotation = Rotation::new(&Authority::new(), protocols).await;
        let first = rotation.renew();
        let api = rotation.api().await;
        let connections_with = async |issued: &IssuedCertificate| {
            let mut connections = Vec::new();
            for _ in 0..2 {
                let (connection, certificate) = rotation.way(&api).await;
                assert_eq!(certificate, Some(issued.der()));
                connections.push(connection);
            }
            connections
        };
        let old = connections_with(&first).await;
        let new = connections_with(&rotation.renew()).await;
        // A connection of HTTP/1.1 may not be back from the first request when the second one is sent.
        if protocols == ["h2"] {
            assert_eq!((&*old, &*new), (&[0, 0][..], &[1, 1][..]));
        }
        let have_ended = |connections: &[usize]| {
            let ended = rotation.server.ended.lock().unwrap();
            connections.iter().all(|connection| ended.contains(connection))
        };
        let deadline = tokio::time::Instant::now() + DEADLINE;
        while !have_ended(&old) {
            assert!(tokio::time::Instant::now() < deadline, "the old connection stays");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!have_ended(&new), "the new connection goes with it");
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_change_nothing() {
    let rotation = Rotation::new(&Authority::new(), &["h2"]).await;
    let first = rotation.renew();
    let api = rotation.api().await;
    let other = rotation.clients.client("other");
    for (name, text) in [
        // Of a certificate that is already there the key is still to come.
        ("client.crt", &*other.certificate),
        ("client.crt", "rubbish"),
        ("client.crt", ""),
        ("client.key", "rubbish"),
        ("ca.crt", ""),
        ("ca.crt", "rubbish"),
    ] {
        let whole = std::fs::read_to_string(rotation.directory.path().join(name)).unwrap();
        rotation.write(name, text);
        assert_eq!(rotation.way(&api).await, (0, Some(first.der())), "{name} {text}");
        rotation.write(name, &whole);
        assert_eq!(rotation.way(&api).await, (0, Some(first.der())), "{name}");
    }
    std::fs::remove_file(rotation.directory.path().join("client.key")).unwrap();
    assert_eq!(rotation.way(&api).await, (0, Some(first.der())));
    // At the start they are an error.
    let path = rotation.directory.path().join("kubeconfig");
    let error = Endpoint::from_kubeconfig(&path, None).await.unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.ends_with("client.key: no such file or directory"), "{why}");
}

#[tokio::test]
async fn a_renewed_authority_is_trusted_and_the_former_is_not() {
    let (former, next) = (Authority::new(), Authority::new());
    let rotation = Rotation::new(&former, &["h2"]).await;
    let issued = rotation.renew();
    let api = rotation.api().await;
    assert_eq!(rotation.way(&api).await, (0, Some(issued.der())));
    *rotation.server.tls.lock().unwrap() = Some(next.tls(&rotation.clients, &["h2"]));
    rotation.write("ca.crt", &next.pem);
    assert_eq!(rotation.way(&api).await, (1, Some(issued.der())));
    // The server of the former authority is not believed any more.
    *rotation.server.tls.lock().unwrap() = Some(former.tls(&rotation.clients, &["h2"]));
    rotation.renew();
    let said = ask(&api).await.unwrap_err();
    assert!(said.contains("invalid peer certificate"), "{said}");
}

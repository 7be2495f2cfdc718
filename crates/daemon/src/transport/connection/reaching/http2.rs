//! What the environment says about HTTP/2.

use tokio_rustls::TlsAcceptor;

use super::*;
use crate::transport::http2::Http2Options;

#[tokio::test]
async fn the_environment_may_rule_http2_out() {
    let authority = Authority::new();
    let server = Server::start(Some(authority.tls(&authority, &["h2", "http/1.1"]))).await;
    let url = format!("https://{}", server.address);
    for is_disabled in [false, true] {
        let http2 = Http2Options::read(|name| {
            (is_disabled && name == "DISABLE_HTTP2").then(|| "true".to_owned())
        });
        let endpoint = Endpoint { http2, ..endpoint(&url, &authority, &[]) };
        assert_eq!(ask(&endpoint.client("test").unwrap()).await.unwrap(), "{}");
        // Requests of HTTP/2 name the server, too.
        assert_eq!(server.last().uri.starts_with("https://"), !is_disabled);
    }
}

#[tokio::test]
async fn a_server_that_answers_no_ping_has_lost_its_connection() {
    let authority = Authority::new();
    let acceptor = TlsAcceptor::from(authority.tls(&authority, &["h2"]));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut unread = Vec::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            unread.push(acceptor.accept(stream).await.unwrap());
        }
    });
    let short = Duration::from_millis(100);
    let http2 =
        Http2Options { ping_after: Some(short), ping_patience: short, ..Http2Options::default() };
    let endpoint = Endpoint { http2, ..endpoint(&url, &authority, &[]) };
    let post = Call::post("/api/v1/namespaces", b"{}".to_vec()).timeout(DEADLINE);
    let error = endpoint.client("test").unwrap().call(&post).await.unwrap_err();
    server.abort();
    assert!(error.is_cut_off(), "{error}");
}

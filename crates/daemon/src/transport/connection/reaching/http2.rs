//! What the environment says about HTTP/2.

use tokio_rustls::TlsAcceptor;

use super::closing::{DATA, END_STREAM, frame};
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
    // Reads one request whole, and nothing after it. The client receives nothing from then on, so the clock need not be real.
    let silent_server = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        stream.read_exact(&mut [0; 24]).await.unwrap();
        loop {
            let (kind, flags, ..) = frame(&mut stream).await.unwrap();
            if kind == DATA && flags & END_STREAM != 0 {
                break;
            }
        }
        tokio::time::pause();
        (stream, tokio::time::Instant::now())
    };
    let (ping_after, ping_patience) = (Duration::from_secs(10), Duration::from_secs(5));
    let http2 =
        Http2Options { ping_after: Some(ping_after), ping_patience, ..Http2Options::default() };
    let endpoint = Endpoint { http2, ..endpoint(&url, &authority, &[]) };
    let api = endpoint.client("test").unwrap();
    let post = Call::post("/api/v1/namespaces", b"{}".to_vec()).timeout(DEADLINE);
    let (answer, (_stream, silent_since)) = tokio::join!(api.call(&post), silent_server);
    let error = answer.unwrap_err();
    assert!(error.is_cut_off(), "{error}");
    let taken = silent_since.elapsed();
    assert!(taken < ping_after + ping_patience + Duration::from_secs(1), "it took {taken:?}");
}

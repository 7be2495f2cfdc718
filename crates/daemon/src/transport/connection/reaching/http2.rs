//! What the environment says about HTTP/2.

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

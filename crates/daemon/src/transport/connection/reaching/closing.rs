//! Servers that close connections of HTTP/2 in order, with requests under way that they have not looked at.

use std::sync::Mutex;

use tokio::io::AsyncRead;
use tokio_rustls::TlsAcceptor;

use super::*;

const HEADERS: u8 = 1;
pub(super) const DATA: u8 = 0;
pub(super) const END_STREAM: u8 = 1;
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
/// No request has been processed, and nothing is wrong.
const GO_AWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The kind, the flags, the stream and the payload of a frame.
pub(super) async fn frame(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<(u8, u8, [u8; 4], Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let [a, b, c, kind, flags, id @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    stream.read_exact(&mut payload).await?;
    Ok((kind, flags, id, payload))
}

/// A server that closes its first `n_closed` connections at their first request, and answers what comes on later ones. The
/// bodies that it has read are added to the list.
async fn closing_server(
    authority: &Authority,
    n_closed: usize,
) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let acceptor = TlsAcceptor::from(authority.tls(authority, &["h2"]));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let bodies: Arc<Mutex<Vec<String>>> = Arc::default();
    let read = bodies.clone();
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, read) = (acceptor.clone(), read.clone());
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await.unwrap();
                stream.read_exact(&mut [0; 24]).await.unwrap();
                stream.write_all(&SETTINGS).await.unwrap();
                while let Ok((kind, flags, [a, b, c, d], payload)) = frame(&mut stream).await {
                    if kind == HEADERS && number < n_closed {
                        stream.write_all(&GO_AWAY).await.unwrap();
                        stream.flush().await.unwrap();
                    } else if kind == DATA && flags & END_STREAM != 0 && number >= n_closed {
                        read.lock().unwrap().push(String::from_utf8(payload).unwrap());
                        // Status 200 and an empty object.
                        let head = [0, 0, 1, HEADERS, 4, a, b, c, d, 0x88];
                        let body = [0, 0, 2, DATA, END_STREAM, a, b, c, d, b'{', b'}'];
                        stream.write_all(&[&head[..], &body].concat()).await.unwrap();
                        stream.flush().await.unwrap();
                    }
                }
            });
        }
    });
    (address, bodies)
}

#[tokio::test]
async fn what_a_closing_server_has_not_looked_at_is_sent_again_whole() {
    let authority = Authority::new();
    for n_closed in [0, 3] {
        let (address, bodies) = closing_server(&authority, n_closed).await;
        let endpoint = endpoint(&format!("https://{address}"), &authority, &[]);
        let api = endpoint.client("test").unwrap();
        let post = Call::post("/api/v1/namespaces", b"{\"a\":1}".to_vec()).timeout(DEADLINE);
        assert_eq!(api.call(&post).await.unwrap(), "{}");
        assert_eq!(*bodies.lock().unwrap(), ["{\"a\":1}"]);
    }
}

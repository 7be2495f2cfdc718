//! Whatever a client sends, in memory and without TLS: the server takes no more of it than it may keep, answers in HTTP
//! or not at all, and comes to an end.

use bytes::Bytes;
use http_body_util::BodyExt;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

/// Of the pipe between client and server.
const PIPE: usize = 4 << 10;
/// What the server may take of a head before it refuses it: one buffer more than the limit at most, and the pipe.
const MAX_TAKEN: usize = 2 * MAX_HEAD + PIPE;

fn limits() -> Limits {
    Limits { patience: ConnectionPatience::default(), http2_max_streams: 0 }
}

/// The server at one end of a pipe; the answer says how long the path and the body were.
fn server(is_http2: bool) -> (DuplexStream, impl Future<Output = Result<(), ConnectionError>>) {
    server_of(is_http2, |call: Call| async move {
        let length = call.request.uri().path().len();
        let body = http_body_util::Limited::new(call.request.into_body(), MAX_HEAD).collect();
        let text = match body.await {
            Ok(body) => format!("{length} {}", body.to_bytes().len()),
            Err(_) => "no body".to_owned(),
        };
        let response = reply::plain(StatusCode::OK, text);
        Answer { response, is_to_known_caller: false, ends_connection: false }
    })
}

/// The server at one end of a pipe, which answers so.
fn server_of<H, F>(
    is_http2: bool,
    handler: H,
) -> (DuplexStream, impl Future<Output = Result<(), ConnectionError>>)
where
    H: Fn(Call) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let (client, server) = duplex(PIPE);
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let peer = Arc::new(Peer { address, certificates: Vec::new() });
    let (stopper, stop) = watch::channel(false);
    let serving = async move {
        let _stopper = stopper;
        requests(server, is_http2, peer, limits(), handler, stop, || {}).await
    };
    (client, serving)
}

/// Sends all of this, reads whatever comes, and waits for the server's end. Returns how much was taken and the answer.
async fn converse(is_http2: bool, bytes: &[u8], keeps_open: bool) -> (usize, Vec<u8>) {
    let (client, serving) = server(is_http2);
    let serving = tokio::spawn(serving);
    let (mut reading, mut writing) = tokio::io::split(client);
    let answer = tokio::spawn(async move {
        let mut answer = Vec::new();
        // An error is an end as well.
        let _ = reading.read_to_end(&mut answer).await;
        answer
    });
    let mut n_taken = 0;
    for chunk in bytes.chunks(PIPE) {
        match writing.write_all(chunk).await {
            Ok(()) => n_taken += chunk.len(),
            Err(_) => break,
        }
    }
    if !keeps_open {
        let _ = writing.shutdown().await;
    }
    let ended = tokio::time::timeout(Duration::from_secs(60), serving).await;
    // How it ended does not matter, but that it did, and without a panic.
    drop(ended.expect("the connection does not end").expect("the connection panicked"));
    drop(writing);
    (n_taken, answer.await.unwrap())
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Parts that a parser of HTTP looks at closely, among others.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        &b"GET "[..],
        b"POST ",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"/livez",
        b"/%00%ff%2e%2e",
        b"http://h:1/p?q",
        b" HTTP/1.1\r\n",
        b" HTTP/1.0\r\n",
        b"Host: x\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: upgrade\r\nUpgrade: h2c\r\n",
        b"ffffffffffffffff\r\n",
        b"0\r\n\r\n",
        b"\r\n",
        b"\n",
        b": ",
        b"\0",
    ]);
    prop_oneof![
        8 => known.prop_map(<[u8]>::to_vec),
        2 => prop::collection::vec(any::<u8>(), 0..64),
        1 => (any::<u8>(), 0_usize..100_000).prop_map(|(byte, n)| vec![byte; n]),
    ]
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(piece(), 0..16).prop_map(|pieces| pieces.concat())
}

/// Frames of HTTP/2 behind the preface: known types, lengths that are true, flags and streams by chance.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let frame = (0_u8..12, any::<u8>(), 0_u32..8, prop::collection::vec(any::<u8>(), 0..200));
    prop::collection::vec(frame, 0..12).prop_map(|frames| {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
        for (kind, flags, stream, payload) in frames {
            bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
            bytes.extend_from_slice(&[kind, flags]);
            bytes.extend_from_slice(&stream.to_be_bytes());
            bytes.extend_from_slice(&payload);
        }
        bytes
    })
}

proptest! {
    #![proptest_config(Config { cases: 300, rng_seed: RngSeed::Fixed(14), failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_bytes_end_in_answers_or_in_silence(message in message(), is_http2 in any::<bool>()) {
        let (_, answer) = run(converse(is_http2, &message, false));
        if !is_http2 {
            prop_assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer));
        }
    }

    #[test]
    fn any_frames_end_the_connection_at_worst(frames in frames()) {
        run(converse(true, &frames, false));
    }
}

#[test]
fn an_endless_head_is_taken_no_further_than_the_limit() {
    let begin = b"GET / HTTP/1.1\r\nHost: x".to_vec();
    for endless in [&b"\r\na: b"[..], b"a", b"\r\n "] {
        let mut bytes = begin.clone();
        while bytes.len() < 4 << 20 {
            bytes.extend_from_slice(endless);
        }
        let (n_taken, answer) = run(converse(false, &bytes, true));
        assert!(n_taken <= MAX_TAKEN, "{n_taken} bytes of {endless:?}");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}

/// A server that answers everything with a page of this length.
fn page_server(length: usize) -> (DuplexStream, impl Future<Output = Result<(), ConnectionError>>) {
    server_of(false, move |_| async move {
        let response = reply::plain(StatusCode::OK, "x".repeat(length));
        Answer { response, is_to_known_caller: false, ends_connection: false }
    })
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_read_to_its_end_however_slowly() {
    const LENGTH: usize = 10 * LEAST_TAKEN + PIPE;
    // A client may also begin its next request meanwhile.
    for next in [&b""[..], b"GET /"] {
        let (mut client, serving) = page_server(LENGTH);
        let serving = tokio::spawn(serving);
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let (mut answer, mut part) = (Vec::new(), [0; PIPE]);
        let mut n_taken = 0;
        while let Ok(n @ 1..) = client.read(&mut part).await {
            if answer.is_empty() {
                client.write_all(next).await.unwrap();
            }
            answer.extend_from_slice(&part[..n]);
            n_taken += n;
            if n_taken >= LEAST_TAKEN {
                n_taken -= LEAST_TAKEN;
                // Less than the pause that is allowed, and much more in total.
                tokio::time::sleep(limits().patience.header * 3 / 4).await;
            }
        }
        let answer = String::from_utf8(answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.len(), LENGTH, "{next:?}");
        // Nothing more comes, and the server ends the connection.
        serving.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_single_bytes_keeps_no_answer() {
    let (mut client, serving) = page_server(2 * LEAST_TAKEN);
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let patience = limits().patience.idle;
    let reading = async {
        while let Ok(1..) = client.read(&mut [0]).await {
            tokio::time::sleep(patience / 8).await;
        }
    };
    let ended = async {
        tokio::select! {
            ended = serving => ended,
            () = reading => panic!("the server ends the connection before all is read"),
        }
    };
    let ended = tokio::time::timeout(2 * patience, ended).await;
    drop(ended.expect("a slow reader keeps the answer"));
}

/// A body that ends when its sender is dropped.
type Body = http_body_util::StreamBody<BodyEnd>;
type BodyEnd = futures::stream::Map<
    futures::stream::Once<tokio::sync::oneshot::Receiver<()>>,
    fn(Result<(), tokio::sync::oneshot::error::RecvError>) -> BodyFrame,
>;
type BodyFrame = Result<hyper::body::Frame<Bytes>, std::convert::Infallible>;

/// A request with a head of about this length, and what ends it.
fn request(head: usize) -> (tokio::sync::oneshot::Sender<()>, Request<Body>) {
    let (end, ended) = tokio::sync::oneshot::channel();
    let frame: fn(_) -> BodyFrame = |_| Ok(hyper::body::Frame::data(Bytes::from_static(b"end")));
    let body = futures::StreamExt::map(futures::stream::once(ended), frame);
    let request = Request::post("http://x/").header("x", "y".repeat(head));
    (end, request.body(http_body_util::StreamBody::new(body)).unwrap())
}

#[test]
fn heads_of_http2_are_bounded_one_by_one_and_together() {
    run(async {
        let (client, serving) = server(true);
        let serving = tokio::spawn(serving);
        let handshake =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client));
        let (sender, connection) = handshake.await.unwrap();
        let connection = tokio::spawn(connection);
        let status = |request| {
            let sent = sender.clone().send_request(request);
            async { sent.await.map(|answer| answer.status().as_u16()) }
        };

        let (_, too_long) = request(MAX_HEAD + (16 << 10));
        let refused = status(too_long).await;
        assert!(matches!(refused, Ok(431) | Err(_)), "{refused:?}");

        // Two that wait for the rest of their bodies leave no room for a third.
        let (first_end, first) = request(60 << 10);
        let (second_end, second) = request(60 << 10);
        let (_, third) = request(60 << 10);
        let (_, small) = request(1 << 10);
        let mut first = std::pin::pin!(status(first));
        let mut second = std::pin::pin!(status(second));
        let third = async {
            // Requests are sent in the order of these calls.
            tokio::select! {
                biased;
                early = &mut first => panic!("{early:?}"),
                early = &mut second => panic!("{early:?}"),
                refused = status(third) => refused,
            }
        };
        assert_eq!(third.await.unwrap(), 429);
        assert_eq!(status(small).await.unwrap(), 200, "a short one finds room");
        drop((first_end, second_end));
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (200, 200));
        drop(sender);
        drop((connection.await, serving.await));
    });
}

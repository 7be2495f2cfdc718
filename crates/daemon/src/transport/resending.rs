//! Sends requests again whose connection has failed them: what the server has declared unprocessed, and what only reads.
//!
//! In HTTP/2 a server that closes a connection says up to which request it has answered, and refuses single ones. kube-apiserver
//! closes connections so with `--goaway-chance`, and so do this scheduler's secure port and the reference's after an answer to an
//! anonymous caller. The reference's client sends the rest again by itself: seven times at most, within about a minute.
//!
//! What changes something is sent again only within a moment, because it passes the fence before the first try alone.
//!
//! A GET whose connection ends before the answer is sent again after a second, at most ten times, as by the reference's client. A
//! watch under way has its answer. What fails before there is a connection is up to the caller.

use std::error::Error as StdError;
use std::time::Duration;

use http::{Method, Request};
use kube::client::Body;
use tokio::time::Sleep;
use tower::retry::Policy;

use super::MAX_PATIENCE;
use super::error::has_lost_connection;

/// How long to wait before each further try of what is unprocessed. A connection that is being closed may be offered once more.
const PAUSES: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];
/// How many of these pauses there are for requests that may change something.
const N_CHANGE_PAUSES: usize = 3;
/// How long to wait before each further try of a GET that was cut off.
const CUT_OFF_PAUSE: Duration = Duration::from_secs(1);

/// Which requests are sent again, and when. Each request has its own copy.
#[derive(Clone, Debug, Default)]
pub(super) struct ResendPolicy {
    n_unprocessed: usize,
    n_cut_off: u32,
}

impl ResendPolicy {
    /// How long to wait before a request is sent again that ended so; `None` if it is not.
    fn pause(&mut self, method: &Method, error: &(dyn StdError + 'static)) -> Option<Duration> {
        let is_read = method == Method::GET;
        let pauses = if is_read { &PAUSES[..] } else { &PAUSES[..N_CHANGE_PAUSES] };
        if is_unprocessed(error)
            && let Some(pause) = pauses.get(self.n_unprocessed)
        {
            self.n_unprocessed += 1;
            return Some(*pause);
        }
        let is_worth_it = is_read && has_lost_connection(error);
        (is_worth_it && self.n_cut_off < MAX_PATIENCE).then(|| {
            self.n_cut_off += 1;
            CUT_OFF_PAUSE
        })
    }
}

impl<R, E: StdError + 'static> Policy<Request<Body>, R, E> for ResendPolicy {
    type Future = Sleep;

    fn retry(&mut self, request: &mut Request<Body>, result: &mut Result<R, E>) -> Option<Sleep> {
        let error = result.as_ref().err()?;
        self.pause(request.method(), error).map(tokio::time::sleep)
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        let mut copy = Request::new(request.body().try_clone()?);
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.version_mut() = request.version();
        *copy.headers_mut() = request.headers().clone();
        *copy.extensions_mut() = request.extensions().clone();
        Some(copy)
    }
}

/// Whether the server says that it has not looked at the request, and nothing is wrong with it or its connection.
fn is_unprocessed(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            // Only streams that the server has not processed fail with its GOAWAY; the others go on.
            return error.is_remote()
                && (error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR)
                    || error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM));
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use h2::Reason;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// What a client hears of its first request from a server that answers it with these frames and closes the connection.
    async fn error_after(frames: &[u8]) -> h2::Error {
        let (client, mut server) = duplex(4 << 10);
        let frames = [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], frames].concat();
        tokio::spawn(async move {
            let mut bytes = [0; 4 << 10];
            // The request stands somewhere behind the preface and the client's settings.
            let mut n_read = 0;
            while !has_request(&bytes[..n_read]) {
                n_read += server.read(&mut bytes[n_read..]).await.unwrap();
            }
            server.write_all(&frames).await.unwrap();
        });
        let (mut requests, connection) = h2::client::handshake(client).await.unwrap();
        tokio::spawn(connection);
        let (answer, _) = requests.send_request(Request::new(()), true).unwrap();
        answer.await.unwrap_err()
    }

    /// Whether these bytes of a client hold all of a HEADERS frame.
    fn has_request(bytes: &[u8]) -> bool {
        let mut rest = bytes.get(24..).unwrap_or_default();
        while let [a, b, c, kind, _, _, _, _, _, payload @ ..] = rest {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let Some(behind) = payload.get(length..) else { return false };
            if *kind == 1 {
                return true;
            }
            rest = behind;
        }
        false
    }

    fn go_away(last: u8, reason: Reason) -> Vec<u8> {
        let head = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, last];
        [&head[..], &u32::from(reason).to_be_bytes()].concat()
    }

    fn reset(reason: Reason) -> Vec<u8> {
        [&[0, 0, 4, 3, 0, 0, 0, 0, 1][..], &u32::from(reason).to_be_bytes()].concat()
    }

    /// How often a request is sent again that ends in the same way each time.
    fn n_resent(method: &Method, error: &h2::Error) -> usize {
        let mut policy = ResendPolicy::default();
        (0..20).filter(|_| policy.pause(method, error).is_some()).count()
    }

    #[tokio::test]
    async fn only_what_the_server_has_not_looked_at_and_what_reads_is_sent_again() {
        let cut_off = MAX_PATIENCE as usize;
        for (frames, n_posts, n_gets) in [
            (go_away(0, Reason::NO_ERROR), N_CHANGE_PAUSES, PAUSES.len() + cut_off),
            // The request was processed, and then the connection broke.
            (go_away(1, Reason::NO_ERROR), 0, cut_off),
            (go_away(0, Reason::ENHANCE_YOUR_CALM), 0, cut_off),
            (reset(Reason::REFUSED_STREAM), N_CHANGE_PAUSES, PAUSES.len()),
            (reset(Reason::CANCEL), 0, 0),
            (Vec::new(), 0, cut_off),
        ] {
            let error = error_after(&frames).await;
            let n_resent = [Method::POST, Method::GET].map(|method| n_resent(&method, &error));
            assert_eq!(n_resent, [n_posts, n_gets], "{frames:?} {error:?}");
        }
    }

    #[test]
    fn an_answer_is_an_answer() {
        let mut answer: Result<(), h2::Error> = Ok(());
        let mut request = Request::new(Body::empty());
        assert!(ResendPolicy::default().retry(&mut request, &mut answer).is_none());
    }
}

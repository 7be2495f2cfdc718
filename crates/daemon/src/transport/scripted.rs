//! A server for tests, in memory: it gives requests the answers that a test lists, one after the other, and notes when they came.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::header::RETRY_AFTER;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use kube_scheduler_api_types::lock;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Api;

/// How a request ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScriptedReply {
    /// With this answer.
    Body(&'static str),
    /// With an answer that comes without its end, which follows later: in order, or because the connection breaks.
    Watch { begin: &'static str, lasts: Duration, breaks: bool },
    /// With a status, and the seconds that the server wants the client to wait.
    Status(u16, Option<u64>),
    /// With an error in the place of an answer.
    Lost(io::ErrorKind),
    /// Never.
    Silence,
}

/// What the server has to say, and what it was asked.
pub(crate) struct Script {
    answers: Mutex<Box<dyn Iterator<Item = ScriptedReply> + Send>>,
    start: Instant,
    asked: Mutex<Vec<(Duration, String)>>,
    is_over: Notify,
}

type ScriptedBody = UnsyncBoxBody<Bytes, io::Error>;

/// A client of a server with these answers. Further requests get none.
pub(crate) fn scripted(
    answers: impl IntoIterator<Item = ScriptedReply, IntoIter: Send + 'static>,
) -> (Api, Arc<Script>) {
    let script = Arc::new(Script {
        answers: Mutex::new(Box::new(answers.into_iter())),
        start: Instant::now(),
        asked: Mutex::default(),
        is_over: Notify::new(),
    });
    let service = {
        let script = script.clone();
        tower::service_fn(move |request: Request<Body>| {
            let script = script.clone();
            let what = format!("{} {}", request.method(), request.uri());
            async move { script.answer(what).await }
        })
    };
    let api = Api {
        client: kube::Client::new(service, "default"),
        host: "server.example".into(),
        base: "http://server.example".into(),
        times: Arc::default(),
        metrics: None,
        fence: None,
        is_json_only: Arc::default(),
        opening: None,
        outage: Arc::default(),
        served_versions: Arc::default(),
    };
    (api, script)
}

impl Script {
    /// When requests came, from the start on, and what for.
    pub(crate) fn asked(&self) -> Vec<(Duration, String)> {
        lock(&self.asked).clone()
    }

    /// Waits for the first request that gets no answer.
    pub(crate) async fn over(&self) {
        self.is_over.notified().await;
    }

    async fn answer(&self, what: String) -> io::Result<Response<ScriptedBody>> {
        lock(&self.asked).push((self.start.elapsed(), what));
        let next = lock(&self.answers).next();
        let answer = Response::builder();
        let answer = match next {
            None => {
                self.is_over.notify_one();
                return std::future::pending().await;
            }
            Some(ScriptedReply::Silence) => return std::future::pending().await,
            Some(ScriptedReply::Lost(kind)) => return Err(kind.into()),
            Some(ScriptedReply::Body(text)) => answer.body(body(text, Duration::ZERO, false)),
            Some(ScriptedReply::Watch { begin, lasts, breaks }) => {
                answer.body(body(begin, lasts, breaks))
            }
            Some(ScriptedReply::Status(code, wait)) => {
                let mut answer = answer.status(code);
                if let Some(seconds) = wait {
                    answer = answer.header(RETRY_AFTER, seconds);
                }
                answer.body(body("", Duration::ZERO, false))
            }
        };
        answer.map_err(io::Error::other)
    }
}

fn body(begin: &'static str, lasts: Duration, breaks: bool) -> ScriptedBody {
    let begin: io::Result<Frame<Bytes>> = Ok(Frame::data(Bytes::from_static(begin.as_bytes())));
    let end = async move {
        tokio::time::sleep(lasts).await;
        breaks.then(|| Err(io::Error::from(io::ErrorKind::ConnectionReset)))
    };
    let end = stream::once(end).filter_map(std::future::ready);
    StreamBody::new(stream::iter([begin]).chain(end)).boxed_unsync()
}

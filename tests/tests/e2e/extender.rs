//! A program outside that schedulers ask, for scenarios that decide what it answers.

use std::cell::RefCell;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Where schedulers ask it.
pub(crate) struct Extender {
    listener: TcpListener,
    url: String,
    /// Connections of questions without an answer. They stay open as long as the extender is there: a scheduler that is
    /// killed because it waits for an answer must not learn before that there will be none.
    unanswered: RefCell<Vec<BufReader<TcpStream>>>,
}

impl Extender {
    /// Opens a port of its own.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let url = format!("http://{address}/extender");
        Self { listener, url, unanswered: RefCell::default() }
    }

    /// The configuration of a scheduler that asks it for `verbs`, fields of `extenders` such as `filterVerb`.
    pub(crate) fn config(&self, mut verbs: Value) -> Value {
        verbs["urlPrefix"] = self.url.clone().into();
        verbs["nodeCacheCapable"] = true.into();
        verbs["httpTimeout"] = "60s".into();
        json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "extenders": [verbs],
        })
    }

    /// Answers one question after the other. Where there is no answer, the scheduler waits until its time-out.
    pub(crate) async fn serve(
        &self,
        mut answer: impl AsyncFnMut(&str, &Value) -> Result<Option<Value>>,
    ) {
        while let Ok((stream, _)) = self.listener.accept().await {
            let mut stream = BufReader::new(stream);
            let served = async {
                let (verb, question) = read(&mut stream).await?;
                match answer(&verb, &question).await? {
                    Some(answer) => write(&mut stream, &answer).await.map(|()| true),
                    None => Ok(false),
                }
            };
            match served.await {
                Ok(true) => {}
                Ok(false) => self.unanswered.borrow_mut().push(stream),
                // A connection that was opened in advance may end without a request.
                Err(error) => eprintln!("the extender gets no request: {error:#}"),
            }
        }
    }
}

/// Which verb is asked for, and with what.
async fn read(stream: &mut BufReader<TcpStream>) -> Result<(String, Value)> {
    let mut first = String::new();
    stream.read_line(&mut first).await?;
    let verb = first.split(' ').nth(1).and_then(|path| path.rsplit('/').next());
    let verb = verb.context("a request line")?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((verb, serde_json::from_slice(&body)?))
}

async fn write(stream: &mut BufReader<TcpStream>, answer: &Value) -> Result<()> {
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}

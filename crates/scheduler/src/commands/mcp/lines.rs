//! Messages of the protocol, one a line, of limited length.
//!
//! The SDK's own transport drops what it cannot read. This one answers it with an error, as JSON-RPC has it, so that a client
//! does not wait for ever.
//!
//! Invariants: no line is kept beyond [`MAX_LINE`]; nothing is lost when reading is interrupted for another message.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use futures::{SinkExt, StreamExt};
use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec, LinesCodecError};

/// How long a message may be: some times a question, so that one that is a little too long can be answered by its number.
const MAX_LINE: usize = 1 << 20;
/// Of a message that is refused, how much of the reason is said.
const MAX_REASON: usize = 1000;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;

type Sink<W> = Arc<Mutex<Option<FramedWrite<W, LinesCodec>>>>;

/// A client at the other end of two streams.
pub(super) struct Lines<R, W> {
    read: FramedRead<R, LinesCodec>,
    write: Sink<W>,
    /// What has still to be said about a message that could not be read.
    refusal: Option<String>,
    /// Whether the stream of lines pauses: it ends once after each error, to go on after that.
    pauses: bool,
}

impl<R: AsyncRead, W: AsyncWrite> Lines<R, W> {
    pub(super) fn new((read, write): (R, W)) -> Self {
        let read = FramedRead::new(read, LinesCodec::new_with_max_length(MAX_LINE));
        let write = Arc::new(Mutex::new(Some(FramedWrite::new(write, LinesCodec::new()))));
        Self { read, write, refusal: None, pauses: false }
    }
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    /// Sends the refusal, if there is one. False once the client reads no more.
    async fn refuse(&mut self) -> bool {
        if self.refusal.is_none() {
            return true;
        }
        let mut write = self.write.lock().await;
        let Some(sink) = write.as_mut() else { return false };
        let ready = poll_fn(|cx| SinkExt::<String>::poll_ready_unpin(sink, cx)).await;
        // From here on the sink has it, also if sending it is interrupted.
        if ready.is_err()
            || self.refusal.take().is_some_and(|text| sink.start_send_unpin(text).is_err())
        {
            return false;
        }
        SinkExt::<String>::flush(sink).await.is_ok()
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let write = self.write.clone();
        async move {
            let text = serde_json::to_string(&message)?;
            let mut write = write.lock().await;
            let sink = write.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            sink.send(text).await.map_err(io::Error::other)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if !self.refuse().await {
                return None;
            }
            match self.read.next().await {
                Some(Ok(line)) if line.trim().is_empty() => {}
                Some(Ok(line)) => match serde_json::from_str(&line) {
                    Ok(message) => return Some(message),
                    Err(error) => self.refusal = Some(refusal(&line, &error)),
                },
                Some(Err(LinesCodecError::MaxLineLengthExceeded)) => {
                    self.pauses = true;
                    let reason = format!(
                        "the message is too long: at most {MAX_LINE} bytes are allowed on a line"
                    );
                    self.refusal = Some(error_message(&Value::Null, INVALID_REQUEST, &reason));
                }
                // Also text that is not UTF-8.
                Some(Err(LinesCodecError::Io(error)))
                    if error.kind() == io::ErrorKind::InvalidData =>
                {
                    self.pauses = true;
                    self.refusal =
                        Some(error_message(&Value::Null, PARSE_ERROR, &error.to_string()));
                }
                Some(Err(LinesCodecError::Io(_))) => return None,
                None if self.pauses => self.pauses = false,
                None => return None,
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        if let Some(mut sink) = self.write.lock().await.take() {
            SinkExt::<String>::flush(&mut sink).await.map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// What to answer to a message that is none of the protocol.
fn refusal(line: &str, error: &serde_json::Error) -> String {
    let Ok(message) = serde_json::from_str::<Value>(line) else {
        return error_message(
            &Value::Null,
            PARSE_ERROR,
            &format!("the message is no JSON: {error}"),
        );
    };
    let id = match &message["id"] {
        id @ (Value::String(_) | Value::Number(_)) => id,
        _ => &Value::Null,
    };
    let reason = format!("the message is no request and no notification of the protocol: {error}");
    error_message(id, INVALID_REQUEST, &reason)
}

fn error_message(id: &Value, code: i32, reason: &str) -> String {
    let reason: String = reason.chars().take(MAX_REASON).collect();
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": reason}}).to_string()
}

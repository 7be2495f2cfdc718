//! Response bodies: a whole text, a long list in chunks, or an open stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http_body::{Frame, SizeHint};

/// The connection is to be closed without a response, or in the middle of it.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("connection dropped on purpose")]
pub(crate) struct ConnectionDrop;

/// The body of a response.
pub(crate) enum Body {
    /// A text of known length; `None` once it has been sent.
    Whole(Option<Bytes>),
    /// Pieces that are encoded while the earlier ones are being sent.
    Chunks(Box<dyn Iterator<Item = Bytes> + Send>),
    /// A watch.
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, ConnectionDrop>> + Send>>),
    /// Another body, cut off.
    Cut {
        body: Box<Body>,
        /// How many bytes are still to be sent.
        left: u64,
        /// Whether there was a pause after the last of them.
        is_sent: bool,
    },
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    /// A stream that neither yields anything nor ends.
    pub(crate) fn silent() -> Self {
        Self::Stream(Box::pin(futures::stream::pending()))
    }

    /// The first `n_bytes` of this one; then the connection is closed.
    pub(crate) fn cut(self, n_bytes: u64) -> Self {
        Self::Cut { body: Box::new(self), left: n_bytes, is_sent: false }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = ConnectionDrop;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionDrop>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Chunks(chunks) => Poll::Ready(chunks.next().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => {
                stream.as_mut().poll_next(cx).map(|next| next.map(|chunk| chunk.map(Frame::data)))
            }
            Self::Cut { left: 0, is_sent: true, .. } => Poll::Ready(Some(Err(ConnectionDrop))),
            // What was written reaches the peer only if there is a pause before the error.
            Self::Cut { left: 0, is_sent, .. } => {
                *is_sent = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Self::Cut { body, left, .. } => {
                Pin::new(body.as_mut()).poll_frame(cx).map_ok(|frame| {
                    let mut data = frame.into_data().unwrap_or_default();
                    data.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= data.len() as u64;
                    Frame::data(data)
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Cut { body, left, .. } => *left > 0 && body.is_end_stream(),
            Self::Chunks(_) | Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            _ => SizeHint::default(),
        }
    }
}

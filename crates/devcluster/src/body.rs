//! Response bodies: a whole text, a long list in chunks, or an open stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http_body::{Frame, SizeHint};

/// The connection is to be closed without an answer, or without the rest of it.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("connection dropped on purpose")]
pub(crate) struct Dropped;

/// What is sent back.
pub(crate) enum Body {
    /// A text of known length.
    Whole(Option<Bytes>),
    /// Pieces that are made while they are sent.
    Chunks(Box<dyn Iterator<Item = Bytes> + Send>),
    /// A watch.
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, Dropped>> + Send>>),
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Dropped;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Dropped>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Chunks(chunks) => Poll::Ready(chunks.next().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => {
                stream.as_mut().poll_next(cx).map(|next| next.map(|chunk| chunk.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
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

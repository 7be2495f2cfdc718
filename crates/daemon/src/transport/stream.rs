//! A stream as a connector hands it to the client: with how it was made, and why it ended where that is said elsewhere.

use std::io::{Error, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

/// What ends with the reason why there is nothing to read any more, if there is one.
type Ending = Pin<Box<dyn Future<Output = Option<Error>> + Send>>;

/// A connected stream.
pub(crate) struct ConnectedStream<S> {
    stream: S,
    connected: fn(&S) -> Connected,
    /// Until it has ended.
    ending: Option<Ending>,
}

impl<S> ConnectedStream<S> {
    pub(super) const fn new(stream: S, connected: fn(&S) -> Connected) -> Self {
        Self { stream, connected, ending: None }
    }

    /// A stream whose end, which alone says nothing, is reported as the error that `ending` ends with.
    pub(super) fn with_ending(
        stream: S,
        ending: impl Future<Output = Option<Error>> + Send + 'static,
    ) -> Self {
        Self { stream, connected: |_| Connected::new(), ending: Some(Box::pin(ending)) }
    }

    fn poll_ending(&mut self, cx: &mut Context<'_>) -> Option<Error> {
        let Poll::Ready(error) = self.ending.as_mut()?.as_mut().poll(cx) else { return None };
        self.ending = None;
        error
    }
}

impl<S> Connection for ConnectedStream<S> {
    fn connected(&self) -> Connected {
        (self.connected)(&self.stream)
    }
}

impl<S: Read + Unpin> Read for ConnectedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        if let Some(error) = self.poll_ending(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: Write + Unpin> Write for ConnectedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }
}

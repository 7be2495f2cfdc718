//! Clients that speak HTTP without TLS, such as one that was given `http://` by mistake: they get the answer of servers in Go.
//!
//! Invariant: the first byte alone decides, and nothing is waited for after it.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What servers in Go answer, to the letter.
const ANSWER: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// How HTTP's methods begin. TLS begins with a byte that is no letter.
const METHODS: &[u8] = b"CDGHOPT";
/// How much of such a request is read: what is left unread at the end can cost the client the answer.
const MAX_REQUEST: usize = 4 << 10;

/// Waits for a client's first byte, and turns the client away if it is one of HTTP.
///
/// # Errors
/// If the client was turned away, or the connection fails.
pub(crate) async fn turn_away(stream: &mut TcpStream) -> io::Result<()> {
    let mut first = [0];
    let n = stream.peek(&mut first).await?;
    if n == 0 || !METHODS.contains(&first[0]) {
        return Ok(());
    }
    stream.read_buf(&mut Vec::with_capacity(MAX_REQUEST)).await?;
    stream.write_all(ANSWER).await?;
    stream.shutdown().await?;
    Err(io::Error::new(io::ErrorKind::InvalidData, "the client speaks HTTP without TLS"))
}

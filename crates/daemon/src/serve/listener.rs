//! Taking the port.
//!
//! Parity: an unspecified address of either family means all interfaces and both families, as in the reference, where
//! the machine has both.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};

use super::error::ServeError;
use super::options::ServingOptions;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1_024;
/// How long a peer may be silent before it is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(3 * 60);

/// Takes the port.
pub(crate) fn listen(options: &ServingOptions) -> Result<TcpListener, ServeError> {
    let address = options.address;
    let refused = |error: io::Error| ServeError::listen(address, &error);
    if !address.ip().is_unspecified() {
        return bind(address, options).map_err(refused);
    }
    let everywhere = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
    match bind(everywhere, options) {
        Ok(listener) => Ok(listener),
        // A machine without IPv6. A port in use is in use for both.
        Err(error) if error.kind() != io::ErrorKind::AddrInUse && address.is_ipv4() => {
            bind(address, options).map_err(refused)
        }
        Err(error) => Err(refused(error)),
    }
}

fn bind(address: SocketAddr, options: &ServingOptions) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // Go sets this on every listener, whatever the flag says: a restart must not wait for old connections to fade.
    socket.set_reuse_address(true)?;
    if options.permit_port_sharing {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

/// What every accepted connection gets.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream)
        .set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE))
}

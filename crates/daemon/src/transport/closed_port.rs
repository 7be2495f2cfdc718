//! For tests: a port at which no server listens. The integration tests of this crate include this file by its path.

use std::net::SocketAddr;

use socket2::{Domain, Socket, Type};

/// A port of this machine at which no server listens. As long as it is kept, no other process gets it by asking for any port; on
/// Linux a server that asks for this one does, so that a test can have one there later.
pub(crate) struct ClosedPort(Socket);

impl ClosedPort {
    pub(crate) fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }
}

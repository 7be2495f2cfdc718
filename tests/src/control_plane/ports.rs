//! Free ports for programs that need a port number and cannot choose one themselves.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::Result;
use tokio::net::TcpSocket;

/// A port of loopback for a server that shares addresses, as schedulers do. As long as it is kept, no other process gets it by
/// asking for any port; the server that asks for this one does.
#[derive(Debug)]
pub struct ReservedPort {
    _socket: TcpSocket,
    number: u16,
}

impl ReservedPort {
    /// Reserves one.
    ///
    /// # Errors
    /// If loopback has no free port.
    pub fn new() -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let number = socket.local_addr()?.port();
        Ok(Self { _socket: socket, number })
    }

    /// The number of the port.
    pub const fn number(&self) -> u16 {
        self.number
    }
}

/// Ports that were free a moment ago. Another program may take one first: the caller then retries with other ports.
///
/// # Errors
/// If loopback has no free port.
pub(super) fn free<const N: usize>() -> Result<[u16; N]> {
    // Held together, so that they differ.
    let mut held = Vec::new();
    for _ in 0..N {
        held.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
    }
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

//! Free ports for programs that need a port number and cannot choose one themselves.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::Result;

/// Ports that were free a moment ago. Another program may take one first: the caller then retries with other ports.
///
/// # Errors
/// If loopback has no free port.
pub fn free<const N: usize>() -> Result<[u16; N]> {
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

//! What the system knows about this process, under the names of Go's process collector.
//!
//! Parity: `go_*` has no counterpart: there is no Go runtime.

use std::fs;
use std::sync::Arc;

use super::catalog as desc;
use super::registry::{Family, Registry};

/// Clock ticks per second in `/proc`: 100 on every Linux there is, for the kernel converts to it.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(crate) struct Process {
    cpu: Arc<Family>,
    max_fds: Arc<Family>,
    open_fds: Arc<Family>,
    resident: Arc<Family>,
    virtual_size: Arc<Family>,
    virtual_max: Arc<Family>,
    start: Arc<Family>,
    received: Arc<Family>,
    sent: Arc<Family>,
}

impl Process {
    /// Registers what this system shows of a process.
    pub(crate) fn new(registry: &Registry) -> Self {
        Self {
            cpu: registry.register(desc::CPU_SECONDS),
            max_fds: registry.register(desc::MAX_FDS),
            open_fds: registry.register(desc::OPEN_FDS),
            resident: registry.register(desc::RESIDENT_BYTES),
            virtual_size: registry.register(desc::VIRTUAL_BYTES),
            virtual_max: registry.register(desc::VIRTUAL_MAX_BYTES),
            start: registry.register(desc::START_TIME),
            received: registry.register(desc::NETWORK_IN),
            sent: registry.register(desc::NETWORK_OUT),
        }
    }

    /// Brings everything up to date. What the system does not show stays as it was.
    pub(crate) fn refresh(&self, started_at: f64) {
        self.start.set(&[], started_at);
        let put = |family: &Family, value: Option<f64>| {
            if let Some(value) = value {
                family.set(&[], value);
            }
        };
        let stat = fs::read_to_string("/proc/self/stat").ok();
        put(&self.cpu, stat.as_deref().and_then(cpu_seconds));
        let status = fs::read_to_string("/proc/self/status").ok();
        let kib = |name| status.as_deref().and_then(|status| kib_of(status, name));
        put(&self.resident, kib("VmRSS:").map(|kib| (kib * 1024) as f64));
        put(&self.virtual_size, kib("VmSize:").map(|kib| (kib * 1024) as f64));
        put(&self.open_fds, fs::read_dir("/proc/self/fd").ok().map(|open| open.count() as f64));
        let limits = fs::read_to_string("/proc/self/limits").ok();
        let limit = |name| limits.as_deref().and_then(|limits| soft_limit(limits, name));
        put(&self.max_fds, limit("Max open files"));
        put(&self.virtual_max, limit("Max address space"));
        let network = fs::read_to_string("/proc/self/net/netstat").ok();
        let octets = |name| network.as_deref().and_then(|table| netstat(table, name));
        put(&self.received, octets("InOctets"));
        put(&self.sent, octets("OutOctets"));
    }
}

/// User and system time from `/proc/self/stat`. The name of the program comes before and may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

fn kib_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim_end().parse().ok()
}

/// A soft limit; one that does not exist is the largest number, as in Go's collector.
fn soft_limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        limit => limit.parse().ok(),
    }
}

/// A value of the table `IpExt`, whose names and values stand in two lines.
fn netstat(table: &str, name: &str) -> Option<f64> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|other| other == name)?;
    values.split_whitespace().nth(at)?.parse().ok()
}

/// The memory that this process holds, in bytes; `None` where the system does not show it.
pub fn resident_memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(kib_of(&status, "VmRSS:")? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_tells_is_read() {
        let stat = "42 (a) b (c) S 1 1 1 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 100 1 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("nonsense"), None);
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096                 files\nMax address space  unlimited  unlimited  bytes\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(soft_limit(limits, "Max address space"), Some(u64::MAX as f64));
        let table =
            "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 77 88\n";
        assert_eq!(
            (netstat(table, "InOctets"), netstat(table, "OutOctets")),
            (Some(77.0), Some(88.0))
        );
        assert_eq!(netstat("IpExt: InOctets\n", "InOctets"), None);
        assert_eq!(kib_of("VmPeak: 1 kB\nVmRSS:\t  12 kB\n", "VmRSS:"), Some(12));
    }
}

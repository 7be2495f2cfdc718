//! What the operating system reports about a process: CPU time and peak memory, from `/proc`.

use std::time::Duration;

/// Length of a clock tick in `/proc/PID/stat`. The kernel shows all times in units of USER_HZ, which is 100 on every
/// architecture that Kubernetes runs on, whatever its own timer runs at.
const TICK: Duration = Duration::from_millis(10);

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time of all its threads, to 10 ms.
    pub cpu: Duration,
    /// The physical memory that it holds.
    pub memory_bytes: u64,
    /// The most that it ever held.
    pub peak_memory_bytes: u64,
}

impl Usage {
    /// Of a process that runs; nothing once it was waited for, or where there is no `/proc`.
    pub fn of(process_id: u32) -> Option<Self> {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{process_id}/{file}")).ok();
        let status = read("status")?;
        Some(Self {
            cpu: cpu_time(&read("stat")?)?,
            memory_bytes: memory_bytes(&status, "VmRSS:").unwrap_or(0),
            peak_memory_bytes: memory_bytes(&status, "VmHWM:").unwrap_or(0),
        })
    }

    /// This, after `earlier`: of a process that has ended but was not waited for, memory is no longer reported.
    pub fn since(self, earlier: Self) -> Self {
        let peak_memory_bytes = self.peak_memory_bytes.max(earlier.peak_memory_bytes);
        Self { peak_memory_bytes, ..self }
    }

    /// CPU time of several processes together.
    pub fn cpu_of(process_ids: &[u32]) -> Duration {
        process_ids.iter().filter_map(|id| Self::of(*id)).map(|usage| usage.cpu).sum()
    }
}

/// Fields 14 and 15. The second field is the program's name in brackets, and may contain anything.
fn cpu_time(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    TICK.checked_mul(user.checked_add(system)?)
}

fn memory_bytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added_whatever_the_program_is_called() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 100 0 0 0 123 45 0 0 20 0 8 0 1 1 1";
        assert_eq!(cpu_time(stat), Some(Duration::from_millis(1680)));
        assert_eq!(cpu_time("42 (a) S 1"), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(memory_bytes(status, "VmHWM:"), Some(2 << 20));
        assert_eq!(memory_bytes(status, "VmRSS:"), Some(1 << 10));
        assert_eq!(memory_bytes("State:\tZ (zombie)\n", "VmRSS:"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_uses_memory() {
        assert!(Usage::of(std::process::id()).unwrap().peak_memory_bytes > 0);
    }
}

//! SIGINT and SIGTERM: the first one starts an orderly shutdown, the second one ends the process at once. SIGUSR2 dumps the
//! caches.

use std::io;

use kube_scheduler_daemon::DaemonHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a process.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Starts listening. From now on the signals do not end the process by themselves.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the first signal. After it, another one ends the process with exit code 1.
    pub(crate) async fn first(mut self) {
        self.next().await;
        tokio::spawn(async move {
            self.next().await;
            crate::logging::flush();
            std::process::exit(1);
        });
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Makes SIGUSR2 compare the caches and dump them to the log. Signals that arrive during a dump count as one.
pub(crate) fn on_debug_request(scheduler: DaemonHandle) -> io::Result<()> {
    let mut asked = signal(SignalKind::user_defined2())?;
    tokio::spawn(async move {
        while asked.recv().await.is_some() {
            scheduler.debug_caches().await;
        }
    });
    Ok(())
}

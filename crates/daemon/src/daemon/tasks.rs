//! The tasks and the thread of a running scheduler, each of which ends when its owner is dropped.

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::inbox::{Inbox, Notice};
use crate::serve::{SecurePort, SiteSources};

/// Ends the core thread.
#[derive(Debug)]
pub(super) struct QuitOnDrop(pub(super) Inbox);

impl Drop for QuitOnDrop {
    fn drop(&mut self) {
        // The send fails only when the core has ended, and then nothing has to be done.
        let _ = self.0.notify(Notice::Quit);
    }
}

/// The secure port, being served.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) task: AbortOnDrop,
    pub(super) stop: watch::Sender<bool>,
}

impl Server {
    pub(super) fn start(port: SecurePort, sources: SiteSources) -> Self {
        let (stop, stopped) = watch::channel(false);
        Self { task: AbortOnDrop(tokio::spawn(port.serve(sources, stopped))), stop }
    }
}

/// A task.
#[derive(Debug)]
pub(super) struct AbortOnDrop(pub(super) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

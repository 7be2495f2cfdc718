//! The permission to change the cluster, which runs out by itself.
//!
//! Invariants: a request passes a fence only before the moment the elector named last; nothing has to happen for it to
//! close, so an elector that hangs, or a process that was stopped and goes on later, closes it all the same; once given
//! up it never opens again.

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    /// Up to then; nothing yet if `None`.
    Until(Option<Instant>),
    /// Never again.
    GivenUp,
}

/// The side that decides.
#[derive(Debug)]
pub(crate) struct FenceKeeper(watch::Sender<Permission>);

/// The side that asks.
#[derive(Clone, Debug)]
pub(crate) struct Fence(watch::Receiver<Permission>);

/// Leadership is gone for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this scheduler does not lead any more")]
pub(crate) struct LeadershipOver;

/// A fence that is closed.
pub(crate) fn closed() -> (FenceKeeper, Fence) {
    let (keeper, fence) = watch::channel(Permission::Until(None));
    (FenceKeeper(keeper), Fence(fence))
}

impl FenceKeeper {
    /// Open up to this moment; closed if there is none.
    pub(crate) fn open_until(&self, until: Option<Instant>) {
        self.0.send_if_modified(|permission| {
            let next = Permission::Until(until);
            let changes = *permission != Permission::GivenUp && *permission != next;
            if changes {
                *permission = next;
            }
            changes
        });
    }

    /// Closed for good.
    pub(crate) fn give_up(&self) {
        self.0.send_replace(Permission::GivenUp);
    }
}

impl Fence {
    /// Waits until it is open.
    pub(crate) async fn opened(&self) -> Result<(), LeadershipOver> {
        let mut permission = self.0.clone();
        let is_settled = |permission: &Permission| match permission {
            Permission::Until(until) => until.is_some_and(|until| Instant::now() < until),
            Permission::GivenUp => true,
        };
        match permission.wait_for(is_settled).await.map(|permission| *permission) {
            Ok(Permission::Until(_)) => Ok(()),
            // A keeper that vanished opens nothing any more.
            Ok(Permission::GivenUp) | Err(_) => Err(LeadershipOver),
        }
    }

    /// Waits until it is closed.
    pub(crate) async fn closed(&self) {
        let mut permission = self.0.clone();
        loop {
            let Permission::Until(Some(until)) = *permission.borrow_and_update() else { return };
            tokio::select! {
                () = sleep_until(until) => return,
                changed = permission.changed() => if changed.is_err() { return },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn it_closes_by_itself_and_opens_again_when_renewed() {
        let (keeper, fence) = closed();
        assert_eq!(fence.opened().now_or_never(), None);
        assert_eq!(fence.closed().now_or_never(), Some(()));
        let start = Instant::now();
        keeper.open_until(Some(start + Duration::from_secs(600)));
        assert_eq!(fence.opened().now_or_never(), Some(Ok(())));
        assert_eq!(fence.closed().now_or_never(), None);
        let soon = Instant::now() + Duration::from_millis(20);
        keeper.open_until(Some(soon));
        fence.closed().await;
        assert!(Instant::now() >= soon);
        assert_eq!(fence.opened().now_or_never(), None);
        keeper.open_until(Some(start + Duration::from_secs(600)));
        assert_eq!(fence.opened().now_or_never(), Some(Ok(())));
    }

    #[tokio::test]
    async fn given_up_is_given_up() {
        let (keeper, fence) = closed();
        keeper.give_up();
        keeper.open_until(Some(Instant::now() + Duration::from_secs(10)));
        assert_eq!(fence.opened().await, Err(LeadershipOver));
        fence.closed().await;
        let (keeper, fence) = closed();
        drop(keeper);
        assert_eq!(fence.opened().await, Err(LeadershipOver));
    }
}

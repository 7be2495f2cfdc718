//! The permission to change the cluster, which runs out by itself.
//!
//! Invariants: a request passes a fence only before the moment the elector named last; nothing has to happen for it to
//! close, so an elector that hangs, or a process that was stopped and goes on later, closes it nevertheless; once given
//! up it never opens again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_api_types::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;

/// How long a timer may sleep before the clock is looked at again: timers stand still while the machine is suspended, and
/// the clock does not.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    /// Up to then; nothing yet if `None`.
    Until(Option<Timestamp>),
    /// Never again.
    GivenUp,
}

/// The side that decides.
#[derive(Debug)]
pub(crate) struct FenceKeeper(watch::Sender<Permission>);

/// The side that asks.
#[derive(Clone)]
pub(crate) struct Fence {
    permission: watch::Receiver<Permission>,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fence({:?})", *self.permission.borrow())
    }
}

/// Leadership is gone for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this scheduler does not lead any more")]
pub(crate) struct LeadershipOver;

/// A fence that is closed. `now` must be the clock that the keeper goes by, and go on while the machine is suspended.
pub(crate) fn closed(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> (FenceKeeper, Fence) {
    let (keeper, permission) = watch::channel(Permission::Until(None));
    (FenceKeeper(keeper), Fence { permission, now: Arc::new(now) })
}

impl FenceKeeper {
    /// Open up to this moment; closed if there is none.
    pub(crate) fn open_until(&self, until: Option<Timestamp>) {
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
        let mut permission = self.permission.clone();
        let is_settled = |permission: &Permission| match permission {
            Permission::Until(until) => until.is_some_and(|until| (self.now)() < until),
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
        let mut permission = self.permission.clone();
        loop {
            let Permission::Until(Some(until)) = *permission.borrow_and_update() else { return };
            let left = until.saturating_since((self.now)());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = sleep(left.min(LOOK_AGAIN)) => {}
                changed = permission.changed() => if changed.is_err() { return },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::FutureExt;

    use super::*;

    /// A fence whose clock is set by hand, in seconds.
    fn by_hand() -> (FenceKeeper, Fence, Arc<AtomicU64>) {
        let clock = Arc::new(AtomicU64::new(0));
        let read = clock.clone();
        let (keeper, fence) = closed(move || at(read.load(Ordering::Relaxed)));
        (keeper, fence, clock)
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH + Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn it_closes_by_itself_and_opens_again_when_renewed() {
        let (keeper, fence, clock) = by_hand();
        assert_eq!(fence.opened().now_or_never(), None);
        assert_eq!(fence.closed().now_or_never(), Some(()));
        keeper.open_until(Some(at(10)));
        assert_eq!(fence.opened().now_or_never(), Some(Ok(())));
        assert_eq!(fence.closed().now_or_never(), None);
        clock.store(10, Ordering::Relaxed);
        assert_eq!(fence.closed().now_or_never(), Some(()));
        assert_eq!(fence.opened().now_or_never(), None);
        keeper.open_until(Some(at(11)));
        assert_eq!(fence.opened().now_or_never(), Some(Ok(())));
    }

    #[tokio::test]
    async fn a_suspended_machine_finds_it_closed() {
        let (keeper, fence, clock) = by_hand();
        keeper.open_until(Some(at(600)));
        let mut under_way = std::pin::pin!(fence.closed());
        assert_eq!(under_way.as_mut().now_or_never(), None);
        // The machine sleeps for an hour, and no timer of the process notices.
        clock.store(3_600, Ordering::Relaxed);
        assert_eq!(fence.opened().now_or_never(), None, "nothing new is sent");
        tokio::time::timeout(Duration::from_secs(60), under_way)
            .await
            .expect("what is under way is cut off as soon as the clock is looked at");
    }

    #[tokio::test]
    async fn given_up_is_given_up() {
        let (keeper, fence, _) = by_hand();
        keeper.give_up();
        keeper.open_until(Some(at(10)));
        assert_eq!(fence.opened().await, Err(LeadershipOver));
        fence.closed().await;
        let (keeper, fence, _) = by_hand();
        drop(keeper);
        assert_eq!(fence.opened().await, Err(LeadershipOver));
    }
}

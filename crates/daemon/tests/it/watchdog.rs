//! A core that hangs is not taken for one that works.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use kube_scheduler_api_types::Pod;
use kube_scheduler_daemon::{Daemon, Endpoint, RunError};
use kube_scheduler_framework::{
    Context, CycleState, Filter, NodeView, Plugin, Status, extension_points,
};
use kube_scheduler_plugins_intree::registry;
use kube_scheduler_runtime::Registry;

use crate::cluster::{cluster, n_bound, pod, until, until_bound};
use crate::https::{Client, options};
use crate::leader::{Contender, election, holder};

/// Far longer than any of the steps here takes, on a machine that is busy with other tests too.
const TIMEOUT: Duration = Duration::from_secs(10);

/// In place of NodeName: gets stuck over every pod until the latch is opened.
struct Stuck(Latch);

#[derive(Clone, Default)]
struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

impl Plugin for Stuck {
    fn name(&self) -> &str {
        "NodeName"
    }

    extension_points!(Filter);
}

impl Filter for Stuck {
    fn filter(&self, _: &Context<'_>, _: &CycleState, _: &Pod, _: &NodeView<'_>) -> Status {
        let (is_open, opened) = &*self.0.0;
        drop(opened.wait_while(is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
        Status::SUCCESS
    }
}

fn stuck(latch: &Latch) -> Registry {
    let mut registry = registry();
    let latch = latch.clone();
    registry.replace("NodeName", move |_, _| Ok(Arc::new(Stuck(latch.clone())))).unwrap();
    registry
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_hangs_is_replaced() {
    let cluster = cluster(3).await;
    let latch = Latch::default();
    let contender = |registry, identity| {
        Daemon::builder(Endpoint::from_url(&cluster.url()).unwrap(), registry)
            .leader_election(Some(election(identity)))
            .hang_timeout(TIMEOUT)
    };
    let first = Contender::run(contender(stuck(&latch), "first").start().await.unwrap());
    first.until_leading().await;
    let second = Contender::run(contender(registry(), "second").start().await.unwrap());
    assert!(second.handle.synced().await);
    cluster.create(pod("p")).unwrap();
    let error = first.task.await.unwrap().unwrap_err();
    assert!(matches!(error, RunError::LeaseLost), "{error}");
    until_bound(&cluster, 1).await;
    assert_eq!(holder(&cluster), "second");
    latch.open();
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_shows_a_hang_and_its_end() {
    let cluster = cluster(3).await;
    let latch = Latch::default();
    let builder = Daemon::builder(Endpoint::from_url(&cluster.url()).unwrap(), stuck(&latch))
        .serving(Some(options()))
        .hang_timeout(TIMEOUT);
    let running = Contender::run(builder.start().await.unwrap());
    let client = Client::new(running.handle.address().unwrap());
    assert!(running.handle.synced().await);
    assert_eq!(client.get("/livez").await.body, "ok");
    cluster.create(pod("p")).unwrap();
    let until_livez = async |code| {
        let mut answer = client.get("/livez").await;
        while answer.code != code {
            tokio::time::sleep(Duration::from_millis(5)).await;
            answer = client.get("/livez").await;
        }
        answer
    };
    let failed = tokio::time::timeout(Duration::from_secs(60), until_livez(500)).await.unwrap();
    assert!(failed.body.contains("[-]ping failed: reason withheld"), "{failed:?}");
    assert_eq!(n_bound(&cluster), 0);
    latch.open();
    tokio::time::timeout(Duration::from_secs(60), until_livez(200)).await.unwrap();
    until("it goes on", || n_bound(&cluster) == 1).await;
    running.stop().await;
}

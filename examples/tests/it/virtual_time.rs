//! The gang scheduler as a whole, in virtual time: what would take minutes in a cluster.

use std::time::Duration;

use kube_scheduler_examples::gang;
use kube_scheduler_framework::testing::{PodBuilder, node, pod};
use kube_scheduler_rs::SchedulerBuilder;
use kube_scheduler_rs::testing::TestScheduler;

const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled:
      - name: Gang
  pluginConfig:
  - name: Gang
    args:
      timeoutSeconds: 300
";

fn scheduler() -> TestScheduler {
    let builder = SchedulerBuilder::new().with_plugin(gang::NAME, gang::new);
    TestScheduler::new(builder, CONFIG).unwrap()
}

fn member(n: usize, size: usize) -> PodBuilder {
    pod(&format!("m{n}"))
        .label("example.com/gang", "crew")
        .label("example.com/gang-size", &size.to_string())
        .request("cpu", "1")
}

fn n_placed(scheduler: &TestScheduler, n: usize) -> usize {
    (0..n).filter(|n| scheduler.node_of(&format!("default/m{n}")).is_some()).count()
}

#[test]
fn members_wait_for_room_and_start_together() {
    let mut scheduler = scheduler();
    scheduler.add_node(node("small").allocatable("cpu", "2"));
    (0..3).for_each(|n| scheduler.add_pod(member(n, 3)));
    scheduler.run();
    assert_eq!(n_placed(&scheduler, 3), 0);
    scheduler.advance(Duration::from_secs(60));
    assert_eq!(n_placed(&scheduler, 3), 0, "two have room, and wait for the third");
    scheduler.add_node(node("more").allocatable("cpu", "1"));
    scheduler.advance(Duration::from_secs(20));
    assert_eq!(n_placed(&scheduler, 3), 3);
}

#[test]
fn all_give_up_together_and_leave_room_for_others() {
    let mut scheduler = scheduler();
    scheduler.add_node(node("small").allocatable("cpu", "2"));
    (0..3).for_each(|n| scheduler.add_pod(member(n, 3)));
    scheduler.run();
    scheduler.add_pod(pod("single").request("cpu", "2").priority(-1));
    scheduler.advance(Duration::from_secs(299));
    assert_eq!(scheduler.node_of("default/single"), None, "the gang holds its places");
    scheduler.delete_pod("default/m2");
    scheduler.advance(Duration::from_secs(30));
    assert_eq!(n_placed(&scheduler, 2), 0);
    assert_eq!(scheduler.node_of("default/single").as_deref(), Some("small"));
    let reported = |name: &str, part: &str| {
        scheduler.events(&format!("default/{name}")).iter().any(|event| event.contains(part))
    };
    let timeout = "rejected due to timeout after waiting 5m0s at plugin Gang";
    assert!(["m0", "m1"].iter().any(|name| reported(name, timeout)));
    assert!(["m0", "m1"].iter().any(|name| reported(name, "gang crew is incomplete")));
}

#[test]
fn a_large_gang_comes_and_goes() {
    const N: usize = 500;
    let mut scheduler = scheduler();
    scheduler.add_node(node("huge").allocatable("cpu", "499").allocatable("pods", "1000"));
    (0..N).for_each(|n| scheduler.add_pod(member(n, N)));
    scheduler.run();
    scheduler.delete_pod("default/m7");
    scheduler.advance(Duration::from_secs(400));
    assert_eq!(n_placed(&scheduler, N), 0);
    scheduler.add_node(node("spare").allocatable("cpu", "1"));
    scheduler.add_pod(member(7, N));
    scheduler.advance(Duration::from_secs(60));
    assert_eq!(n_placed(&scheduler, N), N);
}

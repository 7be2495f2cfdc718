//! The outbox against scripted answers of a server: order, retries and pace.

use std::collections::{BTreeMap, BTreeSet};

use kube_scheduler_engine::{PodRef, StatusPatch, Token};
use proptest::prelude::*;

use super::*;

const QUICK: Duration = Duration::from_millis(2);

fn pod(name: &str) -> PodRef {
    PodRef { namespace: "x".into(), name: name.into(), uid: name.into() }
}

fn bind(token: u64, name: &str) -> Effect {
    Effect::WriteBinding { token: Token(token), pod: pod(name), node: "n".into() }
}

fn patch(name: &str, node: &str) -> Effect {
    nomination(name, node, false)
}

fn nomination(name: &str, node: &str, is_announcement: bool) -> Effect {
    let patch = StatusPatch {
        condition: None,
        nominated_node_name: Some(Some(node.into())),
        has_conditions: false,
    };
    Effect::PatchStatus { pod: pod(name), patch, is_announcement }
}

fn event(name: &str) -> Effect {
    Effect::RecordEvent {
        pod: pod(name),
        resource_version: "7".into(),
        related: None,
        kind: EventKind::Warning,
        reason: "FailedScheduling".into(),
        action: "Scheduling".into(),
        note: "no room".into(),
        reporting: "default-scheduler".into(),
    }
}

fn outbox(width: usize) -> Outbox {
    Outbox::new(OutboxOptions { width, ..OutboxOptions::default() }, Timestamp::EPOCH)
}

fn push(outbox: &mut Outbox, effect: Effect) {
    push_at(outbox, effect, Timestamp::EPOCH);
}

fn push_at(outbox: &mut Outbox, effect: Effect, now: Timestamp) {
    assert!(outbox.push(effect, now).is_none());
}

fn all_requests(outbox: &mut Outbox, now: Timestamp) -> Vec<Write> {
    std::iter::from_fn(|| outbox.next_request(now)).map(|request| request.write).collect()
}

fn pod_write(outbox: &mut Outbox, now: Timestamp) -> PodWrite {
    match outbox.next_request(now).map(|request| request.write) {
        Some(Write::Pod(write)) => write,
        other => panic!("{other:?}"),
    }
}

fn refused(code: u16, retry_after: Option<Duration>) -> Failure {
    Failure { cause: Cause::Status(code), reason: "".into(), message: "no".into(), retry_after }
}

#[test]
fn classes_go_in_order_and_none_is_starved() {
    let mut outbox = outbox(8);
    outbox.set_event_api(EventApi::Modern);
    for i in 0..20 {
        push(&mut outbox, event(&format!("e{i}")));
        push(&mut outbox, patch(&format!("p{i}"), "n"));
        push(&mut outbox, bind(i, &format!("b{i}")));
    }
    let requests = all_requests(&mut outbox, Timestamp::EPOCH);
    let classes: String = requests
        .iter()
        .map(|write| match write {
            Write::Pod(PodWrite::Bind { .. }) => 'b',
            Write::Pod(_) => 'p',
            Write::Event(_) => 'e',
        })
        .collect();
    assert_eq!(classes, "bbbbbbbbpe", "the width goes to bindings; the others get one each");
    let load = outbox.load();
    assert_eq!((load.bindings.waiting, load.bindings.under_way, load.width), (12, 8, 8));
    assert_eq!((load.events.waiting, load.conditions.under_way), (19, 1));
}

#[test]
fn events_wait_until_their_api_is_known() {
    let mut outbox = outbox(8);
    push(&mut outbox, event("e"));
    assert!(outbox.next_request(Timestamp::EPOCH).is_none());
    outbox.set_event_api(EventApi::Core);
    let requests = all_requests(&mut outbox, Timestamp::EPOCH);
    assert!(matches!(&*requests, [Write::Event(EventRequest { core: Some(_), .. })]));
}

#[test]
fn what_is_no_write_comes_back() {
    let effect = Effect::CancelWork { token: Token(1) };
    let back = outbox(8).push(effect, Timestamp::EPOCH);
    assert!(matches!(back, Some(Effect::CancelWork { token: Token(1) })));
}

#[test]
fn a_fixed_rate_holds_back_and_says_how_long() {
    let rate = Some(RateLimit { qps: 10.0, burst: 1 });
    let start = Timestamp::EPOCH;
    let mut outbox = Outbox::new(OutboxOptions { rate, ..OutboxOptions::default() }, start);
    push(&mut outbox, bind(1, "a"));
    push(&mut outbox, bind(2, "b"));
    assert_eq!(outbox.next_request(start).map(|request| request.waited), Some(Duration::ZERO));
    assert!(outbox.next_request(start).is_none());
    let next = outbox.next_deadline().unwrap();
    assert!(next.saturating_since(start).as_millis().abs_diff(100) <= 1);
    let waited = outbox.next_request(next).map(|request| request.waited);
    assert_eq!(waited, Some(next.saturating_since(start)));
}

#[test]
fn a_write_that_the_server_wants_later_is_not_over() {
    let start = Timestamp::EPOCH;
    let second = Duration::from_secs(1);
    let options = OutboxOptions { max_deferrals: 1, ..OutboxOptions::default() };
    let mut outbox = Outbox::new(options, start);
    push(&mut outbox, bind(1, "a"));
    let write = pod_write(&mut outbox, start);
    let answer = Err(refused(429, Some(second)));
    assert!(outbox.finish_pod_write(write, answer.clone(), QUICK, start).is_none());
    assert!(outbox.next_request(start).is_none());
    assert_eq!(outbox.next_deadline(), Some(start + second));
    let write = pod_write(&mut outbox, start + second);
    let ended = outbox.finish_pod_write(write, answer, QUICK, start + second).unwrap();
    let input = ended.into_input().unwrap();
    assert!(
        matches!(input, Input::BindingWritten { result: Err(error), .. } if *error.message == *"no")
    );
    assert!(!outbox.has_pod_writes());
}

#[test]
fn a_failed_write_does_not_bring_its_pod_to_the_front() {
    for (is_failed, first) in [(true, 1), (false, 2)] {
        let mut outbox = outbox(4);
        let key = kube_scheduler_framework::ObjectKey {
            group: "resource.k8s.io".into(),
            kind: "ResourceClaim".into(),
            namespace: "x".into(),
            name: "c".into(),
        };
        let write =
            PodWrite::Object { token: Some(Token(9)), pod: pod("a"), write: ObjectWrite::Get(key) };
        outbox.lanes.push(write, Timestamp::EPOCH);
        let write = pod_write(&mut outbox, Timestamp::EPOCH);
        let result = if is_failed { Err(refused(409, None)) } else { Ok(Success::Done) };
        assert!(outbox.finish_pod_write(write, result, QUICK, Timestamp::EPOCH).is_some());
        push(&mut outbox, bind(1, "plain"));
        push(&mut outbox, bind(2, "a"));
        let next = pod_write(&mut outbox, Timestamp::EPOCH);
        assert!(matches!(next, PodWrite::Bind { token: Token(token), .. } if token == first));
    }
}

#[test]
fn evictions_say_whether_the_pod_was_gone() {
    for (success, expected) in [
        (Success::AlreadyGone, EvictionOutcome::AlreadyGone),
        (Success::Done, EvictionOutcome::Deleted),
    ] {
        let write = PodWrite::Evict { token: Token(1), pod: pod("a"), patch: None };
        let input = EndedWrite { write, result: Ok(success) }.into_input();
        assert!(matches!(input, Some(Input::PodEvicted { result: Ok(is), .. }) if is == expected));
    }
}

/// One thing that happens to an outbox.
#[derive(Clone, Debug)]
enum Step {
    Bind(usize),
    Patch(usize),
    /// A binding sets off.
    Announce(usize),
    /// It reads an object.
    Object(usize),
    /// It fails.
    Event(usize),
    /// One of the requests under way ends, in one of several ways.
    Answer(usize, u8),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let pod = 0_usize..5;
    prop_oneof![
        pod.clone().prop_map(Step::Bind),
        pod.clone().prop_map(Step::Patch),
        pod.clone().prop_map(Step::Announce),
        pod.clone().prop_map(Step::Object),
        pod.prop_map(Step::Event),
        (0_usize..64, 0_u8..6).prop_map(|(at, how)| Step::Answer(at, how)),
        (0_u64..2_000).prop_map(Step::Pass),
    ]
}

fn read(name: &str) -> Effect {
    let key = kube_scheduler_framework::ObjectKey {
        group: "resource.k8s.io".into(),
        kind: "ResourceClaim".into(),
        namespace: "x".into(),
        name: name.into(),
    };
    let awaited_by = Some((Token(0), kube_scheduler_framework::PluginName::from("P")));
    Effect::WriteObject { pod: pod(name), write: ObjectWrite::Get(key), awaited_by }
}

/// What the announcements that may still be written say, by pod.
type Announced = BTreeMap<Arc<str>, Arc<str>>;

/// Sends what may go out, and checks that no pod has two requests under way, that bindings keep their order, and that only those
/// are announced that are on their way.
fn send_all(
    outbox: &mut Outbox,
    now: Timestamp,
    under_way: &mut Vec<Write>,
    last_token: &mut BTreeMap<Arc<str>, u64>,
    announced: &Announced,
) {
    while let Some(request) = outbox.next_request(now) {
        if let Write::Pod(write) = &request.write {
            let is_same =
                |other: &Write| matches!(other, Write::Pod(other) if other.pod() == write.pod());
            assert!(!under_way.iter().any(is_same), "two writes of pod {} at once", write.pod());
            if let PodWrite::Bind { token, pod, .. } = write {
                let last = last_token.entry(pod.uid.clone()).or_default();
                assert!(token.0 >= *last, "binding {} after {last}", token.0);
                *last = token.0;
            }
            if let PodWrite::Patch { pod, patch, is_announcement: true } = write {
                let node = patch.nominated_node_name.as_ref().and_then(Option::as_ref);
                assert_eq!(announced.get(&pod.uid), node, "pod {pod}");
            }
        }
        under_way.push(request.write);
    }
    if let Some(deadline) = outbox.next_deadline() {
        assert!(deadline > now, "nothing may go out at {now}, yet the deadline is {deadline}");
    }
}

fn answer(outbox: &mut Outbox, write: Write, how: u8, now: Timestamp) -> Option<Input> {
    let pause = Duration::from_millis(500);
    match write {
        Write::Event(request) => {
            let answer = match how {
                0 => EventAnswer::Unreachable,
                1 => EventAnswer::RetryAfter(pause),
                _ => EventAnswer::Done,
            };
            // A dropped event is counted by the outbox.
            let _ = outbox.finish_event(request, answer, QUICK, now);
            None
        }
        Write::Pod(write) => {
            let result = match how {
                0 => Err(refused(409, None)),
                1 => Err(refused(429, Some(pause))),
                2 => Err(Failure { cause: Cause::Timeout, ..refused(0, None) }),
                _ => Ok(Success::Done),
            };
            outbox.finish_pod_write(write, result, QUICK, now)?.into_input()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the server answers: one request per pod at a time, in order, one input per binding, and nothing left.
    #[test]
    fn every_binding_ends_in_one_input(
        steps in proptest::collection::vec(step(), 1..200),
        is_limited in any::<bool>(),
        width in 4_usize..16,
    ) {
        let mut now = Timestamp::EPOCH;
        let rate = is_limited.then_some(RateLimit { qps: 50.0, burst: 2 });
        let mut outbox = Outbox::new(OutboxOptions { width, rate, ..OutboxOptions::default() }, now);
        outbox.set_event_api(EventApi::Modern);
        let (mut under_way, mut last_token) = (Vec::new(), BTreeMap::new());
        let (mut n_bindings, mut ended) = (0, BTreeSet::new());
        let (mut announced, mut n_announced) = (Announced::new(), 0);
        let mut note = |input: Option<Input>| match input {
            Some(Input::BindingWritten { token, .. }) => assert!(ended.insert(token.0)),
            Some(Input::ObjectWritten { .. }) | None => {}
            Some(other) => panic!("{other:?}"),
        };
        for step in steps {
            if let Step::Bind(at) | Step::Patch(at) | Step::Event(at) = step {
                announced.remove(&*at.to_string());
            }
            match step {
                Step::Announce(at) => {
                    n_announced += 1;
                    let node = format!("n{n_announced}");
                    announced.insert(at.to_string().into(), node.as_str().into());
                    push_at(&mut outbox, nomination(&at.to_string(), &node, true), now);
                }
                Step::Object(at) => push_at(&mut outbox, read(&at.to_string()), now),
                Step::Bind(at) => {
                    n_bindings += 1;
                    push_at(&mut outbox, bind(n_bindings, &at.to_string()), now);
                }
                Step::Patch(at) => push_at(&mut outbox, patch(&at.to_string(), "n"), now),
                Step::Event(at) => push_at(&mut outbox, event(&at.to_string()), now),
                Step::Answer(at, how) if !under_way.is_empty() => {
                    let write = under_way.swap_remove(at % under_way.len());
                    note(answer(&mut outbox, write, how, now));
                }
                Step::Answer(..) => {}
                Step::Pass(millis) => now = now + Duration::from_millis(millis),
            }
            send_all(&mut outbox, now, &mut under_way, &mut last_token, &announced);
        }
        while outbox.has_pod_writes() || outbox.has_events() {
            while let Some(write) = under_way.pop() {
                note(answer(&mut outbox, write, 5, now));
            }
            now = outbox.next_deadline().map_or(now, |deadline| now.max(deadline));
            send_all(&mut outbox, now, &mut under_way, &mut last_token, &announced);
        }
        prop_assert_eq!(ended.len() as u64, n_bindings);
    }
}

//! Events as API calls: `events.k8s.io/v1`, or `v1` where the server does not serve that.

use std::time::Duration;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_writes::{
    CoreEvent, EventAnswer, EventApi, EventKey, EventRequest, EventSeries, EventWrite,
};
use serde_json::{Value, json};

use crate::backoff::Backoff;
use crate::clock::to_micro_time;
use crate::transport::envelope::Message;
use crate::transport::{Api, ApiError, Call, Encoding};

const MODERN: &str = "/apis/events.k8s.io/v1";

/// Finds out which API events are written to. A server that does not answer at the moment is asked again.
///
/// Parity: the reference asks once, and a failure means the old form for as long as it lives.
pub(super) async fn find_event_api(api: &Api, timeout: Duration) -> EventApi {
    let mut backoff =
        Backoff::new(Duration::from_millis(100), Duration::from_secs(10), Duration::MAX);
    loop {
        let (answer, _) = api.call_patiently(&Call::get(MODERN).timeout(timeout)).await;
        match answer {
            Ok(_) => return EventApi::Modern,
            Err(error) if error.code().is_some_and(|code| code < 500) => {
                tracing::warn!(%error, "The server does not serve events.k8s.io/v1; events are written to v1");
                return EventApi::Core;
            }
            Err(_) => tokio::time::sleep(backoff.fail(std::time::Instant::now())).await,
        }
    }
}

/// Writes one event.
pub(super) async fn send(
    api: &Api,
    request: &EventRequest,
    hostname: &str,
    timeout: Duration,
) -> EventAnswer {
    match &request.core {
        Some(event) => write_core(api, event, timeout).await,
        None => write_modern(api, &request.event, hostname, timeout).await,
    }
}

async fn write_modern(
    api: &Api,
    write: &EventWrite,
    hostname: &str,
    timeout: Duration,
) -> EventAnswer {
    let path = format!("{MODERN}/namespaces/{}/events", write.key.pod.namespace);
    let create = |encoding: Encoding| {
        let body = match encoding {
            Encoding::Json => modern(write, hostname).to_string().into_bytes(),
            Encoding::Protobuf => modern_message(write, hostname),
        };
        Call::post(&*path, body).written_in(encoding).timeout(timeout)
    };
    let mut answer = match write.series {
        Some(occurrences) => {
            let body = json!({"series": series(occurrences)}).to_string().into_bytes();
            api.call(&Call::patch(format!("{path}/{}", write.name), body).timeout(timeout)).await
        }
        None => api.write(create).await,
    };
    // The event has expired meanwhile, or was never written.
    if write.series.is_some() && answer.as_ref().err().and_then(ApiError::code) == Some(404) {
        answer = api.write(create).await;
    }
    // Its first time is being written at this moment: the next try will find it.
    if write.series.is_some() && answer.as_ref().err().and_then(ApiError::code) == Some(409) {
        return EventAnswer::Unreachable;
    }
    judged(answer.map(drop), &write.name)
}

async fn write_core(api: &Api, event: &CoreEvent, timeout: Duration) -> EventAnswer {
    let path = format!("/api/v1/namespaces/{}/events", event.key.pod.namespace);
    let create = || Call::post(&path, classic(event).to_string().into_bytes()).timeout(timeout);
    let mut answer = if event.count > 1 {
        let body = json!({
            "count": event.count,
            "lastTimestamp": event.last.floor_to_second().to_string(),
            "message": &*event.message,
        });
        let body = body.to_string().into_bytes();
        api.call(&Call::patch(format!("{path}/{}", event.name), body).timeout(timeout)).await
    } else {
        api.call(&create()).await
    };
    if event.count > 1 && answer.as_ref().err().and_then(ApiError::code) == Some(404) {
        answer = api.call(&create()).await;
    }
    judged(answer.map(drop), &event.name)
}

fn judged(answer: Result<(), ApiError>, name: &str) -> EventAnswer {
    let Err(error) = answer else { return EventAnswer::Done };
    if let Some(pause) = error.retry_after() {
        return EventAnswer::RetryAfter(pause);
    }
    // Without an answer the write may be retried; a refusal would be the same the next time.
    match error.code() {
        None => {
            tracing::warn!(event = name, %error, "Unable to write event (may retry after sleeping)");
            EventAnswer::Unreachable
        }
        Some(409) => {
            tracing::debug!(event = name, %error, "Server rejected event (will not retry!)");
            EventAnswer::Done
        }
        Some(_) => {
            tracing::error!(event = name, %error, "Server rejected event (will not retry!)");
            EventAnswer::Done
        }
    }
}

fn series(occurrences: EventSeries) -> Value {
    json!({"count": occurrences.count, "lastObservedTime": to_micro_time(occurrences.last)})
}

fn reference(key: &EventKey) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": &*key.pod.namespace,
        "name": &*key.pod.name,
        "uid": &*key.pod.uid,
        "resourceVersion": &*key.resource_version,
    })
}

fn modern(write: &EventWrite, hostname: &str) -> Value {
    let key = &write.key;
    let mut body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": &*write.name, "namespace": &*key.pod.namespace},
        "eventTime": to_micro_time(write.time),
        "reportingController": &*key.reporting,
        "reportingInstance": format!("{}-{hostname}", key.reporting),
        "type": key.type_name(),
        "reason": &*key.reason,
        "action": &*key.action,
        "note": &*write.note,
        "regarding": reference(key),
    });
    if let Some(related) = &key.related {
        body["related"] = json!({
            "apiVersion": &*related.api_version,
            "kind": &*related.kind,
            "namespace": &*related.namespace,
            "name": &*related.name,
            "uid": &*related.uid,
            "resourceVersion": &*related.resource_version,
        });
    }
    if let Some(occurrences) = write.series {
        body["series"] = series(occurrences);
    }
    body
}

/// The same object in protobuf.
fn modern_message(write: &EventWrite, hostname: &str) -> Vec<u8> {
    let key = &write.key;
    let metadata = Message::default().text(1, &write.name).text(3, &key.pod.namespace);
    let regarding = Message::default()
        .text(1, "Pod")
        .text(2, &key.pod.namespace)
        .text(3, &key.pod.name)
        .text(4, &key.pod.uid)
        .text(5, "v1")
        .text(6, &key.resource_version);
    let mut event = Message::default().message(1, &metadata).message(2, &micro_time(write.time));
    if let Some(EventSeries { count, last }) = write.series {
        let series = Message::default().integer(1, count.into()).message(2, &micro_time(last));
        event = event.message(3, &series);
    }
    event = event
        .text(4, &key.reporting)
        .text(5, &format!("{}-{hostname}", key.reporting))
        .text(6, &key.action)
        .text(7, &key.reason)
        .message(8, &regarding);
    if let Some(related) = &key.related {
        let related = Message::default()
            .text(1, &related.kind)
            .text(2, &related.namespace)
            .text(3, &related.name)
            .text(4, &related.uid)
            .text(5, &related.api_version)
            .text(6, &related.resource_version);
        event = event.message(9, &related);
    }
    event.text(10, &write.note).text(11, key.type_name()).seal("events.k8s.io/v1", "Event")
}

/// Seconds, and the microseconds of the rest in nanoseconds.
fn micro_time(at: Timestamp) -> Message {
    let nanos = at.as_nanos();
    let rest = nanos.rem_euclid(1_000_000_000);
    Message::default().integer(1, nanos.div_euclid(1_000_000_000)).integer(2, rest - rest % 1_000)
}

fn classic(event: &CoreEvent) -> Value {
    let key = &event.key;
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": &*event.name, "namespace": &*key.pod.namespace},
        "involvedObject": reference(key),
        "reason": &*key.reason,
        "message": &*event.message,
        "source": {"component": &*key.reporting},
        "reportingComponent": &*key.reporting,
        "firstTimestamp": event.first.floor_to_second().to_string(),
        "lastTimestamp": event.last.floor_to_second().to_string(),
        "count": event.count,
        "type": key.type_name(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_scheduler_engine::{Effect, ObjectRef, PodRef};
    use kube_scheduler_framework::EventKind;
    use kube_scheduler_writes::{Outbox, OutboxOptions, Write};

    use super::*;

    /// The event as its message has it, in the form of JSON.
    fn in_protobuf(write: &EventWrite) -> Value {
        use kube_scheduler_api_types::protobuf::{Reader, Value as Field};

        fn read(bytes: &[u8], names: &[&str]) -> Value {
            let mut object = serde_json::Map::new();
            let mut reader = Reader::new(bytes);
            while let Some(field) = reader.next().unwrap() {
                let name = names[field.number as usize - 1];
                let value = match field.value {
                    Field::Varint(number) => number.into(),
                    Field::Bytes(bytes) => match name {
                        "metadata" => read(bytes, &["name", "", "namespace"]),
                        "regarding" | "related" => read(
                            bytes,
                            &["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion"],
                        ),
                        "series" => read(bytes, &["count", "lastObservedTime"]),
                        "eventTime" | "lastObservedTime" => {
                            let time = read(bytes, &["seconds", "nanos"]);
                            let part = |name: &str| time[name].as_i64().unwrap_or(0);
                            let nanos = part("seconds") * 1_000_000_000 + part("nanos");
                            to_micro_time(Timestamp::from_nanos(nanos)).into()
                        }
                        _ => str::from_utf8(bytes).unwrap().into(),
                    },
                    other => panic!("{other:?}"),
                };
                object.insert(name.to_owned(), value);
            }
            object.into()
        }

        let bytes = modern_message(write, "host");
        let event = crate::transport::envelope::open(&bytes).unwrap();
        let names = [
            "metadata",
            "eventTime",
            "series",
            "reportingController",
            "reportingInstance",
            "action",
            "reason",
            "regarding",
            "related",
            "note",
            "type",
        ];
        let mut object = read(event.raw, &names);
        object["apiVersion"] = event.api_version.into();
        object["kind"] = event.kind.into();
        object
    }

    #[test]
    fn events_have_the_references_form() {
        let key = EventKey {
            pod: PodRef { namespace: "x".into(), name: "p".into(), uid: "u".into() },
            resource_version: "7".into(),
            is_warning: true,
            reason: "FailedScheduling".into(),
            action: "Scheduling".into(),
            reporting: "default-scheduler".into(),
            related: None,
        };
        let mut outbox = Outbox::new(OutboxOptions::default(), Timestamp::EPOCH);
        outbox.set_event_api(EventApi::Modern);
        let mut record = |millis, related: Option<Arc<ObjectRef>>| {
            let now = Timestamp::from_millis(millis);
            let EventKey { pod, resource_version, reason, action, reporting, .. } = key.clone();
            let (kind, note) = (EventKind::Warning, "no room".to_owned());
            let effect = Effect::RecordEvent {
                pod,
                resource_version,
                related,
                kind,
                reason,
                action,
                note,
                reporting,
            };
            assert!(outbox.push(effect, now).is_none());
            match outbox.next_request(now).map(|request| request.write) {
                Some(Write::Event(request)) => request.event,
                other => panic!("{other:?}"),
            }
        };
        let expected = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": "p.59682f00", "namespace": "x"},
            "eventTime": "1970-01-01T00:00:01.500000Z",
            "reportingController": "default-scheduler", "reportingInstance": "default-scheduler-host",
            "type": "Warning", "reason": "FailedScheduling", "action": "Scheduling", "note": "no room",
            "regarding": {
                "apiVersion": "v1", "kind": "Pod", "namespace": "x", "name": "p", "uid": "u", "resourceVersion": "7",
            },
        });
        let first = record(1_500, None);
        assert_eq!(modern(&first, "host"), expected);
        assert_eq!(in_protobuf(&first), expected);
        let again = record(2_500, None);
        assert_eq!(in_protobuf(&again), modern(&again, "host"));
        let again = modern(&again, "host");
        assert_eq!(
            again["series"],
            json!({"count": 2, "lastObservedTime": "1970-01-01T00:00:02.500000Z"})
        );
        let group = ObjectRef {
            api_version: "scheduling.k8s.io/v1alpha2".into(),
            kind: "PodGroup".into(),
            namespace: "x".into(),
            name: "g".into(),
            uid: "v".into(),
            resource_version: "8".into(),
        };
        let related = record(3_500, Some(Arc::new(group)));
        assert_eq!(in_protobuf(&related), modern(&related, "host"));
        assert_eq!(
            modern(&related, "host")["related"],
            json!({
                "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "namespace": "x", "name": "g", "uid": "v",
                "resourceVersion": "8",
            })
        );
        let event = CoreEvent {
            key: Arc::new(key),
            message: "no room".into(),
            name: "p.1".into(),
            first: Timestamp::from_millis(1_500),
            last: Timestamp::from_millis(2_500),
            count: 1,
        };
        let expected = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "p.1", "namespace": "x"},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": "x", "name": "p", "uid": "u", "resourceVersion": "7",
            },
            "reason": "FailedScheduling", "message": "no room", "source": {"component": "default-scheduler"},
            "reportingComponent": "default-scheduler", "firstTimestamp": "1970-01-01T00:00:01Z",
            "lastTimestamp": "1970-01-01T00:00:02Z", "count": 1, "type": "Warning",
        });
        assert_eq!(classic(&event), expected);
    }

    #[test]
    fn answers_decide_what_comes_again() {
        let status = |code, retry_after| ApiError::Status {
            code,
            reason: String::new(),
            message: String::new(),
            retry_after,
        };
        let lost = ApiError::unclear("");
        let second = Duration::from_secs(1);
        assert_eq!(judged(Ok(()), "e"), EventAnswer::Done);
        assert_eq!(judged(Err(lost), "e"), EventAnswer::Unreachable);
        assert_eq!(judged(Err(ApiError::Timeout(second)), "e"), EventAnswer::Unreachable);
        assert_eq!(judged(Err(status(429, Some(second))), "e"), EventAnswer::RetryAfter(second));
        for code in [400, 403, 404, 409, 422, 500] {
            assert_eq!(judged(Err(status(code, None)), "e"), EventAnswer::Done, "{code}");
        }
    }
}

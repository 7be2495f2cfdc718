//! Spans as OTLP wants them over HTTP: JSON of an `ExportTraceServiceRequest`.

use serde_json::{Value, json};

use super::{Attribute, Span};

const KIND_INTERNAL: u8 = 1;
const STATUS_ERROR: u8 = 2;

/// One request for these spans.
pub(crate) fn request(spans: &[Span]) -> Value {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            attribute("service.name", &json!({"stringValue": "kube-scheduler"})),
        ]},
        "scopeSpans": [{
            "scope": {"name": "kube-scheduler-rs", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans,
        }],
    }]})
}

fn span(span: &Span) -> Value {
    let attributes: Vec<Value> = span
        .attributes
        .iter()
        .map(|(key, value)| match value {
            Attribute::Text(text) => attribute(key, &json!({"stringValue": &**text})),
            // 64-bit integers are strings in this form of protobuf.
            Attribute::Number(number) => attribute(key, &json!({"intValue": number.to_string()})),
        })
        .collect();
    let mut body = json!({
        "traceId": format!("{:016x}{:016x}", span.trace[0], span.trace[1]),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": KIND_INTERNAL,
        "startTimeUnixNano": span.started.as_nanos().to_string(),
        "endTimeUnixNano": span.ended.as_nanos().to_string(),
        "attributes": attributes,
    });
    if let Some(parent) = span.parent {
        body["parentSpanId"] = format!("{parent:016x}").into();
    }
    if let Some(error) = &span.error {
        body["status"] = json!({"code": STATUS_ERROR, "message": error});
    }
    body
}

fn attribute(key: &str, value: &Value) -> Value {
    json!({"key": key, "value": value})
}

#[cfg(test)]
mod tests {
    use kube_scheduler_api_types::Timestamp;

    use super::*;

    #[test]
    fn spans_have_the_protocols_form() {
        let span = Span {
            trace: [1, 2],
            id: 3,
            parent: Some(4),
            name: "Binding cycle",
            started: Timestamp::from_millis(1),
            ended: Timestamp::from_millis(2),
            attributes: vec![
                ("k8s.node.name", Attribute::Text("n1".into())),
                ("feasibleNodes", Attribute::Number(5)),
            ],
            error: Some("no".to_owned()),
        };
        let request = request(&[span]);
        let expected = json!({
            "traceId": "00000000000000010000000000000002", "spanId": "0000000000000003",
            "parentSpanId": "0000000000000004", "name": "Binding cycle", "kind": 1,
            "startTimeUnixNano": "1000000", "endTimeUnixNano": "2000000",
            "attributes": [
                {"key": "k8s.node.name", "value": {"stringValue": "n1"}},
                {"key": "feasibleNodes", "value": {"intValue": "5"}},
            ],
            "status": {"code": 2, "message": "no"},
        });
        assert_eq!(request["resourceSpans"][0]["scopeSpans"][0]["spans"], json!([expected]));
    }
}

//! Questions as callers send them, over HTTP and as the arguments of a call.

use kube_scheduler_answers::{
    Answer, ExplainOptions, Interrupt, Notes, Question, QuestionKind, Refusal, Visibility,
};
use kube_scheduler_api_types::CompileOptions;
use serde_json::Value;

use super::engine::SmallCluster;

/// Larger numbers of pods or nodes than this are read and not answered: what is fuzzed is the question, not the engine.
const MAX_COUNT: u64 = 20;
/// More changes or objects than this, likewise.
const MAX_ENTRIES: usize = 10;

/// A question that can be read is answered, always alike, and stands in its answer so that it can be read again.
pub(super) fn question(bytes: &[u8]) {
    let options = CompileOptions::default();
    let arguments: Option<Value> = serde_json::from_slice(bytes).ok();
    for kind in QuestionKind::ALL {
        let namespace = if kind.is_namespaced() { "default" } else { "" };
        if let Ok(question) = Question::from_json(kind, namespace, bytes, &options) {
            answer(question);
        }
        if let Some(arguments) = &arguments
            && let Ok(question) = Question::from_arguments(kind, arguments, "default", &options)
        {
            answer(question);
        }
    }
}

fn answer(question: Question) {
    if !is_small(question.spec()) {
        return;
    }
    let cluster = SmallCluster::new();
    let answered = || cluster.inquiry(&question).answer(&question, &Interrupt::default());
    let (answer, again) = match (answered(), answered()) {
        (Ok(answer), Ok(again)) => (answer, again),
        (answer, again) => {
            let said =
                |answer: Result<Answer, Refusal>| answer.err().map(|refusal| refusal.to_string());
            assert_eq!(said(answer), said(again), "of {}", question.spec());
            return;
        }
    };
    let text = |answer| serde_json::to_string(answer).unwrap();
    assert_eq!(text(&answer), text(&again), "of {}", question.spec());
    for (nodes, all_pods) in [(true, true), (true, false), (false, true), (false, false)] {
        let reader = Visibility { nodes, all_pods };
        let seen = answer.clone().for_reader(&question, reader, ExplainOptions::SENT);
        seen.table(true);
        let notes = Notes { rendered: Some(seen.table(false)), ..Notes::default() };
        let object = question.clone().answered(&seen, notes).unwrap();
        let body = serde_json::to_vec(&object).unwrap();
        let options = CompileOptions::default();
        let read = Question::from_json(question.kind, question.namespace(), &body, &options);
        assert_eq!(read.unwrap().spec(), question.spec());
    }
}

/// Whether a question can be answered in no time.
fn is_small(spec: &Value) -> bool {
    const COUNTS: [&str; 6] =
        ["completions", "count", "max", "minCount", "parallelism", "replicas"];

    let is_few = |count: &Value| count.as_u64().is_none_or(|count| count <= MAX_COUNT);
    match spec {
        Value::Array(all) => all.len() <= MAX_ENTRIES && all.iter().all(is_small),
        Value::Object(fields) => fields
            .iter()
            .all(|(name, value)| is_small(value) && (!COUNTS.contains(&&**name) || is_few(value))),
        _ => true,
    }
}

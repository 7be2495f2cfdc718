//! What an API server would refuse in a field of a question, whichever way the question comes.

use kube_scheduler_api_types::validation::{label_key_messages, label_value_messages};

/// A text that is not the key, or not the value, of a label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {problem}")]
pub struct LabelError {
    text: String,
    problem: String,
}

/// Whether this may be the key and the value of a label or a taint of a node.
///
/// # Errors
/// If one of them may not be; of several problems the first one.
pub fn check_pair(key: &str, value: &str) -> Result<(), LabelError> {
    check_key(key)?;
    first_problem(value, label_value_messages(value))
}

/// Whether this may be the key of a label.
///
/// # Errors
/// If it may not be; of several problems the first one.
pub fn check_key(key: &str) -> Result<(), LabelError> {
    first_problem(key, label_key_messages(key))
}

fn first_problem(text: &str, messages: Vec<String>) -> Result<(), LabelError> {
    let first = messages.into_iter().next();
    first.map_or(Ok(()), |problem| Err(LabelError { text: text.to_owned(), problem }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_those_of_labels() {
        assert_eq!(check_pair("example.com/gpu", "a"), Ok(()));
        assert_eq!(check_pair("gpu", ""), Ok(()));
        for (key, value) in [("", ""), ("!!", ""), ("a b", "c"), ("a", "b c")] {
            assert!(check_pair(key, value).is_err(), "{key:?}={value:?}");
        }
        let text = check_pair("a", "b c").unwrap_err().to_string();
        assert!(text.starts_with("\"b c\": a valid label must be "), "{text}");
    }
}

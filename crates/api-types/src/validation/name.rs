//! Names Kubernetes accepts: label keys (also called qualified names), label values, DNS-1123 labels and subdomains.
//!
//! Invariants: every function is total, linear in the length of its input, and returns one message per broken rule in
//! upstream's order; no message means the name is valid. Lengths count bytes.

const LABEL_KEY_NAME_MAX_BYTES: usize = 63;
const LABEL_VALUE_MAX_BYTES: usize = 63;
const DNS1123_LABEL_MAX_BYTES: usize = 63;
const DNS1123_SUBDOMAIN_MAX_BYTES: usize = 253;

const LABEL_KEY_NAME_FORM: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_FORM: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const DNS1123_LABEL_FORM: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS1123_SUBDOMAIN_FORM: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
'-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// What is wrong with `key` as a label key: `name`, or `prefix/name` with a DNS-1123 subdomain as prefix.
///
/// Resource names, taint keys and topology keys follow the same rules.
#[must_use]
pub fn label_key_messages(key: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let mut parts = key.split('/');
    let (first, second, third) = (parts.next().unwrap_or(""), parts.next(), parts.next());
    let name = match (second, third) {
        (None, _) => first,
        (Some(name), None) => {
            if first.is_empty() {
                messages.push("prefix part must be non-empty".to_owned());
            } else {
                messages.extend(
                    dns1123_subdomain_messages(first)
                        .into_iter()
                        .map(|message| format!("prefix part {message}")),
                );
            }
            name
        }
        (Some(_), Some(_)) => {
            return vec![format!(
                "a valid label key {LABEL_KEY_NAME_FORM} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_KEY_NAME_MAX_BYTES {
        messages.push(format!("name part {}", too_long(LABEL_KEY_NAME_MAX_BYTES)));
    }
    if !is_label_form(name) {
        messages.push(format!("name part {LABEL_KEY_NAME_FORM}"));
    }
    messages
}

/// What is wrong with `value` as the value of a label. The empty value is valid.
#[must_use]
pub fn label_value_messages(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > LABEL_VALUE_MAX_BYTES {
        messages.push(too_long(LABEL_VALUE_MAX_BYTES));
    }
    if !value.is_empty() && !is_label_form(value) {
        messages.push(LABEL_VALUE_FORM.to_owned());
    }
    messages
}

/// What is wrong with `name` as a DNS-1123 subdomain: the form of most object names.
#[must_use]
pub fn dns1123_subdomain_messages(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.len() > DNS1123_SUBDOMAIN_MAX_BYTES {
        messages.push(too_long(DNS1123_SUBDOMAIN_MAX_BYTES));
    }
    if !is_dns1123_subdomain(name) {
        messages.push(DNS1123_SUBDOMAIN_FORM.to_owned());
    }
    messages
}

/// What is wrong with `name` as a DNS-1123 label: the form of namespace names.
#[must_use]
pub fn dns1123_label_messages(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.len() > DNS1123_LABEL_MAX_BYTES {
        messages.push(too_long(DNS1123_LABEL_MAX_BYTES));
    }
    if !is_dns1123_label(name) {
        messages.push(if is_dns1123_subdomain(name) {
            "must not contain dots".to_owned()
        } else {
            DNS1123_LABEL_FORM.to_owned()
        });
    }
    messages
}

fn too_long(max_bytes: usize) -> String {
    format!("must be no more than {max_bytes} bytes")
}

/// Letters and digits at both ends; `-`, `_` and `.` allowed between them.
fn is_label_form(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_dns1123_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns1123_label)
}

fn is_dns1123_label(text: &str) -> bool {
    let is_plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(is_plain)
        && bytes.last().is_some_and(is_plain)
        && bytes.iter().all(|b| is_plain(b) || *b == b'-')
}

#[cfg(test)]
mod tests;

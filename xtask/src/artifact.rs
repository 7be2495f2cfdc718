//! Which file cargo built, read from its `--message-format=json` output.

use std::path::PathBuf;

use serde::Deserialize;

#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The path of a program, not of its unit tests, among cargo's messages.
pub(crate) fn executable(messages: &[u8], binary: &str) -> Option<PathBuf> {
    String::from_utf8_lossy(messages)
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .find(|message| {
            message
                .target
                .as_ref()
                .is_some_and(|target| target.name == binary && target.kind == ["bin"])
                && message.profile.as_ref().is_some_and(|profile| !profile.test)
        })
        .and_then(|message| message.executable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_told_from_its_unit_tests() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"name":"serde","kind":["lib"]},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","target":{"name":"conformance","kind":["bin"]},"profile":{"test":true},"executable":"/t/deps/conformance-1"}
{"reason":"compiler-artifact","target":{"name":"conformance","kind":["test"]},"profile":{"test":true},"executable":"/t/deps/conformance-2"}
{"reason":"compiler-artifact","target":{"name":"conformance","kind":["bin"]},"profile":{"test":false},"executable":"/t/conformance"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(
            executable(messages.as_bytes(), "conformance"),
            Some(PathBuf::from("/t/conformance"))
        );
        assert_eq!(executable(messages.as_bytes(), "another"), None);
    }
}

//! Which file cargo built, read from its `--message-format=json` output.

use std::path::PathBuf;

use cargo_metadata::{Message, TargetKind};

/// The path of a program, not of its unit tests, among cargo's messages.
pub(crate) fn executable(messages: &[u8], binary: &str) -> Option<PathBuf> {
    let artifacts = Message::parse_stream(messages).filter_map(|message| match message {
        Ok(Message::CompilerArtifact(artifact)) => Some(artifact),
        _ => None,
    });
    let mut programs = artifacts.filter(|artifact| {
        artifact.target.name == binary
            && artifact.target.kind == [TargetKind::Bin]
            && !artifact.profile.test
    });
    programs.find_map(|artifact| artifact.executable).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Cargo's message about one artifact.
    fn message(name: &str, kind: &str, is_test: bool, executable: Value) -> String {
        let message = json!({
            "reason": "compiler-artifact", "package_id": name, "features": [], "filenames": [], "fresh": true,
            "target": {"name": name, "kind": [kind], "crate_types": [kind], "src_path": "/t/main.rs"},
            "profile": {
                "opt_level": "1", "debuginfo": 0, "debug_assertions": true, "overflow_checks": true,
                "test": is_test,
            },
            "executable": executable,
        });
        format!("{message}\n")
    }

    #[test]
    fn the_program_is_reported_from_its_unit_tests() {
        let messages = [
            message("serde", "lib", false, Value::Null),
            message("conformance", "bin", true, "/t/deps/conformance-1".into()),
            message("conformance", "test", true, "/t/deps/conformance-2".into()),
            message("conformance", "bin", false, "/t/conformance".into()),
            "{\"reason\":\"build-finished\",\"success\":true}\n".to_owned(),
        ];
        let messages = messages.concat();
        assert_eq!(
            executable(messages.as_bytes(), "conformance"),
            Some(PathBuf::from("/t/conformance"))
        );
        assert_eq!(executable(messages.as_bytes(), "another"), None);
    }
}

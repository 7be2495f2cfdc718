//! The log of the real binary: form, verbosity, streams.

use serde_json::Value;

use crate::{run, stderr, stdout};

/// A start that fails at once, after it has logged its flags.
const NOWHERE: [&str; 3] =
    ["--master=http://127.0.0.1:1", "--secure-port=0", "--config=/no/such/file"];

fn failed(more: &[&str]) -> (String, String) {
    let output = run(&[&NOWHERE[..], more].concat());
    assert_eq!(output.status.code(), Some(1));
    (stdout(&output), stderr(&output))
}

#[test]
fn flags_are_reported_from_verbosity_1_on() {
    assert!(!failed(&[]).1.contains("FLAG:"));
    let (out, err) = failed(&["-v=1", "--authorization-always-allow-paths=/a,/b"]);
    assert!(out.is_empty(), "{out}");
    for line in [
        "] FLAG: --bind-address=\"0.0.0.0\"\n",
        "] FLAG: --v=\"1\"\n",
        "] FLAG: --authorization-always-allow-paths=\"[/a,/b]\"\n",
    ] {
        assert!(err.contains(line), "{line} is not in {err}");
    }
    // As loud for one file only.
    assert!(failed(&["--vmodule=logging=1"]).1.contains("FLAG: --vmodule=\"logging=1\""));
    assert!(!failed(&["--vmodule=other=1"]).1.contains("FLAG:"));
}

#[test]
fn json_is_one_object_per_line() {
    let (_, err) = failed(&["--logging-format=json", "-v=1"]);
    for line in err.lines() {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(
            line["ts"].is_number() && line["caller"].is_string() && line["msg"].is_string(),
            "{line}"
        );
    }
    let last: Value = serde_json::from_str(err.lines().last().unwrap()).unwrap();
    assert_eq!(last["msg"], "command failed");
    assert!(
        last["err"].as_str().unwrap().contains("/no/such/file") && last.get("v").is_none(),
        "{last}"
    );
}

#[test]
fn streams_are_split_where_the_gate_allows_it() {
    let gate = "--feature-gates=LoggingAlphaOptions=true";
    for more in [
        &[gate, "-v=1", "--log-text-split-stream"][..],
        &[gate, "-v=1", "--log-text-split-stream", "--log-text-info-buffer-size=64Ki"],
        &[
            gate,
            "-v=1",
            "--logging-format=json",
            "--log-json-split-stream",
            "--log-json-info-buffer-size=1Ki",
        ],
    ] {
        let (out, err) = failed(more);
        assert!(out.contains("FLAG: --v=") && !err.contains("FLAG:"), "{more:?}: {out} {err}");
        assert!(
            err.contains("command failed") && !out.contains("command failed"),
            "{more:?}: {err}"
        );
    }
}

//! Questions of an assistant: the real program, spoken to in JSON-RPC over its standard input and output.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{Cluster, DEADLINE};
use crate::{Files, run, stderr, stdout};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/answers");

/// A server of the protocol, and what it says.
pub(crate) struct Assistant {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
}

impl Assistant {
    /// Starts one without a word to it.
    fn silent(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kube-scheduler-rs"))
            .arg("mcp")
            .args(args)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if send.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { child, input, lines, next_id: 1 }
    }

    /// Starts one and greets it.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut assistant = Self::silent(args);
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let greeting = assistant.request("initialize", &hello);
        assert_eq!(greeting["result"]["serverInfo"]["name"], "kube-scheduler-rs", "{greeting}");
        assert_eq!(greeting["result"]["protocolVersion"], "2025-06-18", "{greeting}");
        assert!(greeting["result"]["capabilities"]["tools"].is_object(), "{greeting}");
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assistant.send(initialized.to_string().as_bytes());
        assistant
    }

    fn send(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    fn receive(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(DEADLINE).unwrap()).unwrap()
    }

    fn begin(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(request.to_string().as_bytes());
        id
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// The text of a question that is refused.
    fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Ends its input, and returns its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Assistant {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn small() -> Value {
    json!({"metadata": {"name": "small"}, "spec": {"containers": [
        {"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}},
    ]}})
}

/// Without what differs from one moment to the next.
fn timeless(mut answer: Value) -> Value {
    answer.as_object_mut().unwrap().remove("asOf");
    answer
}

#[test]
fn every_question_has_a_tool_and_the_same_answer() {
    let file = |name: &str| format!("{DATA}/{name}.yaml");
    let (cluster, waiting, urgent) = (file("cluster"), file("waiting"), file("urgent"));
    let files = ["-f", &cluster, "-f", &waiting];
    let mut assistant = Assistant::start(&files);
    let listed = assistant.request("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected = ["explain", "preempt", "what-if", "drain", "capacity", "queue", "fragmentation"];
    assert_eq!(names, expected);
    for tool in tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["description"].as_str().unwrap().len() > 60, "{tool}");
    }
    let yaml = std::fs::read_to_string(&urgent).unwrap();
    assert!(yaml.contains("name: urgent"), "{yaml}");
    let small_file = file("small");
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "shop"}},
            "template": {"metadata": {"labels": {"app": "shop"}}, "spec": small()["spec"]}},
    });
    let written = Files::new();
    let deployment_file = written.write("deployment.json", &deployment.to_string());
    for (tool, arguments, command) in [
        (
            "explain",
            json!({"namespace": "default", "spec": {"podName": "web", "suggest": true}}),
            &["explain", "default/web", "--suggest"][..],
        ),
        ("preempt", json!({"spec": {"podName": "web"}}), &["preempt", "web"]),
        (
            "what-if",
            json!({"spec": {"changes": [
                {"addNodesLike": {"name": "worker-2", "count": 1}},
                {"cordon": {"name": "worker-1"}},
            ]}}),
            &["what-if", "--cordon", "worker-1", "--nodes-like", "worker-2=1"],
        ),
        (
            "what-if",
            json!({"spec": {"changes": [{"addWorkload": {"workload": deployment}}]}}),
            &["what-if", "--add", &deployment_file],
        ),
        ("drain", json!({"spec": {"nodes": ["worker-1"]}}), &["drain", "worker-1"]),
        (
            "capacity",
            json!({"spec": {"pod": small(), "steps": true}}),
            &["capacity", "--pod", &small_file, "--steps"],
        ),
        ("queue", json!({}), &["queue"]),
        (
            "fragmentation",
            json!({"spec": {"by": "topology.kubernetes.io/zone"}}),
            &["fragmentation", "--by", "topology.kubernetes.io/zone"],
        ),
    ] {
        let result = assistant.call(tool, &arguments);
        assert_eq!(result["isError"], false, "{tool}: {result}");
        let answer = &result["structuredContent"];
        assert_eq!(answer["apiVersion"], "answers.kube-scheduler.rs/v1alpha1", "{tool}");
        let text: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, *answer, "{tool}");
        let source = result["content"][1]["text"].as_str().unwrap();
        assert!(source.contains("with the default configuration"), "{tool}: {source}");
        let output = run(&[command, &files[..], &["-o", "json"]].concat());
        let printed: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(timeless(answer.clone()), timeless(printed), "{tool}");
    }
    assert_eq!(assistant.end(), Some(0));
}

#[test]
fn planning_gangs_where_there_are_none_is_remarked_on() {
    let cluster = format!("{DATA}/cluster.yaml");
    for (flags, warns) in [
        (&["--exact-gangs"][..], true),
        (&["--exact-gangs", "--feature-gates", "GenericWorkload=true,GangScheduling=true"], false),
        (&[], false),
    ] {
        let mut assistant = Assistant::start(&[&["-f", &cluster], flags].concat());
        let result = assistant.call("queue", &json!({}));
        let said = result["content"][1]["text"].as_str().unwrap();
        let text = "warning: --exact-gangs has no effect without the feature gate GangScheduling or the plugin Coscheduling\n";
        assert_eq!(said.starts_with(text), warns, "{flags:?}: {said}");
        assert_eq!(assistant.end(), Some(0));
    }
}

#[test]
fn what_is_wrong_with_a_question_is_said_and_the_next_one_is_answered() {
    let cluster = format!("{DATA}/cluster.yaml");
    let mut assistant = Assistant::start(&["-f", &cluster]);
    for (tool, arguments, expected) in [
        (
            "explain",
            json!({"spec": {"podNme": "web"}}),
            "error: spec.podNme: unknown field `podNme`",
        ),
        ("explain", json!({"spec": {"podName": 7}}), "error: spec.podName: invalid type"),
        ("explain", json!({"pod": "web"}), "error: pod: unknown field `pod`"),
        ("explain", json!({}), "error: spec: expected either podName or pod"),
        ("explain", json!({"spec": {"podName": "gone"}}), "error: there is no pod default/gone"),
        (
            "drain",
            json!({"namespace": "web", "spec": {"nodes": ["a"]}}),
            "error: namespace: \"web\"",
        ),
        ("drain", json!({"spec": {"nodes": ["a"]}}), "error: there is no node \"a\""),
        (
            "what-if",
            json!({"spec": {"changes": [{"cordon": {"name": "worker-1"}}, {"taint": {"name": "n"}}]}}),
            "error: spec.changes[1].taint: missing field `key`",
        ),
        (
            "capacity",
            json!({"spec": {"pod": small(), "max": 1_000_000}}),
            "error: spec.max: 1000000: at most 100000 is allowed",
        ),
    ] {
        let said = assistant.refused(tool, &arguments);
        assert!(said.starts_with(expected), "{arguments}: {said}");
    }
    let unknown = assistant.request("tools/call", &json!({"name": "delete-node", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let text = unknown["error"]["message"].as_str().unwrap();
    assert!(text.contains("no tool \"delete-node\"; there are: explain,"), "{text}");
    let unknown = assistant.request("tools/forget", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");

    // Larger than a question may be, larger than a message may be, and none at all.
    let long = json!({"spec": {"podName": "x".repeat(300 << 10)}});
    let said = assistant.refused("explain", &long);
    assert!(said.contains("the question is too long"), "{said}");
    assistant.send("x".repeat(3 << 20).as_bytes());
    let refused = assistant.receive();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)));
    assert!(refused["error"]["message"].as_str().unwrap().contains("at most 1048576 bytes"));
    for (line, code, id) in [
        (&b"{\"jsonrpc\": \"2.0\", \"id\": 1, "[..], -32700, Value::Null),
        (b"\xff\xfe", -32700, Value::Null),
        (b"[]", -32600, Value::Null),
        (b"{\"jsonrpc\": \"1.0\", \"id\": \"a\", \"method\": \"ping\"}", -32600, json!("a")),
    ] {
        assistant.send(line);
        let refused = assistant.receive();
        assert_eq!(refused["error"]["code"], code, "{refused}");
        assert_eq!(refused["id"], id, "{refused}");
    }
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":{}",
        "[".repeat(100_000) + &"]".repeat(100_000) + "}"
    );
    assistant.send(deep.as_bytes());
    assert_eq!(assistant.receive()["error"]["code"], -32700);

    // More at once than there is room for: each gets an answer or is refused.
    let question = json!({"name": "queue", "arguments": {}});
    let ids: Vec<u64> = (0..40).map(|_| assistant.begin("tools/call", &question)).collect();
    let mut answered: Vec<u64> = Vec::new();
    for _ in &ids {
        let answer = assistant.receive();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let is_refused = text.contains("questions are being answered; try again later");
        assert_eq!(answer["result"]["isError"], is_refused, "{answer}");
        answered.push(answer["id"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, ids);
    assert_eq!(assistant.call("queue", &json!({}))["isError"], false);
    assert_eq!(assistant.end(), Some(0));
}

#[test]
fn the_cluster_is_read_anew_for_each_question() {
    let files = Files::new();
    let cluster = Cluster::start(&files, &["--nodes", "2"]);
    let mut assistant = Assistant::start(&["--kubeconfig", &cluster.kubeconfig]);
    let n_waiting = |assistant: &mut Assistant| {
        let result = assistant.call("queue", &json!({}));
        let source = result["content"][1]["text"].as_str().unwrap();
        assert!(source.contains("answered here, from http://"), "{source}");
        result["structuredContent"]["nPods"].clone()
    };
    assert_eq!(n_waiting(&mut assistant), 0);
    cluster.create_pods(2);
    assert_eq!(n_waiting(&mut assistant), 2);
    let address = cluster.address.to_string();
    drop(cluster);
    let said = assistant.refused("queue", &json!({}));
    assert!(said.contains("cannot ask") || said.contains(&address), "{said}");
    assert_eq!(assistant.end(), Some(0));
}

/// An API server that does not answer one question's request holds up no other question, once that one is given up.
#[test]
fn a_question_that_is_given_up_leaves_its_turn_to_the_next_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (send, connected) = channel();
    std::thread::spawn(move || {
        let mut held = None;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if held.is_none() {
                held = Some(stream);
                send.send(()).unwrap();
                continue;
            }
            // The client may have closed the connection.
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(
                b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            );
        }
    });
    let files = Files::new();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": url}}], "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    });
    let config = files.write("config", &config.to_string());
    let mut assistant = Assistant::start(&["--kubeconfig", &config, "--local"]);
    let call = json!({"name": "queue", "arguments": {}});
    let first = assistant.begin("tools/call", &call);
    connected.recv_timeout(DEADLINE).unwrap();
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": first}});
    assistant.send(cancelled.to_string().as_bytes());
    let second = assistant.begin("tools/call", &call);
    let started = Instant::now();
    let mut answer = assistant.receive();
    while answer["id"] != second {
        answer = assistant.receive();
    }
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    // A page of a list may take a minute.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[test]
fn no_question_is_no_error_and_no_cluster_is_one() {
    assert_eq!(Assistant::silent(&[]).end(), Some(0));
    let output = run(&["mcp", "-f", "-"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("standard input carries the questions"),
        "{}",
        stderr(&output)
    );
    let mut assistant = Assistant::start(&["-f", "/nowhere/cluster.yaml"]);
    let said = assistant.refused("queue", &json!({}));
    assert!(said.contains("/nowhere/cluster.yaml"), "{said}");
}

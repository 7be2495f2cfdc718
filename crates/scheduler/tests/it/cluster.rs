//! The program as processes of their own, and a cluster to run against.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::Files;

/// Nothing here takes as long, unless it is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A port of 127.0.0.1 for a scheduler's secure port, or for a cluster. As long as it is kept, no process gets it by asking for any
/// port; those that ask for this one do.
pub(crate) struct ReservedPort {
    _socket: Socket,
    pub(crate) number: String,
}

impl ReservedPort {
    pub(crate) fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        Self { _socket: socket, number: address.port().to_string() }
    }

    /// The flags with which a scheduler serves this port.
    pub(crate) fn flags(&self) -> [&str; 4] {
        ["--bind-address=127.0.0.1", "--permit-port-sharing", "--secure-port", &self.number]
    }
}

/// A process that does not outlive its test.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with(args, Stdio::null())
    }

    pub(crate) fn start_with(args: &[&str], stderr: Stdio) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_kube-scheduler-rs"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        Self(child)
    }

    /// The first line it prints.
    pub(crate) fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Asks it to end, and returns its exit code.
    pub(crate) fn terminate(self) -> Option<i32> {
        self.signal("-TERM");
        self.wait()
    }

    /// Waits for its end, and returns its exit code.
    pub(crate) fn wait(mut self) -> Option<i32> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster process and where it is.
pub(crate) struct Cluster {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) kubeconfig: String,
}

impl Cluster {
    pub(crate) fn start(files: &Files, args: &[&str]) -> Self {
        let kubeconfig = files.write("kubeconfig", "");
        let mut all = vec!["devcluster", "--kubeconfig-out", &kubeconfig];
        all.extend(args);
        let mut process = Process::start(&all);
        let line = process.first_line();
        let address = line.trim().rsplit("http://").next().unwrap().parse().unwrap();
        Self { process, address, kubeconfig }
    }

    /// HTTP/1.0, so that the answer is not chunked.
    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    pub(crate) fn create_pods(&self, n: usize) {
        for i in 0..n {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p-{i}")},
                "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1m"}}}]},
            });
            let created = self.call("POST", "/api/v1/namespaces/default/pods", &pod);
            assert_eq!(created["kind"], "Pod", "{created}");
        }
    }

    /// Pods that run somewhere, and where.
    pub(crate) fn placements(&self) -> BTreeMap<String, String> {
        let list = self.call("GET", "/api/v1/pods", &Value::Null);
        let placed = |pod: &Value| {
            let node = pod["spec"]["nodeName"].as_str()?;
            Some((pod["metadata"]["name"].as_str()?.to_owned(), node.to_owned()))
        };
        list["items"].as_array().unwrap().iter().filter_map(placed).collect()
    }

    pub(crate) fn wait_for_bound(&self, n: usize) -> BTreeMap<String, String> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let placements = self.placements();
            if placements.len() >= n {
                return placements;
            }
            assert!(Instant::now() < deadline, "only {} of {n} pods are bound", placements.len());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

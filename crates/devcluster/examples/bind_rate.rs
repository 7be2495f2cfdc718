//! How many bindings per second the server takes, over HTTP, with a watch attached:
//! `cargo run --release --example bind_rate -- PODS NODES CONNECTIONS`.

use std::time::Instant;

use kube_scheduler_devcluster::{DevCluster, NodeTemplate};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (n_pods, n_nodes, n_connections) = (argument(50_000)?, argument(5_000)?, argument(8)?);

    let cluster = DevCluster::builder().start().await?;
    let start = Instant::now();
    cluster.add_hollow_nodes(n_nodes, &NodeTemplate::default().zones(3))?;
    cluster.bulk_create((0..n_pods).map(pod))?;
    eprintln!("loaded {n_nodes} nodes and {n_pods} pods in {:?}", start.elapsed());

    let address = cluster.url().trim_start_matches("http://").to_owned();
    let start = Instant::now();
    let list = "GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(&address).await?;
    stream.write_all(list.as_bytes()).await?;
    let mut sink = Vec::new();
    stream.read_to_end(&mut sink).await?;
    eprintln!("listed {} MB in {:?}", sink.len() / 1_000_000, start.elapsed());

    let watch_address = address.clone();
    let watcher = tokio::spawn(async move { count_watched(&watch_address, n_pods).await });
    let start = Instant::now();
    let mut workers = Vec::new();
    for worker in 0..n_connections {
        let address = address.clone();
        let own = (worker..n_pods).step_by(n_connections);
        workers.push(tokio::spawn(async move { bind_all(&address, own, n_nodes).await }));
    }
    for worker in workers {
        worker.await??;
    }
    let elapsed = start.elapsed();
    eprintln!("bound {n_pods} in {elapsed:?}: {:.0}/s", n_pods as f64 / elapsed.as_secs_f64());
    watcher.await??;
    eprintln!("the watch saw them all after {:?}", start.elapsed());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    eprintln!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    cluster.shutdown().await?;
    Ok(())
}

fn pod(index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{index:06}"), "labels": {"app": "load"}},
        "spec": {"containers": [{
            "name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}},
        }]},
    })
}

async fn bind_all(
    address: &str,
    pods: impl Iterator<Item = usize>,
    n_nodes: usize,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 4096];
    for index in pods {
        let name = format!("pod-{index:06}");
        let node = format!("hollow-{:05}", index % n_nodes);
        let body = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"kind": "Node", "name": node},
        })
        .to_string();
        let request = format!(
            "POST /api/v1/namespaces/default/pods/{name}/binding HTTP/1.1\r\nHost: x\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let read = stream.read(&mut buffer).await?;
        if !buffer[..read].starts_with(b"HTTP/1.1 201") {
            return Err(std::io::Error::other(
                String::from_utf8_lossy(&buffer[..read]).into_owned(),
            ));
        }
    }
    Ok(())
}

/// Reads a watch until every pod was seen Running.
async fn count_watched(address: &str, n_pods: usize) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        "GET /api/v1/pods?watch=1&fieldSelector=status.phase=Running HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut buffer = vec![0; 1 << 18];
    let (mut seen, mut carried) = (0, 0);
    const MARK: &[u8] = b"{\"type\":\"ADDED\"";
    while seen < n_pods {
        let read = stream.read(&mut buffer[carried..]).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let filled = carried + read;
        seen += buffer[..filled].windows(MARK.len()).filter(|window| *window == MARK).count();
        // A mark may be cut; the carried tail is too short to hold one that was counted.
        carried = filled.min(MARK.len() - 1);
        buffer.copy_within(filled - carried..filled, 0);
    }
    Ok(())
}

//! Serves a cluster with hollow nodes until it is interrupted: `cargo run --example serve -- PORT NODES`.

use kube_scheduler_devcluster::{DevCluster, NodeTemplate};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let nodes = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let cluster = DevCluster::builder().port(port).start().await?;
    cluster.add_hollow_nodes(nodes, &NodeTemplate::default().zones(3))?;
    let files = tempfile::tempdir()?;
    let path = files.path().join("kubeconfig");
    cluster.write_kubeconfig(&path)?;
    eprintln!("export KUBECONFIG={}", path.display());
    tokio::signal::ctrl_c().await?;
    cluster.shutdown().await?;
    Ok(())
}

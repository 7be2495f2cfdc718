//! Traces.

use kube_scheduler_api_types::{NodeSelector, Timestamp};

use crate::import::{ClusterInput, ClusterObjects, ImportError};

const NODES: &str =
    "sn,cpu_milli,memory_mib,gpu,model\nn1,32000,262144,0,\nn2,96000,524288,8,V100M32\n";
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
a,12000,16384,1,460,,LS,Running,427061,12537496,0
b,1000,1024,2,1000,V100M16|V100M32,BE,Failed,5,6,
c,500,512,0,0,,BE,Succeeded,7,8,9
";

fn trace(nodes: &str, pods: &str) -> Result<ClusterObjects, ImportError> {
    let mut input = ClusterInput::default();
    input.add_nodes_csv("nodes.csv", nodes)?;
    input.add_pods_csv("pods.csv", pods)?;
    input.finish()
}

#[test]
fn rows_become_nodes_and_pending_pods() {
    let objects = trace(NODES, PODS).unwrap();
    let [n1, n2] = &*objects.nodes else { panic!("{:?}", objects.nodes) };
    assert_eq!(
        (n1.allocatable.milli_cpu, n1.allocatable.memory, n1.allowed_pods),
        (32_000, 256 << 30, 110)
    );
    assert_eq!((n1.allocatable.scalar("nvidia.com/gpu"), n1.labels.get("gpu-model")), (None, None));
    assert_eq!(
        (n2.allocatable.scalar("nvidia.com/gpu"), n2.labels.get("gpu-model")),
        (Some(8), Some("V100M32"))
    );
    let [a, b, c] = &*objects.pods else { panic!("{:?}", objects.pods) };
    assert_eq!((a.requests.accounted.milli_cpu, a.requests.accounted.memory), (12_000, 16 << 30));
    let gpus =
        |pod: &kube_scheduler_api_types::Pod| pod.requests.accounted.scalar("nvidia.com/gpu");
    assert_eq!((gpus(a), gpus(b), gpus(c)), (Some(1), Some(2), None));
    assert_eq!(a.created, Some(Timestamp::from_millis(427_061_000)));
    assert!(objects.pods.iter().all(|pod| !pod.is_assigned()));
    assert_eq!(objects.n_finished, 0);
    let required = |pod: &kube_scheduler_api_types::Pod| -> Option<NodeSelector> {
        pod.spec.node_affinity.as_ref()?.required.clone()
    };
    assert!(required(a).is_none());
    let models = required(b).unwrap();
    assert!(models.matches(&n2.labels, &n2.name));
    assert!(!models.matches(&n1.labels, &n1.name));
}

#[test]
fn columns_are_found_by_name() {
    let nodes = "model,memory_mib,extra,sn,gpu,cpu_milli\nT4,1024,x,n,2,4000\n";
    let pods = "creation_time,name,num_gpu,memory_mib,cpu_milli\n1,p,1,1,1\n";
    let objects = trace(nodes, pods).unwrap();
    assert_eq!(objects.nodes[0].labels.get("gpu-model"), Some("T4"));
    assert_eq!(objects.pods[0].requests.accounted.scalar("nvidia.com/gpu"), Some(1));
}

#[test]
fn errors_name_file_line_and_column() {
    let cases = [
        (
            NODES.replace("96000", "many"),
            PODS.to_owned(),
            "nodes.csv: line 3, column 2: cpu_milli: expected a whole number from 0 to 4294967295, found \"many\"",
        ),
        (
            NODES.replace("n2", ""),
            PODS.to_owned(),
            "nodes.csv: line 3, column 1: sn: expected a name, found nothing",
        ),
        (
            NODES.replace(",model", ""),
            PODS.to_owned(),
            "nodes.csv: line 1: there is no column \"model\"; the columns are sn, cpu_milli, memory_mib, gpu",
        ),
        (
            NODES.to_owned(),
            PODS.replace(",8,9", ",8"),
            "pods.csv: line 4: expected 11 fields as in the first line, found 10",
        ),
        (
            NODES.to_owned(),
            PODS.replace(",2,1000,", ",-2,1000,"),
            "pods.csv: line 3, column 4: num_gpu: expected a whole number from 0 to 4294967295, found \"-2\"",
        ),
        (
            NODES.to_owned(),
            PODS.replace("\nc,", "\na,"),
            "pods.csv: line 4: pod default/a is given twice, first in pods.csv: line 2",
        ),
        (
            NODES.to_owned(),
            String::new(),
            "pods.csv: line 1: there is no column \"name\"; the columns are ",
        ),
    ];
    for (nodes, pods, expected) in cases {
        assert_eq!(trace(&nodes, &pods).unwrap_err().to_string(), expected);
    }
}

#[test]
fn without_times_of_creation_the_order_of_lines_counts() {
    let pods =
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nz,1,1,1,460\na,2,2,0,0\nm,3,3,2,1000\n";
    let objects = trace(NODES, pods).unwrap();
    let mut in_order: Vec<_> = objects.pods.iter().map(|pod| (pod.created, &*pod.name)).collect();
    in_order.sort();
    let names: Vec<&str> = in_order.iter().map(|(_, name)| *name).collect();
    assert_eq!(names, ["z", "a", "m"]);
    let empty = trace(NODES, "name,cpu_milli,memory_mib,num_gpu,creation_time\nz,1,1,1,\n");
    let text = empty.unwrap_err().to_string();
    assert!(text.contains("creation_time: expected a whole number"), "{text}");
}

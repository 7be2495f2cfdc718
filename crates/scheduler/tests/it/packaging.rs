//! What packaging/ ships, against the binary it is for: configurations are valid, flags exist.

use serde_json::Value;

use crate::{Files, run, stderr, stdout};

fn documents(text: &str) -> Vec<Value> {
    text.split("\n---\n").map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

/// The arguments after the program in a pod's first container.
fn arguments(pod: &Value) -> Vec<String> {
    let command = pod["containers"][0]["command"].as_array().unwrap();
    let mut words = command.iter().map(|word| word.as_str().unwrap().to_owned());
    assert_eq!(words.next().as_deref(), Some("kube-scheduler-rs"));
    words.collect()
}

#[test]
fn the_configuration_of_the_second_scheduler_is_sound() {
    let all = documents(include_str!("../../../../packaging/manifests/second-scheduler.yaml"));
    let config = all.iter().find(|document| document["kind"] == "ConfigMap").unwrap();
    let files = Files::new();
    let path = files.write("config.yaml", config["data"]["config.yaml"].as_str().unwrap());
    let output = run(&["config", "check", "--strict", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let deployment = all.iter().find(|document| document["kind"] == "Deployment").unwrap();
    let args = arguments(&deployment["spec"]["template"]["spec"]);
    assert_eq!(args, ["--config=/etc/kube-scheduler-rs/config.yaml"]);
}

#[test]
fn the_chart_fills_in_a_sound_configuration() {
    let values: Value = serde_saphyr::from_str(include_str!(
        "../../../../packaging/helm/kube-scheduler-rs/values.yaml"
    ))
    .unwrap();
    // What the template adds.
    let mut config = values["config"].clone();
    config["apiVersion"] = "kubescheduler.config.k8s.io/v1".into();
    config["kind"] = "KubeSchedulerConfiguration".into();
    config["leaderElection"] = serde_json::json!({"leaderElect": true, "resourceName": "release", "resourceNamespace": "kube-system"});
    let files = Files::new();
    let path = files.write("config.json", &config.to_string());
    let output = run(&["config", "check", "--strict", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

#[test]
fn the_flags_of_the_static_pod_are_understood() {
    let pod = documents(include_str!("../../../../packaging/manifests/static-pod.yaml")).remove(0);
    let mut args = arguments(&pod["spec"]);
    // What is missing here is the file, and nothing before it.
    let files = Files::new();
    let missing = files.path("scheduler.conf");
    for arg in &mut args {
        *arg = arg.replace("/etc/kubernetes/scheduler.conf", &missing);
    }
    args.push("--secure-port=0".to_owned());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = run(&args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&missing) && said.contains("command failed"), "{said}");
}

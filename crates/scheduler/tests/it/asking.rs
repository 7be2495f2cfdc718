//! Questions end to end: from files, and from a cluster that is read.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::{Files, run, stderr, stdout};

const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '2', memory: 4Gi, pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
spec: {taints: [{key: gpu, effect: NoSchedule}]}
status: {allocatable: {cpu: '4', memory: 4Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: too-large}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: '8'}}}]}
";

const SMALL: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 500m}}}]}
";

/// Runs a command; its exit code and its answer.
fn asked(args: &[&str]) -> (Option<i32>, Value) {
    let output = run(&[args, &["-o", "json"]].concat());
    let answer = serde_json::from_str(&stdout(&output)).unwrap_or(Value::Null);
    (output.status.code(), answer)
}

#[test]
fn a_pod_of_a_dump_and_one_of_a_manifest_are_explained() {
    let files = Files::new();
    let (cluster, small) = (files.write("cluster.yaml", CLUSTER), files.write("small.yaml", SMALL));
    let (code, answer) = asked(&["explain", "default/too-large", "-f", &cluster]);
    assert_eq!((code, &answer["verdict"]), (Some(1), &json!("DoesNotFit")));
    assert_eq!(answer["resourceVersion"], Value::Null, "files are of no revision");
    assert_eq!(answer["rejected"][1]["rejections"][1]["plugin"], "NodeResourcesFit", "{answer}");
    let (code, answer) = asked(&["explain", "-p", &small, "-f", &cluster]);
    assert_eq!((code, &answer["decision"]["node"]), (Some(0), &json!("n1")));
    let output = run(&["explain", "nobody", "-f", &cluster]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("error: there is no pod default/nobody"));
}

#[test]
fn changes_are_tried_and_pods_counted() {
    let files = Files::new();
    let (cluster, small) = (files.write("cluster.yaml", CLUSTER), files.write("small.yaml", SMALL));
    let (code, answer) = asked(&["what-if", "--add", &small, "--cordon", "n1", "-f", &cluster]);
    assert_eq!((code, &answer["fits"]), (Some(1), &json!(false)));
    let open = ["what-if", "--add", &small, "--uncordon", "n1", "--cordon", "n1", "-f", &cluster];
    let (code, answer) = asked(&open);
    assert_eq!((code, &answer["placements"][0]["node"]), (Some(0), &json!("n1")));
    let more = ["what-if", "--add", &small, "--cordon", "n1", "--nodes-like", "n1=1"];
    let (code, answer) = asked(&[&more[..], &["-f", &cluster]].concat());
    assert_eq!((code, &answer["placements"][0]["node"]), (Some(0), &json!("n1-like-1")));
    let (code, answer) = asked(&["capacity", "-p", &small, "-f", &cluster]);
    assert_eq!((code, &answer["count"]), (Some(0), &json!(4)));
    let (code, _) = asked(&["capacity", "-p", &small, "--at-least", "5", "-f", &cluster]);
    assert_eq!(code, Some(1));
    let output = run(&["drain", "n9", "-f", &cluster]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("error: there is no node \"n9\""), "{}", stderr(&output));
}

#[test]
fn a_manifest_may_have_the_name_of_a_pod_of_the_cluster() {
    let files = Files::new();
    let cluster = files.write("cluster.yaml", CLUSTER);
    let smaller = files.write("smaller.yaml", &SMALL.replace("small", "too-large"));
    let (code, answer) = asked(&["explain", "-p", &smaller, "-f", &cluster]);
    assert_eq!((code, &answer["decision"]["node"]), (Some(0), &json!("n1")));
    let (code, answer) = asked(&["capacity", "-p", &smaller, "-f", &cluster]);
    assert_eq!((code, &answer["count"]), (Some(0), &json!(4)));
    let output = run(&["what-if", "--add", &smaller, "-f", &cluster]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("pod default/too-large exists already"));
    let instead = ["what-if", "--delete-pod", "default/too-large", "--add", &smaller];
    let (code, answer) = asked(&[&instead[..], &["-f", &cluster]].concat());
    assert_eq!((code, &answer["placements"][0]["node"]), (Some(0), &json!("n1")));
}

#[test]
fn another_configuration_is_tried() {
    let files = Files::new();
    let node = |name: &str, cpu: u32| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {{allocatable: {{cpu: '{cpu}', memory: 4Gi, pods: '10'}}}}\n---\n"
        )
    };
    let cluster =
        files.write("cluster.yaml", &[&node("large", 8), &node("tight", 1), SMALL].concat());
    let packed = files.write(
        "packed.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]
",
    );
    let (code, answer) = asked(&["what-if", "--with-config", &packed, "-f", &cluster]);
    let [placement] = &answer["placements"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!((code, &placement["node"]), (Some(0), &json!("tight")), "{answer}");
    assert_eq!(placement["insteadOf"], "large", "{answer}");
    let output = run(&["what-if", "--with-config", "nowhere.yaml", "-f", &cluster]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("nowhere.yaml"), "{}", stderr(&output));
}

#[test]
fn nodes_to_drain_may_be_chosen_by_labels() {
    let files = Files::new();
    let node = |name: &str, zone: &str| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{zone: {zone}}}}}\nstatus: {{allocatable: {{cpu: '2', memory: 4Gi, pods: '10'}}}}\n---\n"
        )
    };
    let owner = "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r, controller: true}]";
    let running = SMALL
        .replace("{name: small}", &format!("{{name: small, {owner}}}"))
        .replace("containers", "nodeName: n1, containers");
    let nodes = [node("n1", "a"), node("n2", "a"), node("n3", "b")].concat();
    let cluster = files.write("cluster.yaml", &format!("{nodes}{running}"));
    let (code, answer) = asked(&["drain", "-l", "zone=a", "-f", &cluster]);
    assert_eq!((code, &answer["placements"][0]["node"]), (Some(0), &json!("n3")), "{answer}");
    let (code, _) = asked(&["drain", "n3", "-l", "zone in (a)", "-f", &cluster]);
    assert_eq!(code, Some(1));
    for (selector, problem) in [("zone=c", "no node has the labels"), ("zone in", "invalid value")]
    {
        let output = run(&["drain", "-l", selector, "-f", &cluster]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(problem), "{}", stderr(&output));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, problem) in [
        (&["capacity", "-p", "p.yaml", "--at-least", "3000000"][..], "expected 1 to 1000000"),
        (&["capacity", "-p", "p.yaml", "--max", "0"], "expected 1 to 1000000"),
        (&["what-if", "--nodes-like", "n1=0"], "expected at least one node"),
        (&["what-if", "--label", "n1:a b=c"], "invalid value"),
        (&["what-if", "--taint", "n1:a=b c:NoSchedule"], "invalid value"),
        (&["explain", "-p", "-"], "standard input (-) can be read once"),
        (&["drain", "-l", ""], "expected labels, such as"),
        (&["fragmentation", "--by", ""], "invalid value"),
    ] {
        let output = run(&[args, &["-f", "-"]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(problem), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_group_in_a_question_is_a_change() {
    let files = Files::new();
    let member = SMALL
        .replace("{name: small}", "{name: member}")
        .replace("spec: {", "spec: {schedulingGroup: {podGroupName: g}, ");
    let group = "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: g}\nspec: {schedulingPolicy: {gang: {minCount: 1}}}\n";
    let cluster = files.write("cluster.yaml", &format!("{CLUSTER}---\n{member}"));
    let group = files.write("group.yaml", group);
    let gates = ["--feature-gates", "GenericWorkload=true,GangScheduling=true"];
    let (_, answer) = asked(&[&["what-if", "--add", &group, "-f", &cluster], &gates[..]].concat());
    let [placement] = &answer["placements"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!(placement["pod"], "default/member", "it waited for its group: {answer}");
}

#[test]
fn what_a_question_leaves_out_is_said() {
    let files = Files::new();
    let cluster = files.write("cluster.yaml", CLUSTER);
    let rollout = "---\napiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: r}\n";
    let lost = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: lost}\nspec: {nodeName: nowhere, containers: [{name: c}]}\n";
    let ended = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: ended}\nspec: {containers: [{name: c}]}\nstatus: {phase: Succeeded}\n";
    let added = files.write("added.yaml", &[SMALL, rollout, lost, ended].concat());
    let taint = ["--taint", "n1:bad:NoExecute"];
    let args = [&["what-if", "--add", &added, "-f", &cluster], &taint[..]].concat();
    let output = run(&args);
    for text in ["Rollout r: this kind is not known", "pod default/ended has ended"] {
        assert!(stderr(&output).contains(text), "{}", stderr(&output));
    }
    let (_, answer) = asked(&args);
    let warnings = answer["warnings"].to_string();
    for text in ["bound to node nowhere", "taint bad of node n1: pods that run there stay"] {
        assert!(warnings.contains(text), "{warnings}");
    }
}

#[test]
fn a_cluster_is_read_and_not_changed() {
    let files = Files::new();
    let cluster = Cluster::start(&files, &["--nodes", "3"]);
    cluster.create_pods(2);
    let small = files.write("small.yaml", SMALL);
    let before = cluster.call("GET", "/api/v1/pods", &Value::Null);
    let source = ["--kubeconfig", &cluster.kubeconfig];
    let (code, answer) = asked(&[&["what-if", "--add", &small], &source[..]].concat());
    assert_eq!((code, &answer["kind"]), (Some(0), &json!("WhatIf")), "{answer}");
    let name = before["items"][0]["metadata"]["name"].as_str().unwrap();
    let namespace = before["items"][0]["metadata"]["namespace"].as_str().unwrap();
    let pod = format!("{namespace}/{name}");
    let (code, answer) = asked(&[&["explain", &pod], &source[..]].concat());
    assert_eq!((code, &answer["nodes"]), (Some(0), &json!(3)), "{answer}");
    let after = cluster.call("GET", "/api/v1/pods", &Value::Null);
    assert_eq!(before["items"], after["items"]);
    // Which is that of the newest object of any kind.
    let newest = || {
        let lists = ["pods", "nodes", "namespaces"]
            .map(|kind| cluster.call("GET", &format!("/api/v1/{kind}"), &Value::Null));
        let items = lists.iter().flat_map(|list| list["items"].as_array().unwrap());
        let versions = items.map(|item| item["metadata"]["resourceVersion"].as_str().unwrap());
        versions.map(|version| version.parse::<u64>().unwrap()).max().unwrap()
    };
    let at_first = newest();
    let (_, answer) = asked(&[&["explain", &pod], &source[..]].concat());
    let version: u64 = answer["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert!((at_first..=newest()).contains(&version), "{version}: {answer:#}");
    let output = run(&[&["explain", &pod], &source[..], &["--context", "nowhere"]].concat());
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn victims_blocked_pods_and_shortages_have_codes() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/answers");
    let file = |name: &str| format!("{data}/{name}.yaml");
    let (cluster, budgets) = (file("cluster"), file("budgets"));
    let files = ["-f", &cluster, "-f", &budgets];
    let urgent = file("urgent");
    let (code, answer) = asked(&[&["preempt", "-p", &urgent], &files[..]].concat());
    assert_eq!((code, &answer["kind"]), (Some(0), &json!("Preemption")), "{answer}");
    assert_eq!(answer["victims"][0]["pod"], "default/api-0");
    assert_eq!(answer["choice"], json!({"runnerUp": "worker-2", "decidedBy": "PrioritySum"}));
    assert_eq!(answer["candidates"][2]["victims"][1]["violates"], json!(["cache"]), "{answer}");
    let (code, answer) = asked(&[&["preempt", "default/web"], &files[..2]].concat());
    assert_eq!((code, &answer["verdict"]), (Some(1), &json!("DoesNotFit")));
    assert_eq!(answer["inVain"][0]["code"], "NoVictims");
    let (code, answer) = asked(&[&["drain", "worker-4"], &files[..]].concat());
    assert_eq!((code, &answer["rounds"]), (Some(1), &json!(2)), "{answer}");
    assert_eq!(answer["blocked"][0]["code"], "NoDisruptionsAllowed");
    let at_once = ["drain", "worker-4", "--disable-eviction"];
    let (code, answer) = asked(&[&at_once[..], &files[..]].concat());
    assert_eq!((code, &answer["fits"]), (Some(0), &json!(true)), "{answer}");
    let what_if = ["what-if", "--drain", "worker-4"];
    let (code, answer) = asked(&[&what_if[..], &files[..]].concat());
    assert_eq!((code, &answer["blocked"][0]["budgets"]), (Some(1), &json!(["db"])), "{answer}");
    let devices = file("devices");
    let waiting = file("waiting");
    let (code, answer) = asked(&["explain", "default/later", "-f", &cluster, "-f", &waiting]);
    let verdicts = (&answer["verdict"], &answer["withoutGates"]);
    assert_eq!((code, verdicts), (Some(1), (&json!("Gated"), &json!("Fits"))), "{answer}");
    let (code, answer) = asked(&["explain", "default/training-1", "-f", &devices]);
    let shortage = &answer["rejected"][0]["shortages"][0];
    assert_eq!((code, &shortage["plugin"]), (Some(1), &json!("DynamicResources")), "{answer}");
    assert_eq!((&shortage["needed"], &shortage["mostLeft"]), (&json!(2), &json!(1)));
    let lost = shortage["lost"].as_array().unwrap();
    let n_lost: u64 = lost.iter().map(|lost| lost["count"].as_u64().unwrap()).sum();
    assert_eq!(shortage["present"], n_lost + 2, "one is left on each of two nodes");
}

#[test]
fn the_schema_is_the_one_that_is_checked_in() {
    let output = run(&["answers-schema"]);
    let recorded = include_str!("../../../answers/schema/v1alpha1.json");
    assert!(stdout(&output) == recorded);
    let schema: Value = serde_json::from_str(recorded).unwrap();
    let one_of = schema["anyOf"].as_array().unwrap();
    let kinds = ["Explanation", "Preemption", "WhatIf", "Capacity", "Queue", "Fragmentation"];
    for kind in kinds {
        let reference = format!("#/$defs/{kind}");
        assert!(one_of.contains(&json!({"$ref": reference})), "{kind}");
        assert_eq!(schema["$defs"][kind]["properties"]["kind"], json!({"const": kind}));
    }
    assert_eq!(one_of.len(), kinds.len() + 1, "and the question");
}

/// The tour in `docs/answers.md` shows what the commands really print.
#[test]
fn the_tour_is_what_is_printed() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let tour = std::fs::read_to_string(format!("{root}/docs/answers.md")).unwrap();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/answers");
    let mut n_shown = 0;
    for block in tour.split("```console\n$ kube-scheduler-rs ").skip(1) {
        let (shown, _) = block.split_once("\n```").unwrap();
        let (command, expected) = shown.split_once('\n').unwrap();
        let args: Vec<String> = command
            .split(' ')
            .map(|arg| match arg.ends_with(".yaml") {
                true => format!("{data}/{arg}"),
                false => arg.to_owned(),
            })
            .collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = run(&args);
        assert_eq!(stdout(&output).trim_end(), expected, "{command}: {}", stderr(&output));
        n_shown += 1;
    }
    assert_eq!(n_shown, 15);
}

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 500m}}}]}
";

#[test]
fn replicas_that_are_alike_are_one_question_about_a_pod() {
    let files = Files::new();
    let cluster = files.write("cluster.yaml", CLUSTER);
    let many = files.write("many.yaml", &DEPLOYMENT.replace("replicas: 3", "replicas: 20000"));
    for command in ["explain", "preempt"] {
        let output = run(&[command, "-p", &many, "-f", &cluster, "-o", "json"]);
        let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(answer["verdict"], "Fits", "{answer}");
        let said = stderr(&output);
        assert!(
            said.contains("stands for 20000 replicas, each by itself as things are now: `what-if --add` places them together"),
            "{said}"
        );
    }
    let web = files.write("web.yaml", DEPLOYMENT);
    let (code, answer) = asked(&["capacity", "-p", &web, "-f", &cluster]);
    assert_eq!((code, &answer["count"]), (Some(0), &json!(4)), "{answer}");
    let both = files.write("both.yaml", &format!("{DEPLOYMENT}---\n{SMALL}"));
    let output = run(&["capacity", "-p", &both, "-f", &cluster]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("both.yaml: expected one pod, or replicas of one template; found "),
        "{said}"
    );
    assert!(
        said.contains("3 pods of ReplicaSet default/web-") && said.contains("pod default/small"),
        "{said}"
    );
}

#[test]
fn workloads_without_pods_are_said_to_be_that() {
    let files = Files::new();
    let cluster = files.write("cluster.yaml", CLUSTER);
    let with = |replicas: &str| DEPLOYMENT.replace("replicas: 3", replicas);
    let none = files.write("none.yaml", &with("replicas: 0"));
    let negative = files.write("negative.yaml", &with("replicas: -1"));
    for command in
        [&["explain", "-p"][..], &["preempt", "-p"], &["capacity", "-p"], &["what-if", "--add"]]
    {
        for (manifest, needed) in [
            (&none, "the manifests stand for no pod (replicas 0"),
            (&negative, "Deployment default/web: spec.replicas: expected 0 or more, found -1"),
        ] {
            let output = run(&[command, &[manifest, "-f", &cluster]].concat());
            assert_eq!(output.status.code(), Some(2), "{command:?}");
            assert!(stderr(&output).contains(needed), "{command:?}: {}", stderr(&output));
        }
    }
    // Those of the cluster have the pods that are given.
    let web = files.write("web.yaml", DEPLOYMENT);
    let output = run(&["queue", "-f", &cluster, "-f", &web]);
    let warning = "warning: 1 controller in the given files has no pods there: controllers do not run; ask with --add or --pods";
    assert!(stderr(&output).contains(warning), "{}", stderr(&output));
    assert!(
        !stderr(&run(&["queue", "-f", &cluster, "-f", &none])).contains("controllers do not run")
    );
}

#[test]
fn a_pod_that_is_not_there_is_looked_for_elsewhere() {
    let files = Files::new();
    let ended = SMALL.replace("small}", "done}") + "status: {phase: Succeeded}\n";
    let there = SMALL.replace("small}", "web, namespace: shop}");
    let cluster = files.write("cluster.yaml", &[CLUSTER, &ended, &there].join("---\n"));
    for (command, needed) in [
        (
            &["explain", "done"][..],
            "error: pod default/done has ended (Succeeded): it is not scheduled any more",
        ),
        (&["preempt", "done"], "pod default/done has ended"),
        (&["what-if", "--delete-pod", "done"], "pod default/done has ended"),
        (
            &["explain", "web"],
            "there is no pod default/web; there is one of this name in namespace shop",
        ),
        (
            &["explain", "deployment/web"],
            "there is no pod deployment/web; deployment/web means pod web of namespace deployment: ",
        ),
    ] {
        let output = run(&[command, &["-f", &cluster]].concat());
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(stderr(&output).contains(needed), "{command:?}: {}", stderr(&output));
    }
    let (_, answer) = asked(&["explain", "pod/too-large", "-f", &cluster]);
    assert_eq!(answer["pod"], "default/too-large");
    let (_, answer) = asked(&["explain", "pods/web", "-n", "shop", "-f", &cluster]);
    assert_eq!(answer["pod"], "shop/web");
}

#[test]
fn a_namespace_that_is_given_is_that_of_the_manifests() {
    let files = Files::new();
    let cluster = files.write("cluster.yaml", CLUSTER);
    let small = files.write("small.yaml", &SMALL.replace("small}", "small, namespace: shop}"));
    for command in [&["explain", "-p"][..], &["capacity", "-p"], &["what-if", "--add"]] {
        let command = [command, &[&small, "-f", &cluster]].concat();
        assert_eq!(run(&command).status.code(), Some(0), "{command:?}");
        assert_eq!(run(&[&command[..], &["-n", "shop"]].concat()).status.code(), Some(0));
        let refused = run(&[&command[..], &["-n", "park"]].concat());
        assert_eq!(refused.status.code(), Some(2), "{command:?}");
        let said = stderr(&refused);
        let needed = "pod shop/small: metadata.namespace: \"shop\" does not match the namespace that was given, \"park\"";
        assert!(said.contains(needed), "{said}");
    }
}

const IN_VAIN: &str = "--exact-gangs has no effect without the feature gate GangScheduling or the plugin Coscheduling";

/// Together they fit on the two nodes only if the large one does not take the node that both small ones need.
#[test]
fn gangs_are_planned_as_a_whole_if_that_is_asked_for() {
    let files = Files::new();
    let node = |name: &str, cpu: u32| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {{allocatable: {{cpu: '{cpu}', memory: 64Gi, pods: '10'}}}}\n---\n"
        )
    };
    let member = |name: &str, cpu: u32| {
        SMALL
            .replace("{name: small}", &format!("{{name: {name}}}"))
            .replace("500m", &format!("'{cpu}'"))
            .replace("spec: {", "spec: {schedulingGroup: {podGroupName: g}, ")
            + "---\n"
    };
    let group = "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: g}\nspec: {schedulingPolicy: {gang: {minCount: 3}}}\n";
    // One by one the first takes the emptier node, which the last one needs.
    let members = [member("a", 2), member("b", 2), member("c", 4)].concat();
    let cluster =
        files.write("cluster.yaml", &[&node("n1", 5), &node("n2", 4), &*members, group].concat());
    let gates = ["--feature-gates", "GenericWorkload=true,GangScheduling=true"];
    let command = [&["explain", "a", "-f", &cluster], &gates[..]].concat();
    let (code, answer) = asked(&command);
    assert_eq!((code, &answer["verdict"]), (Some(1), &json!("DoesNotFit")), "{answer:#}");
    let (code, answer) = asked(&[&command[..], &["--exact-gangs"]].concat());
    assert_eq!((code, &answer["verdict"]), (Some(0), &json!("Fits")), "{answer:#}");
    // Without gangs it changes nothing, which the scheduler says in the same words when it starts.
    let said = stderr(&run(&["explain", "a", "-f", &cluster, "--exact-gangs"]));
    assert!(said.contains(&format!("warning: {IN_VAIN}\n")), "{said}");
    let output = run(&["simulate", "-f", &cluster, "--exact-gangs", "-o", "json"]);
    assert!(stderr(&output).contains(&format!("warning: {IN_VAIN}\n")), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(report["warnings"].as_array().unwrap().contains(&json!(IN_VAIN)), "{report:#}");
    let said = stderr(&run(&[&command[..], &["--exact-gangs"]].concat()));
    assert!(!said.contains("has no effect"), "{said}");
    // It is enough that one of two configurations knows gangs.
    let other = files.write(
        "other.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         profiles: [{plugins: {multiPoint: {enabled: [{name: Coscheduling}]},\n  \
         queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: '*'}]}}}]\n",
    );
    for (flags, warns) in [(&["--cordon", "n1"][..], true), (&["--with-config", &other], false)] {
        let command = [&["what-if", "-f", &cluster, "--exact-gangs"], flags].concat();
        let said = stderr(&run(&command));
        assert_eq!(said.contains(IN_VAIN), warns, "{command:?}: {said}");
        assert!(said.contains("answered here"), "{command:?}: {said}");
    }
    let both = run(&["queue", "--exact-gangs", "--live", "--kubeconfig", &files.write("c", "{}")]);
    assert_eq!(both.status.code(), Some(2));
    assert!(stderr(&both).contains("--exact-gangs are for answers that are given here"));
}

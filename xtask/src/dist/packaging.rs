//! Tests of packaging/: that the manifests are what they say they are, and that the chart is sound.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{CHART, MANIFESTS};
use crate::process;

fn path(relative: &str) -> PathBuf {
    process::root().unwrap().join(relative)
}

fn text(relative: &str) -> String {
    fs::read_to_string(path(relative)).unwrap_or_else(|error| panic!("{relative}: {error}"))
}

fn documents(yaml: &str) -> Vec<Value> {
    let parts =
        yaml.split("\n---\n").filter(|part| part.lines().any(|line| !line.starts_with('#')));
    parts
        .map(|part| serde_saphyr::from_str(part).unwrap_or_else(|error| panic!("{error}: {part}")))
        .collect()
}

fn manifest(file: &str) -> Vec<Value> {
    documents(&text(&format!("{MANIFESTS}/{file}")))
}

fn named<'a>(documents: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it =
        |document: &&Value| document["kind"] == kind && document["metadata"]["name"] == name;
    documents.iter().find(is_it).unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// One right: group, resource, name or `*`, verb.
type Right = (String, String, String, String);

/// What rules allow, taken apart.
fn rights(rules: &Value) -> BTreeSet<Right> {
    let texts = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    };
    let mut rights = BTreeSet::new();
    for rule in rules.as_array().unwrap() {
        let names = Some(texts(&rule["resourceNames"])).filter(|names| !names.is_empty());
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for name in names.clone().unwrap_or_else(|| vec!["*".to_owned()]) {
                    for verb in texts(&rule["verbs"]) {
                        rights.insert((group.clone(), resource.clone(), name.clone(), verb));
                    }
                }
            }
        }
    }
    rights
}

/// The rules that kube-scheduler v1.36 has in every cluster: groups, resources, names, verbs. `,` separates; the core
/// group is `core`; `LEASE` is the name of the lease.
const SYSTEM_KUBE_SCHEDULER: &str = "\
core,events.k8s.io events * create,patch,update
coordination.k8s.io leases * create
coordination.k8s.io leases LEASE get,list,update,watch
coordination.k8s.io leasecandidates * create,delete,deletecollection,get,list,patch,update,watch
core nodes * get,list,watch
core pods * delete,get,list,watch
core bindings,pods/binding * create
core pods/status * patch,update
core replicationcontrollers,services * get,list,watch
apps,extensions replicasets * get,list,watch
apps statefulsets * get,list,watch
policy poddisruptionbudgets * get,list,watch
core persistentvolumeclaims,persistentvolumes * get,list,watch
authentication.k8s.io tokenreviews * create
authorization.k8s.io subjectaccessreviews * create
storage.k8s.io csinodes,volumeattachments,csidrivers,csistoragecapacities * get,list,watch
core namespaces * get,list,watch
resource.k8s.io deviceclasses,resourceslices * get,list,watch
resource.k8s.io resourceclaims,resourceclaims/status * get,list,patch,update,watch
core pods/finalizers * update
resource.k8s.io resourceclaims * create,delete
resource.k8s.io devicetaintrules * get,list,watch
resource.k8s.io resourceclaims/binding * patch,update
scheduling.k8s.io podgroups * get,list,watch
scheduling.k8s.io podgroups/status * patch,update";

const SYSTEM_VOLUME_SCHEDULER: &str = "\
core persistentvolumes,persistentvolumeclaims * get,list,patch,update,watch
storage.k8s.io storageclasses * get,list,watch";

fn table(lines: &str) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for line in lines.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &[groups, resources, name, verbs] = words.as_slice() else { panic!("{line}") };
        let name = if name == "LEASE" { "kube-scheduler-rs" } else { name };
        for group in groups.split(',').map(|group| if group == "core" { "" } else { group }) {
            for resource in resources.split(',') {
                for verb in verbs.split(',') {
                    rights.insert((group.into(), resource.into(), name.into(), verb.into()));
                }
            }
        }
    }
    rights
}

#[test]
fn roles_are_those_of_kube_scheduler() {
    let features = manifest("rbac-features.yaml");
    let of_features = features.iter().filter(|document| document["kind"] == "ClusterRole");
    let of_features = of_features.flat_map(|role| rights(&role["rules"]));
    let rbac = [manifest("rbac.yaml"), features.clone()].concat();
    let rules = |name| rights(&named(&rbac, "ClusterRole", name)["rules"]);
    // What the plugin Coscheduling reads, which the reference does not have.
    let additions = table("scheduling.x-k8s.io podgroups * get,list,watch");
    let expected: BTreeSet<Right> =
        table(SYSTEM_KUBE_SCHEDULER).into_iter().chain(additions).collect();
    let all: BTreeSet<Right> = rules("kube-scheduler-rs").into_iter().chain(of_features).collect();
    assert_eq!(all, expected);
    assert_eq!(rules("kube-scheduler-rs-volumes"), table(SYSTEM_VOLUME_SCHEDULER));
    // Less than the reference's, which may touch every lease of the namespace.
    let leasing = rights(&named(&rbac, "Role", "kube-scheduler-rs-leader-election")["rules"]);
    assert!(leasing.iter().all(|(group, ..)| group == "coordination.k8s.io"));
    let reader = named(&rbac, "RoleBinding", "kube-scheduler-rs-authentication-reader");
    assert_eq!(reader["roleRef"]["name"], "extension-apiserver-authentication-reader");
    assert_eq!(reader["metadata"]["namespace"], "kube-system");
    for binding in rbac.iter().filter(|document| document["roleRef"].is_object()) {
        let subject = &binding["subjects"][0];
        assert_eq!(
            (&subject["kind"], &subject["name"]),
            (&"ServiceAccount".into(), &"kube-scheduler-rs".into())
        );
        let (kind, name) = (
            binding["roleRef"]["kind"].as_str().unwrap(),
            binding["roleRef"]["name"].as_str().unwrap(),
        );
        if name != "extension-apiserver-authentication-reader" {
            named(&rbac, kind, name);
        }
    }
}

/// What kubeadm v1.36 writes, with its own image and command.
const KUBEADM: &str = include_str!("kubeadm.yaml");

#[test]
fn the_static_pod_is_kubeadms_with_image_command_and_fewer_rights() {
    let mut theirs = documents(KUBEADM).remove(0);
    let ours = manifest("static-pod.yaml").remove(0);
    let container = |pod: &Value| pod["spec"]["containers"][0].clone();
    assert_eq!(container(&theirs)["command"][0], "kube-scheduler");
    assert_eq!(container(&ours)["command"][0], "kube-scheduler-rs");
    assert_ne!(container(&theirs)["image"], container(&ours)["image"]);
    theirs["spec"]["containers"][0]["image"] = container(&ours)["image"].clone();
    theirs["spec"]["containers"][0]["command"][0] = "kube-scheduler-rs".into();
    theirs["spec"]["containers"][0]["resources"]["requests"]["memory"] = "128Mi".into();
    theirs["spec"]["containers"][0]["resources"]["limits"] = json!({"memory": "2Gi"});
    theirs["spec"]["containers"][0]["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true});
    assert_eq!(theirs, ours);
}

#[test]
fn two_instances_keep_apart_and_survive_a_drain() {
    let all = manifest("second-scheduler.yaml");
    let deployment = &named(&all, "Deployment", "kube-scheduler-rs")["spec"];
    let pod = &deployment["template"]["spec"];
    assert_eq!(deployment["replicas"], 2);
    assert_eq!(
        deployment["selector"]["matchLabels"],
        named(&all, "PodDisruptionBudget", "kube-scheduler-rs")["spec"]["selector"]["matchLabels"]
    );
    let required =
        &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(required["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(
        (&pod["securityContext"]["runAsNonRoot"], &pod["schedulerName"]),
        (&true.into(), &"default-scheduler".into())
    );
    let config =
        named(&all, "ConfigMap", "kube-scheduler-rs")["data"]["config.yaml"].as_str().unwrap();
    let config: Value = serde_saphyr::from_str(config).unwrap();
    assert_eq!(config["leaderElection"]["resourceName"], "kube-scheduler-rs");
    // The name that the roles allow.
    let rbac = manifest("rbac.yaml");
    let account = pod["serviceAccountName"].as_str().unwrap();
    named(&rbac, "ServiceAccount", account);
}

/// The templates of the chart by file name.
fn templates() -> BTreeMap<String, String> {
    let entries = fs::read_dir(path(CHART).join("templates")).unwrap();
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    };
    entries.map(read).collect()
}

/// What stands between `{{` and `}}`, without trim marks.
fn actions(template: &str) -> Vec<String> {
    let mut parts = template.split("{{");
    parts.next();
    let inner = |part: &str| {
        let (action, _) =
            part.split_once("}}").unwrap_or_else(|| panic!("unclosed action: {part:.80}"));
        action.trim_matches(|c: char| c == '-' || c.is_whitespace()).to_owned()
    };
    parts.map(inner).collect()
}

#[test]
fn templates_close_what_they_open_and_name_what_exists() {
    let values: Value = serde_saphyr::from_str(&text(&format!("{CHART}/values.yaml"))).unwrap();
    let all = templates();
    let defined: BTreeSet<String> = all
        .values()
        .flat_map(|template| actions(template))
        .filter_map(|action| Some(action.strip_prefix("define ")?.trim_matches('"').to_owned()))
        .collect();
    for (file, template) in &all {
        let mut depth = 0_i32;
        for action in actions(template) {
            let word = action.split_whitespace().next().unwrap_or_default();
            depth += match word {
                "if" | "with" | "range" | "define" => 1,
                "end" => -1,
                _ => 0,
            };
            assert!(depth >= 0, "{file}: `end` without a beginning");
            for piece in action.split(|c: char| c.is_whitespace() || "()|".contains(c)) {
                let Some(key) = piece.strip_prefix(".Values.") else { continue };
                let found = key.split('.').try_fold(&values, |value, part| value.get(part));
                assert!(found.is_some(), "{file}: {piece} is not in values.yaml");
            }
            let mut rest = action.as_str();
            while let Some((_, after)) = rest.split_once("include \"") {
                let (name, after) = after.split_once('"').unwrap();
                assert!(defined.contains(name), "{file}: {name} is not defined");
                rest = after;
            }
        }
        assert_eq!(depth, 0, "{file}: something is not closed");
    }
}

#[test]
fn the_schema_knows_the_values() {
    let values: Value = serde_saphyr::from_str(&text(&format!("{CHART}/values.yaml"))).unwrap();
    let schema: Value =
        serde_json::from_str(&text(&format!("{CHART}/values.schema.json"))).unwrap();
    fn check(path: &str, value: &Value, schema: &Value) {
        let types: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one.as_str()],
            Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let actual = match value {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "integer",
            Value::Null => "null",
        };
        assert!(types.is_empty() || types.contains(&actual), "{path} is {actual}, not {types:?}");
        let is_closed = schema["additionalProperties"] == false;
        for (key, value) in value.as_object().into_iter().flatten() {
            match schema["properties"].get(key) {
                Some(schema) => check(&format!("{path}.{key}"), value, schema),
                None => assert!(!is_closed, "{path}.{key} is not in the schema"),
            }
        }
        let known = schema["properties"].as_object().into_iter().flatten();
        for (key, _) in
            known.filter(|(key, schema)| is_closed && *schema != false && *key != "global")
        {
            assert!(value.get(key).is_some(), "{path}.{key} is in the schema only");
        }
    }
    check("values", &values, &schema);
}

#[test]
fn the_chart_gives_the_rights_of_the_manifests() {
    let lines = |text: &str, from: &str| -> Vec<String> {
        let part = text.split_once(from).unwrap().1.split("\n---\n").next().unwrap();
        let lease = "{{ include \"scheduler.lease\" . | quote }}";
        // Rights for features that are off are in another manifest.
        let mut is_of_feature = false;
        let is_usual = |line: &&str| {
            let is_left_out = is_of_feature || line.starts_with("{{- if .Values.rbac.features.");
            is_of_feature = is_left_out && *line != "{{- end }}";
            !is_left_out && !line.is_empty()
        };
        let usual = part.lines().filter(is_usual);
        usual.map(|line| line.replace(lease, "kube-scheduler-rs")).collect()
    };
    let (ours, chart) =
        (text(&format!("{MANIFESTS}/rbac.yaml")), text(&format!("{CHART}/templates/rbac.yaml")));
    for role in 0..3 {
        let from = |text: &str| {
            let at = text.match_indices("\nrules:\n").nth(role).unwrap().0;
            lines(&text[at..], "rules:\n")
        };
        assert_eq!(from(&chart), from(&ours), "role {role}");
    }
}

#[test]
fn rights_for_features_that_are_off_are_left_out() {
    let values: Value = serde_saphyr::from_str(&text(&format!("{CHART}/values.yaml"))).unwrap();
    let features = values["rbac"]["features"].as_object().unwrap();
    assert!(features.values().all(|is_on| *is_on == false));
    let template = text(&format!("{CHART}/templates/rbac.yaml"));
    let mut guarded: BTreeMap<String, BTreeSet<Right>> = BTreeMap::new();
    for part in template.split("{{- if .Values.rbac.features.").skip(1) {
        let (feature, rest) = part.split_once(" }}\n").unwrap();
        let rules = rest.split_once("{{- end }}").unwrap().0;
        let rules: Value = serde_saphyr::from_str(rules).unwrap();
        guarded.entry(feature.to_owned()).or_default().extend(rights(&rules));
    }
    assert_eq!(guarded.keys().collect::<Vec<_>>(), features.keys().collect::<Vec<_>>());
    let (rbac, of_features) = (manifest("rbac.yaml"), manifest("rbac-features.yaml"));
    let usual = rights(&named(&rbac, "ClusterRole", "kube-scheduler-rs")["rules"]);
    for (feature, name, resources) in [
        ("podGroups", "pod-groups", &["podgroups", "podgroups/status"][..]),
        ("coscheduling", "coscheduling", &["podgroups"]),
        ("leaseCandidates", "lease-candidates", &["leasecandidates"]),
        ("deviceTaintRules", "device-taint-rules", &["devicetaintrules"]),
    ] {
        let rights_of = &guarded[feature];
        let named_by: BTreeSet<&str> =
            rights_of.iter().map(|(_, resource, ..)| resource.as_str()).collect();
        let expected: BTreeSet<&str> = resources.iter().copied().collect();
        assert_eq!(named_by, expected, "{feature}");
        assert!(usual.is_disjoint(rights_of), "{feature} is not left out of the manifest");
        let role = format!("kube-scheduler-rs-{name}");
        let role = named(&of_features, "ClusterRole", &role);
        assert_eq!(rights(&role["rules"]), *rights_of, "{feature}");
        assert_eq!(role["metadata"]["labels"]["kube-scheduler-rs/feature"], name);
    }
    let n_roles = of_features.iter().filter(|document| document["kind"] == "ClusterRole").count();
    assert_eq!((n_roles, of_features.len()), (guarded.len(), 2 * guarded.len()));
}

#[test]
fn containers_are_confined() {
    let all = manifest("second-scheduler.yaml");
    let manifest = &named(&all, "Deployment", "kube-scheduler-rs")["spec"]["template"]["spec"];
    let container = &manifest["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    let values: Value = serde_saphyr::from_str(&text(&format!("{CHART}/values.yaml"))).unwrap();
    assert_eq!(container["resources"], values["resources"], "the chart's are the manifest's");
    assert!(container["resources"]["limits"]["memory"].is_string());
    let deployment = text(&format!("{CHART}/templates/deployment.yaml"));
    for line in ["readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false", "drop: [ALL]"] {
        assert!(deployment.contains(line), "{line} is missing in the chart");
    }
    // Nothing is opened that was not closed before, and the port is the container's.
    let policy = text(&format!("{CHART}/templates/networkpolicy.yaml"));
    assert_eq!(values["networkPolicy"]["enabled"], false);
    assert!(policy.contains("port: https") && deployment.contains("- name: https"));
}

#[test]
fn base_images_are_arguments_that_name_them_by_digest() {
    let text = text("packaging/Containerfile");
    let mut arguments = BTreeSet::new();
    for line in text.lines() {
        if let Some(argument) = line.strip_prefix("ARG ") {
            let (name, image) = argument.split_once('=').unwrap();
            let digest =
                image.split_once("@sha256:").unwrap_or_else(|| panic!("{image}: no digest")).1;
            let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            assert!(digest.len() == 64 && digest.chars().all(is_hex), "{image}: not a digest");
            arguments.insert(format!("${{{name}}}"));
        }
        if let Some(image) = line.strip_prefix("FROM ") {
            let image = image.split(' ').next().unwrap_or_default();
            assert!(arguments.contains(image), "{line}: not an argument");
        }
    }
    assert_eq!(arguments.len(), 3, "the builder and both bases");
}

#[test]
fn versions_are_one() {
    let metadata = crate::metadata::load().unwrap();
    let version = crate::metadata::members(&metadata)[super::PACKAGE].version.to_string();
    let chart: Value = serde_saphyr::from_str(&text(&format!("{CHART}/Chart.yaml"))).unwrap();
    assert_eq!(
        (&chart["version"], &chart["appVersion"]),
        (&version.as_str().into(), &version.as_str().into())
    );
    let image = format!("kube-scheduler-rs:{version}");
    assert!(
        text(&format!("{MANIFESTS}/second-scheduler.yaml")).contains(&image),
        "no image {image}"
    );
}

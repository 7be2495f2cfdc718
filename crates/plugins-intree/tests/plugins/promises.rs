//! Every plugin keeps what it promises about kept answers, in a small cluster with something of everything.

use kube_scheduler_framework::testing::{check_contract, fixture};

use crate::support::{plugin, pod};

#[test]
fn kept_answers_of_every_plugin_are_right() {
    let fixture = fixture(
        "node a zone=x label:disk=ssd
         node b zone=x taint:dedicated=db:NoSchedule
         node c zone=y taint:slow:PreferNoSchedule unschedulable
         node d zone=y example.com/gpu=2
         pod web-0 node=a label:app=web cpu=1
         pod web-1 node=d label:app=web cpu=500m anti-affinity=zone:app=web
         namespace default
         pvc bound bound=pv
         pv pv claim=bound phase=- label:topology.kubernetes.io/zone=x \
            node-affinity=topology.kubernetes.io/zone=x",
    );
    let pods = [
        "plain",
        "twin",
        "big cpu=3500m",
        "gpu example.com/gpu=1",
        "picky selector:disk=ssd",
        "calm tolerate:dedicated tolerate:slow",
        "company label:app=web cpu=500m affinity=zone:app=web",
        "loner label:app=web cpu=500m anti-affinity=zone:app=web",
        "spread label:app=web cpu=500m spread=zone:1:app=web",
        "spread-soft label:app=web cpu=500m prefer-spread=zone:1:app=web",
        "claims label:app=web cpu=500m claim=bound",
        "lost label:app=web cpu=500m claim=nowhere",
        r#"ports label:app=web port=80 {"spec": {"hostNetwork": true}}"#,
    ]
    .map(pod);
    for name in kube_scheduler_plugins_intree::registry().names() {
        let violations = check_contract(&*plugin(name), &fixture, &pods);
        let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(texts.is_empty(), "{name}:\n{}", texts.join("\n"));
    }
}

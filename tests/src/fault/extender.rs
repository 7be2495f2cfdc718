//! A program outside that takes part in every attempt, and fails as the dial says.
//!
//! Invariant: as for the plugin, an answer is a function of the seed, the step, the request, the pod and the node.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_engine::PodRef;
use kube_scheduler_framework::api::{Node, Pod};
use kube_scheduler_framework::preemption::PreemptionCandidate;
use kube_scheduler_framework::{BoxFuture, Status};
use kube_scheduler_runtime::{
    Extender, ExtenderCallError, ExtenderFilterResult, ExtenderVerbs, ExtenderVictims,
    HostPriority, PendingPriorities,
};

use super::chaos::{Dial, Intent, PANIC};

/// Asked about every other pod, and binds those.
pub(super) struct ChaosExtender {
    pub(super) dial: Arc<Dial>,
    pub(super) is_ignorable: bool,
}

impl ChaosExtender {
    /// Fails or panics sometimes.
    fn may_fail(&self, request: &str, pod: &Pod) -> Result<(), ExtenderCallError> {
        match self.dial.mishap(request, &pod.uid, "", 4) {
            Some(0) => std::panic::panic_any(format!("{PANIC} in {request}")),
            Some(1) => Err(format!("broken in {request}").into()),
            _ => Ok(()),
        }
    }
}

impl Extender for ChaosExtender {
    fn name(&self) -> &str {
        "extender"
    }

    fn verbs(&self) -> ExtenderVerbs {
        ExtenderVerbs { filter: true, prioritize: true, preempt: true, bind: true }
    }

    fn is_ignorable(&self) -> bool {
        self.is_ignorable
    }

    fn is_interested(&self, pod: &Pod) -> bool {
        pod.uid.bytes().map(u32::from).sum::<u32>().is_multiple_of(2)
    }

    fn filter(
        &self,
        pod: &Arc<Pod>,
        nodes: &[Arc<Node>],
    ) -> Result<ExtenderFilterResult, ExtenderCallError> {
        self.may_fail("ExtenderFilter", pod)?;
        let mut result = ExtenderFilterResult::default();
        for node in nodes {
            let (name, reason) = (node.name.to_string(), "chaos outside".to_owned());
            match self.dial.mishap("ExtenderNode", &pod.uid, &name, 3) {
                None => result.nodes.push(name),
                Some(0) => drop(result.failed.insert(name, reason)),
                Some(1) => drop(result.failed_and_unresolvable.insert(name, reason)),
                // Left out without a word.
                Some(_) => {}
            }
        }
        Ok(result)
    }

    fn prioritize(&self, pod: &Arc<Pod>, nodes: &[Arc<Node>]) -> PendingPriorities {
        let answer = self.may_fail("ExtenderPrioritize", pod).map(|()| {
            let priority = |node: &Arc<Node>| {
                let number = self.dial.number("ExtenderScore", &pod.uid, &node.name);
                let score = i64::try_from(number % 11).unwrap_or(0);
                HostPriority { host: node.name.to_string(), score }
            };
            nodes.iter().map(priority).collect()
        });
        Box::new(|| answer)
    }

    fn preempt(
        &self,
        pod: &Arc<Pod>,
        candidates: &[(Arc<Node>, PreemptionCandidate)],
    ) -> Result<BTreeMap<String, ExtenderVictims>, ExtenderCallError> {
        self.may_fail("ExtenderPreempt", pod)?;
        let is_left = |(node, _): &&(Arc<Node>, PreemptionCandidate)| {
            self.dial.mishap("ExtenderCandidate", &pod.uid, &node.name, 1).is_none()
        };
        let victims = |(node, candidate): &(Arc<Node>, PreemptionCandidate)| {
            let uids = candidate.victims.iter().map(|victim| victim.uid.to_string()).collect();
            let n_pdb_violations = candidate.n_pdb_violations;
            (node.name.to_string(), ExtenderVictims { uids, n_pdb_violations })
        };
        Ok(candidates.iter().filter(is_left).map(victims).collect())
    }

    fn bind(&self, pod: &Arc<Pod>, node: &str) -> BoxFuture<Status> {
        if self.dial.mishap("ExtenderBind", &pod.uid, node, 3) == Some(0) {
            std::panic::panic_any(format!("{PANIC} in ExtenderBind"));
        }
        self.dial.intend(Intent::Bind { pod: PodRef::from(&**pod), node: node.into() });
        Box::pin(std::future::pending())
    }
}

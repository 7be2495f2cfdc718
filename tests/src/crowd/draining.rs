//! Nodes that are drained after it was asked what would happen then.
//!
//! Draining is done by hand here, as kubectl, the eviction API and controllers do it, with a disruption budget; everything is left
//! to itself until it comes to rest, and then compared with the answer.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use kube_scheduler_answers::{Change, QuestionLimits, WhatIf, what_if};
use kube_scheduler_engine::Input;
use serde_json::{Value, json};

use super::{Crowd, kinds};
use crate::history::PodKey;

/// Longer than any pod waits for time alone.
const REST: Duration = Duration::from_secs(20 * 60);
const NAMESPACE: &str = "default";

/// What became of the pods of a drained node.
#[derive(Debug, Default)]
struct Drained {
    /// Those that came again, with their nodes and the round in which they went.
    nodes: BTreeMap<String, (Option<String>, usize)>,
    /// Those that were not evicted.
    blocked: Vec<String>,
}

impl Crowd {
    /// Asks about draining a node, drains it, and compares.
    pub(super) fn drain(&mut self) -> Result<()> {
        let allowed = i64::try_from(self.numbers.below(3))?;
        let budget = self.server.put_object(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": NAMESPACE, "name": "keep"},
            "spec": {"selector": {"matchExpressions": [{"key": "color", "operator": "Exists"}]}},
            "status": {"disruptionsAllowed": allowed},
        }))?;
        self.feed(&budget)?;
        self.come_to_rest()?;
        let node = kinds::node_name(self.numbers.below(self.n_nodes));
        let Some(mut known) = self.server.node(&node).cloned() else { return Ok(()) };
        let is_at_once = self.numbers.one_in(3);
        let changes = Change::draining(std::slice::from_ref(&node), is_at_once);
        let answer = what_if(&self.shared, &changes, QuestionLimits::default(), self.now)?;
        self.evicted_since_asked.clear();
        let mut cordoned = known.clone();
        cordoned["spec"]["unschedulable"] = true.into();
        let input = self.server.put_node(cordoned)?;
        self.feed(&input)?;
        let drained = self.evict_all(&node, (!is_at_once).then_some(allowed))?;
        self.compare_drained(&node, &answer, drained, !is_at_once)?;
        self.n_drained += 1;
        self.n_blocked += answer.blocked.len() as u64;
        self.n_further_rounds += answer.rounds.saturating_sub(1) as u64;
        self.n_evicted_for_drains += self.evicted_since_asked.len() as u64;
        // So that there will be pods again.
        known["spec"]["unschedulable"] = false.into();
        let input = self.server.put_node(known)?;
        self.feed(&input)
    }

    /// Evicts the pods of a node in rounds, as many as the budget allows, and all at once without one.
    fn evict_all(&mut self, node: &str, budget: Option<i64>) -> Result<Drained> {
        let is_there = |pod: &Value| pod["spec"]["nodeName"] == *node;
        let on_node = self.server.pods.iter().filter(|(_, pod)| is_there(pod));
        let mut left: Vec<(i64, String, PodKey)> = on_node
            .map(|(key, pod)| {
                let priority = pod["spec"]["priority"].as_i64().unwrap_or(0);
                (-priority, format!("{}/{}", key.0, key.1), key.clone())
            })
            .collect();
        left.sort();
        let (mut margin, mut drained) = (budget.unwrap_or(0), Drained::default());
        for round in 1.. {
            left.retain(|(.., key)| self.server.pods.get(key).is_some_and(is_there));
            let (mut go, mut stay) = (Vec::new(), Vec::new());
            for pod in std::mem::take(&mut left) {
                let is_covered = budget.is_some() && self.is_covered(&pod.2);
                match is_covered && margin <= 0 {
                    true => stay.push(pod),
                    false => {
                        margin -= i64::from(is_covered);
                        go.push(pod);
                    }
                }
            }
            if go.is_empty() {
                drained.blocked = stay.into_iter().map(|(_, name, _)| name).collect();
                break;
            }
            let gone: Vec<Value> =
                go.iter().filter_map(|(.., key)| self.server.pods.get(key).cloned()).collect();
            for (.., key) in &go {
                let input = self.server.delete_pod(key);
                self.feed_some(input)?;
            }
            for mut pod in
                gone.into_iter().filter(|pod| !pod["metadata"]["ownerReferences"][0].is_null())
            {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
                drained.nodes.insert(format!("{namespace}/{name}"), (None, round));
                self.n_created += 1;
                pod["metadata"]["uid"] = format!("uid-{}-{name}", self.n_created).into();
                pod["metadata"]["deletionTimestamp"] = Value::Null;
                pod["spec"]["nodeName"] = Value::Null;
                pod["status"] = json!({"phase": "Pending"});
                let input = self.server.put_pod(pod)?;
                self.feed(&input)?;
            }
            let (bound, evicted) = (self.bound.len(), self.evicted_since_asked.len());
            self.come_to_rest()?;
            let counts = |crowd: &Self, pods: &[PodKey]| -> Result<i64> {
                Ok(i64::try_from(pods.iter().filter(|key| crowd.is_covered(key)).count())?)
            };
            margin += counts(self, &self.bound[bound..])?;
            margin -= counts(self, &self.evicted_since_asked[evicted..])?;
            left = stay;
        }
        for (name, (at, _)) in &mut drained.nodes {
            let (namespace, name) = name.split_once('/').unwrap_or_default();
            let pod = self.server.pods.get(&(namespace.to_owned(), name.to_owned()));
            *at = pod.and_then(|pod| Some(pod["spec"]["nodeName"].as_str()?.to_owned()));
        }
        Ok(drained)
    }

    /// Whether the budget covers a pod, of which only the labels matter, which do not change meanwhile.
    fn is_covered(&self, key: &PodKey) -> bool {
        key.0 == NAMESPACE && self.colors.contains_key(key)
    }

    fn compare_drained(
        &self,
        node: &str,
        answer: &WhatIf,
        drained: Drained,
        has_rounds: bool,
    ) -> Result<()> {
        for (pod, (at, round)) in &drained.nodes {
            let placed = answer.placements.iter().find(|placed| placed.pod == *pod);
            let foreseen = placed.map(|placed| placed.node.clone());
            ensure!(
                foreseen == *at,
                "{node} is drained: {pod} goes to {at:?}, foreseen was {foreseen:?}"
            );
            let foreseen = placed.map(|placed| placed.round);
            let expected = placed.map(|_| has_rounds.then_some(*round));
            ensure!(
                foreseen == expected,
                "{node} is drained: {pod} goes in round {round}, foreseen was {foreseen:?}"
            );
        }
        let mut blocked: Vec<&str> = answer.blocked.iter().map(|pod| &*pod.pod).collect();
        let mut are_blocked: Vec<&str> = drained.blocked.iter().map(String::as_str).collect();
        blocked.sort_unstable();
        are_blocked.sort_unstable();
        ensure!(
            blocked == are_blocked,
            "{are_blocked:?} stay on {node}, foreseen were {blocked:?}"
        );
        let mut evicted: Vec<&str> = answer.evictions.iter().map(|one| &*one.pod).collect();
        let are_evicted =
            self.evicted_since_asked.iter().map(|(space, name)| format!("{space}/{name}"));
        let mut are_evicted: Vec<String> = are_evicted.collect();
        evicted.sort_unstable();
        are_evicted.sort_unstable();
        ensure!(
            evicted == are_evicted,
            "{node} is drained: {are_evicted:?} are evicted, foreseen were {evicted:?}"
        );
        Ok(())
    }

    /// Lets time pass until no pod gets a node any more.
    fn come_to_rest(&mut self) -> Result<()> {
        let (mut since, mut n_before) = (self.now, 0);
        loop {
            self.decide()?;
            let n = self.n_bound + self.evicted_since_asked.len() as u64;
            if n != n_before {
                (since, n_before) = (self.now, n);
            }
            let Some(deadline) = self.shared.next_deadline() else { return Ok(()) };
            let next = deadline.max(self.now);
            if next.saturating_since(since) > REST {
                return Ok(());
            }
            self.now = next;
            self.feed(&Input::TimePassed)?;
        }
    }
}

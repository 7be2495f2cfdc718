//! Nodes that are drained after it was asked what would happen then.
//!
//! Draining is done by hand here, as kubectl, the eviction API and controllers do it. A round of evictions begins once the scheduler
//! cannot do any more, as answers take it to: how many attempts it makes in vain until then decides about ties later on.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube_scheduler_answers::{
    Change, Idleness, MAX_RETURNS, NextStep, PodName, QuestionLimits, WhatIf, what_if,
};
use kube_scheduler_engine::{Effect, Input};
use serde_json::{Value, json};

use super::{Crowd, kinds};
use crate::history::PodKey;

/// Longer than any pod waits for time alone.
const REST: Duration = Duration::from_secs(20 * 60);

/// What was compared with answers about drains.
#[derive(Clone, Copy, Debug, Default)]
pub struct DrainCounts {
    /// How many nodes.
    pub nodes: u64,
    /// How often several nodes were drained together.
    pub together: u64,
    /// How many pods were evicted by name beside.
    pub named: u64,
    /// How many pods were evicted for others then.
    pub evictions: u64,
    /// How many of those controllers created again.
    pub recreated: u64,
    /// How many drains do not end, because pods are evicted again and again.
    pub circles: u64,
    /// How many pods stayed because of a disruption budget.
    pub blocked: u64,
    /// How many pods were pending then, with the text that had been answered.
    pub texts: u64,
    /// How many rounds after the first the budgets made necessary.
    pub further_rounds: u64,
}

impl AddAssign for DrainCounts {
    fn add_assign(&mut self, other: Self) {
        self.nodes += other.nodes;
        self.together += other.together;
        self.named += other.named;
        self.evictions += other.evictions;
        self.recreated += other.recreated;
        self.circles += other.circles;
        self.blocked += other.blocked;
        self.texts += other.texts;
        self.further_rounds += other.further_rounds;
    }
}

/// What became of the pods of a drained node.
#[derive(Debug, Default)]
struct Fates {
    /// Those that came again, with their nodes and the round in which they went.
    nodes: BTreeMap<String, (Option<String>, Option<usize>)>,
    /// Those that were not evicted.
    blocked: Vec<String>,
    /// How often each came again after it was evicted for another one.
    returns: BTreeMap<String, usize>,
    /// Whether one came again too often.
    is_circle: bool,
}

/// A pod that is to leave.
struct Leaving {
    order: (bool, Option<usize>, i64),
    name: String,
    /// The place of its node among those that are emptied one after the other.
    node: Option<usize>,
    key: PodKey,
    uid: Value,
}

fn full_name(pod: &Value) -> String {
    let text = |name: &str| pod["metadata"][name].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

impl Crowd {
    /// Asks about draining a node, or some nodes together, and about evicting a pod besides; does so, and compares.
    pub(super) fn drain(&mut self) -> Result<()> {
        self.come_to_rest()?;
        self.put_budgets()?;
        let nodes = self.nodes_to_drain();
        let is_at_once = self.numbers.one_in(6);
        let evicted = if is_at_once { None } else { self.pod_to_evict() };
        let mut changes = Change::draining(&nodes, is_at_once);
        changes.extend(evicted.as_ref().map(|(namespace, name)| {
            let (namespace, name) = (namespace.as_str().into(), name.as_str().into());
            Change::EvictPod(PodName { namespace, name })
        }));
        if changes.is_empty() {
            return Ok(());
        }
        let answer = what_if(&self.shared, &changes, QuestionLimits::default(), self.now)?;
        self.evicted_since_asked.clear();
        self.reports.clear();
        self.pushed_out.clear();
        self.idleness = Idleness::new(self.now);
        self.is_draining = true;
        for node in &nodes {
            self.set_unschedulable(node, true)?;
        }
        let drained = self.evict_all(&nodes, evicted, is_at_once)?;
        let is_circle = drained.is_circle;
        let what =
            changes.iter().map(|change| format!("{change:?}")).collect::<Vec<_>>().join(", ");
        self.compare_drained(&what, &answer, drained, !is_at_once)?;
        let texts = self.compare_pending(&answer).with_context(|| what)?;
        if !is_circle {
            self.nothing_more_happens()?;
        }
        self.is_draining = false;
        self.drained += DrainCounts {
            nodes: nodes.len() as u64,
            together: u64::from(nodes.len() > 1),
            named: changes.iter().filter(|it| matches!(it, Change::EvictPod(_))).count() as u64,
            evictions: self.evicted_since_asked.len() as u64,
            recreated: 0,
            circles: u64::from(is_circle),
            blocked: answer.blocked.len() as u64,
            texts,
            further_rounds: answer.rounds.saturating_sub(1) as u64,
        };
        // So that there will be pods again.
        nodes.iter().try_for_each(|node| self.set_unschedulable(node, false))
    }

    fn set_unschedulable(&mut self, node: &str, is_unschedulable: bool) -> Result<()> {
        let Some(mut node) = self.server.node(node).cloned() else { return Ok(()) };
        node["spec"]["unschedulable"] = is_unschedulable.into();
        let input = self.server.put_node(node)?;
        self.feed(&input)
    }

    /// One in most cases, rather one with many pods.
    fn nodes_to_drain(&mut self) -> Vec<String> {
        let n_nodes = if self.numbers.one_in(3) { 2 + self.numbers.below(2) } else { 1 };
        let mut nodes: Vec<String> = Vec::new();
        for _ in 0..n_nodes {
            let key = self.server.any_pod(&mut self.numbers);
            let pod = key.and_then(|key| self.server.pods.get(&key));
            let node = pod.and_then(|pod| pod["spec"]["nodeName"].as_str()).map(str::to_owned);
            let node = node.unwrap_or_else(|| kinds::node_name(self.numbers.below(self.n_nodes)));
            if self.server.node(&node).is_some() && !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    }

    /// One that has a node, if there is any to be evicted by its name.
    fn pod_to_evict(&mut self) -> Option<PodKey> {
        let key = self.server.any_pod(&mut self.numbers).filter(|_| self.numbers.one_in(4))?;
        let pod = self.server.pods.get(&key)?;
        let is_there = pod["spec"]["nodeName"].is_string() && self.is_known(&key);
        is_there.then_some(key)
    }

    fn is_known(&self, (namespace, name): &PodKey) -> bool {
        self.shared.known_pod(namespace, name).is_some()
    }

    /// Evicts a pod, and those of some nodes, in rounds, as budgets allow, or all at once.
    fn evict_all(
        &mut self,
        nodes: &[String],
        named: Option<PodKey>,
        is_at_once: bool,
    ) -> Result<Fates> {
        let mut left: Vec<Leaving> = Vec::new();
        for (key, pod) in &self.server.pods {
            let at = pod["spec"]["nodeName"].as_str();
            let node = nodes.iter().position(|node| Some(node.as_str()) == at);
            let is_named = named.as_ref() == Some(key);
            if node.is_some() || is_named {
                let priority = pod["spec"]["priority"].as_i64().unwrap_or(0);
                let name = format!("{}/{}", key.0, key.1);
                // The one that is named comes first.
                let node = if is_at_once { node } else { None };
                let order = (!is_named, node, -priority);
                left.push(Leaving {
                    order,
                    name,
                    node,
                    key: key.clone(),
                    uid: pod["metadata"]["uid"].clone(),
                });
            }
        }
        left.sort_by(|one, other| (one.order, &one.name).cmp(&(other.order, &other.name)));
        let mut drained = Fates::default();
        for round in 1.. {
            left.retain(|leaving| {
                let pod = self.server.pods.get(&leaving.key);
                pod.is_some_and(|pod| pod["metadata"]["uid"] == leaving.uid)
            });
            let (mut go, mut stay) = (Vec::new(), Vec::new());
            for pod in std::mem::take(&mut left) {
                let goes = is_at_once || self.may_be_evicted(&pod.key)?;
                if goes { go.push(pod) } else { stay.push(pod) }
            }
            if go.is_empty() || drained.is_circle {
                drained.blocked = go.into_iter().chain(stay).map(|pod| pod.name).collect();
                break;
            }
            // Node after node if budgets do not matter, as with kubectl; otherwise as the eviction API lets them go.
            let is_of_one = |one: &Leaving, other: &Leaving| !is_at_once || one.node == other.node;
            for go in go.chunk_by(is_of_one) {
                let gone = go.iter().filter_map(|pod| self.server.pods.get(&pod.key).cloned());
                let gone: Vec<Value> = gone.collect();
                for pod in go {
                    let input = self.server.delete_pod(&pod.key);
                    self.feed_some(input)?;
                }
                if !is_at_once {
                    self.count_for_budgets()?;
                }
                for pod in gone {
                    self.recreate(pod, Some(round), &mut drained)?;
                }
            }
            self.come_to_rest()?;
            self.recreate_pushed_out(&mut drained)?;
            if !is_at_once {
                self.count_for_budgets()?;
            }
            left = stay;
        }
        if !drained.is_circle {
            // After a round that is nothing: one more try beside pods that are being deleted could evict others by chance.
            self.rest()?;
            self.recreate_pushed_out(&mut drained)?;
        }
        for (name, (at, _)) in &mut drained.nodes {
            let (namespace, name) = name.split_once('/').unwrap_or_default();
            let pod = self.server.pods.get(&(namespace.to_owned(), name.to_owned()));
            *at = pod.and_then(|pod| Some(pod["spec"]["nodeName"].as_str()?.to_owned()));
        }
        Ok(drained)
    }

    /// Pods that had to make room for others are created again by their controllers, until all has come to rest.
    fn recreate_pushed_out(&mut self, drained: &mut Fates) -> Result<()> {
        loop {
            let mut pushed_out = std::mem::take(&mut self.pushed_out);
            pushed_out.retain(|pod| {
                let kind = pod["metadata"]["ownerReferences"][0]["kind"].as_str();
                kind.is_some_and(|kind| !["DaemonSet", "Node"].contains(&kind))
            });
            if pushed_out.is_empty() {
                return Ok(());
            }
            self.drained.recreated += pushed_out.len() as u64;
            for pod in pushed_out {
                let name = full_name(&pod);
                self.recreate(pod, None, drained)?;
                let n_returns = drained.returns.entry(name).or_default();
                *n_returns += 1;
                drained.is_circle |= *n_returns > MAX_RETURNS;
            }
            if drained.is_circle {
                return Ok(());
            }
            self.come_to_rest()?;
        }
    }

    /// Creates a pod again as its controller does, if it has one.
    fn recreate(
        &mut self,
        mut pod: Value,
        round: Option<usize>,
        drained: &mut Fates,
    ) -> Result<()> {
        let owner = pod["metadata"]["ownerReferences"][0]["kind"].as_str();
        // One that was being deleted before the drain has been replaced by then, unless its controller waits for its end.
        let is_replaced = round.is_some()
            && !pod["metadata"]["deletionTimestamp"].is_null()
            && owner != Some("StatefulSet");
        if owner.is_none() || is_replaced {
            return Ok(());
        }
        // One that comes again for the second time has its round.
        let came = drained.nodes.entry(full_name(&pod)).or_insert((None, round));
        came.1 = came.1.or(round);
        self.n_created += 1;
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        pod["metadata"]["uid"] = format!("uid-{}-{name}", self.n_created).into();
        pod["metadata"]["deletionTimestamp"] = Value::Null;
        pod["spec"]["nodeName"] = Value::Null;
        pod["status"] = json!({"phase": "Pending"});
        let input = self.server.put_pod(pod)?;
        self.feed(&input)
    }

    /// What a kubelet reports of a pod that got a node. While a node is drained all become ready, as answers take them to.
    pub(super) fn status_once_bound(&mut self) -> Value {
        let ready = |is_ready: &str| json!({"phase": "Running", "conditions": [{"type": "Ready", "status": is_ready}]});
        match self.numbers.below(12) {
            _ if self.is_draining => ready("True"),
            0 => json!({"phase": "Pending"}),
            1 | 2 => ready("False"),
            _ => ready("True"),
        }
    }

    fn compare_drained(
        &self,
        what: &str,
        answer: &WhatIf,
        drained: Fates,
        has_rounds: bool,
    ) -> Result<()> {
        let value = serde_json::to_value(answer)?;
        let has_circle = value["warnings"].to_string().contains("it would never end");
        ensure!(
            has_circle == drained.is_circle,
            "{what}: whether it ends was foreseen wrong; came again: {:?}, foreseen: {:?}",
            drained.returns,
            answer.evictions
        );
        for (pod, (at, round)) in &drained.nodes {
            let placed = answer.placements.iter().find(|placed| placed.pod == *pod);
            let foreseen = placed.map(|placed| placed.node.clone());
            ensure!(foreseen == *at, "{what}: {pod} goes to {at:?}, foreseen was {foreseen:?}");
            let foreseen = placed.map(|placed| placed.round);
            let expected = placed.map(|_| round.filter(|_| has_rounds));
            ensure!(
                foreseen == expected,
                "{what}: {pod} goes in round {round:?}, foreseen was {foreseen:?}"
            );
        }
        let mut blocked: Vec<&str> = answer.blocked.iter().map(|pod| &*pod.pod).collect();
        let mut are_blocked: Vec<&str> = drained.blocked.iter().map(String::as_str).collect();
        blocked.sort_unstable();
        are_blocked.sort_unstable();
        ensure!(
            blocked == are_blocked,
            "{are_blocked:?} stay after {what}, foreseen were {blocked:?}"
        );
        let mut evicted: Vec<&str> = answer.evictions.iter().map(|one| &*one.pod).collect();
        let are_evicted =
            self.evicted_since_asked.iter().map(|((space, name), _)| format!("{space}/{name}"));
        let mut are_evicted: Vec<String> = are_evicted.collect();
        evicted.sort_unstable();
        are_evicted.sort_unstable();
        ensure!(
            evicted == are_evicted,
            "{what}: {are_evicted:?} are evicted, foreseen were {evicted:?}"
        );
        Ok(())
    }

    /// Lets time pass until no pod gets a node any more, after something has changed.
    fn come_to_rest(&mut self) -> Result<()> {
        self.idleness.progressed(self.now);
        self.rest()
    }

    /// The same if nothing has changed.
    pub(super) fn rest(&mut self) -> Result<()> {
        loop {
            self.decide()?;
            let NextStep::WaitUntil(next) = self.idleness.next(&self.shared, self.now) else {
                return Ok(());
            };
            self.now = next;
            self.feed(&Input::TimePassed)?;
        }
    }

    /// However long it is waited, no pod gets a node, and none is evicted.
    ///
    /// Not so beside pods that are being deleted, which go on for ever here: who would have room without them tries again and again,
    /// and evicts others instead as soon as that comes first by chance.
    fn nothing_more_happens(&self) -> Result<()> {
        let is_leaving = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        if self.server.pods.values().any(is_leaving) {
            return Ok(());
        }
        let (mut engine, mut now) = (self.shared.fork(self.now), self.now);
        loop {
            while engine.schedule_next(now).is_some() {}
            for effect in engine.drain_effects() {
                let is_idle =
                    !matches!(effect, Effect::WriteBinding { .. } | Effect::EvictPod { .. });
                ensure!(is_idle, "at {now}, after all has come to rest: {effect}");
            }
            let Some(deadline) = engine.next_deadline() else { return Ok(()) };
            now = deadline.max(now);
            if now.saturating_since(self.now) > REST {
                return Ok(());
            }
            engine.handle(Input::TimePassed, now);
        }
    }
}

//! Disruption budgets of a crowd: the controller that counts, and the eviction API that asks. Both read and write what the API server
//! has, and nothing else.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Crowd, kinds};
use crate::history::PodKey;

const KIND: &str = "PodDisruptionBudget";

impl Crowd {
    /// Gives each namespace a budget, and sometimes one more for some of the same pods, that leave few evictions or none.
    pub(super) fn put_budgets(&mut self) -> Result<()> {
        for namespace in kinds::NAMESPACES {
            self.put_budget(namespace, "keep", json!({}))?;
            if self.numbers.one_in(4) {
                let color = self.numbers.pick(&kinds::COLORS);
                let selector = json!({"matchLabels": {"color": color}});
                self.put_budget(namespace, "keep-one-color", selector)?;
            } else {
                let more = budget(namespace, "keep-one-color", json!({}));
                let input = self.server.delete_object(&more)?;
                self.feed_some(input)?;
            }
        }
        Ok(())
    }

    fn put_budget(&mut self, namespace: &str, name: &str, mut selector: Value) -> Result<()> {
        // An empty selector covers all pods for evictions, and none for preemption.
        if selector == json!({}) && !self.numbers.one_in(4) {
            selector = json!({"matchExpressions": [{"key": "color", "operator": "NotIn", "values": ["none"]}]});
        }
        let mut budget = budget(namespace, name, selector);
        let healthy = self.current_healthy(&budget)?;
        let spare = self.numbers.pick(&[-1, 0, 1, 1, 1, 2, 3]);
        budget["spec"]["minAvailable"] = (healthy - spare).max(0).into();
        if self.numbers.one_in(3) {
            budget["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow".into();
        }
        let input = self.server.put_object(self.counted(budget)?)?;
        self.feed(&input)
    }

    /// What the controller does when pods have changed: it counts.
    pub(super) fn count_for_budgets(&mut self) -> Result<()> {
        let budgets: Vec<Value> = self.server.objects_of(KIND).cloned().collect();
        for budget in budgets {
            let counted = self.counted(budget.clone())?;
            if counted != budget {
                let input = self.server.put_object(counted)?;
                self.feed(&input)?;
            }
        }
        Ok(())
    }

    fn counted(&self, mut budget: Value) -> Result<Value> {
        let healthy = self.current_healthy(&budget)?;
        let desired = budget["spec"]["minAvailable"].as_i64().context("minAvailable")?;
        budget["status"] = json!({
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": (healthy - desired).max(0),
        });
        Ok(budget)
    }

    fn current_healthy(&self, budget: &Value) -> Result<i64> {
        let pods = self.server.pods.values();
        let healthy = pods.filter(|pod| {
            covers(budget, pod)
                && is_ready(pod)
                && pod["metadata"]["deletionTimestamp"].is_null()
                && !is_idle(pod)
        });
        Ok(i64::try_from(healthy.count())?)
    }

    /// The eviction API: whether the pod may go, as kube-apiserver's registry for evictions decides. What it takes of a budget it
    /// writes into the budget's status.
    pub(super) fn may_be_evicted(&mut self, key: &PodKey) -> Result<bool> {
        let Some(pod) = self.server.pods.get(key) else { return Ok(true) };
        if is_idle(pod) || !pod["metadata"]["deletionTimestamp"].is_null() {
            return Ok(true);
        }
        if pod["metadata"]["labels"].as_object().is_none_or(serde_json::Map::is_empty) {
            return Ok(true);
        }
        let covering = self.server.objects_of(KIND).filter(|budget| covers(budget, pod));
        let covering: Vec<Value> = covering.cloned().collect();
        let mut budget = match <[Value; 1]>::try_from(covering) {
            Ok([budget]) => budget,
            Err(others) => return Ok(others.is_empty()),
        };
        let number = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
        if !is_ready(pod) {
            let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
            let desired = number("desiredHealthy");
            if always || (number("currentHealthy") >= desired && desired > 0) {
                return Ok(true);
            }
        }
        let allowed = number("disruptionsAllowed");
        if allowed <= 0 {
            return Ok(false);
        }
        budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
        let input = self.server.put_object(budget)?;
        self.feed(&input)?;
        Ok(true)
    }
}

fn budget(namespace: &str, name: &str, selector: Value) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": KIND,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"selector": selector},
    })
}

/// Only as far as budgets of crowds need it.
fn covers(budget: &Value, pod: &Value) -> bool {
    let color = &budget["spec"]["selector"]["matchLabels"]["color"];
    budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
        && (color.is_null() || *color == pod["metadata"]["labels"]["color"])
}

/// Whether it has ended, or does not run yet.
fn is_idle(pod: &Value) -> bool {
    ["Pending", "Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

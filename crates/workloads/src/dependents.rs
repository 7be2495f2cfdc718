//! What is created for an object, one level down.

use std::iter;

use kube_scheduler_api_types::Node;
use serde_json::Value;

use crate::controller::{Controller, PodNaming};
use crate::daemon_set::{self, Eligibility};
use crate::json::{at, group_and_kind, int_at, list_at};
use crate::{cron_job, deployment, job, job_set, stateful_set, workload};

/// An object that a controller creates.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependent {
    /// The object, as the controller sends it. Those of pods and Jobs with a name to be completed have `generateName`.
    pub value: Value,
    /// Where in the controller's object the template of this object is, step by step; empty if it is all of it.
    pub path: Vec<String>,
}

type Dependents<'a> = Box<dyn Iterator<Item = Dependent> + 'a>;

impl<'v> Controller<'v> {
    /// API groups and kinds of the objects that others are created for.
    pub const KINDS: [(&'static str, &'static str); 9] = [
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("", "ReplicationController"),
        ("batch", "Job"),
        ("batch", "CronJob"),
        ("jobset.x-k8s.io", "JobSet"),
        ("scheduling.k8s.io", "Workload"),
    ];

    /// What the controllers of Kubernetes, JobSet and Workload create for this object when none of it exists yet, each made
    /// when it is asked for: of a Deployment the ReplicaSet, of a ReplicaSet the pods. A CronJob makes the Job of one run. A
    /// DaemonSet makes a pod for each of `nodes` that is eligible. Kinds that are not among
    /// [`KINDS`](Self::KINDS) make nothing.
    pub fn dependents(self, nodes: &'v [Node]) -> impl Iterator<Item = Dependent> + 'v {
        match group_and_kind(self.value) {
            ("apps", "Deployment") => self.replica_set(),
            ("apps", "ReplicaSet") | ("", "ReplicationController") => {
                let pods =
                    (0..self.count("replicas", 1)).map(move |_| self.pod(PodNaming::Generated));
                templated(pods, &["spec", "template"])
            }
            ("apps", "StatefulSet") => self.numbered(),
            ("apps", "DaemonSet") => {
                let eligibility = Eligibility::new(&self);
                let nodes = nodes.iter().filter(move |node| eligibility.includes(node));
                templated(
                    nodes.map(move |node| daemon_set::pod(&self, &node.name)),
                    &["spec", "template"],
                )
            }
            ("batch", "Job") => self.workers(),
            ("batch", "CronJob") if !self.is_suspended() => {
                templated(iter::once(cron_job::job(&self, "1")), &["spec", "jobTemplate"])
            }
            ("jobset.x-k8s.io", "JobSet") => self.jobs(),
            ("scheduling.k8s.io", "Workload") => self.pod_groups(),
            _ => Box::new(iter::empty()),
        }
    }

    fn is_suspended(&self) -> bool {
        at(self.value, &["spec", "suspend"]) == Some(&true.into())
    }

    fn replica_set(self) -> Dependents<'v> {
        let collisions = int_at(self.value, &["status", "collisionCount"]).unwrap_or(0);
        let set = deployment::replica_set(&self, collisions, self.count("replicas", 1));
        templated(iter::once(set), &[])
    }

    fn numbered(self) -> Dependents<'v> {
        Box::new(stateful_set::ordinals(&self).flat_map(move |number| {
            let claims = stateful_set::claims(&self, number).into_iter().enumerate();
            let claims = claims.map(|(at, value)| Dependent {
                value,
                path: path(&["spec", "volumeClaimTemplates", &at.to_string()]),
            });
            let pod = stateful_set::pod(&self, number);
            claims.chain([Dependent { value: pod, path: path(&["spec", "template"]) }])
        }))
    }

    fn workers(self) -> Dependents<'v> {
        let succeeded = int_at(self.value, &["status", "succeeded"]).unwrap_or(0);
        let pods = (0..job::parallelism(&self, succeeded, 0)).map(move |index| {
            let mut pod = job::pod(&self, job::is_indexed(&self).then_some(index));
            job::label(&self, &mut pod);
            pod
        });
        templated(pods, &["spec", "template"])
    }

    fn jobs(self) -> Dependents<'v> {
        let entries = list_at(self.value, &["spec", "replicatedJobs"]).iter().enumerate();
        Box::new(entries.flat_map(move |(at, entry)| {
            (0..job_set::replicas(entry)).map(move |index| Dependent {
                value: job_set::job(&self, entry, index),
                path: path(&["spec", "replicatedJobs", &at.to_string(), "template"]),
            })
        }))
    }

    fn pod_groups(self) -> Dependents<'v> {
        let templates = list_at(self.value, &["spec", "podGroupTemplates"]).iter().enumerate();
        Box::new(templates.map(move |(at, template)| Dependent {
            value: workload::pod_group(&self, template),
            path: path(&["spec", "podGroupTemplates", &at.to_string()]),
        }))
    }
}

fn templated<'a>(
    values: impl Iterator<Item = Value> + 'a,
    steps: &'static [&'static str],
) -> Dependents<'a> {
    Box::new(values.map(|value| Dependent { value, path: path(steps) }))
}

fn path(steps: &[&str]) -> Vec<String> {
    steps.iter().map(|step| (*step).to_owned()).collect()
}

#[cfg(test)]
mod tests;

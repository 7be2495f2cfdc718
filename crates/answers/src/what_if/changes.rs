//! Applying changes to a copy of the cluster.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_scheduler_api_types::well_known::{HOSTNAME, UNSCHEDULABLE_TAINT};
use kube_scheduler_api_types::{Node, Object, Pod, PodStatus, Taint, TaintEffect};
use kube_scheduler_engine::{Engine, Input};

use super::Change;
use super::workloads::Creation;
use crate::Refusal;
use crate::course::Course;
use crate::format::count;
use crate::pod_name::PodName;

/// The end of the warning about a pod that comes with the name of a node.
pub(super) const NO_SUCH_NODE: &str = "which does not exist";

/// The pods that changes are about.
#[derive(Debug, Default)]
pub(crate) struct AffectedPods {
    /// Pods that need a node.
    pub(super) asked: BTreeSet<PodName>,
    /// Pods that are deleted for good.
    pub(super) gone: BTreeSet<PodName>,
    /// Nodes whose pods are still to be evicted.
    pub(super) to_drain: BTreeSet<Arc<str>>,
    /// Pods that are still to be evicted by name, in this order.
    pub(super) to_evict: Vec<Arc<Pod>>,
    /// How many of the pods that go were being deleted already, and are not created again.
    n_going_already: usize,
    /// Whether pods go away from nodes, so that controllers create pods again.
    pub(super) moves_pods: bool,
    /// How often each pod came again after it was evicted for another one.
    pub(super) returns: BTreeMap<PodName, usize>,
    pub(super) warnings: Vec<String>,
}

/// Applies changes in their order; workloads among them have room for as many pods as there may be changes.
pub(crate) fn apply(
    course: &mut Course,
    changes: &[Change],
    max_changes: usize,
) -> Result<AffectedPods, Refusal> {
    let mut creation = Creation::new(changes.len(), max_changes);
    let moves_pods = changes.iter().any(Change::moves_pods);
    let mut touched = AffectedPods { moves_pods, ..AffectedPods::default() };
    let mut numbers = BTreeMap::new();
    for change in changes {
        if course.is_interrupted() {
            // After an interrupt the course makes no more attempts, and says that it was cut short.
            break;
        }
        match change {
            Change::AddPod(pod) => add_pod(course, pod, &mut touched)?,
            Change::AddPodGroup(group) => add_group(course, group, &mut touched)?,
            Change::AddWorkload(workload) => creation.carry_out(course, workload, &mut touched)?,
            Change::DeletePod(name) => {
                let pod = pod(course, name)?;
                course.delete(&pod);
                touched.asked.remove(name);
                touched.gone.insert(name.clone());
            }
            Change::EvictPod(name) => {
                let pod = pod(course, name)?;
                if is_mirror(&pod) {
                    let text = format!("pod {name} stays: it is the mirror of a static pod");
                    touched.warnings.push(text);
                } else {
                    touched.to_evict.push(pod);
                }
            }
            Change::AddNode(node) => {
                if course.engine.cluster().node_idx(&node.name).is_some() {
                    return Err(Refusal::NodeExists(node.name.to_string()));
                }
                course.handle(Input::NodeApplied(node.clone()));
            }
            Change::AddNodesLike { node, count } => {
                let number = numbers.entry(node.clone()).or_default();
                add_like(course, node, *count, number)?;
            }
            Change::RemoveNode(name) => {
                node(course, name)?;
                move_away(course, name, true, &mut touched);
                course.handle(Input::NodeDeleted { name: name.clone() });
            }
            Change::Cordon(name) => cordon(course, name)?,
            Change::Uncordon(name) => uncordon(course, name)?,
            Change::Drain(name) => {
                cordon(course, name)?;
                touched.to_drain.insert(name.clone());
            }
            Change::DrainAtOnce(name) => {
                cordon(course, name)?;
                move_away(course, name, false, &mut touched);
            }
            Change::Taint { node, taint } => add_taint(course, node, taint, &mut touched)?,
            Change::Label { node: name, key, value } => {
                let changed = labelled(node(course, name)?, key, value);
                course.handle(Input::NodeApplied(Arc::new(changed)));
            }
        }
    }
    Ok(touched)
}

fn add_taint(
    course: &mut Course,
    name: &Arc<str>,
    taint: &Taint,
    touched: &mut AffectedPods,
) -> Result<(), Refusal> {
    let mut changed = node(course, name)?;
    let taints = changed
        .taints
        .iter()
        .filter(|known| (&known.key, &known.effect) != (&taint.key, &taint.effect));
    changed.taints = taints.cloned().chain([taint.clone()]).collect();
    course.handle(Input::NodeApplied(Arc::new(changed)));
    if taint.effect == TaintEffect::NoExecute {
        let text = format!("taint {} of node {name}: pods that run there stay", taint.key);
        touched.warnings.push(text);
    }
    Ok(())
}

fn node(course: &Course, name: &Arc<str>) -> Result<Node, Refusal> {
    let cluster = course.engine.cluster();
    let found = cluster.node_idx(name).and_then(|idx| cluster.node(idx));
    found.map(|node| (**node).clone()).ok_or_else(|| Refusal::NoSuchNode(name.to_string()))
}

fn pod(course: &Course, name: &PodName) -> Result<Arc<Pod>, Refusal> {
    let known = course.engine.known_pod(&name.namespace, &name.name).cloned();
    known.ok_or_else(|| Refusal::NoSuchPod(name.clone()))
}

fn labelled(node: Node, key: &Arc<str>, value: &Arc<str>) -> Node {
    let others = node.labels.iter_shared().filter(|(known, _)| **known != *key);
    let all = others.map(|(key, value)| (key.into_owned(), value.into_owned()));
    Node { labels: all.chain([(key.clone(), value.clone())]).collect(), ..node }
}

pub(super) fn add_pod(
    course: &mut Course,
    pod: &Arc<Pod>,
    touched: &mut AffectedPods,
) -> Result<(), Refusal> {
    let name = PodName::from(&**pod);
    if course.engine.known_pod(&name.namespace, &name.name).is_some() {
        return Err(Refusal::PodExists(name));
    }
    if let Some(node) = &pod.node_name
        && course.engine.cluster().node_idx(node).is_none()
    {
        let text = format!("pod {name} is bound to node {node}, {NO_SUCH_NODE}");
        touched.warnings.push(text);
    }
    course.handle(Input::PodApplied(pod.clone()));
    touched.asked.insert(name);
    Ok(())
}

pub(super) fn add_group(
    course: &mut Course,
    group: &Arc<Object>,
    touched: &mut AffectedPods,
) -> Result<(), Refusal> {
    let Object { group: api_group, kind, namespace, name, .. } = &**group;
    if course.engine.cluster().objects().get(api_group, kind, namespace, name).is_some() {
        return Err(Refusal::PodGroupExists(group.key()));
    }
    if !course.engine.schedules_groups() {
        let text = format!("pod group {}: this scheduler tries its pods one by one", group.key());
        touched.warnings.push(text);
    }
    course.handle(Input::ObjectApplied(group.clone()));
    Ok(())
}

/// Adds nodes; `number` is that of the last one that was made like this one.
fn add_like(
    course: &mut Course,
    name: &Arc<str>,
    count: usize,
    number: &mut usize,
) -> Result<(), Refusal> {
    let model = node(course, name)?;
    let mut added = 0;
    while added < count && !course.is_interrupted() {
        *number += 1;
        let new: Arc<str> = format!("{name}-like-{number}").into();
        if course.engine.cluster().node_idx(&new).is_some() {
            continue;
        }
        let node = labelled(model.clone(), &HOSTNAME.into(), &new);
        let node = Node { name: new.clone(), uid: new, unschedulable: false, ..node };
        course.handle(Input::NodeApplied(Arc::new(node)));
        added += 1;
    }
    Ok(())
}

fn cordon(course: &mut Course, name: &Arc<str>) -> Result<(), Refusal> {
    let cordoned = Node { unschedulable: true, ..node(course, name)? };
    course.handle(Input::NodeApplied(Arc::new(cordoned)));
    Ok(())
}

fn uncordon(course: &mut Course, name: &Arc<str>) -> Result<(), Refusal> {
    let node = node(course, name)?;
    // What the node controller does once the node is open.
    let taints =
        node.taints.iter().filter(|taint| *taint.key != *UNSCHEDULABLE_TAINT).cloned().collect();
    course.handle(Input::NodeApplied(Arc::new(Node { unschedulable: false, taints, ..node })));
    Ok(())
}

/// Deletes the pods of a node; those that their controllers would replace come again without a node.
fn move_away(course: &mut Course, name: &Arc<str>, with_daemons: bool, touched: &mut AffectedPods) {
    let on_node = course.engine.known_pods().filter(|pod| pod.node_name.as_ref() == Some(name));
    let mut pods: Vec<Arc<Pod>> = on_node.cloned().collect();
    pods.sort_by_key(|pod| (Reverse(pod.priority()), pod.key()));
    if !with_daemons {
        pods.retain(|pod| !is_of_node(pod));
    }
    for pod in &pods {
        if course.is_interrupted() {
            return;
        }
        course.delete(pod);
    }
    let mut n_lost = 0;
    for pod in pods {
        if course.is_interrupted() {
            break;
        }
        if is_of_node(&pod) {
            touched.lose(&pod);
        } else if !recreate(course, &pod, touched) {
            n_lost += 1;
        }
    }
    touched.add_lost(Some(name), n_lost);
}

/// Whether the pod belongs to its node: one of a DaemonSet, or the mirror of a static pod. Draining leaves both alone.
pub(crate) fn is_of_node(pod: &Pod) -> bool {
    is_mirror(pod) || controller_kind(pod) == Some("DaemonSet")
}

fn is_mirror(pod: &Pod) -> bool {
    controller_kind(pod) == Some("Node")
}

fn controller_kind(pod: &Pod) -> Option<&str> {
    pod.controller.as_ref().map(|controller| &*controller.kind)
}

/// Creates a deleted pod again, as its controller would. One without a controller is gone for good; false then. One that was
/// being deleted already just goes, if its controller has not waited for that.
pub(super) fn recreate(course: &mut Course, pod: &Pod, touched: &mut AffectedPods) -> bool {
    if pod.deletion_requested.is_some() && !waits_for_end(&course.engine, pod) {
        touched.lose(pod);
        touched.n_going_already += 1;
        return true;
    }
    let is_recreated = recreate_if_controlled(course, pod, touched);
    if !is_recreated {
        touched.lose(pod);
    }
    is_recreated
}

/// Whether the controller of a pod creates the next one only when this one has ended, and not when it begins to be deleted.
fn waits_for_end(engine: &Engine, pod: &Pod) -> bool {
    let Some(controller) = &pod.controller else { return false };
    match &*controller.kind {
        "StatefulSet" => true,
        "Job" => {
            let jobs = engine.cluster().objects();
            let job = jobs.get("batch", "Job", &pod.namespace, &controller.name);
            // Which is the default where a Job has rules about failures.
            job.is_some_and(|job| match job.json["spec"]["podReplacementPolicy"].as_str() {
                Some(policy) => policy == "Failed",
                None => !job.json["spec"]["podFailurePolicy"].is_null(),
            })
        }
        _ => false,
    }
}

/// Creates a pod again as its controller would, and says whether it has one. For pods whose deletion nobody asked for: those without a
/// controller are not noted as gone.
pub(super) fn recreate_if_controlled(
    course: &mut Course,
    pod: &Pod,
    touched: &mut AffectedPods,
) -> bool {
    if controller_kind(pod).is_none() {
        return false;
    }
    course.handle(Input::PodApplied(Arc::new(anew(pod))));
    touched.asked.insert(PodName::from(pod));
    true
}

impl AffectedPods {
    /// Notes a pod that no controller creates again.
    fn lose(&mut self, pod: &Pod) {
        let name = PodName::from(pod);
        self.asked.remove(&name);
        self.gone.insert(name);
    }

    /// Adds a warning about the pods that were going already.
    pub(super) fn warn_of_going(&mut self) {
        if self.n_going_already > 0 {
            let pods = count(self.n_going_already, "pod");
            self.warnings
                .push(format!("being deleted already, and not created again after that: {pods}"));
        }
    }

    /// Adds a warning about `n` pods that no controller creates again: those of a node, or those that went by name.
    pub(super) fn add_lost(&mut self, node: Option<&str>, n: usize) {
        if n > 0 {
            let pods = count(n, "pod");
            let with = node.map(|node| format!(" with node {node}")).unwrap_or_default();
            self.warnings.push(format!("gone for good{with}: {pods} without a controller"));
        }
    }
}

/// The pod as its controller would create it again, under the same name.
fn anew(pod: &Pod) -> Pod {
    Pod {
        uid: format!("{}-again", pod.uid).into(),
        created: None,
        deletion_requested: None,
        node_name: None,
        status: Arc::new(PodStatus { phase: "Pending".into(), ..PodStatus::default() }),
        source: None,
        ..pod.clone()
    }
}

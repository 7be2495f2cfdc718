//! A copy of the cluster that is filled with pods of one kind.

use std::sync::Arc;

use kube_scheduler_api_types::{Pod, PodSpec, Timestamp};
use kube_scheduler_engine::{AttemptExplanation, Engine, Input};

use crate::course::Course;
use crate::interrupt::Interrupt;
use crate::pod_name::PodName;

/// The copy. Filling another copy of the same cluster places the same pods on the same nodes.
#[derive(Debug)]
pub(super) struct Filling<'a> {
    course: Course,
    template: &'a Pod,
    spec: Arc<PodSpec>,
    n_placed: usize,
    /// How many pods waited for a node, which are not in the copy.
    pub(super) n_left_aside: usize,
    /// Whether the template belongs to a group, which its copies do not.
    pub(super) leaves_group: bool,
}

impl<'a> Filling<'a> {
    pub(super) fn new(
        engine: &Engine,
        template: &'a Pod,
        interrupt: &Interrupt,
        now: Timestamp,
    ) -> Self {
        let mut course = Course::new(engine, now, u64::MAX, interrupt);
        let n_left_aside = course.leave_pending_aside();
        let is_member = course.engine.leave_groups_of_plugins_aside(template);
        let leaves_group = is_member || template.spec.pod_group.is_some();
        let spec = PodSpec {
            pod_group: None,
            never_preempts: true,
            scheduling_gates: Arc::default(),
            ..(*template.spec).clone()
        };
        let spec = Arc::new(spec);
        Self { course, template, spec, n_placed: 0, n_left_aside, leaves_group }
    }

    pub(super) fn engine(&mut self) -> &mut Engine {
        &mut self.course.engine
    }

    /// The next pod, which is not in the cluster yet.
    pub(super) fn next_pod(&self) -> Pod {
        let Self { template, n_placed, .. } = self;
        let name: Arc<str> = format!("{}-capacity-{}", template.name, n_placed + 1).into();
        Pod {
            uid: format!("{}/{name}", template.namespace).into(),
            name,
            node_name: None,
            deletion_requested: None,
            spec: self.spec.clone(),
            ..(*template).clone()
        }
    }

    /// Places the next pod. Returns it, with its node if it fits.
    pub(super) fn place(&mut self) -> (Arc<Pod>, Option<Arc<str>>) {
        let next = Arc::new(self.next_pod());
        self.course.handle(Input::PodApplied(next.clone()));
        self.course.attempt();
        let node = self.course.placements.get(&PodName::from(&*next)).cloned();
        self.n_placed += usize::from(node.is_some());
        (next, node)
    }

    /// Whether the answer is not wanted any more.
    pub(super) fn is_interrupted(&self) -> bool {
        self.course.is_interrupted()
    }

    /// What the reader of an answer should know.
    pub(super) fn warnings(&self) -> Vec<String> {
        let outside = self.course.warnings_about_outside();
        self.course.warning_if_cut_short().into_iter().chain(outside).collect()
    }

    /// How many nodes the last pod fitted on.
    pub(super) fn n_feasible(&self) -> usize {
        self.course.n_feasible
    }

    /// What an attempt at a pod would find now; `None` if no profile is responsible for it.
    pub(super) fn explain(&mut self, pod: Pod) -> Option<AttemptExplanation> {
        let now = self.course.now;
        let engine = &mut self.course.engine;
        let random = engine.next_random();
        engine.explain(&Arc::new(pod), random, now)
    }
}

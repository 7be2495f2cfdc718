//! PodTopologySpread: pods of one kind spread evenly over zones, hosts and other domains.
//!
//! Answers to `plugins/podtopologyspread` of the reference; behaviour in `docs/spec/plugins-topology.md` §2 to §4. Pods are
//! counted by counters that the cluster state follows; where one is not followed it is counted in one scan.

mod args;
mod constraints;
mod default_selector;
mod filtering;
mod hints;
mod scoring;

use std::sync::Arc;

use kube_scheduler_framework::api::{Pod, WhenUnsatisfiable};
use kube_scheduler_framework::counters::CounterSpec;
use kube_scheduler_framework::{
    Context, CycleState, EventResource, Handle, Plugin, PluginArgs, PluginError, PreFilter,
    PreFilterExtensions, PreFilterOutcome, Sign, SignatureWriter, Status, extension_points,
};

use self::args::Defaults;
use self::constraints::GivenConstraints;
use self::filtering::HardState;
use self::scoring::Wishes;

pub(crate) const NAME: &str = "PodTopologySpread";

const REASON: &str = "node(s) didn't match pod topology spread constraints";
const REASON_LABEL: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";

pub(crate) fn new(args: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let name = NAME.into();
    Ok(Arc::new(PodTopologySpread {
        defaults: Arc::new(Defaults::from_args(args)?),
        compares_numbers: handle.is_enabled("TaintTolerationComparisonOperators"),
        rejection: Status::unschedulable(REASON).from_plugin(&name),
        rejection_label: Status::unresolvable(REASON_LABEL).from_plugin(&name),
    }))
}

struct PodTopologySpread {
    defaults: Arc<Defaults>,
    /// Whether `Lt` and `Gt` tolerations count.
    compares_numbers: bool,
    rejection: Status,
    rejection_label: Status,
}

impl PodTopologySpread {
    /// The constraints of `pod` with this action, and what each of them counts.
    fn constraints<'a>(
        &'a self,
        cx: &Context<'_>,
        pod: &'a Pod,
        action: WhenUnsatisfiable,
    ) -> Result<(GivenConstraints<'a>, Vec<CounterSpec>), String> {
        let constraints = self.defaults.given_to(cx, pod, action)?;
        let specs = if action == WhenUnsatisfiable::DoNotSchedule {
            filtering::specs(&constraints, pod, self.compares_numbers)
        } else {
            let requires_all = self.defaults.requires_all_keys(pod);
            scoring::specs(&constraints, pod, requires_all, self.compares_numbers)
        };
        Ok((constraints, specs))
    }

    /// What the pod would like; `None` when it has no such constraints.
    fn wishes(&self, cx: &Context<'_>, pod: &Pod) -> Result<Option<Wishes>, String> {
        let (soft, specs) = self.constraints(cx, pod, WhenUnsatisfiable::ScheduleAnyway)?;
        let requires_all = self.defaults.requires_all_keys(pod);
        Ok((!specs.is_empty()).then(|| Wishes::of(cx.cluster(), &soft, &specs, requires_all)))
    }
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &str {
        NAME
    }

    /// Default constraints go by what selects and owns a pod.
    fn reads_objects(&self) -> Vec<EventResource> {
        if self.defaults.constraints.is_empty() {
            return Vec::new();
        }
        let names = [
            "services.v1.",
            "replicationcontrollers.v1.",
            "replicasets.v1.apps",
            "statefulsets.v1.apps",
        ];
        names.into_iter().map(|name| EventResource::Custom(name.into())).collect()
    }

    extension_points!(PreFilter, Filter, PreScore, Score, EnqueueExtensions, Sign);
}

impl PreFilter for PodTopologySpread {
    fn pre_filter(&self, cx: &Context<'_>, state: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        // PreScore may run several times for a pod, for different groups of nodes. What it needs of the pod is computed once
        // here.
        if let Ok(Some(wishes)) = self.wishes(cx, pod) {
            state.insert(wishes);
        }
        match self.constraints(cx, pod, WhenUnsatisfiable::DoNotSchedule) {
            Err(error) => Status::error(format!("get constraints from pod: {error}")).into(),
            Ok((_, specs)) if specs.is_empty() => PreFilterOutcome::skip(),
            Ok((hard, specs)) => {
                state.insert(HardState::of(cx.cluster(), pod, &hard, &specs));
                PreFilterOutcome::success()
            }
        }
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        Some(self)
    }
}

impl Sign for PodTopologySpread {
    /// Parity: the reference refuses to sign pods that have constraints or may get default ones. Here everything that
    /// the answers depend on is written; how long they hold follows from what was read.
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        constraints::sign(&self.defaults, pod, signature);
        true
    }
}

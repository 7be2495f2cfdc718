//! What happened to an object, as a set of bits.
//!
//! The bit values are the reference's: [`ClusterEvent::matches`](crate::ClusterEvent::matches) compares them as
//! integers, so neither their order nor their values may change.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of actions on an object.
///
/// A plugin registers for any union of them; an incoming event carries one bit, [`ActionType::UPDATE`] or
/// [`ActionType::ALL`].
///
/// ```
/// use kube_scheduler_queue::ActionType;
///
/// let interest = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
/// assert!(interest.contains(ActionType::ADD));
/// assert_eq!(ActionType::UPDATE_NODE_LABEL.name(), "UpdateNodeLabel");
/// assert_eq!(interest.name(), "");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionType(u16);

impl ActionType {
    /// No action at all.
    pub const NONE: Self = Self(0);
    /// The object was created.
    pub const ADD: Self = Self(1);
    /// The object is gone.
    pub const DELETE: Self = Self(1 << 1);
    /// A node's allocatable resources changed.
    pub const UPDATE_NODE_ALLOCATABLE: Self = Self(1 << 2);
    /// A node's labels changed.
    pub const UPDATE_NODE_LABEL: Self = Self(1 << 3);
    /// A node's taints changed, or it was uncordoned.
    pub const UPDATE_NODE_TAINT: Self = Self(1 << 4);
    /// The status of one of a node's conditions changed.
    pub const UPDATE_NODE_CONDITION: Self = Self(1 << 5);
    /// A node's annotations changed.
    pub const UPDATE_NODE_ANNOTATION: Self = Self(1 << 6);
    /// A node's declared features changed.
    pub const UPDATE_NODE_DECLARED_FEATURE: Self = Self(1 << 7);
    /// A pod's labels changed.
    pub const UPDATE_POD_LABEL: Self = Self(1 << 8);
    /// A pod requests less than before.
    pub const UPDATE_POD_SCALE_DOWN: Self = Self(1 << 9);
    /// A pod's tolerations changed.
    pub const UPDATE_POD_TOLERATION: Self = Self(1 << 10);
    /// The last scheduling gate of a pod was removed.
    pub const UPDATE_POD_SCHEDULING_GATES_ELIMINATED: Self = Self(1 << 11);
    /// The resource claims generated for a pod changed.
    pub const UPDATE_POD_GENERATED_RESOURCE_CLAIM: Self = Self(1 << 12);
    /// Every action.
    pub const ALL: Self = Self((1 << 13) - 1);
    /// Every action but [`ADD`](Self::ADD) and [`DELETE`](Self::DELETE). As an incoming action: an update that none of
    /// the specific update actions covers.
    pub const UPDATE: Self = Self(Self::ALL.0 & !(Self::ADD.0 | Self::DELETE.0));

    /// The set as an integer, with a bit for each action.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether every action of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the two sets have an action in common.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the set has no action.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The sets with a [name](Self::name) that it is made of, as few as do: single actions, and `Update` or `All` as a whole.
    ///
    /// ```
    /// use kube_scheduler_queue::ActionType;
    ///
    /// let interest = ActionType::UPDATE | ActionType::DELETE;
    /// assert!(interest.named_parts().eq([ActionType::UPDATE, ActionType::DELETE]));
    /// ```
    pub fn named_parts(self) -> impl Iterator<Item = Self> {
        let mut left = self;
        std::iter::from_fn(move || {
            let whole = [Self::ALL, Self::UPDATE].into_iter().find(|set| left.contains(*set));
            let single = || (!left.is_empty()).then(|| Self(1 << left.0.trailing_zeros()));
            let part = whole.or_else(single)?;
            left = Self(left.0 & !part.0);
            Some(part)
        })
    }

    /// The name of a single action, of `Update` or of `All`; empty for any other set.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ADD => "Add",
            Self::DELETE => "Delete",
            Self::UPDATE_NODE_ALLOCATABLE => "UpdateNodeAllocatable",
            Self::UPDATE_NODE_LABEL => "UpdateNodeLabel",
            Self::UPDATE_NODE_TAINT => "UpdateNodeTaint",
            Self::UPDATE_NODE_CONDITION => "UpdateNodeCondition",
            Self::UPDATE_NODE_ANNOTATION => "UpdateNodeAnnotation",
            Self::UPDATE_NODE_DECLARED_FEATURE => "UpdateNodeDeclaredFeature",
            Self::UPDATE_POD_LABEL => "UpdatePodLabel",
            Self::UPDATE_POD_SCALE_DOWN => "UpdatePodScaleDown",
            Self::UPDATE_POD_TOLERATION => "UpdatePodToleration",
            Self::UPDATE_POD_SCHEDULING_GATES_ELIMINATED => "UpdatePodSchedulingGatesEliminated",
            Self::UPDATE_POD_GENERATED_RESOURCE_CLAIM => "UpdatePodGeneratedResourceClaim",
            Self::ALL => "All",
            Self::UPDATE => "Update",
            _ => "",
        }
    }
}

impl BitOr for ActionType {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for ActionType {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The [name](ActionType::name).
impl fmt::Display for ActionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

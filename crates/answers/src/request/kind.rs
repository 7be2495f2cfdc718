//! Which questions there are, and how they are named over HTTP.

/// What a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuestionKind {
    /// Why a pod is where it is: an [`Explanation`](crate::Explanation).
    Explanation,
    /// Which pods would be evicted for a pod: a [`Preemption`](crate::Preemption).
    Preemption,
    /// What would happen after some changes: a [`WhatIf`](crate::WhatIf).
    WhatIf,
    /// Where the pods of nodes would go: a [`WhatIf`](crate::WhatIf).
    Drain,
    /// How many more pods fit: a [`Capacity`](crate::Capacity).
    Capacity,
    /// What waits, and for what: a [`Queue`](crate::Queue).
    Queue,
    /// How much of what is free no pod could use: a [`Fragmentation`](crate::Fragmentation).
    Fragmentation,
}

impl QuestionKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Explanation,
        Self::Preemption,
        Self::WhatIf,
        Self::Drain,
        Self::Capacity,
        Self::Queue,
        Self::Fragmentation,
    ];

    /// `kind`, resource, and the resource in the singular.
    const fn names(self) -> [&'static str; 3] {
        match self {
            Self::Explanation => ["Explanation", "explanations", "explanation"],
            Self::Preemption => ["Preemption", "preemptions", "preemption"],
            Self::WhatIf => ["WhatIf", "whatifs", "whatif"],
            Self::Drain => ["Drain", "drains", "drain"],
            Self::Capacity => ["Capacity", "capacities", "capacity"],
            Self::Queue => ["Queue", "queues", "queue"],
            Self::Fragmentation => ["Fragmentation", "fragmentations", "fragmentation"],
        }
    }

    /// The `kind` of the object.
    pub const fn kind(self) -> &'static str {
        self.names()[0]
    }

    /// The resource in the path, and in the rights of users.
    pub const fn resource(self) -> &'static str {
        self.names()[1]
    }

    /// The resource's name in the singular.
    pub const fn singular(self) -> &'static str {
        self.names()[2]
    }

    /// Whether it is asked in a namespace. Others are about the whole cluster.
    pub const fn is_namespaced(self) -> bool {
        !matches!(self, Self::Drain | Self::Fragmentation)
    }
}

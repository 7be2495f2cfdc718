//! The workloads: those of the reference's figures, more of its benchmark definitions, and our own.

use crate::devices::{Devices, Wish};
use crate::template::{Scope, Template, Term};
use crate::workload::{ChurnKind, Gangs, Group, Namespaces, NodeShape, Outcome, Workload};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

const SCHED_0: Namespaces = Namespaces::One("sched-0");
const SCHED_1: Namespaces = Namespaces::One("sched-1");
const INIT_NS: Namespaces = Namespaces::Labelled("init-ns", 100);
const MEASURE_NS: Namespaces = Namespaces::Labelled("measure-ns", 1);

const fn group(template: Template, namespaces: Namespaces, n: usize) -> Group {
    Group { template, namespaces, n, has_volume: false, gangs: None }
}

const fn plain(n: usize) -> Group {
    group(Template::Plain, Namespaces::One("default"), n)
}

const fn default(template: Template, n: usize) -> Group {
    group(template, Namespaces::One("default"), n)
}

const fn with_volume(n: usize) -> Group {
    Group { has_volume: true, ..plain(n) }
}

const fn coloured(
    colour: &'static str,
    affinity: &'static str,
    is_required: bool,
    key: &'static str,
    scope: Scope,
) -> Template {
    Template::Coloured(Term { colour, affinity, is_required, key, scope })
}

const GREEN: Template = coloured("green", "podAntiAffinity", true, HOSTNAME, Scope::Named);
const BLUE: Template = coloured("blue", "podAffinity", true, ZONE, Scope::Named);
const RED: Template = coloured("red", "podAffinity", false, HOSTNAME, Scope::Named);
const YELLOW: Template = coloured("yellow", "podAntiAffinity", false, HOSTNAME, Scope::Named);
const GREEN_NS: Template = coloured("green", "podAntiAffinity", true, HOSTNAME, Scope::Labelled);
const PREFERRED_GREEN_NS: Template =
    coloured("green", "podAntiAffinity", false, HOSTNAME, Scope::Labelled);
const BLUE_NS: Template = coloured("blue", "podAffinity", true, ZONE, Scope::Labelled);
const RED_NS: Template = coloured("red", "podAffinity", false, HOSTNAME, Scope::Labelled);

/// Gangs of four.
const FOURS: Gangs =
    Gangs { size: 4, in_one_rack: false, priority: 0, is_indexed: false, goes_as_a_whole: false };

const fn gangs(size: usize, in_one_rack: bool, n: usize) -> Group {
    Group { gangs: Some(Gangs { size, in_one_rack, ..FOURS }), ..plain(n) }
}

/// The same, with members that are numbered as the pods of an indexed Job are.
const fn indexed(size: usize, in_one_rack: bool, n: usize) -> Group {
    Group { gangs: Some(Gangs { size, in_one_rack, is_indexed: true, ..FOURS }), ..plain(n) }
}

/// Pods four of which fill a node, in gangs of four that are evicted as a whole.
const fn evicted_together(n: usize) -> Group {
    let gangs = Some(Gangs { goes_as_a_whole: true, ..FOURS });
    Group { gangs, ..default(Template::Low, n) }
}

/// What workloads of gangs have in common.
const fn gang_workload(name: &'static str, question: &'static str, measured: Group) -> Workload {
    Workload { name, question, nodes: NodeShape::Racks, measured, ..UNLISTED }
}

/// Gangs of so many that may go anywhere.
const fn anywhere(name: &'static str, question: &'static str, size: usize, n: usize) -> Workload {
    Workload { goal: Some(50_000.0), ..gang_workload(name, question, gangs(size, false, n)) }
}

/// Gangs of so many, each in one of fifty racks.
const fn in_racks(name: &'static str, question: &'static str, size: usize, n: usize) -> Workload {
    Workload { goal: Some(10_000.0), ..gang_workload(name, question, gangs(size, true, n)) }
}

/// Gangs of so many of a template, none of which can be placed.
const fn too_much(
    name: &'static str,
    question: &'static str,
    template: Template,
    gangs: Group,
) -> Workload {
    Workload {
        outcome: Outcome::None,
        goal: None,
        ..gang_workload(name, question, Group { template, ..gangs })
    }
}

/// Gangs of four that find room only where some of these pods are evicted.
const fn gangs_that_preempt(
    name: &'static str,
    question: &'static str,
    init: &'static [Group],
) -> Workload {
    let gangs = Some(Gangs { priority: 10, ..FOURS });
    Workload {
        init,
        preempts: true,
        goal: None,
        ..gang_workload(name, question, Group { gangs, ..default(Template::High, 1_000) })
    }
}

/// What most workloads have in common.
const BASIC: Workload = Workload {
    name: "SchedulingBasic",
    question: "how fast are plain pods placed?",
    nodes: NodeShape::Plain,
    init: &[plain(1_000)],
    measured: plain(10_000),
    outcome: Outcome::All,
    preempts: false,
    churn: ChurnKind::Nothing,
    goal: Some(100_000.0),
    reference: Some(1_126.0),
};

/// What workloads about affinity have in common that the reference's list of figures does not have.
const UNLISTED: Workload = Workload { goal: Some(20_000.0), reference: None, ..BASIC };

/// What workloads about devices have in common: with 5,000 nodes, 20,000 claims in the end.
const CLAIMS: Workload = Workload {
    name: "DeviceClaims",
    question: "what does a device cost a pod, by a claim of its own?",
    nodes: NodeShape::WithDevices(Devices::Cards(8)),
    init: &[default(Template::Claiming(Wish::One), 10_000)],
    measured: default(Template::Claiming(Wish::One), 10_000),
    goal: Some(5_000.0),
    ..UNLISTED
};

/// The same for pods that all request the same.
const fn claims(
    name: &'static str,
    question: &'static str,
    devices: Devices,
    wish: Wish,
    groups: &'static [Group],
) -> Workload {
    Workload {
        name,
        question,
        nodes: NodeShape::WithDevices(devices),
        init: groups,
        measured: default(Template::Claiming(wish), 10_000),
        goal: None,
        ..CLAIMS
    }
}

/// Pods that want `n` devices of nodes that have one less.
const fn short(name: &'static str, question: &'static str, n: usize) -> Workload {
    let wish = Wish::Many(n);
    Workload {
        measured: default(Template::Claiming(wish), 100),
        outcome: Outcome::None,
        ..claims(name, question, Devices::Cards(n - 1), wish, &[])
    }
}

/// All workloads.
pub const WORKLOADS: [Workload; 45] = [
    BASIC,
    Workload {
        name: "SchedulingNodeAffinity",
        question: "what does a required node affinity cost?",
        nodes: NodeShape::OneZone,
        init: &[plain(5_000)],
        measured: default(Template::NodeAffinity, 5_000),
        reference: Some(884.0),
        ..BASIC
    },
    Workload {
        name: "Unschedulable",
        question: "how fast is a pod refused that fits nowhere?",
        measured: default(Template::LargeCpu, 1_000),
        outcome: Outcome::None,
        reference: Some(251.0),
        ..BASIC
    },
    Workload {
        name: "SchedulingPodAntiAffinity",
        question: "what does it cost that no two pods of a kind may share a node?",
        init: &[group(GREEN, SCHED_0, 1_000)],
        measured: group(GREEN, SCHED_1, 2_000),
        goal: Some(50_000.0),
        reference: Some(256.0),
        ..BASIC
    },
    Workload {
        name: "TopologySpreading",
        question: "what does it cost to keep pods spread over zones?",
        nodes: NodeShape::ThreeZones,
        init: &[plain(5_000)],
        measured: default(Template::Spreading("DoNotSchedule"), 5_000),
        goal: Some(50_000.0),
        reference: Some(394.0),
        ..BASIC
    },
    Workload {
        name: "PreferredTopologySpreading",
        question: "what does it cost to prefer zones with fewer pods?",
        nodes: NodeShape::ThreeZones,
        init: &[plain(5_000)],
        measured: default(Template::Spreading("ScheduleAnyway"), 5_000),
        goal: Some(50_000.0),
        reference: Some(443.0),
        ..BASIC
    },
    Workload {
        name: "SchedulingPodAffinity",
        question: "what does it cost that all pods of a kind must share a zone?",
        nodes: NodeShape::OneZone,
        init: &[group(BLUE, SCHED_0, 5_000)],
        measured: group(BLUE, SCHED_1, 5_000),
        goal: Some(30_000.0),
        reference: Some(116.0),
        ..BASIC
    },
    Workload {
        name: "SchedulingPreferredPodAffinity",
        question: "what does it cost that pods of a kind would like to share a node?",
        init: &[group(RED, SCHED_0, 5_000)],
        measured: group(RED, SCHED_1, 5_000),
        goal: Some(30_000.0),
        reference: Some(245.0),
        ..BASIC
    },
    Workload {
        name: "SchedulingRequiredPodAntiAffinityWithNSSelector",
        question: "and if no two in any of a hundred selected namespaces may share a node?",
        init: &[group(GREEN_NS, INIT_NS, 4_000)],
        measured: group(GREEN_NS, MEASURE_NS, 1_000),
        ..UNLISTED
    },
    Workload {
        name: "SchedulingPreferredAntiAffinityWithNSSelector",
        question: "and if they would rather not share one?",
        init: &[group(PREFERRED_GREEN_NS, INIT_NS, 4_000)],
        measured: group(PREFERRED_GREEN_NS, MEASURE_NS, 2_000),
        ..UNLISTED
    },
    Workload {
        name: "SchedulingRequiredPodAffinityWithNSSelector",
        question: "and if all in the selected namespaces must share a zone?",
        nodes: NodeShape::OneZone,
        init: &[group(BLUE_NS, INIT_NS, 5_000)],
        measured: group(BLUE_NS, MEASURE_NS, 2_000),
        ..UNLISTED
    },
    Workload {
        name: "SchedulingPreferredAffinityWithNSSelector",
        question: "and if they would like to share a node?",
        init: &[group(RED_NS, INIT_NS, 5_000)],
        measured: group(RED_NS, MEASURE_NS, 5_000),
        ..UNLISTED
    },
    Workload {
        name: "MixedSchedulingBasePod",
        question: "what do pods with affinities of all kinds cost a plain pod?",
        nodes: NodeShape::OneZone,
        init: &[
            group(Template::Plain, SCHED_0, 2_000),
            group(BLUE, SCHED_0, 2_000),
            group(GREEN, SCHED_0, 2_000),
            group(RED, SCHED_0, 2_000),
            group(YELLOW, SCHED_0, 2_000),
        ],
        measured: plain(5_000),
        ..UNLISTED
    },
    Workload {
        name: "SchedulingWithMixedChurn",
        question: "what do a node, a service and a pod that fits nowhere cost, which come and go?",
        init: &[],
        measured: plain(10_000),
        preempts: true,
        churn: ChurnKind::Cluster,
        ..UNLISTED
    },
    Workload {
        name: "SchedulingCSIPVs",
        question: "what does a bound volume of its own cost a pod?",
        nodes: NodeShape::WithVolumes,
        init: &[with_volume(5_000)],
        measured: with_volume(5_000),
        goal: None,
        ..UNLISTED
    },
    Workload {
        name: "PreemptionBasic",
        question: "how long does it take to find out whom to evict for a pod?",
        init: &[default(Template::Low, 20_000)],
        measured: default(Template::High, 1_000),
        preempts: true,
        goal: None,
        ..UNLISTED
    },
    Workload {
        name: "PreemptionFivePriorities",
        question: "and if the pods that run differ in priority?",
        init: &[default(Template::FivePriorities, 20_000)],
        measured: default(Template::High, 1_000),
        preempts: true,
        goal: None,
        ..UNLISTED
    },
    Workload {
        name: "FiftyAntiAffinities",
        question: "what do fifty deployments cost each other whose pods come in turn?",
        init: &[plain(1_000)],
        measured: default(Template::FiftyGroups, 5_000),
        goal: None,
        ..UNLISTED
    },
    Workload {
        name: "StatefulSetPods",
        question: "how fast are plain pods of a StatefulSet placed, with a number each?",
        measured: default(Template::Numbered, 10_000),
        reference: None,
        ..BASIC
    },
    anywhere(
        "GangsOf4",
        "what does it cost that four pods start together or not at all?",
        4,
        8_000,
    ),
    anywhere("GangsOf100", "and a hundred pods?", 100, 10_000),
    anywhere("GangsOf1000", "and a thousand?", 1_000, 10_000),
    anywhere("GangsOf5000", "and five thousand?", 5_000, 10_000),
    Workload {
        measured: indexed(1_000, false, 10_000),
        ..anywhere(
            "GangsOf1000Indexed",
            "and a thousand that have a number each, as those of an indexed Job?",
            1_000,
            10_000,
        )
    },
    in_racks(
        "GangsOf4InRacks",
        "what does it cost to keep four pods in one of fifty racks?",
        4,
        2_000,
    ),
    in_racks("GangsOf100InRacks", "and a hundred pods, all in one of fifty racks?", 100, 5_000),
    in_racks("GangsOf1000InRacks", "and a thousand?", 1_000, 5_000),
    // A rack has no room for so many that ask for more.
    Workload {
        measured: Group { template: Template::Small, ..gangs(5_000, true, 10_000) },
        ..in_racks("GangsOf5000InRacks", "and five thousand small ones?", 5_000, 10_000)
    },
    Workload {
        measured: indexed(100, true, 5_000),
        ..in_racks(
            "GangsOf100IndexedInRacks",
            "and a hundred pods that have a number each?",
            100,
            5_000,
        )
    },
    too_much(
        "GangsOf1000TooLarge",
        "how long does it take to see that no pod of a gang of a thousand fits?",
        Template::LargeCpu,
        gangs(1_000, false, 10_000),
    ),
    too_much(
        "GangsOf1000TooManyForRacks",
        "and that each of fifty racks has room for a hundred of them?",
        Template::High,
        gangs(1_000, true, 10_000),
    ),
    gangs_that_preempt(
        "GangPreemption",
        "how long does it take to find out whom to evict for a gang of four?",
        &[default(Template::Low, 20_000)],
    ),
    gangs_that_preempt(
        "GangPreemptionOfGroups",
        "and if the pods that run are gangs that are evicted as a whole?",
        &[evicted_together(20_000)],
    ),
    Workload {
        name: "EveryPodDifferent",
        question: "how fast are pods placed that share nothing with each other?",
        nodes: NodeShape::Different,
        init: &[default(Template::Plain, 1_000)],
        measured: default(Template::Different, 3_000),
        outcome: Outcome::Most,
        goal: Some(5_000.0),
        ..UNLISTED
    },
    CLAIMS,
    Workload {
        goal: Some(2_500.0),
        ..claims(
            "DevicesMatchAttribute",
            "and two devices that must be on the same socket?",
            Devices::Cards(8),
            Wish::TwoAlike,
            &[default(Template::Claiming(Wish::TwoAlike), 10_000)],
        )
    },
    Workload {
        goal: Some(5_000.0),
        ..claims(
            "DevicesExtendedResource",
            "and one that is requested as an extended resource?",
            Devices::Cards(8),
            Wish::Extended,
            &[default(Template::Claiming(Wish::Extended), 10_000)],
        )
    },
    claims(
        "DevicesPrioritizedList",
        "and if there is a second choice?",
        Devices::Cards(8),
        Wish::EitherOf,
        &[default(Template::Claiming(Wish::EitherOf), 10_000)],
    ),
    claims(
        "DevicesPartitionable",
        "and a part of a card, by counters that parts share?",
        Devices::Partitions,
        Wish::Partition,
        &[default(Template::Claiming(Wish::Partition), 10_000)],
    ),
    claims(
        "DevicesOfAllNodes",
        "and two parts of one of many cards that all nodes may use?",
        Devices::Network,
        Wish::TwoParts,
        &[default(Template::Claiming(Wish::FirstHalf), 10_000)],
    ),
    claims(
        "DevicesConsumable",
        "and a share of a card's memory?",
        Devices::Shared,
        Wish::Share,
        &[default(Template::Claiming(Wish::Share), 10_000)],
    ),
    Workload {
        churn: ChurnKind::Slices,
        ..claims(
            "DevicesRepublished",
            "what does it cost that a driver publishes its devices again?",
            Devices::Cards(8),
            Wish::One,
            &[default(Template::Claiming(Wish::One), 10_000)],
        )
    },
    short(
        "DevicesOneOf32Short",
        "how long does it take to see that 31 devices are not enough for 32?",
        32,
    ),
    short("DevicesOneOf64Short", "and 63 for 64, in two claims?", 64),
    short("DevicesOneOf128Short", "and 127 for 128, in four claims?", 128),
];

//! Inputs that once cost too much. They are tried first.

use super::genes::{Gene, Genome, PARTS};

impl Genome {
    /// What once cost too much.
    pub(super) fn known() -> [Self; Self::N_KNOWN] {
        let listing = |name: &str, n, listed, style| {
            let part = PARTS.iter().position(|(known, _)| *known == name).unwrap_or(0);
            Gene { part, n, listed, style }
        };
        let gene = |name: &str, n, style| listing(name, n, 1, style);
        let may_go_to_any_host = || gene("pod group", 1, 0b10);
        [
            // Looking for pods to evict had the price of all nodes on each of them.
            Self { n_pods: 5, genes: vec![may_go_to_any_host(), gene("priority and size", 1, 0)] },
            // Attempts at preemption were noted one by one.
            Self { n_pods: 60, genes: vec![may_go_to_any_host(), gene("priority and size", 1, 0)] },
            // A pod with claims had its own copies of the amounts of its resources.
            Self {
                n_pods: 1,
                genes: vec![gene("resources", 900, 0), gene("resource claims", 1, 1)],
            },
            // Each host had the price of counting pods in the whole cluster again.
            Self {
                n_pods: 1,
                genes: vec![may_go_to_any_host(), gene("pod affinity terms", 53, 0b1_1001)],
            },
            // The same of searches beyond the soft limit.
            Self {
                n_pods: 1,
                genes: vec![may_go_to_any_host(), gene("pod affinity terms", 54, 0b1_1001)],
            },
            // These seemed to be kept, but a pod may have too many.
            Self {
                n_pods: 8,
                genes: vec![
                    may_go_to_any_host(),
                    gene("priority and size", 1, 0),
                    gene("pod affinity terms", 106, 0b1_1001),
                ],
            },
            // Each node and pod on it had the price of all that the replica set selects when pods to evict are looked for.
            Self {
                n_pods: 12,
                genes: vec![
                    may_go_to_any_host(),
                    gene("priority and size", 1, 0),
                    listing("a replica set", 1, 830, 3),
                ],
            },
            // Each attempt hashed all that the replica set selects several times, and paid for each text with each pod.
            Self {
                n_pods: 12,
                genes: vec![may_go_to_any_host(), listing("a replica set", 1, 1_728, 2)],
            },
            // Nodes kept room for the pods that were tried there.
            Self {
                n_pods: 60,
                genes: vec![listing("pod group", 3_201, 2, 23), listing("a replica set", 1, 2, 34)],
            },
            // A counter was filed under each of its namespaces.
            Self { n_pods: 1, genes: vec![listing("pod affinity terms", 147, 61, 0b11_1100)] },
            Self {
                n_pods: 9,
                genes: vec![may_go_to_any_host(), gene("pod affinity terms", 700, 0b1_1101)],
            },
            // Each pod had its own copy of what its replica set selects.
            Self { n_pods: 12, genes: vec![listing("a replica set", 1, 700, 3)] },
            Self { n_pods: 12, genes: vec![listing("a replica set", 1, 1_728, 2)] },
            // Nodes and the index of affinity terms kept room for those that were gone.
            Self {
                n_pods: 8,
                genes: vec![
                    gene("pod affinity terms", 461, 0b1_1001),
                    listing("pod affinity terms", 54, 62, 0b11_1001),
                    gene("pod group", 4, 0b10_0011),
                ],
            },
            // At each host, the counter of each key was looked up, which takes all terms; and no node has the keys.
            Self {
                n_pods: 11,
                genes: vec![may_go_to_any_host(), gene("pod affinity terms", 53, 0b1100)],
            },
            // At each host, each member was compared with all services again.
            Self {
                n_pods: 60,
                genes: vec![
                    listing("pod group", 1600, 2, 23),
                    listing("services", 5, 68, 63),
                    listing("pod group", 3201, 2, 18),
                    listing("labels", 28, 2, 20),
                ],
            },
            // Evaluations that were kept held the claims, whatever they took.
            Self { n_pods: 7, genes: vec![listing("resource claims", 4, 498, 28)] },
            // Counters by the keys of the constraints had a kilobyte more.
            Self { n_pods: 12, genes: vec![listing("spread constraints", 43, 14, 40)] },
            // Each counter had room for 64 domains.
            Self {
                n_pods: 12,
                genes: vec![
                    listing("pod affinity terms", 1, 11, 12),
                    listing("spread constraints", 43, 904, 40),
                ],
            },
            // At each host, a pod was compared with all that its replica set selects, and had the price of doing so four times.
            Self {
                n_pods: 60,
                genes: vec![
                    listing("a replica set", 2, 1740, 23),
                    listing("pod group", 199, 121, 18),
                ],
            },
            Self {
                n_pods: 60,
                genes: vec![
                    listing("a replica set", 2, 1923, 23),
                    listing("pod group", 199, 121, 18),
                ],
            },
            // More than is kept was counted anew at each host.
            Self {
                n_pods: 60,
                genes: vec![
                    listing("a replica set", 2, 2100, 23),
                    listing("pod group", 199, 121, 18),
                ],
            },
            // Putting ports on a host and taking them off had no price.
            Self { n_pods: 60, genes: vec![may_go_to_any_host(), gene("host ports", 376, 0)] },
        ]
    }

    /// How many those are.
    pub(super) const N_KNOWN: usize = 23;
}

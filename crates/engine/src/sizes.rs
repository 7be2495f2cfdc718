//! How large the engine's tables are: whoever runs it for months, or in a simulation, sees what only ever grows.

use crate::engine::Engine;

/// The size of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// What is in it.
    pub table: &'static str,
    /// How many entries it has.
    pub n_entries: usize,
    /// Whether it must be empty when there are no pods, nodes and other objects, and nothing is under way. The others
    /// hold what was learned and may be of use again, up to a fixed number of entries.
    pub is_bound_to_objects: bool,
}

impl Engine {
    /// The sizes of all tables, in a fixed order. O(kinds of objects).
    pub fn table_sizes(&self) -> Vec<TableSize> {
        let cluster = self.cluster();
        let queue = self.queue();
        let n_missed: u64 = queue.in_flight_event_counts().iter().map(|(_, count)| count).sum();
        let live = [
            ("pods known", self.n_known_pods()),
            ("pods on nodes", cluster.n_pods()),
            ("assumed pods", cluster.n_assumed()),
            ("nodes", cluster.n_nodes()),
            ("nodes that only pods name", cluster.n_ghosts()),
            ("assumed objects", cluster.objects().n_assumed()),
            ("pods queued", queue.len()),
            (
                "pods in flight and events they missed",
                usize::try_from(n_missed).unwrap_or(usize::MAX),
            ),
            ("nodes with nominated pods", queue.nominated_nodes().count()),
            ("affinity terms of pods", cluster.affinity_terms().iter().count()),
            ("lists of taints", cluster.taint_sets().iter().count()),
        ];
        let bindings = self.bindings.table_sizes();
        let preemptions = self.preemptions.table_sizes();
        let bound =
            live.into_iter().chain(bindings).chain(preemptions).map(|(table, n_entries)| {
                TableSize { table, n_entries, is_bound_to_objects: true }
            });
        let (n_signatures, n_evaluations) = self.class_table_sizes();
        let kept = [
            ("followed counters", cluster.n_followed()),
            ("signatures", n_signatures),
            ("evaluations", n_evaluations),
        ];
        bound
            .chain(kept.map(|(table, n_entries)| TableSize {
                table,
                n_entries,
                is_bound_to_objects: false,
            }))
            .collect()
    }
}

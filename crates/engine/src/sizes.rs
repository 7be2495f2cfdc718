//! How large the engine's tables are, so that a program that runs it for months, or a simulation, notices a table that only
//! grows.

use kube_scheduler_runtime::Profile;

use crate::engine::Engine;

/// The size of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// What is in it.
    pub table: &'static str,
    /// How many entries it has.
    pub n_entries: usize,
    /// Whether it must be empty when there are no pods, nodes and other objects, and nothing is under way. The others
    /// hold what was computed and may be used again, up to a fixed number of entries.
    pub is_bound_to_objects: bool,
    /// What it takes in memory, about, in bytes; of tables that are bounded in bytes, at most. `None` if an entry takes a few words.
    pub n_bytes: Option<usize>,
}

impl Engine {
    /// The sizes of all tables, in a fixed order. O(kinds of objects + label columns).
    pub fn table_sizes(&self) -> Vec<TableSize> {
        let Self { core, cycle, bindings, preemptions } = self;
        let (cluster, queue) = (&core.cluster, core.queue());
        let n_missed: u64 = queue.in_flight_event_counts().iter().map(|(_, count)| count).sum();
        let objects = cluster.objects().size();
        let terms = cluster.affinity_terms();
        let with_bytes = [
            ("pods known", core.pods.len(), Some(core.pods.n_bytes())),
            ("objects other than pods and nodes", objects.n_entries, Some(objects.n_bytes)),
            ("nodes", cluster.n_nodes(), Some(cluster.n_bytes_of_nodes())),
            ("pods queued", queue.len(), Some(queue.n_bytes())),
            ("affinity terms of pods", terms.n_terms_of_all_kinds(), Some(terms.n_bytes())),
            (
                "volumes in use, by node",
                cluster.n_volumes_in_use(),
                Some(cluster.n_bytes_of_volumes_in_use()),
            ),
        ];
        let live = [
            ("pods on nodes", cluster.n_pods()),
            ("assumed pods", cluster.n_assumed()),
            ("nodes that only pods name", cluster.n_ghosts()),
            ("assumed objects", cluster.objects().n_assumed()),
            ("pending objects", cluster.objects().n_pending()),
            ("writes without an answer", cluster.objects().n_unanswered()),
            (
                "pods in flight and events they missed",
                usize::try_from(n_missed).unwrap_or(usize::MAX),
            ),
            ("nodes with nominated pods", queue.nominated_nodes().count()),
            ("pods with many affinity terms", core.term_limits.len()),
            ("lists of taints", cluster.taint_sets().iter().count()),
            ("pods that wait on Permit", core.permits.len()),
            ("pods that preempt", core.held_back.len()),
            ("groups that are waited for", core.incomplete.len()),
            ("gangs that hold room or rest", core.backfill.len()),
        ];
        let classes = &cycle.classes;
        let (log, history) = (cluster.size_of_log(), cluster.objects().size_of_history());
        let plugins = core.plans.profiles.0.iter().flat_map(Profile::plugins);
        let (n_plugins, n_plugin_bytes) =
            plugins.fold((0, 0), |(n, bytes), entry| (n + 1, bytes + entry.plugin.kept_bytes()));
        let learned = [
            ("changes of nodes", log.n_entries, Some(log.n_bytes)),
            ("changes of claims and devices", history.n_entries, Some(history.n_bytes)),
            ("followed counters", cluster.n_followed(), Some(cluster.n_bytes_of_followed())),
            ("label columns", cluster.n_label_columns(), Some(cluster.n_bytes_of_label_columns())),
            ("signatures", core.signatures.len(), Some(core.signatures.n_bytes())),
            ("evaluations", classes.len(), Some(classes.n_bytes())),
            ("namespaces with costly pods", cycle.budgets.len(), None),
            ("plugins", n_plugins, Some(n_plugin_bytes)),
        ];
        let size = |is_bound_to_objects| {
            move |(table, n_entries, n_bytes)| TableSize {
                table,
                n_entries,
                is_bound_to_objects,
                n_bytes,
            }
        };
        let of_few_words = live
            .into_iter()
            .chain(core.deadlines.table_sizes())
            .chain(bindings.table_sizes())
            .chain(preemptions.table_sizes())
            .map(|(table, n_entries)| (table, n_entries, None));
        with_bytes
            .into_iter()
            .chain(of_few_words)
            .map(size(true))
            .chain(learned.map(size(false)))
            .collect()
    }
}

//! What a scheduler has to do in any cluster.
//!
//! Each scenario finds a cluster without nodes and pods, and may leave in it what it likes. `each_scenario!` is the
//! list.

mod access;
mod coscheduling;
mod devices;
mod extenders;
mod groups;
mod leader;
mod logs;
mod manifest;
mod placement;
mod preemption;
mod profiles;
mod restarts;
mod volumes;

use futures::future::LocalBoxFuture;
use kube_scheduler_tests::control_plane::Features;

use crate::cluster::Cluster;

/// One of them.
pub(crate) struct Scenario {
    /// Its name, as in `placement::taints_and_node_affinity_decide`.
    pub(crate) name: &'static str,
    /// What the API server must have.
    pub(crate) features: Features,
    run: for<'c> fn(&'c Cluster) -> LocalBoxFuture<'c, ()>,
}

impl Scenario {
    /// Plays it, and asks whether anything was refused to the scheduler meanwhile.
    ///
    /// # Panics
    /// If the scheduler does not do as it should.
    pub(crate) async fn play(&self, cluster: &Cluster) {
        let before = cluster.denied().await.expect("refused requests can be listed").len();
        (self.run)(cluster).await;
        let denied = cluster.denied().await.expect("refused requests can be listed");
        assert!(denied.len() == before, "refused to the scheduler: {:#?}", &denied[before..]);
    }
}

/// Calls a macro with the names of all scenarios, each behind the [`Features`] that it needs.
macro_rules! each_scenario {
    ($callback:ident) => {
        $callback! {
            Default placement::what_fits_is_bound_and_what_does_not_is_reported,
            Default placement::taints_and_node_affinity_decide,
            Default placement::pods_spread_over_zones,
            Default placement::pods_avoid_and_follow_each_other,
            Default placement::gated_pods_wait,
            Default preemption::more_important_pods_take_the_place_of_others,
            Default preemption::budgets_are_respected,
            Default volumes::a_pod_goes_where_its_volume_is,
            Default volumes::a_pod_follows_a_bound_claim,
            Default volumes::a_volume_is_made_where_the_pod_goes,
            Default devices::a_claim_comes_and_goes_with_its_pod,
            Default devices::a_half_written_decision_is_taken_up,
            Gated devices::a_rule_takes_devices_away_and_gives_them_back,
            Default devices::killed_schedulers_leave_no_device_behind,
            Default devices::a_scheduler_is_killed_between_claim_and_binding,
            Default devices::a_claim_is_made_for_an_extended_resource,
            Gated groups::a_gang_waits_for_its_last_pod,
            Gated groups::a_gang_that_does_not_fit_takes_no_room,
            Gated groups::a_gang_goes_to_a_rack_with_room_for_all_of_it,
            Gated groups::a_gang_takes_the_place_of_less_important_pods,
            Gated groups::a_gang_fits_as_a_whole_though_not_pod_by_pod,
            Gated groups::a_gang_shares_one_claim,
            Gated groups::members_of_a_gang_have_claims_of_their_own,
            Gated groups::a_scheduler_is_killed_while_it_binds_a_gang_with_devices,
            Default coscheduling::all_of_a_group_of_scheduler_plugins_or_none,
            Default coscheduling::two_half_fitting_groups_do_not_hold_each_other_up,
            Default profiles::each_pod_is_scheduled_by_its_profile,
            Default access::the_roles_of_the_scheduler_are_enough,
            Default extenders::an_extender_has_its_say,
            Default leader::a_dead_leader_is_replaced,
            Default leader::a_leader_that_is_asked_to_end_hands_over,
            Default logs::lines_are_of_the_recorded_kinds,
            Default manifest::the_static_pod_of_a_control_plane_works,
            Default restarts::a_killed_scheduler_is_taken_over_from,
            Default restarts::a_killed_process_is_taken_over_from,
            Default restarts::the_api_server_may_go_away,
        }
    };
}

macro_rules! table {
    ($($features:ident $module:ident::$name:ident,)*) => {
        /// All of them.
        pub(crate) const SCENARIOS: &[Scenario] = &[$(Scenario {
            name: concat!(stringify!($module), "::", stringify!($name)),
            features: Features::$features,
            run: |cluster| Box::pin($module::$name(cluster)),
        }),*];
    };
}

each_scenario!(table);
pub(crate) use each_scenario;

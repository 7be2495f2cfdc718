//! From a configuration to an engine that can run.
//!
//! Behaviour: `docs/spec/core.md` §1 and §10.1, `docs/spec/queue.md` §9.1.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_config::{
    Configuration, ConfiguredArgs, FeatureGates, Gate, NoFitArgs, ignore_managed_resources,
};
use kube_scheduler_framework::{EventRegistration, EventResource, Handle, PluginName};
use kube_scheduler_queue::{HintId, ProfileSpec, QueueSettings, SchedulingQueue};
use kube_scheduler_runtime::{Extenders, Profile, ProfileError, Registry, Timer};

use crate::backfill::Backfill;
use crate::binding::Bindings;
use crate::budget::WorkLimits;
use crate::buffers::Buffers;
use crate::class_cache::SignPlan;
use crate::core::Core;
use crate::counts::{Counts, ProfileCounts};
use crate::cycle::{CycleOptions, SchedulingCycle};
use crate::engine::Engine;
use crate::group::foreign::ForeignGroups;
use crate::group::incomplete::IncompleteGroups;
use crate::measures::Measures;
use crate::policy::{GroupGates, Hints, Plans};
use crate::preemption::Preemptions;
use crate::profiles::Profiles;
use crate::readers::ObjectReaders;

/// So long a controller may take to create the pods of a gang.
const GROUP_PATIENCE: Duration = Duration::from_secs(30);

/// Long enough for jobs to end, and not for ever.
const LONGEST_HOLD: Duration = Duration::from_secs(60 * 60);

/// What an engine needs to know beside its configuration.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Decides everything that is random; the same seed gives the same decisions. With 0, the default, the first in order
    /// of several equally good nodes is chosen; with any other, one of them is drawn.
    pub seed: u64,
    /// The feature gates that plugins and engine consult.
    pub gates: FeatureGates,
    /// How long a pod may stay unschedulable without any event.
    pub max_in_unschedulable: Duration,
    /// What plugins may use of their surroundings.
    pub handle: Handle,
    /// Whether pods of one class share evaluations. Off, every pod is evaluated from scratch, with the same outcome.
    pub uses_class_cache: bool,
    /// Whether bound pods and preemptions are kept for [`Engine::drain_bound`] and
    /// [`Engine::drain_preemption_counts`].
    pub keeps_bound: bool,
    /// Programs outside that take part in every attempt.
    pub extenders: Extenders,
    /// Measures plugins, hints and events for [`Engine::drain_measurements`]; nothing is measured without.
    pub timer: Option<Arc<dyn Timer>>,
    /// How much work attempts may cost.
    pub work: WorkLimits,
    /// Whether the first by name of several equally good nodes is chosen, whatever the seed, as in recorded decisions.
    pub breaks_ties_by_name: bool,
    /// Whether pod groups that do not fit are tried again at once when nothing else is to be done, as in the reference,
    /// instead of after their backoff.
    pub hurries_groups: bool,
    /// How long members of a gang are held back before they report that pods are missing, or the group; `None` for ever, as in
    /// the reference. With `None` a group whose pods are for different schedulers has no condition either.
    pub group_patience: Option<Duration>,
    /// Whether gangs are planned as a whole: placed if their pods fit in any order, and in the best of the allowed domains.
    /// Off, members are tried one after the other, as in the reference. Of use with the gate `GangScheduling`, or with a plugin
    /// that has gangs of its own.
    pub plans_gangs_exactly: bool,
    /// How long one gang that is planned as a whole and does not fit may hold room at a time; zero for not at all.
    pub longest_hold: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            gates: FeatureGates::default(),
            max_in_unschedulable: QueueSettings::default().max_in_unschedulable,
            handle: Handle::default(),
            uses_class_cache: true,
            keeps_bound: false,
            extenders: Extenders::default(),
            timer: None,
            work: WorkLimits::default(),
            breaks_ties_by_name: false,
            hurries_groups: false,
            group_patience: Some(GROUP_PATIENCE),
            plans_gangs_exactly: false,
            longest_hold: LONGEST_HOLD,
        }
    }
}

/// A configuration that no engine can be made from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is nothing to schedule for.
    #[error("at least one profile is required")]
    NoProfiles,
    /// A profile has no name.
    #[error("initializing profiles: scheduler name is needed")]
    NoSchedulerName,
    /// Two profiles have the same name.
    #[error("initializing profiles: duplicate profile with scheduler name \"{0}\"")]
    DuplicateProfile(Arc<str>),
    /// The queue has one order for all profiles.
    #[error(
        "initializing profiles: different queue sort plugins for profile \"{profile}\": \"{plugin}\", first: \"{first}\""
    )]
    DifferentQueueSort {
        /// The profile that differs.
        profile: Arc<str>,
        /// Its plugin.
        plugin: Arc<str>,
        /// The first profile's.
        first: Arc<str>,
    },
    /// The queue has one order for all profiles.
    #[error("initializing profiles: different queue sort plugin args for profile \"{0}\"")]
    DifferentQueueSortArgs(Arc<str>),
    /// A profile cannot be built.
    #[error("initializing profiles: creating profile for scheduler name {profile}: {source}")]
    Profile {
        /// Which.
        profile: Arc<str>,
        /// Why.
        source: ProfileError,
    },
    /// NodeResourcesFit cannot be configured to ignore the resources that extenders manage.
    #[error("couldn't build extenders: {0}")]
    ManagedResources(#[from] NoFitArgs),
    /// The configuration has extenders that were not made. The caller brings them in [`EngineOptions::extenders`], or takes
    /// them out of the configuration.
    #[error("couldn't build extenders: {configured} are configured, but {given} were made")]
    MissingExtenders {
        /// How many are configured.
        configured: usize,
        /// How many there are.
        given: usize,
    },
}

impl Engine {
    /// Makes an engine from a configuration with defaults filled in.
    ///
    /// # Errors
    /// If a profile cannot be built, in the reference's words where it has them.
    pub fn new(
        config: &Configuration,
        registry: &Registry,
        options: EngineOptions,
    ) -> Result<Self, BuildError> {
        let (configured, given) = (config.extenders.len(), options.extenders.len());
        if configured > given {
            return Err(BuildError::MissingExtenders { configured, given });
        }
        let mut config = config.clone();
        ignore_managed_resources(&mut config)?;
        let mut profiles = build_profiles(&config, registry, &options)?;
        if let Some(timer) = &options.timer {
            profiles.iter_mut().for_each(|profile| profile.measure(timer.clone()));
        }
        let mut hints: Vec<(PluginName, EventRegistration)> = Vec::new();
        let mut custom_resources = BTreeSet::new();
        let specs = profiles
            .iter()
            .map(|profile| queue_profile(profile, &mut hints, &mut custom_resources, &options))
            .collect();
        let mut queue = SchedulingQueue::new(queue_settings(&config, &options), specs);
        let gates = profiles
            .iter()
            .map(|profile| {
                profile.pre_enqueue().map(|(_, name, _)| queue.intern_plugin(name)).collect()
            })
            .collect();
        // All profiles share one queue, which sorts by itself only if every profile's plugin sorts that way.
        let is_by_priority_then_age = profiles
            .iter()
            .all(|profile| profile.queue_sort().all(|(_, _, sort)| sort.is_by_priority_then_age()));
        let counts = Counts {
            profiles: vec![ProfileCounts::default(); profiles.len()],
            keeps_bound: options.keeps_bound,
            ..Counts::default()
        };
        let readers = ObjectReaders::of(&profiles);
        let foreign = ForeignGroups::of(&profiles);
        let plans = Plans {
            custom_resources,
            sign: profiles.iter().map(SignPlan::new).collect(),
            gates,
            hints: Hints(hints),
            groups: GroupGates::new(&options.gates, foreign.exist(), options.plans_gangs_exactly),
            is_by_priority_then_age,
            extenders: options.extenders,
            profiles: Profiles(profiles),
        };
        let measures = Measures::new(options.timer, options.keeps_bound);
        let is_enabled = |gate| options.gates.is_enabled(gate);
        let mut core = Core::new(Arc::new(plans), readers, queue, counts, measures);
        core.incomplete = IncompleteGroups::new(options.group_patience);
        core.backfill = Backfill::new(options.longest_hold);
        core.foreign = foreign;
        Ok(Self {
            core,
            cycle: SchedulingCycle::new(CycleOptions {
                buffers: Buffers::default(),
                uses_class_cache: options.uses_class_cache,
                percentage: config.percentage_of_nodes_to_score.filter(|share| *share > 0),
                seed: options.seed,
                work: options.work,
                breaks_ties_by_name: options.breaks_ties_by_name,
            }),
            bindings: Bindings::new(is_enabled(Gate::NominatedNodeNameForExpectation)),
            preemptions: Preemptions::new(is_enabled(Gate::SchedulerAsyncPreemption)),
        })
    }
}

fn queue_settings(config: &Configuration, options: &EngineOptions) -> QueueSettings {
    QueueSettings {
        initial_backoff: seconds(config.pod_initial_backoff_seconds()),
        max_backoff: seconds(config.pod_max_backoff_seconds()),
        max_in_unschedulable: options.max_in_unschedulable,
        uses_hints: options.gates.is_enabled(Gate::SchedulerQueueingHints),
        hurries_groups: options.hurries_groups,
        pop_from_backoff: options.gates.is_enabled(Gate::SchedulerPopFromBackoffQ),
    }
}

fn seconds(n: i64) -> Duration {
    Duration::from_secs(u64::try_from(n).unwrap_or(0))
}

fn build_profiles(
    config: &Configuration,
    registry: &Registry,
    options: &EngineOptions,
) -> Result<Vec<Profile>, BuildError> {
    let gates = options.gates.iter().filter(|(_, _, is_on)| *is_on);
    let features = gates.map(|(name, _, _)| name.into());
    let mut profiles: Vec<Profile> = Vec::new();
    let mut sort_args: Option<(Arc<str>, Option<&ConfiguredArgs>)> = None;
    let handle = options.handle.clone().with_features(features);
    for (at, profile) in config.profiles.iter().enumerate() {
        let name: Arc<str> = profile.scheduler_name.as_deref().unwrap_or_default().into();
        let built = Profile::build(profile, &format!("profiles[{at}]"), registry, &handle)
            .map_err(|source| BuildError::Profile { profile: name.clone(), source })?;
        if name.is_empty() {
            return Err(BuildError::NoSchedulerName);
        }
        if profiles.iter().any(|other| other.scheduler_name == name) {
            return Err(BuildError::DuplicateProfile(name));
        }
        // All profiles share one queue, so they must sort it with the same plugin and the same arguments.
        let plugin: Arc<str> =
            built.queue_sort().next().map_or_else(Arc::default, |(_, name, _)| name.clone());
        let args = profile.plugin_config.iter().find(|given| given.name == *plugin);
        // None are the same as `null`.
        let is_null =
            |args: &&ConfiguredArgs| matches!(args, ConfiguredArgs::Raw(json) if json.is_null());
        let args = args.map(|given| &given.args).filter(|args| !is_null(args));
        match &sort_args {
            None => sort_args = Some((plugin, args)),
            Some((first, _)) if *first != plugin => {
                return Err(BuildError::DifferentQueueSort {
                    profile: name,
                    plugin,
                    first: first.clone(),
                });
            }
            Some((_, first)) if *first != args => {
                return Err(BuildError::DifferentQueueSortArgs(name));
            }
            Some(_) => {}
        }
        profiles.push(built);
    }
    if profiles.is_empty() { Err(BuildError::NoProfiles) } else { Ok(profiles) }
}

/// A profile as the queue knows it: its gates, and the events that its plugins register for.
fn queue_profile(
    profile: &Profile,
    hints: &mut Vec<(PluginName, EventRegistration)>,
    custom_resources: &mut BTreeSet<Arc<str>>,
    options: &EngineOptions,
) -> ProfileSpec {
    let uses_hints = options.gates.is_enabled(Gate::SchedulerQueueingHints);
    let mut spec = ProfileSpec::new(&*profile.scheduler_name);
    if !options.extenders.is_empty() {
        spec = spec.with_extenders(options.gates.is_enabled(Gate::GenericWorkload));
    }
    for (_, name, _) in profile.pre_enqueue() {
        spec = spec.with_pre_enqueue(&**name);
    }
    for entry in profile.plugins() {
        let plugin = &*entry.plugin;
        let can_reject = plugin.as_pre_enqueue().is_some()
            || plugin.as_pre_filter().is_some()
            || plugin.as_filter().is_some()
            || plugin.as_reserve().is_some()
            || plugin.as_permit().is_some();
        // A plugin that cannot reject a pod has none waiting for its events.
        if !can_reject {
            continue;
        }
        // A plugin that registers for no events does not say what helps its pods, so every event may.
        let Some(extensions) = plugin.as_enqueue_extensions() else {
            spec = spec.with_catch_all(&entry.name, false);
            continue;
        };
        let events: Vec<_> = extensions
            .events_to_register()
            .into_iter()
            .map(|registration| {
                if let EventResource::Custom(name) = registration.event.resource() {
                    custom_resources.insert(name.clone());
                }
                let event = registration.event.clone();
                let hint = (uses_hints && registration.hint.is_some()).then(|| {
                    let id = HintId(u32::try_from(hints.len()).unwrap_or(u32::MAX));
                    hints.push((entry.name.clone(), registration));
                    id
                });
                (event, hint)
            })
            .collect();
        spec = spec.with_events(&entry.name, events);
    }
    spec
}

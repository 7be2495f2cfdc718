//! From a configured profile to one that can run.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_config::{KubeSchedulerProfile, Plugins};
use kube_scheduler_framework::{Handle, MAX_NODE_SCORE, PluginArgs, PluginError, PluginName};

use super::{ExtensionPoint, PluginEntry, PluginIdx, Profile};
use crate::registry::Registry;

/// A profile that cannot be built.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfileError {
    /// Arguments are given twice.
    #[error("repeated config for plugin {0}")]
    RepeatedConfig(PluginName),
    /// A plugin does not accept its arguments.
    #[error("initializing plugin \"{plugin}\": {source}")]
    Factory {
        /// Which plugin.
        plugin: PluginName,
        /// Why.
        source: PluginError,
    },
    /// A plugin has another name than the one under which it is registered.
    #[error(
        "the factory of plugin \"{plugin}\" makes a plugin that is called \"{name}\": it must have the name under which it is registered"
    )]
    OtherName {
        /// The name under which it is registered.
        plugin: PluginName,
        /// What it calls itself.
        name: String,
    },
    /// No such plugin is registered.
    #[error("{point}Plugin \"{plugin}\" does not exist", point = point.as_str())]
    Unknown {
        /// Where it was named.
        point: ExtensionPoint,
        /// The name.
        plugin: PluginName,
    },
    /// The plugin does not implement the point.
    #[error("plugin \"{plugin}\" does not extend {point}Plugin plugin", point = point.as_str())]
    DoesNotExtend {
        /// Where it was named.
        point: ExtensionPoint,
        /// The name.
        plugin: PluginName,
    },
    /// The plugin is named twice.
    #[error("plugin \"{plugin}\" already registered as \"{point}Plugin\"", point = point.as_str())]
    Duplicate {
        /// Where it was named.
        point: ExtensionPoint,
        /// The name.
        plugin: PluginName,
    },
    /// There must be exactly one QueueSort plugin.
    #[error(
        "only one queue sort plugin required for profile with scheduler name \"{scheduler_name}\", but got {n}"
    )]
    QueueSortCount {
        /// Which profile.
        scheduler_name: Arc<str>,
        /// How many there are.
        n: usize,
    },
    /// There must be a Bind plugin.
    #[error("at least one bind plugin is needed for profile with scheduler name \"{0}\"")]
    NoBind(Arc<str>),
    /// There are several PlacementGenerate plugins.
    #[error(
        "at most one placement generate plugin is allowed for profile with scheduler name \"{0}\""
    )]
    SeveralGenerators(Arc<str>),
    /// Weights are too large to add up: those of plugins that are called like this.
    #[error("{0} plugins: total score of Score plugins could overflow")]
    WeightOverflow(&'static str),
    /// A plugin that scores has no weight.
    #[error("{what} plugin \"{plugin}\" is not configured with weight")]
    NoWeight {
        /// What plugins of that point are called.
        what: &'static str,
        /// The name.
        plugin: PluginName,
    },
}

impl Profile {
    /// Makes the plugins and lays out every extension point (`docs/spec/core.md` §10.1). `config` stands at `path` in the
    /// configuration: for messages, such as `profiles[0]`.
    ///
    /// # Errors
    /// If a plugin does not exist, cannot be made, or does not implement a point that it is named at, or a required point has none.
    pub fn build(
        config: &KubeSchedulerProfile,
        path: &str,
        registry: &Registry,
        handle: &Handle,
    ) -> Result<Self, ProfileError> {
        let no_sets = Plugins::default();
        let sets = config.plugins.as_ref().unwrap_or(&no_sets);
        let scheduler_name: Arc<str> = config.scheduler_name.as_deref().unwrap_or_default().into();
        let place_of_args = |name: &str, at: Option<usize>| match at {
            Some(at) => format!("{path}.pluginConfig[{at}].args"),
            None => format!("{path}.pluginConfig[name={name}].args"),
        };
        let handle_of =
            |name: &str, at| handle.for_plugin(&scheduler_name, &place_of_args(name, at));
        let plugins = make_plugins(config, sets, registry, handle_of)?;
        // All that is named explicitly is checked before MultiPoint is.
        let explicit = ExtensionPoint::ALL
            .iter()
            .map(|point| explicitly_enabled(*point, sets, &plugins))
            .collect::<Result<Vec<_>, _>>()?;
        let points = ExtensionPoint::ALL
            .iter()
            .zip(explicit)
            .map(|(point, explicit)| expand(*point, explicit, sets, &plugins))
            .collect::<Result<Vec<_>, _>>()?;
        let mut profile = Self {
            scheduler_name: scheduler_name.clone(),
            percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
            weights: vec![1; plugins.len()],
            placement_weights: vec![1; plugins.len()],
            plugins,
            points,
            permit_beyond_groups: Vec::new(),
            meter: None,
        };
        let beyond_groups =
            profile.permit().filter(|(_, _, plugin)| !plugin.concerns_groups_alone());
        profile.permit_beyond_groups = beyond_groups.map(|(idx, ..)| idx).collect();
        let n = profile.at(ExtensionPoint::QueueSort).len();
        if n != 1 {
            return Err(ProfileError::QueueSortCount { scheduler_name, n });
        }
        if profile.at(ExtensionPoint::Bind).is_empty() {
            return Err(ProfileError::NoBind(scheduler_name));
        }
        if profile.at(ExtensionPoint::PlacementGenerate).len() > 1 {
            return Err(ProfileError::SeveralGenerators(scheduler_name));
        }
        profile.weights = profile.weights_at(ExtensionPoint::Score, "score", sets)?;
        profile.placement_weights =
            profile.weights_at(ExtensionPoint::PlacementScore, "placement score", sets)?;
        Ok(profile)
    }

    /// The weights of all plugins at a point that scores: explicit weights first, then MultiPoint's; the first mention of a plugin
    /// counts, 0 means 1. `what` is what errors call the plugins.
    fn weights_at(
        &self,
        point: ExtensionPoint,
        what: &'static str,
        sets: &Plugins,
    ) -> Result<Vec<i64>, ProfileError> {
        let mut weights: BTreeMap<PluginIdx, i64> = BTreeMap::new();
        let mut total: i64 = 0;
        for named in point.set_in(sets).enabled.iter().chain(&sets.multi_point.enabled) {
            let Some(idx) = self.position(&named.name) else { continue };
            if !point.is_implemented_by(&*self.plugins[idx.0].plugin) || weights.contains_key(&idx)
            {
                continue;
            }
            let weight = if named.weight == 0 { 1 } else { i64::from(named.weight) };
            // Quirk: with a negative total the difference wraps, so the plugin after a negative weight is refused.
            let weighted = weight.wrapping_mul(MAX_NODE_SCORE);
            if weighted > i64::MAX.wrapping_sub(total) {
                return Err(ProfileError::WeightOverflow(what));
            }
            total = total.wrapping_add(weighted);
            weights.insert(idx, weight);
        }
        let unweighted = self.at(point).iter().find(|idx| !weights.contains_key(idx));
        if let Some(&idx) = unweighted {
            return Err(ProfileError::NoWeight { what, plugin: self.plugins[idx.0].name.clone() });
        }
        Ok((0..self.plugins.len())
            .map(|at| weights.get(&PluginIdx(at)).copied().unwrap_or(1))
            .collect())
    }
}

/// Instantiates every registered plugin that any point names, in the order of first mention: MultiPoint, then the
/// points in processing order.
fn make_plugins(
    config: &KubeSchedulerProfile,
    sets: &Plugins,
    registry: &Registry,
    handle_of: impl Fn(&str, Option<usize>) -> Handle,
) -> Result<Vec<PluginEntry>, ProfileError> {
    let mut args = BTreeMap::new();
    for (at, given) in config.plugin_config.iter().enumerate() {
        if args.insert(&*given.name, (at, &given.args)).is_some() {
            return Err(ProfileError::RepeatedConfig((&*given.name).into()));
        }
    }
    let explicit = ExtensionPoint::ALL.iter().flat_map(|point| &point.set_in(sets).enabled);
    let mut entries: Vec<PluginEntry> = Vec::new();
    for named in sets.multi_point.enabled.iter().chain(explicit) {
        let name: PluginName = (&*named.name).into();
        if find(&name, &entries).is_some() {
            continue;
        }
        let Some(factory) = registry.get(&name) else { continue };
        let (at, args) = args.get(&*name).copied().unzip();
        // What the file says is JSON, so it can be written as JSON.
        let args =
            args.map_or(PluginArgs::Null, |args| serde_json::to_value(args).unwrap_or_default());
        let plugin = factory(&args, &handle_of(&name, at))
            .map_err(|source| ProfileError::Factory { plugin: name.clone(), source })?;
        if plugin.name() != &*name {
            return Err(ProfileError::OtherName { name: plugin.name().to_owned(), plugin: name });
        }
        entries.push(PluginEntry { name, plugin });
    }
    Ok(entries)
}

fn find(name: &str, plugins: &[PluginEntry]) -> Option<PluginIdx> {
    plugins.iter().position(|entry| *entry.name == *name).map(PluginIdx)
}

/// The plugins that configuration names at one point.
fn explicitly_enabled(
    point: ExtensionPoint,
    sets: &Plugins,
    plugins: &[PluginEntry],
) -> Result<Vec<PluginIdx>, ProfileError> {
    let mut explicit: Vec<PluginIdx> = Vec::new();
    for named in &point.set_in(sets).enabled {
        let plugin = || PluginName::from(&*named.name);
        let idx = find(&named.name, plugins)
            .ok_or_else(|| ProfileError::Unknown { point, plugin: plugin() })?;
        if !point.is_implemented_by(&*plugins[idx.0].plugin) {
            return Err(ProfileError::DoesNotExtend { point, plugin: plugin() });
        }
        if explicit.contains(&idx) {
            return Err(ProfileError::Duplicate { point, plugin: plugin() });
        }
        explicit.push(idx);
    }
    Ok(explicit)
}

/// The plugins of one point: overrides in explicit order, then MultiPoint's, then the other explicit ones
/// (`docs/spec/core.md` §10.2).
fn expand(
    point: ExtensionPoint,
    explicit: Vec<PluginIdx>,
    sets: &Plugins,
    plugins: &[PluginEntry],
) -> Result<Vec<PluginIdx>, ProfileError> {
    let is_disabled = |name| point.set_in(sets).disabled.iter().any(|plugin| plugin.name == name);
    if is_disabled("*") {
        return Ok(explicit);
    }
    let mut overrides: Vec<PluginIdx> = Vec::new();
    let mut collected: Vec<PluginIdx> = Vec::new();
    for named in &sets.multi_point.enabled {
        let plugin = || PluginName::from(&*named.name);
        let idx = find(&named.name, plugins)
            .ok_or_else(|| ProfileError::Unknown { point, plugin: plugin() })?;
        if !point.is_implemented_by(&*plugins[idx.0].plugin) || is_disabled(&named.name) {
            continue;
        }
        if explicit.contains(&idx) {
            overrides.push(idx);
        } else if collected.contains(&idx) {
            return Err(ProfileError::Duplicate { point, plugin: plugin() });
        } else {
            collected.push(idx);
        }
    }
    let (mut order, rest): (Vec<_>, Vec<_>) =
        explicit.into_iter().partition(|idx| overrides.contains(idx));
    order.extend(collected);
    order.extend(rest);
    Ok(order)
}

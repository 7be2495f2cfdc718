//! Resources that extenders manage themselves and that NodeResourcesFit therefore ignores.

use crate::args::ConfiguredArgs;
use crate::v1::Configuration;

const FIT: &str = "NodeResourcesFit";

/// A profile has no arguments for NodeResourcesFit in which ignored resources could be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("can't find NodeResourcesFitArgs in plugin config")]
pub struct NoFitArgs;

/// Makes NodeResourcesFit of every profile ignore the resources that extenders manage and want ignored. To be called on a
/// configuration with defaults filled in; calling it again changes nothing.
///
/// Quirk: what users have NodeResourcesFit ignore is lost when any extender wants something ignored, as in the reference.
///
/// # Errors
/// If a profile configures no NodeResourcesFit, which defaults do wherever the plugin is enabled.
pub fn ignore_managed_resources(configuration: &mut Configuration) -> Result<(), NoFitArgs> {
    let managed = configuration.extenders.iter().flat_map(|extender| &extender.managed_resources);
    let ignored: Vec<String> = managed
        .filter(|resource| resource.ignored_by_scheduler)
        .map(|resource| resource.name.clone())
        .collect();
    if ignored.is_empty() {
        return Ok(());
    }
    for profile in &mut configuration.profiles {
        let fit = profile.plugin_config.iter_mut().find(|config| config.name == FIT);
        let Some(ConfiguredArgs::NodeResourcesFit(args)) = fit.map(|config| &mut config.args)
        else {
            return Err(NoFitArgs);
        };
        args.ignored_resources.clone_from(&ignored);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FeatureGates, load};

    const EXTENDERS: &str = "
extenders:
- urlPrefix: http://a
  filterVerb: f
  managedResources: [{name: x.io/a, ignoredByScheduler: true}, {name: x.io/b}]
- urlPrefix: http://b
  filterVerb: f
  managedResources: [{name: x.io/c, ignoredByScheduler: true}]
";

    fn loaded(rest: &str) -> Configuration {
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        load(&format!("{head}{rest}"), &FeatureGates::default()).unwrap()
    }

    fn ignored(configuration: &Configuration) -> Vec<Vec<String>> {
        let args = configuration.profiles.iter().flat_map(|profile| &profile.plugin_config);
        args.filter_map(|config| match &config.args {
            ConfiguredArgs::NodeResourcesFit(args) => Some(args.ignored_resources.clone()),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn every_profile_ignores_what_extenders_count_and_forgets_its_own() {
        let profiles = "
profiles:
- schedulerName: one
  pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResources: [x.io/mine]}
- schedulerName: two
";
        let mut with = loaded(&format!("{EXTENDERS}{profiles}"));
        ignore_managed_resources(&mut with).unwrap();
        let expected = vec!["x.io/a".to_owned(), "x.io/c".to_owned()];
        assert_eq!(ignored(&with), [expected.clone(), expected]);
        let again = with.clone();
        ignore_managed_resources(&mut with).unwrap();
        assert_eq!(with, again);

        let mut without = loaded(profiles);
        ignore_managed_resources(&mut without).unwrap();
        assert_eq!(ignored(&without), [vec!["x.io/mine".to_owned()], vec![]]);
    }

    #[test]
    fn a_profile_without_the_plugin_is_an_error() {
        let profiles = "
profiles:
- plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}
";
        let mut with = loaded(&format!("{EXTENDERS}{profiles}"));
        let error = ignore_managed_resources(&mut with).unwrap_err();
        assert_eq!(error.to_string(), "can't find NodeResourcesFitArgs in plugin config");
    }
}

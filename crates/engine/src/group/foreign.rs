//! Pod groups of other kinds than `PodGroup` of `scheduling.k8s.io`. Plugins say what they are; all other parts of the engine
//! see them as such PodGroups.
//!
//! Invariant: the name of such a group has its API group before a slash, so it is never the name of another PodGroup.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_scheduler_api_types::{Object, Pod, PodGroup, PodSpec};
use kube_scheduler_framework::groups::GroupSource;
use kube_scheduler_framework::{EventResource, Plugin};
use kube_scheduler_runtime::Profile;
use serde_json::{Value, json};

use crate::changes;
use crate::effect::ObjectRef;
use crate::guard::guarded;

/// The name of a profile, and its plugin that knows of such groups.
type SourceOfProfile = (Arc<str>, Option<Arc<dyn Plugin>>);

/// The plugins that know of such groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForeignGroups {
    by_profile: Vec<SourceOfProfile>,
    /// Whether there is such a plugin: asked for every pod that comes or changes.
    exist: bool,
    /// The specification that was put into a group last, the group, and what came of it: pods of one template share theirs.
    latest: Option<(Arc<PodSpec>, Arc<str>, Arc<PodSpec>)>,
}

impl ForeignGroups {
    pub(crate) fn of(profiles: &[Profile]) -> Self {
        let source = |profile: &Profile| {
            let entries = profile.permit().filter_map(|(at, ..)| profile.plugin(at));
            let mut plugins = entries.map(|entry| &entry.plugin);
            let source = plugins.find(|plugin| plugin.as_group_source().is_some());
            (profile.scheduler_name.clone(), source.cloned())
        };
        let by_profile: Vec<_> = profiles.iter().map(source).collect();
        let exist = by_profile.iter().any(|(_, plugin)| plugin.is_some());
        Self { by_profile, exist, latest: None }
    }

    /// Whether there may be such groups.
    pub(crate) const fn exist(&self) -> bool {
        self.exist
    }

    fn sources(&self) -> impl Iterator<Item = &dyn GroupSource> {
        let plugins = self.by_profile.iter().filter_map(|(_, plugin)| plugin.as_ref());
        plugins.filter_map(|plugin| plugin.as_group_source())
    }

    /// The group that a pod belongs to: one of its profile, or any for a pod of another scheduler once it has a node.
    pub(crate) fn group_of(&self, pod: &Pod) -> Option<Arc<str>> {
        let name = &pod.spec.scheduler_name;
        let source = match self.by_profile.iter().find(|(profile, _)| profile == name) {
            Some((_, plugin)) => plugin.as_ref()?.as_group_source()?,
            None => self.sources().next().filter(|_| pod.is_assigned())?,
        };
        // A plugin that panics knows of no group.
        let name = guarded(|| source.group_of(pod)).ok()??;
        Some(PodGroup::foreign_name(source.api_group(), name))
    }

    /// Makes a group the pod's.
    pub(crate) fn join(&mut self, pod: &mut Arc<Pod>, group: Option<Arc<str>>) {
        if pod.spec.pod_group == group {
            return;
        }
        let before = pod.spec.clone();
        let spec = match (&self.latest, &group) {
            (Some((from, into, spec)), Some(group))
                if Arc::ptr_eq(from, &before) && into == group =>
            {
                spec.clone()
            }
            _ => Arc::new(PodSpec { pod_group: group.clone(), ..(*before).clone() }),
        };
        self.latest = group.map(|group| (before, group, spec.clone()));
        Arc::make_mut(pod).spec = spec;
    }

    /// The object as a PodGroup, if it describes a group.
    pub(crate) fn as_pod_group(&self, object: &Object) -> Option<Arc<Object>> {
        let is_of = |source: &&dyn GroupSource| {
            *object.group == *source.api_group() && *object.kind == *source.kind()
        };
        let source = self.sources().find(is_of)?;
        // A group of which nothing is known cannot be read, and says so. Without a `spec` it would be one that is no gang.
        let spec = guarded(|| source.spec(object)).unwrap_or(Value::Bool(false));
        let generation = Value::from(&object.json["metadata"]["generation"]);
        let json = json!({"metadata": {"generation": generation}, "spec": spec});
        let mut object = object.clone().with_json(json);
        object.name = PodGroup::foreign_name(&object.group, &object.name);
        object.group = PodGroup::GROUP.into();
        object.kind = PodGroup::KIND.into();
        Some(Arc::new(object))
    }

    /// The object of a group as the API server has it, given the PodGroup that it is here.
    pub(crate) fn reference(&self, group: &Object) -> ObjectRef {
        let foreign = PodGroup::foreign_parts(&group.name).and_then(|(api_group, name)| {
            let source = self.sources().find(|source| source.api_group() == api_group)?;
            Some((api_group, source.kind(), name))
        });
        let own = (&*group.group, &*group.kind, &*group.name);
        let (api_group, kind, name) = foreign.unwrap_or(own);
        ObjectRef {
            api_version: format!("{api_group}/{}", group.version).into(),
            kind: kind.into(),
            namespace: group.namespace.clone(),
            name: name.into(),
            uid: group.uid.clone(),
            resource_version: group.resource_version.clone(),
        }
    }

    /// The resource that plugins register for to be notified of an object.
    pub(crate) fn resource_of(
        &self,
        object: &Object,
        custom: &BTreeSet<Arc<str>>,
    ) -> EventResource {
        let foreign = PodGroup::foreign_parts(&object.name)
            .filter(|_| *object.group == *PodGroup::GROUP && *object.kind == *PodGroup::KIND);
        let source = foreign
            .and_then(|(group, _)| self.sources().find(|source| source.api_group() == group));
        match source {
            Some(source) => source.resource(),
            None => changes::resource_of(object, custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::extension_points;

    use super::*;

    /// A source with a mistake.
    #[derive(Debug)]
    struct Broken;

    impl Plugin for Broken {
        fn name(&self) -> &'static str {
            "Broken"
        }

        extension_points!(GroupSource);
    }

    impl GroupSource for Broken {
        fn api_group(&self) -> &'static str {
            "example.com"
        }

        fn kind(&self) -> &'static str {
            "Team"
        }

        fn resource(&self) -> EventResource {
            EventResource::Custom("teams.v1.example.com".into())
        }

        fn group_of<'p>(&self, _: &'p Pod) -> Option<&'p str> {
            None
        }

        fn spec(&self, _: &Object) -> Value {
            panic!("a mistake")
        }
    }

    #[test]
    fn a_group_whose_source_panics_is_not_read_as_one_that_is_no_gang() {
        let plugin: Arc<dyn Plugin> = Arc::new(Broken);
        let by_profile = vec![("default-scheduler".into(), Some(plugin))];
        let groups = ForeignGroups { by_profile, exist: true, latest: None };
        let team = json!({
            "apiVersion": "example.com/v1", "kind": "Team",
            "metadata": {"namespace": "x", "name": "t"},
        });
        let group = groups.as_pod_group(&Object::from_value(team).unwrap()).unwrap();
        assert_eq!(&*group.name, "example.com/t");
        assert!(PodGroup::from_object(&group).is_err());
    }

    #[test]
    fn events_name_a_group_as_the_api_server_has_it() {
        let plugin: Arc<dyn Plugin> = Arc::new(Broken);
        let by_profile = vec![("default-scheduler".into(), Some(plugin))];
        let groups = ForeignGroups { by_profile, exist: true, latest: None };
        let object = |api_version: &str, kind: &str| {
            let metadata =
                json!({"namespace": "x", "name": "t", "uid": "u", "resourceVersion": "7"});
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
            Object::from_value(object).unwrap()
        };
        let team = groups.as_pod_group(&object("example.com/v1", "Team")).unwrap();
        let named = groups.reference(&team);
        assert_eq!(named.to_string(), "example.com/v1 Team x/t");
        assert_eq!((&*named.uid, &*named.resource_version), ("u", "7"));
        let own = object("scheduling.k8s.io/v1alpha2", "PodGroup");
        assert_eq!(groups.reference(&own).to_string(), "scheduling.k8s.io/v1alpha2 PodGroup x/t");
    }
}

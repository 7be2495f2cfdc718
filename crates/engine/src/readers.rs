//! Plugins that read objects when they come in.

use std::fmt;
use std::sync::Arc;

use kube_scheduler_api_types::Object;
use kube_scheduler_framework::{ObjectReader, Plugin};
use kube_scheduler_runtime::Profile;

use crate::guard::guarded;

/// The plugins of an engine that read objects before an attempt needs them. A shell with several threads passes every object that
/// it is about to feed to [`read`](Self::read), so that the thread of the engine has less to do. Cloning copies a pointer.
#[derive(Clone, Default)]
pub struct ObjectReaders(Arc<[Arc<dyn Plugin>]>);

impl fmt::Debug for ObjectReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|plugin| plugin.name())).finish()
    }
}

impl ObjectReaders {
    pub(crate) fn of(profiles: &[Profile]) -> Self {
        let plugins = profiles.iter().flat_map(Profile::plugins).map(|entry| &entry.plugin);
        Self(plugins.filter(|plugin| plugin.as_object_reader().is_some()).cloned().collect())
    }

    /// Lets the plugins read an object.
    pub fn read(&self, object: &Arc<Object>) {
        self.each(object, |reader| reader.read(object));
    }

    /// Notifies the plugins of a change of one object.
    pub(crate) fn changed(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        if let Some(object) = new.or(old) {
            self.each(object, |reader| reader.changed(old, new));
        }
    }

    /// Calls every reader that reads objects of this kind. A panic of a plugin is caught: it must not stop the intake of objects.
    fn each(&self, object: &Object, then: impl Fn(&dyn ObjectReader)) {
        for plugin in self.0.iter() {
            let reader = plugin.as_object_reader();
            let reader = reader.filter(|reader| reader.reads(&object.group, &object.kind));
            if let Some(reader) = reader {
                let _ = guarded(|| then(reader));
            }
        }
    }
}

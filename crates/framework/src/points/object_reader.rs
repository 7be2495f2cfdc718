//! Reading objects before an attempt needs them.

use std::sync::Arc;

use kube_scheduler_api_types::Object;

/// Prepares what attempts will need of objects when the objects arrive, so that the first attempt does not have to.
///
/// This fills a cache: a plugin answers the same whether it was notified of all objects, of some, or of none.
pub trait ObjectReader: Send + Sync {
    /// Whether objects of a kind are read, given their API group and kind.
    fn reads(&self, group: &str, kind: &str) -> bool;

    /// Reads an object that may be on its way into the cluster. Called from any thread, in time proportional to the object's size.
    fn read(&self, object: &Arc<Object>);

    /// Notifies the plugin of an object that was added, changed or deleted. Called on the scheduling thread between attempts:
    /// must be quick.
    fn changed(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>);
}

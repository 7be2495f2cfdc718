//! Reading objects before an attempt needs them.

use std::sync::Arc;

use kube_scheduler_api_types::Object;

/// Makes of objects what attempts are going to need, when the objects come in, so that the first attempt finds it.
///
/// What is made is a cache: a plugin answers the same whether it was notified of all objects, of some, or of none.
pub trait ObjectReader: Send + Sync {
    /// Whether objects of a kind are read, given their API group and kind.
    fn reads(&self, group: &str, kind: &str) -> bool;

    /// Reads an object that may be on its way into the cluster. Called from any thread, in time proportional to the object's size.
    fn read(&self, object: &Arc<Object>);

    /// Notified of an object that has come, changed or gone, by the thread that decides, in between attempts: this must be quick.
    fn changed(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>);
}

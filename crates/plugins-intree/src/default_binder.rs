//! DefaultBinder: writes the standard binding through the API server.
//!
//! The plugin only says that the standard binding is wanted; the shell writes it (namespace, name and UID of the pod,
//! target kind `Node`) and reports an API error unchanged. Answers to `plugins/defaultbinder/default_binder.go` of the
//! reference; behaviour in `docs/spec/plugins-node.md` §4.12.

use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    Bind, BindOutcome, Context, CycleState, Handle, Plugin, PluginArgs, PluginError,
};

pub(crate) const NAME: &str = "DefaultBinder";

pub(crate) fn new(_: &PluginArgs, _: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    Ok(Arc::new(DefaultBinder))
}

struct DefaultBinder;

plugin!(DefaultBinder, Bind);

impl Bind for DefaultBinder {
    fn bind(&self, _: &Context<'_>, _: &mut CycleState, _: &Arc<Pod>, _: &str) -> BindOutcome {
        BindOutcome::WriteBinding
    }

    fn reads_cycle_state(&self) -> bool {
        false
    }
}

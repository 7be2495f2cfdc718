//! ReservedPools: nodes of a reserved pool take only pods of certain namespaces.
//!
//! ```yaml
//! pluginConfig:
//! - name: ReservedPools
//!   args:
//!     poolLabel: example.com/pool        # the node label that names a node's pool
//!     reserved:                          # pools, and the namespaces that may use them
//!       gpu: [training, inference]
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    ActionType, Context, CycleState, EnqueueExtensions, EventRegistration, Filter, Handle,
    NodeView, Plugin, PluginArgs, PluginError, Sign, SignatureWriter, Status, extension_points,
};
use serde::Deserialize;

/// The name in configurations.
pub const NAME: &str = "ReservedPools";

/// The reason that users read when no node fits.
const REASON: &str = "node(s) were reserved for other namespaces";

/// The arguments.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Args {
    #[serde(default = "default_pool_label")]
    pool_label: String,
    #[serde(default)]
    reserved: BTreeMap<String, Vec<String>>,
}

fn default_pool_label() -> String {
    "example.com/pool".to_owned()
}

/// The plugin.
#[derive(Clone, Debug)]
struct ReservedPools(Arc<Args>);

/// Makes the plugin.
///
/// # Errors
/// If the arguments are invalid.
pub fn new(args: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let args: Args = handle.args(args)?;
    if args.pool_label.is_empty() {
        return Err(handle.invalid_arg("poolLabel", "must not be empty"));
    }
    for (pool, namespaces) in &args.reserved {
        if namespaces.is_empty() {
            let field = format!("reserved.{pool}");
            return Err(handle.invalid_arg(&field, "must name at least one namespace"));
        }
    }
    Ok(Arc::new(ReservedPools(Arc::new(args))))
}

impl Args {
    /// Whether pods of a namespace may use nodes of a pool.
    fn is_open(&self, pool: Option<&str>, namespace: &str) -> bool {
        let reserved = pool.and_then(|pool| self.reserved.get(pool));
        reserved.is_none_or(|namespaces| namespaces.iter().any(|allowed| allowed == namespace))
    }
}

impl Plugin for ReservedPools {
    fn name(&self) -> &str {
        NAME
    }

    extension_points!(Filter, EnqueueExtensions, Sign);
}

impl Filter for ReservedPools {
    fn filter(&self, _: &Context<'_>, _: &CycleState, pod: &Pod, node: &NodeView<'_>) -> Status {
        if self.0.is_open(node.labels().get(&self.0.pool_label), &pod.namespace) {
            Status::SUCCESS
        } else {
            // Evicting other pods would not help, so preemption need not look at this node.
            Status::unresolvable(REASON)
        }
    }
}

impl Sign for ReservedPools {
    /// Of the pod, the answers read the namespace alone.
    fn sign(&self, pod: &Pod, signature: &mut SignatureWriter) -> bool {
        signature.text(&pod.namespace);
        true
    }
}

impl EnqueueExtensions for ReservedPools {
    /// A rejected pod is worth a retry when a node is added or changes its labels such that the pod may use it.
    fn events_to_register(&self) -> Vec<EventRegistration> {
        let actions = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
        let args = self.0.clone();
        vec![EventRegistration::on_node(actions, move |_, pod, _, new| {
            new.is_none_or(|node| args.is_open(node.labels.get(&args.pool_label), &pod.namespace))
        })]
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::testing::{Fixture, check_contract, node, pod};
    use kube_scheduler_framework::{ClusterEvent, EventObject, EventResource};
    use serde_json::{Value, json};

    use super::*;

    fn plugin(args: Value) -> Result<Arc<dyn Plugin>, PluginError> {
        new(&args, &Handle::default())
    }

    fn gpu_for_training() -> Arc<dyn Plugin> {
        plugin(json!({"reserved": {"gpu": ["training"]}})).unwrap()
    }

    fn fixture() -> Fixture {
        Fixture::new()
            .with_node(node("plain"))
            .with_node(node("spot").label("example.com/pool", "spot"))
            .with_node(node("gpu").label("example.com/pool", "gpu"))
    }

    #[test]
    fn only_reserved_pools_are_closed_and_only_to_others() {
        let (fixture, plugin) = (fixture(), gpu_for_training());
        let ours = pod("p").namespace("training").build();
        assert_eq!(fixture.feasible(&*plugin, &ours), ["plain", "spot", "gpu"]);
        let other = pod("p").namespace("web").build();
        assert_eq!(fixture.feasible(&*plugin, &other), ["plain", "spot"]);
        let status = fixture.filter(&*plugin, &other, "gpu");
        assert_eq!(status, Status::unresolvable(REASON).from_plugin(&NAME.into()));
    }

    #[test]
    fn mistakes_in_arguments_are_named() {
        let error = |args| plugin(args).unwrap_err().to_string();
        assert!(
            error(json!({"poolLable": "x"}))
                .contains("unknown field \"poolLable\", known are \"poolLabel\", \"reserved\"")
        );
        assert!(error(json!({"poolLabel": ""})).ends_with("poolLabel: must not be empty"));
        assert!(
            error(json!({"reserved": {"gpu": []}}))
                .ends_with("reserved.gpu: must name at least one namespace")
        );
        assert!(
            error(json!({"reserved": {"gpu": 7}}))
                .contains("reserved.gpu: invalid type: integer `7`")
        );
    }

    #[test]
    fn a_node_that_opens_brings_pods_back() {
        let (fixture, plugin) = (fixture(), gpu_for_training());
        let event = ClusterEvent::new(EventResource::Node, ActionType::UPDATE_NODE_LABEL);
        let waiting = pod("p").namespace("web").build();
        let hint = |node: Arc<_>| {
            fixture.hint(&*plugin, &event, &waiting, None, Some(&EventObject::Node(node)))
        };
        assert!(!hint(node("n").label("example.com/pool", "gpu").build()));
        assert!(hint(node("n").build()));
    }

    #[test]
    fn it_keeps_its_promises() {
        let pods = ["a", "b", "training"].map(|namespace| pod("p").namespace(namespace).build());
        assert_eq!(check_contract(&*gpu_for_training(), &fixture(), &pods), []);
    }
}

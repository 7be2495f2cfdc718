//! Gang: pods of a group start together or not at all.
//!
//! A pod says by labels which gang it belongs to and how many members that needs: `example.com/gang: crew` and
//! `example.com/gang-size: "3"`. A member for which there is room keeps it and waits on Permit until that many members have
//! room; then all go. If one of them has to give up, because it waited too long or was deleted, all that wait give up
//! with it, so that half a gang never blocks a cluster.
//!
//! ```yaml
//! pluginConfig:
//! - name: Gang
//!   args:
//!     timeoutSeconds: 60                 # how long a member waits for the others
//! ```

use std::sync::Arc;
use std::time::Duration;

use kube_scheduler_framework::api::Pod;
use kube_scheduler_framework::{
    Commands, Context, CycleState, EventKind, Handle, MetricFamily, Permit, PermitDecision, Plugin,
    PluginArgs, PluginError, PluginName, PreFilter, PreFilterOutcome, Reserve, Sign,
    SignatureWriter, Status, extension_points,
};
use serde::Deserialize;

/// The name in configurations.
pub const NAME: &str = "Gang";

/// The arguments.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Args {
    gang_label: String,
    size_label: String,
    timeout_seconds: u32,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            gang_label: "example.com/gang".to_owned(),
            size_label: "example.com/gang-size".to_owned(),
            timeout_seconds: 60,
        }
    }
}

/// The plugin.
#[derive(Debug)]
struct Gang {
    args: Args,
    name: PluginName,
    decisions: MetricFamily,
}

/// A pod's gang: its name, and how many members it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Membership<'p> {
    gang: &'p str,
    size: usize,
}

/// Makes the plugin.
///
/// # Errors
/// If the arguments are invalid.
pub fn new(args: &PluginArgs, handle: &Handle) -> Result<Arc<dyn Plugin>, PluginError> {
    let args: Args = handle.args(args)?;
    if !(1..=900).contains(&args.timeout_seconds) {
        let what = format!("must be from 1 to 900, is {}", args.timeout_seconds);
        return Err(handle.invalid_arg("timeoutSeconds", what));
    }
    let help = "Decisions about members of gangs at Permit.";
    let decisions = handle.metrics().counter("gang_permit_decisions_total", help, &["decision"]);
    Ok(Arc::new(Gang {
        args,
        name: NAME.into(),
        decisions: decisions.map_err(|error| error.to_string())?,
    }))
}

impl Gang {
    /// The gang of a pod, `None` if it belongs to none. A size that is not a number is an error.
    fn membership<'p>(&self, pod: &'p Pod) -> Result<Option<Membership<'p>>, String> {
        let Some(gang) = pod.labels.get(&self.args.gang_label) else { return Ok(None) };
        let label = &self.args.size_label;
        let size = pod.labels.get(label).unwrap_or("1");
        match size.parse() {
            Ok(size) => Ok(Some(Membership { gang, size })),
            Err(_) => Err(format!("label {label}: {size:?} is not a number of pods")),
        }
    }

    fn is_member(&self, pod: &Pod, gang: &str) -> bool {
        pod.labels.get(&self.args.gang_label) == Some(gang)
    }

    /// All members of a gang that there are, pending, waiting and running, by name.
    fn members(&self, cx: &Context<'_>, namespace: &str, gang: &str) -> Vec<Arc<Pod>> {
        let mut pods = cx.pods().pods_in(namespace);
        pods.retain(|pod| self.is_member(pod, gang) && pod.deletion_requested.is_none());
        pods
    }

    /// The members of a gang that wait on Permit, without `pod` itself.
    fn waiting(&self, cx: &Context<'_>, pod: &Pod, gang: &str) -> Vec<Arc<Pod>> {
        let waiting = cx.waiting().waiting_pods().into_iter();
        waiting
            .filter(|waiting| waiting.pending_plugins.contains(&self.name))
            .map(|waiting| waiting.pod)
            .filter(|other| other.namespace == pod.namespace && other.uid != pod.uid)
            .filter(|other| self.is_member(other, gang))
            .collect()
    }

    fn count(&self, decision: &str) {
        self.decisions.with(&[decision]).inc();
    }
}

impl Plugin for Gang {
    fn name(&self) -> &str {
        NAME
    }

    extension_points!(PreFilter, Reserve, Permit, Sign);
}

/// As long as there are too few members, none needs a place.
impl PreFilter for Gang {
    fn pre_filter(&self, cx: &Context<'_>, _: &mut CycleState, pod: &Pod) -> PreFilterOutcome {
        let Membership { gang, size } = match self.membership(pod) {
            Ok(None) => return PreFilterOutcome::skip(),
            Ok(Some(membership)) => membership,
            Err(error) => return Status::unresolvable(error).into(),
        };
        let n = self.members(cx, &pod.namespace, gang).len();
        if n < size {
            return Status::unresolvable(format!("gang {gang} has {n} of {size} members")).into();
        }
        PreFilterOutcome::success()
    }
}

impl Permit for Gang {
    fn permit(
        &self,
        cx: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        _: &str,
        commands: &mut Commands,
    ) -> PermitDecision {
        let Ok(Some(Membership { gang, size })) = self.membership(pod) else {
            return PermitDecision::allow();
        };
        let members = self.members(cx, &pod.namespace, gang);
        // Who has room stands in the cluster: bound, on the way to that, waiting, or this pod.
        let (placed, pending): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|member| cx.cluster().pod(&member.uid).is_some());
        if placed.len() >= size {
            for other in self.waiting(cx, pod, gang) {
                commands.allow(&other.uid, &self.name);
            }
            self.count("allow");
            return PermitDecision::allow();
        }
        // The others need not sit out their backoff while this one holds its place.
        commands.activate(pending);
        self.count("wait");
        PermitDecision::wait(Duration::from_secs(self.args.timeout_seconds.into()))
    }
}

impl Reserve for Gang {
    fn reserve(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        _: &Arc<Pod>,
        _: &str,
        _: &mut Commands,
    ) -> Status {
        Status::SUCCESS
    }

    /// A member loses its reservation: the members that wait for it lose theirs.
    fn unreserve(
        &self,
        cx: &Context<'_>,
        _: &mut CycleState,
        pod: &Arc<Pod>,
        _: &str,
        commands: &mut Commands,
    ) {
        let Ok(Some(Membership { gang, .. })) = self.membership(pod) else { return };
        let waiting = self.waiting(cx, pod, gang);
        if waiting.is_empty() {
            return;
        }
        let note = format!("gang {gang} gives up {} places with this pod's", waiting.len());
        commands.record_event(pod, EventKind::Warning, "GangIncomplete", "Scheduling", note);
        for other in waiting {
            let message = format!("gang {gang} is incomplete: {} gave up its place", pod.name);
            commands.reject(&other.uid, &self.name, message);
        }
        self.count("giveUp");
    }

    fn reads_cycle_state(&self, _: &Pod) -> bool {
        false
    }
}

impl Sign for Gang {
    /// Pods of no gang get the same answers; a member is always looked at on its own.
    fn sign(&self, pod: &Pod, _: &mut SignatureWriter) -> bool {
        matches!(self.membership(pod), Ok(None))
    }
}

#[cfg(test)]
mod tests {
    use kube_scheduler_framework::testing::{Fixture, PodBuilder, check_contract, node, pod};
    use kube_scheduler_framework::{Code, Command};
    use serde_json::json;

    use super::*;

    fn plugin() -> Arc<dyn Plugin> {
        new(&PluginArgs::Null, &Handle::default()).unwrap()
    }

    fn member(name: &str) -> PodBuilder {
        pod(name).label("example.com/gang", "crew").label("example.com/gang-size", "3")
    }

    /// What was asked for, in short.
    fn reported(commands: &[Command]) -> Vec<String> {
        let short = |command: &Command| match command {
            Command::Allow { uid, plugin } => format!("allow {uid} for {plugin}"),
            Command::Reject { uid, plugin, message } => {
                format!("reject {uid} by {plugin}: {message}")
            }
            Command::Activate(pods) => {
                let names: Vec<&str> = pods.iter().map(|pod| &*pod.name).collect();
                format!("activate {}", names.join(" "))
            }
            Command::RecordEvent { pod, reason, note, .. } => {
                format!("{} {reason}: {note}", pod.name)
            }
            other => format!("{other:?}"),
        };
        commands.iter().map(short).collect()
    }

    #[test]
    fn too_few_members_need_no_places() {
        let plugin = plugin();
        let fixture =
            Fixture::new().with_node(node("n")).with_pod(member("a")).with_pod(member("b"));
        let (outcome, _) = fixture.pre_filter(&*plugin, &member("a").build());
        assert_eq!(outcome.status.message(), "gang crew has 2 of 3 members");
        let (outcome, _) = fixture.with_pod(member("c")).pre_filter(&*plugin, &member("a").build());
        assert!(outcome.status.is_success());
        let (outcome, _) = Fixture::new().pre_filter(&*plugin, &pod("alone").build());
        assert!(outcome.status.is_skip());
        let wrong = member("a").label("example.com/gang-size", "many").build();
        let (outcome, _) = Fixture::new().pre_filter(&*plugin, &wrong);
        assert_eq!(
            outcome.status.message(),
            "label example.com/gang-size: \"many\" is not a number of pods"
        );
    }

    #[test]
    fn the_first_members_wait_and_wake_the_others() {
        let plugin = plugin();
        let a = member("a").build();
        let fixture = Fixture::new()
            .with_node(node("n"))
            .with_pod(member("b"))
            .with_pod(member("c"))
            .with_pod(pod("stranger"))
            .with_waiting_pod(a.clone(), "n", &[]);
        let (decision, commands) = fixture.permit(&*plugin, &a, "n");
        assert_eq!(decision.status.code(), Code::Wait);
        assert_eq!(decision.timeout, Duration::from_secs(60));
        assert_eq!(reported(&commands), ["activate b c"]);
    }

    #[test]
    fn the_last_member_lets_all_go() {
        let plugin = plugin();
        let c = member("c").build();
        let fixture = Fixture::new()
            .with_node(node("n"))
            .with_pod(member("a").on("n"))
            .with_waiting_pod(member("b"), "n", &[NAME])
            .with_waiting_pod(member("other").label("example.com/gang", "mob"), "n", &[NAME])
            .with_waiting_pod(c.clone(), "n", &[]);
        let (decision, commands) = fixture.permit(&*plugin, &c, "n");
        assert!(decision.status.is_success());
        assert_eq!(reported(&commands), ["allow b-uid for Gang"]);
        let (decision, commands) = fixture.permit(&*plugin, &pod("stranger").build(), "n");
        assert!(decision.status.is_success() && commands.is_empty());
    }

    #[test]
    fn when_one_gives_up_all_do() {
        let plugin = plugin();
        let fixture = Fixture::new()
            .with_node(node("n"))
            .with_waiting_pod(member("a"), "n", &[NAME])
            .with_waiting_pod(member("b"), "n", &[NAME]);
        let commands = fixture.unreserve(&*plugin, &member("a").build(), "n");
        assert_eq!(
            reported(&commands),
            [
                "a GangIncomplete: gang crew gives up 1 places with this pod's",
                "reject b-uid by Gang: gang crew is incomplete: a gave up its place",
            ]
        );
    }

    #[test]
    fn mistakes_in_arguments_are_named() {
        let error = new(&json!({"timeoutSeconds": 0}), &Handle::default()).unwrap_err().to_string();
        assert!(error.ends_with("timeoutSeconds: must be from 1 to 900, is 0"), "{error}");
    }

    #[test]
    fn it_keeps_its_promises() {
        let fixture = Fixture::new().with_node(node("n")).with_pod(member("a").on("n"));
        let pods = [pod("p").build(), pod("q").build(), member("b").build()];
        assert_eq!(check_contract(&*plugin(), &fixture, &pods), []);
    }
}

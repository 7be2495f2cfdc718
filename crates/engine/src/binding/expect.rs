//! What plugins expect objects to become: the part of their requests that later plugins must already see.
//!
//! Invariant: a refused expectation changes nothing; it is noted, as the plugin could have known.

use std::sync::Arc;

use kube_scheduler_api_types::Pod;
use kube_scheduler_framework::{Command, Commands, ObjectWrite, PluginName};

use crate::core::Core;
use crate::effect::{Effect, PodRef, Token};

/// Does what `command` says about an object; gives back other commands.
pub(super) fn expect_object(core: &mut Core, command: Command) -> Option<Command> {
    match command {
        Command::AssumeObject(object) => {
            if let Err(error) = core.cluster.objects_mut().assume(object) {
                core.note(format!("assume: {error}"));
            }
        }
        Command::RestoreObject(object) => {
            core.cluster.objects_mut().restore(&object);
        }
        Command::AddPendingObject(object) => core.cluster.objects_mut().add_pending(object),
        Command::RemovePendingObject { group, kind, uid, for_all } => {
            let objects = core.cluster.objects_mut();
            core.released.extend(objects.remove_pending(&group, &kind, &uid, for_all));
        }
        // It concerns the queue and the tasks of other bindings, so it waits until the current input has been handled.
        Command::ConfirmObject(object) => core.confirmed.push(object),
        other => return Some(other),
    }
    None
}

/// Does what `asked` says about objects at once, and keeps all else for later.
pub(super) fn expect_at_once(core: &mut Core, asked: Commands, later: &mut Commands) {
    later.extend(asked.into_vec().into_iter().filter_map(|command| expect_object(core, command)));
}

/// Has an object written on behalf of `pod`; `awaited_by` says which plugin waits for the answer.
pub(super) fn write_object(
    core: &mut Core,
    pod: &Pod,
    write: ObjectWrite,
    awaited_by: Option<(Token, PluginName)>,
) {
    if let ObjectWrite::Delete { object, .. } = &write {
        core.cluster.objects_mut().note_deletion(object);
    }
    core.effects.push(Effect::WriteObject { pod: PodRef::from(pod), write, awaited_by });
}

/// Notes a write whose answer is not waited for, if `pod` may be tried again.
pub(super) fn note_unanswered(core: &mut Core, pod: &Pod, write: &ObjectWrite) {
    let known = core.pods.get(&pod.namespace, &pod.name);
    if known.is_some_and(|known| known.uid == pod.uid && !known.is_assigned()) {
        let revision = write.revision().map(Arc::from);
        let is_patch = matches!(write, ObjectWrite::PatchStatus { .. });
        core.cluster.objects_mut().note_unanswered(&write.key(), &pod.uid, revision, is_patch);
    }
}

//! What plugins expect objects to become: the part of their requests that later plugins must already see.
//!
//! Invariant: a refused expectation changes nothing; it is noted, as the plugin could have known.

use kube_scheduler_framework::{Command, Commands};

use crate::core::Core;

/// Does what `command` says about an object. Other commands are ignored.
pub(super) fn expect_object(core: &mut Core, command: Command) {
    match command {
        Command::AssumeObject(object) => {
            if let Err(error) = core.cluster.objects_mut().assume(object) {
                core.note(format!("assume: {error}"));
            }
        }
        Command::RestoreObject(object) => {
            core.cluster.objects_mut().restore(&object);
        }
        _ => {}
    }
}

/// Does what `asked` says about objects at once, and keeps all else for later.
pub(super) fn expect_at_once(core: &mut Core, asked: Commands, later: &mut Commands) {
    if asked.is_empty() {
        return;
    }
    for command in asked.into_vec() {
        match command {
            Command::AssumeObject(_) | Command::RestoreObject(_) => expect_object(core, command),
            other => later.push(other),
        }
    }
}

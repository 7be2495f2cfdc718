//! Which pods would be evicted for a pod, and why those.

mod compose;
mod data;
mod table;
mod visibility;

use kube_scheduler_api_types::Timestamp;
use kube_scheduler_engine::Engine;

pub use self::data::{CandidateAnswer, NodesInVain, Preemption, PreemptionChoice, VictimAnswer};
use crate::Refusal;
use crate::explanation::{ExplainOptions, Subject, found_about};
use crate::interrupt::Interrupt;

/// Says which pods an attempt at the pod would evict now, on which node, and what decided between the nodes where that would make
/// room; or where the pod fits without evictions, or why they do not help. Of `options`, only `max_examples` is used. As in an
/// explanation, a pod does not fit while its group does not; victims and candidates are those of the pod alone.
///
/// The answer is what PostFilter gives for the explanation of the pod. O(nodes × plugins), and what looking for pods to evict takes.
///
/// # Errors
/// If there is no such pod, or no profile is responsible for it.
pub fn preemption(
    engine: &mut Engine,
    subject: &Subject,
    options: ExplainOptions,
    now: Timestamp,
) -> Result<Preemption, Refusal> {
    preemption_until(engine, subject, options, &Interrupt::default(), now)
}

/// As [`preemption`]; after an `interrupt` the pod's group is not tried any more.
pub(crate) fn preemption_until(
    engine: &mut Engine,
    subject: &Subject,
    options: ExplainOptions,
    interrupt: &Interrupt,
    now: Timestamp,
) -> Result<Preemption, Refusal> {
    let found = found_about(engine, subject, now)?;
    Ok(compose::compose(engine, found, options, interrupt, now))
}
